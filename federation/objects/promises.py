"""What Works of all kinds promise: room that members have not subtracted yet, and what queues and namespaces use.

A promise is dropped when the version that its Work was first seen at is within the member's `worksThrough` (protocol.md 3).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from apis.vectors import ResourceVector
from policies.federated_quotas import Holding
from policies.shapes import Gang
from policies.statuses import TERMINAL
from policies.views import WorkView


@dataclass(frozen=True, slots=True)
class _Live:
    namespace: str
    cluster: str
    queue: str
    gang: Gang


class Promises:
    """Fed with every Work; answers what counts beside an object that is to be placed."""

    def __init__(self) -> None:
        self._live: dict[str, _Live] = {}
        self._open: dict[str, dict[str, int]] = {}
        """By cluster and UID, the version a Work was first seen at."""

    def saw(self, work: WorkView) -> None:
        """A Work as it stands now."""
        asks = work.gang is not None and work.applied is not False and work.phase not in TERMINAL
        if not asks or work.gang is None:
            self.lost(work)
            return
        if work.uid not in self._live:
            version = int(work.version) if work.version.isdigit() else 0
            self._open.setdefault(work.cluster, {})[work.uid] = version
        self._live[work.uid] = _Live(work.binding[0], work.cluster, work.queue, work.gang)

    def lost(self, work: WorkView) -> None:
        """It is gone, has ended, or was refused."""
        self._live.pop(work.uid, None)
        self._open.get(work.cluster, {}).pop(work.uid, None)

    def promised(self, cluster: str, *, through: int) -> tuple[tuple[str, Gang], ...]:
        """(queue, gang) of everything the member has not subtracted, by UID."""
        entries = self._open.get(cluster, {})
        for uid in [uid for uid, version in entries.items() if version <= through]:
            del entries[uid]
        return tuple((self._live[uid].queue, self._live[uid].gang) for uid in sorted(entries))

    def used(self) -> dict[str, ResourceVector]:
        """What runs from each queue itself."""
        sums: dict[str, ResourceVector] = {}
        for each in self._live.values():
            sums[each.queue] = sums.get(each.queue, ResourceVector()) + each.gang.requests
        return sums

    def holdings(self, namespaces: Iterable[str]) -> tuple[Holding, ...]:
        """What live Works of these namespaces ask for, summed by namespace and cluster."""
        wanted = set(namespaces)
        sums: dict[tuple[str, str], ResourceVector] = {}
        for each in self._live.values():
            if each.namespace in wanted:
                place = (each.namespace, each.cluster)
                sums[place] = sums.get(place, ResourceVector()) + each.gang.requests
        return tuple(Holding(namespace, cluster, amount) for (namespace, cluster), amount in sorted(sums.items()))
