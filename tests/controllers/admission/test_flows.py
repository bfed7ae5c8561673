"""JobFlows: what upstream accepts and refuses, and cycles named step by step."""

from __future__ import annotations

from typing import Any

import pytest

from apis.flow import JobFlow
from controllers.admission import summary, validate_flow


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
