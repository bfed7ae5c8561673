"""The cheapest change that lets a waiting Job start: a search over single changes and then pairs, the cheapest of each first.

It asks one question after the other and is told the answers, so that whoever runs it may do other things in between. What it
finds was tried and starts; every cheaper thing it tried does not. More of a change is taken to help at least as much as less
of it: the smallest amount is found by halving.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from policies.relaxing import Change, Ladder

MOST_TRIES: Final = 160
"""Questions of one search: each is a look of the planner at one Job, at most 5 ms (design.md 12)."""

Changes = tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Tried:
    """What was tried together, and whether the Job would start; `why` not, where it would not."""

    changes: Changes
    starts: bool
    why: str = ""

    @property
    def cost(self) -> int:
        """Points of all of them."""
        return cost_of(self.changes)


def cost_of(changes: Changes) -> int:
    """Points of changes that are made together."""
    return sum(each.cost for each in changes)


class Search:
    """`next` says what to try, `tell` takes the answer, until `next` says None."""

    def __init__(self, ladders: Sequence[Ladder], *, most: int = MOST_TRIES) -> None:
        self._most = most
        self._queue = iter(_combinations(ladders))
        self._halving: _Halving | None = None
        self._asked: Changes | None = None
        self.tried: list[Tried] = []
        """In the order of trying."""
        self.found: Tried | None = None
        """The cheapest so far that starts."""
        self.exhausted = False
        """Not everything was tried: there were too many."""

    def next(self) -> Changes | None:
        """What to try now; None when nothing cheaper is left to try."""
        while self._halving is not None or self._begin():
            asked = self._halving.next() if self._halving is not None else None
            if asked is None:
                self._halving = None
            elif len(self.tried) >= self._most:
                self.exhausted = True
                return None
            else:
                self._asked = asked
                return asked
        return None

    def tell(self, starts: bool, *, why: str = "") -> None:
        """The answer to what `next` said last."""
        assert self._asked is not None and self._halving is not None
        tried = Tried(self._asked, starts, "" if starts else why)
        self.tried.append(tried)
        self._halving.tell(starts)
        if starts and (self.found is None or tried.cost < self.found.cost):
            self.found = tried

    def _begin(self) -> bool:
        for combination in self._queue:
            below = self.found.cost if self.found is not None else None
            if below is not None and _least(combination) >= below:
                continue
            self._halving = _Halving(_cut(combination, below=below))
            return True
        return False


def _cut(combination: tuple[Ladder, ...], *, below: int | None) -> tuple[Ladder, ...]:
    """Without the rungs that make it as dear as what was found already."""
    if below is None:
        return combination
    left = below - _least(combination)
    return tuple(tuple(rung for rung in each if rung.cost - each[0].cost < left) for each in combination)


class _Halving:
    """The lowest rung of the one long ladder of a combination that starts; the others have one rung."""

    def __init__(self, combination: tuple[Ladder, ...]) -> None:
        self._combination = combination
        self._long = max(len(each) for each in combination)
        self._low, self._high = 0, self._long - 1
        self._at_top = True

    def next(self) -> Changes | None:
        if self._at_top:
            return self._at(self._long - 1)
        return self._at((self._low + self._high) // 2) if self._low < self._high else None

    def tell(self, starts: bool) -> None:
        if self._at_top:
            self._at_top = False
            if not starts:
                self._high = self._low
            return
        middle = (self._low + self._high) // 2
        if starts:
            self._high = middle
        else:
            self._low = middle + 1

    def _at(self, rung: int) -> Changes:
        return tuple(each[rung] if len(each) > 1 else each[0] for each in self._combination)


def _combinations(ladders: Sequence[Ladder]) -> Iterator[tuple[Ladder, ...]]:
    """Singles by least cost, then pairs by theirs, else as given: many cheap pairs that do not help must not use up all
    questions before every single change was tried. Of a pair at most one is a long ladder, the two are not of one family."""
    known = [each for each in ladders if each]
    pairs = [
        pair
        for pair in itertools.combinations(known, 2)
        if pair[0][0].family != pair[1][0].family and min(len(each) for each in pair) == 1
    ]
    everything: list[tuple[Ladder, ...]] = [*((each,) for each in known), *pairs]
    return iter(sorted(everything, key=lambda each: (len(each), _least(each))))


def _least(combination: Sequence[Ladder]) -> int:
    return sum(each[0].cost for each in combination)
