"""Room on nodes as columns of numbers, and the one way to take some of it.

A `Room` is a private copy: whoever plans takes from it freely and throws it away. Rows are nodes, columns are resources,
amounts are milli units (apis/vectors). Equal pods are one question: a gang of a thousand equal pods costs one evaluation.
Pure: no clock, no chance, no client; the same room and the same question give the same answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from apis.vectors import ResourceVector, quantity
from policies.shapes import PodShape, Taint

Amounts = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

HOSTNAME: Final = "kubernetes.io/hostname"
"""The label that makes every node unlike all others; node classes leave it out."""

UNBOUNDED: Final = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class NodeClass:
    """Nodes that are alike to every rule: labels (without the host name) and taints."""

    labels: tuple[tuple[str, str], ...]
    taints: tuple[Taint, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """What does not change while pods come and go: node names in row order, their classes, and who takes new pods."""

    names: tuple[str, ...]
    hosts: tuple[str, ...]
    """Host name labels, in row order."""
    columns: Mapping[str, int]
    classes: tuple[NodeClass, ...]
    class_of: npt.NDArray[np.int32]
    usable: Mask
    """Ready and not cordoned."""
    masks: dict[PodShape, Mask] = field(default_factory=dict, compare=False)
    """Answers of `admits`, kept as long as the layout."""

    def admits(self, shape: PodShape) -> Mask:
        """Which nodes may run the shape, requests apart."""
        known = self.masks.get(shape)
        if known is None:
            known = self.masks[shape] = self._evaluate(shape)
        return known

    def _evaluate(self, shape: PodShape) -> Mask:
        if not self.names or shape.unknown:
            return np.zeros(len(self.names), dtype=np.bool_)
        if _reads(shape, HOSTNAME):
            by_node = [
                shape.accepts(dict(self.classes[index].labels) | {HOSTNAME: name}, taints=self.classes[index].taints)
                for name, index in zip(self.hosts, self.class_of.tolist(), strict=True)
            ]
            return np.array(by_node, dtype=np.bool_) & self.usable
        by_class = [shape.accepts(dict(each.labels), taints=each.taints) for each in self.classes]
        found: Mask = np.array(by_class, dtype=np.bool_)[self.class_of] & self.usable
        return found


def _reads(shape: PodShape, label: str) -> bool:
    """Whether the shape's selectors look at this label."""
    return any(key == label for key, _ in shape.node_selector) or any(
        each.key == label for term in shape.node_affinity for each in term
    )


