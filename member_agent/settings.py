"""Settings of the agent and the fencer: every one with unit, default and reason (seconds unless said otherwise).

The times of the protocol (protocol.md 2) may be scaled down together for tests; their inequalities are checked here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from apis import keys
from apis.offer import OfferSpec
from controllers.admission.settings import AdmissionSettings
from controllers.channel.settings import AgentChannel
from member_agent import carried

ModeSetting = Literal["auto", "builtin", "volcano"]


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ProtocolTimes(_Settings):
    """The times of protocol.md 2 that the programs of a member use, on the boot-time clock.

    How long a member may be away (fenceAfter) is said by each Work; G, W and the inequalities about them (I1, I2) come with
    fencing itself, which this version does not do (condition FencingArmed).
    """

    renew: float = Field(
        default=10.0, gt=0, description="Tr: the fencer renews the member Lease; a tenth of a minute costs little"
    )
    request: float = Field(default=3.0, gt=0, description="tau: a request that takes longer counts as failed")
    answer: float = Field(
        default=10.0, gt=0, description="the port gives up a request without answer after so long; it may still take effect"
    )
    handover: float = Field(
        default=30.0, gt=0, description="D: a fencer takes over when the renewal counter stood still so long"
    )
    kubelet: float = Field(
        default=60.0, gt=0, description="K: a Ready node has ended what is no longer in the API after so long"
    )
    lease_duration: float = Field(default=10.0, gt=0, description="leader election of agents: how long a leader is believed")
    renew_deadline: float = Field(default=6.0, gt=0, description="leader election of agents: how long a leader believes itself")

    @model_validator(mode="after")
    def _election_is_safe(self) -> Self:
        if not self.renew_deadline + self.request < self.lease_duration:
            raise ValueError("I3: renew_deadline + request must be less than lease_duration")
        return self

    @property
    def quiet(self) -> float:
        """A5: how long a new local leader confirms nothing."""
        return self.lease_duration + self.request

    @property
    def unanswered(self) -> float:
        """How long a request whose outcome is unknown may still take effect, counted from when it was given up."""
        return self.answer + self.request

    def scaled(self, factor: float) -> ProtocolTimes:
        """All times multiplied by `factor`, the port's time-out as it is; for tests."""
        times = {name: value if name == "answer" else value * factor for name, value in self.model_dump().items()}
        return ProtocolTimes(**times)


