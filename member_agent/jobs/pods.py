"""The pods of every Job: those that are there, kept by deltas, and those that were made and are still to be seen."""

from __future__ import annotations

from collections.abc import Iterable

from machinery.clock import Clock
from machinery.informer import Change
from member_agent.jobs.roster import Roster
from member_agent.views import JobView, PodView


class PodIndex:
    """Pods by the UID of the Job that controls them."""

    def __init__(self) -> None:
        self._rosters: dict[str, Roster] = {}

    def changed(self, change: Change[PodView]) -> None:
        """Fold one change in."""
        old, new = change.old, change.new
        if old is not None and old.owner and (new is None or not new.task or (new.uid, new.owner) != (old.uid, old.owner)):
            roster = self._rosters.get(old.owner)
            if roster is not None:
                roster.remove(old)
        if new is not None and new.owner and new.task:
            self._rosters.setdefault(new.owner, Roster()).add(new)

    def of(self, owner: str) -> Roster:
        """Pods of a Job."""
        return self._rosters.get(owner) or Roster()

    def forget(self, owner: str) -> None:
        """The Job has gone; a roster of pods that are still there stays until they are."""
        roster = self._rosters.get(owner)
        if roster is not None and not roster.pods:
            del self._rosters[owner]


class ExpectedPods:
    """Pods that were made and that no watch has shown yet, by the UID of their Job; for `patience` seconds each."""

    def __init__(self, *, clock: Clock, patience: float) -> None:
        self._clock = clock
        self._patience = patience
        self._until: dict[str, dict[str, float]] = {}

    def expect(self, job: JobView, names: Iterable[str]) -> None:
        """They are being made."""
        until = self._clock.boot() + self._patience
        self._until.setdefault(job.uid, {}).update(dict.fromkeys(names, until))

    def drop(self, owner: str, names: Iterable[str]) -> None:
        """They were seen, or could not be made."""
        expected = self._until.get(owner, {})
        for name in names:
            expected.pop(name, None)

    def of(self, job: JobView) -> frozenset[str]:
        """Names; those that have not shown up in time are let go, and made again."""
        now = self._clock.boot()
        expected = {name: until for name, until in self._until.get(job.uid, {}).items() if until > now}
        if job.uid in self._until:
            self._until[job.uid] = expected
        return frozenset(expected)

    def next(self, job: JobView) -> float | None:
        """Seconds until the first of them is let go: no event tells of that."""
        now = self._clock.boot()
        return min((until - now for until in self._until.get(job.uid, {}).values() if until > now), default=None)

    def forget(self, job: JobView) -> None:
        """The Job has gone."""
        self._until.pop(job.uid, None)
