"""What rounds look at in columns and what changes little from one to the next: published rows, and what offers say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from policies.fit import Rows
from policies.ground import Ground
from policies.offers import OfferView
from policies.ways import Ways


@dataclass(frozen=True, slots=True)
class Terrain:
    """Of members in the order of their names. What it remembers of earlier questions changes no answer."""

    ground: Ground
    ways: Ways


def terrain_of(
    names: Sequence[str],
    published: Sequence[Rows | None],
    *,
    offers: Mapping[str, OfferView],
    rates: Mapping[str, float],
    before: Terrain | None = None,
) -> Terrain:
    """What of `before` is still so is used again."""
    ground = before.ground if before is not None and before.ground.is_of(published) else None
    ways = before.ways if before is not None and before.ways.is_of(names, offers, rates) else None
    if before is not None and ground is not None and ways is not None:
        return before
    return Terrain(
        ground or Ground(published, before=before.ground if before is not None else None),
        ways or Ways(names, offers, rates=rates),
    )
