"""What rounds look at in columns and what changes little from one to the next: published rows, and what offers say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from federation.dispatch.floors import Floors
from policies.fit import Array, Rows
from policies.ground import Ground, Mask
from policies.members import ClusterView
from policies.offers import OfferView
from policies.verdicts import Verdict, Wake
from policies.ways import Ways


class Codes:
    """Numbers of verdicts: 0 passes."""

    def __init__(self) -> None:
        self.known: list[tuple[str, tuple[Wake, ...]]] = [("", ())]
        self._numbers: dict[tuple[str, tuple[Wake, ...]], int] = {("", ()): 0}

    def number(self, verdict: Verdict) -> int:
        """0 for one that passes."""
        if verdict.passes:
            return 0
        key = (verdict.code, verdict.wakes)
        if key not in self._numbers:
            self._numbers[key] = len(self.known)
            self.known.append(key)
        return self._numbers[key]

    def having(self, numbers: Array, codes: Iterable[str]) -> Mask:
        """Which of these numbers are verdicts with one of the codes."""
        wanted = frozenset(codes)
        found: Mask = np.array([code in wanted for code, _ in self.known], dtype=np.bool_)[numbers]
        return found

    def among(self, numbers: Array) -> list[int]:
        """Each of these numbers once."""
        found: list[int] = np.flatnonzero(np.bincount(numbers, minlength=len(self.known))).tolist()
        return found


class Verdicts:
    """What filters that look at nothing but cluster and policy said of these very clusters."""

    def __init__(self, clusters: Sequence[ClusterView]) -> None:
        self.codes = Codes()
        self._clusters = tuple(clusters)
        self._known: dict[tuple[object, ...], tuple[tuple[object, ...], Array]] = {}

    def is_of(self, clusters: Sequence[ClusterView]) -> bool:
        """Whether these are the very clusters."""
        return len(clusters) == len(self._clusters) and all(
            mine is theirs for mine, theirs in zip(self._clusters, clusters, strict=True)
        )

    def get(self, about: tuple[object, ...], names: tuple[str, ...], ask: Callable[[], Array]) -> Array:
        """By cluster, as `ask` finds it out; the same objects get the same answer."""
        key = (*map(id, about), names)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= MOST:
                self._known.clear()
            known = self._known[key] = (about, ask())  # kept with the objects: no other may get their identity
        return known[1]


MOST: Final = 1000
"""Answers that are remembered."""


@dataclass(frozen=True, slots=True)
class Terrain:
    """Of members in the order of their names. What it remembers of earlier questions changes no answer."""

    ground: Ground
    ways: Ways
    verdicts: Verdicts
    floors: Floors


def by_cluster(offers: Iterable[OfferView]) -> dict[str, OfferView]:
    """The first offer of each cluster by name: two that contradict each other are not mixed."""
    found: dict[str, OfferView] = {}
    for each in offers:
        if not each.deleting:
            found.setdefault(each.cluster, each)
    return found


def terrain_of(
    clusters: Sequence[ClusterView],
    published: Sequence[Rows | None],
    *,
    offers: Mapping[str, OfferView],
    rates: Mapping[str, float],
    before: Terrain | None = None,
) -> Terrain:
    """What of `before` is still so is used again."""
    ground = before.ground if before is not None and before.ground.is_of(published) else None
    names = [each.name for each in clusters]
    ways = before.ways if before is not None and before.ways.is_of(names, offers, rates) else None
    verdicts = before.verdicts if before is not None and before.verdicts.is_of(clusters) else None
    if before is not None and ground is not None and ways is not None and verdicts is not None:
        return before
    return Terrain(
        ground or Ground(published, before=before.ground if before is not None else None),
        ways or Ways(names, offers, rates=rates),
        verdicts or Verdicts(clusters),
        before.floors if before is not None else Floors(),
    )
