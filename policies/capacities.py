"""A member's published capacity as the hub keeps it: rows in numpy, queues as vectors (protocol.md 4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec
import numpy as np

from apis import capacity as wire
from apis import keys
from apis.vectors import ResourceVector
from policies.fit import NodeClass, Rows
from policies.shapes import Gang, PodShape, Taint

HOSTNAME: Final = "kubernetes.io/hostname"
"""The label that makes every node unlike all others."""
BY_NAME: Final = "nodes by their names"
"""What only the member can tell of a gang that asks for them."""


@dataclass(frozen=True, slots=True)
class MemberQueue:
    """A queue of the member: what it uses with the queues under it (bound and admitted), and the most it may reach (None: only
    the nodes bound it; 0 of something: none of it)."""

    name: str
    parent: str
    open: bool
    used: ResourceVector
    limit: Mapping[str, int] | None


@dataclass(frozen=True, slots=True)
class CapacityView:
    """One ClusterCapacity. `works_through` is the version the agent's Work watch had reached, 0 before the first status;
    `generation` grows with each write of the agent, 0 before the first. `asked`: the shapes that it is asked about, by hash;
    `answers`: what its scheduler says of them, None where nobody there answers."""

    namespace: str
    name: str
    uid: str
    version: str
    rows: Rows
    cluster: str = ""
    works_through: int = 0
    generation: int = 0
    label_keys: frozenset[str] = frozenset()
    queues: Mapping[str, MemberQueue] = field(default_factory=dict)
    asked: frozenset[str] = frozenset()
    answers: Mapping[str, wire.ShapeAnswer] | None = None


class _Shape(msgspec.Struct, frozen=True):
    hash: str = ""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    label_keys: list[str] | None = None
    shapes: list[_Shape] | None = None


class _WithSpec(msgspec.Struct, frozen=True):
    spec: _Spec = _Spec()


_spec = msgspec.json.Decoder(_WithSpec)


def project_capacity(document: bytes) -> CapacityView:
    """A ClusterCapacity; raises apis.capacity.UnreadableCapacity."""
    read, spec = wire.read(document), _spec.decode(document).spec
    status, meta = read.status, read.metadata
    return CapacityView(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        rows=rows_of(status.nodes),
        cluster=keys.cluster_of(meta.namespace) or "",
        works_through=int(status.works_through) if status.works_through.isdigit() else 0,
        generation=status.generation,
        label_keys=frozenset(spec.label_keys or ()),
        queues={each.name: _queue(each) for each in status.queues},
        asked=frozenset(each.hash for each in spec.shapes or ()),
        answers=None if status.shapes is None else {each.hash: each for each in status.shapes},
    )


def rows_of(table: wire.NodeTable) -> Rows:
    """Published rows as rules see them."""
    width = len(table.resources)
    cells = np.array(table.rows, dtype=np.int64).reshape(len(table.rows), width + 3)
    return Rows(
        classes=tuple(
            NodeClass(
                name=str(index),
                labels=each.labels,
                taints=tuple(Taint(taint.key, taint.value, taint.effect) for taint in each.taints),
                allocatable=ResourceVector(zip(table.resources, each.allocatable, strict=True)),
            )
            for index, each in enumerate(table.classes)
        ),
        resources=table.resources,
        kind=cells[:, 0].copy(),
        free=cells[:, 2:-1].copy(),
        count=cells[:, -1].copy(),
    )


def _queue(use: wire.QueueUse) -> MemberQueue:
    return MemberQueue(
        name=use.name,
        parent=use.parent,
        open=use.state in ("", "Open"),
        used=ResourceVector(use.allocated) + ResourceVector(use.admitted),
        limit=use.real_capability,
    )


def label_keys(shape: PodShape) -> frozenset[str]:
    """Node labels that decide where pods of this shape may run. The host name is none of them: told apart by it, no two nodes
    of any member would be alike, for everybody."""
    affine = {each.key for term in shape.node_affinity for each in term}
    return frozenset(affine | {key for key, _ in shape.node_selector}) - {HOSTNAME}


def names_nodes(gang: Gang) -> bool:
    """Whether a task asks for nodes by their names: which these are, only the member can tell."""
    return any(_reads_names(task.shape) for task in gang.tasks)


def _reads_names(shape: PodShape) -> bool:
    return any(key == HOSTNAME for key, _ in shape.node_selector) or any(
        each.key == HOSTNAME for term in shape.node_affinity for each in term
    )


def only_the_member_can_tell(gang: Gang) -> bool:
    """Whether rows decide nothing about it."""
    return bool(gang.unknown) or names_nodes(gang)


def without_names(gang: Gang) -> Gang:
    """The gang as if any node of the kind would do, marked as what only the member can tell."""
    return replace(gang, tasks=tuple(replace(task, shape=_loose(task.shape)) for task in gang.tasks))


def _loose(shape: PodShape) -> PodShape:
    if not _reads_names(shape):
        return shape
    return replace(
        shape,
        node_selector=tuple(each for each in shape.node_selector if each[0] != HOSTNAME),
        node_affinity=tuple(tuple(each for each in term if each.key != HOSTNAME) for term in shape.node_affinity),
        unknown=shape.unknown or BY_NAME,
    )


def gang_label_keys(gang: Gang) -> frozenset[str]:
    """Node labels that any task of the gang asks about."""
    return frozenset().union(*(label_keys(task.shape) for task in gang.tasks))


def path(queue: str, *, queues: Mapping[str, MemberQueue]) -> Iterator[MemberQueue]:
    """A queue of the member and its ancestors; nothing for a queue that the member does not publish."""
    seen: set[str] = set()
    while queue in queues and queue not in seen:
        seen.add(queue)
        yield queues[queue]
        queue = queues[queue].parent
