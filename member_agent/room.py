"""Room on nodes as columns of numbers, and the one way to take some of it.

A `Room` is a private copy: whoever plans takes from it freely and throws it away. Rows are nodes, columns are resources,
amounts are milli units (apis/vectors). Equal pods are one question: a gang of a thousand equal pods costs one evaluation.
Pure: no clock, no chance, no client; the same room and the same question give the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from member_agent.answers import Answer, Kept, Log, Places, rows_of
from member_agent.berths import Berth, clash
from member_agent.berths import berth as berth
from member_agent.grouping import Company, Near
from member_agent.layout import HOSTNAME as HOSTNAME
from member_agent.layout import UNBOUNDED as UNBOUNDED
from member_agent.layout import Amounts as Amounts
from member_agent.layout import Columns as Columns
from member_agent.layout import Layout as Layout
from member_agent.layout import Mask as Mask
from member_agent.layout import NodeClass as NodeClass
from member_agent.layout import Rows as Rows
from member_agent.layout import Rules as Rules
from member_agent.layout import Scores as Scores
from member_agent.layout import Spot as Spot
from member_agent.passes import Passes
from member_agent.seats import best, packs, seat, seat_one
from member_agent.shortages import sentence
from policies.shapes import PodShape


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why a question found no place: pods asked and placed, and a sentence with the numbers."""

    shape: PodShape
    asked: int
    placed: int
    sentence: str


