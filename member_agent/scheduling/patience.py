"""Who waits although there may be room, and until when: pods whose binding was refused, and gangs that stand half bound.

A gang is bound by requests of their own, so that one of them may be refused: then part of the gang holds nodes and does
nothing. The rest is tried again with a growing pause; a gang that stays partial for too long gives its nodes back and is
tried again as a whole. Times are boot-clock seconds; every wait has an end that `soonest` names, so that nothing waits for
an event that never comes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from machinery.informer import Key
from member_agent.scheduling.decisions import Binding
from member_agent.scheduling.reasons import Reason
from member_agent.scheduling.snapshot import Tally, gang_key
from member_agent.settings import SchedulingSettings
from member_agent.views import GroupView, PodView

ENDLESS = 32
"""Doublings after which a pause has long met its limit."""


@dataclass(slots=True)
class Hold:
    """A pause after so many failures in a row, and why."""

    failures: int
    until: float
    reason: Reason


class Patience:
    """The pauses of one scheduler. All of it is found out again by a successor."""

    def __init__(self, settings: SchedulingSettings) -> None:
        self._settings = settings
        self._pods: dict[str, tuple[Key, Hold]] = {}
        self._gangs: dict[Key, Hold] = {}
        self._partial: dict[Key, float] = {}

    # --- bindings ----------------------------------------------------------------------------------------------------

    def refused(self, binding: Binding, message: str, *, tally: Tally, minimum: int, now: float) -> None:
        """A binding was refused: its pod waits a little longer each time."""
        pod = binding.pod
        before = self._pods.get(pod.uid)
        failures = before[1].failures + 1 if before is not None else 1
        pause = _pause(self._settings.bind_retry, failures, limit=self._settings.bind_retry_limit)
        text = f"pod {pod.name} on node {binding.node}: {message}"
        if minimum > 1:
            text = f"{tally.bound} of {minimum} pods of the gang have nodes; {text}"
        reason = Reason("BindRefused", text)
        self._pods[pod.uid] = (gang_key(pod), Hold(failures, now + pause, reason))

    def forget_pod(self, uid: str) -> None:
        """It is bound, or has gone."""
        self._pods.pop(uid, None)

    def held(self, pod: PodView, *, now: float) -> bool:
        """The pod is not to be bound yet."""
        one = self._pods.get(pod.uid)
        return (one is not None and one[1].until > now) or self.resting(gang_key(pod), now=now)

    def resting(self, key: Key, *, now: float) -> bool:
        """The gang gave its nodes back a moment ago: meanwhile they are for others."""
        gang = self._gangs.get(key)
        return gang is not None and gang.until > now

    # --- partial gangs -----------------------------------------------------------------------------------------------

    def look(self, group: GroupView, *, tally: Tally, now: float) -> bool:
        """Note whether the gang stands half bound; whether that is news that somebody must come back for."""
        key = (group.namespace, group.name)
        whole = tally.bound >= group.min_member
        if whole and tally.bound:
            self._gangs.pop(key, None)
        if whole or not tally.bound or group.once_whole:
            self._partial.pop(key, None)
            return False
        if key in self._partial:
            return False
        self._partial[key] = now
        return True

    def partial(self) -> list[Key]:
        """Gangs that hold fewer nodes than their minimum and never held it, in order."""
        return sorted(self._partial)

    def overdue(self, *, now: float) -> list[Key]:
        """Gangs that have been partial for too long, in order."""
        return sorted(key for key, since in self._partial.items() if since + self._settings.partial_after <= now)

    def released(self, key: Key, *, tally: Tally, minimum: int, now: float) -> None:
        """The gang gave its nodes back; it is tried again as a whole after a pause that doubles."""
        before = self._gangs.get(key)
        failures = before.failures + 1 if before is not None else 1
        pause = _pause(self._settings.partial_pause, failures, limit=self._settings.partial_pause_limit)
        text = (
            f"only {tally.bound} of {minimum} pods of the gang had nodes after {self._settings.partial_after:.0f} s: "
            f"they were given back, the whole gang is tried again in {pause:.0f} s"
        )
        last = self._last_refusal(key)
        self._gangs[key] = Hold(failures, now + pause, Reason("GangReleased", f"{text}; {last}" if last else text))
        self._partial.pop(key, None)

    def postpone(self, key: Key, *, now: float) -> None:
        """The gang cannot be released: look again after the same time."""
        self._partial[key] = now

    def forget_gang(self, key: Key) -> None:
        """Its group has gone."""
        self._gangs.pop(key, None)
        self._partial.pop(key, None)

    def _last_refusal(self, key: Key) -> str:
        return next((hold.reason.sentence for gang, hold in self._pods.values() if gang == key), "")

    # --- what follows ------------------------------------------------------------------------------------------------

    def reasons(self, *, now: float) -> Mapping[Key, Reason]:
        """Why gangs are held, by gang: they stay said for as long as the pause lasts."""
        found = {key: hold.reason for key, hold in self._pods.values() if hold.until > now}
        return found | {key: hold.reason for key, hold in self._gangs.items() if hold.until > now}

    def soonest(self, *, now: float) -> float | None:
        """Seconds until the first pause ends or the first partial gang is overdue; None when nothing waits for time."""
        ends = [*self._ends(), *(since + self._settings.partial_after for since in self._partial.values())]
        return min((end - now for end in ends if end > now), default=None)

    def _ends(self) -> Iterable[float]:
        yield from (hold.until for _, hold in self._pods.values())
        yield from (hold.until for hold in self._gangs.values())


def _pause(first: float, failures: int, *, limit: float) -> float:
    """`first` doubled with every failure after the first, at most `limit`."""
    return min(first * 2.0 ** min(failures - 1, ENDLESS), limit)
