"""What is published of this member's room (protocol.md 4), and whether it differs enough from what was published. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np

from apis.capacity import (
    Backlog,
    CapacityCondition,
    CapacityStatus,
    NodeClass,
    NodeTable,
    NodeTaint,
    Orphan,
    QueueUse,
)
from apis.vectors import EMPTY, ResourceVector, total
from member_agent.room import Amounts, Room
from member_agent.views import OUT_OF_SERVICE, NodeView, QueueView

MAX_ROWS: Final = 2500
MAX_BYTES: Final = 64 << 10
"""What the rows may take before they are made coarser (protocol.md 4)."""
HARD_BYTES: Final = 256 << 10
"""What they may take at their coarsest: beyond it rows with the fewest nodes are left out, and the condition says so."""
STEPS: Final = 64
"""Free amounts are rounded down to this share of what the node can allocate; coarser until the rows are few enough."""
CUT: Final = STEPS + 1
"""Stands for rows that are left out."""
DIVISIBLE: Final = ("cpu", "memory", "ephemeral-storage")
"""Resources whose free amounts are rounded; others are counted things and exact."""
LABELS: Final = (
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
)
"""Labels by which classes are told apart as long as the hub names none."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Pods of one gang, hub-run or local, that wait for nodes: what they ask for together, each one `pods` among it."""

    queue: str
    priority: int
    demand: ResourceVector


@dataclass(frozen=True, slots=True)
class Look:
    """Everything a capacity status is made from, as of one instant."""

    room: Room
    nodes: Mapping[str, NodeView]
    queues: tuple[QueueView, ...]
    admitted: Mapping[str, ResourceVector]
    """By queue: accepted and not bound."""
    waiting: tuple[Demand, ...]
    """What is ahead of whoever comes next."""
    orphans: tuple[Orphan, ...]
    through: str
    label_keys: tuple[str, ...] = LABELS


def status(look: Look, *, generation: int, now: str) -> CapacityStatus:
    """The status to publish."""
    table, truncated = node_table(look)
    return CapacityStatus(
        works_through=look.through,
        generation=generation,
        nodes=table,
        queues=tuple(_queue_use(queue, look.admitted) for queue in sorted(look.queues, key=lambda queue: queue.name)),
        backlog=_backlog(look.waiting),
        orphans=look.orphans,
        conditions=tuple(_conditions(look, truncated=truncated, now=now)),
        observed_at=now,
    )


# --- nodes -----------------------------------------------------------------------------------------------------------


def node_table(look: Look) -> tuple[NodeTable, int]:
    """Rows of equal nodes, and how coarse they had to be made (steps of 1/64; CUT where rows are left out)."""
    rows = [row for row in np.flatnonzero(look.room.layout.usable).tolist() if not _excluded(look, row)]
    resources = tuple(sorted(look.room.layout.columns))
    order = [look.room.layout.columns[name] for name in resources]
    classes, class_of = _classes(look, rows, resources)
    free = np.maximum(look.room.free[rows][:, order], 0)
    size = look.room.allocatable[rows][:, order]
    steps = STEPS
    while True:
        rounded = _rounded(free, size, resources, steps=steps)
        unique, counts = _group(class_of, rounded)
        listed = [(int(row[0]), -1, *row[1:].tolist(), int(count)) for row, count in zip(unique, counts, strict=True)]
        if steps == 1 or (len(listed) <= MAX_ROWS and _bytes(listed) <= MAX_BYTES):
            break
        steps //= 2
    kept = _within(listed)
    return NodeTable(resources, classes, tuple(kept)), STEPS // steps if len(kept) == len(listed) else CUT


def _bytes(listed: list[tuple[int, ...]]) -> int:
    return len(msgspec.json.encode(listed))


