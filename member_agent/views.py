"""What the member's roles remember of API objects: small frozen projections, one per kind.

Every role that needs a kind uses the projection given here, so that one informer serves all. Nothing keeps a manifest: a
pod template, or the manifest of a Work that was applied already, is read again when it is needed.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from apis import keys
from apis.runs import RunRecord, UnreadableRun, decode_record
from apis.vectors import ResourceVector
from machinery.port import Document
from policies.shapes import Gang, PodShape, PodTemplate, Pool, Taint, TaskSpec, UnreadableShape, read_gang, read_shape
from policies.troubles import TROUBLES

OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
"""Taint by which a person declares that nothing runs on a node any more (Kubernetes, non-graceful node shutdown)."""

ENDED: Final = ("Succeeded", "Failed")

TROUBLE_TEXT: Final = 256
"""Characters that are kept of why a container cannot start."""


class _Wire(msgspec.Struct, frozen=True, rename="camel"):
    pass


class _Owner(_Wire, frozen=True):
    kind: str = ""
    uid: str = ""
    controller: bool = False


class Meta(_Wire, frozen=True):
    """The declared part of `metadata`."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    owner_references: list[_Owner] | None = None

    def label(self, key: str) -> str:
        """The label, or ""."""
        return (self.labels or {}).get(key, "")

    def annotation(self, key: str) -> str:
        """The annotation, or ""."""
        return (self.annotations or {}).get(key, "")

    @property
    def controller(self) -> str:
        """UID of the controlling owner, or ""."""
        return next((owner.uid for owner in self.owner_references or [] if owner.controller), "")


class Condition(_Wire, frozen=True, omit_defaults=True):
    """A condition as Kubernetes writes them."""

    type: str
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""


def condition(conditions: tuple[Condition, ...], type: str) -> Condition | None:
    """The condition of this type."""
    return next((each for each in conditions if each.type == type), None)


# --- Work ------------------------------------------------------------------------------------------------------------


class _Workload(_Wire, frozen=True):
    manifests: list[msgspec.Raw] | None = None


class _WorkSpec(_Wire, frozen=True):
    workload: _Workload = _Workload()
    suspend_dispatching: bool = False


class ManifestStatus(_Wire, frozen=True, omit_defaults=True):
    """One entry of `status.manifestStatuses`."""

    identifier: dict[str, Any] = {}
    status: dict[str, Any] | None = None
    health: str = ""


class _WorkStatus(_Wire, frozen=True):
    conditions: list[Condition] | None = None
    manifest_statuses: list[ManifestStatus] | None = None


class _Work(_Wire, frozen=True):
    metadata: Meta
    spec: _WorkSpec = _WorkSpec()
    status: _WorkStatus = _WorkStatus()


class _Head(_Wire, frozen=True):
    api_version: str = ""
    kind: str = ""
    metadata: Meta = Meta("")


