"""Keeps holds current for the scheduler: what informers say of their Jobs, and giving up when the hub is away for too long."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from machinery.clock import Clock
from machinery.informer import Change, Informer, Key
from machinery.runner import WorkMetrics, run_workers
from machinery.workqueue import WorkQueue
from member_agent.inventory import Inventory
from member_agent.scheduling.applier import SchedulingApplier
from member_agent.scheduling.holds import HoldEvent, Holds, may
from member_agent.views import GroupView, HoldRecord, JobView, PodView

AGAIN: Final = 1.0
"""Seconds until a group that somebody else wrote meanwhile is looked at again, should no event of it come before."""


class Holding:
    """The holds of a scheduler as far as they are a matter of events and time. `heard`: when the hub last answered, boot clock;
    `patience`: seconds that a hold outlives that."""

    def __init__(
        self,
        groups: Informer[GroupView],
        *,
        inventory: Inventory,
        pods: Callable[[Key], Mapping[str, PodView]],
        applier: SchedulingApplier,
        clock: Clock,
        heard: Callable[[], float],
        patience: float,
        wake: Callable[[], None],
    ) -> None:
        self._groups = groups
        self._applier = applier
        self._clock = clock
        self._heard = heard
        self._patience = patience
        self._wake = wake
        self._jobs: dict[str, JobView] = {}
        self._abandoned: WorkQueue[Key] = WorkQueue(clock)
        self.holds = Holds(inventory, job=self._jobs.get, pods=pods)

    async def run(self, metrics: WorkMetrics | None = None) -> None:
        """Until cancelled."""
        await run_workers(self._abandoned, self._abandon, workers=2, name="holds", metrics=metrics)

    def job_changed(self, change: Change[JobView]) -> None:
        """Fold one change of a Job in: only runs of the hub prepare."""
        job = change.new or change.old
        if job is None or job.record is None:
            return
        known = self._jobs.get(job.uid)
        if change.new is None:
            self._jobs.pop(job.uid, None)
        else:
            # Released, it is what it was before: its pods go onto what is held for them.
            self._jobs[job.uid] = replace(job, drafts=known.drafts) if known is not None and not job.drafts else job
        before = self.holds.version
        self.holds.job_changed(self._jobs.get(job.uid, job))
        if self.holds.version != before or self.holds.wants(job.uid):
            self._wake()

    def overdue(self, *, now: float) -> float | None:
        """Have holds given up that outlived their time without the hub; the seconds until the next one is due."""
        waiting = self.holds.waiting_for_the_hub()
        if not waiting:
            return None
        left = self._heard() + self._patience - now
        if left > 0:
            return left
        for group in waiting:
            self._abandoned.add((group.namespace, group.name))
        return None

    async def _abandon(self, key: Key) -> float | None:
        """Store that the hold is given up, and only then let the room go: a release that comes later finds that word."""
        group = self._groups.get(*key)
        away = self._clock.boot() - self._heard()
        if group is None or not may(group, HoldEvent.ABANDONED):
            return None
        if away < self._patience:
            self._wake()  # it was heard of again; the round says what is left of the time
            return None
        record = HoldRecord(group.hold_wanted, dropped=f"the hub was away for {away:.0f} s")
        if not await self._applier.drop_hold(group, record):
            return AGAIN
        self.holds.dropped(key)
        self._wake()
        return None
