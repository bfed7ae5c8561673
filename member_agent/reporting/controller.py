"""Registers this member, keeps its Cluster status current at the hub, and says when its ClusterCapacity is to be looked at.

Nothing is written on a clock: a look is taken after something changed, and a write follows only if it says something new. The
hub may be away at any time; everything is tried again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

import orjson

from apis import keys, kinds
from apis.capacity import Orphan
from apis.vectors import ResourceVector, total
from machinery import errors
from machinery.clock import Clock, stamp
from machinery.informer import Change
from machinery.port import Port
from machinery.runner import WorkMetrics, run_workers
from machinery.workqueue import WorkQueue
from member_agent.asking import Foresight
from member_agent.inventory import Inventory
from member_agent.ledger import Ledger
from member_agent.modes import Ruling
from member_agent.reporting import registration
from member_agent.reporting.discovery import Discovery
from member_agent.reporting.publishing import Publisher
from member_agent.reporting.stores import CapacityView, Stores
from member_agent.settings import AgentSettings
from member_agent.views import GroupView, NodeView, PodView

log = logging.getLogger(__name__)

CAPACITY, CLUSTER = "capacity", "cluster"
SOON: Final = 0.05
"""Seconds that a change waits for company."""


class ReportingController:
    """The reporting role of one member."""

    def __init__(
        self,
        *,
        hub: Port,
        local: Port,
        stores: Stores,
        inventory: Inventory,
        ledger: Ledger,
        orphans: Callable[[], tuple[Orphan, ...]],
        clock: Clock,
        cluster_uid: str,
        settings: AgentSettings,
        ruling: Ruling,
        foresight: Foresight | None = None,
    ) -> None:
        self._hub = hub
        self._local = local
        self._stores = stores
        self._inventory = inventory
        self._clock = clock
        self._cluster_uid = cluster_uid
        self._settings = settings
        self._ruling = ruling
        self._queue: WorkQueue[str] = WorkQueue(clock)
        self._publisher = Publisher(
            hub=hub,
            stores=stores,
            inventory=inventory,
            ledger=ledger,
            orphans=orphans,
            clock=clock,
            namespace=keys.execution_namespace(settings.cluster),
            settings=settings.reporting,
            foresight=foresight,
        )
        self._status_at = float("-inf")
        self._discovery = Discovery(local, clock=clock)
        stores.nodes.subscribe(self._node_changed)
        stores.pods.subscribe(self._pod_changed)
        stores.jobs.subscribe(lambda _: self._wake(CAPACITY))
        stores.groups.subscribe(self._group_changed)
        stores.works.subscribe(lambda _: self._wake(CAPACITY))
        stores.queues.subscribe(lambda _: self._wake(CAPACITY))
        stores.capacities.subscribe(self._capacity_changed)

    async def run(self, metrics: WorkMetrics | None = None) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._register(), name="registration")
            stores = self._stores
            for informer in (stores.nodes, stores.pods, stores.jobs, stores.groups, stores.queues):
                await informer.wait_synced()
            await self._stores.works.wait_synced()
            self._queue.add(CLUSTER)
            self._queue.add(CAPACITY)
            group.create_task(run_workers(self._queue, self._reconcile, workers=2, name="reporting", metrics=metrics))

    # --- waking ------------------------------------------------------------------------------------------------------

    def _wake(self, key: str, *, at_once: bool = False) -> None:
        status_due = self._status_at + self._settings.reporting.status_every
        due = status_due if key == CLUSTER else float("-inf") if at_once else self._publisher.due
        self._queue.add_after(key, max(due - self._clock.boot(), SOON))

    def _node_changed(self, change: Change[NodeView]) -> None:
        old, new = change.old, change.new
        lost = old is not None and (new is None or (old.ready and not new.ready) or (new.cordoned and not old.cordoned))
        if (
            old is None
            or new is None
            or (old.ready, old.cordoned, old.allocatable, old.labels, old.taints)
            != (
                new.ready,
                new.cordoned,
                new.allocatable,
                new.labels,
                new.taints,
            )
        ):
            self._wake(CAPACITY, at_once=lost)
            self._wake(CLUSTER)

    def _pod_changed(self, change: Change[PodView]) -> None:
        old, new = change.old, change.new
        if old is None or new is None or (old.node, old.ended) != (new.node, new.ended):
            self._wake(CAPACITY)
            self._wake(CLUSTER)

    def _group_changed(self, change: Change[GroupView]) -> None:
        if change.old is None or change.new is None or change.old.phase != change.new.phase:
            self._wake(CAPACITY)

    def _capacity_changed(self, change: Change[CapacityView]) -> None:
        """What the hub asks for, at once; what we wrote ourselves changes nothing."""
        old, new = change.old, change.new
        if new is not None and (old is None or (old.label_keys, old.asked) != (new.label_keys, new.asked)):
            self._wake(CAPACITY, at_once=True)

    async def _reconcile(self, key: str) -> float | None:
        return await (self._publisher.publish() if key == CAPACITY else self._write_status())

    # --- registration ------------------------------------------------------------------------------------------------

    async def _register(self) -> None:
        """Make or correct our Cluster; again and again until the hub has answered."""
        while True:
            try:
                await self._register_once()
                self._queue.add(CLUSTER)
                return
            except registration.ForeignCluster as error:
                log.error("%s: this member is not registered", error)
                await self._tell_taken()
            except errors.ApiError as error:
                log.warning("registration of %s: %s", self._settings.cluster, error)
            await self._clock.sleep(self._settings.reporting.retry)

    async def _tell_taken(self) -> None:
        """People look at the Cluster, and not into our log."""
        name = self._settings.cluster
        try:
            present = orjson.loads(await self._hub.get(kinds.CLUSTER, name))
            said = registration.taken(present, uid=self._cluster_uid, now=stamp(self._clock.now()))
            if said is not None:
                await self._hub.replace(kinds.CLUSTER, name, {**present, "status": said}, subresource="status")
        except errors.ApiError as error:
            log.warning("%s: %s", name, error)

    async def _register_once(self) -> None:
        name = self._settings.cluster
        try:
            present = orjson.loads(await self._hub.get(kinds.CLUSTER, name))
        except errors.NotFound:
            made = registration.cluster(self._settings, uid=self._cluster_uid, mode=self._ruling.mode)
            await self._hub.create(kinds.CLUSTER, made)
            return
        wanted = registration.updated(present, self._settings, uid=self._cluster_uid, mode=self._ruling.mode)
        if wanted is not None:
            await self._hub.replace(kinds.CLUSTER, name, wanted)

    # --- Cluster status ----------------------------------------------------------------------------------------------

    async def _write_status(self) -> float | None:
        name = self._settings.cluster
        await self._discovery.look()
        try:
            present = orjson.loads(await self._hub.get(kinds.CLUSTER, name))
        except errors.NotFound:
            return None  # registration is on its way and wakes us
        if present["spec"].get("id") != self._cluster_uid:
            return None
        wanted = registration.status(
            present.get("status"),
            nodes=self._stores.nodes.sorted(),
            allocated=self._inventory.used(),
            allocating=self._allocating(),
            version=self._discovery.version,
            enablements=self._discovery.enablements,
            lacking=self._discovery.lacking,
            now=stamp(self._clock.now()),
            ruling=self._ruling,
        )
        self._status_at = self._clock.boot()
        if registration.differs(present.get("status"), wanted, share=self._settings.reporting.share):
            await self._hub.replace(kinds.CLUSTER, name, {**present, "status": wanted}, subresource="status")
        return self._discovery.again

    def _allocating(self) -> ResourceVector:
        return total(pod.shape.requests for pod in self._stores.pods.values() if not pod.node and not pod.ended)
