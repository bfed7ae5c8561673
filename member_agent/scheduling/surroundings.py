"""Pods around, as one session sees them: the frozen books, and what the session itself has placed and evicted since.

Amounts stand by topology domain, made when first asked for and kept true spot by spot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from member_agent.layout import Amounts, Layout
from member_agent.neighbours import NOBODY, Around, Place, likes
from member_agent.room import Spot
from member_agent.topology import Counts
from policies.neighbours import Crowd, PodTerm
from policies.shapes import PodShape


class Book:
    """Amounts of one kind by row, and by domain of any label."""

    def __init__(self, layout: Layout, place: Place) -> None:
        self._layout = layout
        self._place = place
        self._more: dict[int, int] = {}
        self._sums: dict[str, Counts] = {}
        self._rows: Amounts | None = None

    def by_row(self) -> Amounts:
        """Amounts of every row."""
        if self._rows is None:
            rows = self._layout.rows
            self._rows = np.zeros(len(self._layout.names), dtype=np.int64)
            known = [(row, amount) for node, amount in self._place.items() if (row := rows.get(node)) is not None]
            for row, amount in (*known, *self._more.items()):
                self._rows[row] += amount
        return self._rows

    def by_domain(self, label: str) -> Counts:
        """Sums of every domain of a label."""
        known = self._sums.get(label)
        if known is None:
            known = self._sums[label] = self._layout.topology(label).sums(self.by_row())
        return known

    def add(self, row: int, amount: int) -> None:
        """On one row more, or less."""
        self._more[row] = self._more.get(row, 0) + amount
        if self._rows is not None:
            self._rows[row] += amount
        for label, sums in self._sums.items():
            topology = self._layout.topology(label)
            domain = topology.of_row[row]
            if domain != topology.size:
                sums[domain] += amount


class Surroundings:
    """Crowds, and who likes them or keeps them away."""

    def __init__(self, layout: Layout, around: Around = NOBODY) -> None:
        self._layout = layout
        self._around = around
        self._members: dict[Crowd, Book] = {}
        self._away: dict[Crowd, dict[str, Book]] = {}
        self._liking: dict[Crowd, dict[str, Book]] = {}

    @property
    def layout(self) -> Layout:
        """Of the session."""
        return self._layout

    def members(self, crowd: Crowd) -> Book:
        """Pods of a crowd."""
        known = self._members.get(crowd)
        if known is None:
            known = self._members[crowd] = Book(self._layout, self._around.members.get(crowd, {}))
        return known

    def keeping_away(self, shape: PodShape) -> Iterator[tuple[str, Book]]:
        """By label, the pods that want none of the shape's in their domain."""
        return self._of(shape, self._around.keeping_away, self._away)

    def liking(self, shape: PodShape) -> Iterator[tuple[str, Book]]:
        """By label, the weights with which pods would rather have the shape's in their domain."""
        return self._of(shape, self._around.liking, self._liking)

    def told(self, spot: Spot, sign: int) -> None:
        """A spot was taken (1) or given back (-1)."""
        shape, asks = spot.shape, spot.shape.neighbours
        count = sign * spot.count
        for crowd in shape.seen:
            self.members(crowd).add(spot.row, count)
        if asks is None:
            return
        for term in asks.apart:
            self._book(term, self._around.keeping_away, self._away).add(spot.row, count)
        for term, weight in likes(asks):
            self._book(term, self._around.liking, self._liking).add(spot.row, count * weight)

    def _of(
        self, shape: PodShape, frozen: Mapping[Crowd, Mapping[str, Place]], books: dict[Crowd, dict[str, Book]]
    ) -> Iterator[tuple[str, Book]]:
        for crowd in shape.seen:
            known = books.setdefault(crowd, {})
            for label in frozen.get(crowd, {}):
                if label not in known:
                    self._book(PodTerm(crowd, label), frozen, books)
            yield from known.items()

    def _book(self, term: PodTerm, frozen: Mapping[Crowd, Mapping[str, Place]], books: dict[Crowd, dict[str, Book]]) -> Book:
        known = books.setdefault(term.crowd, {})
        book = known.get(term.topology)
        if book is None:
            place = frozen.get(term.crowd, {}).get(term.topology, {})
            book = known[term.topology] = Book(self._layout, place)
        return book
