"""What gangs and queues hold, kept by deltas: pods of a gang count for the queue its PodGroup names.

Amounts are milli units by resource. Pods without a PodGroup that is known count for no queue; they are used room and nothing
else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from machinery.informer import Change, Key
from member_agent.inventory import Held
from member_agent.views import GroupView

Amounts = dict[str, int]
NOTHING: Final[Mapping[str, int]] = MappingProxyType({})


def add(to: Amounts, amounts: Mapping[str, int], *, times: int) -> None:
    """Add so many times; what comes to zero is forgotten."""
    for name, amount in amounts.items():
        after = to.get(name, 0) + amount * times
        if after:
            to[name] = after
        else:
            to.pop(name, None)


def add_to_all(books: Iterable[Amounts], amounts: Mapping[str, int], *, times: int) -> None:
    """The same in several books."""
    changes = [(name, amount * times) for name, amount in amounts.items()]
    for book in books:
        for name, change in changes:
            if name in book:
                after = book[name] + change
                if after:
                    book[name] = after
                else:
                    del book[name]
            elif change:
                book[name] = change


class Usage:
    """A listener of the inventory and of PodGroups."""

    def __init__(self) -> None:
        self._gangs: dict[Key, Amounts] = {}
        self._queue_of: dict[Key, str] = {}
        self._queues: dict[str, Amounts] = {}
        self._namespaces: dict[tuple[str, str], Amounts] = {}

    def took(self, uid: str, held: Held) -> None:
        """A pod took its room."""
        self._account(held, 1)

    def gave_back(self, uid: str, held: Held) -> None:
        """A pod gave its room back."""
        self._account(held, -1)

    def _account(self, held: Held, times: int) -> None:
        key = held.gang
        if not key[1]:
            return
        amounts = self._gangs.setdefault(key, {})
        add(amounts, held.shape.requests, times=times)
        if not amounts:
            del self._gangs[key]
        queue = self._queue_of.get(key)
        if queue is not None:
            self._count(queue, key[0], held.shape.requests, times)

    def _count(self, queue: str, namespace: str, amounts: Mapping[str, int], times: int) -> None:
        account = self._queues.setdefault(queue, {})
        add(account, amounts, times=times)
        if not account:
            del self._queues[queue]
        place = (queue, namespace)
        account = self._namespaces.setdefault(place, {})
        add(account, amounts, times=times)
        if not account:
            del self._namespaces[place]

    def group_changed(self, change: Change[GroupView]) -> None:
        """A PodGroup came, went, or moved to another queue."""
        before = self._queue_of.get(change.key)
        after = change.new.queue if change.new is not None else None
        if before == after:
            return
        held = self._gangs.get(change.key, NOTHING)
        if before is not None:
            del self._queue_of[change.key]
            self._count(before, change.key[0], held, -1)
        if after is not None:
            self._queue_of[change.key] = after
            self._count(after, change.key[0], held, 1)

    def of_gang(self, key: Key) -> Mapping[str, int]:
        """What the pods of a gang hold."""
        return self._gangs.get(key, NOTHING)

    def of_namespace(self, queue: str, namespace: str) -> Mapping[str, int]:
        """What pods of a namespace hold of one queue itself."""
        return self._namespaces.get((queue, namespace), NOTHING)

    def of_queues(self) -> dict[str, Mapping[str, int]]:
        """What each queue itself holds, without queues under it: a copy."""
        return {name: dict(amounts) for name, amounts in self._queues.items()}
