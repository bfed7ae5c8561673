"""What queues of members still take, in columns: for one hub queue, every member's queue of that name with its ancestors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from apis.vectors import ResourceVector
from federation.dispatch.floors import Floor
from policies import capacities
from policies.fit import Array
from policies.ground import Mask

BOUNDLESS = np.iinfo(np.int64).max


@dataclass(slots=True)
class _Columns:
    """Of one queue: what is left by resource, and where the path ends at a queue that is not open. `at` takes are in it."""

    shut: Mask
    left: dict[str, Array]
    at: int


class Headroom:
    """Answers as the filter `queue` does member by member (a law holds that), from floors that takes change."""

    def __init__(self, floors: Sequence[Floor]) -> None:
        self._floors = floors
        self._takes: list[int] = []
        self._queues: dict[str, _Columns] = {}

    def taken(self, member: int) -> None:
        """Something was sent to a member."""
        self._takes.append(member)

    def refusing(self, queue: str, requests: ResourceVector) -> tuple[Mask, Mask]:
        """By member: those whose queue, or one above it, is full for these requests, and others where one is not open."""
        known = self._queues.get(queue)
        if known is None:
            count = len(self._floors)
            known = self._queues[queue] = _Columns(np.zeros(count, dtype=np.bool_), {}, len(self._takes))
            for member in range(count):
                self._read(known, queue, member)
        elif known.at < len(self._takes):
            for member in sorted(set(self._takes[known.at :])):
                self._read(known, queue, member)
            known.at = len(self._takes)
        full = np.zeros(len(self._floors), dtype=np.bool_)
        for name, left in known.left.items():
            asked = requests.get(name)
            if asked:
                full |= asked > left
        return full, known.shut & ~full

    def _read(self, columns: _Columns, queue: str, member: int) -> None:
        floor = self._floors[member]
        capacity = floor.member.capacity
        for left in columns.left.values():
            left[member] = BOUNDLESS
        columns.shut[member] = False
        if capacity is None:
            return
        for each in capacities.path(queue, queues=capacity.queues):
            if not each.open:
                columns.shut[member] = True
                return
            if not each.limit:
                continue
            promised = floor.promised.get(each.name)
            for name, limit in each.limit.items():
                known = columns.left.get(name)
                if known is None:
                    known = columns.left[name] = np.full(len(self._floors), BOUNDLESS, dtype=np.int64)
                left = limit - each.used.get(name) - (promised.get(name) if promised is not None else 0)
                known[member] = min(int(known[member]), max(left, -BOUNDLESS))
