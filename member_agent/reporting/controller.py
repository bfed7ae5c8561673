"""Registers this member and keeps its ClusterCapacity and Cluster status current at the hub.

Nothing is written on a clock: a look is taken after something changed, and a write follows only if the hub could decide
otherwise. The hub may be away at any time; everything is tried again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import orjson

from apis import keys, kinds
from apis.capacity import CapacityStatus, Orphan
from apis.vectors import EMPTY, ResourceVector, total
from machinery import errors
from machinery.clock import Clock, stamp
from machinery.informer import Change, Informer
from machinery.port import PatchType, Port
from machinery.runner import WorkMetrics, run_workers
from machinery.workqueue import WorkQueue
from member_agent.inventory import Inventory
from member_agent.ledger import Ledger
from member_agent.modes import Ruling
from member_agent.reporting import capacity, registration
from member_agent.settings import AgentSettings
from member_agent.views import GroupView, JobView, Meta, NodeView, PodView, PriorityView, QueueView, WorkView

log = logging.getLogger(__name__)

CAPACITY, CLUSTER = "capacity", "cluster"

PLACED = ("Running", "Completed")
"""Phases of PodGroups whose minimum has nodes."""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    label_keys: list[str] | None = None


class _Capacity(msgspec.Struct, frozen=True, rename="camel"):
    metadata: Meta
    spec: _Spec = _Spec()
    status: CapacityStatus = CapacityStatus()


_capacity = msgspec.json.Decoder(_Capacity).decode


@dataclass(frozen=True, slots=True)
class CapacityView:
    """The member's own ClusterCapacity: what the hub asks for, and what was published last."""

    namespace: str
    name: str
    uid: str
    version: str
    label_keys: tuple[str, ...]
    status: CapacityStatus


def project_capacity(document: bytes) -> CapacityView:
    """A ClusterCapacity as its agent keeps it."""
    found = _capacity(document)
    meta = found.metadata
    return CapacityView(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        label_keys=tuple(found.spec.label_keys or ()),
        status=found.status,
    )


