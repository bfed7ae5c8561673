"""What the hub keeps of Jobs, bindings and Works: slotted values read from raw bytes (≤ 3 KB a Job, protocol.md 7).

`Projections` owns the pool in which equal shapes are one object; a program makes one and hands its methods to informers.
An object that cannot be understood still has a view, with `problem` set: refusing it is a decision, and decisions are not
made here.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import msgspec

from apis import keys, kinds, runs
from policies import asked, run_times, statuses, verdicts
from policies.shapes import Gang, Pool, TaskSpec, UnreadableShape, read_gang
from policies.statuses import JobStatus
from policies.troubles import TROUBLES

OWN: Final = keys.GROUP + "/"
REFUSAL: Final = "Applied"
"""Type of the Work condition that tells of acceptance or refusal."""
GONE: Final = "Gone"
"""Type of the Work condition that is True once the run's pods are known to be gone while the Work lives (A6)."""
LOCALLY_DELETED: Final = "LocallyDeleted"
"""Reason (or type) of the condition that says A6 happened."""
FINISHED: Final = "Finished"
"""Type of the binding condition that records the end; its reason is the terminal phase."""
STARTED: Final = "Started"
"""Type of the binding condition that says whether a pod of the epoch in its message has run."""


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    """The declared part of `metadata`."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    owner_references: list[Owner] | None = None


class Owner(msgspec.Struct, frozen=True, rename="camel"):
    """One owner reference."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with an object, and in which field."""

    field: str
    message: str


@dataclass(frozen=True, slots=True)
class JobView:
    """A hub Job. `settings` are its annotations of our group, prefix removed, and `spec.suspend`; `gang` is None only with a
    `problem`.

    Times are RFC 3339 text as the API server wrote them.
    """

    namespace: str
    name: str
    uid: str
    version: str
    created: str = ""
    generation: int = 0
    deleting: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    owner_uid: str = ""
    created_by_flow: str = ""
    created_by_template: str = ""
    created_by_cron: str = ""
    """`namespace.name` of the CronJob that controls it, or the flow it is a step of."""
    queue: str = keys.DEFAULT_QUEUE
    priority_class: str = ""
    ttl: int | None = None
    gang: Gang | None = None
    problem: Problem | None = None
    phase: str = ""
    """`status.state.phase`, "" before the first status."""
    encoded: bytes = b"{}"
    """The whole status, as bytes."""
    estimate: str = ""
    """`spec.runningEstimate`, as it is written."""
    claimed: tuple[str, str, str] | None = None
    """Namespace ("": cluster-scoped), name and UID of the policy that its marks name."""
    template: str = ""
    """The same for Jobs that do the same work (`run_times.template_hash`)."""
    beyond: str = ""
    """Where only a member can tell whether it fits: a short name for all that decides it, which the gang does not say."""

    @property
    def kind(self) -> kinds.Kind:
        """What it is, for those who look at Jobs and flows alike."""
        return kinds.JOB

    @property
    def asked_as(self) -> str:
        """Hash under which members are asked about it."""
        return self.beyond or (self.gang.digest if self.gang is not None else "")

    @property
    def status(self) -> JobStatus:
        """The status, read anew each time."""
        return statuses.decode(self.encoded)

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return (self.namespace, self.name)

    @property
    def last_transition(self) -> str:
        """When the phase was entered, "" when unknown."""
        return self.status.state.last_transition_time or ""

    @property
    def transition(self) -> str:
        """The same, by the name that the ttl role uses."""
        return self.last_transition

    @property
    def retry_count(self) -> int:
        """Restarts so far."""
        return self.status.retry_count

    @property
    def outputs(self) -> Mapping[str, str]:
        """Values that its pods left, by name."""
        return self.status.outputs

    @property
    def running_duration(self) -> str:
        """As the member wrote it, "" when unknown."""
        return self.status.running_duration or ""

    @property
    def task_status_count(self) -> Mapping[str, object]:
        """Pods by task and phase, as JSON has it."""
        return {name: {"phase": dict(state.phase)} for name, state in self.status.task_status_count.items()}

    @property
    def ended(self) -> bool:
        """The hub's Job shows a terminal phase."""
        return self.phase in statuses.TERMINAL


class Stage(enum.IntEnum):
    """What the status of a binding tells; each is written once per epoch (protocol.md 7)."""

    NOTHING = 0
    SCHEDULED = 1
    STARTED = 2
    ENDED = 3


