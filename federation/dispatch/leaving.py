"""What this leader remembers of clusters that runs have to leave: since when they are Ready, how long taints have stood, and
how many runs may be taken away now. Times in boot seconds; wall times only say how old a taint was when first seen."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field

from policies.members import ClusterView

Taint = tuple[str, str]
"""Key and effect."""


@dataclass(slots=True)
class _Known:
    ready: float | None = None
    taints: dict[Taint, float] = field(default_factory=dict)
    """When each was put on."""
    leaves: float = 0.0
    refilled: float = 0.0


class Leaving:
    """`rate`: runs that may be taken away from one cluster in a second; so many may go at once, one at least."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._most = max(rate, 1.0)
        self._known: dict[str, _Known] = {}

    def saw_cluster(self, name: str, cluster: ClusterView | None, *, now: float, wall: datetime.datetime) -> None:
        """A cluster as it stands now; None: it is gone."""
        if cluster is None:
            self._known.pop(name, None)
            return
        known = self._known.setdefault(name, _Known(leaves=self._most, refilled=now))
        if cluster.ready != "True":
            known.ready = None
        elif known.ready is None:
            known.ready = now
        there = {(each.key, each.effect) for each in cluster.taints if each.effect == "NoExecute"}
        known.taints = {
            taint: known.taints[taint] if taint in known.taints else now - _age(cluster.since.get(taint, ""), wall)
            for taint in sorted(there)
        }

    def standing(self, name: str, *, now: float) -> Mapping[Taint, float]:
        """For how many seconds each taint with NoExecute has been there."""
        known = self._known.get(name)
        return {taint: now - since for taint, since in known.taints.items()} if known is not None else {}

    def ready_for(self, name: str, *, now: float) -> float:
        """For how many seconds it has been Ready, as far as this leader has seen."""
        known = self._known.get(name)
        return now - known.ready if known is not None and known.ready is not None else 0.0

    def leaves(self, name: str, *, now: float) -> float:
        """How many runs may be taken away from it now."""
        known = self._known.setdefault(name, _Known(leaves=self._most, refilled=now))
        known.leaves = min(self._most, known.leaves + (now - known.refilled) * self._rate)
        known.refilled = now
        return round(known.leaves, 6)

    def left(self, name: str, *, now: float) -> None:
        """One was taken away."""
        self.leaves(name, now=now)
        self._known[name].leaves -= 1.0


def _age(since: str, wall: datetime.datetime) -> float:
    """Seconds; 0 for what nobody stamped, or stamped in the future."""
    try:
        return max((wall - datetime.datetime.fromisoformat(since)).total_seconds(), 0.0) if since else 0.0
    except (ValueError, TypeError):
        return 0.0
