"""Replicas over clusters: the worked vectors of upstream, and laws."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from policies.division import Candidate, Strategy, divide, webster

DYNAMIC, AGGREGATED, STATIC, DUPLICATED = Strategy.DYNAMIC, Strategy.AGGREGATED, Strategy.STATIC, Strategy.DUPLICATED


def parse(text: str) -> dict[str, int]:
    return {each[0]: int(each[1:]) for each in text.split()}


def rooms(text: str, *, assigned: str = "", tiers: Mapping[str, int] | None = None) -> list[Candidate]:
    """`a6 b12` and what runs there already."""
    held = parse(assigned)
    names = parse(text)
    return [Candidate(name, room, held.get(name, 0), tier=(tiers or {}).get(name, 0)) for name, room in names.items()]


# --- the worked vectors (reference/karmada.md 3.6) -------------------------------------------------------------------
@pytest.mark.parametrize(
    ("total", "votes", "seats"),
    [
        (13, "a3 b2 c1", "a7 b4 c2"),
        (12, "a3 b2", "a7 b5"),
        (9, "a1 b3", "a2 b7"),
        (7, "a2 b1 c1 d1", "a3 b2 c1 d1"),
        (9, "a2 b1 c1 d1", "a3 b2 c2 d2"),
        (12, "a2 b1 c1 d1", "a5 b3 c2 d2"),
        (5, "a5 b3 c1", "a2 b2 c1"),
        (8, "a5 b3 c1", "a4 b3 c1"),
        (3, "m1 n1", "m2 n1"),
    ],
)
def test_seats_are_dispensed_as_upstream_does(total: int, votes: str, seats: str) -> None:
    assert webster(total, parse(votes)) == parse(seats)
    weighted = [Candidate(name, weight=weight) for name, weight in parse(votes).items()]
    assert divide(total, weighted, strategy=STATIC).replicas == parse(seats)


def test_a_tie_goes_the_other_way_for_objects_whose_uid_has_an_odd_hash() -> None:
    assert webster(3, {"m1": 1, "m2": 1}, uid="b") == {"m1": 1, "m2": 2}
    assert webster(3, {"m1": 1, "m2": 1}, uid="a") in ({"m1": 1, "m2": 2}, {"m1": 2, "m2": 1})


@pytest.mark.parametrize(("strategy", "outcome"), [(AGGREGATED, "c12"), (DYNAMIC, "a2 b4 c6"), (DUPLICATED, "a12 b12 c12")])
def test_twelve_replicas_over_room_for_six_twelve_and_eighteen(strategy: Strategy, outcome: str) -> None:
    assert divide(12, rooms("a6 b12 c18"), strategy=strategy).replicas == parse(outcome)


# --- by static weight ------------------------------------------------------------------------------------------------
def test_a_cluster_without_a_weight_gets_nothing_unless_nobody_has_one() -> None:
    assert divide(4, [Candidate("a", weight=1), Candidate("b")], strategy=STATIC).replicas == {"a": 4}
    assert divide(4, [Candidate("a"), Candidate("b")], strategy=STATIC).replicas == {"a": 2, "b": 2}


def test_static_weights_are_hard_and_what_they_ask_beyond_the_room_is_told() -> None:
    divided = divide(8, [Candidate("a", room=1, assigned=2, weight=1), Candidate("b", room=9, weight=1)], strategy=STATIC)
    assert (divided.replicas, divided.beyond, divided.short) == ({"a": 4, "b": 4}, {"a": 1}, 0)


# --- by room: steady, fresh, short -----------------------------------------------------------------------------------
@pytest.mark.parametrize("strategy", [DYNAMIC, AGGREGATED])
def test_equal_totals_move_nothing_whatever_the_room_is_now(strategy: Strategy) -> None:
    assert divide(6, rooms("a0 b99", assigned="a5 b1"), strategy=strategy).replicas == parse("a5 b1")


def test_growth_goes_by_the_room_that_is_left_and_keeps_what_runs() -> None:
    assert divide(10, rooms("a2 b6", assigned="a4 b2"), strategy=DYNAMIC).replicas == parse("a5 b5")
    assert divide(10, rooms("a2 b6 c9", assigned="a4 b2"), strategy=AGGREGATED).replicas == parse("a4 b6")


def test_shrinking_goes_by_what_runs_and_asks_for_no_room() -> None:
    assert divide(6, rooms("a0 b0", assigned="a8 b4"), strategy=DYNAMIC).replicas == parse("a4 b2")
    assert divide(6, rooms("a0 b0", assigned="a8 b4"), strategy=AGGREGATED).replicas == parse("a6")


def test_a_rebalance_forgets_where_it_ran() -> None:
    assert divide(12, rooms("a0 b12", assigned="a12"), strategy=DYNAMIC, fresh=True).replicas == parse("a6 b6")
    assert divide(4, rooms("a0 b9", assigned="a2"), strategy=AGGREGATED, fresh=True).replicas == parse("a1 b3")
    assert divide(4, rooms("a0 b9", assigned="a4"), strategy=AGGREGATED, fresh=True).replicas == parse("a4")


def test_nothing_is_divided_where_room_is_short() -> None:
    divided = divide(10, rooms("a3 b4"), strategy=DYNAMIC)
    assert (divided.replicas, divided.short) == ({}, 3)


def test_what_ran_in_a_cluster_that_is_no_candidate_any_more_is_placed_again() -> None:
    """The caller leaves the cluster out: its replicas are missing from the sum and so are given to others."""
    assert divide(6, rooms("b9", assigned="b2"), strategy=DYNAMIC).replicas == parse("b6")


def test_overflow_is_used_only_when_the_tier_before_is_full() -> None:
    tiers = {"c": 1, "d": 1}
    assert divide(5, rooms("a3 b3 c9 d9", tiers=tiers), strategy=DYNAMIC).replicas == parse("a3 b2")
    assert divide(10, rooms("a3 b3 c9 d9", tiers=tiers), strategy=DYNAMIC).replicas == parse("a3 b3 c2 d2")
    assert divide(10, rooms("a3 b3 c9 d9", tiers=tiers), strategy=AGGREGATED).replicas == parse("a3 b3 c4")
    assert divide(4, rooms("a0 b0 c0", assigned="a3 c5", tiers=tiers), strategy=DYNAMIC).replicas == parse("a3 c1")


@pytest.mark.parametrize("strategy", list(Strategy))
def test_bad_numbers_divide_to_nothing(strategy: Strategy) -> None:
    assert divide(-3, rooms("a5"), strategy=strategy).replicas == {}
    assert divide(0, rooms("a5"), strategy=strategy).replicas == {}
    assert divide(3, [], strategy=strategy).replicas == {}
    if strategy in (DYNAMIC, AGGREGATED):
        assert divide(3, [Candidate("a", room=-5)], strategy=strategy).short == 3


# --- laws ------------------------------------------------------------------------------------------------------------
votes = some.dictionaries(some.sampled_from("abcdefgh"), some.integers(0, 40), max_size=8)
uids = some.sampled_from(["", "a", "b", "uid-7"])


def one_by_one(total: int, given: Mapping[str, int], *, odd: bool) -> dict[str, int]:
    """The definition, without shortcuts."""
    parties = sorted((name for name, count in given.items() if count > 0), reverse=odd)
    seats = dict.fromkeys(parties, 0)
    for _ in range(total if parties else 0):
        best = parties[0]
        for name in parties[1:]:
            left, right = given[name] * (2 * seats[best] + 1), given[best] * (2 * seats[name] + 1)
            if left > right or (left == right and seats[name] < seats[best]):
                best = name
        seats[best] += 1
    return {name: count for name, count in sorted(seats.items()) if count}


@given(some.integers(0, 120), votes)
@settings(max_examples=40)
def test_the_fast_way_dispenses_as_the_definition_does(total: int, given_votes: dict[str, int]) -> None:
    assert webster(total, given_votes) == one_by_one(total, given_votes, odd=False)
    assert webster(total, given_votes, uid="b") == one_by_one(total, given_votes, odd=True)


@given(some.integers(1, 200), votes, uids)
@settings(max_examples=40)
def test_one_seat_more_takes_none_away_and_minima_never_exceed_votes(total: int, given_votes: dict[str, int], uid: str) -> None:
    fewer, more = webster(total, given_votes, uid=uid), webster(total + 1, given_votes, uid=uid)
    assert all(more.get(name, 0) >= count for name, count in fewer.items())
    if total <= sum(given_votes.values()):
        assert all(count <= given_votes[name] for name, count in fewer.items())


candidates = some.lists(
    some.builds(
        Candidate,
        name=some.sampled_from("abcdefg"),
        room=some.integers(0, 30),
        assigned=some.integers(0, 20),
        weight=some.integers(0, 5),
        tier=some.integers(0, 2),
    ),
    max_size=7,
    unique_by=lambda each: each.name,
)


@given(some.integers(0, 80), candidates, some.sampled_from([DYNAMIC, AGGREGATED]), uids, some.booleans())
@settings(max_examples=100)
def test_nothing_is_lost_or_doubled_no_room_is_exceeded_and_nothing_moves_without_need(
    total: int, given_candidates: list[Candidate], strategy: Strategy, uid: str, fresh: bool
) -> None:
    divided = divide(total, given_candidates, strategy=strategy, uid=uid, fresh=fresh)
    assert divided == divide(total, reversed(given_candidates), strategy=strategy, uid=uid, fresh=fresh)
    held = sum(each.assigned for each in given_candidates)
    everything = held + sum(each.room for each in given_candidates)
    if divided.short:
        assert total > held and total - everything == divided.short and not divided.replicas
        return
    assert sum(divided.replicas.values()) == total
    for each in given_candidates:
        count = divided.replicas.get(each.name, 0)
        assert count <= each.room + each.assigned
        if not fresh:
            assert count >= each.assigned if total >= held else count <= each.assigned


@given(some.integers(0, 80), candidates, uids)
@settings(max_examples=40)
def test_static_weights_lose_and_double_nothing(total: int, given_candidates: list[Candidate], uid: str) -> None:
    divided = divide(total, given_candidates, strategy=STATIC, uid=uid)
    assert sum(divided.replicas.values()) == (total if given_candidates else 0)
    for each in given_candidates:
        over = divided.replicas.get(each.name, 0) - each.room - each.assigned
        assert divided.beyond.get(each.name, 0) == max(over, 0)


@given(some.integers(1, 60), candidates)
@settings(max_examples=40)
def test_aggregated_uses_no_more_clusters_than_it_must(total: int, given_candidates: list[Candidate]) -> None:
    flat = [Candidate(each.name, room=each.room) for each in given_candidates]
    divided = divide(total, flat, strategy=AGGREGATED)
    if not divided.short:
        largest = sorted((each.room for each in flat), reverse=True)
        needed = next(count for count in range(1, len(largest) + 1) if sum(largest[:count]) >= total)
        assert len(divided.replicas) <= needed


def test_a_hundred_thousand_replicas_over_a_hundred_clusters_divide_without_counting_each() -> None:
    many = [Candidate(f"c{index:03}", room=1000 + 37 * index) for index in range(100)]
    assert sum(divide(100_000, many, strategy=DYNAMIC).replicas.values()) == 100_000
