"""Where one object goes: filter, terms in order, rank by profile, spread, divide. The one answer that round, review and explain
share; who asks brings the questions (what is left in each cluster) and takes what was chosen from there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from policies import estimates, parts, scores, spreading, terms, verdicts
from policies.estimates import Demand, Option
from policies.filters import AWAITED, Question
from policies.fit import Room
from policies.offers import OfferView
from policies.parts import Minima, Part
from policies.placements import Affinity, PolicyView
from policies.profiles import Profile, Ranked, Standing, ranked
from policies.shapes import Gang
from policies.verdicts import Considered, Verdict, Wake

Judge = Callable[[Question], Verdict]

UNPAID: Final = Verdict("NoOffer", "its nodes may not be paid for as the profile says", (Wake.CLUSTER, Wake.POLICY))
"""Of a cluster that passed, and whose nodes may not be paid for in any way that the profile allows."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked for beside the questions.

    `observed` is the term under which it runs, where it does. `assigned` are its pods by cluster and task, `fresh` forgets them
    (a rebalance was asked for). `units` are pods of a task that stay together.
    """

    gang: Gang
    policy: PolicyView
    profile: Profile
    demand: Demand
    uid: str = ""
    observed: str = ""
    assigned: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    fresh: bool = False
    minima: Minima = Minima.ALONE
    units: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Market:
    """What is known of money and time: offers by cluster, exchange rates, and seconds in the queue of each member."""

    offers: Mapping[str, OfferView] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=dict)
    waits: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Chosen:
    """Parts by name of the cluster (one for what is not divided), the term they were found under, and for each the way to run
    it that the profile likes best. Without parts `text` says why in a sentence, `told` for each cluster of the last term."""

    parts: tuple[Part, ...] = ()
    term: str = ""
    options: Mapping[str, Option] = field(default_factory=dict)
    told: tuple[Considered, ...] = ()
    wakes: tuple[Wake, ...] = ()
    text: str = ""
    beyond: Mapping[str, int] = field(default_factory=dict)
    fitting: int = 0
    """Clusters of that term that passed."""
    unsure: bool = False
    """Of a chosen one only the member can tell, or it has no room for all of its part."""


Fits = Callable[[Question, OfferView | None], frozenset[str]]
"""The classes of a cluster's offer on whose nodes a gang fits."""


def choose(questions: Sequence[Question], *, wish: Wish, market: Market, judge: Judge, fits: Fits | None = None) -> Chosen:
    """The best there is under the first term that has one. Questions come without affinity and stay as they were.

    `fits` may remember what `classes_that_fit` says (`Remembered`): many Jobs of a round are alike.
    """
    known = sorted(questions, key=lambda each: each.cluster.name)
    affinities: Sequence[Affinity | None] = wish.policy.affinities or (None,)
    order = terms.attempts([each for each in affinities if each], observed=wish.observed, placed=bool(wish.assigned)) or (0,)
    last = Chosen(text="no cluster is registered", wakes=(Wake.CLUSTER,))
    wakes: set[Wake] = {Wake.CLUSTER}
    for at in order if known else ():
        last = _under(affinities[at], known, wish=wish, market=market, judge=judge, fits=fits or classes_that_fit)
        if last.parts:
            return last
        wakes |= set(last.wakes)
    return dataclasses.replace(last, wakes=tuple(sorted(wakes)))


def _under(
    affinity: Affinity | None, known: Sequence[Question], *, wish: Wish, market: Market, judge: Judge, fits: Fits
) -> Chosen:
    standings: dict[str, Standing] = {}
    passed: dict[str, Question] = {}
    told: dict[str, Considered] = {}
    wakes: set[Wake] = set()
    for each in known:
        question = dataclasses.replace(each, affinity=affinity)
        name, verdict = question.cluster.name, judge(question)
        wakes |= set(verdict.wakes)
        if not verdict.passes:
            told[name] = Considered(cluster=name, code=verdict.code, text=verdicts.shortened(verdict.text))
            continue
        standing = _standing(question, verdict, wish=wish, market=market, fits=fits)
        if not standing.options:
            told[name] = Considered(cluster=name, code=UNPAID.code, text=UNPAID.text)
            wakes |= set(UNPAID.wakes)
            continue
        told[name] = Considered(cluster=name, text=verdicts.shortened(verdict.text))
        standings[name], passed[name] = standing, question
    tiers = {name: terms.tier(affinity, question.cluster) or 0 for name, question in passed.items()}
    order = _in_order(standings, tiers, profile=wish.profile)
    for each_ranked in order:
        told[each_ranked.cluster] = _scored(told[each_ranked.cluster], each_ranked)
    # While a member that could tell is being asked, what nobody can tell is not tried elsewhere (protocol.md 4).
    guess = any(each.code == AWAITED for each in told.values()) and all(each.unsure for each in standings.values())
    if order and not guess:
        found = divided(order, passed, tiers, wish=wish)
    else:
        found = Chosen(text=nobody(verdicts.best(told.values())[0], of=len(told)))
    return dataclasses.replace(
        found,
        fitting=len(order),
        unsure=any(part.cluster in found.beyond or standings[part.cluster].unsure for part in found.parts),
        term=affinity.name if affinity else "",
        options={each.cluster: each.option for each in order if any(part.cluster == each.cluster for part in found.parts)},
        told=tuple(told[name] for name in sorted(told)),
        wakes=tuple(sorted(wakes | ({Wake.CAPACITY} if order and not found.parts else set()))),
    )


