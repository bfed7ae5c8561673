"""Rows of equal nodes as they are published: exact where that is cheap, coarser until they are small enough. Pure.

Law: whatever is left out or rounded, no row promises more than its nodes have free.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np

from apis.capacity import CapacityStatus, NodeClass, NodeTable, NodeTaint
from member_agent.room import HOSTNAME, Amounts, Layout, Mask, Room

MAX_ROWS: Final = 2500
MAX_BYTES: Final = 64 << 10
"""What the rows may take before they are made coarser (protocol.md 4)."""
STEPS: Final = 64
"""Free amounts are rounded down to this share of what the node can allocate; coarser until the table is small enough."""
DIVISIBLE: Final = ("cpu", "memory", "ephemeral-storage")
"""Resources whose free amounts are rounded; others are counted things and exact."""
PLACES: Final = ("pods",)
"""Counted, and hardly ever short: rounded too where the table has to be made coarser, before any node is left out."""
LABELS: Final = (
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
)
"""Labels by which classes are told apart as long as the hub names none."""
FOREIGN: Final = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "ToBeDeletedByClusterAutoscaler",
    "karpenter.sh/disrupted",
    "karpenter.sh/unregistered",
    "node.cilium.io/agent-not-ready",
)
"""Beginnings of the keys of taints that tell of a node's own trouble or end: whoever tolerates them is no Job."""
HARD: Final = ("NoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True)
class Sorts:
    """Nodes that take pods, sorted: row of the room, class and domain each. It holds as long as layout and sizes do."""

    rows: Amounts
    resources: tuple[str, ...]
    columns: tuple[int, ...]
    classes: tuple[NodeClass, ...]
    class_of: Amounts
    domains: tuple[str, ...]
    domain_of: Amounts
    """-1: none."""
    size: Amounts


@dataclass(frozen=True, slots=True)
class Table:
    """What is published of the nodes: `coarse`, how many times coarser than 1/64; `left_out`, nodes that have no row."""

    nodes: NodeTable = NodeTable()
    domains: tuple[str, ...] = ()
    coarse: int = 1
    left_out: int = 0


def counts(layout: Layout, *, foreign: Collection[str] = FOREIGN) -> Mask:
    """Which nodes count: ready, not cordoned, and without a taint that tells of their own trouble."""
    kept = [
        not any(taint.effect in HARD and taint.key.startswith(tuple(foreign)) for taint in each.taints)
        for each in layout.classes
    ]
    if not kept:
        return layout.usable
    found: Mask = np.array(kept, dtype=np.bool_)[layout.class_of] & layout.usable
    return found


def sort(room: Room, *, label_keys: Sequence[str], domains: Sequence[str] = (), foreign: Collection[str] = FOREIGN) -> Sorts:
    """Sort the nodes of a room. `domains`: labels that name the leaf domain of a node, the first that it has counts."""
    layout = room.layout
    rows = np.flatnonzero(counts(layout, foreign=foreign))
    present = (room.allocatable[rows] > 0).sum(axis=0)
    resources = tuple(sorted(name for name, at in layout.columns.items() if at < len(present) and present[at]))
    columns = tuple(layout.columns[name] for name in resources)
    size = room.allocatable[rows][:, list(columns)]
    looks, look_of = _looks(layout, rows, label_keys)
    places, place_of = _places(layout, rows, domains)
    table = np.column_stack([look_of, size])
    kinds, kind_of = np.unique(table, axis=0, return_inverse=True) if len(rows) else (table, np.zeros(0, dtype=np.int64))
    made = [NodeClass(dict(looks[kind[0]][0]), looks[kind[0]][1], tuple(kind[1:])) for kind in kinds.tolist()]
    return Sorts(rows, resources, columns, tuple(made), kind_of.reshape(-1).astype(np.int64), places, place_of, size)


_Look = tuple[tuple[tuple[str, str], ...], tuple[NodeTaint, ...]]


def _looks(layout: Layout, rows: Amounts, label_keys: Sequence[str]) -> tuple[list[_Look], Amounts]:
    """Labels and taints that are told apart, in order, and which of them each row has."""
    wanted = sorted(set(label_keys) - {HOSTNAME})
    of_class: list[_Look] = []
    for each in layout.classes:
        labels = dict(each.labels)
        told = tuple((key, labels[key]) for key in wanted if key in labels)
        of_class.append((told, tuple(sorted(NodeTaint(taint.key, taint.effect, taint.value) for taint in each.taints))))
    found = [of_class[index] for index in layout.class_of[rows].tolist()]
    if HOSTNAME in label_keys:
        hosts = [layout.hosts[row] for row in rows.tolist()]
        found = [
            (tuple(sorted((*labels, (HOSTNAME, host)))), taints) for (labels, taints), host in zip(found, hosts, strict=True)
        ]
    ordered = sorted(set(found))
    index = {look: number for number, look in enumerate(ordered)}
    return ordered, np.array([index[look] for look in found], dtype=np.int64)


def _places(layout: Layout, rows: Amounts, domains: Sequence[str]) -> tuple[tuple[str, ...], Amounts]:
    """Leaf domains by name, and which of them each row is in."""
    of_class = []
    for each in layout.classes:
        labels = dict(each.labels)
        of_class.append(next((labels[key] for key in domains if labels.get(key)), ""))
    found = [of_class[index] for index in layout.class_of[rows].tolist()]
    ordered = tuple(sorted(set(found) - {""}))
    index = {"": -1} | {name: number for number, name in enumerate(ordered)}
    return ordered, np.array([index[name] for name in found], dtype=np.int64)


def publish(sorts: Sorts, free: Amounts, *, limit: int) -> Table:
    """The table of nodes with this much free (rows as in the room the nodes were sorted from), within `limit` bytes."""
    left = np.maximum(free[sorts.rows][:, list(sorts.columns)], 0)
    left = np.minimum(left, sorts.size)  # more than all of it is nobody's room
    sorts_of_nodes = len(set(zip(sorts.class_of.tolist(), sorts.domain_of.tolist(), strict=True)))
    steps = STEPS
    while True:
        listed = _group(sorts, _rounded(sorts, left, steps=steps))
        small = len(listed) <= MAX_ROWS and len(msgspec.json.encode(listed)) <= MAX_BYTES
        if small or steps == 1 or sorts_of_nodes > MAX_ROWS:  # there is a row for each sort of nodes, however coarse
            break
        steps //= 2
    kept = _within(sorts, listed, limit=limit)
    left_out = sum(row[-1] for row in listed) - sum(row[-1] for row in kept)
    nodes, domains = _table(sorts, kept)
    return Table(nodes, domains, STEPS // steps, left_out)


def _rounded(sorts: Sorts, free: Amounts, *, steps: int) -> Amounts:
    """Idle nodes and counted resources exactly; the rest down to a share of the size."""
    rounded = free.copy()
    names = DIVISIBLE if steps == STEPS else (*DIVISIBLE, *PLACES)
    for column, name in enumerate(sorts.resources):
        if name not in names:
            continue
        size = sorts.size[:, column]
        step = np.maximum(-(-size // steps), 1)
        whole = 1000 if name in PLACES else 1
        step = -(-step // whole) * whole
        rounded[:, column] = np.where(free[:, column] == size, size, free[:, column] // step * step)
    return rounded


def _group(sorts: Sorts, rounded: Amounts) -> list[tuple[int, ...]]:
    if not len(rounded):
        return []
    table = np.column_stack([sorts.class_of, sorts.domain_of, rounded])
    unique, number = np.unique(table, axis=0, return_counts=True)
    return [(*row, count) for row, count in zip(map(tuple, unique.tolist()), number.tolist(), strict=True)]


def _bytes(sorts: Sorts, listed: Sequence[tuple[int, ...]]) -> int:
    """What rows, their classes and their domains take as JSON."""
    classes = [sorts.classes[index] for index in {row[0] for row in listed}]
    domains = [sorts.domains[index] for index in {row[1] for row in listed} if index >= 0]
    return sum(len(msgspec.json.encode(each)) for each in (listed, classes, domains))


def _within(sorts: Sorts, listed: list[tuple[int, ...]], *, limit: int) -> list[tuple[int, ...]]:
    """The rows that fit into the hard limits, those with most nodes first; in their old order."""
    if len(listed) <= MAX_ROWS and _bytes(sorts, listed) <= limit:
        return listed
    left, kept = limit, set()
    classes: set[int] = set()
    domains: set[int] = set()
    for row in sorted(listed, key=lambda each: (-each[-1], each))[:MAX_ROWS]:
        left -= len(msgspec.json.encode(row)) + 1
        if row[0] not in classes:
            left -= len(msgspec.json.encode(sorts.classes[row[0]])) + 1
        if row[1] >= 0 and row[1] not in domains:
            left -= len(msgspec.json.encode(sorts.domains[row[1]])) + 1
        if left < 0:
            break
        classes.add(row[0])
        domains.add(row[1])
        kept.add(row)
    return [row for row in listed if row in kept]


def _table(sorts: Sorts, kept: list[tuple[int, ...]]) -> tuple[NodeTable, tuple[str, ...]]:
    """With the classes and domains that have a row, numbered anew."""
    classes, domains = sorted({row[0] for row in kept}), sorted({row[1] for row in kept} - {-1})
    number = {old: new for new, old in enumerate(classes)}
    place = {-1: -1} | {old: new for new, old in enumerate(domains)}
    rows = tuple((number[row[0]], place[row[1]], *row[2:]) for row in kept)
    nodes = NodeTable(sorts.resources, tuple(sorts.classes[index] for index in classes), rows)
    return nodes, tuple(sorts.domains[index] for index in domains)


# --- what is worth a write -------------------------------------------------------------------------------------------


def groups(table: NodeTable, domains: Sequence[str]) -> Mapping[object, Mapping[str, int]]:
    """Free amounts and nodes by class and domain."""
    sums: dict[object, dict[str, int]] = {}
    for row in table.rows:
        each = table.classes[row[0]]
        domain = domains[row[1]] if row[1] >= 0 else ""
        key = (tuple(sorted(each.labels.items())), each.taints, each.allocatable, domain, table.resources)
        found = sums.setdefault(key, {"nodes": 0})
        found["nodes"] += row[-1]
        for name, amount in zip(table.resources, row[2:-1], strict=True):
            found[name] = found.get(name, 0) + amount * row[-1]
    return sums


def moved(before: CapacityStatus, after: CapacityStatus, *, share: float) -> bool:
    """Whether a group came, went, has another number of nodes, or by this share more or less of anything free."""
    old, new = groups(before.nodes, before.domains), groups(after.nodes, after.domains)
    if old.keys() != new.keys():
        return True
    return any(
        old[key]["nodes"] != new[key]["nodes"] or any(changed(old[key][name], new[key][name], share=share) for name in old[key])
        for key in old
    )


def changed(before: int, after: int, *, share: float) -> bool:
    """By this share of what it was, or from nothing to something, or back."""
    return before != after and (not before or not after or abs(after - before) >= before * share)


def many(table: NodeTable) -> int:
    """Nodes that take new pods."""
    return sum(row[-1] for row in table.rows)


@dataclass(slots=True)
class Sorter:
    """Keeps what was sorted for as long as nothing it depends on changes."""

    label_keys: tuple[str, ...] = LABELS
    domains: tuple[str, ...] = ()
    foreign: tuple[str, ...] = FOREIGN
    _of: tuple[Layout, Amounts, tuple[str, ...]] | None = field(default=None, repr=False)
    _found: Sorts | None = field(default=None, repr=False)

    def __call__(self, room: Room) -> Sorts:
        """The nodes of this room, sorted."""
        known = self._of
        if (
            self._found is None
            or known is None
            or known[0] is not room.layout
            or known[1] is not room.allocatable
            or known[2] != self.label_keys
        ):
            self._found = sort(room, label_keys=self.label_keys, domains=self.domains, foreign=self.foreign)
            self._of = (room.layout, room.allocatable, self.label_keys)
        return self._found
