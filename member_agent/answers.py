"""What is known of shapes on a room's rows, and how it stays true while rows change: asking again costs what changed since.

An `Answer` belongs to one room. `Kept` answers outlive a session: they belong to the cluster's room, every copy of it reads
them, and whoever reads one first brings it up to the state that its own copy was made at. Only answers that depend on a row
alone may be kept; who asks says which. Pure.
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
"""Pods that fit and cost of rows that admit the shape, as they are now in the room that asks."""


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


def once(rows: Rows, *, of: int) -> Rows:
    """Each of the rows once: a node that was given pods of many shapes stands there many times."""
    marked = np.zeros(of, dtype=np.bool_)
    marked[rows] = True
    return np.flatnonzero(marked)


@dataclass(slots=True)
class Answer:
    """What is known of one shape: nodes that may run it, pods that fit and cost by row (smaller is better, infinite where none
    fits), and up to which change of its room."""

    admitted: Mask
    fits: Amounts
    cost: Scores
    seen: int


@dataclass(slots=True)
class _Kept:
    """`answer.seen` counts changes of the cluster's room; `apart`: rows that the last reader had changed in its own copy."""

    answer: Answer
    apart: Rows


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
        self._answers: dict[PodShape, _Kept] = {}
        self._most = max(KEPT_CELLS // max(rows, 1), 1)

    def __len__(self) -> int:
        return len(self._answers)

    def touch(self, row: int) -> None:
        """The row changed in the cluster's room."""
        self.changes += 1
        self._changed[row] = self.changes

    def under(self, rules: object) -> None:
        """These rules hold from now on; what was learned under unequal ones is forgotten."""
        if self._rules != rules:
            self._answers.clear()
            self._rules = rules

    def read(self, shape: PodShape, *, at: int, log: Log, look: Look) -> Answer | None:
        """The answer for a copy that was made after the cluster's first `at` changes and changed the rows of `log` since; None
        when nothing is known. The arrays are the reader's own."""
        known = self._answers.pop(shape, None)
        if known is None:
            return None
        self._answers[shape] = known  # the last one read is the last to go
        kept, own = known.answer, log.since(0)
        # A copy may be older than what the last reader saw: then the changes between the two count just the same.
        rows = np.flatnonzero(self._changed > min(kept.seen, at))
        if len(known.apart) or len(own):
            rows = once(np.concatenate((rows, known.apart, own)), of=len(self._changed))
        if len(rows):
            rows = rows[kept.admitted[rows]]
            kept.fits[rows], kept.cost[rows] = look(shape, rows)
        kept.seen, known.apart = at, once(own, of=len(self._changed))
        return Answer(kept.admitted, kept.fits.copy(), kept.cost.copy(), log.count)

    def learn(self, shape: PodShape, answer: Answer, *, at: int, log: Log) -> None:
        """Keep what a copy found out, made and changed as in `read`."""
        if len(self._answers) >= self._most:
            del self._answers[next(iter(self._answers))]
        copy = Answer(answer.admitted, answer.fits.copy(), answer.cost.copy(), at)
        self._answers[shape] = _Kept(copy, once(log.since(0), of=len(self._changed)))
