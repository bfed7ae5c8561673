"""The PodGroup of a Job (reference/volcano.md 1.7): gang minima, resources in quota form, partitions, topology. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from apis import keys, kinds, naming
from apis.vectors import ResourceVector, total
from member_agent.jobs.facts import Manifest, owner, tasks_in
from member_agent.views import GroupView, JobView
from policies.quotas import quota_of
from policies.shapes import Gang, Task

OWN_FIELDS: Final = (keys.RUN_NODES, "kubectl.kubernetes.io/last-applied-configuration")
"""Annotations that stay on the Job: what the withdrawal of a run noted, and what kubectl compares the Job with."""


def group_name(job: JobView) -> str:
    """Name of the PodGroup of a Job."""
    return naming.pod_group_name(job.name, uid=job.uid)


def task_minima(gang: Gang) -> dict[str, int]:
    """`minTaskMember`."""
    return {task.name: task.minimum for task in gang.tasks}


def pod_group_spec(job: JobView, manifest: Mapping[str, Any], *, priorities: Mapping[str, int]) -> Manifest:
    """`spec` of the PodGroup; `priorities` are the values of PriorityClasses. The Job must be one that can run.

    What the Job does not say is null, so that the tree takes it away where it is merged into a group.
    """
    gang = job.gang
    assert gang is not None
    return {
        "minMember": gang.minimum,
        "minTaskMember": task_minima(gang),
        "queue": job.queue,
        "priorityClassName": job.priority_class or None,
        "minResources": min_resources(job, manifest, priorities=priorities).to_quantities(),
        "networkTopology": (manifest.get("spec") or {}).get("networkTopology"),
        "subGroupPolicy": list(_sub_groups(manifest)) or None,
    }


def pod_group(job: JobView, manifest: Mapping[str, Any], *, priorities: Mapping[str, int], version: int) -> Manifest:
    """The PodGroup of version `version` of a Job."""
    metadata = manifest.get("metadata") or {}
    given = metadata.get("annotations") or {}
    spec = pod_group_spec(job, manifest, priorities=priorities)
    return {
        "apiVersion": kinds.POD_GROUP.api_version,
        "kind": kinds.POD_GROUP.kind,
        "metadata": {
            "name": group_name(job),
            "namespace": job.namespace,
            "labels": dict(metadata.get("labels") or {}),
            "annotations": {
                **{name: text for name, text in given.items() if name not in OWN_FIELDS},
                keys.JOB_VERSION: str(version),
                **({} if job.record is None or job.record.release else {keys.HOLD_WANTED: str(job.record.epoch)}),
            },
            "ownerReferences": [owner(job)],
        },
        "spec": {name: value for name, value in spec.items() if value is not None},
    }


def differs(job: JobView, group: GroupView) -> bool:
    """Whether the group is not what the Job asks for now, without the Job's manifest.

    `minResources` are not compared: they follow from minima, replicas and templates, and those change only with
    `metadata.generation`.
    """
    gang = job.gang
    if gang is None:
        return False
    if (group.min_member, group.queue, group.priority_class) != (gang.minimum, job.queue, job.priority_class):
        return True
    return dict(group.min_task_member) != task_minima(gang)


def pod_group_patch(job: JobView, manifest: Mapping[str, Any], group: GroupView, *, priorities: Mapping[str, int]) -> Manifest:
    """The merge patch that brings the group in line with its Job: names that it counts too much become null."""
    spec = pod_group_spec(job, manifest, priorities=priorities)
    for field, there in (("minTaskMember", dict(group.min_task_member)), ("minResources", group.min_resources)):
        spec[field] = {**{name: None for name in there if name not in spec[field]}, **spec[field]}
    return {"spec": spec}


# --- minResources ----------------------------------------------------------------------------------------------------


def min_resources(job: JobView, manifest: Mapping[str, Any], *, priorities: Mapping[str, int]) -> ResourceVector:
    """What the gang's minimum asks for, in quota form. Raises ValueError for a template that cannot be read."""
    gang = job.gang
    assert gang is not None
    templates = {name: task.get("template") or {} for name, task in tasks_in(manifest)}

    def priority(task: Task) -> int:
        named = (templates.get(task.name, {}).get("spec") or {}).get("priorityClassName") or job.priority_class
        return priorities.get(named, 0)

    counts = counted(sorted(gang.tasks, key=priority, reverse=True), minimum=gang.minimum)
    return total(quota_of(templates.get(task.name, {})) * count for task, count in counts)


def counted(tasks: Iterable[Task], *, minimum: int) -> Iterator[tuple[Task, int]]:
    """How many pods of each task make up the minimum; `tasks` with the most important first.

    The minima of all tasks and then the rest in order; only where those come to more than the Job's own minimum are the
    first pods in order taken without regard to them.
    """
    ordered = list(tasks)
    floors = {task.name: min(task.minimum, task.replicas) for task in ordered}
    if sum(floors.values()) > minimum:
        floors = dict.fromkeys(floors, 0)
    rest = minimum - sum(floors.values())
    for task in ordered:
        more = min(rest, task.replicas - floors[task.name])
        rest -= more
        if floors[task.name] + more:
            yield task, floors[task.name] + more


# --- partitions ------------------------------------------------------------------------------------------------------


def _sub_groups(manifest: Mapping[str, Any]) -> Iterator[Manifest]:
    """One entry per task with partitions: which pods form one, and how many partitions the gang needs."""
    for name, task in tasks_in(manifest):
        policy = task.get("partitionPolicy")
        if not policy:
            continue
        entry = {
            "name": name,
            "subGroupSize": policy.get("partitionSize"),
            "minSubGroups": policy.get("minPartitions") or 0,
            "labelSelector": {"matchLabels": {keys.TASK_SPEC: name}},
            "matchLabelKeys": [keys.PARTITION_ID],
            "networkTopology": policy.get("networkTopology"),
        }
        yield {field: value for field, value in entry.items() if value is not None}
