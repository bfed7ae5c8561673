"""What could be done so that a Job starts: what is offered, and what each change does to manifest and policy."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from policies import relaxing
from policies.division import Strategy
from policies.placements import Affinity, PolicyView, Selector, SpreadRule
from policies.relaxing import BadChange, Change, How, Kind, Offers, Scene, changed, ladders
from policies.shapes import Gang, Taint, Toleration
from policies.views import Projections


def scene(*tasks: dict[str, Any], policy: PolicyView | None = None, pod: dict[str, Any] | None = None, **spec: Any) -> Scene:
    """A Job of one task of four pods, unless tasks are given."""
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    made = tasks or ({"name": "work", "replicas": 4},)
    whole = [{"template": {"spec": {"containers": [container], **(pod or {})}}, **task} for task in made]
    meta = {"name": "train", "namespace": "team", "annotations": spec.pop("annotations", {})}
    manifest = {"metadata": meta, "spec": {"queue": "default", "tasks": whole, **spec}}
    return Scene(manifest, policy or PolicyView("", "the federation's default"))


def gang_of(made: Scene) -> Gang:
    gang = Projections().job(msgspec.json.encode(made.manifest)).gang
    assert gang is not None
    return gang


def offered(made: Scene, **offers: Any) -> set[str]:
    return {f"{ladder[0].kind}{':' + ladder[0].to if ladder[0].to else ''}" for ladder in ladders(made, Offers(**offers))}


def test_fewer_pods_start_a_gang_of_one_task() -> None:
    made = changed(scene(), [Change(Kind.MINIMUM, count=3)])
    gang = gang_of(made)
    assert (gang.replicas, gang.minimum, [count for _, count in gang.minima()]) == (4, 3, [3])
    assert gang_of(scene()).minimum == 4  # what it was made from stays as it was


def test_fewer_pods_start_a_gang_of_several_tasks() -> None:
    made = changed(scene({"name": "a", "replicas": 2}, {"name": "b", "replicas": 3}), [Change(Kind.MINIMUM, count=3)])
    assert sum(count for _, count in gang_of(made).minima()) == 3


def test_a_task_runs_fewer_replicas_and_the_gang_stays_whole() -> None:
    made = changed(
        scene({"name": "a", "replicas": 1}, {"name": "b", "replicas": 6}), [Change(Kind.REPLICAS, task="b", count=2)]
    )
    gang = gang_of(made)
    assert ([(task.name, task.replicas, task.minimum) for task in gang.tasks], gang.minimum) == ([("a", 1, 1), ("b", 2, 2)], 3)


def test_a_minimum_below_the_whole_stays_as_long_as_it_can() -> None:
    made = changed(
        scene({"name": "b", "replicas": 6, "minAvailable": 2}, minAvailable=2), [Change(Kind.REPLICAS, task="b", count=4)]
    )
    assert (gang_of(made).replicas, gang_of(made).minimum) == (4, 2)


def test_changes_that_cannot_be_made_say_why() -> None:
    for change in (
        Change(Kind.MINIMUM, count=9),
        Change(Kind.MINIMUM, count=0),
        Change(Kind.REPLICAS, task="nobody", count=1),
        Change(Kind.REPLICAS, task="work", count=-1),
        Change(Kind.TOLERATE_NODE, to="no-effect"),
        Change(Kind.TOLERATE_CLUSTER, to="key:Sometimes"),
    ):
        with pytest.raises(BadChange, match=r"\w"):
            changed(scene(), [change])


def test_a_suspended_job_is_resumed_whoever_suspended_it() -> None:
    for held in (scene(suspend=True), scene(annotations={"volcano-federation.io/suspend": "true"})):
        assert "Resume" in offered(held)
        view = Projections().job(msgspec.json.encode(changed(held, [Change(Kind.RESUME)]).manifest))
        assert "suspend" not in view.settings
    assert "Resume" not in offered(scene())


def test_node_places_are_dropped_and_other_affinity_stays() -> None:
    pod = {"nodeSelector": {"gpu": "a100"}, "affinity": {"nodeAffinity": {}, "podAffinity": {"x": 1}}}
    made = changed(scene(pod=pod), [Change(Kind.ANY_NODE)])
    left = made.manifest["spec"]["tasks"][0]["template"]["spec"]
    assert ("nodeSelector" in left, left["affinity"]) == (False, {"podAffinity": {"x": 1}})


def test_taints_are_offered_once_each_where_nobody_tolerates_them() -> None:
    spot, gpu = Taint("spot", "", "NoSchedule"), Taint("gpu", "", "NoSchedule")
    patient = {"tolerations": [{"key": "gpu", "operator": "Exists"}]}
    policy = PolicyView("team", "p", uid="u", tolerations=(Toleration("spot", "Exists", "", ""),))
    made = scene(pod=patient, policy=policy)
    assert {each for each in offered(made, taints=(spot, gpu), node_taints=(spot, spot, gpu)) if "Tolerate" in each} == {
        "TolerateCluster:gpu:NoSchedule",
        "TolerateNode:spot:NoSchedule",
    }
    after = changed(made, [Change(Kind.TOLERATE_NODE, to="spot:NoSchedule")])
    shape = gang_of(after).tasks[0].shape
    assert shape.accepts({}, taints=(spot, gpu))


def test_a_policy_is_widened_only_where_it_narrows() -> None:
    narrow = PolicyView("team", "p", uid="u", affinities=(Affinity(names=("east",)),), spread=(SpreadRule("region", 2),))
    assert {"AnyCluster", "NoSpread", "Divide"} <= offered(scene(policy=narrow))
    assert offered(scene(policy=narrow), policy=False) & {"AnyCluster", "NoSpread", "Divide"} == set()
    assert offered(scene()) & {"AnyCluster", "NoSpread", "Divide"} == {"Divide"}
    wide = changed(scene(policy=narrow), [Change(Kind.ANY_CLUSTER), Change(Kind.NO_SPREAD), Change(Kind.DIVIDE)]).policy
    assert (wide.affinities, wide.spread, wide.replicas.strategy, wide.name) == ((), (), Strategy.AGGREGATED, "p")


def test_where_no_policy_governs_a_change_makes_one_for_the_job_alone() -> None:
    policy = changed(scene(), [Change(Kind.DIVIDE)]).policy
    assert (policy.namespace, policy.name) == ("team", "train")
    assert policy.selectors == (Selector("batch.volcano.sh/v1alpha1", "Job", name="train"),)


def test_less_of_the_work_costs_more_the_more_is_given_up() -> None:
    for ladder in ladders(scene(), Offers()):
        costs = [change.cost for change in ladder]
        assert costs == sorted(set(costs))
        assert all(cost <= 2 * relaxing.COSTS[ladder[0].kind] for cost in costs)


def test_every_change_has_a_cost_a_way_and_a_text() -> None:
    for kind in Kind:
        change = Change(kind, relaxing.COSTS[kind], task="t", to="x", count=1)
        assert change.text
        assert change.how in How
