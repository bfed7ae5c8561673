"""JobFlows: what upstream accepts and refuses, and cycles named step by step."""

from __future__ import annotations

from typing import Any

import pytest

from apis.flow import JobFlow
from controllers.admission import summary, validate_flow
from controllers.admission.flows import validate_flow_edit


def flow(**targets: list[str]) -> JobFlow:
    return JobFlow.of("f", spec={"flows": [{"name": name, "dependsOn": {"targets": given}} for name, given in targets.items()]})


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"flows": []},
        {"flows": [{"name": "a"}]},
        {
            "flows": [
                {"name": "a"},
                {"name": "b", "dependsOn": {"targets": ["a"]}},
                {"name": "c", "dependsOn": {"targets": ["a"]}},
            ]
        },
        {"flows": [{"name": "a"}, {"name": "a"}]},
        {"flows": [{"name": "a", "dependsOn": {"probe": {"tcpSocketList": [{"port": 1}]}}}], "jobRetainPolicy": "delete"},
    ],
)
def test_a_graph_without_circles_is_taken(spec: dict[str, Any]) -> None:
    assert validate_flow(JobFlow.of("f", spec=spec)) == []


def test_a_circle_is_named_step_by_step() -> None:
    problems = validate_flow(flow(a=[], b=["e"], c=["b"], d=["c"], e=["d", "a"]))
    assert summary(problems) == (
        "spec.flows[1].dependsOn.targets: jobflow Flow is not DAG: b waits for e waits for d waits for c waits for b"
    )


def test_every_unknown_target_is_named() -> None:
    assert summary(validate_flow(flow(a=["x"], b=["a", "y"]))) == (
        "spec.flows[0].dependsOn.targets[0]: step 'a' waits for 'x': vertex is not defined; "
        "spec.flows[1].dependsOn.targets[1]: step 'b' waits for 'y': vertex is not defined"
    )


def test_a_step_named_twice_waits_for_the_targets_of_both() -> None:
    steps = [{"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"]}}, {"name": "a", "dependsOn": {"targets": ["b"]}}]
    assert "a waits for b waits for a" in summary(validate_flow(JobFlow.of("f", spec={"flows": steps})))


def test_a_chain_of_thousands_is_judged_without_recursion() -> None:
    steps = {f"s{index}": [f"s{index - 1}"] if index else [] for index in range(5000)}
    assert validate_flow(flow(**steps)) == []
    assert "not DAG" in summary(validate_flow(flow(**(steps | {"s0": ["s4999"]}))))


@pytest.mark.parametrize(
    ("step", "field"),
    [
        ({"name": "a", "when": "1 +"}, "spec.flows[0].when"),
        ({"name": "a", "timeout": "soon"}, "spec.flows[0].timeout"),
        ({"name": "a", "with": {"items": [1], "fromOutput": "b.c"}}, "spec.flows[0].with"),
        ({"name": "a", "flow": {"name": "b", "spec": {}}}, "spec.flows[0].flow"),
    ],
)
def test_rules_of_our_own_fields_are_asked_at_the_door(step: dict[str, Any], field: str) -> None:
    assert [problem.field for problem in validate_flow(JobFlow.of("f", spec={"flows": [step]}))] == [field]


def _running(*steps: dict[str, Any], begun: str) -> JobFlow:
    return JobFlow.of("f", spec={"flows": list(steps)}, status={"jobStatusList": [{"name": f"f-{begun}", "step": begun}]})


def test_a_step_that_has_begun_stays_what_it_is_and_others_may_change() -> None:
    old = _running({"name": "a"}, {"name": "b"}, begun="a")
    assert validate_flow_edit(old, JobFlow.of("f", spec={"flows": [{"name": "a", "timeout": "1h"}, {"name": "c"}]})) == []
    changed = validate_flow_edit(old, JobFlow.of("f", spec={"flows": [{"name": "b"}, {"name": "a", "template": "x"}]}))
    assert summary(changed).startswith("spec.flows[1]: step 'a' has begun: only retry")
    gone = validate_flow_edit(old, JobFlow.of("f", spec={"flows": [{"name": "b"}]}))
    assert summary(gone) == "spec.flows: step 'a' has begun and cannot be taken out"
