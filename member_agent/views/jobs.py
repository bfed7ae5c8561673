"""Jobs as the agent keeps them: the gang, the run record and the status; no pod templates."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import msgspec

from apis.runs import RunRecord
from member_agent.views.meta import Meta, Wire
from policies.shapes import Gang, TaskSpec


class JobState(Wire, frozen=True, omit_defaults=True):
    """`status.state` of a Job."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""


class JobCondition(Wire, frozen=True, omit_defaults=True):
    """One phase that a Job went through."""

    status: str = ""
    last_transition_time: str = ""


class TaskCount(Wire, frozen=True):
    """Pods of one task by pod phase."""

    phase: dict[str, int] = {}


class JobStatus(Wire, frozen=True, omit_defaults=True):
    """`status` of a Job (reference/volcano.md 1.2); counts are pods."""

    state: JobState = JobState()
    min_available: int = 0
    task_status_count: dict[str, TaskCount] = {}
    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    unknown: int = 0
    version: int = 0
    retry_count: int = 0
    running_duration: str = ""
    controlled_resources: dict[str, str] = {}
    conditions: list[JobCondition] = []


class _JobTask(TaskSpec, frozen=True, rename="camel"):
    policies: list[Any] | None = None
    depends_on: msgspec.Raw | None = None
    partition_policy: msgspec.Raw | None = None


class _JobSpec(Wire, frozen=True):
    scheduler_name: str = ""
    min_available: int = 0
    min_success: int | None = None
    queue: str = ""
    priority_class_name: str = ""
    ttl_seconds_after_finished: int | None = None
    tasks: list[_JobTask] | None = None
    plugins: dict[str, Any] | None = None
    policies: list[Any] | None = None
    volumes: list[Any] | None = None


class _Place(Wire, frozen=True):
    scheduler_name: str = ""
    node_name: str = ""


class _PlacedTemplate(Wire, frozen=True):
    spec: _Place = _Place()


class _PlacedTask(Wire, frozen=True):
    template: _PlacedTemplate = _PlacedTemplate()


class _PlacedSpec(Wire, frozen=True):
    scheduler_name: str = ""
    tasks: list[_PlacedTask] | None = None


class PlacedDocument(Wire, frozen=True):
    spec: _PlacedSpec = _PlacedSpec()


class JobDocument(Wire, frozen=True):
    metadata: Meta
    spec: _JobSpec = _JobSpec()
    status: JobStatus | None = None


@dataclass(frozen=True, slots=True)
class JobView:
    """A Job of this member, hub-run or local.

    `gang` is None, with `unreadable` naming the field, where the spec cannot be read. `minima` are the task minima that the
    spec states itself; `demands` names what the spec asks for beyond gangs (plugins, policies, dependsOn, …).
    `placed` names the fields, with what they say, by which pods get their node from somebody. `record` is the run record of a
    hub-run Job.
    """

    namespace: str
    name: str
    uid: str
    version: str
    generation: int
    created: str
    deleting: bool
    finalizers: tuple[str, ...]
    managed: bool
    work: tuple[str, str]
    work_uid: str
    work_digest: str
    record: RunRecord | None
    run_nodes: str
    queue: str
    scheduler: str
    priority_class: str
    min_success: int | None
    ttl: int | None
    gang: Gang | None
    unreadable: str
    minima: tuple[tuple[str, int], ...]
    demands: tuple[str, ...]
    status: JobStatus
    placed: tuple[tuple[str, str], ...] = ()
    owner_uid: str = ""
    """UID of the controlling owner."""

    @property
    def phase(self) -> str:
        """`status.state.phase`."""
        return self.status.state.phase

    @property
    def transition(self) -> str:
        """`status.state.lastTransitionTime`."""
        return self.status.state.last_transition_time


def demands_of(spec: _JobSpec) -> tuple[str, ...]:
    """Fields whose meaning goes beyond a plain gang, sorted as they stand in the spec."""
    found = [f"spec.plugins.{name}" for name in sorted(spec.plugins or {})]
    if spec.policies:
        found.append("spec.policies")
    if spec.volumes:
        found.append("spec.volumes")
    for index, task in enumerate(spec.tasks or []):
        if task.policies:
            found.append(f"spec.tasks[{index}].policies")
        if task.depends_on is not None and bytes(task.depends_on) != b"null":
            found.append(f"spec.tasks[{index}].dependsOn")
        if task.partition_policy is not None and bytes(task.partition_policy) != b"null":
            found.append(f"spec.tasks[{index}].partitionPolicy")
    return tuple(found)


def fields_of_place(spec: _PlacedSpec) -> tuple[tuple[str, str], ...]:
    """Fields that say who gives pods their node, or which one, as far as they are set."""
    found = [("spec.schedulerName", spec.scheduler_name)]
    for index, task in enumerate(spec.tasks or []):
        field, place = f"spec.tasks[{index}].template.spec", task.template.spec
        found += [(f"{field}.schedulerName", place.scheduler_name), (f"{field}.nodeName", place.node_name)]
    return tuple((name, sys.intern(value)) for name, value in found if value)