@dataclass(frozen=True, slots=True)
class BindingView:
    """The hub's decision about a Job. `run` is None only with a `problem`; `ended` is the recorded terminal phase."""

    namespace: str
    name: str
    uid: str
    version: str
    job: str = ""
    job_uid: str = ""
    clusters: tuple[str, ...] = ()
    run: runs.BindingRun | None = None
    problem: Problem | None = None
    deleting: bool = False
    finalized: bool = False
    reschedule: str = ""
    """`spec.rescheduleTriggeredAt`: when somebody last asked that it is placed anew (RFC 3339)."""
    preserves: bool = False
    """`spec.preserveResourcesOnDeletion`: what runs stays in its member when the Job is deleted."""
    left_alone: bool = False
    """`spec.suspension.scheduling`: somebody else admits it."""
    decision: verdicts.Gist | None = None
    ended: str = ""
    stage: tuple[int, Stage] = (0, Stage.NOTHING)
    """Epoch and stage that the binding's status tells of."""
    generation: int = 0
    scheduled: str = ""
    """Since when its condition Scheduled is as it is."""


@dataclass(frozen=True, slots=True)
class WorkView:
    """A Work of any member, as far as the hub must know it. `applied` is None until the agent has said something; `record`
    comes without its tasks."""

    namespace: str
    name: str
    uid: str
    version: str
    cluster: str = ""
    created: str = ""
    deleting: bool = False
    record: runs.RunRecord | None = None
    problem: Problem | None = None
    binding: tuple[str, str] = ("", "")
    queue: str = keys.DEFAULT_QUEUE
    gang: Gang | None = None
    """None where the manifest cannot be read, or was reduced to its identity. Of another object than a Volcano Job: what its
    pods ask for while it runs."""
    applied: bool | None = None
    reason: str = ""
    message: str = ""
    locally_deleted: bool = False
    held_up: str = ""
    """Why the member cannot say that the run's pods are gone: nodes that do not answer, by name."""
    phase: str = ""
    """Phase of the member's Job, "" when unknown."""
    started: bool = False
    """A pod of the run has run, or its phase went past Pending."""
    gathered: bool = False
    """The gang's minimum has run."""
    ailing: bool = False
    """It ran and is not whole any more."""
    began: str = ""
    """When its minimum first ran, as the member wrote it; "" when unknown."""
    encoded: bytes | None = None
    """The member's status, as bytes."""
    made_from: int = 0
    """Generation of the Job that its manifest was made from; 0 when unknown."""
    command: str = ""
    """What its member is asked to do, as it is written."""
    overrides: str = ""
    """Digest of the override policies that it was made by."""
    paused: bool = False
    """`spec.suspendDispatching`: no more updates."""

    @property
    def refusal(self) -> runs.RefusalReason | None:
        """Why the member refused it; None when it did not."""
        known = self.applied is False and self.reason in runs.RefusalReason.__members__.values()
        return runs.RefusalReason(self.reason) if known else None

    @property
    def status(self) -> JobStatus | None:
        """The member's status, read anew each time."""
        return None if self.encoded is None else statuses.decode(self.encoded)

    @property
    def trouble(self) -> tuple[str, str] | None:
        """Reason and message of a run whose gang has not started and whose containers may never; None otherwise."""
        if self.applied is not True or self.phase not in statuses.NOT_STARTED:
            return None
        status = self.status
        known = status is not None and status.state.reason in TROUBLES
        return (status.state.reason, status.state.message) if status is not None and known else None


# --- wire ------------------------------------------------------------------------------------------------------------


class _Wire(msgspec.Struct, frozen=True, rename="camel"):
    pass


class _JobSpec(_Wire, frozen=True):
    queue: str = ""
    min_available: int | None = None
    priority_class_name: str = ""
    ttl_seconds_after_finished: int | None = None
    tasks: list[TaskSpec] | None = None
    suspend: bool | None = None
    running_estimate: Any = None


class _JobHead(_Wire, frozen=True):
    metadata: Meta = Meta()
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: JobStatus = JobStatus()


class _Reference(_Wire, frozen=True):
    name: str = ""
    uid: str = ""


class _Target(_Wire, frozen=True):
    name: str = ""


class _Suspension(_Wire, frozen=True):
    scheduling: bool | None = None


class _BindingSpec(_Wire, frozen=True):
    resource: _Reference = _Reference()
    clusters: list[_Target] | None = None
    suspension: _Suspension | None = None
    preserve_resources_on_deletion: bool | None = None
    reschedule_triggered_at: str | None = None


