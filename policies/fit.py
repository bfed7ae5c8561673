"""Does a gang fit a member? A packing of all its pods on a copy of the member's free rows (protocol.md 4).

Never a minimum over shapes: tasks compete for the same nodes, so they are placed one after the other, the most demanding
shape first, each pod on the row that it leaves the least of (best fit decreasing; Johnson, 1973). For a gang of one shape
the count is exact; for several shapes a packing that is found is real, and one that is not found may still exist.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from apis.vectors import ResourceVector
from policies.shapes import Gang, PodShape, Taint

Array = npt.NDArray[np.int64]

MOST_PODS: Final = 1 << 31
"""More pods of one shape than a node ever takes: one that asks for nothing would fit without end."""


class Answer(enum.StrEnum):
    """Protocol.md 4."""

    FITS = "Fits"
    NO = "No"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class NodeClass:
    """Nodes that are alike to every pod: labels that pods ask for, taints, and what one node can allocate."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    allocatable: ResourceVector = ResourceVector()


@dataclass(frozen=True, slots=True)
class Rows:
    """Free room of a member: row i says that `count[i]` nodes of class `kind[i]` have `free[i]` left each.

    `free` is (rows, resources) in milli units. Frozen by convention: `Room` copies before it writes.
    """

    classes: tuple[NodeClass, ...]
    resources: tuple[str, ...]
    kind: Array
    free: Array
    count: Array
    _accepts: dict[object, npt.NDArray[np.bool_]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def accepting(self, shape: PodShape) -> npt.NDArray[np.bool_]:
        """By class, whether a pod of this shape may run there; worked out once for all that say the same of where."""
        known = self._accepts.get(shape)
        if known is None:
            where = (shape.node_selector, shape.node_affinity, shape.tolerations)
            known = self._accepts.get(where)
            if known is None:
                found = [shape.accepts(each.labels, taints=each.taints) for each in self.classes]
                known = self._accepts[where] = np.array(found, dtype=np.bool_)
            self._accepts[shape] = known
        return known

    @property
    def total(self) -> ResourceVector:
        """Everything that is free."""
        sums = (self.free * self.count[:, None]).sum(axis=0) if len(self.count) else np.zeros(len(self.resources), np.int64)
        return ResourceVector({name: int(amount) for name, amount in zip(self.resources, sums, strict=True)})


def rows(classes: Sequence[NodeClass], listed: Sequence[tuple[int, ResourceVector, int]]) -> Rows:
    """Rows from (class index, free vector of one node, number of nodes)."""
    names = tuple(sorted({name for _, free, _ in listed for name in free}))
    table = np.array([[free.get(name) for name in names] for _, free, _ in listed], dtype=np.int64)
    return Rows(
        classes=tuple(classes),
        resources=names,
        kind=np.array([kind for kind, _, _ in listed], dtype=np.int64),
        free=table.reshape(len(listed), len(names)),
        count=np.array([count for _, _, count in listed], dtype=np.int64),
    )


@dataclass(frozen=True, slots=True)
class Packing:
    """The answer for one gang on one member; `text` says what is short, or what only the member can tell."""

    answer: Answer
    text: str = ""
    whole: bool = False
    """All replicas fit, not only the minimum."""


class Room:
    """A working copy of a member's rows, from which promised gangs are taken."""

    def __init__(self, source: Rows) -> None:
        self._source = source
        self._kind, self._free, self._count = source.kind, source.free, source.count
        self._index = {name: at for at, name in enumerate(source.resources)}
        self._left: ResourceVector | None = None
        self._largest: dict[str, int] | None = None
        self.changes: list[tuple[Array, Array, Array]] | None = None
        """Where somebody follows: rows that went (negative counts) and came, as (class, free, nodes)."""

    def copy(self) -> Room:
        """An independent copy; arrays are shared until one of the two is written."""
        other = Room(self._source)
        other._kind, other._free, other._count = self._kind, self._free, self._count
        other._left, other._largest = self._left, self._largest
        return other

    def with_more(self, amount: ResourceVector) -> Room:
        """A copy that tells of so much more that is free; where it is free nobody knows, so nothing is placed on it."""
        other = self.copy()
        other._left = self.free + amount
        return other

    @property
    def free(self) -> ResourceVector:
        """Everything that is left."""
        if self._left is None:
            left = Rows(self._source.classes, self._source.resources, self._kind, self._free, self._count)
            self._left = left.total
        return self._left

    def take(self, shape: PodShape, *, pods: int) -> int:
        """Place up to `pods` pods; answers how many found a place."""
        eligible = self._eligible(shape)
        if pods <= 0 or eligible is None:
            return 0
        at, demand = self._demand(shape)
        per_node = self._copies(demand, at, limit=1 if shape.one_per_node else pods)
        per_node[~eligible] = 0
        chosen = np.flatnonzero(per_node)
        if not len(chosen):
            return 0
        # Best fit: rows whose room for this shape is smallest first, so that large holes stay for large pods.
        order = chosen[np.argsort(per_node[chosen], kind="stable")]
        return self._fill(order, per_node, demand, at, pods)

    def places(self, shape: PodShape) -> int:
        """How many pods of a shape alone would find a place; nothing is taken."""
        eligible = self._eligible(shape)
        if eligible is None:
            return 0
        at, demand = self._demand(shape)
        per_node = self._copies(demand, at, limit=1 if shape.one_per_node else MOST_PODS)
        return int((per_node[eligible] * self._count[eligible]).sum())

    def _eligible(self, shape: PodShape) -> npt.NDArray[np.bool_] | None:
        if any(name not in self._index for name, amount in shape.requests.items() if amount > 0):
            return None
        return self._source.accepting(shape)[self._kind] if len(self._kind) else None

    def _demand(self, shape: PodShape) -> tuple[list[int], Array]:
        asked = [(self._index[name], amount) for name, amount in shape.requests.items() if amount > 0]
        return [at for at, _ in asked], np.array([amount for _, amount in asked], dtype=np.int64)

    def _copies(self, demand: Array, at: list[int], *, limit: int) -> Array:
        """How many pods one node of each row takes."""
        if not at:
            return np.full(len(self._count), limit, dtype=np.int64)
        copies = self._free[:, at[0]] // demand[0]
        for column, amount in zip(at[1:], demand[1:].tolist(), strict=True):
            copies = np.minimum(copies, self._free[:, column] // amount)
        bounded: Array = np.minimum(np.maximum(copies, 0), limit)
        return bounded

    def _fill(self, order: Array, per_node: Array, demand: Array, at: list[int], pods: int) -> int:
        capacity = per_node[order] * self._count[order]
        before = np.concatenate(([0], np.cumsum(capacity)[:-1]))
        wanted = np.minimum(np.maximum(pods - before, 0), capacity)
        used, amounts = order[wanted > 0], wanted[wanted > 0]
        self._split(used, amounts, per_node[used], demand, at)
        return int(amounts.sum())

    def _split(self, used: Array, amounts: Array, each: Array, demand: Array, at: list[int]) -> None:
        """Put `amounts` pods on the nodes of rows, `each` at most on one: full nodes stay the row, the others are split off."""
        full, rest = np.divmod(amounts, each)
        kind, before, nodes = self._kind[used], self._free[used], self._count[used]
        partly = before.copy()
        partly[:, at] -= demand * rest[:, None]
        after = before.copy()
        after[:, at] -= demand * each[:, None]
        # Of each row at most two are split off: a node that is not full, and those that nothing is put on.
        begun = rest > 0
        idle = nodes - full - begun
        left = idle > 0
        kinds = np.concatenate((kind[begun], kind[left]))
        frees = np.concatenate((partly[begun], before[left]))
        counts = np.concatenate((begun[begun].astype(np.int64), idle[left]))
        self._kind = np.concatenate((self._kind, kinds))
        self._free = np.concatenate((self._free, frees))  # copies: other rooms may share the arrays
        self._count = np.concatenate((self._count, counts))
        self._free[used], self._count[used] = after, full
        self._left = None
        if self.changes is not None:
            self.changes += [(kind, before, -nodes), (kind, after, full), (kinds, frees, counts)]

    def take_all(self, pods: Sequence[tuple[PodShape, int]]) -> tuple[PodShape, int, int] | None:
        """Place everything, the most demanding shape first; answers (shape, placed, wanted) of the first that did not fit."""
        for shape, count in self._ordered(pods):
            placed = self.take(shape, pods=count)
            if placed < count:
                return shape, placed, count
        return None

    def charge(self, gang: Gang) -> None:
        """Take a promised gang: all its pods, as many as find a place."""
        for shape, count in self._ordered(gang.whole()):
            self.take(shape, pods=count)

    def _ordered(self, pods: Sequence[tuple[PodShape, int]]) -> list[tuple[PodShape, int]]:
        """Equal shapes together, the most demanding first."""
        counts: dict[PodShape, int] = {}
        for shape, count in pods:
            counts[shape] = counts.get(shape, 0) + count
        return sorted(counts.items(), key=lambda each: self._weight(each[0]), reverse=True)

    def _weight(self, shape: PodShape) -> tuple[float, str]:
        """Dominant share of the room; ties by text, so that the order is defined."""
        if self._largest is None:
            top = self._source.free.max(axis=0) if len(self._source.free) else np.zeros(len(self._index), np.int64)
            self._largest = dict(zip(self._source.resources, top.tolist(), strict=True))
        shares = [
            amount / max(self._largest[name], 1) if name in self._index else float("inf")
            for name, amount in shape.requests.items()
            if amount > 0
        ]
        return max(shares, default=0.0), repr(shape.requests)

    def shortage(self, shape: PodShape) -> str:
        """What keeps one more pod of this shape out, for people."""
        missing = [name for name, amount in shape.requests.items() if amount > 0 and name not in self._index]
        if missing:
            return f"no node offers {', '.join(missing)}"
        eligible = self._eligible(shape)
        if eligible is None or not eligible[self._count > 0].any():
            return "no node matches its selector, affinity and tolerations" if len(self._kind) else "no ready nodes"
        at, demand = self._demand(shape)
        live = eligible & (self._count > 0)
        short = [
            self._source.resources[col]
            for col, need in zip(at, demand, strict=True)
            if not (self._free[live, col] >= need).any()
        ]
        return f"short of {', '.join(short)}" if short else "no single node has enough of everything it asks for"


def pack(room: Room, gang: Gang) -> Packing:
    """Fits, No or Unknown for the minimum of a gang; the room stays as it was."""
    trial = room.copy()
    least, everything = gang.least(), gang.whole()
    failed = trial.take_all(least)
    if failed is not None:
        shape, placed, wanted = failed
        return Packing(Answer.NO, text=f"{placed} of {wanted} pods ({_amounts(shape)}) fit: {trial.shortage(shape)}")
    whole = least == everything or room.copy().take_all(everything) is None
    if gang.unknown:
        return Packing(Answer.UNKNOWN, text=unsure(gang), whole=whole)
    return Packing(Answer.FITS, whole=whole)


def unsure(gang: Gang) -> str:
    """What of a gang rows do not decide, for people."""
    return f"only the member can tell: {gang.unknown}"


def _amounts(shape: PodShape) -> str:
    return str(ResourceVector({name: amount for name, amount in shape.requests.items() if name != "pods"}))
