"""The rules of a PodGroup (reference/volcano.md 2.1): the queue of its namespace, a queue that takes it, tiers that agree."""

from __future__ import annotations

from typing import Final

from apis import kinds
from apis.keys import DEFAULT_QUEUE
from apis.scheduling import PodGroup, SubGroupPolicy
from controllers.admission.jobs import QueueLookup, queue_problems, topology_problems
from controllers.admission.problems import Problem, at_least, is_subdomain

NAMESPACE_QUEUE: Final = "scheduling.volcano.sh/queue-name"
"""Annotation of a namespace: the queue of PodGroups that name none."""


def default_pod_group(group: PodGroup, *, namespace_queue: str) -> PodGroup:
    """The PodGroup with the queue of its namespace ("" where that names none) in place of the default one."""
    queue = group.spec.queue or DEFAULT_QUEUE
    if queue == DEFAULT_QUEUE and namespace_queue:
        queue = namespace_queue
    return group.model_copy(update={"spec": group.spec.model_copy(update={"queue": queue})})


def validate_pod_group(group: PodGroup, *, queue: QueueLookup | None = None) -> list[Problem]:
    """Everything that keeps a new PodGroup from being taken. The group of a Job goes the way its Job went: a queue that closes
    after the Job was taken stops nothing of it."""
    spec, name = group.spec, group.spec.queue or DEFAULT_QUEUE
    found = at_least(0, spec.min_member, field="spec.minMember")
    found += topology_problems(spec.network_topology, field="spec.networkTopology")
    for index, part in enumerate(spec.sub_group_policy or []):
        found += _part_problems(part, field=f"spec.subGroupPolicy[{index}]")
    if not is_subdomain(name):
        found.append(Problem("spec.queue", f"{name!r} should match a DNS-1123 subdomain"))
    elif queue is not None and not _of_a_job(group):
        found += queue_problems(name, facts=queue(name))
    return found


def _part_problems(part: SubGroupPolicy, *, field: str) -> list[Problem]:
    return [
        *at_least(1, part.sub_group_size, field=f"{field}.subGroupSize"),
        *at_least(0, part.min_sub_groups, field=f"{field}.minSubGroups"),
        *topology_problems(part.network_topology, field=f"{field}.networkTopology"),
    ]


def _of_a_job(group: PodGroup) -> bool:
    owners = group.metadata.owner_references or []
    return any(each.controller and (each.api_version, each.kind) == (kinds.JOB.api_version, kinds.JOB.kind) for each in owners)