@dataclass(frozen=True, slots=True)
class Target:
    """Which object a Work is about; all empty where the manifest cannot be read."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class WorkView:
    """A Work of this member. `manifest` is kept only until the Work has an answer; `digest` names its bytes for ever.

    `record` is None, with `unreadable` saying why, where the run record cannot be read. `reported` is the digest of the
    status that was last written.
    """

    namespace: str
    name: str
    uid: str
    version: str
    deleting: bool
    finalizers: tuple[str, ...]
    record: RunRecord | None
    unreadable: str
    suspended: bool
    target: Target
    manifest: bytes | None
    digest: str
    conditions: tuple[Condition, ...]
    reported: str
    reported_phase: str

    @property
    def applied(self) -> bool:
        """The run was accepted and its Job made."""
        found = condition(self.conditions, "Applied")
        return found is not None and found.status == "True"

    @property
    def refusal(self) -> Condition | None:
        """The condition Applied=False, if there is one."""
        found = condition(self.conditions, "Applied")
        return found if found is not None and found.status == "False" else None

    @property
    def gone(self) -> bool:
        """The run is recorded as gone while the Work lives (protocol.md 2, A6)."""
        found = condition(self.conditions, "Gone")
        return found is not None and found.status == "True"


def digest(document: bytes) -> str:
    """A short name for some bytes."""
    return hashlib.blake2b(document, digest_size=8).hexdigest()


def status_digest(status: Mapping[str, Any] | None) -> str:
    """A short name for a status, whatever the order of its keys."""
    return digest(msgspec.json.encode(status or {}, order="deterministic"))


_work = msgspec.json.Decoder(_Work).decode
_head = msgspec.json.Decoder(_Head).decode


def _phase(status: Mapping[str, Any] | None) -> str:
    state = (status or {}).get("state")
    return str(state.get("phase", "")) if isinstance(state, dict) else ""


def _target(manifest: bytes) -> Target:
    try:
        head = _head(manifest)
    except msgspec.MsgspecError:
        return Target()
    meta = head.metadata
    return Target(sys.intern(head.api_version), sys.intern(head.kind), sys.intern(meta.namespace), meta.name)


def project_work(document: Document) -> WorkView:
    """A Work as the agent keeps it."""
    work = _work(document)
    meta, where = work.metadata, f"Work {work.metadata.namespace}/{work.metadata.name}"
    record, unreadable = None, ""
    try:
        record = decode_record(meta.annotation(keys.RUN) or "null", where=where)
    except UnreadableRun as error:
        unreadable = str(error)
    conditions = tuple(work.status.conditions or ())
    manifests = work.spec.workload.manifests or []
    manifest = bytes(manifests[0]) if manifests else b""
    answered = condition(conditions, "Applied") is not None
    statuses = work.status.manifest_statuses or []
    return WorkView(
        namespace=sys.intern(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        deleting=meta.deletion_timestamp is not None,
        finalizers=tuple(sys.intern(each) for each in meta.finalizers or ()),
        record=record,
        unreadable=unreadable,
        suspended=work.spec.suspend_dispatching,
        target=_target(manifest),
        manifest=None if answered else manifest,
        digest=digest(manifest),
        conditions=conditions,
        reported=status_digest(statuses[0].status if statuses else None),
        reported_phase=_phase(statuses[0].status if statuses else None),
    )


# --- Job -------------------------------------------------------------------------------------------------------------


class JobState(_Wire, frozen=True, omit_defaults=True):
    """`status.state` of a Job."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""


class JobCondition(_Wire, frozen=True, omit_defaults=True):
    """One phase that a Job went through."""

    status: str = ""
    last_transition_time: str = ""


class TaskCount(_Wire, frozen=True):
    """Pods of one task by pod phase."""

    phase: dict[str, int] = {}


class JobStatus(_Wire, frozen=True, omit_defaults=True):
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


class _JobSpec(_Wire, frozen=True):
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


class _Place(_Wire, frozen=True):
    scheduler_name: str = ""
    node_name: str = ""


class _PlacedTemplate(_Wire, frozen=True):
    spec: _Place = _Place()


class _PlacedTask(_Wire, frozen=True):
    template: _PlacedTemplate = _PlacedTemplate()


class _PlacedSpec(_Wire, frozen=True):
    scheduler_name: str = ""
    tasks: list[_PlacedTask] | None = None


class _Placed(_Wire, frozen=True):
    spec: _PlacedSpec = _PlacedSpec()


class _Job(_Wire, frozen=True):
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

    @property
    def phase(self) -> str:
        """`status.state.phase`."""
        return self.status.state.phase

    @property
    def transition(self) -> str:
        """`status.state.lastTransitionTime`."""
        return self.status.state.last_transition_time


def _demands(spec: _JobSpec) -> tuple[str, ...]:
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


def _fields_of_place(spec: _PlacedSpec) -> tuple[tuple[str, str], ...]:
    """Fields that say who gives pods their node, or which one, as far as they are set."""
    found = [("spec.schedulerName", spec.scheduler_name)]
    for index, task in enumerate(spec.tasks or []):
        field, place = f"spec.tasks[{index}].template.spec", task.template.spec
        found += [(f"{field}.schedulerName", place.scheduler_name), (f"{field}.nodeName", place.node_name)]
    return tuple((name, sys.intern(value)) for name, value in found if value)


