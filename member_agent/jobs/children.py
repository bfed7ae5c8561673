"""What a Job is turned into: its PodGroup and its pods (reference/volcano.md 1.7). Pure: manifests in, manifests out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from apis import keys, kinds, naming
from apis.runs import RunRecord
from member_agent.jobs.orders import PodOrder
from member_agent.jobs.planner import min_resources, task_minima
from member_agent.views import JobView

Manifest = dict[str, Any]

RETRY_FIELDS: Final = ("volcano.sh/preemptable", "volcano.sh/cooldown-time", "volcano.sh/revocable-zone")
"""Annotations that pods take over from their Job."""
BUDGETS: Final = ("volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable")
"""Of these, pods take over the first that the Job has."""
OWN_FIELDS: Final = (keys.RUN_NODES,)
"""Annotations that stay on the Job."""
INDEX_ENV: Final = ("VC_TASK_INDEX", "VK_TASK_INDEX")


def owner(job: JobView) -> Manifest:
    """The controlling owner reference."""
    return {
        "apiVersion": kinds.JOB.api_version,
        "kind": kinds.JOB.kind,
        "name": job.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pod_group_spec(job: JobView, manifest: Mapping[str, Any]) -> Manifest:
    """`spec` of the PodGroup. The Job must be one that can run."""
    assert job.gang is not None
    spec: Manifest = {
        "minMember": job.gang.minimum,
        "minTaskMember": task_minima(job.gang),
        "queue": job.queue,
        "minResources": min_resources(job.gang).to_quantities(),
    }
    if job.priority_class:
        spec["priorityClassName"] = job.priority_class
    topology = manifest.get("spec", {}).get("networkTopology")
    if topology:
        spec["networkTopology"] = topology
    return spec


def pod_group(job: JobView, manifest: Mapping[str, Any]) -> Manifest:
    """The PodGroup of a Job."""
    metadata = manifest.get("metadata", {})
    annotations = {name: text for name, text in (metadata.get("annotations") or {}).items() if name not in OWN_FIELDS}
    return {
        "apiVersion": kinds.POD_GROUP.api_version,
        "kind": kinds.POD_GROUP.kind,
        "metadata": {
            "name": naming.pod_group_name(job.name, uid=job.uid),
            "namespace": job.namespace,
            "labels": dict(metadata.get("labels") or {}),
            "annotations": annotations,
            "ownerReferences": [owner(job)],
        },
        "spec": pod_group_spec(job, manifest),
    }


def pod(job: JobView, manifest: Mapping[str, Any], order: PodOrder, *, scheduler: str) -> Manifest:
    """One pod. `scheduler` is given to pods whose Job names none."""
    template = _template(manifest, order.task)
    metadata, spec = dict(template.get("metadata") or {}), dict(template.get("spec") or {})
    spec["schedulerName"] = spec.get("schedulerName") or job.scheduler or scheduler
    if job.priority_class and not spec.get("priorityClassName"):
        spec["priorityClassName"] = job.priority_class
    extra = _env(job, order, plugins=manifest.get("spec", {}).get("plugins") or {})
    for field in ("initContainers", "containers"):
        if spec.get(field):
            spec[field] = [_with_env(container, extra) for container in spec[field]]
    return {
        "apiVersion": kinds.POD.api_version,
        "kind": kinds.POD.kind,
        "metadata": {
            "name": order.name,
            "namespace": job.namespace,
            "labels": {**(metadata.get("labels") or {}), **_labels(job, order)},
            "annotations": {**(metadata.get("annotations") or {}), **_annotations(job, manifest, order)},
            "ownerReferences": [owner(job)],
        },
        "spec": spec,
    }


def _template(manifest: Mapping[str, Any], task: str) -> Mapping[str, Any]:
    for index, each in enumerate(manifest["spec"]["tasks"]):
        if (each.get("name") or f"default{index}") == task:
            template: Mapping[str, Any] = each.get("template") or {}
            return template
    raise LookupError(f"no task {task} in the manifest")


def _labels(job: JobView, order: PodOrder) -> dict[str, str]:
    return {
        keys.JOB_NAME: job.name,
        keys.JOB_NAMESPACE: job.namespace,
        keys.TASK_SPEC: order.task,
        keys.TASK_INDEX: str(order.index),
        keys.QUEUE_NAME: job.queue,
    }


def _annotations(job: JobView, manifest: Mapping[str, Any], order: PodOrder) -> dict[str, str]:
    given = manifest.get("metadata", {}).get("annotations") or {}
    taken = {name: given[name] for name in RETRY_FIELDS if name in given}
    budget = next((name for name in BUDGETS if name in given), None)
    if budget is not None:
        taken[budget] = given[budget]
    if keys.RUN in given:
        taken[keys.RUN] = given[keys.RUN]
    return {
        **taken,
        keys.TASK_INDEX: str(order.index),
        keys.TASK_SPEC: order.task,
        keys.JOB_NAME: job.name,
        keys.QUEUE_NAME: job.queue,
        keys.JOB_VERSION: str(job.status.version),
        keys.TEMPLATE_ID: f"{job.name}-{order.task}",
        keys.JOB_RETRY_COUNT: str(job.status.retry_count),
        keys.GROUP_NAME: naming.pod_group_name(job.name, uid=job.uid),
    }


def _env(job: JobView, order: PodOrder, *, plugins: Mapping[str, Any]) -> list[dict[str, str]]:
    """The epoch for storage that refuses older writers; the index where the env plugin is asked for."""
    extra = []
    record: RunRecord | None = job.record
    if record is not None:
        extra.append({"name": keys.EPOCH_ENV, "value": str(record.epoch)})
    if "env" in plugins:
        extra += [{"name": name, "value": str(order.index)} for name in INDEX_ENV]
    return extra


def _with_env(container: Mapping[str, Any], extra: list[dict[str, str]]) -> Manifest:
    if not extra:
        return dict(container)
    named = {each["name"] for each in extra}
    kept = [each for each in container.get("env") or [] if each.get("name") not in named]
    return {**container, "env": [*kept, *extra]}
