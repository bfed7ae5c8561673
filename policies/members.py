"""What the hub keeps of members, queues, Namespaces, PriorityClasses and Commands; policies are in `placements`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import msgspec

from apis import cluster_orders, keys
from apis.cluster_orders import Declaration, Order, Stamp
from apis.quantities import InvalidQuantity
from apis.vectors import ResourceVector
from policies.queue_doors import NAME_LABEL, QueueDoor, door_of
from policies.shapes import Taint
from policies.views import Condition, Meta, Problem, own_settings

RENEWALS: Final = f"{keys.GROUP}/renewals"
"""Annotation of the member Lease: how often the fencer renewed it."""

HUBS_OWN: Final = frozenset({"Ready", "Registered", "FencingArmed", "Drained", "DeclaredLost"})
"""Types of the conditions of a Cluster that the hub writes."""

_EMPTY: Final[Mapping[str, str]] = MappingProxyType({})
_NO_ORDERS: Final[Mapping[Order, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A registered member. `ready` is the status of its condition Ready: True, False or Unknown."""

    namespace: str
    name: str
    uid: str
    version: str
    created: str = ""
    id: str = ""
    sync_mode: str = "Pull"
    provider: str = ""
    region: str = ""
    zones: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    ready: str = "Unknown"
    conditions: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Type to (status, reason)."""
    told: Mapping[str, tuple[str, str, str]] = field(default_factory=dict)
    """The same with the message, of the conditions that the hub writes itself."""
    deleting: bool = False
    kinds: frozenset[tuple[str, str]] | None = None
    """(groupVersion, kind) that the member serves; None until it has said so."""
    complete: bool = True
    """False while the member says that its own discovery was not complete."""
    orders: Mapping[Order, str] = field(default_factory=dict)
    """What people ask of it, each with its reason."""
    stamps: Mapping[str, Stamp] = field(default_factory=dict)
    """Whose orders they are."""
    finalized: bool = False
    """The hub has its finalizer on it."""
    unstamped: tuple[Taint, ...] = ()
    """Taints with NoExecute that do not say since when they are there."""
    since: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Time (RFC 3339) at which taints with NoExecute were added, by key and effect."""

    @property
    def draining(self) -> bool:
        """Everything that runs there is to run elsewhere: a person said so, or it is to leave the federation."""
        return self.deleting or Order.DRAIN in self.orders

    def stamp(self, order: Order) -> Stamp:
        """Whose word an order is."""
        return self.stamps.get(order.value, Stamp())

    @property
    def properties(self) -> Mapping[str, tuple[str, ...]]:
        """What field selectors of policies see."""
        return {"provider": (self.provider,), "region": (self.region,), "zone": self.zones}


@dataclass(frozen=True, slots=True)
class LeaseView:
    """A member Lease: `fence` is F, `renewal` changes with every renewal by the fencer."""

    namespace: str
    name: str
    uid: str
    version: str
    cluster: str = ""
    holder: str = ""
    fence: int = 0
    renewal: str = ""
    declared: Declaration | None = None
    """The last word of a person that the cluster is lost; it holds while the hub holds the Lease."""

    @property
    def owner(self) -> str:
        """UID of the cluster whose fencer holds it; "" for nobody."""
        return self.holder.split("/", 1)[0]

    @property
    def lost(self) -> Declaration | None:
        """The declaration that holds now: nobody in the cluster has renewed since."""
        return self.declared if self.holder == cluster_orders.HELD_BY_HUB else None


@dataclass(frozen=True, slots=True)
class QueueView:
    """A hub Queue. An empty `state` is Open: the API server has not written one yet."""

    namespace: str
    name: str
    uid: str
    version: str
    parent: str = ""
    state: str = ""
    capability: ResourceVector | None = None
    weight: int = 1
    priority: int = 0
    deleting: bool = False
    problem: Problem | None = None
    generation: int = 0
    door: QueueDoor | None = None
    """The namespaces that it is for; None: all."""

    @property
    def open(self) -> bool:
        """Whether new Jobs may start from it."""
        return self.state in ("", "Open") and not self.deleting


