"""Which cases the next round looks at: in order of importance, and everybody once before anybody twice. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import Any

from federation.dispatch.snapshot import Key


class Backlog:
    """Cases that something happened to. A pass takes each of them once; what happens to a case that the pass has taken already
    is for the next pass, so that however often the important ones are woken, the others get their look."""

    def __init__(self) -> None:
        self._now: set[Key] = set()
        self._next: set[Key] = set()
        self._taken: set[Key] = set()

    def __len__(self) -> int:
        """Cases in this pass and the next."""
        return len(self._now) + len(self._next)

    @property
    def coming(self) -> frozenset[Key]:
        """What the next take chooses from."""
        return frozenset(self._now or self._next)

    def add(self, keys: Iterable[Key]) -> None:
        """Something happened to these."""
        for key in keys:
            (self._next if key in self._taken else self._now).add(key)

    def put_back(self, keys: Iterable[Key]) -> None:
        """These were taken and not looked at: they stay in this pass."""
        for key in keys:
            self._taken.discard(key)
            self._next.discard(key)
            self._now.add(key)

    def take(self, count: int, *, order: Callable[[Key], Any]) -> list[Key]:
        """The first of this pass by `order`, then by key; a pass that is through begins anew."""
        if not self._now:
            self._now, self._next = self._next, set()
            self._taken.clear()
        if len(self._now) <= count:
            taken = sorted(self._now)
        else:
            taken = heapq.nsmallest(count, self._now, key=lambda key: (order(key), key))
        self._now.difference_update(taken)
        self._taken.update(taken)
        return taken