class SchedulingSettings(_Settings):
    """The gang scheduler."""

    scheduler_name: str = Field(
        default=keys.DEFAULT_SCHEDULER,
        min_length=1,
        description="pods with this schedulerName are ours, those of hub-run Jobs too",
    )
    more_names: tuple[str, ...] = Field(
        default=(), description="pods with one of these are ours as well; others count as used room"
    )
    default_queue: str = Field(
        default=keys.DEFAULT_QUEUE,
        min_length=1,
        description="queue of pods without a Job that name none; made if it is missing",
    )
    node_selector: tuple[str, ...] = Field(
        default=(), description="`key:value` of labels: only nodes that have one of them are seen; none: all"
    )
    configuration: Path | None = Field(
        default=None, description="file in Volcano's format, followed live; before ConfigMaps, these before the built-in one"
    )
    placements_at_once: int = Field(
        default=2000, gt=0, description="pods placed in one go, a gang always whole; then others get their turn (under 0.1 s)"
    )
    stretch: float = Field(
        default=0.05,
        ge=0,
        description="a round pauses between two gangs after so long: nobody else in the program waits longer",
    )
    binds_at_once: int = Field(default=32, gt=0, description="bindings in flight: enough to keep an API server busy")
    coalesce: float = Field(default=0.01, ge=0, description="a round waits so long for more events")
    phase_after: float = Field(
        default=2.0, ge=0, description="a PodGroup phase waits so long, that counters come in the same write"
    )
    counters_after: float = Field(
        default=30.0, ge=0, description="counters alone are written at leisure: nothing depends on them"
    )
    reason_after: float = Field(default=1.0, ge=0, description="a gang that starts within this writes no reason for waiting")
    numbers_after: float = Field(default=10.0, ge=0, description="new numbers in a known reason")
    bind_retry: float = Field(default=0.5, gt=0, description="first wait after a refused binding; doubles")
    bind_retry_limit: float = Field(default=60.0, gt=0, description="longest wait after refused bindings")
    partial_after: float = Field(
        default=120.0,
        gt=0,
        description="a gang that never was whole and holds fewer nodes than its minimum gives them back after so long; "
        "as long as parts of a gang over clusters wait for each other (protocol.md 5)",
    )
    eviction_wait: float = Field(
        default=120.0,
        gt=0,
        description="a gang for which others were evicted has so long to start after the last should have gone (protocol.md 6)",
    )
    evictions_at_once: int = Field(default=16, gt=0, description="evictions in flight")
    hold_without_hub: float = Field(
        default=300.0,
        gt=0,
        description="room held for a gang over clusters outlives the hub's last answer by this (protocol.md 5)",
    )
    volumes_wait: float = Field(
        default=600.0, gt=0, description="claims of a pod that has its node are bound within this, or it is looked for anew"
    )
    job_metrics: bool = Field(
        default=False, description="tell Prometheus of every gang by name too, as upstream does: series for each"
    )
    partial_pause: float = Field(default=60.0, gt=0, description="first wait of a gang that gave its nodes back; doubles")
    partial_pause_limit: float = Field(default=600.0, gt=0, description="longest wait of a gang that gave its nodes back")

    @field_validator("node_selector")
    @classmethod
    def _are_labels(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        bad = [each for each in value if not each.partition(":")[0] or ":" not in each]
        if bad:
            raise ValueError(f"node_selector: {', '.join(bad)}: not key:value")
        return value

    @property
    def names(self) -> frozenset[str]:
        """Every schedulerName of which the pods are ours."""
        return frozenset({self.scheduler_name, *self.more_names})

    def sees(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels is one of ours."""
        pairs = (each.partition(":") for each in self.node_selector)
        return not self.node_selector or any(labels.get(key) == value for key, _, value in pairs)


class JobSettings(_Settings):
    """The Job controller."""

    scheduler_name: str = Field(default=keys.DEFAULT_SCHEDULER, description="given to pods of Jobs that name none")
    workers: int = Field(
        default=64, gt=0, description="Jobs reconciled at once: each waits for answers one after the other, and many are small"
    )
    creates_at_once: int = Field(default=32, gt=0, description="pods of one Job created at once")
    coalesce: float = Field(default=0.02, ge=0, description="events of one Job wait so long for company")
    pending_after: float = Field(default=2.5, ge=0, description="Pending is written only if the Job has not started by then")
    phase_after: float = Field(default=1.0, ge=0, description="Running waits so long for the rest of the pods")
    counters_after: float = Field(
        default=10.0,
        ge=0,
        description="counters alone of a hub-run Job wait so long: the hub folds them; ends are written at once",
    )
    local_counters_after: float = Field(default=1.0, ge=0, description="counters of a local Job, which people watch")
    local_counters_at_most: float = Field(
        default=4.0, ge=0, description="the same while they keep changing: each time twice as long, up to this"
    )
    starting_counters_after: float = Field(
        default=10.0,
        ge=0,
        description="the same while the Job has not started: its phase tells more than they",
    )
    expect: float = Field(default=30.0, gt=0, description="a pod created and never seen is made again after so long")


class PodGroupSettings(_Settings):
    """PodGroups of pods that come without one."""

    inherit_owner_annotations: bool = Field(default=True, description="a group takes its owner's annotations over, as upstream")
    workers: int = Field(default=8, gt=0, description="owners reconciled at once")
    writes_at_once: int = Field(default=32, gt=0, description="pods told their group at once")
    coalesce: float = Field(default=0.02, ge=0, description="events of one owner's pods wait so long for company")
    expect: float = Field(default=30.0, gt=0, description="what was written and never seen is written again after so long")


class WorkSettings(_Settings):
    """Works."""

    workers: int = Field(default=32, gt=0, description="Works reconciled at once; one worker per Work")
    coalesce: float = Field(default=1.0, ge=0, description="Work status is coalesced so long (protocol.md 7)")
    writes_per_second: float = Field(default=20.0, gt=0, description="status writes at the hub, per second (protocol.md 7)")
    applied_after: float = Field(default=3.0, ge=0, description="Applied and still Pending usually merges with Running")
    retry: float = Field(
        default=1.0, gt=0, description="asking again for a Lease that no fencer holds yet, or a node that is away"
    )
    companions_wait: float = Field(
        default=10.0, ge=0, description="a Job waits so long for the queue and class it names: the hub sends them beside it"
    )
    plain_workers: int = Field(default=8, gt=0, description="objects that Jobs refer to, brought here at once")
    plain_patience: float = Field(
        default=60.0,
        ge=0,
        description="such an object that may not be deleted is let go after so long: it stays as this cluster's",
    )
    plain_again: float = Field(
        default=300.0, gt=0, description="such objects are looked at again after so long: people here may have changed them"
    )
    impersonate: str = Field(
        default="",
        pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$",
        description="what the hub sends into a namespace is written in the name of this ServiceAccount of that namespace, "
        "whose rights this cluster's people give (protocol.md 8); empty: in the agent's own",
    )
    more_kinds: tuple[str, ...] = Field(
        default=(),
        description="namespaced kinds that are taken from the hub beside the usual ones, as things.v1.example.com/Thing",
    )

    @field_validator("more_kinds")
    @classmethod
    def _kinds_are_readable(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for each in given:
            carried.read_kind(each)
        return given


class QueueSettings(_Settings):
    """Local queues."""

    allocated_after: float = Field(
        default=5.0, ge=0, description="amounts and counters of a queue are coalesced so long; people read them"
    )
    workers: int = Field(default=4, gt=0, description="queues looked at at once; a look is one or two writes")


class UpstreamSettings(_Settings):
    """Orders to a Volcano that runs the Jobs of this member."""

    workers: int = Field(default=4, gt=0, description="Jobs looked at at once")
    coalesce: float = Field(default=0.2, ge=0, description="events of one Job wait so long for company")
    again: float = Field(
        default=30.0,
        gt=0,
        description="an order that shows no effect is given again after so long: a Command is deleted before it is acted on",
    )


class NodeGroup(_Settings):
    """A group of nodes that an autoscaler adds to, as the hub is to know it (`status.growable`)."""

    name: str = Field(min_length=1, description="as people know it")
    labels: dict[str, str] = Field(min_length=1, description="labels of its nodes, by which those that are there are counted")
    taints: tuple[str, ...] = Field(default=(), description="taints of its nodes, `key:effect`")
    allocatable: dict[str, str] = Field(min_length=1, description="what one node can allocate, as a Kubernetes resource list")
    most: int = Field(ge=0, description="nodes it may have in all")
    delay: int = Field(ge=0, description="seconds from wanting a node to its being ready")


class ReportSettings(_Settings):
    """ClusterCapacity and Cluster status."""

    every: float = Field(default=5.0, gt=0, description="at most one capacity status per so many seconds (protocol.md 4)")
    sooner: float = Field(default=1.0, gt=0, description="when nodes are lost, or a shape that the hub asks about fits")
    look: float = Field(default=0.5, gt=0, description="between looks at what might be told, whatever happens meanwhile")
    small_after: float = Field(
        default=60.0, gt=0, description="what changed by less than `share` is told after so long: nobody waits for ever for it"
    )
    domains: tuple[str, ...] = Field(
        default=("topology.kubernetes.io/zone",),
        description="labels that name the leaf domain of a node, the first that it has counts",
    )
    growable: tuple[NodeGroup, ...] = Field(default=(), description="what autoscaled groups may add; nothing is looked up")
    share: float = Field(default=0.125, gt=0, lt=1, description="a change of a row group by this share is material (a share)")
    status_every: float = Field(default=10.0, gt=0, description="at most one Cluster status per so many seconds")
    retry: float = Field(default=2.0, gt=0, description="between attempts to reach the hub")


class AgentSettings(_Settings):
    """The agent (`member-agent run`)."""

    cluster: str = Field(
        min_length=1, max_length=48, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", description="the member's name"
    )
    provider: str = Field(default="", description="as Cluster.spec.provider")
    region: str = Field(default="", description="as Cluster.spec.region")
    zones: tuple[str, ...] = Field(default=(), description="as Cluster.spec.zones")
    labels: dict[str, str] = Field(default_factory=dict, description="labels of the Cluster, for policies")
    offer: dict[str, Any] | None = Field(
        default=None, description="the price sheet: spec of the ClusterOffer that the agent publishes; none: people write it"
    )
    push_secret: str = Field(
        default="",
        pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/[a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$",
        description="namespace/name of the Secret at the hub that holds this member's kubeconfig; given: a push member",
    )
    identity: str = Field(default="", description="name in the leader election; a random one when empty")
    mode: ModeSetting = Field(
        default="auto", description="who runs Jobs here; auto: a Volcano whose Leases are renewed, else the agent itself"
    )
    times: ProtocolTimes = ProtocolTimes()
    works: WorkSettings = WorkSettings()
    jobs: JobSettings = JobSettings()
    podgroups: PodGroupSettings = PodGroupSettings()
    scheduling: SchedulingSettings = SchedulingSettings()
    queues: QueueSettings = QueueSettings()
    upstream: UpstreamSettings = UpstreamSettings()
    reporting: ReportSettings = ReportSettings()
    channel: AgentChannel | None = Field(
        default=None, description="where the hub is dialled for logs and probes of steps; without it neither is answered"
    )
    admission: AdmissionSettings | None = Field(
        default=None, description="the webhook server; without it none is run and no configuration touched"
    )

    @field_validator("offer")
    @classmethod
    def _is_an_offer(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        if value is not None:
            OfferSpec.model_validate(value)
        return value

    @model_validator(mode="before")
    @classmethod
    def _everybody_names_our_scheduler(cls, data: Any) -> Any:
        """Pods of Jobs that name no scheduler are given the name under which we place pods, and the webhook judges pods of that
        name and of the further ones, unless it is said otherwise."""
        scheduling = data.get("scheduling") if isinstance(data, dict) else None
        if not isinstance(scheduling, dict):
            return data
        found = {"jobs": {}, **data}
        same = (
            ("jobs", "scheduler_name", "scheduler_name"),
            ("admission", "scheduler", "scheduler_name"),
            ("admission", "more_schedulers", "more_names"),
        )
        for part, field, name in same:
            if name in scheduling and isinstance(found.get(part), dict):
                found[part] = {field: scheduling[name], **found[part]}
        return found


class FencerSettings(_Settings):
    """The fencer (`member-agent fencer`)."""

    cluster: str = Field(
        min_length=1, max_length=48, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", description="the member's name"
    )
    identity: str = Field(default="", description="fencer id in holderIdentity; a random one when empty")
    mode: ModeSetting = Field(
        default="auto", description="as of the agent, written on the Lease; auto: what the agent wrote in the member"
    )
    times: ProtocolTimes = ProtocolTimes()
