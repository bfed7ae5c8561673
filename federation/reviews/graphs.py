"""The steps of a JobFlow as Jobs that could be planned: fan-outs unfolded, nested flows put in place. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import orjson

from apis import keys
from controllers.flows.bodies import flow_body, job_body
from controllers.flows.plans import StepJob
from controllers.flows.snapshot import FlowView, project_flow
from controllers.flows.steps import instances
from federation.reviews.questions import BadQuestion
from policies.flows.expressions import ExpressionError, filled, item_values
from policies.flows.graph import FlowGraph
from policies.flows.rules import problems
from policies.flows.spec import Step

DEEPEST: Final = 4
"""Flows within flows."""
MOST_JOBS: Final = 300
"""Jobs of one flow that are planned: each takes a look of the planner."""

Documents = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class StepNode:
    """One Job to plan. `name` is that of the Job, `step` the way to its step (`outer/inner`), `targets` are names of nodes.
    `manifest` None: it could not be made, `problem` says why."""

    name: str
    step: str
    targets: tuple[str, ...] = ()
    manifest: Mapping[str, Any] | None = None
    problem: str = ""


@dataclass(slots=True)
class Unfolded:
    """All Jobs of a flow with what they wait for, targets first; and what was taken for granted."""

    nodes: list[StepNode] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    max_parallel: int = 0

    def note(self, text: str) -> None:
        """Say it once."""
        if text not in self.notes:
            self.notes.append(text)


def flow_of(manifest: Mapping[str, Any], *, namespace: str) -> FlowView:
    """The flow as the controller sees it; raises BadQuestion where it would refuse it."""
    meta = manifest.get("metadata")
    named = {**(meta if isinstance(meta, dict) else {}), "namespace": namespace}
    named.setdefault("name", "flow")
    try:
        flow = project_flow(orjson.dumps({"metadata": named, "spec": manifest.get("spec") or {}}))
    except (msgspec.MsgspecError, orjson.JSONEncodeError) as error:
        raise BadQuestion("spec.manifest", str(error)) from error
    found = problems(flow.spec)
    if found:
        raise BadQuestion(f"spec.manifest.{found[0].field}", found[0].message)
    if not flow.steps:
        raise BadQuestion("spec.manifest.spec.flows", "it has no steps")
    return flow


def named_in(flow: FlowView) -> tuple[frozenset[str], frozenset[str]]:
    """The JobTemplates and the JobFlows that its steps are made from, nested specs included."""
    templates: set[str] = set()
    flows: set[str] = set()
    _collect((*flow.steps, *flow.handlers), templates, flows, depth=0)
    return frozenset(templates), frozenset(flows)


def _collect(steps: Iterable[Step], templates: set[str], flows: set[str], *, depth: int) -> None:
    for step in steps:
        if step.flow is None:
            templates.add(step.source)
        elif step.flow.spec is None:
            flows.add(step.flow.name)
        elif depth < DEEPEST:
            inner = _read(step.flow.spec)
            if inner is not None:
                _collect((*inner.steps, *inner.handlers), templates, flows, depth=depth + 1)


def _read(spec: Mapping[str, Any]) -> FlowView | None:
    try:
        return project_flow(orjson.dumps({"metadata": {"name": "nested"}, "spec": spec}))
    except (msgspec.MsgspecError, orjson.JSONEncodeError):
        return None


def unfolded(flow: FlowView, *, templates: Documents, flows: Documents) -> Unfolded:
    """Every Job of the flow. What is not known before it runs (values that steps leave, conditions) is told in the notes."""
    found = Unfolded(max_parallel=flow.spec.max_parallel)
    _Unfolding(found, templates, flows).flow(flow, prefix="", before=(), depth=0)
    if len(found.nodes) > MOST_JOBS:
        found.note(f"more than {MOST_JOBS} Jobs: the first are reckoned")
        del found.nodes[MOST_JOBS:]
    return found


@dataclass(slots=True)
class _Unfolding:
    found: Unfolded
    templates: Documents
    flows: Documents

    def flow(self, flow: FlowView, *, prefix: str, before: tuple[str, ...], depth: int) -> tuple[str, ...]:
        """Add its nodes; answers those that nothing in it waits for: who waits for the flow waits for them."""
        graph = FlowGraph({step.name: step.targets for step in flow.steps})
        steps = {step.name: step for step in flow.steps}
        nodes_of: dict[str, tuple[str, ...]] = {}
        for name in graph.ordered():
            targets = [node for target in graph.targets(name) for node in nodes_of[target]]
            nodes_of[name] = self.step(flow, steps[name], prefix, tuple(targets) or before, depth)
        waited_for = {target for name in steps for target in graph.targets(name)}
        ends = tuple(node for name in steps if name not in waited_for for node in nodes_of[name])
        for handler in flow.handlers:
            self.step(flow, handler, prefix, ends, depth)
        return ends

    def step(self, flow: FlowView, step: Step, prefix: str, targets: tuple[str, ...], depth: int) -> tuple[str, ...]:
        if len(self.found.nodes) >= MOST_JOBS:
            self.found.note(f"more than {MOST_JOBS} Jobs: the first are reckoned")
            return ()
        if step.when:
            self.found.note("steps with a condition (when) are reckoned as if they run")
        if step.retry is not None:
            self.found.note("steps are reckoned as if the first attempt succeeds")
        if step.probe is not None:
            self.found.note("probes are reckoned as if they answer when their targets end")
        if step.fan_out is not None and step.fan_out.items is None:
            source = step.fan_out.from_output
            self.found.note(f"step {prefix}{step.name} becomes as many Jobs as {source} says: one is reckoned")
        items = step.fan_out.items if step.fan_out is not None else None
        found = instances(flow.name, step, items or None)
        made = [self._job_of(flow, step, each.name, each.item, each.value) for each in found]
        if step.flow is not None:
            return tuple(end for job in made for end in self._nested(flow, job, prefix, targets, depth))
        for job in made:
            self._plain(flow, job, prefix, targets)
        return tuple(f"{prefix}{job.job}" for job in made)

    def _job_of(self, flow: FlowView, step: Step, name: str, item: int, value: Any) -> StepJob:
        values = {"flow.name": flow.name, "flow.namespace": flow.namespace}
        if item >= 0:
            values |= item_values(value, index=item)
        parameters = {}
        for each in step.parameters or ():
            try:
                parameters[each.name] = filled(each.value, values)
            except ExpressionError:
                parameters[each.name] = ""
                self.found.note("values that steps leave are not known yet: texts that name them are reckoned empty")
        values |= {f"parameters.{key}": text for key, text in parameters.items()}
        return StepJob(step, step.source, name, values=values, parameters=parameters, item=item)

    def _plain(self, flow: FlowView, job: StepJob, prefix: str, targets: tuple[str, ...]) -> None:
        name, at = f"{prefix}{job.job}", f"{prefix}{job.step}"
        template = self.templates.get(job.template)
        if template is None:
            self.found.nodes.append(StepNode(name, at, targets, problem=f"JobTemplate {job.template} is not there"))
            return
        try:
            body = job_body(flow, job, template=dict(template))
        except ExpressionError:
            self.found.note("values that steps leave are not known yet: texts that name them are reckoned empty")
            bare = dataclasses.replace(job, spec=msgspec.structs.replace(job.spec, patch=None, parameters=None), item=-1)
            body = job_body(flow, bare, template=dict(template))
        except (TypeError, ValueError, AttributeError) as error:
            self.found.nodes.append(StepNode(name, at, targets, problem=f"JobTemplate {job.template}: {error}"))
            return
        body["metadata"]["annotations"] = {**_notes(template), **body["metadata"]["annotations"]}
        self.found.nodes.append(StepNode(name, at, targets, body))

    def _nested(self, flow: FlowView, job: StepJob, prefix: str, targets: tuple[str, ...], depth: int) -> tuple[str, ...]:
        name, at = f"{prefix}{job.job}", f"{prefix}{job.step}"
        nested = job.spec.flow
        source = self.flows.get(nested.name) if nested is not None and nested.spec is None else None
        problem = ""
        if nested is not None and nested.spec is None and source is None:
            problem = f"JobFlow {nested.name} is not there"
        elif depth >= DEEPEST:
            problem = f"flows are reckoned {DEEPEST} deep"
        else:
            try:
                inner = flow_of(flow_body(flow, job, source=source), namespace=flow.namespace)
                return self.flow(inner, prefix=f"{at}/", before=targets, depth=depth + 1)
            except BadQuestion as error:
                problem = f"{error.field}: {error.message}"
        self.found.nodes.append(StepNode(name, at, targets, problem=problem))
        return (name,)


def _notes(template: Mapping[str, Any]) -> dict[str, str]:
    notes = (template.get("metadata") or {}).get("annotations") or {}
    return {key: value for key, value in notes.items() if key.startswith(f"{keys.GROUP}/")}
