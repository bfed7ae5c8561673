"""Gangs of one queue in the order in which they are tried: the namespace that is furthest behind, then its first gang.

What was given away in between counts for the namespace that is asked next. Where nobody tells namespaces apart, and in a queue
that is first in, first out, all gangs are in one line.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

Order = Callable[[str], Any]
"""The key of a namespace now; it grows with what the namespace is given."""


class Lanes:
    """Entries sorted by their first elements, no two of which are equal, by namespace."""

    def __init__(self, order: Order | None) -> None:
        """`order`: of namespaces; None: all of them are one."""
        self._order = order
        self._lanes: dict[str, list[Any]] = {}
        self._ahead: list[tuple[Any, str]] = []

    def __bool__(self) -> bool:
        return bool(self._lanes)

    def push(self, entry: tuple[Any, ...], *, namespace: str) -> None:
        """Put a gang in line."""
        name = namespace if self._order is not None else ""
        lane = self._lanes.get(name)
        if lane is None:
            lane = self._lanes[name] = []
            heapq.heappush(self._ahead, (self._key(name), name))
        heapq.heappush(lane, entry)

    def pop(self) -> tuple[Any, ...]:
        """Take the next one out; raises IndexError where nobody is left."""
        if len(self._lanes) == 1:  # nobody to compare it with
            ((name, lane),) = self._lanes.items()
            alone: tuple[Any, ...] = heapq.heappop(lane)
            if not lane:
                self._lanes.clear()
                self._ahead.clear()
            return alone
        while True:
            key, name = heapq.heappop(self._ahead)
            current = self._key(name)
            if current > key and self._ahead and current > self._ahead[0][0]:
                heapq.heappush(self._ahead, (current, name))  # it was given something since
                continue
            lane = self._lanes[name]
            entry: tuple[Any, ...] = heapq.heappop(lane)
            if lane:
                heapq.heappush(self._ahead, (current, name))
            else:
                del self._lanes[name]
            return entry

    def _key(self, namespace: str) -> Any:
        return self._order(namespace) if self._order is not None else ()
