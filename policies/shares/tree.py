"""Limits in a tree of queues: what each may have at most, what it deserves, and how far it is.

A queue's ceiling is its own capability, within what its parent may have less the guarantees of its siblings. Bad trees do no
harm: a queue whose parent is missing, or that is its own ancestor, hangs from the root.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from apis import keys
from apis.vectors import EMPTY, ResourceVector

REMEMBERED: Final = 8
"""Answers of `limits`: of the plugins that ask in one round, and of a few clusters where several are in one process."""


@dataclass(frozen=True, slots=True)
class QueueShare:
    """A queue as shares see it; a resource missing in `capability` is unlimited, one that stands there with 0 is not to be had;
    one missing in `deserved` is borrowed."""

    name: str
    parent: str = keys.ROOT_QUEUE
    weight: int = 1
    guarantee: ResourceVector = EMPTY
    deserved: ResourceVector = EMPTY
    capability: Mapping[str, int] = EMPTY
    reclaimable: bool = True


@dataclass(frozen=True, slots=True)
class Limit:
    """`most` is the ceiling over every resource of the cluster; `deserved` and `guarantee` lie within it; the guarantee covers
    those of queues below."""

    most: ResourceVector
    deserved: ResourceVector
    guarantee: ResourceVector


def lineage(name: str, queues: Mapping[str, QueueShare]) -> tuple[str, ...]:
    """The queue and its ancestors, the root last. The queues of a loop hang from the root, each by itself."""
    path: list[str] = []
    while name != keys.ROOT_QUEUE and name not in path:
        path.append(name)
        name = _parent(name, queues)
    if name in path:
        path = path[: path.index(name) + 1]
    return (*path, keys.ROOT_QUEUE)


def _parent(name: str, queues: Mapping[str, QueueShare]) -> str:
    queue = queues.get(name)
    return queue.parent if queue is not None and queue.parent in queues else keys.ROOT_QUEUE


def limits(available: ResourceVector, queues: Mapping[str, QueueShare]) -> Mapping[str, Limit]:
    """The limits of every queue and of the root, in a cluster that has `available`.

    The last answers are remembered: most rounds ask about the same queues.
    """
    return _limits(available, tuple(_Known(name, queue) for name, queue in queues.items()))


class _Known:
    """A queue by everything that its limits follow from."""

    __slots__ = ("facts", "name", "queue")

    def __init__(self, name: str, queue: QueueShare) -> None:
        self.name = name
        self.queue = queue
        self.facts = (name, queue.parent, queue.guarantee, queue.deserved, tuple(sorted(queue.capability.items())))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Known) and self.facts == other.facts

    def __hash__(self) -> int:
        return hash(self.facts)


@lru_cache(maxsize=REMEMBERED)
def _limits(available: ResourceVector, known: tuple[_Known, ...]) -> Mapping[str, Limit]:
    queues = {each.name: each.queue for each in known}
    above = {name: lineage(name, queues) for name in queues if name != keys.ROOT_QUEUE}
    order = sorted(above, key=lambda name: (len(above[name]), name))  # parents before children
    own = {name: queue.guarantee.positive() for name, queue in queues.items()}
    guarantees, below = dict(own), dict.fromkeys([keys.ROOT_QUEUE, *queues], EMPTY)
    for name in reversed(order):
        guarantees[name] = own[name].at_least(below[name])
        below[above[name][1]] = below[above[name][1]] + guarantees[name]
    root = queues.get(keys.ROOT_QUEUE, QueueShare(keys.ROOT_QUEUE, parent=""))
    guarantees[root.name] = root.guarantee.positive().at_least(below[root.name])
    found = {root.name: _limit(root, available, guarantees[root.name])}
    for name in order:
        parent = above[name][1]
        left = (found[parent].most - below[parent] + guarantees[name]).positive()
        found[name] = _limit(queues[name], left, guarantees[name])
    return MappingProxyType(found)


def _limit(queue: QueueShare, left: ResourceVector, guarantee: ResourceVector) -> Limit:
    """`left`: what its parent leaves for it."""
    most = ResourceVector({name: min(amount, queue.capability.get(name, amount)) for name, amount in left.items()})
    floor = guarantee.at_most(most)
    return Limit(most, queue.deserved.positive().at_least(floor).at_most(most), floor)


def share(held: Mapping[str, int], deserved: Mapping[str, int]) -> float:
    """How much of what it deserves a queue holds: the largest ratio over the resources it deserves. Who deserves nothing has
    all of it with anything."""
    if not deserved:
        return float(any(amount > 0 for amount in held.values()))
    most = 0.0
    for name, amount in deserved.items():
        part = held.get(name, 0) / amount
        if part > most:
            most = part
    return most
