"""What all members have published, side by side in columns, so that one question is answered for every cluster at once.

Rows of one member and one class of node are a group. How many pods of some size each group takes is worked out once per size
and class of selector, whoever asks; what a round takes away afterwards is a short list of changed rows (`Left`), and answers
follow it. Counts are the same as `policies.fit.Room` finds, member by member (a law holds that).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
import numpy.typing as npt

from apis.vectors import ResourceVector
from policies.fit import MOST_PODS, Array, NodeClass, Rows
from policies.shapes import PodShape, Taint, Toleration

Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Where = tuple[tuple[tuple[str, str], ...], object, tuple[Toleration, ...]]
"""Selector, affinity and tolerations of a shape: what decides on classes of nodes."""
Size = tuple[ResourceVector, bool]
"""Requests of a shape, and whether a node takes only one of it."""


class Fit(enum.IntEnum):
    """Whether pods find room in a cluster, as far as sums over its rows can tell."""

    NO = 0
    MAYBE = 1
    """Several shapes compete for the same nodes: only a packing tells."""
    YES = 2


@dataclass(slots=True)
class _Block:
    """One member's rows, sorted by class."""

    rows: Rows | None
    resources: tuple[str, ...] = ()
    kinds: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    """Class of each group, as the ground numbers them."""
    group_of: dict[int, int] = field(default_factory=dict)
    """Group by the class index of the member, counted from the member's first."""
    starts: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    free: Array = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    """By resource and row."""
    count: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    total: dict[str, int] = field(default_factory=dict)
    pods: dict[Size, Array] = field(default_factory=dict)
    """By group, how many pods of a size its nodes take."""

    def count_pods(self, size: Size) -> None:
        """Works it out for one size."""
        row = {name: at for at, name in enumerate(self.resources)}
        each = copies(size, self.free, row) * self.count
        self.keep(size, np.add.reduceat(each, self.starts) if len(each) else np.zeros(0, np.int64))

    def keep(self, size: Size, pods: Array) -> None:
        """Remembers it; sizes that nobody asks for any more go with the others now and then."""
        if len(self.pods) >= MOST_SIZES:
            self.pods.clear()
        self.pods[size] = pods


