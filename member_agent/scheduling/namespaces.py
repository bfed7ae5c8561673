"""What namespaces hold of each queue, and are promised there: inside a queue they share by weight.

The weight of a namespace is the largest that one of its ResourceQuotas names (`volcano.sh/namespace.weight` in `spec.hard`, as
Volcano reads it), 1 without any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from apis.vectors import MILLI
from member_agent.scheduling.quantities import plain
from member_agent.scheduling.snapshot import Snapshot
from member_agent.scheduling.usage import NOTHING, Amounts, add

WEIGHT: Final = "volcano.sh/namespace.weight"

Place = tuple[str, str]
"""A queue and a namespace."""


class Namespaces:
    """The books of one session; copied as they are written to."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._before: Callable[[str, str], Mapping[str, int]] = snapshot.held_by
        self._given: dict[Place, Amounts] = {}
        self._promised: dict[Place, Amounts] = {}
        self._quotas = snapshot.quotas
        for group in snapshot.expected:
            self.promise(group.queue, group.namespace, plain(group.min_resources))

    def held(self, queue: str, namespace: str) -> Mapping[str, int]:
        """What pods of a namespace hold of a queue, without queues under it; given away in this session included."""
        given = self._given.get((queue, namespace))
        return given if given is not None else self._before(queue, namespace)

    def promised(self, queue: str, namespace: str) -> Mapping[str, int]:
        """Minimum resources of its groups there that were let in and whose pods have no nodes yet."""
        return self._promised.get((queue, namespace), NOTHING)

    def weight(self, namespace: str) -> int:
        """Beside other namespaces; at least 1."""
        return max((quota.hard.get(WEIGHT) // MILLI for quota in self._quotas.get(namespace, ())), default=1) or 1

    # --- what the session does ---------------------------------------------------------------------------------------

    def book(self, queue: str, namespace: str) -> Amounts:
        """The book to enter in what is given."""
        given = self._given.get((queue, namespace))
        if given is None:
            given = self._given[queue, namespace] = dict(self._before(queue, namespace))
        return given

    def promise(self, queue: str, namespace: str, amounts: Mapping[str, int]) -> None:
        """Enter what a group was promised."""
        add(self._promised.setdefault((queue, namespace), {}), amounts, times=1)
