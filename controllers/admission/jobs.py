"""The rules of a Job (reference/volcano.md 1.4): what schema and CEL say, said again, and what they cannot say.

Rules stand in the order of the reference. Every problem is reported, not only the first.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from apis.batch import PLUGINS, UPDATE_MESSAGE, Job, JobSpec, NetworkTopology, Task, Volume
from apis.keys import DEFAULT_QUEUE, ROOT_QUEUE
from apis.naming import pod_name
from apis.scheduling import OPEN
from controllers.admission import templates
from controllers.admission.annotations import annotation_problems
from controllers.admission.defaults import default_job, task_name
from controllers.admission.policies import policy_problems
from controllers.admission.problems import (
    LABEL_LENGTH,
    Problem,
    among,
    at_least,
    duration,
    first_cycle,
    is_label,
    is_qualified,
    is_subdomain,
)

ONE_CLAIM: Final = "either VolumeClaim or VolumeClaimName must be specified, and not both"
MADE_CLAIM: Final = "volume-pvc-"
"""Prefix of a claim's name in `status.controlledResources`."""
TOPOLOGY_POLICIES: Final = ("none", "best-effort", "restricted", "single-numa-node")
ITERATIONS: Final = ("any", "all")
_UNPINNED: Final = ("", "none")


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """What admission asks of a Queue. An empty state is Open: nobody has closed it."""

    state: str = OPEN
    leaf: bool = True
    shut: str = ""
    """Why the namespace of the Job may not use it; "" when it may."""


QueueLookup = Callable[[str], QueueFacts | None]
"""What is known of the Queue of this name; None: there is none."""


def validate_job(job: Job, *, queue: QueueLookup | None = None, plugins: Collection[str] = PLUGINS) -> list[Problem]:
    """Everything that keeps a Job from being taken; empty when nothing does. Without a lookup the Queue is not judged.

    `plugins`: names of the job plugins that are installed. A Job that was completed by `default_job`, and one whose claims a
    controller has named, pass as they did before.
    """
    found = [*_name_problems(job), *annotation_problems(job)]
    found += spec_problems(job.spec, job=job.metadata.name, plugins=plugins)
    found += _claim_problems(job)
    if queue is not None:
        name = job.spec.queue or DEFAULT_QUEUE
        found += queue_problems(name, facts=queue(name))
    return found


def spec_problems(spec: JobSpec, *, job: str = "", plugins: Collection[str] = PLUGINS, field: str = "spec") -> list[Problem]:
    """What is wrong with what a Job called `job` runs; `field` is where its spec stands."""
    tasks = spec.tasks or []
    names = [task_name(task, index=index) for index, task in enumerate(tasks)]
    found = _bounds(spec, field=field)
    if not tasks:
        found.append(Problem(f"{field}.tasks", "No task specified in job spec"))
    for index, (task, name) in enumerate(zip(tasks, names, strict=True)):
        if name in names[:index]:
            found.append(Problem(f"{field}.tasks[{index}].name", f"duplicated task name {name}"))
        found += _task_problems(task, name=name, job=job, field=f"{field}.tasks[{index}]")
    found += _minimum_problems(spec, field=field)
    found += policy_problems(spec.policies or [], field=f"{field}.policies")
    found += topology_problems(spec.network_topology, field=f"{field}.networkTopology")
    found += _plugin_problems(spec, names=names, plugins=plugins, field=f"{field}.plugins")
    found += _volume_problems(spec.volumes or [], field=f"{field}.volumes")
    found += _dependency_problems(tasks, names=names, field=f"{field}.tasks")
    return found


def validate_job_update(old: Job, *, new: Job) -> list[Problem]:
    """Everything that keeps a change of a Job from being taken.

    What stays as it was is not judged: an old Job that a newer rule would refuse can still be annotated, stopped and deleted.
    """
    before = annotation_problems(old)
    found = [problem for problem in annotation_problems(new) if problem not in before]
    if new.spec == old.spec:
        return found
    was, wanted = old.spec, new.spec
    tasks = wanted.tasks or []
    found += at_least(0, wanted.min_available, field="spec.minAvailable")
    for index, task in enumerate(tasks):
        found += _count_problems(task, field=f"spec.tasks[{index}]")
        found += _partition_problems(task, field=f"spec.tasks[{index}]")
    found += topology_problems(wanted.network_topology, field="spec.networkTopology")
    found += _minimum_problems(wanted, field="spec")
    if len(tasks) != len(was.tasks or []):
        found.append(Problem("spec.tasks", "job updates may not add or remove tasks"))
    elif _fixed(default_job(old).spec) != _fixed(default_job(new).spec):
        # Completed, because whoever applies the same manifest again writes lists without what was filled in.
        found.append(Problem("spec", UPDATE_MESSAGE))
    return found