class Condition(_Wire, frozen=True):
    """One condition of any object."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class _BindingStatus(_Wire, frozen=True):
    conditions: list[Condition] | None = None


class _Binding(_Wire, frozen=True):
    metadata: Meta = Meta()
    spec: _BindingSpec = _BindingSpec()
    status: _BindingStatus = _BindingStatus()


class _Manifests(_Wire, frozen=True):
    manifests: list[msgspec.Raw] | None = None


class _WorkSpec(_Wire, frozen=True):
    workload: _Manifests | None = None
    suspend_dispatching: bool | None = None


class _ManifestStatus(_Wire, frozen=True):
    status: msgspec.Raw = msgspec.Raw(b"")


class _WorkStatus(_Wire, frozen=True):
    conditions: list[Condition] | None = None
    manifest_statuses: list[_ManifestStatus] | None = None


class _Work(_Wire, frozen=True):
    metadata: Meta = Meta()
    spec: _WorkSpec = _WorkSpec()
    status: _WorkStatus = _WorkStatus()


_EMPTY: Final[Mapping[str, str]] = MappingProxyType({})
_SUSPEND: Final = keys.SUSPEND.removeprefix(OWN)
_job = msgspec.json.Decoder(_JobHead)
_spec = msgspec.json.Decoder(_JobSpec)
_binding = msgspec.json.Decoder(_Binding)
_work = msgspec.json.Decoder(_Work)


def own_settings(annotations: Mapping[str, str] | None) -> Mapping[str, str]:
    """Annotations of our group with the prefix removed."""
    own = {sys.intern(name.removeprefix(OWN)): value for name, value in (annotations or {}).items() if name.startswith(OWN)}
    return own or _EMPTY


def _with_suspend(settings: Mapping[str, str], spec: _JobSpec) -> Mapping[str, str]:
    """`spec.suspend` says the same as the annotation, which wins where both are there."""
    if not spec.suspend or settings.get(_SUSPEND):
        return settings
    return {**settings, _SUSPEND: "true"}


KNOWN_CHOICES: Final = 10_000


class Projections:
    """Readers of the hub's own kinds, with one pool of shapes."""

    def __init__(self) -> None:
        self._pool = Pool()
        self._choices: dict[tuple[str, ...], tuple[str, ...]] = {}
        """Choices of clusters, of which there are few: bindings share them."""

    def job(self, document: bytes) -> JobView:
        """A Job; raises msgspec's errors only when not even its metadata can be read."""
        head = _job.decode(document)
        meta, annotations = head.metadata, head.metadata.annotations or {}
        spec, gang, problem = self._job_spec(head.spec)
        owner = next((each for each in meta.owner_references or [] if each.controller), Owner())
        cron = annotations.get(keys.CREATED_BY_CRON, "")
        if owner.kind == kinds.CRON_JOB.kind:
            cron = f"{meta.namespace}.{owner.name}"
        return JobView(
            namespace=sys.intern(meta.namespace),
            name=sys.intern(meta.name),
            uid=sys.intern(meta.uid),
            version=meta.resource_version,
            created=sys.intern(meta.creation_timestamp),
            generation=meta.generation,
            deleting=meta.deletion_timestamp is not None,
            labels={sys.intern(key): sys.intern(value) for key, value in meta.labels.items()} if meta.labels else _EMPTY,
            settings=_with_suspend(own_settings(annotations), spec),
            owner_uid=sys.intern(owner.uid),
            created_by_flow=sys.intern(annotations.get(keys.CREATED_BY_FLOW, "")),
            created_by_template=sys.intern(annotations.get(keys.CREATED_BY_TEMPLATE, "")),
            created_by_cron=sys.intern(cron),
            queue=sys.intern(spec.queue or keys.DEFAULT_QUEUE),
            priority_class=sys.intern(spec.priority_class_name),
            ttl=spec.ttl_seconds_after_finished,
            gang=gang,
            problem=problem,
            phase=sys.intern(head.status.state.phase),
            encoded=statuses.encode(head.status),
            estimate=sys.intern(str(spec.running_estimate)) if spec.running_estimate is not None else "",
            claimed=_claimed(meta),
            template=sys.intern(run_times.template_hash(head.spec)),
            beyond=asked.fingerprint(document) if gang is not None and gang.unknown else "",
        )

    def _job_spec(self, raw: msgspec.Raw) -> tuple[_JobSpec, Gang | None, Problem | None]:
        try:
            spec = _spec.decode(raw)
            return spec, read_gang(spec.tasks or (), minimum=spec.min_available, pool=self._pool), None
        except UnreadableShape as error:
            return spec, None, Problem(error.field, error.message)
        except msgspec.MsgspecError as error:
            text = str(error)
            where = text.rsplit("`$", 1)[-1].rstrip("`") if "`$" in text else ""
            return _JobSpec(), None, Problem("spec" + where, text)

    def _choice(self, names: tuple[str, ...]) -> tuple[str, ...]:
        if len(self._choices) >= KNOWN_CHOICES:
            self._choices.clear()
        return self._choices.setdefault(names, names)

    def binding(self, document: bytes) -> BindingView:
        """A ResourceBinding."""
        read = _binding.decode(document)
        meta, annotations = read.metadata, read.metadata.annotations or {}
        run, problem = _binding_run(annotations.get(keys.RUN), where=f"binding {meta.namespace}/{meta.name}")
        ended = _ended(read.status.conditions)
        decision = verdicts.decode(annotations.get(VERDICTS, ""))
        return BindingView(
            namespace=sys.intern(meta.namespace),
            name=sys.intern(meta.name),
            uid=meta.uid,
            version=meta.resource_version,
            job=sys.intern(read.spec.resource.name),
            job_uid=sys.intern(read.spec.resource.uid),
            clusters=self._choice(tuple(sys.intern(each.name) for each in read.spec.clusters or [])),
            run=run,
            problem=problem,
            deleting=meta.deletion_timestamp is not None,
            finalized=keys.BINDING_FINALIZER in (meta.finalizers or []),
            reschedule=read.spec.reschedule_triggered_at or "",
            preserves=bool(read.spec.preserve_resources_on_deletion),
            left_alone=bool(read.spec.suspension and read.spec.suspension.scheduling),
            decision=decision.gist() if decision is not None else None,
            ended=ended,
            stage=_stage(read.status.conditions, ended=ended),
            generation=meta.generation,
            scheduled=_since(read.status.conditions, "Scheduled"),
        )

    def work(self, document: bytes) -> WorkView:
        """A Work."""
        read = _work.decode(document)
        meta, annotations = read.metadata, read.metadata.annotations or {}
        record, problem = _work_record(annotations.get(keys.RUN), where=f"work {meta.namespace}/{meta.name}")
        manifests = (read.spec.workload.manifests if read.spec.workload else None) or []
        spec, gang, _ = self._job_spec(_job.decode(manifests[0]).spec) if manifests else (_JobSpec(), None, None)
        if keys.OBJECT in (meta.labels or {}):  # no Volcano Job: what it asks for is written beside it
            spec, gang, _ = self._job_spec(msgspec.Raw(annotations.get(keys.DEMAND, "{}").encode()))
        conditions = {each.type: each for each in read.status.conditions or []}
        applied = conditions.get(REFUSAL)
        status = _member_status(read.status.manifest_statuses)
        gone = conditions.get(GONE) or conditions.get(LOCALLY_DELETED)
        return WorkView(
            namespace=sys.intern(meta.namespace),
            name=meta.name,
            uid=meta.uid,
            version=meta.resource_version,
            cluster=sys.intern(keys.cluster_of(meta.namespace) or ""),
            created=meta.creation_timestamp,
            deleting=meta.deletion_timestamp is not None,
            record=record,
            problem=problem,
            binding=(
                sys.intern(annotations.get(keys.BINDING_NAMESPACE, "")),
                sys.intern(annotations.get(keys.BINDING_NAME, "")),
            ),
            queue=sys.intern(spec.queue or keys.DEFAULT_QUEUE),
            gang=gang if gang is not None and gang.tasks else None,
            applied={"True": True, "False": False}.get(applied.status) if applied else None,
            reason=applied.reason if applied else "",
            message=applied.message if applied else "",
            locally_deleted=gone is not None and gone.status == "True",
            held_up=(gone.message or gone.reason) if gone is not None and gone.status == "False" else "",
            phase=sys.intern(status.state.phase) if status is not None else "",
            started=status is not None and status.started,
            gathered=status is not None and status.gathered,
            ailing=status is not None and status.ailing,
            began=_began(read.status.manifest_statuses),
            encoded=statuses.encode(status) if status is not None else None,
            command=annotations.get(keys.COMMAND, ""),
            overrides=sys.intern(annotations.get(keys.OVERRIDES, "")),
            paused=bool(read.spec.suspend_dispatching),
            made_from=int(made_from) if (made_from := annotations.get(keys.JOB_GENERATION, "")).isdecimal() else 0,
        )


