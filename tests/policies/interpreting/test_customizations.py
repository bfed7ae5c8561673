"""Rules of people for kinds of their own."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from policies.dependencies import Reference
from policies.interpreting import CustomizationView, Health, Interpreter, Unclear, project_customization
from policies.interpreting.interpreter import merged
from policies.interpreting.scripts import ScriptError, answer, ceil_div, jvm
from policies.shapes import Pool

THING = {
    "apiVersion": "example.com/v1",
    "kind": "Thing",
    "metadata": {"name": "t", "namespace": "team"},
    "spec": {
        "size": 3,
        "config": "settings",
        "template": {"spec": {"containers": [{"resources": {"requests": {"cpu": "2"}}}]}},
    },
    "status": {"ready": 2, "noise": "x"},
}


def rules(name: str = "r", *, kind: str = "Thing", **scripts: Any) -> CustomizationView:
    """Expressions by the name of their field."""
    written = {key: each if isinstance(each, dict) else {"cel": each} for key, each in scripts.items()}
    spec = {"target": {"apiVersion": "example.com/v1", "kind": kind}, "customizations": written}
    return project_customization(msgspec.json.encode({"metadata": {"name": name}, "spec": spec}))


def asked(*views: CustomizationView, **scripts: Any) -> Interpreter:
    return Interpreter([*views, *([rules(**scripts)] if scripts else [])])


def test_replicas_and_components_become_a_gang() -> None:
    one = asked(replicaResource="{'replicas': object.spec.size, 'template': object.spec.template}")
    gang = one.gang(THING, pool=Pool())
    assert gang is not None and (gang.replicas, gang.requests.get("cpu")) == (3, 6000)
    two = asked(componentResource="['b', 'a'].map(n, {'name': n, 'replicas': 1, 'template': object.spec.template})")
    assert [each.name for each in two.components(THING)] == ["a", "b"]
    assert asked().gang(THING, pool=Pool()) is None and not asked().knows(THING) and one.knows(THING)


def test_health_and_status_are_told_as_the_rules_say() -> None:
    own = asked(
        healthInterpretation="object.status.ready == object.spec.size", statusReflection="{'ready': object.status.ready}"
    )
    assert own.health(THING) is Health.UNHEALTHY
    assert own.health({**THING, "status": {"ready": 3}}) is Health.HEALTHY
    assert own.status(THING) == {"ready": 2}
    assert (asked().health(THING), asked().status(THING)) == (Health.HEALTHY, THING["status"])


def test_a_rule_without_an_answer_is_unknown_and_never_healthy() -> None:
    assert asked(healthInterpretation="object.status.nothing == 1").health(THING) is Health.UNKNOWN
    assert asked(healthInterpretation="'yes'").health(THING) is Health.UNKNOWN


def test_statuses_of_several_clusters_become_one_where_a_rule_says_how() -> None:
    east, west = ("east", {"ready": 1}), ("west", {"ready": 2})
    adds = asked(statusAggregation="{'ready': items[0].status.ready + items[1].status.ready, 'first': items[0].clusterName}")
    assert adds.aggregate(THING, [west, east]) == {"ready": 3, "first": "east"}
    assert adds.aggregate(THING, [west]) == {"ready": 2}
    assert asked().aggregate(THING, [west, east]) is None and adds.aggregate(THING, []) is None


def test_dependencies_are_references_in_the_objects_own_namespace() -> None:
    own = asked(dependencyInterpretation="[{'apiVersion': 'v1', 'kind': 'ConfigMap', 'name': object.spec.config}]")
    assert own.dependencies(THING) == (Reference("v1", "ConfigMap", "team", "settings"),)
    assert asked().dependencies(THING) == ()
    with pytest.raises(Unclear, match="not a list of references"):
        asked(dependencyInterpretation="[{'kind': 'ConfigMap'}]").dependencies(THING)


def test_revision_and_retention_are_merge_patches() -> None:
    own = asked(
        replicaRevision="{'spec': {'size': replicas, 'config': null}}",
        retention="{'spec': {'node': observed.spec.node}}",
    )
    assert own.revised(THING, replicas=7)["spec"].keys() == {"size", "template"}
    assert own.retained(THING, {"spec": {"node": "n1"}})["spec"]["node"] == "n1"
    assert THING["spec"]["size"] == 3  # type: ignore[index]
    assert asked().revised(THING, replicas=7) is THING
    assert merged({"a": 1, "b": {"c": 1}}, {"a": {"x": 1}, "b": None}) == {"a": {"x": 1}}


def test_own_rules_go_before_those_that_come_along_question_by_question() -> None:
    document = {
        "metadata": {"name": "mine"},
        "spec": {
            "target": {"apiVersion": "ray.io/v1", "kind": "RayCluster"},
            "customizations": {"healthInterpretation": {"cel": "object.status.state == 'ready'"}},
        },
    }
    own = Interpreter([project_customization(msgspec.json.encode(document))])
    head: dict[str, Any] = {"headGroupSpec": {"template": {"spec": {}}}}
    ray = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "spec": head, "status": {"state": "suspended"}}
    assert own.health(ray) is Health.UNHEALTHY and Interpreter().health(ray) is Health.HEALTHY
    assert [each.name for each in own.components(ray)] == ["head"]


def test_of_two_customizations_the_smaller_name_counts_and_leaving_ones_do_not() -> None:
    first, second = (
        rules("a", healthInterpretation="true"),
        rules("b", healthInterpretation="false", statusReflection="{'b': 1}"),
    )
    both = Interpreter([second, first])
    assert both.health(THING) is Health.HEALTHY and both.status(THING) == {"b": 1}
    leaving = CustomizationView("", "a", api_version="example.com/v1", kind="Thing", rules=first.rules, deleting=True)
    assert Interpreter([leaving, second]).health(THING) is Health.UNHEALTHY


@pytest.mark.parametrize(
    ("scripts", "field"),
    [
        ({"healthInterpretation": {"luaScript": "function f() end"}}, "spec.customizations.healthInterpretation.luaScript"),
        ({"replicaResource": "object.("}, "spec.customizations.replicaResource.cel"),
        ({"retention": "1" * 5000}, "spec.customizations.retention.cel"),
    ],
)
def test_what_cannot_be_used_is_told_where_and_counts_as_not_given(scripts: dict[str, Any], field: str) -> None:
    made = rules(**scripts)
    assert [each.field for each in made.problems] == [field]
    assert made.rules == rules().rules


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("7", "no list but int"),
        ("[7]", "no object but int"),
        ("[{'name': 'a', 'replicas': -1, 'template': {}}]", "replicas of 'a' are -1"),
        ("[{'name': 'a', 'replicas': 1}]", "'a' has no template"),
        ("[{'name': 'a', 'replicas': 1, 'template': {'spec': {'containers': 3}}}]", "component a: "),
        ("[{'name': 'a', 'replicas': 1, 'template': {'spec': {'overhead': {'cpu': 'x'}}}}]", "no amount of cpu"),
        ("object.spec.none", "'none' is not there"),
    ],
)
def test_answers_of_the_wrong_kind_say_which_rule_and_why(script: str, reason: str) -> None:
    with pytest.raises(Unclear, match=r"Thing of example.com/v1: components: ") as told:
        asked(componentResource=script).gang(THING, pool=Pool())
    assert reason in told.value.reason


def test_expressions_know_sizes_of_a_jvm_and_whole_numbers_of_boxes() -> None:
    assert [jvm(text) for text in ("512m", "4G", "1gb", "7", 9, "x", None)] == [512 << 20, 4 << 30, 1 << 30, 7, 9, None, None]
    assert (ceil_div(7, 2), ceil_div(7, 0), ceil_div("7", 2)) == (4, None, None)
    assert answer("jvm('1k') + ceil_div(3, 2)", {}) == 1026
    with pytest.raises(ScriptError):
        answer("jvm('x') + 1", {})
