"""Keeps the default queues there, the states of all queues, and what their status says is in them.

Two kinds of look at a queue: at its state, at once, and at its accounts, coalesced. A Queue's spec is left alone except that
one without a parent is hung from root, as upstream does; that of a Queue which the hub manages is not touched at all.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from apis import keys, kinds
from machinery.clock import Clock
from machinery.events import About, EventRecorder
from machinery.informer import Change, Informer, is_newer
from machinery.metrics import Metrics
from machinery.port import Port
from machinery.runner import run_workers
from machinery.workqueue import WorkQueue
from member_agent.queues import orders, planner
from member_agent.queues.accounts import PHASES, Accounts
from member_agent.queues.applier import QueueApplier
from member_agent.queues.lifecycle import QueueState
from member_agent.queues.orders import CommandIndex, Told
from member_agent.queues.planner import Look
from member_agent.queues.tree import Tree
from member_agent.settings import QueueSettings
from member_agent.views import GroupView, PodView, QueueView
from policies.members import CommandView

GAUGE = "volcano_queue_pod_group_{}_count"
AGAIN = 1.0
"""Seconds until a queue that somebody else wrote meanwhile is looked at again, should no event of it come before."""


@dataclass(frozen=True, slots=True)
class Stores:
    """The informers this role reads."""

    queues: Informer[QueueView]
    pods: Informer[PodView]
    groups: Informer[GroupView]
    commands: Informer[CommandView]

    async def wait_synced(self) -> None:
        """Once each has read its first list."""
        for informer in (self.queues, self.pods, self.groups, self.commands):
            await informer.wait_synced()


class At(enum.Enum):
    """What of a queue is looked at."""

    STATE = "state"
    ACCOUNTS = "accounts"


class QueueController:
    """The queue controller of a member."""

    def __init__(
        self,
        *,
        port: Port,
        stores: Stores,
        events: EventRecorder,
        clock: Clock,
        settings: QueueSettings,
        default: str = keys.DEFAULT_QUEUE,
    ) -> None:
        """`default`: the queue of pods that name none."""
        self._default = default
        self._stores = stores
        self._events = events
        self._settings = settings
        self._applier = QueueApplier(port)
        self._queue: WorkQueue[tuple[str, At]] = WorkQueue(clock)
        self._tree = Tree()
        self._accounts = Accounts()
        self._commands = CommandIndex()
        self._complaints: dict[str, tuple[str, Told]] = {}
        self._written: dict[str, str] = {}
        self._metrics: Metrics | None = None
        stores.queues.subscribe(self._queue_changed)
        stores.pods.subscribe(self._pod_changed)
        stores.groups.subscribe(self._group_changed)
        stores.commands.subscribe(self._command_changed)

    async def run(self, metrics: Metrics | None = None) -> None:
        """Until cancelled."""
        self._metrics = metrics
        await self._stores.wait_synced()
        for name in planner.missing(self._stores.queues.values(), default=self._default):
            self._queue.add((name, At.STATE))
        await run_workers(self._queue, self._reconcile, workers=self._settings.workers, name="queues", metrics=metrics)

    # --- waking ------------------------------------------------------------------------------------------------------

    def _queue_changed(self, change: Change[QueueView]) -> None:
        name, old, new = change.key[1], change.old, change.new
        self._queue.add((name, At.STATE))
        moved = self._tree.changed(name, queue=new)
        for each in moved:
            self._queue.add((each, At.STATE))  # it may be in a loop now, or out of one
        self._count((name, *moved))
        if moved or (old.state if old else "") != (new.state if new else ""):
            for child in self._tree.children(name):
                self._queue.add((child, At.STATE))

    def _pod_changed(self, change: Change[PodView]) -> None:
        for name in self._accounts.pod_changed(change):
            self._count(self._tree.lineage(name))

    def _group_changed(self, change: Change[GroupView]) -> None:
        for name in self._accounts.group_changed(change):
            self._count((name,))
            queue = self._stores.queues.get("", name)
            if queue is not None and queue.state == QueueState.CLOSING and not self._accounts.busy(name):
                self._queue.add((name, At.STATE))

    def _command_changed(self, change: Change[CommandView]) -> None:
        name = self._commands.changed(change)
        if name and change.new is not None:
            self._queue.add((name, At.STATE))

    def _count(self, names: Iterable[str]) -> None:
        for name in names:
            self._queue.add_after((name, At.ACCOUNTS), self._settings.allocated_after)

    # --- one queue ---------------------------------------------------------------------------------------------------

    async def _reconcile(self, key: tuple[str, At]) -> float | None:
        name, at = key
        queue = self._stores.queues.get("", name)
        if at is At.ACCOUNTS:
            await self._account(name, queue)
        elif queue is None:
            await self._absent(name)
        elif is_newer(self._written.pop(name, ""), queue.version):
            return AGAIN  # what we wrote is on its way here; it is waited for once
        else:
            return await self._settle(queue)
        return None

    async def _settle(self, queue: QueueView) -> float | None:
        """Writes first, Commands then: an order that was written and is still there is found done by the next look."""
        self._complain(queue)
        plan = planner.plan(
            Look(
                queue=queue,
                above=planner.above(queue.name, tree=self._tree, queues=self._named),
                commands=self._commands.of(queue.name),
                busy=self._accounts.busy(queue.name),
            )
        )
        version = await self._applier.commit(queue.name, plan.steps, version=queue.version)
        if version is None:
            return AGAIN
        self._written[queue.name] = version
        about = _about(queue)
        for command, told in plan.dismissed:
            await self._dismiss(command, about, told)
        self._tell(about, plan.told)
        hung = await self._applier.commit(queue.name, plan.later, version=version)
        self._written[queue.name] = hung or version
        return None if hung else AGAIN

    async def _absent(self, name: str) -> None:
        """A queue that is not there: made if it is one of ours, and Commands for it have nobody to be carried out on."""
        if name in planner.missing(self._stores.queues.values(), default=self._default):
            await self._applier.make(name)
            return
        self._complaints.pop(name, None)
        self._written.pop(name, None)
        commands = self._commands.of(name)
        if commands and not await self._applier.exists(name):
            for each in commands:
                about = About(kinds.COMMAND, each.namespace, each.name, each.uid, each.version)
                await self._dismiss(each, about, orders.without_target(each))

    async def _account(self, name: str, queue: QueueView | None) -> None:
        counts = self._accounts.counts(name)
        self._measure(name, {} if queue is None else {phase: getattr(counts, phase) for phase in map(str.lower, PHASES)})
        if queue is None or queue.deleting:
            return
        allocated = self._accounts.allocated(self._tree.under(name))
        if (queue.allocated, queue.counts) != (allocated, counts):
            await self._applier.account(queue, allocated=allocated, counts=counts)

    def _named(self, name: str) -> QueueView | None:
        return self._stores.queues.get("", name)

    # --- telling -----------------------------------------------------------------------------------------------------

    async def _dismiss(self, command: CommandView, about: About, told: Told) -> None:
        """Whoever deletes a Command says what became of it."""
        if await self._applier.delete(command):
            self._tell(about, (told,))
        self._commands.deleted(command)

    def _tell(self, about: About, told: Iterable[Told]) -> None:
        for each in told:
            self._events.record(about, reason=each.reason, message=each.message, severity=each.severity)

    def _complain(self, queue: QueueView) -> None:
        """Once for each thing that is wrong."""
        found = planner.complaint(queue, tree=self._tree)
        if found is None:
            self._complaints.pop(queue.name, None)
        elif self._complaints.get(queue.name) != (queue.uid, found):
            self._complaints[queue.name] = (queue.uid, found)
            self._tell(_about(queue), (found,))

    def _measure(self, name: str, counts: dict[str, int]) -> None:
        if self._metrics is None:
            return
        for phase in map(str.lower, PHASES):
            metric = GAUGE.format(phase)
            if phase in counts:
                text = f"PodGroups of a queue that are {phase}."
                self._metrics.gauge(metric, text, value=counts[phase], queue_name=name)
            else:
                self._metrics.forget(metric, queue_name=name)


def _about(queue: QueueView) -> About:
    return About(kinds.QUEUE, "", queue.name, queue.uid, queue.version)