@dataclass(slots=True)
class Room:
    """Free amounts to plan on; `taken` counts, per shape that wants nodes of its own, who sits where. Without `rules`
    selectors, taints and host ports decide, and the fullest node is the best."""

    layout: Layout
    free: Amounts
    allocatable: Amounts
    taken: dict[Berth, dict[int, int]] = field(default_factory=dict)
    rules: Rules | None = None
    ending: Amounts | None = None
    """By row, what pods of gangs hold: it comes back when they end, other pods' does not."""
    told: Callable[[Spot, int], None] | None = None
    """Hears of every spot that is taken (1) or given back (-1), before anything else is asked."""
    near: Near | None = field(default=None, repr=False)
    """Whoever knows what pods are around; without it they have no say."""
    kept: Kept | None = field(default=None, repr=False)
    """Answers that outlive this room: of the cluster's room, shared between copies."""
    _answers: dict[PodShape, Answer] = field(default_factory=dict, repr=False)
    _log: Log = field(default_factory=Log, repr=False)
    _made_at: int = field(default=0, repr=False)
    """Changes of the cluster's room when this copy was made."""
    _keeps: Callable[[PodShape], bool] | None = field(default=None, repr=False)
    _measured: Callable[[PodShape], PodShape] | None = field(default=None, repr=False)
    _kept_under: object = field(default=None, repr=False)
    _places: dict[PodShape, Places] = field(default_factory=dict, repr=False)
    _asked: dict[PodShape, list[tuple[int, int]]] = field(default_factory=dict, repr=False)
    """By shape, the columns it asks of and how much."""

    def copy(self, *, rules: Rules | None = None) -> Room:
        """A room of its own to plan on."""
        taken = {shape: dict(rows) for shape, rows in self.taken.items()}
        return Room(
            layout=self.layout,
            free=self.free.copy(),
            allocatable=self.allocatable,
            taken=taken,
            rules=rules,
            ending=self.ending.copy() if self.ending is not None else None,
            kept=self.kept,
            _made_at=self.kept.changes if self.kept is not None else 0,
        )

    def keep(
        self, *, rules: object, local: Callable[[PodShape], bool], measured: Callable[[PodShape], PodShape] | None = None
    ) -> None:
        """Read and keep answers beyond this room for shapes that are `local`: what `self.rules` say of a row depends on that
        row alone. Equal `rules` say the same. `measured`: the shape that they measure like this one, wherever it may go."""
        if self.kept is not None:
            self.kept.under(rules)
            self._keeps, self._measured, self._kept_under = local, measured, rules

    @property
    def size(self) -> list[int]:
        """What all nodes can allocate together, by column; added up once as long as the layout holds."""
        if self.kept is None:
            return sums(self.allocatable)
        if self.kept.size is None:
            self.kept.size = sums(self.allocatable)
        return self.kept.size

    def capacity(self, shape: PodShape) -> Amounts:
        """Per node, how many more pods of this shape fit; 0 where the node does not admit it, or pods around do not."""
        fits = self._capacity(shape, self._columns(self._all()), self.admitted(shape))
        company = self.company(shape)
        return fits if company is None else company.limited(fits)

    def company(self, shape: PodShape) -> Company | None:
        """What pods around and volumes say of the shape now; None for nothing."""
        if self.near is None or not shape.minds_others:
            return None
        return self.near.company(shape)

    def admitted(self, shape: PodShape) -> Mask:
        """Which nodes may run the shape, requests apart."""
        return self._where(shape).admitted

    def _where(self, shape: PodShape) -> Places:
        """Where the shape may go."""
        found = self._places.get(shape)
        if found is None:
            kept = self._lasting(shape)
            if kept is not None:
                found = kept.places(shape, admits=self._admits, measured=self._measured or _itself)
            else:
                admitted = self._admits(shape)
                measured = self._measured(shape) if self._measured is not None else shape
                found = Places(admitted, rows_of(admitted), measured)
            self._places[shape] = found
        return found

    def _admits(self, shape: PodShape) -> Mask:
        return self.layout.admits(shape) if self.rules is None else self.rules.predicate(self.layout, shape)

    def _all(self) -> Rows:
        return np.arange(len(self.layout.names))

    def _columns(self, rows: Rows) -> Columns:
        return Columns(self.layout, rows, self.free.take(rows, axis=0), self.allocatable.take(rows, axis=0))

    def _capacity(self, shape: PodShape, columns: Columns, admitted: Mask) -> Amounts:
        return np.where(admitted[columns.rows], self._fits(shape, columns), np.int64(0))

    def _fits(self, shape: PodShape, columns: Columns) -> Amounts:
        """Per row, how many more pods fit where the node admits them."""
        asked = self._asked.get(shape)
        if asked is None:
            known = self.layout.columns
            asked = [(known[name], amount) for name, amount in shape.requests.items() if name in known]
            self._asked[shape] = asked
        if len(asked) < len(shape.requests):  # of something no node has any
            return np.zeros(len(columns.rows), dtype=np.int64)
        found: Amounts | None = None
        for column, amount in asked:
            each = columns.free[:, column] // amount
            found = each if found is None else np.minimum(found, each, out=found)
        found = np.full(len(columns.rows), UNBOUNDED) if found is None else np.maximum(found, 0, out=found)
        if self.rules is not None:
            limits = self.rules.limits(columns, shape)
        else:
            limits = self.alone(shape, columns.rows) if shape.one_per_node else None
        return found if limits is None else np.minimum(found, limits, out=found)

    def alone(self, shape: PodShape, rows: Rows) -> Amounts:
        """1 for rows without a pod that has a host port which the shape wants, else 0."""
        mine = berth(shape)
        taken = [row for other, listed in self.taken.items() if clash(mine, other) for row in listed]
        return np.where(np.isin(rows, taken), np.int64(0), np.int64(1))

    def _cost(self, shape: PodShape, columns: Columns) -> Scores:
        if self.rules is not None and self.rules.scores_nodes:
            return -self.rules.node_order(columns, shape)
        share = np.zeros(len(columns.rows))
        for name in shape.requests:
            column = self.layout.columns.get(name)
            if column is not None:
                # The largest free share among the resources asked for: small means nearly full.
                np.maximum(share, columns.free[:, column] / np.maximum(columns.allocatable[:, column], 1), out=share)
        return share

    def _look(self, shape: PodShape, rows: Rows) -> tuple[Amounts, Scores]:
        """Pods that fit and cost of rows, as if all of them admitted the shape."""
        columns = self._columns(rows)
        fits, cost = self._fits(shape, columns), self._cost(shape, columns)
        cost[fits <= 0] = np.inf
        return fits, cost

    def _answer(self, shape: PodShape) -> Answer:
        """What is known of a shape that is measured, brought up to date."""
        known = self._answers.get(shape)
        if known is None or known.log is not self._log:  # nobody knows, or another copy took it over
            known = self._answers[shape] = self._first(shape)
        elif known.seen < self._log.count:
            known.catch_up(shape, look=self._look)
        return known

    def _first(self, shape: PodShape) -> Answer:
        kept = self._lasting(shape)
        if kept is None:
            return self._anew(shape)
        answer = kept.read(shape, at=self._made_at, log=self._log, look=self._look)
        if answer is None:
            answer = self._anew(shape)
            kept.learn(shape, answer)
        return answer

    def _lasting(self, shape: PodShape) -> Kept | None:
        """Where answers about the shape outlive this room; None where they must not."""
        if self.kept is None or self._keeps is None or not self._keeps(shape) or not self.kept.holds(self._kept_under):
            return None
        return self.kept

    def _anew(self, shape: PodShape) -> Answer:
        return Answer(*self._look(shape, self._all()), self._log, self._log.count, self._made_at)

    def place(self, needs: Sequence[tuple[PodShape, int]], *, within: Mask | None = None) -> tuple[Spot, ...] | Shortage:
        """Take room for all pods or for none, within some nodes if so asked; ties by name."""
        spots: list[Spot] = []
        for shape, count in _independent_first(needs):
            placed = self._take(shape, count, whole=True, within=within)
            if isinstance(placed, Shortage):
                self.give_back(spots)
                return placed
            spots += placed
        return tuple(spots)

    def place_some(self, shape: PodShape, count: int, *, within: Mask | None = None) -> tuple[Spot, ...]:
        """Take room for as many of the pods as fit."""
        placed = self._take(shape, count, whole=False, within=within)
        return () if isinstance(placed, Shortage) else tuple(placed)

    def forget(self, shape: PodShape) -> None:
        """Ask the rules about the shape anew: their answer depends on more than the rows that were changed."""
        where = self._places.pop(shape, None)
        self._answers.pop(where.measured if where is not None else shape, None)

    def take(self, spot: Spot) -> None:
        """Take room at a place that somebody else chose; the node may be overdrawn by it."""
        self._change([spot], 1)

    def give_back(self, spots: Sequence[Spot]) -> None:
        """Undo what `place` took."""
        self._change(spots, -1)

    def _take(self, shape: PodShape, count: int, *, whole: bool, within: Mask | None) -> list[Spot] | Shortage:
        if self.near is not None and shape.minds_others:
            return self._take_near(self.near, shape, count, whole=whole, within=within)
        where = self._where(shape)
        known, rows = self._answer(where.measured), where.rows
        if within is not None:
            rows = np.flatnonzero(within & where.admitted)
        if count == 1:
            spots = seat_one(shape, rows, known.fits, known.cost)
        else:
            spots = seat(self, shape, rows, known.fits, known.cost, count)
        placed = sum(spot.count for spot in spots)
        if placed < count and whole:
            return Shortage(shape, count, placed, self.explain(shape, count=count, placed=placed))
        self._change(spots, 1)
        return spots

    def _take_near(self, near: Near, shape: PodShape, count: int, *, whole: bool, within: Mask | None) -> list[Spot] | Shortage:
        spots = Passes(self, near, shape, within).run(count)
        placed = sum(spot.count for spot in spots)
        if placed < count and whole:
            self._change(spots, -1)
            return Shortage(shape, count, placed, self.explain(shape, count=count, placed=placed))
        return spots

    # What `Passes` asks of a room.

    def known(self, shape: PodShape) -> tuple[Mask, Amounts, Scores]:
        """By row, whether it may run the shape, and if it may, how many more pods fit and the cost of the next; not to be
        written to."""
        where = self._where(shape)
        answer = self._answer(where.measured)
        return where.admitted, answer.fits, answer.cost

    def fits_on(self, shape: PodShape, row: int) -> int:
        """Pods of the shape that fit on one row; pods around have no say."""
        where = self._where(shape)
        return int(self._answer(where.measured).fits[row]) if where.admitted[row] else 0

    def seek(self, shape: PodShape, fits: Amounts, cost: Scores, count: int) -> list[Spot]:
        """The best places for up to `count` pods; none is taken."""
        return seat_one(shape, None, fits, cost) if count == 1 else seat(self, shape, None, fits, cost, count)

    def packs(self, shape: PodShape, fits: Amounts, cost: Scores, count: int) -> bool:
        """Whether the best nodes only get better with every pod they are given."""
        rows = best(cost, count)
        rows = rows[fits[rows] > 0]
        return packs(self, shape, rows, cost[rows], np.minimum(fits[rows], count))

    def change(self, spots: Sequence[Spot], sign: int) -> None:
        """Take places (1) or give them back (-1)."""
        self._change(spots, sign)

    # What `seats` asks of a room.

    @property
    def fills(self) -> bool:
        """Without scores the fullest node is the best."""
        return self.rules is None or not self.rules.scores_nodes

    def levels(self, shape: PodShape, rows: Rows, levels: int) -> Scores:
        """Cost of every row for its first pod, its second, … as (rows, levels)."""
        each = np.repeat(rows, levels)
        before = np.tile(np.arange(levels, dtype=np.int64), len(rows))
        free = self.free[each]
        for name, amount in shape.requests.items():
            free[:, self.layout.columns[name]] -= before * amount
        return self._cost(shape, Columns(self.layout, each, free, self.allocatable[each])).reshape(len(rows), levels)

    def _change(self, spots: Sequence[Spot], sign: int) -> None:
        if not spots:
            return
        for shape, listed in runs(spots) if len(spots) > 1 else [(spots[0].shape, spots)]:
            if len(listed) == 1:
                self._change_one(listed[0], sign)
                continue
            rows = [spot.row for spot in listed]
            counts = np.array([sign * spot.count for spot in listed], dtype=np.int64)
            self._log.note_all(rows)
            for name, amount in shape.requests.items():
                # A placement names a row once per shape: no two entries of a run are the same row.
                self.free[rows, self.layout.columns[name]] -= amount * counts
            if shape.one_per_node:
                self._sit(shape, listed, sign)
        if self.told is not None:
            for spot in spots:
                self.told(spot, sign)

    def _change_one(self, spot: Spot, sign: int) -> None:
        """The same for one node, without arrays: a pod by itself is the most frequent case."""
        row, shape = spot.row, spot.shape
        self._log.note(row)
        free, columns, times = self.free[row], self.layout.columns, sign * spot.count
        for name, amount in shape.requests.items():
            free[columns[name]] -= times * amount
        if shape.one_per_node:
            self._sit(shape, [spot], sign)

    def _sit(self, shape: PodShape, spots: Sequence[Spot], sign: int) -> None:
        rows = self.taken.setdefault(berth(shape), {})
        for spot in spots:
            rows[spot.row] = rows.get(spot.row, 0) + sign * spot.count
            if rows[spot.row] <= 0:
                del rows[spot.row]

    def explain(self, shape: PodShape, *, count: int, placed: int) -> str:
        """Why `count` pods do not fit, as a sentence with numbers."""
        return sentence(self, shape, count=count, placed=placed)


