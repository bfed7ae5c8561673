"""What one decision about a CronJob looks at: the CronJob as served, and what it owns: Jobs, or JobFlows. Where nothing else is
said, "Job" stands for either."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from apis import kinds


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None


class Reference(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """An ObjectReference."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class Condition(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A condition as Kubernetes writes them."""

    type: str
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""


class CronStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """`status` of a CronJob; times are RFC 3339, "" where there is none."""

    active: list[Reference] = []
    last_schedule_time: str = ""
    last_successful_time: str = ""
    conditions: list[Condition] = []


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    schedule: str = ""
    time_zone: str | None = None
    starting_deadline_seconds: int | None = None
    concurrency_policy: str | None = None
    suspend: bool | None = None
    successful_jobs_history_limit: int | None = None
    failed_jobs_history_limit: int | None = None
    job_template: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    flow_template: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET

    @property
    def templates(self) -> tuple[kinds.Kind, ...]:
        """What it makes, by the templates that are written."""
        given = ((kinds.JOB, self.job_template), (kinds.JOB_FLOW, self.flow_template))
        return tuple(kind for kind, raw in given if isinstance(raw, msgspec.Raw) and bytes(raw) != b"null")


class _Document(msgspec.Struct, frozen=True, rename="camel"):
    metadata: _Meta
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: CronStatus | None = None


@dataclass(frozen=True, slots=True)
class CronView:
    """Projection of a CronJob, without its template. `deadline` is seconds; `keep_successful` and `keep_failed` are
    Jobs; `unreadable` says why the spec cannot be read, "" when it can."""

    namespace: str
    name: str
    uid: str
    version: str
    created: datetime.datetime
    deleting: bool = False
    schedule: str = ""
    time_zone: str | None = None
    deadline: int | None = None
    policy: str = "Allow"
    suspend: bool = False
    keep_successful: int = 3
    keep_failed: int = 1
    status: CronStatus = CronStatus()
    unreadable: str = ""
    makes: kinds.Kind = kinds.JOB


_document = msgspec.json.Decoder(_Document)
_spec = msgspec.json.Decoder(_Spec)
_NEVER = datetime.datetime.fromtimestamp(0, datetime.UTC)


def moment(text: str) -> datetime.datetime | None:
    """A time as objects carry it, aware; None for "" and for what is no time."""
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=datetime.UTC)


def project_cron(document: bytes) -> CronView:
    """The projection that the informer of CronJobs keeps."""
    read, unreadable = _document.decode(document), ""
    try:
        spec = _spec.decode(read.spec)
    except msgspec.MsgspecError as error:
        spec, unreadable = _Spec(), str(error)
    made = spec.templates
    if len(made) != 1 and not unreadable:
        # A flowTemplate that the served CRD has not is dropped by the API server, whoever writes it.
        lost = "" if made else "; a flowTemplate is kept only where this project's CRD is served (ExtensionsNotServed)"
        unreadable = f"exactly one of jobTemplate and flowTemplate should be specified{lost}"
    meta = read.metadata
    return CronView(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        created=moment(meta.creation_timestamp) or _NEVER,
        deleting=meta.deletion_timestamp is not None,
        schedule=spec.schedule,
        time_zone=spec.time_zone,
        deadline=spec.starting_deadline_seconds,
        policy=spec.concurrency_policy or "Allow",
        suspend=bool(spec.suspend),
        keep_successful=3 if spec.successful_jobs_history_limit is None else spec.successful_jobs_history_limit,
        keep_failed=1 if spec.failed_jobs_history_limit is None else spec.failed_jobs_history_limit,
        status=read.status or CronStatus(),
        unreadable=unreadable,
        makes=made[0] if made else kinds.JOB,
    )


class CronChild(Protocol):
    """What a CronJob needs of the projection of a Job or flow; the hub's JobView, the member's and the view of a JobFlow have
    it."""

    @property
    def kind(self) -> kinds.Kind:
        """Job or JobFlow."""
        ...

    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def created(self) -> str:
        """`metadata.creationTimestamp`."""
        ...

    @property
    def deleting(self) -> bool: ...
    @property
    def owner_uid(self) -> str:
        """UID of the controlling owner, "" when there is none."""
        ...

    @property
    def phase(self) -> str:
        """`status.state.phase` of a Job, "" before the first status; of a flow the phase that a Job would have."""
        ...

    @property
    def transition(self) -> str:
        """When the phase began, or a flow ended; RFC 3339, or ""."""
        ...


@dataclass(frozen=True, slots=True)
class Refusal:
    """A run that could not be started: the name of its Job, why, and when it is tried again."""

    job: str
    reason: str
    message: str
    again: datetime.datetime


@dataclass(frozen=True, slots=True)
class CronSnapshot:
    """One CronJob and the Jobs that it owns, by UID. `seen`: the minute of the newest run that was ever seen, also when its
    Job is gone; `unreadable` names Jobs that exist and cannot be read; `told` has the UIDs of Jobs that people were told of."""

    cron: CronView
    jobs: Mapping[str, CronChild] = field(default_factory=dict)
    seen: datetime.datetime | None = None
    unreadable: frozenset[str] = frozenset()
    refusal: Refusal | None = None
    told: frozenset[str] = frozenset()