@dataclass(frozen=True, slots=True)
class PriorityView:
    """A PriorityClass."""

    namespace: str
    name: str
    uid: str
    version: str
    value: int = 0
    default: bool = False


@dataclass(frozen=True, slots=True)
class NamespaceView:
    """A Namespace: its settings of our group apply to Jobs that set nothing nearer."""

    namespace: str
    name: str
    uid: str
    version: str
    settings: Mapping[str, str] = field(default_factory=dict)
    deleting: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CommandView:
    """A bus Command: `target` is (kind, name, uid) of what it is for."""

    namespace: str
    name: str
    uid: str
    version: str
    action: str = ""
    target: tuple[str, str, str] = ("", "", "")
    reason: str = ""

    @property
    def order(self) -> tuple[int, str]:
        """Sorts Commands by age: nobody changes a Command once it is there."""
        return (len(self.version), self.version)


# --- wire ------------------------------------------------------------------------------------------------------------


class _Wire(msgspec.Struct, frozen=True, rename="camel"):
    pass


class _Taint(_Wire, frozen=True):
    key: str = ""
    value: str | None = None
    effect: str = ""
    time_added: str | None = None


class _ClusterSpec(_Wire, frozen=True):
    id: str = ""
    sync_mode: str = "Pull"
    provider: str = ""
    region: str = ""
    zone: str = ""
    zones: list[str] | None = None
    taints: list[_Taint] | None = None


class _Served(_Wire, frozen=True):
    kind: str = ""


class _Enablement(_Wire, frozen=True):
    group_version: str = ""
    resources: list[_Served] | None = None


class _ClusterStatus(_Wire, frozen=True):
    conditions: list[Condition] | None = None
    api_enablements: list[_Enablement] | None = None


class _Cluster(_Wire, frozen=True):
    metadata: Meta = Meta()
    spec: _ClusterSpec = _ClusterSpec()
    status: _ClusterStatus = _ClusterStatus()


class _LeaseSpec(_Wire, frozen=True):
    holder_identity: str | None = None
    lease_transitions: int | None = None
    renew_time: str | None = None


class _Lease(_Wire, frozen=True):
    metadata: Meta = Meta()
    spec: _LeaseSpec = _LeaseSpec()


class _QueueSpec(_Wire, frozen=True):
    parent: str = ""
    weight: int = 1
    priority: int = 0
    capability: dict[str, str | int | float] | None = None


class _QueueStatus(_Wire, frozen=True):
    state: str = ""


class _Queue(_Wire, frozen=True):
    metadata: Meta = Meta()
    spec: _QueueSpec = _QueueSpec()
    status: _QueueStatus = _QueueStatus()


class _Priority(_Wire, frozen=True):
    metadata: Meta = Meta()
    value: int = 0
    global_default: bool = False


class _Plain(_Wire, frozen=True):
    metadata: Meta = Meta()


class _Target(_Wire, frozen=True):
    kind: str = ""
    name: str = ""
    uid: str = ""


class _Command(_Wire, frozen=True):
    metadata: Meta = Meta()
    action: str = ""
    target: _Target | None = None
    reason: str = ""


_cluster = msgspec.json.Decoder(_Cluster)
_lease = msgspec.json.Decoder(_Lease)
_queue = msgspec.json.Decoder(_Queue)
_priority = msgspec.json.Decoder(_Priority)
_plain = msgspec.json.Decoder(_Plain)
_command = msgspec.json.Decoder(_Command)


