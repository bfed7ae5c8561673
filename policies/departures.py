"""Why a run has to leave the cluster where it runs before it has ended: the cluster is drained or leaves, a taint evicts it, or
it is not whole any more (reference/karmada.md 4.5 to 4.8). Pure.

Nothing here ends a run: the hub stops it (protocol.md 2, H2), waits until its end is confirmed, and places it again. Where
nobody is there to obey, nothing is ordered: a run that a brief disconnect does not touch must not be stopped when it is over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from apis.cluster_orders import Order, Stamp
from policies.members import ClusterView
from policies.placements import ApplicationRule, PolicyView
from policies.shapes import Taint

DRAINED: Final = "ClusterDrained"
UNJOINED: Final = "ClusterUnjoined"
TAINTED: Final = "TaintUntolerated"
AILING: Final = "ApplicationFailure"
REBALANCED: Final = "Rebalanced"

FOREVER: Final = float("inf")


@dataclass(frozen=True, slots=True)
class Departure:
    """Reason and sentence, and the seconds until it is due; 0: now."""

    reason: str
    message: str
    due: float = 0.0


def departure(
    cluster: ClusterView,
    *,
    policy: PolicyView,
    standing: Mapping[tuple[str, str], float],
    ailing: float | None = None,
    settle: float,
    ready_for: float = FOREVER,
) -> Departure | None:
    """The first reason to leave, None where there is none, or nobody there who could be told.

    `standing`: for how many seconds each taint with NoExecute has been there, by key and effect. `ailing`: for how many the
    run has not been whole. `settle`: seconds for which a taint stands and the cluster is Ready (`ready_for`) before it evicts
    anybody: taints that follow conditions are taken off a moment after the condition changes.
    """
    if cluster.ready != "True":
        return None
    if cluster.deleting:
        return Departure(UNJOINED, f"{cluster.name} leaves the federation")
    if cluster.draining:
        return Departure(DRAINED, f"{cluster.name} is drained{_whose(cluster.stamp(Order.DRAIN), cluster.orders[Order.DRAIN])}")
    found = [
        each
        for each in (
            _evicted(cluster, policy, standing, settle=settle, ready_for=ready_for),
            _ailing(cluster, policy.application, ailing),
        )
        if each
    ]
    return min(found, key=lambda each: each.due, default=None)


def _whose(stamp: Stamp, why: str) -> str:
    by = f" by {stamp.by}" if stamp.by else ""
    return f"{by}: {why}" if why else by


def _evicted(
    cluster: ClusterView,
    policy: PolicyView,
    standing: Mapping[tuple[str, str], float],
    *,
    settle: float,
    ready_for: float,
) -> Departure | None:
    """The taint that evicts first."""
    waits = []
    for taint in cluster.taints:
        if taint.effect != "NoExecute":
            continue
        borne, there = borne_for(taint, policy=policy), standing.get((taint.key, taint.effect), 0.0)
        left = max(borne - there, settle - min(there, ready_for))
        if left < FOREVER:
            limit = f" for longer than {borne:.0f} s" if borne > 0 else ""
            text = f"taint {taint.key}:{taint.effect} of {cluster.name} is not tolerated{limit}"
            waits.append(Departure(TAINTED, text, max(left, 0.0)))
    return min(waits, key=lambda each: (each.due, each.message), default=None)


def borne_for(taint: Taint, *, policy: PolicyView) -> float:
    """Seconds for which a policy puts up with a taint: 0 where it does not, infinite where no limit is given. Of several
    tolerations the shortest limit counts, as for pods."""
    tolerating = [each for each in policy.tolerations if each.tolerates(taint)]
    if not tolerating:
        return 0.0
    limits = [float(max(seconds, 0)) for each, seconds in policy.bears if each.tolerates(taint)]
    return min(limits, default=FOREVER)


def _ailing(cluster: ClusterView, rule: ApplicationRule | None, ailing: float | None) -> Departure | None:
    if rule is None or rule.never or ailing is None:
        return None
    text = f"{cluster.name}: it has not been whole for {rule.toleration} s"
    return Departure(AILING, text, max(rule.toleration - ailing, 0.0))