def _within(listed: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The rows that fit into the hard limits, those with most nodes first; in their old order."""
    if len(listed) <= MAX_ROWS and _bytes(listed) <= HARD_BYTES:
        return listed
    left, kept = HARD_BYTES, set()
    for row in sorted(listed, key=lambda each: (-each[-1], each))[:MAX_ROWS]:
        left -= _bytes([row])
        if left < 0:
            break
        kept.add(row)
    return [row for row in listed if row in kept]


def _excluded(look: Look, row: int) -> bool:
    node = look.nodes.get(look.room.layout.names[row])
    return node is None or any(taint.key == OUT_OF_SERVICE for taint in node.taints)


def _classes(look: Look, rows: list[int], resources: tuple[str, ...]) -> tuple[tuple[NodeClass, ...], Amounts]:
    found: dict[tuple[object, ...], int] = {}
    keys: list[tuple[object, ...]] = []
    for row in rows:
        node = look.nodes[look.room.layout.names[row]]
        labels = tuple((key, node.labels[key]) for key in sorted(look.label_keys) if key in node.labels)
        taints = tuple(sorted(NodeTaint(taint.key, taint.effect, taint.value) for taint in node.taints))
        keys.append((labels, taints, tuple(node.allocatable.get(name) for name in resources)))
    ordered = sorted(set(keys), key=repr)
    for number, key in enumerate(ordered):
        found[key] = number
    classes = tuple(NodeClass(dict(labels), taints, size) for labels, taints, size in ordered)  # type: ignore[call-overload,arg-type]
    return classes, np.array([found[key] for key in keys], dtype=np.int64)


def _rounded(free: Amounts, size: Amounts, resources: tuple[str, ...], *, steps: int) -> Amounts:
    """Idle nodes and counted resources exactly; the rest down to a share of the size."""
    rounded = free.copy()
    for column, name in enumerate(resources):
        if name not in DIVISIBLE:
            continue
        step = np.maximum(size[:, column] // steps, 1)
        down = free[:, column] // step * step
        rounded[:, column] = np.where(free[:, column] == size[:, column], free[:, column], down)
    return rounded


def _group(class_of: Amounts, rounded: Amounts) -> tuple[Amounts, Amounts]:
    table = np.column_stack([class_of, rounded]) if len(class_of) else np.zeros((0, rounded.shape[1] + 1), dtype=np.int64)
    unique, counts = np.unique(table, axis=0, return_counts=True)
    return unique.astype(np.int64), counts.astype(np.int64)


# --- queues, backlog, conditions -------------------------------------------------------------------------------------


def _queue_use(queue: QueueView, admitted: Mapping[str, ResourceVector]) -> QueueUse:
    return QueueUse(
        name=queue.name,
        parent=queue.parent,
        state=queue.state or "Open",
        allocated=dict(queue.allocated),
        admitted=dict(admitted.get(queue.name, EMPTY)),
        guarantee=dict(queue.guarantee),
        real_capability=dict(queue.capability) if queue.capability else None,
    )


def _backlog(waiting: Iterable[Demand]) -> tuple[Backlog, ...]:
    """By queue, and in it the highest priority first."""
    demands: dict[tuple[str, int], list[ResourceVector]] = {}
    for each in waiting:
        demands.setdefault((each.queue, each.priority), []).append(each.demand)
    sums = {key: total(demands[key]) for key in sorted(demands, key=lambda key: (key[0], -key[1]))}
    return tuple(
        Backlog(queue=queue, priority=priority, demand=dict(demand), pods=demand.get("pods") // 1000)
        for (queue, priority), demand in sums.items()
    )


def _conditions(look: Look, *, truncated: int, now: str) -> Iterable[CapacityCondition]:
    if look.orphans:
        names = ", ".join(f"{each.namespace}/{each.name}" for each in look.orphans[:5])
        message = f"{len(look.orphans)} Jobs run here without a Work: {names}; they are kept running"
        yield CapacityCondition("Orphans", "True", reason="WorkMissing", message=message, last_transition_time=now)
    if truncated == CUT:
        message = "nodes of the rarest kinds are left out to keep the profile small; what fits on them alone is not offered"
        yield CapacityCondition("ProfileTruncated", "True", reason="RowsLeftOut", message=message, last_transition_time=now)
    elif truncated > 1:
        message = f"free amounts are rounded down to 1/{STEPS // truncated} to keep the profile small"
        yield CapacityCondition("ProfileTruncated", "True", reason="TooManyRows", message=message, last_transition_time=now)


# --- what is worth a write -------------------------------------------------------------------------------------------


def material(old: CapacityStatus | None, new: CapacityStatus, *, share: float) -> bool:
    """Whether the hub could decide otherwise with the new status."""
    if old is None:
        return True
    if (old.queues, old.backlog, old.orphans) != (new.queues, new.backlog, new.orphans):
        return True
    if [(each.type, each.status) for each in old.conditions] != [(each.type, each.status) for each in new.conditions]:
        return True
    before, after = _sums(old.nodes), _sums(new.nodes)
    if before.keys() != after.keys():
        return True
    return any(_moved(before[key], after[key], share=share) for key in before)


def nodes_of(status: CapacityStatus | None) -> int:
    """Nodes that take new pods."""
    return sum(row[-1] for row in status.nodes.rows) if status is not None else 0


def _sums(table: NodeTable) -> dict[object, dict[str, int]]:
    """Free amounts and nodes by class."""
    sums: dict[object, dict[str, int]] = {}
    for row in table.rows:
        node_class = table.classes[row[0]]
        key = (tuple(sorted(node_class.labels.items())), node_class.taints, node_class.allocatable, table.resources)
        found = sums.setdefault(key, {"nodes": 0})
        found["nodes"] += row[-1]
        for name, amount in zip(table.resources, row[2:-1], strict=True):
            found[name] = found.get(name, 0) + amount * row[-1]
    return sums


def _moved(before: Mapping[str, int], after: Mapping[str, int], *, share: float) -> bool:
    if before["nodes"] != after["nodes"]:
        return True
    return any(abs(after[name] - before[name]) >= max(before[name] * share, 1) for name in before)