@dataclass(frozen=True, slots=True)
class Stores:
    """The informers this role reads."""

    works: Informer[WorkView]
    jobs: Informer[JobView]
    groups: Informer[GroupView]
    pods: Informer[PodView]
    nodes: Informer[NodeView]
    queues: Informer[QueueView]
    priorities: Informer[PriorityView]
    capacities: Informer[CapacityView]


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
    ) -> None:
        self._hub = hub
        self._local = local
        self._stores = stores
        self._inventory = inventory
        self._ledger = ledger
        self._orphans = orphans
        self._clock = clock
        self._cluster_uid = cluster_uid
        self._settings = settings
        self._ruling = ruling
        self._namespace = keys.execution_namespace(settings.cluster)
        self._queue: WorkQueue[str] = WorkQueue(clock)
        self._published: CapacityStatus | None = None
        self._version = ""
        self._answers = -1
        self._written_at: dict[str, float] = {}
        self._kubernetes = ""
        self._enablements: list[dict[str, Any]] | None = None
        self._discovered = False
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

    def _wake(self, key: str, *, sooner: bool = False) -> None:
        reporting = self._settings.reporting
        every = reporting.status_every if key == CLUSTER else reporting.sooner if sooner else reporting.every
        due = self._written_at.get(key, float("-inf")) + every - self._clock.boot()
        self._queue.add_after(key, max(due, 0.05))

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
            self._wake(CAPACITY, sooner=lost)
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
        if change.new is not None and (change.old is None or change.old.label_keys != change.new.label_keys):
            self._wake(CAPACITY)

    async def _reconcile(self, key: str) -> float | None:
        return await (self._publish() if key == CAPACITY else self._write_status())

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
            except errors.ApiError as error:
                log.warning("registration of %s: %s", self._settings.cluster, error)
            await self._clock.sleep(self._settings.reporting.retry)

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
        await self._discover()
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
            version=self._kubernetes,
            enablements=self._enablements,
            now=stamp(self._clock.now()),
            ruling=self._ruling,
        )
        self._written_at[CLUSTER] = self._clock.boot()
        if registration.differs(present.get("status"), wanted, share=self._settings.reporting.share):
            await self._hub.replace(kinds.CLUSTER, name, {**present, "status": wanted}, subresource="status")
        return None

    def _allocating(self) -> ResourceVector:
        return total(pod.shape.requests for pod in self._stores.pods.values() if not pod.node and not pod.ended)

    async def _discover(self) -> None:
        """Version and served kinds of this cluster, once; what does not answer stays unknown until the next start."""
        if self._discovered:
            return
        self._discovered = True
        try:
            self._kubernetes = orjson.loads(await self._local.request("GET", "/version")).get("gitVersion", "")
            groups = orjson.loads(await self._local.request("GET", "/apis")).get("groups") or []
            paths = ["/api/v1"] + [f"/apis/{each['groupVersion']}" for group in groups for each in group.get("versions") or []]
            listings = [orjson.loads(await self._local.request("GET", path)) for path in paths]
        except errors.ApiError as error:
            log.warning("discovery: %s", error)
            return
        self._enablements = registration.enablements(
            (
                listing["groupVersion"],
                [(each["name"], each["kind"]) for each in listing.get("resources") or [] if "/" not in each["name"]],
            )
            for listing in listings
        )

    # --- ClusterCapacity ---------------------------------------------------------------------------------------------

    async def _publish(self) -> float | None:
        view = self._stores.capacities.get(self._namespace, keys.MEMBER_LEASE)
        if view is None:
            return None  # the hub makes it after registration; its event wakes us
        old = self._published or (view.status if view.status.observed_at else None)
        status = capacity.status(
            self._look(view, old), generation=(old.generation if old else 0) + 1, now=stamp(self._clock.now())
        )
        answers = self._ledger.answers
        told = answers == self._answers and self._published is not None and not self._covers_more(status)
        if told and not capacity.material(old, status, share=self._settings.reporting.share):
            return None
        now, every = self._clock.boot(), self._settings.reporting.every
        if old is not None and capacity.nodes_of(status) < capacity.nodes_of(old):
            every = self._settings.reporting.sooner
        due = self._written_at.get(CAPACITY, float("-inf")) + every
        if due > now:
            return due - now
        self._written_at[CAPACITY] = now
        await self._write_capacity(view, status)
        self._published, self._answers = status, answers
        return None

    def _covers_more(self, status: CapacityStatus) -> bool:
        """Works that we answered lie between what was published and now: our own status write moved them, for one. A hub that
        starts anew compares the versions that Works have then, and would count them twice for ever."""
        before = self._published.works_through if self._published is not None else ""
        if not (before.isdigit() and status.works_through.isdigit()):
            return before != status.works_through
        low, high = int(before), int(status.works_through)
        if low >= high:
            return False
        return any(work.version.isdigit() and low < int(work.version) <= high for work in self._stores.works.values())

    def _look(self, view: CapacityView, old: CapacityStatus | None) -> capacity.Look:
        through = self._ledger.through(self._stores.works.reached)
        return capacity.Look(
            room=self._ledger.shadow(),
            nodes=self._inventory.nodes,
            queues=tuple(self._stores.queues.values()),
            admitted=self._admitted(),
            waiting=tuple(self._waiting()),
            orphans=self._orphans(),
            through=later(through, old.works_through if old else ""),
            label_keys=view.label_keys or capacity.LABELS,
        )

    def _admitted(self) -> Mapping[str, ResourceVector]:
        jobs = {job.uid: job for job in self._stores.jobs.values() if job.managed}
        amounts: dict[str, ResourceVector] = {}
        for uid, vector in self._ledger.promised():
            queue = jobs[uid].queue if uid in jobs else keys.DEFAULT_QUEUE
            amounts[queue] = amounts.get(queue, EMPTY) + vector
        return amounts

    def _waiting(self) -> list[capacity.Demand]:
        """What hub-run gangs that were accepted miss, and the minimum of local gangs that have not got theirs."""
        jobs = {job.uid: job for job in self._stores.jobs.values()}
        found = [
            capacity.Demand(*self._place_in_line(jobs.get(uid)), demand=missing) for uid, missing in self._ledger.promised()
        ]
        placed = {group.owner for group in self._stores.groups.values() if group.phase in PLACED}
        for job in jobs.values():
            waits = job.phase in ("", "Pending") and not job.deleting and not job.managed and job.uid not in placed
            if waits and job.gang is not None:
                least = total(shape.requests * count for shape, count in job.gang.least())
                found.append(capacity.Demand(*self._place_in_line(job), demand=least))
        return found

    def _place_in_line(self, job: JobView | None) -> tuple[str, int]:
        """Queue and priority; those of nobody for a Job that was made a moment ago and is not seen yet."""
        if job is None:
            return keys.DEFAULT_QUEUE, 0
        known = self._stores.priorities.get("", job.priority_class) if job.priority_class else None
        return job.queue, known.value if known else 0

    async def _write_capacity(self, view: CapacityView, status: CapacityStatus) -> None:
        """The status alone, against the version it was decided on: a leader of yesterday cannot overwrite it."""
        body = [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": view.version},
            {"op": "add", "path": "/status", "value": msgspec.to_builtins(status)},
        ]
        await self._hub.patch(
            kinds.CLUSTER_CAPACITY, view.name, body, type=PatchType.JSON, namespace=view.namespace, subresource="status"
        )


def later(one: str, other: str) -> str:
    """The later of two resourceVersions of Works: what was accounted for once stays accounted for."""
    if not (one.isdigit() and other.isdigit()):
        return one or other
    return one if int(one) >= int(other) else other