class Projector:
    """Projections that share shapes: equal pod shapes and gangs are one object."""

    def __init__(self) -> None:
        self.pool = Pool()
        self._job = msgspec.json.Decoder(_Job).decode
        self._placed = msgspec.json.Decoder(_Placed).decode
        self._pod = msgspec.json.Decoder(_Pod).decode
        self._template = msgspec.json.Decoder(PodTemplate).decode

    def job(self, document: Document) -> JobView:
        """A Job as the agent keeps it."""
        job = self._job(document)
        meta, spec = job.metadata, job.spec
        gang, unreadable = None, ""
        try:
            gang = read_gang(spec.tasks or [], minimum=spec.min_available or None, pool=self.pool)
        except UnreadableShape as error:
            unreadable = str(error)
        record = None
        if meta.annotation(keys.RUN):
            try:
                record = decode_record(meta.annotation(keys.RUN), where=f"Job {meta.namespace}/{meta.name}")
            except UnreadableRun as error:
                unreadable = unreadable or f"metadata.annotations[{keys.RUN}]: {error}"
        return JobView(
            namespace=sys.intern(meta.namespace),
            name=meta.name,
            uid=meta.uid,
            version=meta.resource_version,
            generation=meta.generation,
            created=meta.creation_timestamp,
            deleting=meta.deletion_timestamp is not None,
            finalizers=tuple(sys.intern(each) for each in meta.finalizers or ()),
            managed=meta.label(keys.MANAGED_LABEL) == "true" and bool(meta.annotation(keys.WORK_UID)),
            work=(meta.annotation(keys.WORK_NAMESPACE), meta.annotation(keys.WORK_NAME)),
            work_uid=meta.annotation(keys.WORK_UID),
            work_digest=meta.annotation(keys.WORK_DIGEST),
            record=record,
            run_nodes=meta.annotation(keys.RUN_NODES),
            queue=sys.intern(spec.queue or keys.DEFAULT_QUEUE),
            scheduler=sys.intern(spec.scheduler_name),
            priority_class=sys.intern(spec.priority_class_name),
            min_success=spec.min_success,
            ttl=spec.ttl_seconds_after_finished,
            gang=gang,
            unreadable=unreadable,
            minima=tuple(
                (task.name or f"default{index}", task.min_available)
                for index, task in enumerate(spec.tasks or [])
                if task.min_available is not None
            ),
            demands=_demands(spec),
            status=job.status or JobStatus(),
            placed=_fields_of_place(self._placed(document).spec),
        )

    def pod(self, document: Document) -> PodView:
        """A pod as the agent keeps it. A pod whose requests cannot be read asks for nothing but a place."""
        pod = self._pod(document)
        meta, spec, status = pod.metadata, pod.spec, pod.status
        shape = self.pool.shape(read_shape(self._template(document)))
        ended = status.phase in ENDED
        return PodView(
            namespace=sys.intern(meta.namespace),
            name=meta.name,
            uid=meta.uid,
            version=meta.resource_version,
            created=meta.creation_timestamp,
            owner=meta.controller,
            group=meta.annotation(keys.GROUP_NAME),
            task=sys.intern(meta.annotation(keys.TASK_SPEC)),
            queue=sys.intern(meta.annotation(keys.QUEUE_NAME)),
            run=bool(meta.annotation(keys.RUN)),
            scheduler=sys.intern(spec.scheduler_name),
            node=sys.intern(spec.node_name),
            priority=spec.priority,
            gated=bool(spec.scheduling_gates),
            phase=sys.intern(status.phase or "Pending"),
            deleting=meta.deletion_timestamp is not None,
            confirmed=ended and not status.collected and not status.any_running,
            shape=shape,
            trouble=status.trouble,
        )


# --- pods ------------------------------------------------------------------------------------------------------------


class _Waits(_Wire, frozen=True):
    reason: str = ""
    message: str = ""


class _ContainerState(_Wire, frozen=True):
    running: dict[str, Any] | None = None
    waiting: _Waits | None = None


class _ContainerStatus(_Wire, frozen=True):
    state: _ContainerState = _ContainerState()


class _PodSpec(_Wire, frozen=True):
    node_name: str = ""
    scheduler_name: str = ""
    priority: int = 0
    scheduling_gates: list[Any] | None = None