def queue_problems(name: str, *, facts: QueueFacts | None) -> list[Problem]:
    """Why Jobs may not be submitted to this Queue."""
    if name == ROOT_QUEUE:
        return [Problem("spec.queue", "can not submit job to root queue")]
    if facts is None:
        return [Problem("spec.queue", f"unable to find job queue: queue {name!r} does not exist")]
    if facts.state not in ("", OPEN):
        return [Problem("spec.queue", f"can only submit job to queue with state `Open`, queue `{name}` is `{facts.state}`")]
    if not facts.leaf:
        return [Problem("spec.queue", f"can only submit job to leaf queue, queue `{name}` has child queues")]
    return [Problem("spec.queue", facts.shut)] if facts.shut else []


def _name_problems(job: Job) -> list[Problem]:
    name = job.metadata.name
    if not name or is_qualified(name):
        return []
    return [Problem("metadata.name", f"{name!r} can not stand in the label that its pods carry: at most 63 characters")]


def _bounds(spec: JobSpec, *, field: str) -> list[Problem]:
    found = [
        *at_least(0, spec.min_available, field=f"{field}.minAvailable"),
        *at_least(0, spec.max_retry, field=f"{field}.maxRetry"),
        *at_least(0, spec.ttl_seconds_after_finished, field=f"{field}.ttlSecondsAfterFinished"),
        *at_least(1, spec.min_success, field=f"{field}.minSuccess"),
        *duration(spec.running_estimate, field=f"{field}.runningEstimate"),
    ]
    if len(spec.scheduler_name or "") > LABEL_LENGTH:
        found.append(Problem(f"{field}.schedulerName", f"may not be longer than {LABEL_LENGTH}"))
    for place, name in (("queue", spec.queue), ("priorityClassName", spec.priority_class_name)):
        if name and not is_subdomain(name):
            found.append(Problem(f"{field}.{place}", f"{name!r} should match a DNS-1123 subdomain"))
    return found


def _task_problems(task: Task, *, name: str, job: str, field: str) -> list[Problem]:
    found = [*_count_problems(task, field=field), *_partition_problems(task, field=field)]
    if not is_label(name):
        found.append(Problem(f"{field}.name", f"{name!r} should match a DNS-1123 label of at most 63 characters"))
    last = pod_name(job or "job", task=name, index=max((task.replicas or 0) - 1, 0))
    if not is_qualified(last):
        found.append(
            Problem(f"{field}.name", f"its pods would be called {last!r}, which is longer than 63 characters or no name")
        )
    found += at_least(0, task.max_retry, field=f"{field}.maxRetry")
    found += policy_problems(task.policies or [], field=f"{field}.policies")
    found += templates.template_problems(task.template, field=f"{field}.template")
    found += among(TOPOLOGY_POLICIES, task.topology_policy, field=f"{field}.topologyPolicy")
    if (task.topology_policy or "") not in _UNPINNED:
        for place, container in templates.containers(task.template, field=f"{field}.template"):
            if not templates.pins_whole_cores(container):
                found.append(Problem(f"{field}.topologyPolicy", f"needs whole CPUs requested in every container: {place}"))
    return found


def _count_problems(task: Task, *, field: str) -> list[Problem]:
    found = [
        *at_least(0, task.replicas, field=f"{field}.replicas"),
        *at_least(0, task.min_available, field=f"{field}.minAvailable"),
    ]
    if task.min_available is not None and task.min_available > (task.replicas or 0):
        found.append(
            Problem(
                f"{field}.minAvailable",
                f"'minAvailable' is greater than 'replicas' in task: {task.min_available} of {task.replicas or 0}",
            )
        )
    return found


def _partition_problems(task: Task, *, field: str) -> list[Problem]:
    policy = task.partition_policy
    if policy is None:
        return []
    path = f"{field}.partitionPolicy"
    found = [
        *at_least(1, policy.total_partitions, field=f"{path}.totalPartitions"),
        *at_least(1, policy.partition_size, field=f"{path}.partitionSize"),
        *at_least(0, policy.min_partitions, field=f"{path}.minPartitions"),
        *topology_problems(policy.network_topology, field=f"{path}.networkTopology"),
    ]
    if policy.total_partitions * policy.partition_size != (task.replicas or 0):
        found.append(Problem(path, f"'replicas' {task.replicas or 0} is not equal to totalPartitions * partitionSize"))
    minimum = (policy.min_partitions or 0) * policy.partition_size
    if policy.min_partitions and task.min_available is not None and task.min_available != minimum:
        found.append(Problem(f"{field}.minAvailable", "'minAvailable' is not equal to minPartitions * partitionSize"))
    return found


def _minimum_problems(spec: JobSpec, *, field: str) -> list[Problem]:
    total = sum(task.replicas or 0 for task in spec.tasks or [])
    if spec.min_available is None or not spec.tasks or spec.min_available <= total:
        return []
    message = f"job 'minAvailable' should not be greater than total replicas in tasks: {spec.min_available} of {total}"
    return [Problem(f"{field}.minAvailable", message)]


