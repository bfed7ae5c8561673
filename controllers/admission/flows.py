"""The rules of a JobFlow (reference/volcano.md 3)."""

from __future__ import annotations

import msgspec

from apis.flow import JobFlow, JobFlowSpec
from controllers.admission.problems import Problem, among, first_cycle
from policies.flows.rules import edit_problems, problems
from policies.flows.spec import FlowSpec

RETAIN_POLICIES = ("retain", "delete")


def validate_flow(flow: JobFlow) -> list[Problem]:
    """Everything that keeps a JobFlow from being run; empty when nothing does."""
    return flow_problems(flow.spec, field="spec")


def flow_problems(spec: JobFlowSpec, *, field: str) -> list[Problem]:
    """What is wrong with a spec that stands at `field`.

    A step that is named twice counts once, with the targets of both, as upstream has it.
    """
    steps = spec.flows or []
    names = {step.name for step in steps}
    found = among(RETAIN_POLICIES, spec.job_retain_policy, field=f"{field}.jobRetainPolicy")
    waits: dict[str, list[str]] = {}
    first: dict[str, int] = {}
    for index, step in enumerate(steps):
        targets = (step.depends_on.targets if step.depends_on else None) or []
        first.setdefault(step.name, index)
        waits.setdefault(step.name, []).extend(target for target in targets if target in names)
        if not step.name:
            found.append(Problem(f"{field}.flows[{index}].name", "should be at least 1 chars long"))
        found += [
            Problem(
                f"{field}.flows[{index}].dependsOn.targets[{place}]",
                f"step {step.name!r} waits for {target!r}: vertex is not defined",
            )
            for place, target in enumerate(targets)
            if target not in names
        ]
    cycle = first_cycle(waits)
    if cycle is not None:
        place = f"{field}.flows[{first[cycle[0]]}].dependsOn.targets"
        found.append(Problem(place, f"jobflow Flow is not DAG: {' waits for '.join(cycle)}"))
    told = {problem.field for problem in found}
    own = problems(_converted(spec), path=field, graph_too=False)
    return found + [Problem(each.field, each.message) for each in own if each.field not in told]


def validate_flow_edit(old: JobFlow, new: JobFlow) -> list[Problem]:
    """What an edit of a running flow may not do: steps that have begun stay what they are."""
    recorded = (old.status.job_status_list if old.status else None) or []
    begun = {record.step for record in recorded if record.step}
    return [
        Problem(each.field, each.message) for each in edit_problems(_converted(old.spec), _converted(new.spec), begun=begun)
    ]


def _converted(spec: JobFlowSpec) -> FlowSpec:
    return msgspec.convert(spec.model_dump(by_alias=True, exclude_none=True), FlowSpec)
