"""Is a member alive? Renewals of its Lease, counted on the hub's own boot clock, and the conditions that follow. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from policies.members import ClusterView, LeaseView

ALIVE, SILENT, NEW = "True", "Unknown", "False"
"""Statuses of the condition Ready."""

REASONS: Final = {ALIVE: "ClusterReady", SILENT: "ClusterStatusUnknown", NEW: "ClusterNotReady"}
TEXTS: Final = {
    ALIVE: "its agent renews",
    SILENT: "its agent has been silent for too long",
    NEW: "its agent has not renewed its Lease yet",
}


@dataclass(frozen=True, slots=True)
class Pulse:
    """What was seen of a member's renewals: the last mark, when it was first seen (boot seconds), how many renewals came since
    the member was last silent, and the verdict."""

    mark: str
    since: float
    renewals: int
    ready: str


def first_pulse(lease: LeaseView | None, *, ready: str, now: float) -> Pulse:
    """Nothing is known of the past: what the Cluster says holds until its Lease has stood still for the whole limit here."""
    mark = lease.renewal if lease is not None and lease.holder else ""
    return Pulse(mark=mark, since=now, renewals=0, ready=ready if ready in (ALIVE, SILENT) else NEW)


def beat(pulse: Pulse, *, lease: LeaseView | None, now: float, silence: float, recovery: int) -> Pulse:
    """The next pulse. `silence`: seconds without a renewal after which a Ready member is Unknown. `recovery`: renewals in a row
    after which a silent one is Ready again; the very first renewal of a new member is enough."""
    mark = lease.renewal if lease is not None and lease.holder else ""
    if mark and mark != pulse.mark:
        renewals = pulse.renewals + 1
        enough = pulse.ready != SILENT or renewals >= recovery
        return Pulse(mark=mark, since=now, renewals=renewals, ready=ALIVE if enough else SILENT)
    if pulse.ready != NEW and now - pulse.since >= silence:
        return replace(pulse, renewals=0, ready=SILENT)
    return pulse


def foreign(cluster: ClusterView, *, others: list[ClusterView], hub: str) -> tuple[str, str] | None:
    """Reason and text why a Cluster must not be registered; None when it may. Of two with one id the older stays."""
    if not cluster.id:
        return "IdMissing", "spec.id must be the UID of the member's kube-system namespace"
    if cluster.id == hub:
        return "HubItself", "spec.id is the hub's own: a hub cannot be its own member. Join another cluster, or use another hub"
    older = [each for each in others if each.id == cluster.id and (each.created, each.name) < (cluster.created, cluster.name)]
    if older:
        both = f"cluster {cluster.name} and cluster {older[0].name} have the same spec.id {cluster.id}"
        return "DuplicateId", f"{both}: one cluster joins once. Unjoin one of the two"
    return None
