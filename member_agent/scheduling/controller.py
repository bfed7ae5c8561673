"""Watches what the scheduler looks at; wakes a round when something changed; hands the plan to the applier.

Nothing polls: a round is made when an event could change its answer, events that come together make one round.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from machinery.clock import Clock, stamp
from machinery.informer import Change, Informer, Key
from machinery.port import Port
from machinery.runner import WorkMetrics, run_workers
from machinery.workqueue import WorkQueue
from member_agent.inventory import Inventory
from member_agent.scheduling.applier import Bound, SchedulingApplier
from member_agent.scheduling.lifecycle import GROUP, GroupEvent, GroupPhase
from member_agent.scheduling.planner import Binding, Reason, event_of, plan, status_of
from member_agent.scheduling.snapshot import Gangs
from member_agent.settings import SchedulingSettings
from member_agent.views import GroupStatus, GroupView, NodeView, PodView, PriorityView, QueueView

ROUND = "round"


@dataclass(frozen=True, slots=True)
class Stores:
    """The informers this role reads."""

    pods: Informer[PodView]
    nodes: Informer[NodeView]
    groups: Informer[GroupView]
    queues: Informer[QueueView]
    priorities: Informer[PriorityView]


class SchedulingController:
    """The gang scheduler of a member. `runs(pod)` is false for a pod of a run that is being stopped: it gets no node."""

    def __init__(
        self,
        *,
        port: Port,
        stores: Stores,
        inventory: Inventory,
        clock: Clock,
        settings: SchedulingSettings,
        runs: Callable[[PodView], bool],
    ) -> None:
        self._stores = stores
        self._inventory = inventory
        self._clock = clock
        self._settings = settings
        self._runs = runs
        self._gangs = Gangs(inventory, scheduler=settings.scheduler_name)
        self._applier = SchedulingApplier(port)
        self._rounds: WorkQueue[str] = WorkQueue(clock)
        self._binds: WorkQueue[str] = WorkQueue(clock)
        self._statuses: WorkQueue[Key] = WorkQueue(clock)
        self._bindings: dict[str, Binding] = {}
        self._failures: dict[str, tuple[int, float]] = {}
        self._pending: dict[Key, GroupView] = {}
        self._admitted: set[Key] = set()
        self._reasons: dict[Key, Reason] = {}
        stores.nodes.subscribe(self._node_changed)
        stores.pods.subscribe(self._pod_changed)
        stores.groups.subscribe(self._group_changed)
        stores.queues.subscribe(self._queue_changed)
        stores.priorities.subscribe(lambda _: self._wake())

    async def run(self, metrics: WorkMetrics | None = None) -> None:
        """Until cancelled."""
        for informer in (
            self._stores.nodes,
            self._stores.pods,
            self._stores.groups,
            self._stores.queues,
            self._stores.priorities,
        ):
            await informer.wait_synced()
        async with asyncio.TaskGroup() as group:
            group.create_task(run_workers(self._rounds, self._round, workers=1, name="scheduling", metrics=metrics))
            group.create_task(
                run_workers(self._binds, self._bind, workers=self._settings.binds_at_once, name="binding", metrics=metrics)
            )
            group.create_task(run_workers(self._statuses, self._status, workers=8, name="podgroup-status", metrics=metrics))

    # --- waking ------------------------------------------------------------------------------------------------------

    def _wake(self, seconds: float = 0.0) -> None:
        self._rounds.add_after(ROUND, max(seconds, self._settings.coalesce))

    def _node_changed(self, change: Change[NodeView]) -> None:
        before = self._inventory.layout_version
        self._inventory.node_changed(change)
        if self._inventory.layout_version != before:
            self._wake()

    def _pod_changed(self, change: Change[PodView]) -> None:
        before = self._inventory.version
        self._inventory.pod_changed(change)
        key = self._gangs.pod_changed(change)
        pod = change.new
        if pod is None and change.old is not None:
            self._failures.pop(change.old.uid, None)
        waits = pod is not None and not pod.node and not pod.ended and not self._inventory.assumed(pod.uid)
        freed = self._inventory.version != before and (pod is None or pod.ended)
        if (key is not None and waits) or freed or (pod is None and key is not None):
            self._wake()
        if key is not None:
            self._look(key)

    def _group_changed(self, change: Change[GroupView]) -> None:
        group = change.new
        if group is None:
            self._pending.pop(change.key, None)
            self._admitted.discard(change.key)
            self._reasons.pop(change.key, None)
            return
        old = change.old
        if group.phase in (GroupPhase.RUNNING, GroupPhase.COMPLETED):
            self._pending.pop(change.key, None)
        else:
            self._pending[change.key] = group
        if group.phase != GroupPhase.PENDING:
            self._admitted.discard(change.key)
        if old is None or old.phase != group.phase or old.min_member != group.min_member:
            self._wake()
        self._look(change.key)

    def _queue_changed(self, change: Change[QueueView]) -> None:
        if change.old is None or change.new is None or change.old.state != change.new.state:
            self._wake()

    # --- rounds ------------------------------------------------------------------------------------------------------

    async def _round(self, _: str) -> float | None:
        snapshot = self._gangs.freeze(
            groups=lambda key: self._stores.groups.get(*key),
            pending=self._pending,
            priority=self._priority,
            queues={queue.name: queue for queue in self._stores.queues.values()},
            held_back=self._held_back,
        )
        decided = plan(snapshot)
        for binding in decided.bindings:
            self._inventory.assume(binding.pod, node=binding.node)
            self._bindings[binding.pod.uid] = binding
            self._binds.add(binding.pod.uid)
        for key in decided.admitted:
            self._admitted.add(key)
            self._statuses.add(key)
        self._explain(decided.waiting)
        return None

    def _priority(self, name: str) -> int:
        found = self._stores.priorities.get("", name) if name else None
        return found.value if found else 0

    def _held_back(self, pod: PodView) -> bool:
        """Its Job is being deleted, or its last binding failed a moment ago."""
        if not self._runs(pod):
            return True
        failure = self._failures.get(pod.uid)
        return failure is not None and failure[1] > self._clock.boot()

    def _explain(self, reasons: Mapping[Key, Reason]) -> None:
        """Remember why gangs wait; a new word is written soon, new numbers for the same word at leisure."""
        before, self._reasons = self._reasons, dict(reasons)
        for key, reason in reasons.items():
            known = before.get(key)
            if known != reason:
                same = known is not None and known.code == reason.code
                self._statuses.add_after(key, self._settings.numbers_after if same else self._settings.reason_after)

    # --- binding -----------------------------------------------------------------------------------------------------

    async def _bind(self, uid: str) -> float | None:
        binding = self._bindings.get(uid)
        if binding is None:
            return None
        if not self._runs(binding.pod):
            outcome, message = Bound.REFUSED, "its Job is being deleted"
        else:
            outcome, message = await self._applier.bind(binding)
        del self._bindings[uid]
        if outcome is Bound.REFUSED:
            self._refused(binding, message)
        else:
            self._failures.pop(uid, None)
            self._look((binding.pod.namespace, binding.pod.group))
        return None

    def _refused(self, binding: Binding, message: str) -> None:
        """A fact for the next round: the room is free again, and the pod waits a little longer each time."""
        uid = binding.pod.uid
        count = self._failures.get(uid, (0, 0.0))[0] + 1
        delay = min(self._settings.bind_retry * 2.0 ** (count - 1), self._settings.bind_retry_limit)
        self._failures[uid] = (count, self._clock.boot() + delay)
        self._inventory.forget(uid)
        key = (binding.pod.namespace, binding.pod.group)
        self._reasons[key] = Reason("BindRefused", f"pod {binding.pod.name} on node {binding.node}: {message}")
        self._statuses.add_after(key, self._settings.reason_after)
        self._wake(delay)

    # --- status ------------------------------------------------------------------------------------------------------

    def _look(self, key: Key) -> None:
        """Plan a write if the group's status is not what it should be: phases soon, counters at leisure."""
        group = self._stores.groups.get(*key)
        if group is None or group.deleting:
            return
        tally = self._gangs.tally(key)
        event = event_of(group, tally, admitted=key in self._admitted)
        phase = GROUP.step(GroupPhase(group.phase), event, story=f"PodGroup {key[0]}/{key[1]}")
        status = group.status
        if phase.value != group.phase:
            urgent = event is GroupEvent.ADMITTED
            self._statuses.add_after(key, 0.0 if urgent else self._settings.phase_after)
        elif (status.running, status.succeeded, status.failed) != (tally.running, tally.succeeded, tally.failed):
            self._statuses.add_after(key, self._settings.counters_after)

    async def _status(self, key: Key) -> float | None:
        group = self._stores.groups.get(*key)
        if group is None or group.deleting:
            return None
        wanted: GroupStatus = status_of(
            group,
            self._gangs.tally(key),
            admitted=key in self._admitted,
            reason=self._reasons.get(key),
            now=stamp(self._clock.now()),
        )
        if wanted != group.status:
            await self._applier.write_status(group, wanted)
        return None
