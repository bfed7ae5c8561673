"""Whose word an object is: the creator of a PlacementReview, whose rights it has (design.md 4), and whoever asks something of a
member on its Cluster (protocol.md 2, H4). Written at admission; what somebody writes there himself counts for nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from apis import cluster_orders
from controllers.admission import documents, patches
from controllers.admission.documents import Manifest
from controllers.admission.patches import Operations
from controllers.admission.problems import Problem

FIELD: Final = "spec.creator"


def creator(user: str, groups: Sequence[str]) -> dict[str, Any]:
    """The stamp of a user."""
    return {"username": user, **({"groups": list(groups)} if groups else {})}


def stamped(review: Manifest, *, user: str, groups: Sequence[str]) -> Operations:
    """Operations that write who creates it, whatever it said."""
    spec = documents.mapping(review.get("spec"))
    return patches.between(review, after={**review, "spec": {**spec, "creator": creator(user, groups)}})


def stamp_problems(new: Manifest, old: Manifest | None, *, user: str, groups: Sequence[str]) -> list[Problem]:
    """What is wrong with the stamp of a new review; a review that is there is not asked anything else."""
    spec = documents.mapping(new.get("spec"))
    if old is not None:
        same = spec == documents.mapping(old.get("spec"))
        return [] if same else [Problem("spec", "a review is asked once: make another one")]
    if spec.get("creator") != creator(user, groups):
        return [Problem(FIELD, f"it is not {user}, who creates this review")]
    return []


def orders_stamped(cluster: Manifest, old: Manifest | None, *, user: str) -> Operations:
    """Operations that write who asked what of a member. When it was asked the hub says, which acts on it."""
    text = cluster_orders.stamped(cluster, old=old, by=user, at="")
    meta = documents.mapping(cluster.get("metadata"))
    notes = {name: value for name, value in documents.notes_of(cluster).items() if name != cluster_orders.ORDERED_BY}
    if text is not None:
        notes[cluster_orders.ORDERED_BY] = text
    if notes == documents.notes_of(cluster):
        return []
    return patches.between(cluster, after={**cluster, "metadata": {**meta, "annotations": notes}})
