"""What a fencer does with the member Lease it has just read (protocol.md 1 and 2). Pure.

F (`spec.leaseTransitions`) is the hub's alone: nothing here changes it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from apis import keys
from member_agent.modes import AGENT_MODE

Doc = dict[str, Any]

RENEWALS: Final = f"{keys.GROUP}/renewals"
AGENT_VERSION: Final = f"{keys.GROUP}/agent-version"
HUB: Final = "hub"
"""Holder that the hub writes when it fences (H3)."""


class Holder(enum.Enum):
    """Who holds the Lease, as this fencer sees it."""

    NOBODY = "nobody"
    ME = "me"
    HUB = "the hub"
    PEER = "another fencer of this cluster"
    FOREIGN = "another cluster"


@dataclass(frozen=True, slots=True)
class Identity:
    """This fencer: `<cluster uid>/<fencer id>`."""

    cluster_uid: str
    fencer: str

    def __str__(self) -> str:
        return f"{self.cluster_uid}/{self.fencer}"

    def sees(self, lease: Mapping[str, Any]) -> Holder:
        """Whose the Lease is."""
        holder = (lease.get("spec") or {}).get("holderIdentity") or ""
        if holder == "":
            return Holder.NOBODY
        if holder == HUB:
            return Holder.HUB
        if holder == str(self):
            return Holder.ME
        return Holder.PEER if holder.split("/", 1)[0] == self.cluster_uid else Holder.FOREIGN


@dataclass(frozen=True, slots=True)
class Sighting:
    """The renewal counter of a peer, and the boot time at which the read was sent that first showed it."""

    holder: str
    renewals: int
    since: float


def renewals(lease: Mapping[str, Any]) -> int:
    """The renewal counter; 0 before the first renewal, or where somebody wrote nonsense."""
    text = (lease["metadata"].get("annotations") or {}).get(RENEWALS, "0")
    return int(text) if text.isdigit() else 0


def sight(lease: Mapping[str, Any], before: Sighting | None, *, sent: float) -> Sighting:
    """What is known of the holder after this read."""
    holder = (lease.get("spec") or {}).get("holderIdentity") or ""
    count = renewals(lease)
    if before is not None and (before.holder, before.renewals) == (holder, count):
        return before
    return Sighting(holder, count, sent)


def may_take(seen: Holder, sighting: Sighting, *, now: float, handover: float) -> bool:
    """Whether this fencer may write its renewal: the Lease is its own, or free, or its peer stood still for D seconds."""
    match seen:
        case Holder.ME | Holder.NOBODY | Holder.HUB:
            return True
        case Holder.PEER:
            return now - sighting.since >= handover
        case Holder.FOREIGN:
            return False


def renewed(lease: Mapping[str, Any], identity: Identity, *, now: str, version: str, mode: str, duration: int) -> Doc:
    """The Lease with our renewal in it; everything else, F included, as it was read."""
    spec = dict(lease.get("spec") or {})
    if spec.get("holderIdentity") != str(identity):
        spec["acquireTime"] = now
    spec |= {"holderIdentity": str(identity), "renewTime": now, "leaseDurationSeconds": duration}
    annotations = {
        **(lease["metadata"].get("annotations") or {}),
        RENEWALS: str(renewals(lease) + 1),
        AGENT_VERSION: version,
        AGENT_MODE: mode,
    }
    return {**lease, "metadata": {**lease["metadata"], "annotations": annotations}, "spec": spec}
