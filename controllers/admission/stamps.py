"""Whose rights a PlacementReview has: its creator is written at admission, and nobody writes another (design.md 4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

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
