"""Affinity terms in order, overflow, moving back, and company."""

from __future__ import annotations

import pytest

from policies.placements import Affinity
from policies.terms import attempts, company_refusal, moves_back, refusal, tier, weight
from tests.policies.build import cluster

TERMS = [Affinity(name=name) for name in ("home", "near", "far")]


@pytest.mark.parametrize(
    ("observed", "placed", "order"),
    [
        ("", False, (0, 1, 2)),
        ("near", True, (1, 2, 0)),
        ("near", False, (0, 1, 2)),
        ("gone", True, (0, 1, 2)),
        ("far", True, (2, 0, 1)),
    ],
)
def test_what_runs_stays_in_its_term_first_and_what_comes_back_starts_from_the_best(
    observed: str, placed: bool, order: tuple[int, ...]
) -> None:
    assert attempts(TERMS, observed=observed, placed=placed) == order
    assert attempts([]) == ()


@pytest.mark.parametrize(
    ("observed", "since", "target"),
    [
        ("far", {"home": 0.0}, "home"),
        ("far", {"home": 95.0, "near": 0.0}, "near"),
        ("far", {"home": 95.0}, ""),
        ("near", {"far": 0.0}, ""),
        ("home", {"home": 0.0}, ""),
        ("far", {}, ""),
    ],
)
def test_it_moves_back_to_an_earlier_term_that_has_fit_for_long_enough(
    observed: str, since: dict[str, float], target: str
) -> None:
    assert moves_back(TERMS, observed=observed, fitting_since=since, now=100.0, after=60.0) == target


def test_overflow_clusters_stand_in_tiers_behind_the_term() -> None:
    term = Affinity(names=("a",), overflow=(Affinity(names=("b",)), Affinity(names=("a", "c"))))
    assert [tier(term, cluster(name)) for name in "abcd"] == [0, 1, 2, None]
    assert refusal(term, cluster("b")) == "" and refusal(term, cluster("d")) == "the policy names other clusters"
    assert tier(None, cluster("x")) == 0 and refusal(None, cluster("x")) == ""


def test_the_largest_weight_that_means_a_cluster_is_its_own() -> None:
    weights = [(Affinity(names=("a", "b")), 2), (Affinity(names=("a",)), 5)]
    assert [weight(weights, cluster(name)) for name in "abc"] == [5, 2, 0]


def test_company_is_kept_or_avoided() -> None:
    assert company_refusal("a", together=[frozenset()]) == ""
    assert company_refusal("a", together=[frozenset("ab"), frozenset("a")]) == ""
    assert company_refusal("b", together=[frozenset("ab"), frozenset("a")]) == "others of its affinity group run in a, b"
    assert company_refusal("a", apart=[frozenset("b")]) == ""
    assert company_refusal("b", apart=[frozenset("b")]) == "another one of its anti-affinity group runs there"
