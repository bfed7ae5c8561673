"""What one decision about a flow looks at: the flow as served, its Jobs, and which templates exist."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    deletion_timestamp: str | None = None


class DependsOn(msgspec.Struct, frozen=True, rename="camel"):
    """`dependsOn` of a step."""

    targets: list[str] | None = None
    probe: msgspec.Raw | None = None


class Step(msgspec.Struct, frozen=True, rename="camel"):
    """One entry of `spec.flows`; the name is the template's."""

    name: str
    depends_on: DependsOn | None = None
    patch: msgspec.Raw | None = None

    @property
    def targets(self) -> list[str]:
        """Steps this one waits for."""
        return (self.depends_on.targets or []) if self.depends_on else []


class RunningHistory(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One stretch of a state, as upstream lists it."""

    state: str = ""
    start_timestamp: str | None = None
    end_timestamp: str | None = None


class StepStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What is recorded of a step, by the name of its Job. `end_timestamp` set: the end is recorded and final."""

    name: str
    state: str = ""
    start_timestamp: str | None = None
    end_timestamp: str | None = None
    restart_count: int = 0
    running_histories: list[RunningHistory] = []
    message: str = ""


class FlowState(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """`status.state`."""

    phase: str = ""
    reason: str = ""
    message: str = ""


class FlowStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """`status` of a JobFlow; `unKnowJobs` is upstream's spelling."""

    state: FlowState = FlowState()
    pending_jobs: list[str] = []
    running_jobs: list[str] = []
    failed_jobs: list[str] = []
    completed_jobs: list[str] = []
    terminated_jobs: list[str] = []
    unknow_jobs: list[str] = msgspec.field(name="unKnowJobs", default_factory=list)
    job_status_list: list[StepStatus] = []
    conditions: dict[str, Any] = {}


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    flows: list[Step] = []
    job_retain_policy: str = ""


class _Document(msgspec.Struct, frozen=True, rename="camel"):
    metadata: _Meta
    spec: _Spec = _Spec()
    status: FlowStatus = FlowStatus()


@dataclass(frozen=True, slots=True)
class FlowView:
    """Projection of a JobFlow."""

    namespace: str
    name: str
    uid: str
    version: str
    deleting: bool
    retain: bool
    steps: tuple[Step, ...]
    status: FlowStatus


_decoder = msgspec.json.Decoder(_Document)


def project_flow(document: bytes) -> FlowView:
    """The projection that the informer of JobFlows keeps."""
    read = _decoder.decode(document)
    steps = {step.name: step for step in read.spec.flows}  # upstream accepts a step listed twice: the last one counts
    return FlowView(
        namespace=read.metadata.namespace,
        name=read.metadata.name,
        uid=read.metadata.uid,
        version=read.metadata.resource_version,
        deleting=read.metadata.deletion_timestamp is not None,
        retain=read.spec.job_retain_policy != "delete",
        steps=tuple(steps.values()),
        status=read.status,
    )


class _TemplateDocument(msgspec.Struct, frozen=True):
    metadata: _Meta


@dataclass(frozen=True, slots=True)
class TemplateView:
    """Projection of a JobTemplate: that it exists is all a decision needs; its spec is read when a Job is made."""

    namespace: str
    name: str
    uid: str
    version: str


_template_decoder = msgspec.json.Decoder(_TemplateDocument)


def project_template(document: bytes) -> TemplateView:
    """The projection that the informer of JobTemplates keeps."""
    meta = _template_decoder.decode(document).metadata
    return TemplateView(namespace=meta.namespace, name=meta.name, uid=meta.uid, version=meta.resource_version)


class FlowJob(Protocol):
    """What a flow needs of a Job's projection; the hub's JobView and the member's have it."""

    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def phase(self) -> str:
        """`status.state.phase`, "" before the first status."""
        ...

    @property
    def created(self) -> str:
        """`metadata.creationTimestamp`."""
        ...

    @property
    def last_transition(self) -> str:
        """`status.state.lastTransitionTime`, "" when there is none."""
        ...

    @property
    def retry_count(self) -> int: ...
    @property
    def running_duration(self) -> str: ...
    @property
    def task_status_count(self) -> Mapping[str, Any]: ...
    @property
    def created_by_flow(self) -> str:
        """Value of the annotation `volcano.sh/createdByJobFlow` (`<namespace>.<flow>`), "" when there is none."""
        ...

    @property
    def owner_uid(self) -> str:
        """UID of the controlling owner, "" when there is none."""
        ...

    @property
    def deleting(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class FlowSnapshot:
    """One flow, its own Jobs by Job name, Jobs of those names that belong to somebody else, and the templates there are.

    `ended` holds ends seen in Jobs that vanished before their end was recorded; `refused` what the API server said to the
    Jobs of steps that it would not take, by step name.
    """

    flow: FlowView
    jobs: Mapping[str, FlowJob]
    foreign: frozenset[str] = frozenset()
    templates: frozenset[str] = frozenset()
    ended: Mapping[str, FlowJob] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)


def creator(namespace: str, flow: str) -> str:
    """Value of the annotation that names the flow."""
    return f"{namespace}.{flow}"