class _PodStatus(_Wire, frozen=True):
    phase: str = ""
    conditions: list[Condition] | None = None
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[_ContainerStatus] | None = None

    @property
    def collected(self) -> bool:
        """The end was written by the pod garbage collector for a lost node, not by the kubelet."""
        return any(each.type == "DisruptionTarget" and each.reason == "DeletionByPodGC" for each in self.conditions or ())

    @property
    def any_running(self) -> bool:
        """Some container was running when its kubelet last spoke."""
        return any(each.state.running is not None for each in self.container_statuses or ())

    @property
    def trouble(self) -> tuple[str, str] | None:
        """Reason and message of the first container that waits for something that may never come, before the pod runs."""
        if self.phase not in ("", "Pending"):
            return None
        for each in (*(self.init_container_statuses or ()), *(self.container_statuses or ())):
            waits = each.state.waiting
            if waits is not None and waits.reason in TROUBLES:
                return sys.intern(waits.reason), waits.message[:TROUBLE_TEXT]
        return None


class _Pod(_Wire, frozen=True):
    metadata: Meta
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod. `owner` is the UID of its controller, `group` its PodGroup; `confirmed`: its kubelet reported the end; `trouble`:
    reason and message of a container that cannot start."""

    namespace: str
    name: str
    uid: str
    version: str
    created: str
    owner: str
    group: str
    task: str
    queue: str
    run: bool
    scheduler: str
    node: str
    priority: int
    gated: bool
    phase: str
    deleting: bool
    confirmed: bool
    shape: PodShape
    trouble: tuple[str, str] | None = None

    @property
    def ended(self) -> bool:
        """Succeeded or Failed: it holds no resources."""
        return self.phase in ENDED


# --- nodes -----------------------------------------------------------------------------------------------------------


class _WireTaint(_Wire, frozen=True):
    key: str = ""
    value: str | None = None
    effect: str = ""


class _NodeSpec(_Wire, frozen=True):
    unschedulable: bool = False
    taints: list[_WireTaint] | None = None


class _NodeInfo(_Wire, frozen=True):
    boot_id: str = msgspec.field(name="bootID", default="")


class _NodeStatus(_Wire, frozen=True):
    allocatable: dict[str, Any] | None = None
    conditions: list[Condition] | None = None
    node_info: _NodeInfo = _NodeInfo()


class _Node(_Wire, frozen=True):
    metadata: Meta
    spec: _NodeSpec = _NodeSpec()
    status: _NodeStatus = _NodeStatus()


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node. `ready` is its kubelet's own word; `cordoned` is `spec.unschedulable`."""

    name: str
    uid: str
    version: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    cordoned: bool
    ready: bool
    boot_id: str
    allocatable: ResourceVector
    namespace: str = field(default="")

    @property
    def out_of_service(self) -> bool:
        """A person declared that nothing runs here any more."""
        return any(taint.key == OUT_OF_SERVICE for taint in self.taints)


_node = msgspec.json.Decoder(_Node).decode


def project_node(document: Document) -> NodeView:
    """A node as the agent keeps it; raises InvalidQuantity."""
    node = _node(document)
    ready = condition(tuple(node.status.conditions or ()), "Ready")
    return NodeView(
        name=node.metadata.name,
        uid=node.metadata.uid,
        version=node.metadata.resource_version,
        labels=node.metadata.labels or {},
        taints=tuple(Taint(each.key, each.value or "", each.effect) for each in node.spec.taints or ()),
        cordoned=node.spec.unschedulable,
        ready=ready is not None and ready.status == "True",
        boot_id=node.status.node_info.boot_id,
        allocatable=ResourceVector.from_quantities(node.status.allocatable),
    )


# --- PodGroup, Queue, PriorityClass ----------------------------------------------------------------------------------


SCHEDULED = "Scheduled"
"""Condition of a PodGroup: True while its minimum has nodes, False once it had."""


class GroupCondition(_Wire, frozen=True, omit_defaults=True):
    """A condition of a PodGroup."""

    type: str
    status: str = ""
    transition_id: str = msgspec.field(name="transitionID", default="")
    last_transition_time: str = ""
    reason: str = ""
    message: str = ""


class GroupStatus(_Wire, frozen=True, omit_defaults=True):
    """`status` of a PodGroup (reference/volcano.md 2.1)."""

    phase: str = ""
    conditions: list[GroupCondition] = []
    running: int = 0
    succeeded: int = 0
    failed: int = 0


