"""What a flow may not say: each rule refuses with the field."""

from __future__ import annotations

import msgspec
import pytest
import yaml

from policies.flows.rules import MAX_DEPTH, problems
from policies.flows.spec import FlowSpec


def _nested(depth: int) -> str:
    return "flows: [{name: a}]" if depth == 0 else f"flows: [{{name: a, flow: {{spec: {{{_nested(depth - 1)}}}}}}}]"


@pytest.mark.parametrize(
    ("spec", "field", "said"),
    [
        ("flows: [{name: ''}]", "spec.flows[0].name", "at least 1 chars"),
        ("flows: [{name: a, failurePolicy: Ignore}]", "spec.flows[0].failurePolicy", "'Ignore' is none of"),
        ("flows: [{name: a, retry: {limit: 101}}]", "spec.flows[0].retry.limit", "not between 0 and 100"),
        ("flows: [{name: a, retry: {limit: 1, backoff: soon}}]", "spec.flows[0].retry.backoff", "'soon' is no duration"),
        ("flows: [{name: a, timeout: 1y}]", "spec.flows[0].timeout", "'1y' is no duration"),
        ("{deadline: x, flows: []}", "spec.deadline", "'x' is no duration"),
        ("{ttl: x, flows: []}", "spec.ttl", "'x' is no duration"),
        ("{maxParallel: -1, flows: []}", "spec.maxParallel", "greater than or equal to 0"),
        ("{jobRetainPolicy: keep, flows: []}", "spec.jobRetainPolicy", "neither retain nor delete"),
        ("{resumeFrom: {id: ''}, flows: []}", "spec.resumeFrom.id", "an id of its own"),
        ("{resumeFrom: {id: r, steps: [x]}, flows: []}", "spec.resumeFrom.steps[0]", "there is no step 'x'"),
        ("flows: [{name: a, when: 'a +'}]", "spec.flows[0].when", "is no condition"),
        (f"flows: [{{name: a, when: '{'x' * 1025}'}}]", "spec.flows[0].when", "at most 1024 characters"),
        ("flows: [{name: a, with: {}}]", "spec.flows[0].with", "either items or fromOutput"),
        ("flows: [{name: a, with: {items: [1], fromOutput: b.c}}]", "spec.flows[0].with", "either items or fromOutput"),
        (f"flows: [{{name: a, with: {{items: {list(range(1001))}}}}}]", "spec.flows[0].with.items", "1001 items, at most 1000"),
        ("flows: [{name: a, with: {items: [1], maxParallel: -1}}]", "spec.flows[0].with.maxParallel", "greater than or equal"),
        (
            "flows: [{name: a, with: {fromOutput: b.c}}, {name: b}]",
            "spec.flows[0].with.fromOutput",
            "does not wait for a step 'b'",
        ),
        (
            "flows: [{name: a, dependsOn: {targets: [b]}, with: {fromOutput: b.c}}, {name: b}]",
            "spec.flows[0].with.fromOutput",
            "step 'b' has no output 'c'",
        ),
        ("flows: [{name: a, parameters: [{name: 1x}]}]", "spec.flows[0].parameters[0].name", "'1x' is no name"),
        ("flows: [{name: a, parameters: [{name: x}, {name: x}]}]", "spec.flows[0].parameters[1].name", "there twice"),
        (
            "flows: [{name: a, parameters: [{name: x, value: '{{steps.b.outputs.y}}'}]}, {name: b}]",
            "spec.flows[0].parameters[0].value",
            "'a' does not wait for a step 'b'",
        ),
        ("flows: [{name: a, parameters: [{name: x, value: '{{item}}'}]}]", "spec.flows[0].parameters[0].value", "has no items"),
        (f"flows: [{{name: a, outputs: {[{'name': f'o{i}'} for i in range(17)]}}}]", "spec.flows[0].outputs", "17 outputs"),
        ("flows: [{name: a, flow: {}}]", "spec.flows[0].flow", "either name or spec"),
        ("flows: [{name: a, template: t, flow: {name: f}}]", "spec.flows[0].flow", "no template of its own"),
        ("flows: [{name: a, flow: {spec: {flows: 3}}}]", "spec.flows[0].flow.spec", "Expected `array`"),
        (
            "flows: [{name: a, flow: {spec: {flows: [{name: b, dependsOn: {targets: [c]}}]}}}]",
            "spec.flows[0].flow.spec.flows[0].dependsOn.targets[0]",
            "vertex is not defined",
        ),
        (
            _nested(MAX_DEPTH),
            "spec.flows[0]" + ".flow.spec.flows[0]" * (MAX_DEPTH - 1) + ".flow.spec",
            "nested more than 5 deep",
        ),
        ("{flows: [{name: a}], onExit: [{name: a}]}", "spec.onExit[0].name", "another step is named 'a'"),
        (
            "{flows: [{name: a}], onExit: [{name: b, dependsOn: {targets: [a]}}]}",
            "spec.onExit[0].dependsOn",
            "wait for nothing",
        ),
        (
            "flows: [{name: a, dependsOn: {probe: {tcpSocketList: [{port: 0}]}}}]",
            "spec.flows[0].dependsOn.probe.tcpSocketList[0].port",
            "0 is no port",
        ),
        (
            "flows: [{name: a, dependsOn: {probe: {httpGetList: [{port: 80, path: '//evil'}]}}}]",
            "spec.flows[0].dependsOn.probe.httpGetList[0].path",
            "is no path of the pod",
        ),
        (
            "flows: [{name: a, dependsOn: {probe: {taskStatusList: [{phase: Done}]}}}]",
            "spec.flows[0].dependsOn.probe.taskStatusList[0].phase",
            "'Done' is none of",
        ),
    ],
)
def test_what_a_flow_may_not_say_is_refused_with_the_field(spec: str, field: str, said: str) -> None:
    found = problems(msgspec.convert(yaml.safe_load(spec), FlowSpec))
    assert [problem.field for problem in found] == [field]
    assert said in found[0].message


def test_a_flow_that_uses_everything_is_taken() -> None:
    spec = """
    deadline: 2h
    ttl: 7d
    maxParallel: 3
    resumeFrom: {id: r1, steps: [train]}
    flows:
    - {name: prepare, outputs: [{name: shards, task: main, index: 0}], retry: {limit: 3, backoff: 1m}, timeout: 1h}
    - name: train
      template: trainer
      dependsOn: {targets: [prepare], probe: {taskStatusList: [{taskName: main, phase: Running}]}}
      with: {fromOutput: prepare.shards, maxParallel: 2}
      parameters: [{name: shard, value: "{{item}} of {{steps.prepare.outputs.shards}}"}]
      failurePolicy: Continue
    - {name: report, flow: {name: reporting}, dependsOn: {targets: [train]}, when: "targets.train.state == 'Completed'"}
    onExit: [{name: tell, when: "flow.outcome == 'Failed'"}]
    """
    assert problems(msgspec.convert(yaml.safe_load(spec), FlowSpec)) == []


def test_ten_thousand_steps_are_judged_without_recursion() -> None:
    flows = [{"name": f"s{index}", "dependsOn": {"targets": [f"s{index - 1}"] if index else []}} for index in range(10_000)]
    assert problems(msgspec.convert({"flows": flows}, FlowSpec)) == []
