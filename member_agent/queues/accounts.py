"""What is in each queue, kept by deltas: what bound pods hold, and PodGroups by phase."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

from apis.vectors import ResourceVector, total
from machinery.informer import Change, Key
from member_agent.views import GroupCounts, GroupView, PodView
from policies.shapes import PodShape

PHASES = ("Pending", "Inqueue", "Running", "Unknown", "Completed")
"""Phases that are counted."""

H = TypeVar("H", bound=Hashable)


class _Tally(Generic[H]):
    """How many of each are in each queue. Everything counted is known by its UID, and is in one queue at a time."""

    def __init__(self) -> None:
        self._places: dict[str, tuple[str, H]] = {}
        self._counts: dict[str, Counter[H]] = {}

    def put(self, uid: str, place: tuple[str, H] | None) -> tuple[str, ...]:
        """Count it there, or nowhere; the queues that changed."""
        before = self._places.get(uid)
        if before == place:
            return ()
        if before is not None:
            del self._places[uid]
            self._take(*before)
        if place is not None:
            self._places[uid] = place
            self._counts.setdefault(place[0], Counter())[place[1]] += 1
        return tuple({each[0]: None for each in (before, place) if each is not None})

    def _take(self, queue: str, what: H) -> None:
        counts = self._counts[queue]
        counts[what] -= 1
        if not counts[what]:
            del counts[what]
        if not counts:
            del self._counts[queue]

    def of(self, queue: str) -> Counter[H]:
        """What is in one queue; not to be changed."""
        return self._counts.get(queue) or Counter()


class Accounts:
    """Pods and PodGroups by queue. A pod is in the queue of its PodGroup; while that is not seen, in the one that the pod is
    annotated with."""

    def __init__(self) -> None:
        self._pods: _Tally[PodShape] = _Tally()
        self._groups: _Tally[str] = _Tally()
        self._queue_of: dict[Key, str] = {}
        self._holding: dict[Key, dict[str, PodView]] = {}
        """Pods with nodes by group."""

    def pod_changed(self, change: Change[PodView]) -> tuple[str, ...]:
        """Fold one change in; the queues in which more or less is held now."""
        pod, old = change.new, change.old
        if old is not None:
            self._forget(old)
        if pod is None or not pod.node or pod.ended:
            return self._pods.put(_uid(change), None)
        if pod.group:
            self._holding.setdefault((pod.namespace, pod.group), {})[pod.uid] = pod
        return self._pods.put(pod.uid, self._place(pod))

    def _forget(self, pod: PodView) -> None:
        key = (pod.namespace, pod.group)
        pods = self._holding.get(key)
        if pods is not None and pods.pop(pod.uid, None) is not None and not pods:
            del self._holding[key]

    def _place(self, pod: PodView) -> tuple[str, PodShape] | None:
        queue = self._queue_of.get((pod.namespace, pod.group), pod.queue)
        return (queue, pod.shape) if queue else None

    def group_changed(self, change: Change[GroupView]) -> tuple[str, ...]:
        """Fold one change in; the queues whose counts, or whose pods, changed."""
        group = change.new
        place = None if group is None else (group.queue, group.phase)
        changed = dict.fromkeys(self._groups.put(_uid(change), place))
        key = (group.namespace, group.name) if group is not None else change.key
        if self._queue_of.get(key) != (group.queue if group is not None else None):
            if group is None:
                del self._queue_of[key]
            else:
                self._queue_of[key] = group.queue
            for pod in self._holding.get(key, {}).values():
                changed |= dict.fromkeys(self._pods.put(pod.uid, self._place(pod)))
        return tuple(changed)

    def allocated(self, queues: Iterable[str]) -> ResourceVector:
        """What bound pods of all these queues hold."""
        return total(shape.requests * count for name in queues for shape, count in self._pods.of(name).items())

    def counts(self, queue: str) -> GroupCounts:
        """PodGroups of this one queue."""
        found = self._groups.of(queue)
        return GroupCounts(**{phase.lower(): found[phase] for phase in PHASES})

    def busy(self, queue: str) -> bool:
        """Whether it has a PodGroup."""
        return bool(self._groups.of(queue))


def _uid(change: Change[PodView] | Change[GroupView]) -> str:
    found = change.new or change.old
    return found.uid if found is not None else ""
