"""Jobs as the agent keeps them: the gang, the run record and the status; no pod templates."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from apis import keys, kinds
from apis.batch import DEFAULT_MAX_RETRY
from apis.runs import RunRecord
from member_agent.views.meta import Meta, Wire
from member_agent.views.pods import PodView
from policies import durations
from policies.shapes import Gang, TaskSpec, UnreadableShape


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


class JobMemory(Wire, frozen=True, omit_defaults=True):
    """What must outlive the agent (apis/batch.py, JobMemory)."""

    floors: dict[str, int] = {}
    pods: dict[str, str] = {}
    done: dict[str, str] = {}
    since: dict[str, str] = {}
    evictions: int = 0
    started_at: str = ""
    orders: tuple[str, ...] = ()
    suspended: bool = False
    generation: int = 0


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
    memory: JobMemory = JobMemory()
    outputs: dict[str, str] = {}


class Wanted(Wire, frozen=True):
    """A value that a pod leaves: its name, and the task ("": the first) and index of the pod."""

    name: str
    task: str = ""
    index: int = 0


class _Policy(Wire, frozen=True):
    action: str = ""
    event: str = ""
    events: list[str] | None = None
    exit_code: int | None = None
    timeout: str | None = None


class _DependsOn(Wire, frozen=True):
    name: list[str] | None = None
    iteration: str = ""


class _JobTask(TaskSpec, frozen=True, rename="camel"):
    policies: list[_Policy] | None = None
    max_retry: int | None = None
    depends_on: _DependsOn | None = None


class _Volume(Wire, frozen=True):
    volume_claim_name: str = ""
    volume_claim: msgspec.Raw = msgspec.Raw(b"null")


class _JobSpec(Wire, frozen=True):
    scheduler_name: str = ""
    min_available: int = 0
    min_success: int | None = None
    queue: str = ""
    priority_class_name: str = ""
    ttl_seconds_after_finished: int | None = None
    tasks: list[_JobTask] | None = None
    plugins: dict[str, Any] | None = None
    policies: list[_Policy] | None = None
    volumes: list[_Volume] | None = None
    max_retry: int | None = None
    suspend: bool | None = None


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


class JobSkeleton(Wire, frozen=True):
    """What is read of a Job whose spec cannot be: enough to say so in its status."""

    metadata: Meta
    status: JobStatus | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """One rule of a Job or a task: what to do, at which events or at which exit code, and after how many seconds."""

    action: str
    events: tuple[str, ...] = ()
    exit_code: int | None = None
    timeout: float | None = None


@dataclass(frozen=True, slots=True)
class Role:
    """What a task says beyond its pods. `after`: tasks to wait for, `any_of` them or all; `partition`: pods of one, 0 for none;
    `explicit`: its own minimum, None where none is given."""

    name: str
    policies: tuple[Policy, ...] = ()
    max_retry: int = DEFAULT_MAX_RETRY
    after: tuple[str, ...] = ()
    any_of: bool = False
    partition: int = 0
    explicit: int | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """What a Job says beyond its gang; equal rules are one object (`Projector`). `claims` are those that must exist already."""

    policies: tuple[Policy, ...] = ()
    roles: tuple[Role, ...] = ()
    max_retry: int = DEFAULT_MAX_RETRY
    plugins: tuple[str, ...] = ()
    made: tuple[int, ...] = ()
    """Positions of the volumes whose claim is made for the Job."""
    claims: tuple[str, ...] = ()
    suspended: bool = False
    only_below_minimum: bool = False
    max_run_time: int | None = None
    main: tuple[tuple[str, str], ...] = ()
    outputs: tuple[Wanted, ...] = ()

    def role(self, name: str) -> Role:
        """Of the task of this name."""
        return next((role for role in self.roles if role.name == name), Role(name))

    def main_container(self, task: str) -> str:
        """The container whose end is the end of a pod of the task, or ""."""
        return next((container for name, container in self.main if name == task), "")


@dataclass(frozen=True, slots=True)
class JobView:
    """A Job of this member, hub-run or local.

    `gang` is None, with `unreadable` naming the field, where the spec cannot be read. `rules` is what the spec and our
    annotations ask for beyond the gang; `order` is the hub's order to this run as it is written.
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
    rules: Rules
    order: str
    status: JobStatus
    placed: tuple[tuple[str, str], ...] = ()
    owner_uid: str = ""
    forwarded: bool = False
    """Marked as one of a queue that has `extendClusters`."""
    """UID of the controlling owner."""
    ordered: str = ""
    """What the agent ordered from a Volcano that runs this Job, as it is written."""
    created_by_flow: str = ""
    """`namespace.name` of the JobFlow of this cluster that made it; "" for a hub-run Job, whose flow is the hub's."""
    drafts: tuple[PodView, ...] = ()
    """One pod of each task of a run that is not released yet, as it is going to be; none where a template cannot be read."""

    @property
    def kind(self) -> kinds.Kind:
        """What it is, for those who look at Jobs and flows alike."""
        return kinds.JOB

    @property
    def phase(self) -> str:
        """`status.state.phase`."""
        return self.status.state.phase

    @property
    def last_transition(self) -> str:
        """The same as `transition`, by the name that flows use."""
        return self.status.state.last_transition_time

    @property
    def retry_count(self) -> int:
        """Restarts so far."""
        return self.status.retry_count

    @property
    def running_duration(self) -> str:
        """As it is written, "" before the end."""
        return self.status.running_duration

    @property
    def task_status_count(self) -> Mapping[str, Any]:
        """Pods by task and phase."""
        return {task: {"phase": count.phase} for task, count in self.status.task_status_count.items()}

    @property
    def outputs(self) -> Mapping[str, str]:
        """Values that its pods left, by name."""
        return self.status.outputs

    @property
    def longest(self) -> int | None:
        """Seconds that a run may take from its start; None where nobody ends it."""
        if self.record is not None and self.record.max_run_time is not None:
            return self.record.max_run_time
        return self.rules.max_run_time

    @property
    def transition(self) -> str:
        """`status.state.lastTransitionTime`."""
        return self.status.state.last_transition_time


