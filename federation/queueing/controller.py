"""Hub Queues: `root`, and `default` under it, are there; every Queue has a state; Commands open and close them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from apis import keys, kinds
from machinery.clock import Clock
from machinery.errors import AlreadyExists, Conflict, NotFound
from machinery.events import About, EventRecorder
from machinery.informer import Change, Informer, Informers
from machinery.port import PatchType, Port, Preconditions
from machinery.runner import WorkMetrics, run_workers
from machinery.workqueue import WorkQueue
from policies import queueing
from policies.members import CommandView, QueueView, project_command, project_queue
from policies.queueing import QueueOrder
from policies.views import JobView, Projections

BUILT_IN: Final[dict[str, dict[str, Any]]] = {
    keys.ROOT_QUEUE: {"weight": 1, "reclaimable": False},
    keys.DEFAULT_QUEUE: {"weight": 1, "reclaimable": True, "parent": keys.ROOT_QUEUE},
}


class QueueingController:
    """Keeps the two built-in Queues, and the state of all. Keys are names of Queues."""

    def __init__(
        self, *, port: Port, informers: Informers, projections: Projections, events: EventRecorder, clock: Clock
    ) -> None:
        self._port = port
        self._events = events
        self._queues: Informer[QueueView] = informers.add(kinds.QUEUE, project_queue)
        self._jobs: Informer[JobView] = informers.add(kinds.JOB, projections.job)
        self._commands: Informer[CommandView] = informers.add(kinds.COMMAND, project_command)
        self._work: WorkQueue[str] = WorkQueue(clock)
        self._unfinished: dict[str, set[str]] = {}
        """UIDs of Jobs that have not ended, by Queue."""

    async def run(self, metrics: WorkMetrics | None = None) -> None:
        """Until cancelled."""
        for informer in (self._queues, self._jobs, self._commands):
            await informer.wait_synced()
        for name in BUILT_IN:
            self._work.add(name)
        self._jobs.subscribe(self._job_changed)
        self._queues.subscribe(self._queue_changed)
        self._commands.subscribe(self._command_changed)
        await run_workers(self._work, self._reconcile, workers=2, name="queueing", metrics=metrics)

    # --- waking ------------------------------------------------------------------------------------------------------

    def _queue_changed(self, change: Change[QueueView]) -> None:
        self._work.add(change.key[1])

    def _command_changed(self, change: Change[CommandView]) -> None:
        command = change.new
        if command is not None and command.target[0] == kinds.QUEUE.kind:
            self._work.add(command.target[1])

    def _job_changed(self, change: Change[JobView]) -> None:
        old, new = change.old, change.new
        if new is not None and not new.ended:
            self._unfinished.setdefault(new.queue, set()).add(new.uid)
            if old is None or (old.uid, old.queue) == (new.uid, new.queue):
                return
        if old is not None:
            self._unfinished.get(old.queue, set()).discard(old.uid)
            for name in queueing.chain(old.queue, queues=self._by_name()):
                queue = self._queues.get(None, name)
                if queue is not None and queue.state == queueing.CLOSING:
                    self._work.add(name)

    def _by_name(self) -> dict[str, QueueView]:
        return {queue.name: queue for queue in self._queues.values()}

    # --- one Queue ---------------------------------------------------------------------------------------------------

    async def _reconcile(self, name: str) -> None:
        """Write the state first, delete its Commands then: an order to a Queue says how it shall be, so that doing it again
        after a crash changes nothing, and the newest of several counts."""
        queue = self._queues.get(None, name)
        commands = sorted(self._commands_for(name), key=lambda each: each.order)
        if queue is None and name in BUILT_IN:
            await self._create(name)
        if queue is None and (not commands or await self._exists(name)):
            return  # its event brings us here again
        orders = [each for each in commands if queue is not None and self._heeded(each, queue)]
        if queue is not None and not queue.deleting:
            order = QueueOrder(orders[-1].action) if orders else None
            state = queueing.state_of(queue, order=order, unfinished=self._busy(name))
            if state != queue.state and not await self._write(queue, state):
                return  # what is newer comes here again, and finds the Commands still there
        for command in commands:
            await self._take(command, queue)

    async def _exists(self, name: str) -> bool:
        """By a quorum read: a store that lags proves nothing."""
        try:
            await self._port.get(kinds.QUEUE, name)
        except NotFound:
            return False
        return True

    def _commands_for(self, name: str) -> Iterable[CommandView]:
        return (each for each in self._commands.values() if each.target[:2] == (kinds.QUEUE.kind, name))

    def _heeded(self, command: CommandView, queue: QueueView) -> bool:
        return not self._why_not(command, queue)[0]

    def _why_not(self, command: CommandView, queue: QueueView | None) -> tuple[str, str]:
        """Reason and text for a Command that is not carried out; both empty for one that is."""
        if queue is None or command.target[2] not in ("", queue.uid):
            return "CommandWithoutTarget", "there is no such Queue with the UID that it names"
        if command.action not in QueueOrder.__members__.values():
            return "CommandNotSupported", f"a Queue takes {' and '.join(QueueOrder)} only; nothing was done"
        if command.action == QueueOrder.CLOSE and queue.name == keys.ROOT_QUEUE:
            return "CommandRefused", "the root queue cannot be closed"
        return "", ""

    def _busy(self, name: str) -> bool:
        """A Job of the Queue, or of one under it, has not ended."""
        queues = self._by_name()
        return any(uids and name in queueing.chain(each, queues=queues) for each, uids in self._unfinished.items())

    async def _take(self, command: CommandView, queue: QueueView | None) -> None:
        """Delete a Command, and say so where nothing was done."""
        try:
            await self._port.delete(
                kinds.COMMAND, command.name, namespace=command.namespace, preconditions=Preconditions(uid=command.uid)
            )
        except NotFound:
            return
        reason, text = self._why_not(command, queue)
        if not reason:
            return
        about = About(kinds.COMMAND, command.namespace, command.name, command.uid, command.version)
        if queue is not None:
            about = About(kinds.QUEUE, "", queue.name, queue.uid, queue.version)
        self._events.warn(about, reason=reason, message=f"{command.action} of Command {command.name}: {text}")

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

    async def _write(self, queue: QueueView, state: str) -> bool:
        """At the version seen only: a state that somebody gave it meanwhile stays, and what is newer comes here again."""
        body = {"metadata": {"resourceVersion": queue.version}, "status": {"state": state}}
        try:
            await self._port.patch(kinds.QUEUE, queue.name, body, type=PatchType.MERGE, subresource="status")
        except (NotFound, Conflict):
            return False
        return True
