"""What counts how much when a cluster is chosen: placement profiles, and the ranking by them (design.md 4)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from policies import scores
from policies.estimates import Market, Option
from policies.views import Meta, Problem

COST, EFFICIENCY = "cost", "efficiency"
RULES: Final = (COST, EFFICIENCY, "balance", "packing", "locality", "stability")
"""Rules that come with this project; cost and efficiency compare all options, the others judge one cluster."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Weights of rules, and how nodes may be paid for."""

    name: str
    weights: Mapping[str, int]
    markets: tuple[Market, ...] = tuple(Market)
    problems: tuple[Problem, ...] = ()
    namespace: str = ""
    uid: str = ""
    version: str = ""


BUILT_IN: Final[Mapping[str, Profile]] = {
    each.name: each
    for each in (
        Profile("cost-first", {COST: 1}),
        Profile("efficiency-first", {EFFICIENCY: 1}),
        Profile("balanced", {"balance": 4, "stability": 2, COST: 1, EFFICIENCY: 1, "locality": 1}),
        Profile("data-first", {"locality": 4, COST: 2, EFFICIENCY: 2, "balance": 1, "stability": 1}),
    )
}
DEFAULT: Final = BUILT_IN["balanced"]


DATA_FIRST: Final = BUILT_IN["data-first"]
"""Of steps of flows that read what others left, where nobody named a profile."""


def profile_of(name: str, *, own: Mapping[str, Profile]) -> tuple[Profile, str]:
    """The profile of that name, own ones before built-in ones, and what is wrong: a Job does not wait for a name that nobody
    knows, it is placed as if it had named none."""
    if not name:
        return own.get(DEFAULT.name, DEFAULT), ""
    known = own.get(name) or BUILT_IN.get(name)
    if known is None:
        return own.get(DEFAULT.name, DEFAULT), f"there is no PlacementProfile {name}: {DEFAULT.name} is used"
    return known, ""


@dataclass(frozen=True, slots=True)
class Standing:
    """One cluster that passed the filters: scores 0..100 of the rules that judge it alone, and the ways to run there.

    `partial`: only its minimum fits now; `unsure`: only the member can tell. `penalty` is 0 (none) to 1.
    """

    cluster: str
    options: tuple[Option, ...]
    scores: Mapping[str, float] = field(default_factory=dict)
    partial: bool = False
    unsure: bool = False
    penalty: float = 0.0


@dataclass(frozen=True, slots=True)
class Ranked:
    """A cluster with its best option; `scores` are whole numbers, for people, `total` is exact."""

    cluster: str
    option: Option
    scores: Mapping[str, int]
    total: float


def ranked(standings: Iterable[Standing], *, profile: Profile) -> list[Ranked]:
    """The clusters, the best first.

    Where all of the Job fits goes before where only its minimum does, a sure fit before an unsure one; then the weighted mean
    of the scores less the penalty's share; then the sum of all scores, less money, an earlier end, and the name. Cost and
    efficiency are the best option's share of this one's (50: twice as dear, twice as late): their order is that of money and
    time.
    """
    known = sorted(standings, key=lambda each: each.cluster)
    everything = [option for each in known for option in each.options]
    least = min((each.money for each in everything if each.money is not None), default=0.0)
    first = min((each.finish for each in everything if each.finish is not None), default=0.0)
    found = []
    for standing in known:
        judged = [_judged(standing, option, profile=profile, least=least, first=first) for option in standing.options]
        if judged:
            key, best = min(judged, key=lambda pair: pair[0])
            found.append(((standing.partial, standing.unsure, *key), best))
    return [best for _, best in sorted(found, key=lambda pair: pair[0])]


Key = tuple[float, float, float, float, str, str, str, str]


def _judged(standing: Standing, option: Option, *, profile: Profile, least: float, first: float) -> tuple[Key, Ranked]:
    scores = {**standing.scores, COST: _share(least, option.money), EFFICIENCY: _share(first, option.finish)}
    weighed = {name: scores.get(name, 0.0) for name in sorted(profile.weights)}
    mean = sum(weighed[name] * profile.weights[name] for name in weighed) / (sum(profile.weights.values()) or 1)
    total = mean * (1 - standing.penalty)
    money = option.money if option.money is not None else float("inf")
    finish = option.finish if option.finish is not None else float("inf")
    whole = {name: round(value) for name, value in weighed.items()}
    key = (-total, -sum(scores.values()), money, finish, standing.cluster, option.node_class, option.market, option.pool)
    return key, Ranked(standing.cluster, option, whole, total)


def _share(best: float, this: float | None) -> float:
    """0..100; 0 for what nobody knows."""
    if this is None:
        return 0.0
    return 100.0 if this <= best else 100.0 * best / this


# --- reading ---------------------------------------------------------------------------------------------------------
class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    weights: dict[str, Any] | None = None
    market: str | None = None


class _Profile(msgspec.Struct, frozen=True, rename="camel"):
    metadata: Meta = Meta()
    spec: _Spec = _Spec()


_decoder = msgspec.json.Decoder(_Profile)


def project_profile(document: bytes, *, rules: Collection[str] = ()) -> Profile:
    """A PlacementProfile. A weight of a rule that is not installed, or that is no whole number from 0 on, does not count; where
    none is left the built-in profile `balanced` does."""
    read = _decoder.decode(document)
    rules = rules or (*RULES, *(name for name in scores.SCORES if name not in RULES))
    weights, wrong = {}, []
    for name, weight in sorted((read.spec.weights or {}).items()):
        if name not in rules:
            wrong.append(Problem(f"spec.weights.{name}", f"there is no such rule, there are {', '.join(rules)}"))
        elif not isinstance(weight, int) or isinstance(weight, bool) or weight < 0:
            wrong.append(Problem(f"spec.weights.{name}", f"{weight!r} is no whole number from 0 on"))
        elif weight:
            weights[name] = weight
    if not weights:
        wrong.append(Problem("spec.weights", f"no rule has a weight: those of {DEFAULT.name} are used"))
    meta = read.metadata
    return Profile(
        name=meta.name,
        weights=weights or DEFAULT.weights,
        markets=_markets(read.spec.market),
        problems=tuple(wrong),
        uid=meta.uid,
        version=meta.resource_version,
    )


def _markets(name: str | None) -> tuple[Market, ...]:
    chosen: Sequence[Market] = [each for each in Market if each == name]
    return tuple(chosen or Market)