def _itself(shape: PodShape) -> PodShape:
    return shape


def _independent_first(needs: Sequence[tuple[PodShape, int]]) -> Sequence[tuple[PodShape, int]]:
    """Pods that must sit beside others come after those others."""
    if len(needs) < 2 or not any(_follows(shape) for shape, _ in needs):
        return needs
    return sorted(needs, key=lambda need: _follows(need[0]))


def _follows(shape: PodShape) -> bool:
    return shape.neighbours is not None and any(each.crowd not in shape.seen for each in shape.neighbours.beside)


def runs(spots: Sequence[Spot]) -> list[tuple[PodShape, list[Spot]]]:
    """Spots of one shape that follow each other, together. By identity: shapes are costly to compare, and it only has to be
    cheap."""
    found: list[tuple[PodShape, list[Spot]]] = []
    for spot in spots:
        if found and found[-1][0] is spot.shape:
            found[-1][1].append(spot)
        else:
            found.append((spot.shape, [spot]))
    return found


def sums(table: Amounts) -> list[int]:
    """Column sums without overflow: bytes of a large cluster in milli units come near the end of 64 bits."""
    if not len(table):
        return [0] * table.shape[1]
    high, low = table >> 32, table & 0xFFFFFFFF
    return [(int(most) << 32) + int(least) for most, least in zip(high.sum(axis=0), low.sum(axis=0), strict=True)]


def shortage_of_nodes(room: Room) -> bool:
    """There is no node at all that takes new pods."""
    return not bool(room.layout.usable.any())