class Kinds:
    """Classes of nodes that are alike to every pod have one number, in whatever member they are."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[tuple[tuple[str, str], ...], tuple[Taint, ...]], int] = {}
        self.known: list[NodeClass] = []
        self._accepts: dict[Where, Mask] = {}
        self._labelled: dict[tuple[tuple[str, str], ...], Mask] = {}

    def number(self, kind: NodeClass) -> int:
        """The number of a class."""
        key = (tuple(sorted(kind.labels.items())), kind.taints)
        if key not in self._numbers:
            self._numbers[key] = len(self.known)
            self.known.append(kind)
        return self._numbers[key]

    def accepting(self, shape: PodShape) -> Mask:
        """By number, whether a pod of this shape may run on nodes of the class."""
        where = (shape.node_selector, shape.node_affinity, shape.tolerations)
        found = self._accepts.get(where)
        known = len(found) if found is not None else 0
        if found is None or known < len(self.known):
            more = [shape.accepts(each.labels, taints=each.taints) for each in self.known[known:]]
            found = np.array([*(found if found is not None else ()), *more], dtype=np.bool_)
            self._accepts[where] = found
        return found

    def labelled(self, labels: Mapping[str, str]) -> Mask:
        """By number, whether nodes of the class have all these labels."""
        key = tuple(sorted(labels.items()))
        found = self._labelled.get(key)
        if found is None or len(found) < len(self.known):
            have = [all(each.labels.get(name) == value for name, value in key) for each in self.known]
            found = self._labelled[key] = np.array(have, dtype=np.bool_)
        return found


def _block(rows: Rows, kinds: Kinds) -> _Block:
    order = np.argsort(rows.kind, kind="stable")
    kind, free, count = rows.kind[order], rows.free[order], rows.count[order]
    starts = np.flatnonzero(np.diff(kind, prepend=-1)) if len(kind) else np.zeros(0, np.int64)
    own = kind[starts].tolist()
    return _Block(
        rows=rows,
        resources=rows.resources,
        kinds=np.array([kinds.number(rows.classes[each]) for each in own], dtype=np.int64),
        group_of={each: at for at, each in enumerate(own)},
        starts=starts,
        free=np.ascontiguousarray(free.T),
        count=count,
        total=dict(rows.total.items()),
    )


class Ground:
    """Frozen: what it remembers of earlier questions changes no answer. `before` lends what has not changed since."""

    def __init__(self, published: Sequence[Rows | None], *, before: Ground | None = None) -> None:
        fresh = before is None or len(before.kinds.known) >= MOST_KINDS
        self.kinds: Kinds = Kinds() if fresh or before is None else before.kinds
        lent = {id(each.rows): each for each in before._blocks} if before is not None and not fresh else {}
        self._blocks: list[_Block] = [
            (lent.get(id(rows)) or _block(rows, self.kinds)) if rows is not None else _Block(None) for rows in published
        ]
        self._published = tuple(published)
        self.resources = tuple(sorted({name for each in self._blocks for name in each.resources}))
        self._row = {name: at for at, name in enumerate(self.resources)}
        self._columns = [np.array([self._row[name] for name in each.resources], dtype=np.int64) for each in self._blocks]
        self.first = _ends([len(each.kinds) for each in self._blocks])
        """First group of each member, and the end."""
        self.kind = np.concatenate([np.zeros(0, np.int64), *(each.kinds for each in self._blocks)])
        self.total = np.array(
            [[each.total.get(name, 0) for each in self._blocks] for name in self.resources], dtype=np.int64
        ).reshape(len(self.resources), len(self._blocks))
        """Everything that is free, by resource and member."""
        self._pods: dict[Size, Array] = {}
        self._sums: dict[PodShape, Array] = {}
        self._accepts: dict[PodShape, Mask] = {}
        self._wide: tuple[Array, Array, Array] | None = None

    def is_of(self, published: Sequence[Rows | None]) -> bool:
        """Whether these are the very rows that it was made from."""
        return len(published) == len(self._published) and all(
            mine is theirs for mine, theirs in zip(self._published, published, strict=True)
        )

    def published(self, member: int) -> Rows | None:
        """A member's rows; None where it has published none."""
        return self._published[member]

    def columns(self, member: int) -> Array:
        """Where a member's resources are among all."""
        return self._columns[member]

    def group(self, member: int, kind: int) -> int:
        """The group of a member's class, by the member's own index of it."""
        return int(self.first[member]) + self._blocks[member].group_of[kind]

    def accepting(self, shape: PodShape) -> Mask:
        """By group, whether a shape may run there."""
        known = self._accepts.get(shape)
        if known is None:
            known = self._accepts[shape] = self.kinds.accepting(shape)[self.kind]
        return known

    def pods(self, size: Size) -> Array:
        """By group, how many pods of a size its nodes take."""
        known = self._pods.get(size)
        if known is None:
            missing = [each for each in self._blocks if size not in each.pods]
            if len(missing) > FEW:
                self._everywhere(size)
            else:
                for each in missing:
                    each.count_pods(size)
            known = np.concatenate([np.zeros(0, np.int64), *(each.pods[size] for each in self._blocks)])
            self._pods[size] = known
        return known

    def _everywhere(self, size: Size) -> None:
        """Of all members at once: one pass over long columns is quicker than many over short ones."""
        if self._wide is None:
            ends = _ends([len(each.count) for each in self._blocks])
            free = np.zeros((len(self.resources), int(ends[-1])), dtype=np.int64)
            for block, columns, begin, end in zip(self._blocks, self._columns, ends[:-1], ends[1:], strict=True):
                free[columns, begin:end] = block.free
            none = np.zeros(0, np.int64)
            starts = np.concatenate([none, *(each.starts + begin for each, begin in zip(self._blocks, ends[:-1], strict=True))])
            self._wide = free, np.concatenate([none, *(each.count for each in self._blocks)]), starts
        free, count, starts = self._wide
        each = copies(size, free, self._row) * count
        found = np.add.reduceat(each, starts) if len(each) else np.zeros(0, np.int64)
        for block, begin, end in zip(self._blocks, self.first[:-1].tolist(), self.first[1:].tolist(), strict=True):
            block.keep(size, found[begin:end])

    def demand(self, requests: ResourceVector) -> Array:
        """A vector in the order of the ground's resources; what no member has is left out."""
        return np.array([requests.get(name) for name in self.resources], dtype=np.int64)

    def placed(self, shape: PodShape) -> Array:
        """By group, how many pods of a shape its nodes take by what is published."""
        known = self._sums.get(shape)
        if known is None:
            known = self._sums[shape] = self.pods(size_of(shape)) * self.accepting(shape)
        return known

    def by_member(self, groups: Array) -> Array:
        """Sums over each member's groups."""
        return spans(groups, self.first[:-1], self.first[1:])

    def copies(self, size: Size, free: Array) -> Array:
        """As `copies`, for rows in the order of the ground's resources."""
        return copies(size, free, self._row)


