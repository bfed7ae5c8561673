"""What one decision about a flow looks at: the flow as served, its Jobs and nested flows, and which templates exist."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from apis import keys, kinds
from controllers.flows.status import FlowState, FlowStatus, RunningHistory, StepStatus
from policies.flows.checked import Checked, checked
from policies.flows.phases import as_job
from policies.flows.spec import DependsOn, FlowSpec, Step, named

__all__ = [
    "ChildFlow",
    "DependsOn",
    "FlowJob",
    "FlowSnapshot",
    "FlowState",
    "FlowStatus",
    "FlowView",
    "RunningHistory",
    "Step",
    "StepStatus",
    "TemplateView",
    "creator",
    "project_flow",
    "project_template",
]


class _Owner(msgspec.Struct, frozen=True, rename="camel"):
    uid: str = ""
    controller: bool = False


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[_Owner] | None = None


class _Document(msgspec.Struct, frozen=True, rename="camel"):
    metadata: _Meta
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: FlowStatus = FlowStatus()


@dataclass(frozen=True, slots=True)
class FlowView:
    """Projection of a JobFlow. `steps` are those of `spec.flows`, each name once; `owner_uid` is of what controls it, a
    flow or a CronJob."""

    namespace: str
    name: str
    uid: str
    version: str
    deleting: bool
    retain: bool
    steps: tuple[Step, ...]
    status: FlowStatus
    spec: FlowSpec = FlowSpec()
    created: str = ""
    owner_uid: str = ""
    created_by_flow: str = ""
    created_by_cron: str = ""
    known: Checked | None = None
    """The spec with what follows from it, where it was read from bytes."""

    @property
    def checked(self) -> Checked:
        """The spec with what follows from it."""
        return self.known or Checked(self.spec)

    @property
    def handlers(self) -> tuple[Step, ...]:
        """What runs when everything else has ended."""
        return tuple(named(self.spec.on_exit or ()).values())

    @property
    def kind(self) -> kinds.Kind:
        """What it is, for those who look at Jobs and flows alike."""
        return kinds.JOB_FLOW

    @property
    def phase(self) -> str:
        """The phase that a Job would have."""
        return as_job(self.status.state.phase)

    @property
    def transition(self) -> str:
        """When it ended, RFC 3339, or ""."""
        return self.status.ended_at or ""


_decoder = msgspec.json.Decoder(_Document)


def project_flow(document: bytes) -> FlowView:
    """The projection that the informer of JobFlows keeps."""
    read = _decoder.decode(document)
    meta, known = read.metadata, checked(bytes(read.spec))
    return FlowView(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        deleting=meta.deletion_timestamp is not None,
        retain=known.spec.job_retain_policy != "delete",
        steps=known.steps,
        status=read.status,
        spec=known.spec,
        known=known,
        created=meta.creation_timestamp,
        owner_uid=next((owner.uid for owner in meta.owner_references or () if owner.controller), ""),
        created_by_flow=(meta.annotations or {}).get(keys.CREATED_BY_FLOW, ""),
        created_by_cron=(meta.annotations or {}).get(keys.CREATED_BY_CRON, ""),
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

    @property
    def outputs(self) -> Mapping[str, str]:
        """Values that its pods left, by name (`status.outputs`)."""
        ...


@dataclass(frozen=True, slots=True)
class ChildFlow:
    """A nested flow, seen as the Job of its step."""

    flow: FlowView

    @property
    def namespace(self) -> str:
        return self.flow.namespace

    @property
    def name(self) -> str:
        return self.flow.name

    @property
    def uid(self) -> str:
        return self.flow.uid

    @property
    def version(self) -> str:
        return self.flow.version

    @property
    def phase(self) -> str:
        """The phase a Job would have."""
        return self.flow.phase

    @property
    def created(self) -> str:
        return self.flow.created

    @property
    def last_transition(self) -> str:
        """When it ended."""
        return self.flow.transition

    @property
    def retry_count(self) -> int:
        return 0

    @property
    def running_duration(self) -> str:
        return ""

    @property
    def task_status_count(self) -> Mapping[str, Any]:
        return {}

    @property
    def created_by_flow(self) -> str:
        return self.flow.created_by_flow

    @property
    def owner_uid(self) -> str:
        return self.flow.owner_uid

    @property
    def deleting(self) -> bool:
        return self.flow.deleting

    @property
    def outputs(self) -> Mapping[str, str]:
        """Values of its steps as `<step>.<output>`."""
        listed = self.flow.status.job_status_list
        return {f"{each.step}.{name}": value for each in listed if each.step for name, value in each.outputs.items()}


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a Job was sent, and what the data that it reads had to do with it ("": nothing)."""

    clusters: tuple[str, ...]
    why: str = ""


@dataclass(frozen=True, slots=True)
class FlowSnapshot:
    """One flow, its own Jobs and nested flows by name, those of such names that belong to somebody else, and the templates
    there are (`flows`: the JobFlows that nested steps name).

    `ended` holds ends seen in Jobs that vanished before their end was recorded; `refused` what the API server said to the
    Jobs that it would not take, by Job name; `reached` the steps whose probes say that their targets are reached, and
    `unanswered` what the probes of others said last. `places` is where its Jobs were sent, by name; `made` are
    Jobs that were made a moment ago and are not seen yet; `kept`: somebody else has yet to record the end of the flow.
    """

    flow: FlowView
    jobs: Mapping[str, FlowJob]
    foreign: frozenset[str] = frozenset()
    templates: frozenset[str] = frozenset()
    flows: frozenset[str] = frozenset()
    ended: Mapping[str, FlowJob] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    reached: frozenset[str] = frozenset()
    unanswered: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[str, Placed] = field(default_factory=dict)
    made: frozenset[str] = frozenset()
    kept: bool = False


def creator(namespace: str, flow: str) -> str:
    """Value of the annotation that names the flow."""
    return f"{namespace}.{flow}"
