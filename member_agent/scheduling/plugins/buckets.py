"""Which pods of a gang should sit on one node: tasks that want each other share a bucket, tasks that avoid each other do not.

Pure. Buckets are filled one pod after the other, each going where most of those are that its task wants and fewest that it
avoids; a pod that would only meet what it avoids gets a bucket of its own.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final

from member_agent.views import PodView
from member_agent.views.hints import TASK_AFFINITY, TASK_ANTI_AFFINITY, TASK_ORDER, Hints, hint
from policies.shapes import PodShape

Pair = tuple[str, str]
MIB: Final = 1 << 20
IN_BYTES: Final = ("memory", "ephemeral-storage")


@dataclass(frozen=True, slots=True)
class Topology:
    """Pairs of tasks that want each other and that avoid each other, both ways; a task with itself is a pair. `order`: tasks
    that go first."""

    wants: frozenset[Pair]
    avoids: frozenset[Pair]
    order: tuple[str, ...]

    def concerns(self, task: str) -> bool:
        """Whether anything is said of where the task's pods sit."""
        return any(task == one for one, _ in self.wants | self.avoids)

    def rank(self, task: str) -> tuple[int, int]:
        """Smaller goes first: as ordered, then whoever avoids its like, wants others, wants its like, avoids others."""
        place = self.order.index(task) if task in self.order else len(self.order)
        others = [(pairs, {other for one, other in pairs if one == task}) for pairs in (self.avoids, self.wants)]
        (_, avoided), (_, wanted) = others
        if task in avoided:
            return place, 0
        if wanted - {task}:
            return place, 1
        return (place, 2) if wanted else (place, 3)

    def likes(self, task: str, there: Mapping[str, int]) -> int:
        """Pods there that the task wants, less those that it avoids."""
        return sum(count * (((task, other) in self.wants) - ((task, other) in self.avoids)) for other, count in there.items())

    def dislikes(self, task: str, there: Mapping[str, int]) -> int:
        """Pods there that the task avoids."""
        return sum(count for other, count in there.items() if (task, other) in self.avoids)


def read_topology(hints: Hints, *, tasks: Set[str]) -> Topology | None:
    """What the annotations of a group say: lists `a,b;c` of tasks that belong together or apart. None where they say nothing,
    or name a task that is not there or one twice: then all of them count as not given."""
    listed = [_lists(hint(hints, name)) for name in (TASK_AFFINITY, TASK_ANTI_AFFINITY, TASK_ORDER)]
    together, apart, order = listed
    if not (together or apart or order) or len(order) > 1:
        return None
    for names in (*together, *apart, *order):
        if len(set(names)) < len(names) or not tasks >= set(names):
            return None
    return Topology(_pairs(together), _pairs(apart), order[0] if order else ())


def _lists(text: str) -> list[tuple[str, ...]]:
    lists = (tuple(name.strip() for name in each.split(",") if name.strip()) for each in text.split(";"))
    return [names for names in lists if names]


def _pairs(lists: Iterable[tuple[str, ...]]) -> frozenset[Pair]:
    found: set[Pair] = set()
    for names in lists:
        if len(names) == 1:
            found.add((names[0], names[0]))
        found |= {(one, other) for one in names for other in names if one != other}
    return frozenset(found)


@dataclass(slots=True)
class Bucket:
    """Pods that should sit together: those that wait by task and shape, in the order in which they came in, and by node those
    that sit."""

    index: int
    waiting: Counter[tuple[str, PodShape]] = field(default_factory=Counter)
    sitting: Counter[str] = field(default_factory=Counter)
    weight: float = 0.0

    @property
    def pods(self) -> int:
        """Of both kinds."""
        return self.waiting.total() + self.sitting.total()


def fill_buckets(
    topology: Topology, pods: Sequence[PodView], *, sites: Iterable[tuple[str, str]]
) -> tuple[list[Bucket], dict[str, Bucket]]:
    """Buckets of the pods of one gang, and the bucket of each pod that waits by its UID; `sites` are those with nodes, as
    task and node, a bucket for each node."""
    by_node: dict[str, Bucket] = {}
    tasks: dict[str, Counter[str]] = {}
    for task, node in sorted(sites, key=lambda each: (each[1], each[0])):
        if topology.concerns(task):
            bucket = by_node.setdefault(node, Bucket(len(by_node)))
            bucket.sitting[node] += 1
            tasks.setdefault(node, Counter())[task] += 1
    filling = _Filling(topology)
    for node, bucket in by_node.items():
        filling.file(bucket, tasks[node])
    concerned = [pod for pod in pods if topology.concerns(pod.task)]
    for pod in sorted(concerned, key=lambda pod: (topology.rank(pod.task), pod.task, len(pod.name), pod.name)):
        filling.add(pod)
    return filling.buckets, filling.of


class _Filling:
    """Buckets by what is in them: those of equal content are judged once, the lightest of them is taken."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self.buckets: list[Bucket] = []
        self.of: dict[str, Bucket] = {}
        self._alike: dict[frozenset[tuple[str, int]], list[tuple[float, int]]] = {}

    def file(self, bucket: Bucket, tasks: Mapping[str, int]) -> None:
        """Remember a bucket by what is in it: pods by task."""
        if bucket.index == len(self.buckets):
            self.buckets.append(bucket)
        heapq.heappush(self._alike.setdefault(frozenset(tasks.items()), []), (bucket.weight, bucket.index))

    def add(self, pod: PodView) -> None:
        """Put a pod where it is wanted most."""
        best: tuple[int, float, int] | None = None
        of = None
        for content, alike in self._alike.items():
            weight, index = alike[0]
            found = (-self._topology.likes(pod.task, dict(content)), weight, index)
            if best is None or found < best:
                best, of = found, content
        if best is None or of is None or best[0] > 0:
            bucket, tasks = Bucket(len(self.buckets)), {}
        else:
            bucket = self.buckets[heapq.heappop(self._alike[of])[1]]
            tasks = dict(of)
            if not self._alike[of]:
                del self._alike[of]
        bucket.waiting[pod.task, pod.shape] += 1
        bucket.weight += _weight(pod.shape)
        self.of[pod.uid] = bucket
        self.file(bucket, {**tasks, pod.task: tasks.get(pod.task, 0) + 1})


def _weight(shape: PodShape) -> float:
    """One core, one MiB times a thousand, one of anything else weigh alike."""
    return sum(amount / MIB if name in IN_BYTES else float(amount) for name, amount in shape.requests.items())