FEW = 8
"""Members whose pods of a size are counted one by one."""
MOST_SIZES = 500
"""Sizes that are remembered of a member."""
MOST_KINDS = 20_000
"""Classes of nodes after which the numbers are given anew: what went is forgotten."""


def _ends(lengths: Sequence[int]) -> Array:
    """Where each of these comes to lie, and the end."""
    found: Array = np.concatenate(([0], np.cumsum(np.array(lengths, dtype=np.int64))))
    return found


def size_of(shape: PodShape) -> Size:
    """What of a shape decides how many a node takes."""
    return shape.requests, shape.one_per_node


def copies(size: Size, free: Array, row: Mapping[str, int]) -> Array:
    """How many pods of a size one node of each row takes; `free` is (resources, rows)."""
    requests, one = size
    limit = 1 if one else MOST_PODS
    found: Array | None = None
    for name, amount in requests.items():
        if amount <= 0:
            continue
        if name not in row:
            return np.zeros(free.shape[1], dtype=np.int64)
        each = free[row[name]] // amount
        found = each if found is None else np.minimum(found, each)
    if found is None:
        return np.full(free.shape[1], limit, dtype=np.int64)
    return np.minimum(np.maximum(found, 0), limit)


def spans(values: Array, starts: Array, ends: Array) -> Array:
    """Sums of values[start:end]; empty spans are 0."""
    sums = np.concatenate(([0], np.cumsum(values)))
    found: Array = sums[ends] - sums[starts]
    return found


