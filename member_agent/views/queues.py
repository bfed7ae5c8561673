"""Queues and PriorityClasses as the agent keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from apis import keys
from apis.quantities import InvalidQuantity
from apis.vectors import EMPTY, ResourceVector
from machinery.port import Document
from member_agent.views.meta import Meta, Wire


class _Listed(Wire, frozen=True):
    required: list[str] | None = msgspec.field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)
    preferred: list[str] | None = msgspec.field(name="preferredDuringSchedulingIgnoredDuringExecution", default=None)


class _Affinity(Wire, frozen=True):
    node_group_affinity: _Listed | None = None
    node_group_anti_affinity: _Listed | None = None


class _QueueSpec(Wire, frozen=True):
    weight: int = 1
    parent: str = ""
    capability: dict[str, Any] | None = None
    guarantee: dict[str, Any] | None = None
    deserved: dict[str, Any] | None = None
    reclaimable: bool | None = None
    priority: int = 0
    dequeue_strategy: str = ""
    affinity: _Affinity | None = None
    extend_clusters: list[Any] | None = None


CLOSED_BY_PARENT = "volcano.sh/closed-by-parent"
"""Annotation, "true" on a queue that was closed with its parent and opens with it."""


HIERARCHY = "volcano.sh/hierarchy"
HIERARCHY_WEIGHTS = "volcano.sh/hierarchy-weights"


class GroupCounts(Wire, frozen=True):
    """PodGroups of a queue by phase, as `status` of a Queue carries them."""

    pending: int = 0
    inqueue: int = 0
    running: int = 0
    unknown: int = 0
    completed: int = 0


class _QueueStatus(GroupCounts, frozen=True):
    state: str = ""
    allocated: dict[str, Any] | None = None


class _Queue(Wire, frozen=True):
    metadata: Meta
    spec: _QueueSpec = _QueueSpec()
    status: _QueueStatus = _QueueStatus()


@dataclass(frozen=True, slots=True)
class NodeGroups:
    """Groups of nodes of a queue, by name and in its order: one of `required` or `preferred` it must have, `never` it must not
    have, `rather_not` it may have last."""

    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    rather_not: tuple[str, ...] = ()


ANY_GROUP: Final = NodeGroups()


@dataclass(frozen=True, slots=True)
class QueueView:
    """A local Queue. `managed`: its spec is the hub's; `problem`: a field that counts as nothing, and why."""

    name: str
    uid: str
    version: str
    parent: str
    weight: int
    capability: ResourceVector
    guarantee: ResourceVector
    state: str
    allocated: ResourceVector
    namespace: str = field(default="")
    counts: GroupCounts = GroupCounts()
    closed_by_parent: bool = False
    managed: bool = False
    deleting: bool = False
    problem: str = ""
    deserved: ResourceVector = EMPTY
    reclaimable: bool = True
    priority: int = 0
    fifo: bool = False
    """`dequeueStrategy`: nobody passes the first that waits."""
    hierarchy: str = ""
    """Path of the older kind of tree, by annotation, for shares over a hierarchy; with its weights."""
    hierarchy_weights: str = ""
    none_of: frozenset[str] = frozenset()
    """Resources of which its capability is nothing at all; `capability` does not name them."""
    node_groups: NodeGroups | None = None
    """`affinity`; None where it says nothing of it."""
    forwards: bool = False
    """It has `extendClusters`: its Jobs and their pods are marked."""

    @property
    def ceiling(self) -> Mapping[str, int]:
        """Its capability with what it may have nothing of; a resource that is not named is not limited."""
        return {**self.capability, **dict.fromkeys(self.none_of, 0)}

    @property
    def open(self) -> bool:
        """Takes new work; a queue without a state yet does."""
        return self.state in ("", "Open")


_queue = msgspec.json.Decoder(_Queue).decode


def project_queue(document: Document) -> QueueView:
    """A Queue as the agent keeps it; amounts that cannot be read are told in `problem`."""
    queue = _queue(document)
    meta, spec, status = queue.metadata, queue.spec, queue.status
    capability, bad_capability = _amounts("spec.capability", spec.capability)
    guarantee, bad_guarantee = _amounts("spec.guarantee.resource", (spec.guarantee or {}).get("resource"))
    deserved, bad_deserved = _amounts("spec.deserved", spec.deserved)
    allocated, bad_allocated = _amounts("status.allocated", status.allocated)
    return QueueView(
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        parent=spec.parent,
        weight=spec.weight,
        capability=capability,
        guarantee=guarantee,
        state=status.state,
        allocated=allocated,
        counts=GroupCounts(status.pending, status.inqueue, status.running, status.unknown, status.completed),
        closed_by_parent=meta.annotation(CLOSED_BY_PARENT) == "true",
        managed=meta.label(keys.MANAGED_LABEL) == "true",
        deleting=meta.deletion_timestamp is not None,
        problem=bad_capability or bad_guarantee or bad_deserved or bad_allocated,
        deserved=deserved,
        reclaimable=spec.reclaimable is not False,
        priority=spec.priority,
        fifo=spec.dequeue_strategy == "fifo",
        hierarchy=meta.annotation(HIERARCHY),
        hierarchy_weights=meta.annotation(HIERARCHY_WEIGHTS),
        none_of=frozenset(() if bad_capability else (spec.capability or {}).keys() - capability.keys()),
        node_groups=_node_groups(spec.affinity),
        forwards=bool(spec.extend_clusters),
    )


def _node_groups(affinity: _Affinity | None) -> NodeGroups | None:
    if affinity is None:
        return None
    wants, avoids = affinity.node_group_affinity or _Listed(), affinity.node_group_anti_affinity or _Listed()
    listed = (wants.required, wants.preferred, avoids.required, avoids.preferred)
    return NodeGroups(*(tuple(dict.fromkeys(each or ())) for each in listed))


def _amounts(path: str, written: dict[str, Any] | None) -> tuple[ResourceVector, str]:
    """The amounts and "", or nothing and what is wrong with them."""
    try:
        amounts = ResourceVector.from_quantities(written)
    except InvalidQuantity as error:
        return EMPTY, f"{path}: {error}"
    negative = next((name for name, amount in amounts.items() if amount < 0), None)
    return (EMPTY, f"{path}.{negative}: {(written or {})[negative]} is negative") if negative is not None else (amounts, "")


class _PriorityClass(Wire, frozen=True):
    metadata: Meta
    value: int = 0


@dataclass(frozen=True, slots=True)
class PriorityView:
    """A PriorityClass."""

    name: str
    uid: str
    version: str
    value: int
    namespace: str = field(default="")


_priority = msgspec.json.Decoder(_PriorityClass).decode


def project_priority(document: Document) -> PriorityView:
    """A PriorityClass as the agent keeps it."""
    found = _priority(document)
    meta = found.metadata
    return PriorityView(name=meta.name, uid=meta.uid, version=meta.resource_version, value=found.value)
