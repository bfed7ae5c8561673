"""Which cluster a profile chooses, with brute force as the oracle for cost-first and efficiency-first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from policies import scores
from policies.estimates import Demand, Market, Option, Read, Site, options
from policies.filters import Question
from policies.fit import Room
from policies.offers import OfferView
from policies.placements import PolicyView
from policies.profiles import BUILT_IN, DEFAULT, Profile, Ranked, Standing, profile_of, project_profile, ranked
from tests.policies.build import cluster, gang, job, nodes, shape
from tests.policies.offering import by_cluster, demand, flat, offer, site

CHEAP, FAST, BALANCED = BUILT_IN["cost-first"], BUILT_IN["efficiency-first"], BUILT_IN["balanced"]


def choice(profile: Profile, work: Demand, *sites: Site, **scored: Any) -> Ranked:
    known = {each.cluster.name: each.offer for each in sites if each.offer is not None}
    found = {each.cluster.name: options(work, each, offers=known, markets=profile.markets) for each in sites}
    standings = [Standing(name, ways, **scored.get(name, {})) for name, ways in found.items()]
    return ranked(standings, profile=profile)[0]


# --- stories ---------------------------------------------------------------------------------------------------------
def test_cost_first_takes_the_slow_cheap_cluster_and_efficiency_first_the_fast_dear_one() -> None:
    slow, fast = flat("slow", cpu=1), flat("fast", cpu=6, throughput=4)
    sites = (site(slow), site(fast))
    cheap, quick = choice(CHEAP, demand(4), *sites), choice(FAST, demand(4), *sites)
    assert (cheap.cluster, cheap.option.money, cheap.option.finish) == ("slow", 8.0, 4 * 3600)
    assert (quick.cluster, quick.option.money, quick.option.finish) == ("fast", 12.0, 3600)


def test_a_dear_fast_cluster_may_be_the_cheaper_one() -> None:
    sites = (site(flat("slow", cpu=1)), site(flat("fast", cpu=3, throughput=4)))
    assert choice(CHEAP, demand(4), *sites).cluster == "fast"


def spot_offer(interruptions: str) -> OfferView:
    kind = {"name": "all", "prices": {"cpu": 1}, "spot": {"prices": {"cpu": "0.3"}, "interruptionsPerHour": interruptions}}
    pool = {"name": "p", "nodeClass": "all", "size": {"cpu": 8, "pods": 110}, "max": 9, "provisionTime": "1m"}
    return offer("cloud", classes=[kind], pools=[pool])


@pytest.mark.parametrize(("interruptions", "market"), [("0.05", Market.SPOT), ("0.9", Market.ON_DEMAND)])
def test_spot_is_cheaper_until_it_is_interrupted_too_often(interruptions: str, market: Market) -> None:
    cloud = site(spot_offer(interruptions), fits=False)
    assert choice(CHEAP, demand(2), cloud).option.market is market


def test_a_profile_may_want_one_market_only() -> None:
    cloud = site(spot_offer("0.05"), fits=False)
    assert choice(Profile("careful", {"cost": 1}, (Market.ON_DEMAND,)), demand(2), cloud).option.market is Market.ON_DEMAND


def test_who_is_in_a_hurry_does_not_wait_for_a_queue_or_a_pool() -> None:
    waiting, free = site(flat("busy", cpu=1, throughput=2), wait=7200), site(flat("free", cpu=1))
    assert choice(FAST, demand(2), waiting, free).cluster == "free"
    assert choice(FAST, demand(20), waiting, free).cluster == "busy"


def test_a_job_goes_to_its_data_when_moving_it_costs_more_than_cheaper_nodes_save() -> None:
    route = [{"region": "us", "pricePerGiB": "0.1", "bandwidth": "1Gi"}]
    home, away = flat("home", cpu=2, egress=route), flat("away", cpu=1)
    sites = (site(home, region="eu"), site(away, region="us"))
    large, small = (Read("d", gib << 30, "home", "eu") for gib in (100, 1))
    assert choice(CHEAP, demand(1, reads=(large,)), *sites).cluster == "home"
    assert choice(CHEAP, demand(1, reads=(small,)), *sites).cluster == "away"


def test_who_does_not_say_its_price_does_not_win_by_it() -> None:
    sites = (site(flat("dear", cpu=99)), site(None, name="silent"), site(flat("none"), name="none"))
    best = choice(CHEAP, demand(), *sites)
    assert best.cluster == "dear" and best.scores == {"cost": 100}


def test_room_penalty_and_certainty_go_as_before() -> None:
    sites = (site(flat("a", cpu=1)), site(flat("b", cpu=1)))
    assert choice(CHEAP, demand(), *sites).cluster == "a"
    assert choice(CHEAP, demand(), *sites, a={"penalty": 0.25}).cluster == "b"
    assert choice(CHEAP, demand(), *sites, a={"partial": True}).cluster == "b"
    assert choice(CHEAP, demand(), *sites, a={"unsure": True}).cluster == "b"
    assert choice(CHEAP, demand(), *sites, b={"scores": {"stability": 9.0}}).cluster == "b"


def test_balanced_weighs_room_before_money() -> None:
    sites = (site(flat("full", cpu=1)), site(flat("empty", cpu="1.5")))
    crowded = {"full": {"scores": {"balance": 5.0}}, "empty": {"scores": {"balance": 95.0}}}
    assert choice(BALANCED, demand(), *sites, **crowded).cluster == "empty"
    assert choice(CHEAP, demand(), *sites, **crowded).cluster == "full"


@pytest.mark.parametrize("rule", ["cost", "efficiency", "balance", "packing", "locality", "stability"])
def test_turning_a_rule_off_changes_the_choice(rule: str) -> None:
    """Cluster b is better in this rule alone, a in a weaker one."""
    other = "stability" if rule != "stability" else "packing"
    judged = {"a": {other: 90.0, rule: 10.0}, "b": {other: 10.0, rule: 90.0}}
    figures = {"a": (9.0, 9.0), "b": (9.0, 9.0)}
    if rule == "cost":
        figures = {"a": (9.0, 9.0), "b": (1.0, 9.0)}
    if rule == "efficiency":
        figures = {"a": (9.0, 9.0), "b": (9.0, 1.0)}
    standings = [
        Standing(name, (Option(name, money=figures[name][0], finish=figures[name][1]),), scores=judged[name]) for name in "ab"
    ]
    assert ranked(standings, profile=Profile("on", {rule: 2, other: 1}))[0].cluster == "b"
    assert ranked(standings, profile=Profile("off", {other: 1}))[0].cluster == "a"


def test_packing_and_balance_want_opposite_rooms() -> None:
    work = gang(("work", 2, shape()))

    def question(cores: str) -> Question:
        room = Room(nodes((1, cores)))
        return Question(job=job(of=work), gang=work, policy=PolicyView("", "p"), affinity=None, cluster=cluster("c"), room=room)

    tight, wide = question("4"), question("40")
    assert scores.balance(tight) < scores.balance(wide) and scores.packing(tight) > scores.packing(wide)
    assert scores.SCORES["packing"] is scores.packing


# --- profiles --------------------------------------------------------------------------------------------------------
def read(name: str = "mine", **spec: Any) -> Profile:
    return project_profile(msgspec.json.encode({"metadata": {"name": name}, "spec": spec}))


def test_own_profiles_are_read_and_go_before_those_that_come_along() -> None:
    mine = read("cost-first", weights={"cost": 3, "stability": 1, "packing": 0}, market="Spot")
    assert (mine.weights, mine.markets, mine.problems) == ({"cost": 3, "stability": 1}, (Market.SPOT,), ())
    assert profile_of("cost-first", own={"cost-first": mine}) == (mine, "")
    assert profile_of("efficiency-first", own={}) == (FAST, "")
    assert profile_of("", own={}) == (DEFAULT, "")
    assert profile_of("cheapest", own={}) == (DEFAULT, "there is no PlacementProfile cheapest: balanced is used")


@pytest.mark.parametrize(
    ("weights", "fields"),
    [
        ({"beauty": 3, "cost": 1}, ["spec.weights.beauty"]),
        ({"cost": -1, "balance": 1}, ["spec.weights.cost"]),
        ({"cost": 0}, ["spec.weights"]),
        ({}, ["spec.weights"]),
        ({"cost": 1.5}, ["spec.weights.cost", "spec.weights"]),
    ],
)
def test_weights_that_mean_nothing_are_told_and_do_not_count(weights: dict[str, Any], fields: list[str]) -> None:
    made = read(weights=weights)
    assert [each.field for each in made.problems] == fields
    assert made.weights and all(weight > 0 for weight in made.weights.values())


# --- brute force -----------------------------------------------------------------------------------------------------
Described = tuple[int, int, int, int, int, bool]
described = some.tuples(
    some.integers(1, 20),  # price of a core, tenths
    some.integers(1, 8),  # throughput, halves
    some.integers(0, 3),  # queue wait, hours
    some.integers(0, 20),  # price of a core as spot, tenths; 0: none
    some.integers(0, 8),  # interruptions of a pod in 10 hours
    some.booleans(),  # has room now
)


def offered(name: str, of: Described) -> OfferView:
    price, speed, _, spot, rate, _ = of
    kind: dict[str, Any] = {"name": "all", "prices": {"cpu": f"{price * 100}m"}, "throughput": f"{speed * 500}m"}
    if spot:
        kind["spot"] = {"prices": {"cpu": f"{spot * 100}m"}, "interruptionsPerHour": f"{rate * 100}m"}
    pool = {"name": "p", "nodeClass": "all", "size": {"cpu": 2, "pods": 9}, "max": 4, "provisionTime": "30m"}
    return offer(name, classes=[kind], pools=[pool])


def by_hand(of: Described, hours: int) -> list[tuple[float, float]]:
    """Money and seconds of every way to run two cores, written out anew."""
    price, speed, wait, spot, rate, room = of
    work = hours / (speed / 2)
    ways = []
    if room:
        ways.append((2 * price / 10 * work, wait * 3600 + work * 3600))
    ways.append((2 * price / 10 * work, 1800 + work * 3600))
    if spot:
        risk = 2 * rate / 10
        longer = (math.exp(risk * work) - 1) / risk if risk else work
        ways.append((2 * spot / 10 * longer, 1800 + longer * 3600))
    return ways


@given(some.lists(described, min_size=1, max_size=5), some.integers(1, 12))
@settings(max_examples=80, deadline=None)
def test_cost_first_is_the_cheapest_of_all_ways_and_efficiency_first_the_earliest(
    clusters: Sequence[Described], hours: int
) -> None:
    offers = [offered(f"c{at}", of) for at, of in enumerate(clusters)]
    sites = [site(each, fits=of[-1], wait=of[2] * 3600.0) for each, of in zip(offers, clusters, strict=True)]
    ways = [way for of in clusters for way in by_hand(of, hours)]
    cheap, quick = choice(CHEAP, demand(hours), *sites), choice(FAST, demand(hours), *sites)
    assert cheap.option.money == pytest.approx(min(money for money, _ in ways))
    assert quick.option.finish == pytest.approx(min(finish for _, finish in ways))
    assert set(by_cluster(*offers)) >= {cheap.cluster, quick.cluster}


@given(some.lists(described, min_size=2, max_size=5), some.integers(1, 12), some.sampled_from([CHEAP, FAST, BALANCED]))
@settings(max_examples=30, deadline=None)
def test_the_same_question_has_the_same_answer_in_any_order(
    clusters: Sequence[Described], hours: int, profile: Profile
) -> None:
    sites = [site(offered(f"c{at}", of), fits=of[-1], wait=of[2] * 3600.0) for at, of in enumerate(clusters)]
    assert choice(profile, demand(hours), *sites) == choice(profile, demand(hours), *reversed(sites))