class _GroupSpec(_Wire, frozen=True):
    min_member: int = 0
    min_task_member: dict[str, int] | None = None
    queue: str = ""
    priority_class_name: str = ""
    min_resources: dict[str, Any] | None = None


class _Group(_Wire, frozen=True):
    metadata: Meta
    spec: _GroupSpec = _GroupSpec()
    status: GroupStatus | None = None


@dataclass(frozen=True, slots=True)
class GroupView:
    """A PodGroup. `admitted`: the hub admitted it, the member's queues only account for it (protocol.md 6)."""

    namespace: str
    name: str
    uid: str
    version: str
    created: str
    owner: str
    deleting: bool
    admitted: bool
    min_member: int
    min_task_member: tuple[tuple[str, int], ...]
    queue: str
    priority_class: str
    min_resources: ResourceVector
    status: GroupStatus

    @property
    def phase(self) -> str:
        """Empty counts as Pending."""
        return self.status.phase or "Pending"

    @property
    def once_whole(self) -> bool:
        """Its minimum had nodes at some time: a gang that lost pods since is the Job's affair, not the scheduler's."""
        return any(each.type == SCHEDULED for each in self.status.conditions)


_group = msgspec.json.Decoder(_Group).decode


def project_group(document: Document) -> GroupView:
    """A PodGroup as the agent keeps it; raises InvalidQuantity."""
    group = _group(document)
    meta, spec = group.metadata, group.spec
    return GroupView(
        namespace=sys.intern(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        created=meta.creation_timestamp,
        owner=meta.controller,
        deleting=meta.deletion_timestamp is not None,
        admitted=bool(meta.annotation(keys.RUN) and meta.annotation(keys.WORK_UID)),
        min_member=spec.min_member,
        min_task_member=tuple(sorted((spec.min_task_member or {}).items())),
        queue=sys.intern(spec.queue or keys.DEFAULT_QUEUE),
        priority_class=sys.intern(spec.priority_class_name),
        min_resources=ResourceVector.from_quantities(spec.min_resources),
        status=group.status or GroupStatus(),
    )


class _QueueSpec(_Wire, frozen=True):
    weight: int = 1
    parent: str = ""
    capability: dict[str, Any] | None = None
    guarantee: dict[str, Any] | None = None


class _QueueStatus(_Wire, frozen=True):
    state: str = ""
    allocated: dict[str, Any] | None = None


class _Queue(_Wire, frozen=True):
    metadata: Meta
    spec: _QueueSpec = _QueueSpec()
    status: _QueueStatus = _QueueStatus()


@dataclass(frozen=True, slots=True)
class QueueView:
    """A local Queue."""

    name: str
    uid: str
    version: str
    parent: str
    weight: int
    capability: ResourceVector
    guarantee: ResourceVector
    state: str
    allocated: ResourceVector
    namespace: str = field(default="")

    @property
    def open(self) -> bool:
        """Takes new work; a queue without a state yet does."""
        return self.state in ("", "Open")


_queue = msgspec.json.Decoder(_Queue).decode


def project_queue(document: Document) -> QueueView:
    """A Queue as the agent keeps it; raises InvalidQuantity."""
    queue = _queue(document)
    guarantee = (queue.spec.guarantee or {}).get("resource")
    return QueueView(
        name=queue.metadata.name,
        uid=queue.metadata.uid,
        version=queue.metadata.resource_version,
        parent=queue.spec.parent,
        weight=queue.spec.weight,
        capability=ResourceVector.from_quantities(queue.spec.capability),
        guarantee=ResourceVector.from_quantities(guarantee),
        state=queue.status.state,
        allocated=ResourceVector.from_quantities(queue.status.allocated),
    )


class _PriorityClass(_Wire, frozen=True):
    metadata: Meta
    value: int = 0


@dataclass(frozen=True, slots=True)
class PriorityView:
    """A PriorityClass."""

    name: str
    uid: str
    version: str
    value: int
    namespace: str = field(default="")


_priority = msgspec.json.Decoder(_PriorityClass).decode


def project_priority(document: Document) -> PriorityView:
    """A PriorityClass as the agent keeps it."""
    found = _priority(document)
    meta = found.metadata
    return PriorityView(name=meta.name, uid=meta.uid, version=meta.resource_version, value=found.value)
