"""Watches what the scheduler looks at; wakes a round when something changed; hands the plan to the applier.

Nothing polls: a round is made when an event could change its answer, events that come together make one round.
"""

from __future__ import annotations

import asyncio
import dataclasses
import math
from collections.abc import Callable, Mapping

from apis.vectors import EMPTY
from machinery.clock import Clock
from machinery.events import EventRecorder
from machinery.informer import Change, Key
from machinery.metrics import Metrics
from machinery.port import Port
from machinery.runner import run_workers
from machinery.workqueue import WorkQueue
from member_agent.inventory import Inventory
from member_agent.scheduling.applier import SchedulingApplier
from member_agent.scheduling.binding import Binder
from member_agent.scheduling.configuration import Configuration
from member_agent.scheduling.decisions import Plan
from member_agent.scheduling.evictor import Evictor
from member_agent.scheduling.foresight import Foreseer
from member_agent.scheduling.holding import Holding
from member_agent.scheduling.holds import HoldPhase, phase_of
from member_agent.scheduling.lifecycle import GroupPhase
from member_agent.scheduling.meters import Meters
from member_agent.scheduling.overtaken import still
from member_agent.scheduling.patience import Patience
from member_agent.scheduling.planner import BUILT_IN, default
from member_agent.scheduling.plugins.registry import Registry
from member_agent.scheduling.plugins.resourcequota import room_grew
from member_agent.scheduling.reasons import Reason
from member_agent.scheduling.reservations import Reservation
from member_agent.scheduling.session import OpenSession
from member_agent.scheduling.snapshot import Gangs, Snapshot
from member_agent.scheduling.stores import Stores, by_namespace
from member_agent.scheduling.telling import Teller
from member_agent.scheduling.turns import decide_in_turns
from member_agent.settings import SchedulingSettings
from member_agent.views import GroupCounts, GroupStatus, GroupView, NodeView, PodView, QueueView
from member_agent.views.namespaces import NamespaceView
from member_agent.views.quotas import QuotaView
from member_agent.views.waits import NOT_ENOUGH_TASKS

__all__ = ["SchedulingController", "Stores"]

ROUND = "round"


