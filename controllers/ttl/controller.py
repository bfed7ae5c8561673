"""Deletes finished Jobs when their time is over: one timer per Job, no polling."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from apis import kinds
from controllers.ttl.planner import Finished, leaves_in
from machinery import errors
from machinery.clock import Clock
from machinery.informer import Change, Informer, Key
from machinery.port import Port, Preconditions, Propagation
from machinery.runner import WorkMetrics, run_workers
from machinery.workqueue import WorkQueue

J = TypeVar("J", bound=Finished)
J_contra = TypeVar("J_contra", contravariant=True)

WORKERS = 4
"""Deletions at once."""


class Keepers(Protocol[J_contra]):
    """Who must have recorded the end of a Job before it may leave."""

    async def wait_synced(self) -> None:
        """Return once `may_leave` can answer."""
        ...

    def may_leave(self, job: J_contra) -> bool:
        """Nothing is lost with this ended Job."""
        ...

    def subscribe(self, handler: Callable[[Key], None]) -> None:
        """Call with keys of Jobs for which the answer may be another one now."""
        ...


class TtlController(Generic[J]):
    """`jobs` is the program's own informer of Jobs; without `keepers` every ended Job may leave."""

    def __init__(self, *, port: Port, jobs: Informer[J], clock: Clock, keepers: Keepers[J] | None = None) -> None:
        self._port = port
        self._jobs = jobs
        self._keepers = keepers
        self._clock = clock
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._seen: dict[str, datetime.datetime] = {}
        """By UID, when Jobs that do not say since when were first seen ended."""
        jobs.subscribe(self._changed)
        if keepers is not None:
            keepers.subscribe(self._queue.add)

    async def run(self, metrics: WorkMetrics | None = None) -> None:
        """Until cancelled."""
        await self._jobs.wait_synced()
        if self._keepers is not None:
            await self._keepers.wait_synced()
        await run_workers(self._queue, self._reconcile, workers=WORKERS, name="ttl", metrics=metrics)

    def _changed(self, change: Change[J]) -> None:
        job = change.new
        if change.old is not None and (job is None or job.uid != change.old.uid):
            self._seen.pop(change.old.uid, None)
        if job is not None and leaves_in(job, now=self._clock.now()) is not None:
            self._queue.add(change.key)

    async def _reconcile(self, key: Key) -> float | None:
        job, now = self._jobs.get(*key), self._clock.now()
        wait = leaves_in(job, now=now, seen=self._seen.get(job.uid)) if job is not None else None
        if job is not None and wait is not None and not job.transition:
            self._seen.setdefault(job.uid, now)
        if job is None or wait is None:
            return None
        if wait > 0:
            return wait
        if self._keepers is not None and not self._keepers.may_leave(job):
            return None  # whoever records its end wakes us
        try:
            await self._port.delete(
                kinds.JOB,
                job.name,
                namespace=job.namespace,
                preconditions=Preconditions(uid=job.uid),
                propagation=Propagation.FOREGROUND,
            )
        except (errors.NotFound, errors.Conflict):
            return None
        return None
