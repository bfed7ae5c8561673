"""Hub Queues that must be there: `root`, and `default` under it; and the state of Queues that nobody has given one."""

from __future__ import annotations

from typing import Any, Final

from apis import keys, kinds
from machinery.clock import Clock
from machinery.errors import AlreadyExists, Conflict, NotFound
from machinery.informer import Change, Informer, Informers
from machinery.port import PatchType, Port
from machinery.runner import run_workers
from machinery.workqueue import WorkQueue
from policies.members import QueueView, project_queue

BUILT_IN: Final[dict[str, dict[str, Any]]] = {
    keys.ROOT_QUEUE: {"weight": 1, "reclaimable": False},
    keys.DEFAULT_QUEUE: {"weight": 1, "reclaimable": True, "parent": keys.ROOT_QUEUE},
}


class QueueingController:
    """Keeps the two built-in Queues and opens new ones."""

    def __init__(self, *, port: Port, informers: Informers, clock: Clock) -> None:
        self._port = port
        self._queues: Informer[QueueView] = informers.add(kinds.QUEUE, project_queue)
        self._work: WorkQueue[str] = WorkQueue(clock)

    async def run(self) -> None:
        """Until cancelled."""
        await self._queues.wait_synced()
        for name in BUILT_IN:
            self._work.add(name)
        self._queues.subscribe(self._changed)
        await run_workers(self._work, self._reconcile, workers=2, name="queueing")

    def _changed(self, change: Change[QueueView]) -> None:
        self._work.add(change.key[1])

    async def _reconcile(self, name: str) -> None:
        queue = self._queues.get(None, name)
        if queue is None and name in BUILT_IN:
            await self._create(name)
        elif queue is not None and not queue.state and not queue.deleting:
            await self._open(queue)

    async def _create(self, name: str) -> None:
        body = {
            "apiVersion": kinds.QUEUE.api_version,
            "kind": kinds.QUEUE.kind,
            "metadata": {"name": name},
            "spec": BUILT_IN[name],
        }
        try:
            await self._port.create(kinds.QUEUE, body)
        except AlreadyExists:
            return

    async def _open(self, queue: QueueView) -> None:
        """At the version seen only: a state that somebody gave it meanwhile stays, and what is newer comes here again."""
        body = {"metadata": {"resourceVersion": queue.version}, "status": {"state": "Open"}}
        try:
            await self._port.patch(kinds.QUEUE, queue.name, body, type=PatchType.MERGE, subresource="status")
        except (NotFound, Conflict):
            return
