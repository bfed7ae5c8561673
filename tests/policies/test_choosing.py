"""Where one object goes, from filters to parts: stories, and laws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from policies import fit
from policies.choosing import Chosen, Market, Remembered, Wish, choose, classes_that_fit
from policies.division import Strategy
from policies.estimates import Demand
from policies.filters import Question, judge
from policies.fit import Room
from policies.offers import OfferView
from policies.parts import Minima
from policies.placements import Affinity, LabelSelector, PolicyView, ReplicaRule, SpreadRule
from policies.profiles import BUILT_IN
from policies.shapes import Gang, Requirement, Taint
from policies.verdicts import Verdict, Wake
from tests.policies.build import capacity, cluster, gang, job, nodes, shape
from tests.policies.offering import by_cluster, flat, offer

FILTERS = ("health", "affinity", "taints", "capacity")
WORK = gang(("work", 6, shape()), least=1)


def asked(question: Question) -> Verdict:
    return judge(question, filters=FILTERS)


def question(name: str, cores: int, *, of: Gang = WORK, rows: fit.Rows | None = None, **more: Any) -> Question:
    """A cluster of nodes of one core each."""
    published = rows if rows is not None else nodes((cores, "1"))
    penalty = more.pop("penalty", 0.0)
    return Question(
        job=job(of=of),
        gang=of,
        policy=PolicyView("", "p"),
        affinity=None,
        cluster=cluster(name, **more),
        capacity=capacity(name, published),
        room=Room(published),
        penalty=penalty,
    )


def ask(
    questions: Sequence[Question], *, offers: Sequence[OfferView] = (), profile: str = "balanced", of: Gang = WORK, **wish: Any
) -> Chosen:
    policy = PolicyView("default", "p", **{key: wish.pop(key) for key in ("affinities", "replicas", "spread") if key in wish})
    full = Wish(of, policy, BUILT_IN[profile], Demand(of, 3600), **wish)
    return choose(questions, wish=full, market=Market(by_cluster(*offers)), judge=asked)


def pods(chosen: Chosen) -> dict[str, int]:
    return {part.cluster: part.replicas for part in chosen.parts}


def divided(strategy: Strategy) -> ReplicaRule:
    return ReplicaRule(strategy)


# --- whole -----------------------------------------------------------------------------------------------------------
def test_a_job_whose_policy_says_nothing_runs_whole_in_the_roomiest_cluster() -> None:
    chosen = ask([question("a", 8), question("b", 20)])
    assert (pods(chosen), chosen.parts[0].minimum, chosen.term) == ({"b": 6}, 1, "")
    assert {each.cluster: bool(each.scores) for each in chosen.told} == {"a": True, "b": True}


def test_the_profile_decides_and_names_the_way_to_run_it() -> None:
    slow, fast = flat("slow", cpu=1), flat("fast", cpu=6, throughput=4)
    questions = [question("slow", 20), question("fast", 20)]
    cheap = ask(questions, offers=(slow, fast), profile="cost-first")
    quick = ask(questions, offers=(slow, fast), profile="efficiency-first")
    assert (pods(cheap), pods(quick)) == ({"slow": 6}, {"fast": 6})
    assert (cheap.options["slow"].money, quick.options["fast"].finish) == (6.0, 900.0)


def test_money_is_that_of_the_nodes_on_which_it_fits() -> None:
    """The cheap nodes have no room: the cluster is as dear as its others."""
    labelled = fit.rows(
        [fit.NodeClass("0", {"kind": "old"}), fit.NodeClass("1", {"kind": "new"})],
        [(0, WORK.tasks[0].shape.requests, 0), (1, WORK.tasks[0].shape.requests, 9)],
    )
    kinds = [{"name": kind, "labels": {"kind": kind}, "prices": {"cpu": price}} for kind, price in (("old", 1), ("new", 5))]
    mixed, plain = offer("mixed", classes=kinds), flat("plain", cpu=3)
    chosen = ask([question("mixed", 0, rows=labelled), question("plain", 9)], offers=(mixed, plain), profile="cost-first")
    assert pods(chosen) == {"plain": 6}
    alone = ask([question("mixed", 0, rows=labelled)], offers=(mixed,), profile="cost-first")
    assert (alone.options["mixed"].node_class, alone.options["mixed"].money) == ("new", 30.0)


def test_what_fits_a_class_is_remembered_until_the_member_publishes_anew() -> None:
    kind = offer("east", classes=[{"name": "k", "labels": {"kind": "k"}, "prices": {"cpu": 1}}])
    rows = fit.rows([fit.NodeClass("0", {"kind": "k"})], [(0, WORK.tasks[0].shape.requests, 9)])
    remembered = Remembered()
    before = question("east", 0, rows=rows)
    assert remembered(before, kind) == {"k"} == classes_that_fit(before, kind)
    before.capacity = replace(capacity("east", nodes()), version="1")
    assert remembered(before, kind) == {"k"}
    before.capacity = replace(capacity("east", nodes()), version="2")
    assert remembered(before, kind) == frozenset()
    assert remembered(before, None) == frozenset()


# --- nobody ----------------------------------------------------------------------------------------------------------
def test_where_nobody_fits_every_cluster_says_why_and_what_could_change_it() -> None:
    rigid = gang(("work", 6, shape()))
    tainted = question("tainted", 9, of=rigid, taints=(Taint("x", "", "NoSchedule"),))
    chosen = ask([question("full", 1, of=rigid), tainted], of=rigid)
    assert not chosen.parts and chosen.text.startswith("0 of 2 clusters fit: ")
    assert {each.cluster: each.code for each in chosen.told} == {"full": "NoRoom", "tainted": "ClusterTaint"}
    assert set(chosen.wakes) == {Wake.CAPACITY, Wake.CLUSTER, Wake.JOB, Wake.POLICY}
    assert ask([]).text == "no cluster is registered"


# --- terms -----------------------------------------------------------------------------------------------------------
HOME, AWAY = Affinity(name="home", names=("home",)), Affinity(name="away", names=("away",))


def test_the_first_term_with_a_cluster_is_used_and_a_job_that_runs_stays_in_its_own() -> None:
    both = [question("home", 9), question("away", 99)]
    assert ask(both, affinities=(HOME, AWAY)).term == "home"
    assert ask([both[1]], affinities=(HOME, AWAY)).term == "away"
    runs = {"away": {"work": 6}}
    assert ask(both, affinities=(HOME, AWAY), observed="away", assigned=runs).term == "away"
    assert ask(both, affinities=(HOME, AWAY), observed="away").term == "home"


def test_overflow_clusters_take_what_does_not_fit_and_nothing_before() -> None:
    burst = Affinity(name="home", names=("home",), overflow=(Affinity(names=("burst",)),))
    small = [question("home", 4), question("burst", 99), question("other", 99)]
    assert pods(ask(small, affinities=(burst,), replicas=divided(Strategy.DYNAMIC))) == {"home": 4, "burst": 2}
    large = [question("home", 9), *small[1:]]
    assert pods(ask(large, affinities=(burst,), replicas=divided(Strategy.DYNAMIC))) == {"home": 6}
    assert pods(ask(large, affinities=(burst,))) == {"home": 6}


# --- division --------------------------------------------------------------------------------------------------------
THREE = [question("a", 6, region="eu"), question("b", 12, region="eu"), question("c", 18, region="us")]


@pytest.mark.parametrize(
    ("strategy", "outcome"),
    [
        (Strategy.DYNAMIC, {"a": 1, "b": 2, "c": 3}),
        (Strategy.AGGREGATED, {"c": 6}),
        (Strategy.STATIC, {"a": 2, "b": 2, "c": 2}),
        (Strategy.DUPLICATED, {"a": 6, "b": 6, "c": 6}),
    ],
)
def test_replicas_are_divided_as_the_policy_says(strategy: Strategy, outcome: dict[str, int]) -> None:
    chosen = ask(THREE, replicas=divided(strategy))
    assert pods(chosen) == outcome and set(chosen.options) == set(outcome)


def test_static_weights_are_those_of_the_clusters_they_mean() -> None:
    rule = ReplicaRule(
        Strategy.STATIC, ((Affinity(labels=LabelSelector((Requirement("big", "Exists"),))), 2), (Affinity(names=("a",)), 1))
    )
    questions = [question("a", 9), question("b", 9, labels={"big": ""}), question("c", 9)]
    assert pods(ask(questions, replicas=rule)) == {"a": 2, "b": 4}


def test_spread_chooses_the_clusters_before_replicas_are_divided() -> None:
    two_regions = (SpreadRule("cluster", 1, 2), SpreadRule("region", 2))
    assert set(pods(ask(THREE, replicas=divided(Strategy.DYNAMIC), spread=two_regions))) in ({"b", "c"}, {"a", "c"})
    four = ask(THREE, replicas=divided(Strategy.DYNAMIC), spread=(SpreadRule("cluster", 4),))
    assert four.text == "3 clusters fit, at least 4 are needed" and Wake.CAPACITY in four.wakes
    silent = ask(THREE, spread=(SpreadRule("cluster", 2),))
    assert silent.text == "the policy wants 2 groups of clusters and does not say how replicas are divided"


def test_growth_keeps_what_runs_where_it_is() -> None:
    held = {"a": {"work": 3}, "b": {"work": 1}}
    grown = ask(THREE, replicas=divided(Strategy.DYNAMIC), assigned=held)
    assert sum(pods(grown).values()) == 6 and pods(grown)["a"] >= 3 and pods(grown)["b"] >= 1
    moved = ask(THREE, replicas=divided(Strategy.DYNAMIC), assigned=held, fresh=True)
    assert pods(moved) == {"a": 1, "b": 2, "c": 3}


def test_a_gang_over_clusters_may_be_asked_for() -> None:
    rigid = gang(("work", 12, shape()))
    questions = [question("a", 12, of=rigid), question("b", 15, of=rigid)]
    alone = ask(questions, of=rigid, replicas=divided(Strategy.DYNAMIC))
    together = ask(questions, of=rigid, replicas=divided(Strategy.DYNAMIC), minima=Minima.TOGETHER)
    assert pods(alone) == {"b": 12}
    assert pods(together) == {"a": 5, "b": 7} and [part.minimum for part in together.parts] == [5, 7]


# --- laws ------------------------------------------------------------------------------------------------------------
described = some.lists(
    some.tuples(
        some.sampled_from("abcdef"), some.integers(0, 9), some.sampled_from(["eu", "us"]), some.sampled_from([0.0, 0.5])
    ),
    max_size=5,
    unique_by=lambda each: each[0],
)
rules = some.sampled_from([None, *Strategy])
profiles = some.sampled_from(sorted(BUILT_IN))


@given(described, rules, profiles, some.booleans())
@settings(max_examples=40, deadline=None)
def test_what_is_chosen_fits_loses_nothing_and_does_not_depend_on_the_order_of_asking(
    clusters: list[tuple[str, int, str, float]], strategy: Strategy | None, profile: str, spread: bool
) -> None:
    questions = [question(name, cores, region=region, penalty=penalty) for name, cores, region, penalty in clusters]
    wish: dict[str, Any] = {"profile": profile, "replicas": ReplicaRule(strategy)}
    if spread and strategy is not None:
        wish["spread"] = (SpreadRule("cluster", 1, 2), SpreadRule("region", 1, 1))
    free = {each.cluster.name: each.room.free for each in questions if each.room is not None}
    chosen = ask(questions, **wish)
    assert chosen == ask(questions[::-1], **wish)
    assert {each.cluster.name: each.room.free for each in questions if each.room is not None} == free
    room = {name: cores for name, cores, _, _ in clusters}
    if not chosen.parts:
        assert chosen.text
        return
    if strategy is not Strategy.DUPLICATED:
        assert sum(pods(chosen).values()) == 6
    if strategy in (Strategy.DYNAMIC, Strategy.AGGREGATED):
        assert all(count <= room[name] for name, count in pods(chosen).items())
    assert all(room[name] >= 1 for name in pods(chosen))
    if wish.get("spread") and strategy is not Strategy.STATIC:
        assert len(chosen.parts) <= 2
        assert len({region for name, _, region, _ in clusters if name in pods(chosen)}) == 1
