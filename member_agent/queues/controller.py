"""Keeps the default queues there and every queue's status current; existing queues' specs are never touched."""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import dataclass

from apis import kinds
from apis.vectors import EMPTY
from machinery import errors
from machinery.clock import Clock
from machinery.informer import Change, Informer
from machinery.port import PatchType, Port
from machinery.runner import WorkMetrics, run_workers
from machinery.workqueue import WorkQueue
from member_agent.queues import planner
from member_agent.settings import QueueSettings
from member_agent.views import PodView, QueueView
from policies.shapes import PodShape


@dataclass(frozen=True, slots=True)
class Stores:
    """The informers this role reads."""

    queues: Informer[QueueView]
    pods: Informer[PodView]


class QueueController:
    """The queue controller of a member."""

    def __init__(self, *, port: Port, stores: Stores, clock: Clock, settings: QueueSettings) -> None:
        self._port = port
        self._stores = stores
        self._settings = settings
        self._queue: WorkQueue[str] = WorkQueue(clock)
        self._held: dict[str, tuple[str, PodShape]] = {}
        self._used: Counter[tuple[str, PodShape]] = Counter()
        stores.queues.subscribe(self._queue_changed)
        stores.pods.subscribe(self._pod_changed)

    async def run(self, metrics: WorkMetrics | None = None) -> None:
        """Until cancelled."""
        await self._stores.queues.wait_synced()
        await self._stores.pods.wait_synced()
        for name in planner.missing(self._stores.queues.values()):
            self._queue.add(name)
        await run_workers(self._queue, self._reconcile, workers=1, name="queues", metrics=metrics)

    def _queue_changed(self, change: Change[QueueView]) -> None:
        new = change.new
        urgent = new is None or not new.state
        self._queue.add_after(change.key[1], 0.0 if urgent else self._settings.allocated_after)

    def _pod_changed(self, change: Change[PodView]) -> None:
        pod = change.new
        uid = pod.uid if pod is not None else (change.old.uid if change.old is not None else "")
        before = self._held.get(uid)
        after = (pod.queue, pod.shape) if pod is not None and pod.queue and pod.node and not pod.ended else None
        if before == after:
            return
        if before is not None:
            del self._held[uid]
            self._used[before] -= 1
            if not self._used[before]:
                del self._used[before]
        if after is not None:
            self._held[uid] = after
            self._used[after] += 1
        queues = {queue.name: queue for queue in self._stores.queues.values()}
        for held in (before, after):
            for name in planner.lineage(held[0], queues) if held else ():
                self._queue.add_after(name, self._settings.allocated_after)

    async def _reconcile(self, name: str) -> float | None:
        queue = self._stores.queues.get("", name)
        if queue is None:
            if name in planner.missing(self._stores.queues.values()):
                with contextlib.suppress(errors.AlreadyExists):
                    await self._port.create(kinds.QUEUE, planner.body(name))
            return None
        queues = {each.name: each for each in self._stores.queues.values()}
        amounts = planner.allocated(self._used, queues)
        status = planner.status_of(queue, amount=amounts.get(name, EMPTY))
        if status is not None:
            await self._write(queue, status)
        return None

    async def _write(self, queue: QueueView, status: planner.QueueStatus) -> None:
        gone = dict.fromkeys(queue.allocated)  # a merge patch drops what it names with null
        body = {
            "metadata": {"resourceVersion": queue.version},
            "status": {"state": status.state, "allocated": {**gone, **status.allocated.to_quantities()}},
        }
        with contextlib.suppress(errors.NotFound):
            await self._port.patch(kinds.QUEUE, queue.name, body, type=PatchType.MERGE, subresource="status")