# --- what a round leaves ---------------------------------------------------------------------------------------------
class Left:
    """The ground less what is taken: `note` every change of a member's rows, ask for counts in between."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self.total = ground.total.copy()
        self._log: list[tuple[Array, Array, Array]] = []
        self._pods: dict[Size, tuple[Array, int]] = {}
        self._counts: dict[PodShape, tuple[Array, int]] = {}

    @property
    def resources(self) -> tuple[str, ...]:
        """What the rows of `total` are."""
        return self._ground.resources

    def note(self, member: int, changes: Iterable[tuple[Array, Array, Array]]) -> None:
        """Rows that went (negative counts) and came: class by the member's index, free by its resources, nodes."""
        ground, columns = self._ground, self._ground.columns(member)
        for kind, free, count in changes:
            if not len(kind):
                continue
            wide = np.zeros((len(ground.resources), len(kind)), dtype=np.int64)
            wide[columns] = free.T
            group_of, first = ground._blocks[member].group_of, int(ground.first[member])
            groups = np.array([first + group_of[each] for each in kind.tolist()], dtype=np.int64)
            self._log.append((groups, wide, count))
            self.total[:, member] += wide @ count

    def pods(self, size: Size) -> Array:
        """By group, how many pods of a size its nodes take now."""
        known, at = self._pods.get(size, (None, 0))
        if known is None:
            known = self._ground.pods(size).copy() if self._log else self._ground.pods(size)
        if at < len(self._log):
            new = self._log[at:]
            if at == 0:
                known = known.copy()
            groups = np.concatenate([each[0] for each in new])
            free = np.concatenate([each[1] for each in new], axis=1)
            count = np.concatenate([each[2] for each in new])
            np.add.at(known, groups, self._ground.copies(size, free) * count)
        self._pods[size] = (known, len(self._log))
        return known

    def places(self, shape: PodShape) -> Array:
        """By member, how many pods of a shape alone find a place."""
        known = self._counts.get(shape)
        if known is None or known[1] < len(self._log):
            found = self._ground.by_member(self.pods(size_of(shape)) * self._ground.accepting(shape))
            known = self._counts[shape] = (found, len(self._log))
        return known[0]

    def fits(self, pods: Sequence[tuple[PodShape, int]]) -> Array:
        """By member, whether all these pods find a place together: `Fit` numbers."""
        counts = merged(pods)
        if not counts:
            return np.full(len(self.total[0]) if len(self.total) else 0, int(Fit.YES))
        found = fits(
            counts,
            alone=self.places,
            within=lambda size, mask: self._ground.by_member(self.pods(size) * mask),
            accepting=self._ground.accepting,
        )
        return np.where(self._have(counts), found, int(Fit.NO)) if len(counts) > 1 else found

    def _have(self, counts: Mapping[PodShape, int]) -> Mask:
        """By member, whether there is as much of everything as all of them ask for."""
        asked = sum((shape.requests * count for shape, count in counts.items()), ResourceVector())
        return np.asarray((self.total >= self._ground.demand(asked)[:, None]).all(axis=0))


def fits(
    counts: Mapping[PodShape, int],
    *,
    alone: Callable[[PodShape], Array],
    within: Callable[[Size, Mask], Array],
    accepting: Callable[[PodShape], Mask],
) -> Array:
    """By place, whether all these pods find room together, as `Fit` numbers. `alone` counts places for a shape by itself,
    `within` those for a size on the groups of a mask.

    They do where every shape has places to spare for all that the others may take of them, or where as many of the largest
    find a place as there are pods, on nodes where any may run: in whatever order they are placed, each takes at most that much.
    They do not where one alone does not, or not even so many of the smallest do, on nodes where one of them may run.
    """
    places = {shape: alone(shape) for shape in counts}
    enough = reduce(np.logical_and, [places[shape] >= count for shape, count in counts.items()])
    if len(counts) == 1:
        return enough * int(Fit.YES)
    wanted, masks = sum(counts.values()), {shape: accepting(shape) for shape in counts}
    sure = reduce(np.logical_and, [places[each] >= counts[each] + _displaced(each, counts, masks) for each in counts])
    everywhere, anywhere = reduce(np.logical_and, masks.values()), reduce(np.logical_or, masks.values())
    if not sure.all() and everywhere.any():
        largest = reduce(ResourceVector.at_least, (each.requests for each in counts))
        sure |= within((largest, any(each.one_per_node for each in counts)), everywhere) >= wanted
    smallest = reduce(ResourceVector.at_most, (each.requests for each in counts))
    possible = enough & (within((smallest, False), anywhere) >= wanted)
    return np.where(sure, int(Fit.YES), np.where(possible, int(Fit.MAYBE), int(Fit.NO)))


def _displaced(shape: PodShape, counts: Mapping[PodShape, int], masks: Mapping[PodShape, Mask]) -> int:
    """At most so many places for a shape are lost to pods of the others."""
    lost = 0
    for other, count in counts.items():
        if other is not shape and (masks[other] & masks[shape]).any():
            lost += count * max(
                (-(-other.requests.get(name) // amount) for name, amount in shape.requests.items() if amount > 0), default=0
            )
    return lost


def merged(pods: Iterable[tuple[PodShape, int]]) -> dict[PodShape, int]:
    """Equal shapes together."""
    counts: dict[PodShape, int] = {}
    for shape, count in pods:
        if count > 0:
            counts[shape] = counts.get(shape, 0) + count
    return counts