_NO_TASKS: Final[dict[str, runs.TaskSlice]] = {}
_NO_COUNTS: Final[dict[str, int]] = {}
"""Shared by all views, for their size; nobody changes a record in place."""

VERDICTS: Final = f"{keys.GROUP}/verdicts"
"""Annotation of the binding: why it is as it is (`verdicts.Decision`)."""


def _binding_run(text: str | None, *, where: str) -> tuple[runs.BindingRun | None, Problem | None]:
    if text is None:
        return None, Problem(f"metadata.annotations[{keys.RUN}]", "a binding without a run was not made by this hub")
    try:
        run = runs.decode_binding(text, where=where)
        parts = {
            sys.intern(name): msgspec.structs.replace(part, cluster_uid=sys.intern(part.cluster_uid))
            for name, part in run.parts.items()
        }
        timeouts = run.start_timeouts or _NO_COUNTS
        return msgspec.structs.replace(run, job=sys.intern(run.job), parts=parts, start_timeouts=timeouts), None
    except runs.UnreadableRun as error:
        return None, Problem(f"metadata.annotations[{keys.RUN}]", str(error))


def _work_record(text: str | None, *, where: str) -> tuple[runs.RunRecord | None, Problem | None]:
    if text is None:
        return None, Problem(f"metadata.annotations[{keys.RUN}]", "no run record")
    try:
        record = runs.decode_record(text, where=where)
        # Which pods of which task is the member's business: the hub keeps Job, epoch and fence.
        return msgspec.structs.replace(record, job=sys.intern(record.job), tasks=_NO_TASKS), None
    except runs.UnreadableRun as error:
        return None, Problem(f"metadata.annotations[{keys.RUN}]", str(error))


