"""What a JobFlow may say: every rule with the field it is about. Admission refuses by them, the controller checks again."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from typing import Final

import msgspec

from policies import durations
from policies.flows.expressions import ExpressionError, compiled, names_in
from policies.flows.graph import FlowGraph, Problem
from policies.flows.spec import FAIL, FAILURE_POLICIES, MAX_ITEMS, FlowSpec, Nested, Probe, Step, named

MAX_DEPTH: Final = 5
"""Flows within flows."""
MAX_RETRIES: Final = 100
MAX_OUTPUTS: Final = 16
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,62}")
_POD_PHASES: Final = ("Pending", "Running", "Succeeded", "Failed", "Unknown")


def problems(spec: FlowSpec, *, path: str = "spec", depth: int = 1, graph_too: bool = True) -> list[Problem]:
    """Everything that keeps a flow from being run; empty when nothing does. Without `graph_too`: somebody else judges targets
    and cycles."""
    steps = tuple(named(spec.flows).values())
    by_name = {step.name: step for step in steps}
    graph = FlowGraph({step.name: step.targets for step in steps})
    wrong = graph.problems()
    sound = not wrong
    found = [Problem(each.field.replace("spec", path, 1), each.message) for each in wrong] if graph_too else []
    for index, step in enumerate(spec.flows):
        found += _step(step, f"{path}.flows[{index}]", depth=depth)
        if sound:
            found += _references(step, graph, by_name, f"{path}.flows[{index}]")
    names = Counter(step.name for step in steps)
    for index, step in enumerate(spec.on_exit or ()):
        field = f"{path}.onExit[{index}]"
        found += _step(step, field, depth=depth)
        names[step.name] += 1
        if names[step.name] > 1:
            found.append(Problem(f"{field}.name", f"another step is named {step.name!r}"))
        if step.targets:
            found.append(Problem(f"{field}.dependsOn", "exit handlers run when everything else has ended and wait for nothing"))
    return found + _flow(spec, names, path)


def edit_problems(old: FlowSpec, new: FlowSpec, *, begun: Container[str]) -> list[Problem]:
    """What an edit may not do: change or take out a step of which something has begun. `failurePolicy` and what is yet to come
    of it (`retry`, `timeout`, `maxParallel` of its items) may change."""
    steps = named(new.flows)
    place = {step.name: index for index, step in enumerate(new.flows)}
    found = []
    for name, step in named(old.flows).items():
        if name not in begun:
            continue
        if name not in steps:
            found.append(Problem("spec.flows", f"step {name!r} has begun and cannot be taken out"))
        elif _fixed(steps[name]) != _fixed(step):
            text = f"step {name!r} has begun: only retry, timeout, failurePolicy and with.maxParallel may change"
            found.append(Problem(f"spec.flows[{place[name]}]", text))
    return found


def _fixed(step: Step) -> Step:
    over = step.fan_out
    if over is not None:
        over = msgspec.structs.replace(over, max_parallel=0)
    return msgspec.structs.replace(step, retry=None, timeout="", failure_policy=FAIL, fan_out=over)


def _flow(spec: FlowSpec, names: Iterable[str], path: str) -> list[Problem]:
    found = [*_duration(spec.ttl, f"{path}.ttl"), *_duration(spec.deadline, f"{path}.deadline")]
    if spec.max_parallel < 0:
        found.append(Problem(f"{path}.maxParallel", "should be greater than or equal to 0"))
    if spec.job_retain_policy not in ("", "retain", "delete"):
        found.append(Problem(f"{path}.jobRetainPolicy", f"{spec.job_retain_policy!r} is neither retain nor delete"))
    resume = spec.resume_from
    if resume is not None:
        if not resume.id:
            found.append(Problem(f"{path}.resumeFrom.id", "a request to resume needs an id of its own"))
        known = set(names)
        for index, step in enumerate(resume.steps or ()):
            if step not in known:
                found.append(Problem(f"{path}.resumeFrom.steps[{index}]", f"there is no step {step!r}"))
    return found


def _step(step: Step, path: str, *, depth: int) -> list[Problem]:
    found = [*_duration(step.timeout, f"{path}.timeout")]
    if not step.name:
        found.append(Problem(f"{path}.name", "should be at least 1 chars long"))
    if step.failure_policy not in FAILURE_POLICIES:
        text = f"{step.failure_policy!r} is none of {', '.join(FAILURE_POLICIES)}"
        found.append(Problem(f"{path}.failurePolicy", text))
    if step.retry is not None:
        found += _duration(step.retry.backoff, f"{path}.retry.backoff")
        if not 0 <= step.retry.limit <= MAX_RETRIES:
            found.append(Problem(f"{path}.retry.limit", f"{step.retry.limit} is not between 0 and {MAX_RETRIES}"))
    if step.when:
        try:
            compiled(step.when)
        except ExpressionError as error:
            found.append(Problem(f"{path}.when", str(error)))
    found += _fan_out(step, path)
    found += _named(path, "parameters", [each.name for each in step.parameters or ()])
    found += _named(path, "outputs", [each.name for each in step.outputs or ()])
    if len(step.outputs or ()) > MAX_OUTPUTS:
        found.append(Problem(f"{path}.outputs", f"{len(step.outputs or ())} outputs, at most {MAX_OUTPUTS} are kept"))
    if step.flow is not None:
        found += _nested(step, step.flow, f"{path}.flow", depth=depth)
    if step.probe is not None:
        found += _probe(step.probe, f"{path}.dependsOn.probe")
    return found


def _fan_out(step: Step, path: str) -> list[Problem]:
    over = step.fan_out
    if over is None:
        return []
    if (over.items is None) == (not over.from_output):
        return [Problem(f"{path}.with", "either items or fromOutput should be specified")]
    found = []
    if over.items is not None and len(over.items) > MAX_ITEMS:
        found.append(Problem(f"{path}.with.items", f"{len(over.items)} items, at most {MAX_ITEMS} become Jobs"))
    if over.max_parallel < 0:
        found.append(Problem(f"{path}.with.maxParallel", "should be greater than or equal to 0"))
    return found


def _named(path: str, field: str, names: Sequence[str]) -> list[Problem]:
    found = []
    for index, name in enumerate(names):
        if _IDENTIFIER.fullmatch(name) is None:
            text = f"{name!r} is no name: letters, digits, - and _, at most 63, and no digit first"
            found.append(Problem(f"{path}.{field}[{index}].name", text))
        elif name in names[:index]:
            found.append(Problem(f"{path}.{field}[{index}].name", f"{name!r} is there twice"))
    return found


def _nested(step: Step, flow: Nested, path: str, *, depth: int) -> list[Problem]:
    if bool(flow.name) == (flow.spec is not None):
        return [Problem(path, "either name or spec should be specified")]
    found = []
    for field, given in (("template", step.template), ("patch", step.patch), ("outputs", step.outputs)):
        if given:
            found.append(Problem(path, f"a nested flow has no {field} of its own"))
    if flow.spec is None:
        return found
    if depth >= MAX_DEPTH:
        return [*found, Problem(f"{path}.spec", f"flows are nested more than {MAX_DEPTH} deep")]
    try:
        inner = msgspec.convert(flow.spec, FlowSpec)
    except msgspec.ValidationError as error:
        return [*found, Problem(f"{path}.spec", str(error))]
    return found + problems(inner, path=f"{path}.spec", depth=depth + 1)


def _references(step: Step, graph: FlowGraph, steps: dict[str, Step], path: str) -> list[Problem]:
    """What a step takes from others must come from steps that have ended by then."""
    if not (step.parameters or step.fan_out):
        return []
    found = []
    for index, parameter in enumerate(step.parameters or ()):
        for name in names_in(parameter.value):
            kind, _, rest = name.partition(".")
            other = rest.partition(".outputs.")[0]
            if kind == "steps" and not graph.comes_before(other, step.name):
                text = f"{{{{{name}}}}}: {step.name!r} does not wait for a step {other!r}"
                found.append(Problem(f"{path}.parameters[{index}].value", text))
            if kind in ("item", "index") and step.fan_out is None:
                found.append(Problem(f"{path}.parameters[{index}].value", f"{{{{{name}}}}}: {step.name!r} has no items"))
    source = step.fan_out.from_output if step.fan_out is not None and step.fan_out.items is None else ""
    if source:
        other, _, output = source.rpartition(".")
        if not graph.comes_before(other, step.name):
            found.append(Problem(f"{path}.with.fromOutput", f"{source!r}: {step.name!r} does not wait for a step {other!r}"))
        elif output not in {each.name for each in steps[other].outputs or ()} and steps[other].flow is None:
            found.append(Problem(f"{path}.with.fromOutput", f"{source!r}: step {other!r} has no output {output!r}"))
    return found


def _probe(probe: Probe, path: str) -> list[Problem]:
    found = []
    for field, ports in (
        ("httpGetList", [each.port for each in probe.http_get_list or ()]),
        ("tcpSocketList", [each.port for each in probe.tcp_socket_list or ()]),
    ):
        for index, port in enumerate(ports):
            if not 1 <= port <= 65535:
                found.append(Problem(f"{path}.{field}[{index}].port", f"{port} is no port: 1 to 65535"))
    for index, each in enumerate(probe.http_get_list or ()):
        if not each.path.startswith("/") or "//" in each.path[:2]:
            found.append(
                Problem(f"{path}.httpGetList[{index}].path", f"{each.path!r} is no path of the pod: it begins with one /")
            )
    for index, status in enumerate(probe.task_status_list or ()):
        if status.phase not in _POD_PHASES:
            text = f"{status.phase!r} is none of {', '.join(_POD_PHASES)}"
            found.append(Problem(f"{path}.taskStatusList[{index}].phase", text))
    return found


def _duration(text: str, field: str) -> list[Problem]:
    if not text:
        return []
    try:
        durations.parse(text)
    except durations.InvalidDuration as error:
        return [Problem(field, str(error))]
    return []
