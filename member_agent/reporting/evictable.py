"""What evicting local pods would free, by their priority; kept by deltas of pods and groups (protocol.md 4, `reclaimable`).

Pods of runs that the hub sent are not among it: the hub knows them, and local work never pushes them out (protocol.md 6). Nor
is what says that it may not be evicted, or keeps the cluster alive. The rules are those of the scheduler's own evictions.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from apis.capacity import Reclaimable
from apis.vectors import ResourceVector, total
from machinery.informer import Change, Key
from member_agent.views import GroupView, PodView
from policies.shapes import PodShape

CRITICAL: Final = 2_000_000_000
"""Lowest value of the system-critical PriorityClasses."""
SYSTEM: Final = "kube-system"
BANDS: Final = 8
"""Priorities are told apart up to so many; more of them are put together."""

Held = tuple[int, PodShape]
"""Priority and shape of a pod."""


def evictable(pod: PodView) -> bool:
    """Whether somebody of higher priority may take its place, if its group lets them."""
    stands = bool(pod.node) and not pod.ended and not pod.deleting
    local = bool(pod.group) and not pod.run
    return stands and local and pod.manner.preemptable and pod.priority < CRITICAL and pod.namespace != SYSTEM


class Evictable:
    """Evictable pods by gang, priority and shape."""

    def __init__(self) -> None:
        self._where: dict[str, tuple[Key, Held]] = {}
        self._gangs: dict[Key, Counter[Held]] = {}
        self._protected: set[Key] = set()

    def group_changed(self, change: Change[GroupView]) -> None:
        """A group that the hub sent, or that is protected, is nobody's room."""
        group = change.new
        if group is not None and (group.admitted or not group.preemptable):
            self._protected.add(change.key)
        else:
            self._protected.discard(change.key)

    def pod_changed(self, change: Change[PodView]) -> None:
        """Fold one change in."""
        pod = change.new or change.old
        if pod is None:
            return
        before = self._where.get(pod.uid)
        stands = change.new is not None and evictable(pod)
        after = ((pod.namespace, pod.group), (pod.priority, pod.shape)) if stands else None
        if before == after:
            return
        if before is not None:
            del self._where[pod.uid]
            counts = self._gangs[before[0]]
            counts[before[1]] -= 1
            if not counts[before[1]]:
                del counts[before[1]]
            if not counts:
                del self._gangs[before[0]]
        if after is not None:
            self._where[pod.uid] = after
            self._gangs.setdefault(after[0], Counter())[after[1]] += 1

    def bands(self) -> tuple[Reclaimable, ...]:
        """What is freed below each of a few priorities, the lowest first, each with all before it."""
        by_priority: dict[int, Counter[PodShape]] = {}
        for key, counts in self._gangs.items():
            if key not in self._protected:
                for (priority, shape), count in counts.items():
                    by_priority.setdefault(priority, Counter())[shape] += count
        room, pods = ResourceVector(), 0
        found: list[Reclaimable] = []
        for priority, shapes in sorted(by_priority.items()):
            room = room + total(shape.requests * count for shape, count in shapes.items())
            pods += shapes.total()
            found.append(Reclaimable(priority + 1, dict(room), pods))
        if len(found) <= BANDS:
            return tuple(found)
        step = len(found) / BANDS
        return tuple(found[round((index + 1) * step) - 1] for index in range(BANDS))
