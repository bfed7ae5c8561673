"""pdb: victims leave PodDisruptionBudgets what they allow."""

from __future__ import annotations

import json

import pytest

from member_agent.views.budgets import BudgetView, project_budget
from policies.selectors import Requirement
from tests.member_agent.scheduling.build import Made, configuration, gang, nodes
from tests.member_agent.scheduling.rounds import Rounds, of, victims

ACTIONS = "enqueue, allocate, backfill, preempt"
BY = configuration("priority", "pdb", "predicates", actions=ACTIONS)
LABELLED = {"labels": (("app", "web"),)}


def budget(allowed: int, *, name: str = "b", app: str = "web", namespace: str = "ns") -> BudgetView:
    return BudgetView(namespace, name, f"uid-{name}", "1", (Requirement("app", "In", (app,)),), allowed)


def web(**more: object) -> Made:
    return of(gang("web", pods=2, minimum=1, on=["n0", "n1"], priority=1, phase="Running"), **{**LABELLED, **more})


def world(*budgets: BudgetView, pods: int = 2, by: object = BY) -> Rounds:
    return Rounds(nodes(1, 1), web(), gang("high", pods=pods, minimum=1, priority=9), by=by, budgets=budgets)  # type: ignore[arg-type]


def test_as_many_go_as_the_budget_allows() -> None:
    assert victims(world().round()) == ["web-0", "web-1"]
    assert victims(world(budget(0)).round()) == []
    assert len(victims(world(budget(1)).round())) == 1
    without = configuration("priority", "predicates", actions=ACTIONS)
    assert len(victims(world(budget(0), by=without).round())) == 2, "turned off, nobody looks at budgets"


def test_all_budgets_of_a_pod_must_allow_it_and_others_do_not_matter() -> None:
    assert victims(world(budget(2), budget(0, name="c")).round()) == []
    assert len(victims(world(budget(0, app="other"), budget(0, name="d", namespace="elsewhere")).round())) == 2


def test_a_budget_counts_those_that_go_already() -> None:
    """The budget's controller has not seen the first eviction yet."""
    found = world(budget(1), pods=1)
    found.round()
    going = {pod.uid: pod for pod in found.pods.values() if pod.deleting}
    found.pods = {uid: pod if uid not in going else web().pods[int(pod.name[-1])] for uid, pod in found.pods.items()}
    found.add(gang("second", priority=9))
    snapshot = found.freeze()
    assert len(going) == 1
    import dataclasses

    from member_agent.scheduling.planner import plan

    late = dataclasses.replace(snapshot, holders=dataclasses.replace(snapshot.holders, going=going))
    assert not plan(late, configuration=BY).evictions


@pytest.mark.parametrize(
    ("selector", "covers"),
    [({"matchLabels": {"app": "web"}}, True), ({"matchLabels": {"app": "db"}}, False), ({}, True), (None, False)],
)
def test_a_budget_is_read_as_kubernetes_means_it(selector: object, covers: bool) -> None:
    """An empty selector covers the whole namespace, none covers nobody; a budget without status allows nothing."""
    document = {"metadata": {"name": "b", "namespace": "ns", "uid": "u"}, "spec": {"selector": selector}}
    read = project_budget(json.dumps(document).encode())
    assert read.covers({"app": "web", "tier": "1"}) is covers
    assert read.allowed == 0
    told = project_budget(json.dumps({**document, "status": {"disruptionsAllowed": 3}}).encode())
    assert told.allowed == 3