def topology_problems(topology: NetworkTopology | None, *, field: str) -> list[Problem]:
    """What is wrong with a bound on the tree of HyperNodes."""
    if topology is None:
        return []
    found = among(("hard", "soft"), topology.mode, field=f"{field}.mode")
    found += at_least(0, topology.highest_tier_allowed, field=f"{field}.highestTierAllowed")
    if topology.highest_tier_allowed is not None and topology.highest_tier_name:
        message = "must not specify highestTierAllowed and highestTierName simultaneously"
        found.append(Problem(f"{field}.highestTierName", message))
    return found


def _plugin_problems(spec: JobSpec, *, names: Sequence[str], plugins: Collection[str], field: str) -> list[Problem]:
    found = [
        Problem(f"{field}.{name}", f"unable to find job plugin {name!r}, want one of {', '.join(plugins)}")
        for name in sorted(spec.plugins or {})
        if name not in plugins
    ]
    arguments = (spec.plugins or {}).get("mpi")
    if arguments is not None:
        master = _flag(arguments, name="master", default="master")
        if master not in names:
            found.append(Problem(f"{field}.mpi", f"its master task {master!r} is not a task of the job"))
    return found


def _flag(arguments: Sequence[str], *, name: str, default: str) -> str:
    """The last value of `--name=value` or `--name value`, with one dash or two."""
    value = default
    words = [word for argument in arguments for word in _words(argument)]
    for index, word in enumerate(words):
        flag, equals, given = word.lstrip("-").partition("=")
        if word.startswith("-") and flag == name:
            value = given if equals else words[index + 1] if index + 1 < len(words) else value
    return value


def _words(argument: str) -> list[str]:
    try:
        return shlex.split(argument)
    except ValueError:
        return argument.split()


def _volume_problems(volumes: Sequence[Volume], *, field: str) -> list[Problem]:
    found: list[Problem] = []
    paths: set[str] = set()
    for index, volume in enumerate(volumes):
        place = f"{field}[{index}]"
        if not volume.mount_path:
            found.append(Problem(f"{place}.mountPath", "should be at least 1 chars long"))
        elif ":" in volume.mount_path:
            found.append(Problem(f"{place}.mountPath", f"{volume.mount_path!r} should match a path without a colon"))
        elif volume.mount_path in paths:
            found.append(Problem(field, f"duplicated mountPath: {volume.mount_path}"))
        paths.add(volume.mount_path)
        if not volume.volume_claim_name and volume.volume_claim is None:
            found.append(Problem(place, ONE_CLAIM))
        elif volume.volume_claim_name and not is_subdomain(volume.volume_claim_name):
            found.append(Problem(f"{place}.volumeClaimName", f"{volume.volume_claim_name!r} should match a DNS-1123 subdomain"))
    return found


def _claim_problems(job: Job) -> list[Problem]:
    """A claim and a name stand together only where a controller made the one from the other, and has it in the status."""
    made = (job.status.controlled_resources if job.status else None) or {}
    return [
        Problem(f"spec.volumes[{index}]", ONE_CLAIM)
        for index, volume in enumerate(job.spec.volumes or [])
        if volume.volume_claim is not None
        and volume.volume_claim_name
        and f"{MADE_CLAIM}{volume.volume_claim_name}" not in made
    ]


def _dependency_problems(tasks: Sequence[Task], *, names: Sequence[str], field: str) -> list[Problem]:
    found: list[Problem] = []
    waits: dict[str, list[str]] = {}
    for index, (task, name) in enumerate(zip(tasks, names, strict=True)):
        needed = (task.depends_on.name if task.depends_on else None) or []
        found += among(
            ITERATIONS, task.depends_on.iteration if task.depends_on else None, field=f"{field}[{index}].dependsOn.iteration"
        )
        found += [
            Problem(f"{field}[{index}].dependsOn", f"{each!r} is not a task of the job") for each in needed if each not in names
        ]
        waits[name] = [each for each in needed if each in names]
    cycle = first_cycle(waits)
    if cycle is not None:
        place = f"{field}[{names.index(cycle[0])}].dependsOn"
        found.append(Problem(place, f"tasks wait for each other in a cycle: {' waits for '.join(cycle)}"))
    return found


def _fixed(spec: JobSpec) -> dict[str, Any]:
    """What of a spec may not change. `suspend` is ours and may; claim names that stand beside a claim are a controller's."""
    fixed = spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    for name in ("minAvailable", "priorityClassName", "suspend"):
        fixed.pop(name, None)
    for task in fixed.get("tasks", []):
        task.pop("replicas", None)
        task.pop("minAvailable", None)
    for volume in fixed.get("volumes", []):
        if "volumeClaim" in volume:
            volume.pop("volumeClaimName", None)
    return fixed