class SchedulingController:
    """The gang scheduler of a member. `runs(pod)` is false for a pod of a run that is being stopped: it gets no node.
    `configuration` says what holds now, of the plugins and actions of `registry`; `wake` when it changes."""

    def __init__(
        self,
        *,
        port: Port,
        stores: Stores,
        inventory: Inventory,
        clock: Clock,
        settings: SchedulingSettings,
        runs: Callable[[PodView], bool],
        events: EventRecorder,
        configuration: Callable[[], Configuration] = default,
        registry: Registry = BUILT_IN,
        heard: Callable[[], float] | None = None,
    ) -> None:
        """`heard`: when the hub last answered, boot clock; without it the hub is never away."""
        self._stores = stores
        self._inventory = inventory
        self._clock = clock
        self._settings = settings
        self._runs = runs
        self._configuration = configuration
        self._registry = registry
        self._gangs = Gangs(inventory, scheduler=settings.names)
        self._applier = SchedulingApplier(port)
        self._rounds: WorkQueue[str] = WorkQueue(clock)
        self._patience = Patience(settings)
        self._meters = Meters(by_job=settings.job_metrics)
        self._reservation: Reservation | None = None
        """What is kept for a gang since the last round."""
        self._pending: dict[Key, GroupView] = {}
        self._holding = Holding(
            stores.groups,
            inventory=inventory,
            pods=self._gangs.pods,
            applier=self._applier,
            clock=clock,
            heard=heard or clock.boot,
            patience=settings.hold_without_hub,
            wake=self._wake,
        )
        self._holds = self._holding.holds
        self._evictor = Evictor(
            stores.groups,
            pods=self._gangs.pods,
            applier=self._applier,
            events=events,
            clock=clock,
            wait=settings.eviction_wait,
            at_once=settings.evictions_at_once,
            wake=self._wake,
            meters=self._meters,
        )
        self._told = Teller(
            stores.groups,
            gangs=self._gangs,
            patience=self._patience,
            applier=self._applier,
            events=events,
            clock=clock,
            settings=settings,
            later=lambda seconds: self._rounds.add_after(ROUND, seconds),
            answer=self._holds.answer,
            meters=self._meters,
        )
        self._binder = Binder(
            stores.groups,
            inventory=inventory,
            gangs=self._gangs,
            holds=self._holds,
            patience=self._patience,
            told=self._told,
            meters=self._meters,
            applier=self._applier,
            clock=clock,
            settings=settings,
            storage=stores.storage,
            runs=runs,
            wake=self._wake,
        )
        self._subscribe(stores)

    def _subscribe(self, stores: Stores) -> None:
        stores.nodes.subscribe(self._node_changed)
        stores.pods.subscribe(self._pod_changed)
        if stores.jobs is not None:
            stores.jobs.subscribe(self._holding.job_changed)
            stores.jobs.subscribe(self._gangs.limits.job_changed)
        stores.groups.subscribe(self._group_changed)
        stores.queues.subscribe(self._queue_changed)
        stores.priorities.subscribe(lambda _: self._wake())
        if stores.quotas is not None:
            stores.quotas.subscribe(self._quota_changed)
        if stores.budgets is not None:
            stores.budgets.subscribe(lambda _: self._wake())
        if stores.namespaces is not None:
            stores.namespaces.subscribe(self._namespace_changed)

    async def run(self, metrics: Metrics | None = None) -> None:
        """Until cancelled."""
        self._meters.metrics = metrics
        await self._stores.wait_synced()
        async with asyncio.TaskGroup() as group:
            group.create_task(run_workers(self._rounds, self._round, workers=1, name="scheduling", metrics=metrics))
            group.create_task(self._binder.run(metrics))
            group.create_task(self._told.run(metrics))
            group.create_task(self._holding.run(metrics))
            group.create_task(self._evictor.run(metrics))

    @property
    def waits_for_the_hub(self) -> bool:
        """Whether room is held that the hub is to release."""
        return bool(self._holds.waiting_for_the_hub())

    @property
    def foresight(self) -> Foreseer:
        """What this scheduler would do with gangs that are not here yet."""
        return Foreseer(
            inventory=self._inventory,
            neighbourhood=self._gangs.neighbourhood,
            scheduler=self._settings.scheduler_name,
            freeze=self._frozen,
            held=self._gangs.held_by_queue,
            reservation=lambda: self._reservation,
            configuration=self._configuration,
            registry=self._registry,
        )

    # --- waking ------------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Something that only the caller knows of has changed: what `runs` says, for one."""
        self._wake()

    def _wake(self) -> None:
        self._rounds.add_after(ROUND, self._settings.coalesce)

    def _node_changed(self, change: Change[NodeView]) -> None:
        before = self._inventory.layout_version
        if change.new is not None and not self._settings.sees(change.new.labels):
            change = Change(change.key, change.old, None)
        self._inventory.node_changed(change)
        if self._inventory.layout_version != before:
            self._wake()

    def _namespace_changed(self, change: Change[NamespaceView]) -> None:
        if self._gangs.neighbourhood.namespace_changed(change):
            self._wake()

    def _pod_changed(self, change: Change[PodView]) -> None:
        before, cleared = self._inventory.version, self._gangs.unclaimed
        self._inventory.pod_changed(change)
        key = self._gangs.pod_changed(change)
        self._evictor.pod_changed(change, ours=key is not None)
        pod = change.new
        seen = pod or change.old
        if seen is not None and (pod is None or pod.node or pod.ended):
            self._patience.forget_pod(seen.uid)
        waits = pod is not None and not pod.node and not pod.ended and not self._inventory.assumed(pod.uid)
        freed = self._inventory.version != before and (pod is None or pod.ended)
        freed = freed or self._gangs.unclaimed != cleared
        if (key is not None and waits) or freed or (pod is None and key is not None):
            self._wake()
        if key is not None:
            self._holds.look(key)
            self._told.look(key)

    def _group_changed(self, change: Change[GroupView]) -> None:
        self._gangs.group_changed(change)
        group = change.new
        before = self._holds.version
        self._holds.group_changed(change.key, group)
        if self._holds.version != before:
            self._wake()
        if group is None:
            if self._pending.pop(change.key, None) is not None:
                self._wake()  # what was spoken for is not any more
            self._evictor.group_gone(change.key)
            self._told.forget(change.key)
            self._patience.forget_gang(change.key)
            self._meters.gone(change.key)
            return
        old = change.old
        if group.phase in (GroupPhase.RUNNING, GroupPhase.COMPLETED):
            self._pending.pop(change.key, None)
        else:
            self._pending[change.key] = group
        if group.phase != GroupPhase.PENDING:
            self._told.settled(change.key)
        if old is None or _asks(old) != _asks(group):
            self._wake()
        self._told.look(change.key)

    def _queue_changed(self, change: Change[QueueView]) -> None:
        """Amounts and counters are written after every round: they change no answer."""
        if change.old is None or change.new is None or _decides(change.old) != _decides(change.new):
            self._wake()

    def _quota_changed(self, change: Change[QuotaView]) -> None:
        """Every pod that is made is written into quotas: only more room changes an answer."""
        if change.old is None or change.new is None or room_grew(change.old, change.new):
            self._wake()

    # --- rounds ------------------------------------------------------------------------------------------------------

    async def _round(self, _: str) -> float | None:
        """Decide and start what was decided; the seconds until time alone can change the answer."""
        begun = self._clock.boot()
        self._evictor.overdue(layout=self._inventory.layout_version)
        before, version = self._inventory.room.free.copy(), self._inventory.version
        session = OpenSession(
            self._frozen(),
            configuration=self._configuration(),
            registry=self._registry,
            most=self._settings.placements_at_once,
            timer=self._clock.boot,
        )
        opened = self._clock.boot() - begun
        decided, took, paused = await decide_in_turns(
            session, registry=self._registry, clock=self._clock, stretch=self._settings.stretch
        )
        if self._inventory.version != version:
            decided = still(decided, room=session.room, before=before, now=self._inventory.room)
        total = self._clock.boot() - begun - paused
        self._meters.round(decided, took=took, opened=opened, total=total, plugins=session.tiers.took)
        self._meters.waiting(session.waiting, unplaced=decided.waiting)
        self._meters.queues(session, now=begun)
        return self._carry_out(decided)

    def _carry_out(self, decided: Plan) -> float | None:
        """Start what was decided; the seconds until time alone can change the answer."""
        if not decided.more or decided.reservation is not None:  # a round cut short did not come to whom it is kept for
            self._reservation = decided.reservation
        self._binder.bind(decided.bindings)
        self._evictor.begin(decided)
        for hold in decided.prepared:
            self._holds.decided(hold)
            self._told.at_once(hold.key)
        for key in decided.admitted:
            self._told.admitted(key)
        self._binder.open(decided.opened)
        now = self._clock.boot()
        reasons = {**self._short(), **decided.waiting, **self._patience.reasons(now=now)}
        self._told.explain(self._gangs.gated.explained(reasons))
        self._binder.release(self._patience.overdue(now=now))
        return self._settings.coalesce if decided.more else self._soonest(decided.wakes, now=now)

    def _frozen(self) -> Snapshot:
        """What a round that begins now looks at."""
        return self._gangs.freeze(
            groups=lambda key: self._stores.groups.get(*key),
            pending=self._pending,
            priority=self._priority,
            queues={queue.name: queue for queue in self._stores.queues.values()},
            held_back=self._held_back,
            resting=lambda key: self._patience.resting(key, now=self._clock.boot()),
            now=self._clock.now().timestamp(),
            quotas=by_namespace(self._stores.quotas),
            preparing=self._holds.preparing(priority=self._priority),
            berths=self._holds.entries(),
            budgets=by_namespace(self._stores.budgets),
            earmarks=self._evictor.earmarks.told(),
            going=self._evictor.going,
            spent=self._evictor.spent(layout=self._inventory.layout_version),
            stuck=self._evictor.stuck,
            reservation=self._reservation,
        )

    def _soonest(self, wakes: float, *, now: float) -> float | None:
        """Seconds until time alone changes an answer: of our own pauses, or of a plugin (at a wall clock time)."""
        waits = (self._patience.soonest(now=now), self._holding.overdue(now=now), self._evictor.soonest(now=now))
        pauses = [each for each in waits if each is not None]
        pause = min(pauses, default=None)
        if math.isinf(wakes):
            return pause
        left = max(wakes - self._clock.now().timestamp(), 0.0) + self._settings.coalesce
        return left if pause is None else min(pause, left)

    def _short(self) -> Mapping[Key, Reason]:
        """Gangs that stand half bound with no binding on its way: where pods are missing the plan has no word for them."""
        found: dict[Key, Reason] = {}
        for key in self._patience.partial():
            group, tally = self._stores.groups.get(*key), self._gangs.tally(key)
            if group is not None and tally.bound == tally.total_placed:
                text = f"{tally.bound} of {group.min_member} pods of the gang have nodes; of the gang {tally.pods} pods exist"
                found[key] = Reason(NOT_ENOUGH_TASKS, text)
        return found

    def _priority(self, name: str) -> int:
        found = self._stores.priorities.get("", name) if name else None
        return found.value if found else 0

    def _held_back(self, pod: PodView) -> bool:
        """Its Job is being deleted, its last binding was refused, or its gang gave its nodes back a moment ago."""
        return not self._runs(pod) or self._patience.held(pod, now=self._clock.boot())


def _asks(group: GroupView) -> tuple[GroupView, HoldPhase]:
    """What of a group decides on what is done for it: all of it, without what the scheduler itself writes there."""
    plain = dataclasses.replace(group, version="", status=GroupStatus(phase=group.phase), hold=None)
    return plain, phase_of(group)


def _decides(queue: QueueView) -> QueueView:
    """The queue without what its status tells of the past."""
    return dataclasses.replace(queue, version="", allocated=EMPTY, counts=GroupCounts())