def project_cluster(document: bytes) -> ClusterView:
    """A Cluster."""
    read = _cluster.decode(document)
    listed = read.status.conditions or []
    conditions = {each.type: (each.status, each.reason) for each in listed}
    served, notes, taints = read.status.api_enablements, read.metadata.annotations, read.spec.taints or []
    executes = [each for each in taints if each.effect == "NoExecute"]
    enabled = None
    if served:
        enabled = frozenset((each.group_version, kind.kind) for each in served for kind in each.resources or [])
    return ClusterView(
        namespace="",
        name=read.metadata.name,
        uid=read.metadata.uid,
        version=read.metadata.resource_version,
        created=read.metadata.creation_timestamp,
        id=read.spec.id,
        sync_mode=read.spec.sync_mode,
        provider=read.spec.provider,
        region=read.spec.region,
        zones=tuple(read.spec.zones or ([read.spec.zone] if read.spec.zone else [])),
        labels=read.metadata.labels or _EMPTY,
        taints=tuple(_taint(each) for each in taints),
        ready=conditions.get("Ready", ("Unknown", ""))[0],
        conditions=conditions,
        told={each.type: (each.status, each.reason, each.message) for each in listed if each.type in HUBS_OWN},
        deleting=read.metadata.deletion_timestamp is not None,
        kinds=enabled,
        complete=conditions.get("CompleteAPIEnablements", ("True", ""))[0] == "True",
        orders=_orders(notes, taints),
        stamps=cluster_orders.stamps(notes),
        finalized=keys.CLUSTER_FINALIZER in (read.metadata.finalizers or ()),
        unstamped=tuple(_taint(each) for each in executes if not each.time_added),
        since={(each.key, each.effect): each.time_added for each in executes if each.time_added},
    )


def _taint(each: _Taint) -> Taint:
    return Taint(each.key, each.value or "", each.effect)


def _orders(notes: Mapping[str, str] | None, taints: Iterable[_Taint]) -> Mapping[Order, str]:
    written = [{"key": each.key, "effect": each.effect} for each in taints]
    return cluster_orders.orders({"metadata": {"annotations": notes}, "spec": {"taints": written}}) or _NO_ORDERS


def project_lease(document: bytes) -> LeaseView:
    """A member Lease."""
    read = _lease.decode(document)
    renewals = (read.metadata.annotations or {}).get(RENEWALS, "")
    return LeaseView(
        namespace=read.metadata.namespace,
        name=read.metadata.name,
        uid=read.metadata.uid,
        version=read.metadata.resource_version,
        cluster=keys.cluster_of(read.metadata.namespace) or "",
        holder=read.spec.holder_identity or "",
        fence=read.spec.lease_transitions or 0,
        renewal=f"{renewals}@{read.spec.renew_time or ''}" if renewals or read.spec.renew_time else "",
        declared=cluster_orders.read_declaration(read.metadata.annotations),
    )


def project_queue(document: bytes) -> QueueView:
    """A Queue; a capability that cannot be read is a problem of the queue, and counts as nothing."""
    read = _queue.decode(document)
    capability, problem = None, None
    try:
        if read.spec.capability is not None:
            capability = ResourceVector.from_quantities(read.spec.capability)
    except InvalidQuantity as error:
        capability, problem = ResourceVector(), Problem("spec.capability", str(error))
    return QueueView(
        namespace="",
        name=read.metadata.name,
        uid=read.metadata.uid,
        version=read.metadata.resource_version,
        parent=read.spec.parent,
        state=read.status.state,
        capability=capability,
        weight=read.spec.weight,
        priority=read.spec.priority,
        deleting=read.metadata.deletion_timestamp is not None,
        problem=problem,
        generation=read.metadata.generation,
        door=door_of(read.metadata.annotations or {}),
    )


def project_priority(document: bytes) -> PriorityView:
    """A PriorityClass."""
    read = _priority.decode(document)
    meta = read.metadata
    return PriorityView("", meta.name, meta.uid, meta.resource_version, value=read.value, default=read.global_default)


def project_namespace(document: bytes) -> NamespaceView:
    """A Namespace."""
    meta = _plain.decode(document).metadata
    return NamespaceView(
        namespace="",
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        settings=own_settings(meta.annotations),
        deleting=meta.deletion_timestamp is not None,
        labels={NAME_LABEL: meta.name, **(meta.labels or {})},
    )


def project_command(document: bytes) -> CommandView:
    """A bus Command."""
    read = _command.decode(document)
    meta, target = read.metadata, read.target or _Target()
    return CommandView(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        action=read.action,
        target=(target.kind, target.name, target.uid),
        reason=read.reason,
    )
