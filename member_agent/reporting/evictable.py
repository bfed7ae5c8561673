"""What evicting local pods would free, by their priority; kept by deltas of pods (protocol.md 4, `reclaimable`).

Pods of runs that the hub sent are not among it: the hub knows them, and local work never pushes them out (protocol.md 6).
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from apis.capacity import Reclaimable
from apis.vectors import ResourceVector, total
from machinery.informer import Change
from member_agent.views import PodView
from policies.shapes import PodShape

CRITICAL: Final = 2_000_000_000
"""Lowest value of the system-critical PriorityClasses."""
SYSTEM: Final = "kube-system"
BANDS: Final = 8
"""Priorities are told apart up to so many; more of them are put together."""


def evictable(pod: PodView) -> bool:
    """Whether somebody of higher priority may take its place."""
    stands = bool(pod.node) and not pod.ended and not pod.deleting
    local = bool(pod.group) and not pod.run
    return stands and local and pod.priority < CRITICAL and pod.namespace != SYSTEM


class Evictable:
    """Evictable pods by priority and shape."""

    def __init__(self) -> None:
        self._where: dict[str, tuple[int, PodShape]] = {}
        self._counts: dict[int, Counter[PodShape]] = {}

    def pod_changed(self, change: Change[PodView]) -> None:
        """Fold one change in."""
        pod = change.new or change.old
        if pod is None:
            return
        before = self._where.get(pod.uid)
        after = (pod.priority, pod.shape) if change.new is not None and evictable(pod) else None
        if before == after:
            return
        if before is not None:
            del self._where[pod.uid]
            counts = self._counts[before[0]]
            counts[before[1]] -= 1
            if not counts[before[1]]:
                del counts[before[1]]
            if not counts:
                del self._counts[before[0]]
        if after is not None:
            self._where[pod.uid] = after
            self._counts.setdefault(after[0], Counter())[after[1]] += 1

    def bands(self) -> tuple[Reclaimable, ...]:
        """What is freed below each of a few priorities, the lowest first, each with all before it."""
        room, pods = ResourceVector(), 0
        found: list[Reclaimable] = []
        for priority in sorted(self._counts):
            counts = self._counts[priority]
            room = room + total(shape.requests * count for shape, count in counts.items())
            pods += sum(counts.values())
            found.append(Reclaimable(priority + 1, dict(room), pods))
        if len(found) <= BANDS:
            return tuple(found)
        step = len(found) / BANDS
        return tuple(found[round((index + 1) * step) - 1] for index in range(BANDS))
