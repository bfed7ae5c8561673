"""Spread constraints: examples, and brute force as the oracle."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from policies import spreading
from policies.division import Strategy
from policies.placements import SpreadRule
from policies.spreading import Candidate, groups_of, select
from tests.policies.build import cluster

DYNAMIC, DUPLICATED, STATIC = Strategy.DYNAMIC, Strategy.DUPLICATED, Strategy.STATIC
CLUSTER = SpreadRule("cluster")


def spot(name: str, available: int, region: str = "", score: float = 0.0, **groups: str) -> Candidate:
    values = {"region": (region,) if region else (), **{key: tuple(value.split()) for key, value in groups.items()}}
    return Candidate(name, available, score, groups=values)


def chosen(candidates: Sequence[Candidate], *rules: SpreadRule, replicas: int = 0, strategy: Strategy = DYNAMIC) -> str:
    return " ".join(select(candidates, rules, strategy=strategy, replicas=replicas).clusters)


THREE = [spot("a", 6), spot("b", 12), spot("c", 18)]


def test_without_constraints_or_with_static_weights_all_candidates_are_chosen_best_first() -> None:
    assert chosen(THREE) == "c b a"
    assert chosen(THREE, SpreadRule("cluster", 1, 1), strategy=STATIC) == "c b a"
    assert chosen([spot("a", 1, score=9), *THREE[1:]]) == "a c b"


def test_the_most_clusters_are_taken_and_too_few_are_told() -> None:
    assert chosen(THREE, SpreadRule("cluster", 1, 2)) == "c b"
    assert chosen(THREE, CLUSTER) == "c b a"
    few = select(THREE, [SpreadRule("cluster", 4)], strategy=DYNAMIC, replicas=1)
    assert (few.clusters, few.text) == ((), "3 clusters fit, at least 4 are needed")


def test_a_cluster_without_room_makes_way_for_a_roomier_one_from_the_last_upward() -> None:
    spots = [spot("a", 5, score=9), spot("b", 1, score=8), spot("c", 4), spot("d", 9)]
    assert chosen(spots, SpreadRule("cluster", 1, 2), replicas=6) == "a b"
    assert chosen(spots, SpreadRule("cluster", 1, 2), replicas=9) == "a d"
    short = select(spots, [SpreadRule("cluster", 1, 2)], strategy=DYNAMIC, replicas=15)
    assert short.text == "2 clusters have room for 14 of 15 replicas"


def test_copies_need_no_room_together() -> None:
    assert chosen(THREE, SpreadRule("cluster", 1, 2), replicas=99, strategy=DUPLICATED) == "c b"


REGIONS = [
    spot("a", 9, "eu"),
    spot("b", 8, "eu"),
    spot("c", 7, "eu"),
    spot("d", 6, "us"),
    spot("e", 5, "us"),
    spot("f", 4, "as"),
]


@pytest.mark.parametrize(
    ("rules", "replicas", "outcome"),
    [
        ((CLUSTER, SpreadRule("region", 2, 2)), 0, "a b c d e"),
        ((SpreadRule("cluster", 1, 3), SpreadRule("region", 2, 2)), 0, "a b d"),
        ((SpreadRule("cluster", 1, 3), SpreadRule("region", 3)), 0, "a d f"),
        ((SpreadRule("cluster", 1, 2), SpreadRule("region", 1, 1)), 0, "a b"),
        ((SpreadRule("cluster", 1, 2), SpreadRule("region", 2)), 13, "a d"),
        ((SpreadRule("cluster", 3), SpreadRule("region", 1, 1)), 24, "a b c"),
        ((SpreadRule("cluster", 4), SpreadRule("region", 1, 1)), 0, ""),
        ((CLUSTER, SpreadRule("region", 4)), 0, ""),
        ((CLUSTER, SpreadRule("region", 1, 1)), 25, ""),
    ],
)
def test_regions_are_spread_over_within_bounds_and_room(rules: Sequence[SpreadRule], replicas: int, outcome: str) -> None:
    assert chosen(REGIONS, *rules, replicas=replicas) == outcome


def test_what_cannot_be_held_is_told_with_its_bounds() -> None:
    told = select(REGIONS, [CLUSTER, SpreadRule("region", 4)], strategy=DYNAMIC, replicas=3).text
    bounds = "cluster 1 to any, region 4 to any"
    assert told == f"no choice among 6 clusters holds all spread constraints ({bounds}) with room for 3 replicas"
    assert select([spot("a", 1)], [CLUSTER, SpreadRule("region")], strategy=DYNAMIC, replicas=1).text.endswith("has a region")
    assert select([], [CLUSTER], strategy=DYNAMIC, replicas=1).text == "no cluster passed the filters"


def test_zones_labels_and_providers_are_spread_over_alike() -> None:
    spots = [
        spot("a", 1, zone="z1 z2", provider="aws", rack="r1"),
        spot("b", 1, zone="z3", provider="aws", rack="r2"),
        spot("c", 1, zone="z3", provider="gcp", rack="r3"),
    ]
    assert chosen(spots, CLUSTER, SpreadRule("zone", 3, 3)) == "a b c"
    assert chosen(spots, SpreadRule("cluster", 1, 1), SpreadRule("zone", 2)) == "a"
    assert chosen(spots, SpreadRule("cluster", 1, 2), SpreadRule("provider", 2)) == "a c"
    assert chosen(spots, CLUSTER, SpreadRule("rack", 1, 2, label=True)) == "a b"


def test_groups_of_a_cluster_are_its_properties_and_labels() -> None:
    rules = [CLUSTER, SpreadRule("zone"), SpreadRule("provider"), SpreadRule("rack", label=True), SpreadRule("row", label=True)]
    east = cluster("east", zones=("a", "b"), labels={"rack": "r"})
    assert groups_of(east, rules) == {"zone": ("a", "b"), "provider": (), "rack": ("r",), "row": ()}


def test_a_thousand_clusters_are_chosen_from_within_the_steps_of_a_search() -> None:
    many = [spot(f"c{at:04}", 10 + at % 7, f"r{at % 20}") for at in range(1000)]
    found = select(many, [SpreadRule("cluster", 5, 40), SpreadRule("region", 10, 12)], strategy=DYNAMIC, replicas=500)
    assert len(found.clusters) == 40


# --- laws ------------------------------------------------------------------------------------------------------------
rule = some.tuples(some.integers(1, 3), some.integers(0, 3)).map(lambda pair: (pair[0], pair[1] and max(pair)))
spots_strategy = some.lists(
    some.builds(
        lambda name, available, region, zones, score: spot(name, available, region, score, zone=zones),
        some.sampled_from("abcdef"),
        some.integers(0, 6),
        some.sampled_from(["", "eu", "us"]),
        some.sampled_from(["", "z1", "z2", "z1 z2", "z3"]),
        some.sampled_from([0.0, 1.0]),
    ),
    max_size=6,
    unique_by=lambda each: each.name,
)


def holds(some_set: Sequence[Candidate], rules: Sequence[SpreadRule], *, replicas: int) -> bool:
    """The definition of a choice."""
    for each in rules:
        count = len(some_set) if each.by == "cluster" else len({value for one in some_set for value in one.groups[each.by]})
        if count < each.least or (each.most and count > each.most):
            return False
        if each.by != "cluster" and not all(one.groups[each.by] for one in some_set):
            return False
    return bool(some_set) and sum(one.available for one in some_set) >= replicas


@given(spots_strategy, rule, some.none() | rule, some.none() | rule, some.integers(0, 14))
@settings(max_examples=80, deadline=None)
def test_a_choice_is_found_exactly_when_there_is_one_and_is_the_first_in_order(
    candidates: list[Candidate],
    by_cluster: tuple[int, int],
    by_region: tuple[int, int] | None,
    by_zone: tuple[int, int] | None,
    replicas: int,
) -> None:
    rules = [SpreadRule("cluster", *by_cluster)]
    rules += [SpreadRule(by, *bounds) for by, bounds in (("region", by_region), ("zone", by_zone)) if bounds is not None]
    ordered = sorted(candidates, key=lambda each: each.order)
    patterns = itertools.product([True, False], repeat=len(ordered))  # taking first, so that the first that holds is the best
    sets = ([each for each, take in zip(ordered, pattern, strict=True) if take] for pattern in patterns)
    best = next((each for each in sets if holds(each, rules, replicas=replicas)), [])
    found = select(candidates, rules, strategy=DYNAMIC, replicas=replicas)
    assert bool(found.clusters) == bool(best) and bool(found.text) != bool(best)
    by_name = {each.name: each for each in candidates}
    if found.clusters:
        assert holds([by_name[name] for name in found.clusters], rules, replicas=replicas)
        if len(rules) > 1:
            assert list(found.clusters) == [each.name for each in best]


def test_a_search_that_would_not_end_is_given_up_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = [SpreadRule("cluster", 1, 3), SpreadRule("region", 3)]
    assert chosen(REGIONS, *rules) == "a d f"
    monkeypatch.setattr(spreading, "STEPS", 3)
    told = select(REGIONS, rules, strategy=DYNAMIC, replicas=0)
    assert (told.clusters, told.text) == ((), "no choice among 6 clusters was found that holds all spread constraints")