@dataclass(frozen=True, slots=True)
class Spot:
    """So many pods of one shape on one node (its row)."""

    row: int
    shape: PodShape
    count: int


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why a question found no place: pods asked and placed, and a sentence with the numbers."""

    shape: PodShape
    asked: int
    placed: int
    sentence: str


@dataclass(slots=True)
class _Answer:
    """What is known of one shape: pods that fit and fullness by row (infinite where none fits), and how many of the touched
    rows are in it already. Asking again costs only what changed since."""

    fits: Amounts
    fullness: npt.NDArray[np.float64]
    seen: int


KEPT_TOUCHES: Final = 1 << 16
"""Changes remembered for kept answers; beyond that they are made anew."""


@dataclass(slots=True)
class Room:
    """Free amounts to plan on; `taken` counts, per shape that wants nodes of its own, who sits where."""

    layout: Layout
    free: Amounts
    allocatable: Amounts
    taken: dict[PodShape, dict[int, int]] = field(default_factory=dict)
    _answers: dict[PodShape, _Answer] = field(default_factory=dict, repr=False)
    _touched: list[int] = field(default_factory=list, repr=False)
    """Rows changed since the answers were first kept, in order."""

    def copy(self) -> Room:
        """A room of its own to plan on."""
        taken = {shape: dict(rows) for shape, rows in self.taken.items()}
        return Room(layout=self.layout, free=self.free.copy(), allocatable=self.allocatable, taken=taken)

    def capacity(self, shape: PodShape) -> Amounts:
        """Per node, how many more pods of this shape fit; 0 where the node does not admit it."""
        return self._capacity(shape, np.arange(len(self.layout.names)))

    def _capacity(self, shape: PodShape, rows: npt.NDArray[np.intp]) -> Amounts:
        fits = np.where(self.layout.admits(shape)[rows], np.int64(UNBOUNDED), np.int64(0))
        for name, amount in shape.requests.items():
            column = self.layout.columns.get(name)
            if column is None:
                return np.zeros(len(rows), dtype=np.int64)
            np.minimum(fits, np.maximum(self.free[rows, column], 0) // amount, out=fits)
        if shape.one_per_node:
            taken = np.isin(rows, list(self.taken.get(shape, ())))
            fits = np.where(taken, 0, np.minimum(fits, 1))
        return fits

    def _fullness(self, shape: PodShape, rows: npt.NDArray[np.intp], fits: Amounts) -> npt.NDArray[np.float64]:
        """The largest free share among the resources asked for: small means nearly full, infinite that nothing fits."""
        share = np.zeros(len(rows))
        for name in shape.requests:
            column = self.layout.columns.get(name)
            if column is not None:
                np.maximum(share, self.free[rows, column] / np.maximum(self.allocatable[rows, column], 1), out=share)
        return np.where(fits > 0, share, np.inf)

    def _answer(self, shape: PodShape) -> _Answer:
        """What is known of the shape, brought up to date."""
        if len(self._touched) > KEPT_TOUCHES:
            self._answers.clear()
            self._touched.clear()
        known = self._answers.get(shape)
        if known is None:
            rows = np.arange(len(self.layout.names))
            fits = self._capacity(shape, rows)
            known = self._answers[shape] = _Answer(fits, self._fullness(shape, rows, fits), len(self._touched))
        elif known.seen < len(self._touched):
            rows = np.array(sorted(set(self._touched[known.seen :])), dtype=np.intp)
            fits = self._capacity(shape, rows)
            known.fits[rows] = fits
            known.fullness[rows] = self._fullness(shape, rows, fits)
            known.seen = len(self._touched)
        return known

    def place(self, needs: Sequence[tuple[PodShape, int]]) -> tuple[Spot, ...] | Shortage:
        """Take room for all pods or for none. Fullest nodes first, ties by name, so that large pods find empty nodes."""
        spots: list[Spot] = []
        for shape, count in needs:
            placed = self._take(shape, count, whole=True)
            if isinstance(placed, Shortage):
                self.give_back(spots)
                return placed
            spots += placed
        return tuple(spots)

    def place_some(self, shape: PodShape, count: int) -> tuple[Spot, ...]:
        """Take room for as many of the pods as fit."""
        placed = self._take(shape, count, whole=False)
        return () if isinstance(placed, Shortage) else tuple(placed)

    def take(self, spot: Spot) -> None:
        """Take room at a place that somebody else chose; the node may be overdrawn by it."""
        self._change(spot, 1)

    def give_back(self, spots: Sequence[Spot]) -> None:
        """Undo what `place` took."""
        for spot in spots:
            self._change(spot, -1)

    def _take(self, shape: PodShape, count: int, *, whole: bool) -> list[Spot] | Shortage:
        known = self._answer(shape)
        spots = self._one(shape, known) if count == 1 else self._many(shape, known, count)
        placed = sum(spot.count for spot in spots)
        if placed < count and whole:
            return Shortage(shape, count, placed, self.explain(shape, count=count, placed=placed))
        for spot in spots:
            self._change(spot, 1)
        return spots

    @staticmethod
    def _one(shape: PodShape, known: _Answer) -> list[Spot]:
        row = int(known.fullness.argmin()) if len(known.fullness) else 0
        return [Spot(row, shape, 1)] if len(known.fits) and known.fits[row] > 0 else []

    @staticmethod
    def _many(shape: PodShape, known: _Answer, count: int) -> list[Spot]:
        rows = np.flatnonzero(known.fits)
        rows = rows[np.argsort(known.fullness[rows], kind="stable")]
        filled = np.cumsum(np.minimum(known.fits[rows], count))
        spots, left = [], count
        for row in rows[: int(np.searchsorted(filled, count)) + 1].tolist():
            number = min(int(known.fits[row]), left)
            spots.append(Spot(row, shape, number))
            left -= number
        return spots

    def _change(self, spot: Spot, sign: int) -> None:
        self._touched.append(spot.row)
        for name, amount in spot.shape.requests.items():
            self.free[spot.row, self.layout.columns[name]] -= sign * amount * spot.count
        if spot.shape.one_per_node:
            rows = self.taken.setdefault(spot.shape, {})
            rows[spot.row] = rows.get(spot.row, 0) + sign * spot.count
            if rows[spot.row] <= 0:
                del rows[spot.row]

    def explain(self, shape: PodShape, *, count: int, placed: int) -> str:
        """Why `count` pods do not fit, as a sentence with numbers."""
        nodes = len(self.layout.names)
        wanted = f"room for {placed} of {count} pods ({shape.requests - _ONE_POD})"
        if shape.unknown:
            return f"{wanted}: {shape.unknown} is not decided by this scheduler yet"
        usable = int(self.layout.usable.sum())
        admitted = self.layout.admits(shape)
        parts = [f"{nodes} nodes"]
        if nodes - usable:
            parts.append(f"{nodes - usable} not ready or cordoned")
        if usable - int(admitted.sum()):
            parts.append(f"{usable - int(admitted.sum())} ruled out by selector, affinity or taints")
        parts += [text for name, amount in shape.requests.items() if (text := self._lacking(name, amount, admitted))]
        return f"{wanted}: {', '.join(parts)}"

    def _lacking(self, name: str, amount: int, admitted: Mask) -> str:
        column = self.layout.columns.get(name)
        if column is None:
            return f"no node has {name}"
        free = self.free[admitted, column]
        short = int((free < amount).sum())
        most = quantity(name, milli=int(free.max())) if len(free) else 0
        return f"{short} with too little {name} (most free: {most})" if short else ""


_ONE_POD = ResourceVector({"pods": 1000})


def shortage_of_nodes(room: Room) -> bool:
    """There is no node at all that takes new pods."""
    return not bool(room.layout.usable.any())