def _ended(conditions: list[Condition] | None) -> str:
    return next((each.reason for each in conditions or [] if each.type == FINISHED and each.status == "True"), "")


def _since(conditions: list[Condition] | None, type: str) -> str:
    return next((each.last_transition_time or "" for each in conditions or [] if each.type == type), "")


def _stage(conditions: list[Condition] | None, *, ended: str) -> tuple[int, Stage]:
    started = next((each for each in conditions or [] if each.type == STARTED), None)
    if started is None:
        return (0, Stage.ENDED if ended else Stage.NOTHING)
    epoch = started.message.removeprefix("epoch ")
    stage = Stage.STARTED if started.status == "True" else Stage.SCHEDULED
    return (int(epoch) if epoch.isdigit() else 0, Stage.ENDED if ended else stage)


def _member_status(items: list[_ManifestStatus] | None) -> JobStatus | None:
    raw = bytes(items[0].status) if items else b""
    if raw in (b"", b"null"):
        return None
    try:
        return statuses.decode(raw)
    except msgspec.MsgspecError:
        return None  # an unreadable status tells nothing; what was folded last stays


_BY_POLICY: Final = (keys.POLICY_NAMESPACE, keys.POLICY_NAME, f"{keys.POLICY_NAME.rpartition('/')[0]}/permanent-id")
_BY_CLUSTER_POLICY: Final = tuple(f"cluster{key}" for key in _BY_POLICY)


def _claimed(meta: Meta) -> tuple[str, str, str] | None:
    """The marks of a claim (reference/karmada.md 0.1); a namespaced policy's come first where both are there."""
    notes, labels = meta.annotations or {}, meta.labels or {}
    for where, name, mark in (_BY_POLICY, _BY_CLUSTER_POLICY):
        if name in notes:
            return (sys.intern(notes.get(where, "")), sys.intern(notes[name]), sys.intern(labels.get(mark, "")))
    return None


class _Memory(_Wire, frozen=True):
    started_at: str = ""


class _Remembering(_Wire, frozen=True):
    memory: _Memory = _Memory()


_remembering = msgspec.json.Decoder(_Remembering)


def _began(items: list[_ManifestStatus] | None) -> str:
    raw = bytes(items[0].status) if items else b""
    try:
        return _remembering.decode(raw).memory.started_at if raw else ""
    except msgspec.MsgspecError:
        return ""
