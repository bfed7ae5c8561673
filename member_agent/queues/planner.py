"""What local queues need: the two that everything hangs from, a state, and what is allocated in them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from apis import keys, kinds
from apis.vectors import EMPTY, ResourceVector, total
from member_agent.views import QueueView
from policies.shapes import PodShape


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """The status a queue should have."""

    state: str
    allocated: ResourceVector


def missing(queues: Iterable[QueueView]) -> tuple[str, ...]:
    """Which of `root` and `default` are to be made, in this order."""
    there = {queue.name for queue in queues}
    return tuple(name for name in (keys.ROOT_QUEUE, keys.DEFAULT_QUEUE) if name not in there)


def body(name: str) -> dict[str, object]:
    """A queue as this agent makes it: root cannot be reclaimed from, default hangs from root (reference/volcano.md 2.2)."""
    spec: dict[str, object] = {"weight": 1, "reclaimable": name != keys.ROOT_QUEUE}
    if name != keys.ROOT_QUEUE:
        spec["parent"] = keys.ROOT_QUEUE
    return {"apiVersion": kinds.QUEUE.api_version, "kind": kinds.QUEUE.kind, "metadata": {"name": name}, "spec": spec}


def allocated(used: Mapping[tuple[str, PodShape], int], queues: Mapping[str, QueueView]) -> dict[str, ResourceVector]:
    """What bound pods hold, by queue, descendants included."""
    amounts: dict[str, ResourceVector] = {}
    for (queue, shape), count in used.items():
        amounts[queue] = amounts.get(queue, EMPTY) + shape.requests * count
    sums: dict[str, list[ResourceVector]] = {}
    for name in sorted(amounts):
        for ancestor in lineage(name, queues):
            sums.setdefault(ancestor, []).append(amounts[name])
    return {name: total(vectors) for name, vectors in sums.items()}


def lineage(name: str, queues: Mapping[str, QueueView]) -> list[str]:
    """The queue and its ancestors up to root; a cycle is cut where it closes."""
    path: list[str] = []
    current = name
    while current and current not in path:
        path.append(current)
        queue = queues.get(current)
        current = "" if current == keys.ROOT_QUEUE or queue is None else (queue.parent or keys.ROOT_QUEUE)
    return path


def status_of(queue: QueueView, *, amount: ResourceVector) -> QueueStatus | None:
    """The status to write, or None when it is there already. A state that is set is somebody's decision and stays."""
    wanted = QueueStatus(queue.state or "Open", amount)
    return None if (wanted.state, wanted.allocated) == (queue.state, queue.allocated) else wanted
