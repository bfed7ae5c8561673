"""The objects that a flow makes: a step's Job from its template, or the JobFlow of a nested step. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from apis import keys, kinds
from controllers.flows.plans import StepJob
from controllers.flows.snapshot import FlowView, creator
from policies.flows.expressions import filled
from policies.flows.inputs import reads_with
from policies.flows.merging import merged

_PARAMETER: Final = re.compile(r"\{\{\s*parameters\.([^{}\s]+)\s*\}\}")
_NOT_IN_VARIABLES: Final = re.compile(r"[^A-Z0-9]")


def job_body(flow: FlowView, step: StepJob, *, template: dict[str, Any]) -> dict[str, Any]:
    """The Job of a step: the template's spec with the step's patch and parameters, owned by the flow, marked with flow and
    template. Raises ExpressionError for a text that names what is not there."""
    metadata = template.get("metadata", {})
    kept = {k: v for k, v in (metadata.get("annotations") or {}).items() if k.startswith(f"{keys.GROUP}/")}
    marks = {keys.CREATED_BY_TEMPLATE: creator(flow.namespace, step.template)}
    kept[keys.PATH_AHEAD] = str(step.ahead)
    if reads := reads_with(kept.get(keys.READS, ""), step.reads):
        kept[keys.READS] = reads
    if step.spec.outputs:
        wanted = [{"name": each.name, "task": each.task, "index": each.index} for each in step.spec.outputs]
        kept[keys.OUTPUTS] = json.dumps(wanted, separators=(",", ":"))
    return {
        "apiVersion": kinds.JOB.api_version,
        "kind": kinds.JOB.kind,
        "metadata": _metadata(flow, step, marks=marks, annotations=kept),
        "spec": _job_spec(step, template.get("spec", {})),
    }


def flow_body(flow: FlowView, step: StepJob, *, source: Mapping[str, Any] | None) -> dict[str, Any]:
    """The JobFlow of a nested step; `source` is the flow that it names, None where the step writes the spec itself."""
    nested = step.spec.flow
    spec = dict(source.get("spec") or {}) if source is not None else dict((nested.spec if nested else None) or {})
    if source is not None:
        spec.pop("suspend", None)  # a flow that is kept as a pattern is suspended: its copies are not
        spec.pop("resumeFrom", None)
    return {
        "apiVersion": kinds.JOB_FLOW.api_version,
        "kind": kinds.JOB_FLOW.kind,
        "metadata": _metadata(flow, step, marks={}, annotations={}),
        "spec": _parametrised(spec, step.parameters),
    }


def _metadata(flow: FlowView, step: StepJob, *, marks: Mapping[str, str], annotations: Mapping[str, str]) -> dict[str, Any]:
    told = {**marks, keys.CREATED_BY_FLOW: creator(flow.namespace, flow.name)}
    if flow.created_by_cron:
        told[keys.CREATED_BY_CRON] = flow.created_by_cron
    return {
        "name": step.job,
        "namespace": flow.namespace,
        "finalizers": [keys.FLOW_FINALIZER],
        # A label value holds 63 characters; the annotation is what is read, the label serves selectors.
        "labels": {key: value for key, value in told.items() if len(value) <= 63},
        "annotations": {**annotations, **told},
        "ownerReferences": [
            {
                "apiVersion": kinds.JOB_FLOW.api_version,
                "kind": kinds.JOB_FLOW.kind,
                "name": flow.name,
                "uid": flow.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }


def _job_spec(step: StepJob, spec: dict[str, Any]) -> dict[str, Any]:
    patch = step.spec.patch.job_spec if step.spec.patch is not None else None
    if patch:
        spec = merged(spec, filled(patch, step.values))
    if step.spec.parameters or step.item >= 0:
        spec = _with_variables(filled(spec, step.values), _variables(step))
    return spec


def _variables(step: StepJob) -> list[dict[str, str]]:
    """What containers get: `PARAM_<NAME>` for every parameter, and of a fan-out `FLOW_ITEM` and `FLOW_INDEX`."""
    found = {f"PARAM_{_NOT_IN_VARIABLES.sub('_', name.upper())}": value for name, value in step.parameters.items()}
    if step.item >= 0:
        found |= {"FLOW_ITEM": step.values["item"], "FLOW_INDEX": step.values["index"]}
    return [{"name": name, "value": value} for name, value in found.items()]


def _with_variables(spec: dict[str, Any], variables: list[dict[str, str]]) -> dict[str, Any]:
    """Every container gets them; one that has such a variable keeps its own."""
    tasks = [_task_with(task, variables) for task in spec.get("tasks") or []]
    return {**spec, "tasks": tasks} if tasks else spec


def _task_with(task: dict[str, Any], variables: list[dict[str, str]]) -> dict[str, Any]:
    template = dict(task.get("template") or {})
    pod = dict(template.get("spec") or {})
    for field in ("initContainers", "containers"):
        if pod.get(field):
            pod[field] = [_container_with(container, variables) for container in pod[field]]
    return {**task, "template": {**template, "spec": pod}}


def _container_with(container: dict[str, Any], variables: list[dict[str, str]]) -> dict[str, Any]:
    own = container.get("env") or []
    named = {each.get("name") for each in own}
    # In front: variables of the container may refer to them.
    return {**container, "env": [*(each for each in variables if each["name"] not in named), *own]}


def _parametrised(value: Any, parameters: Mapping[str, str]) -> Any:
    """A nested flow with the parameters that its step gives it; whatever else it names is its own."""
    if isinstance(value, str):
        return _PARAMETER.sub(lambda match: parameters.get(match.group(1), match.group()), value)
    if isinstance(value, list):
        return [_parametrised(each, parameters) for each in value]
    if isinstance(value, Mapping):
        return {key: _parametrised(each, parameters) for key, each in value.items()}
    return value
