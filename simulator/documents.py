"""Which part of a written document counts: subresources, system metadata, generation."""

from __future__ import annotations

from simulator import schemas
from simulator.store import Doc, Stored

SYSTEM_METADATA = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink")
"""What the server alone writes."""


def split(old: Stored, doc: Doc, *, subresource: str | None) -> Doc:
    """What this subresource may change, the rest as it was."""
    strategy = schemas.traits(old.kind)
    if subresource == "approval":
        said = {**(old.doc.get("status") or {}), "conditions": (doc.get("status") or {}).get("conditions") or []}
        return {**old.doc, "metadata": dict(old.doc["metadata"]), "status": said}
    if subresource == "status":
        kept = {name: value for name, value in old.doc.items() if name not in ("status", "apiVersion", "kind")}
        metadata = old.doc["metadata"] if strategy.custom else doc["metadata"]
        kept["metadata"] = dict(metadata)
        if not strategy.custom:
            kept["metadata"]["ownerReferences"] = old.doc["metadata"].get("ownerReferences")
        return {**kept, "status": doc["status"]} if doc.get("status") is not None else kept
    if not strategy.status:
        return doc
    doc.pop("status", None)
    return {**doc, "status": old.doc["status"]} if "status" in old.doc else doc


def keep_system_metadata(old: Stored, metadata: Doc) -> None:
    """What no caller can change stays as it was."""
    before = old.doc["metadata"]
    for name in SYSTEM_METADATA:
        if name in before:
            metadata[name] = before[name]
        else:
            metadata.pop(name, None)
    drop_empty(metadata)


def bumps_generation(old: Stored, doc: Doc) -> bool:
    """Something beside metadata (and status, where that is apart) changed."""
    skipped = {"metadata", "apiVersion", "kind"}
    if schemas.traits(old.kind).status:
        skipped.add("status")
    before = {name: value for name, value in old.doc.items() if name not in skipped}
    return before != {name: value for name, value in doc.items() if name not in skipped}


def drop_empty(metadata: Doc) -> None:
    """Empty maps and lists of metadata are not kept."""
    metadata.pop("managedFields", None)
    for name in ("labels", "annotations", "finalizers", "ownerReferences", "generateName"):
        if name in metadata and not metadata[name]:
            del metadata[name]
