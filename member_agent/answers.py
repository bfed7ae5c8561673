"""What is known of shapes on a room's rows, and how it stays true while rows change: asking again costs what changed since.

Two things are known of a shape: its `Places`, the rows that may run it, and the `Answer`, what each row takes of it and how
good it is. Shapes that differ only in where they may go have one answer. `Kept` ones outlive a session: they belong to the
cluster's room, and whoever reads an answer takes it over and brings it up to the state of its own copy; the one who had it
before reads it anew. Only answers that depend on a row alone may be kept; who asks says which. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from member_agent.layout import Amounts, Mask, Rows, Scores
from policies.shapes import PodShape

KEPT_CELLS: Final = 4_000_000
"""Rows of kept answers in all, about 17 bytes each; the answer that was not read for longest makes room."""
FIRST_LOG: Final = 64

Look = Callable[[PodShape, Rows], tuple[Amounts, Scores]]
"""Pods that fit and cost of rows, as they are now in the room that asks, whether or not they admit the shape."""


class Log:
    """Rows in the order in which they changed; a row may stand there several times."""

    __slots__ = ("_rows", "count")

    def __init__(self) -> None:
        self._rows: Rows = np.zeros(FIRST_LOG, dtype=np.intp)
        self.count = 0

    def note(self, row: int) -> None:
        """One row changed."""
        if self.count == len(self._rows):
            self._grow(1)
        self._rows[self.count] = row
        self.count += 1

    def note_all(self, rows: Sequence[int]) -> None:
        """These rows changed."""
        if self.count + len(rows) > len(self._rows):
            self._grow(len(rows))
        self._rows[self.count : self.count + len(rows)] = rows
        self.count += len(rows)

    def _grow(self, more: int) -> None:
        self._rows = np.resize(self._rows, 2 * len(self._rows) + more)

    def since(self, seen: int) -> Rows:
        """Rows that changed after the first `seen` changes."""
        return self._rows[seen : self.count]

    def until(self, seen: int) -> Rows:
        """Rows of the first `seen` changes."""
        return self._rows[:seen]


def once(rows: Rows, *, of: int) -> Rows:
    """Each of the rows once: a node that was given pods of many shapes stands there many times."""
    marked = np.zeros(of, dtype=np.bool_)
    marked[rows] = True
    return np.flatnonzero(marked)


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Where a shape may go: a mask and the rows themselves, None for all of them. `measured`: the shape whose answer says how
    much room there is."""

    admitted: Mask
    rows: Rows | None
    measured: PodShape


def rows_of(mask: Mask) -> Rows | None:
    """The rows of a mask; None for all."""
    rows = np.flatnonzero(mask)
    return None if len(rows) == len(mask) else rows


@dataclass(slots=True, eq=False)
class Answer:
    """What is known of one shape, by row: pods that fit where it may go, and cost (smaller is better, infinite for no room). It
    is true for the copy of the cluster's room that has this `log`, was made after the cluster's first `at` changes, and for
    the first `seen` changes of its own."""

    fits: Amounts
    cost: Scores
    log: Log
    seen: int
    at: int

    def renew(self, shape: PodShape, rows: Rows, *, look: Look) -> None:
        """Look at these rows again; a row may stand there several times."""
        if len(rows):
            self.fits[rows], self.cost[rows] = look(shape, rows)

    def catch_up(self, shape: PodShape, *, look: Look) -> None:
        """Look again at what changed in its own copy."""
        self.renew(shape, self.log.since(self.seen), look=look)
        self.seen = self.log.count


class Kept:
    """Answers about the rows of one cluster's room, as long as its layout and the rules hold."""

    def __init__(self, rows: int) -> None:
        self.changes = 0
        """Changes of the cluster's room so far."""
        self.size: list[int] | None = None
        """What all rows can allocate together, by column; None before somebody asked."""
        self._changed: Amounts = np.zeros(rows, dtype=np.int64)
        """By row, the number of the last change to it."""
        self._rules: object = None
        self._answers: dict[PodShape, Answer] = {}
        self._places: dict[PodShape, Places] = {}
        self._alike: dict[bytes, tuple[Mask, Rows | None]] = {}
        self._measured: dict[PodShape, PodShape] = {}
        self._most = max(KEPT_CELLS // max(rows, 1), 1)

    def __len__(self) -> int:
        return len(self._answers)

    def holds(self, rules: object) -> bool:
        """Whether these rules hold still: somebody may have come with others meanwhile."""
        return self._rules is rules or self._rules == rules

    def touch(self, row: int) -> None:
        """The row changed in the cluster's room."""
        self.changes += 1
        self._changed[row] = self.changes

    def under(self, rules: object) -> None:
        """These rules hold from now on; what was learned under unequal ones is forgotten."""
        if self._rules != rules:
            self._answers.clear()
            self._places.clear()
            self._alike.clear()
            self._measured.clear()
            self._rules = rules

    def places(
        self, shape: PodShape, *, admits: Callable[[PodShape], Mask], measured: Callable[[PodShape], PodShape]
    ) -> Places:
        """Where the shape may go, found out by `admits` if nothing is known. Equal masks are one object: there are fewer of
        them than shapes, and what is read often stays close at hand."""
        known = self._places.get(shape)
        if known is None:
            if len(self._places) >= self._most:
                self._places.clear()
                self._alike.clear()
                self._measured.clear()
            admitted, plain = admits(shape), measured(shape)
            admitted, rows = self._alike.setdefault(admitted.tobytes(), (admitted, rows_of(admitted)))
            # One object for equal ones: it is a key on the hottest path, and shapes are costly to compare.
            known = self._places[shape] = Places(admitted, rows, self._measured.setdefault(plain, plain))
        return known

    def read(self, shape: PodShape, *, at: int, log: Log, look: Look) -> Answer | None:
        """The answer for a copy that was made after the cluster's first `at` changes and changed the rows of `log` since; None
        when nothing is known. It is the reader's until somebody else reads it: then its `log` is another one."""
        answer = self._answers.pop(shape, None)
        if answer is None:
            return None
        self._answers[shape] = answer  # the last one read is the last to go
        others = answer.log.until(answer.seen)
        # A copy may be older than what the last reader saw: then the changes between the two count just the same.
        rows = np.flatnonzero(self._changed > min(answer.at, at))
        if len(others) or log.count:
            rows = once(np.concatenate((rows, others, log.since(0))), of=len(self._changed))
        answer.renew(shape, rows, look=look)
        answer.log, answer.seen, answer.at = log, log.count, at
        return answer

    def learn(self, shape: PodShape, answer: Answer) -> None:
        """Keep what a copy found out."""
        if len(self._answers) >= self._most:
            del self._answers[next(iter(self._answers))]
        self._answers[shape] = answer
