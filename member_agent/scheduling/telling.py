"""Writes what becomes of PodGroups: phase, conditions and counters into their status, why they wait into events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from apis import kinds
from machinery.clock import Clock, stamp
from machinery.events import About, EventRecorder
from machinery.informer import Informer, Key
from machinery.runner import WorkMetrics, run_workers
from machinery.workqueue import WorkQueue
from member_agent.scheduling.applier import SchedulingApplier
from member_agent.scheduling.lifecycle import GROUP, GroupEvent, GroupPhase
from member_agent.scheduling.meters import Meters
from member_agent.scheduling.patience import Patience
from member_agent.scheduling.reasons import Reason
from member_agent.scheduling.snapshot import Gangs
from member_agent.scheduling.statuses import ON_THE_WAY, UNSCHEDULABLE, event_of, session_id, status_of
from member_agent.settings import SchedulingSettings
from member_agent.views import GroupCondition, GroupStatus, GroupView, HoldRecord
from member_agent.views.waits import composed

PODS_TOLD: Final = 16
"""Pods of one gang that get an event for a reason: they all wait for the same."""
WRITERS: Final = 8
"""Statuses written at once."""


class Teller:
    """The status of every PodGroup. `later` has a round made after so many seconds; `answer` is what a wish for a hold is told,
    in the same write."""

    def __init__(
        self,
        groups: Informer[GroupView],
        *,
        gangs: Gangs,
        patience: Patience,
        applier: SchedulingApplier,
        events: EventRecorder,
        clock: Clock,
        settings: SchedulingSettings,
        later: Callable[[float], None],
        answer: Callable[[GroupView], HoldRecord | None],
        meters: Meters,
    ) -> None:
        self._groups = groups
        self._gangs = gangs
        self._patience = patience
        self._applier = applier
        self._events = events
        self._clock = clock
        self._settings = settings
        self._later = later
        self._answer = answer
        self._meters = meters
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._admitted: set[Key] = set()
        self._reasons: dict[Key, Reason] = {}
        self._left_over: dict[Key, str] = {}
        """What the pods beyond its minimum of a gang that runs were last told, in one word."""
        self._begun = stamp(clock.now())
        self._sessions = 0

    async def run(self, metrics: WorkMetrics | None = None) -> None:
        """Until cancelled."""
        await run_workers(self._queue, self._write, workers=WRITERS, name="podgroup-status", metrics=metrics)

    # --- what is to be told ------------------------------------------------------------------------------------------

    def admitted(self, key: Key) -> None:
        """A round let the group in: others wait for that word."""
        self._admitted.add(key)
        self._queue.add(key)

    def at_once(self, key: Key) -> None:
        """There is an answer that others wait for."""
        self._queue.add(key)

    def settled(self, key: Key) -> None:
        """The group is known to be let in."""
        self._admitted.discard(key)

    def forget(self, key: Key) -> None:
        """The group has gone."""
        self._admitted.discard(key)
        self._reasons.pop(key, None)
        self._left_over.pop(key, None)

    def explain(self, reasons: Mapping[Key, Reason]) -> None:
        """Remember why gangs wait; a new word is written soon, new numbers for the same word at leisure."""
        self._sessions += 1
        before, self._reasons = self._reasons, dict(reasons)
        for key, reason in reasons.items():
            known = before.get(key)
            if known != reason:
                same = known is not None and known.code == reason.code
                self._queue.add_after(key, self._settings.numbers_after if same else self._settings.reason_after)

    def look(self, key: Key) -> None:
        """Plan a write if the group's status is not what it should be: phases soon, counters at leisure."""
        group = self._groups.get(*key)
        if group is None or group.deleting:
            return
        tally = self._gangs.tally(key)
        if self._patience.look(group, tally=tally, now=self._clock.boot()):
            # An earlier round that is pending wins this timer, and says itself what is left of the time.
            self._later(self._settings.partial_after)
        event = event_of(group, tally, admitted=key in self._admitted)
        phase = GROUP.step(GroupPhase(group.phase), event, story=f"PodGroup {key[0]}/{key[1]}")
        status = group.status
        if self._answer(group) is not None:
            self._queue.add(key)
        if phase.value != group.phase:
            urgent = event is GroupEvent.ADMITTED
            self._queue.add_after(key, 0.0 if urgent else self._settings.phase_after)
        elif (status.running, status.succeeded, status.failed) != (tally.running, tally.succeeded, tally.failed):
            self._queue.add_after(key, self._settings.counters_after)

    async def _write(self, key: Key) -> float | None:
        group = self._groups.get(*key)
        if group is None or group.deleting:
            return None
        wanted: GroupStatus = status_of(
            group,
            self._gangs.tally(key),
            admitted=key in self._admitted,
            reason=self._reasons.get(key),
            now=stamp(self._clock.now()),
            session=session_id(self._begun, self._sessions),
        )
        answer = self._answer(group)
        if (wanted != group.status or answer is not None) and await self._applier.write_status(group, wanted, hold=answer):
            self._tell(group, wanted)
        self._tell_left_over(group, wanted)
        return None

    def _tell(self, group: GroupView, status: GroupStatus) -> None:
        """Events for whoever looks there: on the group for every new sentence, on its pods for every new kind of reason."""
        if status.phase == GroupPhase.RUNNING and not group.once_whole:
            self._meters.started(group, now=self._clock.now())
        before, now = (_unschedulable(each) for each in (group.status, status))
        if now is None or (before is not None and before.message == now.message):
            return
        about = About(kinds.POD_GROUP, group.namespace, group.name, group.uid, group.version)
        self._events.warn(about, reason="Unschedulable", message=now.message)
        if before is not None and before.reason == now.reason:
            return
        self._tell_pods(group, now.message)

    def _tell_left_over(self, group: GroupView, status: GroupStatus) -> None:
        """Events for the pods beyond its minimum of a gang that has it: the group's condition says that all is well."""
        key = (group.namespace, group.name)
        reason = self._reasons.get(key)
        if _unschedulable(status) is not None or not self._gangs.waiting(key):
            self._left_over.pop(key, None)
        elif reason is not None and reason.code not in ON_THE_WAY and self._left_over.get(key) != reason.code:
            self._left_over[key] = reason.code
            self._tell_pods(group, composed(reason.code, reason.sentence)[1])

    def _tell_pods(self, group: GroupView, message: str) -> None:
        waiting = self._gangs.waiting((group.namespace, group.name)).values()
        for pod in sorted(waiting, key=lambda pod: (len(pod.name), pod.name))[:PODS_TOLD]:
            about = About(kinds.POD, pod.namespace, pod.name, pod.uid, pod.version)
            self._events.warn(about, reason="FailedScheduling", message=message)


def _unschedulable(status: GroupStatus) -> GroupCondition | None:
    return next((each for each in status.conditions if each.type == UNSCHEDULABLE and each.status == "True"), None)
