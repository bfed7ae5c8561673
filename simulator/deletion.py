"""Deletion: what a DELETE does to an object before it goes, by finalizers, grace and propagation policy.

Functions on documents; `ApiServer` commits what they say. Source: graceful deletion and finalizers as kube-apiserver's
registry has them, tried by the contract suite.
"""

from __future__ import annotations

import datetime

from apis import kinds
from machinery.clock import stamp
from machinery.port import Propagation
from simulator.store import Doc, Stored

_PROPAGATION_FINALIZERS = {Propagation.ORPHAN: "orphan", Propagation.FOREGROUND: "foregroundDeletion"}
_FINISHED = frozenset({"Succeeded", "Failed"})


def set_propagation(metadata: Doc, propagation: Propagation | None) -> None:
    """Write the policy down as the finalizer that carries it out."""
    if propagation is None:
        return
    kept = [name for name in metadata.get("finalizers") or [] if name not in _PROPAGATION_FINALIZERS.values()]
    if propagation in _PROPAGATION_FINALIZERS:
        kept.append(_PROPAGATION_FINALIZERS[propagation])
    if kept:
        metadata["finalizers"] = kept
    else:
        metadata.pop("finalizers", None)


def grace_of(old: Stored, *, asked: int | None) -> int:
    """Seconds that this deletion gives the object; pods alone have any."""
    if old.kind != kinds.POD:
        return 0
    before: int | None = old.doc["metadata"].get("deletionGracePeriodSeconds")
    if old.doc["metadata"].get("deletionTimestamp"):
        if not before:
            return 0
        return before if asked is None or asked >= before else asked
    spec, status = old.doc["spec"], old.doc.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in _FINISHED:
        return 0
    grace: int = spec["terminationGracePeriodSeconds"] if asked is None else asked
    return 1 if grace < 0 else grace


def mark(old: Stored, metadata: Doc, *, grace: int, now: datetime.datetime) -> None:
    """Set deletionTimestamp, or bring it forward."""
    if metadata.get("deletionTimestamp"):
        before: int = metadata.get("deletionGracePeriodSeconds") or 0
        if grace < before:
            end = datetime.datetime.fromisoformat(metadata["deletionTimestamp"])
            metadata["deletionTimestamp"] = stamp(end - datetime.timedelta(seconds=before - grace))
            metadata["deletionGracePeriodSeconds"] = grace
        return
    metadata["deletionTimestamp"] = stamp(now + datetime.timedelta(seconds=grace))
    if old.kind != kinds.NAMESPACE:
        metadata["deletionGracePeriodSeconds"] = grace
    if metadata.get("generation"):
        metadata["generation"] += 1


def is_emptied(old: Stored, metadata: Doc) -> bool:
    """The last finalizer of a terminating object was taken away and no grace period is left."""
    return (
        bool(metadata.get("deletionTimestamp"))
        and bool(old.doc["metadata"].get("finalizers"))
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
        and old.kind != kinds.NAMESPACE
    )