_wanted = msgspec.json.Decoder(list[Wanted]).decode


def rules_of(spec: _JobSpec, meta: Meta) -> Rules:
    """What spec and annotations ask for; raises UnreadableShape naming the field."""
    main = _main_containers(meta.annotation(keys.MAIN_CONTAINER))
    once = _said(meta, keys.NO_RETRY)
    suspended = _said(meta, keys.SUSPEND) if meta.annotation(keys.SUSPEND) else bool(spec.suspend)
    return Rules(
        policies=_policies(spec.policies, field="spec.policies"),
        roles=tuple(_role(task, index=index) for index, task in enumerate(spec.tasks or [])),
        max_retry=1 if once else spec.max_retry or DEFAULT_MAX_RETRY,
        plugins=tuple(sorted(spec.plugins or {})),
        made=tuple(index for index, each in enumerate(spec.volumes or []) if _given(each)),
        claims=tuple(each.volume_claim_name for each in spec.volumes or [] if each.volume_claim_name and not _given(each)),
        suspended=suspended,
        only_below_minimum=_said(meta, keys.ONLY_BELOW_MINIMUM),
        max_run_time=_max_run_time(meta.annotation(keys.MAX_RUN_TIME)),
        main=main,
        outputs=_outputs(meta.annotation(keys.OUTPUTS)),
    )


def _outputs(text: str) -> tuple[Wanted, ...]:
    try:
        return tuple(_wanted(text)) if text else ()
    except msgspec.MsgspecError as error:
        raise UnreadableShape(str(error), field=f"metadata.annotations[{keys.OUTPUTS}]") from error


def _given(volume: _Volume) -> bool:
    return bytes(volume.volume_claim) != b"null"


def _said(meta: Meta, key: str) -> bool:
    text = meta.annotation(key)
    if text not in ("", "true", "false"):
        raise UnreadableShape(f"{text!r} is neither true nor false", field=f"metadata.annotations[{key}]")
    return text == "true"


def _max_run_time(text: str) -> int | None:
    if not text:
        return None
    try:
        return durations.parse(text)
    except durations.InvalidDuration as error:
        raise UnreadableShape(str(error), field=f"metadata.annotations[{keys.MAX_RUN_TIME}]") from error


def _main_containers(text: str) -> tuple[tuple[str, str], ...]:
    found = []
    for pair in filter(None, (each.strip() for each in text.split(","))):
        task, equals, container = pair.partition("=")
        if not (equals and task and container):
            raise UnreadableShape(f"{pair!r} is not task=container", field=f"metadata.annotations[{keys.MAIN_CONTAINER}]")
        found.append((sys.intern(task), sys.intern(container)))
    return tuple(found)


def _role(task: _JobTask, *, index: int) -> Role:
    waits = task.depends_on or _DependsOn()
    return Role(
        name=sys.intern(task.name or f"default{index}"),
        policies=_policies(task.policies, field=f"spec.tasks[{index}].policies"),
        max_retry=task.max_retry or DEFAULT_MAX_RETRY,
        after=tuple(waits.name or ()),
        any_of=waits.iteration == "any",
        partition=task.partition_policy.partition_size if task.partition_policy else 0,
        explicit=task.min_available,
    )


def _policies(given: list[_Policy] | None, *, field: str) -> tuple[Policy, ...]:
    return tuple(_policy(each, field=f"{field}[{index}]") for index, each in enumerate(given or []))


def _policy(given: _Policy, *, field: str) -> Policy:
    timeout = None
    if given.timeout is not None:
        try:
            timeout = durations.golang(given.timeout)
        except durations.InvalidDuration as error:
            raise UnreadableShape(str(error), field=f"{field}.timeout") from error
    events = dict.fromkeys([*([given.event] if given.event else []), *(given.events or [])])
    return Policy(action=given.action, events=tuple(events), exit_code=given.exit_code, timeout=timeout or None)


def fields_of_place(spec: _PlacedSpec) -> tuple[tuple[str, str], ...]:
    """Fields that say who gives pods their node, or which one, as far as they are set."""
    found = [("spec.schedulerName", spec.scheduler_name)]
    for index, task in enumerate(spec.tasks or []):
        field, place = f"spec.tasks[{index}].template.spec", task.template.spec
        found += [(f"{field}.schedulerName", place.scheduler_name), (f"{field}.nodeName", place.node_name)]
    return tuple((name, sys.intern(value)) for name, value in found if value)
