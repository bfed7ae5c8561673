"""Gangs that have nodes, by queue: among their pods those are looked for who make room for others.

Kept by deltas of groups and of pods that leave; a gang's pods are looked at only when somebody asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from machinery.informer import Change, Key
from member_agent.scheduling.earmarks import Earmark
from member_agent.views import GroupView, PodView
from policies.shapes import PodShape

Marked = Callable[[tuple[PodView, ...]], tuple[PodView, ...]]


@dataclass(frozen=True, slots=True)
class Standing:
    """A gang with pods that hold nodes and are not on their way out; `placed` counts them and those that succeeded, by task."""

    key: Key
    group: GroupView
    pods: tuple[PodView, ...]
    placed: Mapping[str, int]
    priority: int


@dataclass(frozen=True, slots=True)
class Holders:
    """Who holds nodes, as one round sees it. `of` gives the gangs of a queue, only those of lower priority than a number where
    one is given; `one` a gang by its key."""

    queues: Callable[[], Sequence[str]] = tuple
    groups: Callable[[str], Mapping[Key, GroupView]] = lambda _: {}
    of: Callable[[str, int | None], Sequence[Standing]] = lambda _queue, _below: ()
    one: Callable[[Key], Standing | None] = lambda _: None
    leaving: tuple[tuple[str, PodShape], ...] = ()
    """Nodes and shapes of pods that are on their way out."""
    going: Mapping[str, PodView] = field(default_factory=dict)
    """By UID, pods whose eviction was decided and is not seen yet."""
    stuck: frozenset[str] = frozenset()
    """UIDs of pods that could not be evicted: nobody tries again until they change."""
    earmarks: tuple[Earmark, ...] = ()
    wait: Callable[[Key], int] = lambda _: 1
    """How many pods of a gang want nodes, those included that are held back for a while."""
    spent: frozenset[Key] = frozenset()
    """Gangs that had others evicted, did not start, and for which nothing has changed since: they evict nobody."""


NOBODY = Holders()


def rank_of(group: GroupView, pods: Iterable[PodView], *, priority: Callable[[str], int]) -> int:
    """The priority of a gang: of its PriorityClass, else that of its most important pod, whether that waits or has a node. It
    must not depend on who waits: two gangs would evict each other in turns."""
    return priority(group.priority_class) if group.priority_class else max((pod.priority for pod in pods), default=0)


class Stands:
    """Groups by queue, and pods that leave."""

    def __init__(self, pods: Callable[[Key], Mapping[str, PodView]], *, marked: Marked) -> None:
        """`pods` of a gang by UID; `marked`: with the crowds that they belong to now."""
        self._pods = pods
        self._marked = marked
        self._groups: dict[str, dict[Key, GroupView]] = {}
        self._queue_of: dict[Key, str] = {}
        self._leaving: dict[str, PodView] = {}

    def group_changed(self, change: Change[GroupView]) -> None:
        """A PodGroup came, changed or went."""
        before = self._queue_of.pop(change.key, None)
        if before is not None:
            groups = self._groups[before]
            del groups[change.key]
            if not groups:
                del self._groups[before]
        if change.new is not None:
            self._queue_of[change.key] = change.new.queue
            self._groups.setdefault(change.new.queue, {})[change.key] = change.new

    def pod_changed(self, change: Change[PodView]) -> None:
        """A pod of anybody came, changed or went."""
        pod = change.new
        if pod is not None and pod.deleting and pod.node and not pod.ended:
            self._leaving[pod.uid] = pod
        elif self._leaving and (last := pod or change.old) is not None:
            self._leaving.pop(last.uid, None)

    def leaving(self) -> tuple[PodView, ...]:
        """Pods that are being deleted and still hold their nodes, by UID."""
        return self._marked(tuple(pod for _, pod in sorted(self._leaving.items())))

    def queues(self) -> tuple[str, ...]:
        """Queues that have groups."""
        return tuple(sorted(self._groups))

    def groups(self, queue: str) -> Mapping[Key, GroupView]:
        """Groups of a queue by key."""
        return self._groups.get(queue, {})

    def of(self, queue: str, *, priority: Callable[[str], int], below: int | None = None) -> list[Standing]:
        """Gangs of a queue with nodes, in order; only those of lower priority than `below`. Gangs that the hub admitted and
        protected ones are nobody's victims and left out."""
        found = []
        for key, group in sorted(self._groups.get(queue, {}).items()):
            if group.admitted or not group.preemptable:
                continue
            if group.priority_class and below is not None and priority(group.priority_class) >= below:
                continue
            stands = self._one(key, group, priority=priority)
            if stands is not None and (below is None or stands.priority < below):
                found.append(stands)
        return found

    def by_key(self, key: Key, *, priority: Callable[[str], int]) -> Standing | None:
        """A gang with nodes; None where it has none."""
        queue = self._queue_of.get(key)
        return self._one(key, self._groups[queue][key], priority=priority) if queue is not None else None

    def _one(self, key: Key, group: GroupView, *, priority: Callable[[str], int]) -> Standing | None:
        pods, placed = [], dict[str, int]()
        for pod in self._pods(key).values():
            holds = bool(pod.node) and not pod.ended and not pod.deleting
            if holds:
                pods.append(pod)
            if holds or pod.phase == "Succeeded":
                placed[pod.task] = placed.get(pod.task, 0) + 1
        if not pods:
            return None
        rank = rank_of(group, self._pods(key).values(), priority=priority)
        pods.sort(key=lambda pod: (pod.task, len(pod.name), pod.name))
        return Standing(key, group, self._marked(tuple(pods)), placed, rank)
