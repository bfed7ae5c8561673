"""Deletes finished Jobs when their time is over: one timer per Job, no polling."""

from __future__ import annotations

from typing import Generic, TypeVar

from apis import kinds
from controllers.ttl.planner import Finished, leaves_in
from machinery import errors
from machinery.clock import Clock
from machinery.informer import Change, Informer, Key
from machinery.port import Port, Preconditions, Propagation
from machinery.runner import run_workers
from machinery.workqueue import WorkQueue

J = TypeVar("J", bound=Finished)

WORKERS = 4
"""Deletions at once."""


class TtlController(Generic[J]):
    """`jobs` is the program's own informer of Jobs."""

    def __init__(self, *, port: Port, jobs: Informer[J], clock: Clock) -> None:
        self._port = port
        self._jobs = jobs
        self._clock = clock
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        jobs.subscribe(self._changed)

    async def run(self) -> None:
        """Until cancelled."""
        await self._jobs.wait_synced()
        await run_workers(self._queue, self._reconcile, workers=WORKERS, name="ttl")

    def _changed(self, change: Change[J]) -> None:
        job = change.new
        if job is not None and leaves_in(job, now=self._clock.now()) is not None:
            self._queue.add(change.key)

    async def _reconcile(self, key: Key) -> float | None:
        job = self._jobs.get(*key)
        wait = leaves_in(job, now=self._clock.now()) if job is not None else None
        if job is None or wait is None:
            return None
        if wait > 0:
            return wait
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