def _scored(considered: Considered, by: Ranked) -> Considered:
    """With its scores, for people."""
    return Considered(cluster=considered.cluster, text=considered.text, scores=dict(by.scores), total=round(by.total))


def nobody(best: Iterable[Considered], *, of: int) -> str:
    """That none of so many clusters fits, and what the best of them lack."""
    return f"0 of {of} clusters fit: " + "; ".join(f"{each.cluster}: {each.text}" for each in best)


def _standing(question: Question, verdict: Verdict, *, wish: Wish, market: Market, fits: Fits) -> Standing:
    name = question.cluster.name
    offer = market.offers.get(name)
    site = estimates.Site(question.cluster, offer, fits(question, offer), market.waits.get(name, 0.0))
    ways = estimates.options(wish.demand, site, offers=market.offers, rates=market.rates, markets=wish.profile.markets)
    alone = {rule: float(score(question)) for rule, score in scores.SCORES.items()}
    return Standing(
        cluster=name,
        options=ways,
        scores={**alone, "locality": estimates.locality(wish.demand.reads, question.cluster)},
        partial=question.packing is not None and not question.packing.whole,
        unsure=not verdict.sure,
        penalty=question.penalty,
    )


def classes_that_fit(question: Question, offer: OfferView | None) -> frozenset[str]:
    """The classes of a cluster's offer on whose nodes the gang's minimum fits by what the member has published. A class without
    labels is all of the cluster, where it is known to fit."""
    if offer is None:
        return frozenset()
    found = set()
    for each in offer.classes:
        if not each.labels:
            found.add(each.name)
        elif question.capacity is not None:
            rows = estimates.class_rows(question.capacity.rows, each)
            if Room(rows).take_all(question.gang.least()) is None:
                found.add(each.name)
    return frozenset(found)


class Remembered:
    """`classes_that_fit` for a round: answered once for equal gangs as long as neither capacity nor offer changes."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], frozenset[str]] = {}

    def __call__(self, question: Question, offer: OfferView | None) -> frozenset[str]:
        """As `classes_that_fit`."""
        published = question.capacity
        version = (published.uid, published.version) if published is not None else None
        key = (question.gang, question.cluster.name, version, (offer.uid, offer.version, offer.name) if offer else None)
        if key not in self._known:
            self._known[key] = classes_that_fit(question, offer)
        return self._known[key]


def _in_order(standings: Mapping[str, Standing], tiers: Mapping[str, int], *, profile: Profile) -> list[Ranked]:
    """By tier, then by profile; scores are over all of them, so that one tier does not look better for being alone."""
    order = ranked(standings.values(), profile=profile)
    return sorted(order, key=lambda each: tiers[each.cluster])


# --- spread and division ---------------------------------------------------------------------------------------------
def divided(order: Sequence[Ranked], passed: Mapping[str, Question], tiers: Mapping[str, int], *, wish: Wish) -> Chosen:
    """Parts over clusters that passed, the best first; of what is not divided, all of it in the first."""
    rule, spread = wish.policy.replicas, wish.policy.spread
    if rule.strategy is None:
        wanted = max((each.least for each in spread), default=1)
        if wanted > 1:
            return Chosen(text=f"the policy wants {wanted} groups of clusters and does not say how replicas are divided")
        return _whole(order[0].cluster, wish)
    selection = spreading.select(
        [_candidate(place, each, passed[each.cluster], tiers, wish=wish) for place, each in enumerate(order)],
        spread,
        strategy=rule.strategy,
        replicas=wish.gang.replicas,
    )
    if not selection.clusters:
        return Chosen(text=selection.text)
    sites = [
        parts.Site(
            name,
            passed[name].room,
            assigned=wish.assigned.get(name, {}),
            weight=terms.weight(rule.weights, passed[name].cluster),
            tier=tiers[name],
        )
        for name in selection.clusters
    ]
    divided = parts.divide_gang(
        wish.gang,
        sites,
        strategy=rule.strategy,
        minima=wish.minima,
        uid=wish.uid,
        fresh=wish.fresh,
        units=wish.units,
    )
    return Chosen(parts=divided.parts, text=divided.text, beyond=divided.beyond)


def _whole(cluster: str, wish: Wish) -> Chosen:
    """All of it in one cluster."""
    tasks = tuple(parts.TaskPart(each.name, each.replicas, each.minimum, 0, each.replicas) for each in wish.gang.tasks)
    return Chosen(parts=(Part(cluster, tasks, wish.gang.minimum),))


def _candidate(place: int, each: Ranked, question: Question, tiers: Mapping[str, int], *, wish: Wish) -> spreading.Candidate:
    """In the order of the ranking, which knows what a bare score does not."""
    return spreading.Candidate(
        name=each.cluster,
        available=_available(wish.gang, question.room) + sum(wish.assigned.get(each.cluster, {}).values()),
        score=-float(place),
        tier=tiers[each.cluster],
        groups=spreading.groups_of(question.cluster, wish.policy.spread),
    )


def _available(gang: Gang, room: Room | None) -> int:
    """Pods that find room: all there is room for where there is one task, else of each task at most what it has."""
    if room is None:
        return 0
    if len(gang.tasks) == 1:
        return room.places(gang.tasks[0].shape)
    trial = room.copy()
    return sum(trial.take(task.shape, pods=task.replicas) for task in gang.tasks)
