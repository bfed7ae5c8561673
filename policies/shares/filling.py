"""Weighted water-filling with floors and ceilings: max-min fairness, one resource at a time, exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from apis.vectors import ResourceVector


@dataclass(frozen=True, slots=True)
class Claim:
    """What one queue wants. `guarantee` is its whether it wants it or not; a resource missing in `capability` is unlimited, one
    that stands there with 0 is not to be had."""

    name: str
    weight: int
    request: ResourceVector
    guarantee: ResourceVector = ResourceVector()
    capability: Mapping[str, int] | None = None


def fill(total: ResourceVector, claims: Sequence[Claim]) -> Mapping[str, ResourceVector]:
    """What each queue deserves of `total`: by weight, at least its guarantee, at most what it asks for and may have.

    Guarantees that exceed the total together shrink in proportion. Whole milli units, so that up to one unit a queue may stay
    with nobody.
    """
    amounts: dict[str, dict[str, int]] = {claim.name: {} for claim in claims}
    for resource, available in total.items():
        if available > 0:
            for claim, amount in zip(claims, _one(available, _bounds(resource, claims)), strict=True):
                amounts[claim.name][resource] = amount
    return {name: ResourceVector(found) for name, found in amounts.items()}


@dataclass(frozen=True, slots=True)
class _Bound:
    weight: int
    low: int
    high: int


def _bounds(resource: str, claims: Sequence[Claim]) -> list[_Bound]:
    bounds = []
    for claim in claims:
        ceiling = claim.capability.get(resource) if claim.capability is not None and resource in claim.capability else None
        low = max(claim.guarantee.get(resource), 0)
        high = max(claim.request.get(resource), low)
        if ceiling is not None:
            low, high = min(low, ceiling), min(high, ceiling)
        bounds.append(_Bound(max(claim.weight, 1), low, high))
    return bounds


def _one(available: int, bounds: Sequence[_Bound]) -> list[int]:
    floors = sum(each.low for each in bounds)
    if floors >= available:
        return [each.low * available // floors if floors else 0 for each in bounds]
    if sum(each.high for each in bounds) <= available:
        return [each.high for each in bounds]
    level = _level(available, bounds, floors)
    return [min(max(int(each.weight * level), each.low), each.high) for each in bounds]


def _level(available: int, bounds: Sequence[_Bound], floors: int) -> Fraction:
    """The water level: how much a queue of weight 1 gets. It rises from bend to bend, where one queue starts or stops to take
    more; between two bends the sum grows by the weights of those that take."""
    bends = sorted(
        [(Fraction(each.low, each.weight), each.weight) for each in bounds if each.high > each.low]
        + [(Fraction(each.high, each.weight), -each.weight) for each in bounds if each.high > each.low]
    )
    level, slope, given = Fraction(0), 0, Fraction(floors)
    for at, change in bends:
        if slope and given + slope * (at - level) >= available:
            break
        given += slope * (at - level)
        level, slope = at, slope + change
    return level + (available - given) / slope if slope else level
