"""The roles of an agent that leads, built on what they share; which there are goes with the mode.

Who subscribes first to an informer hears first: the picture of the resources is current before anybody decides on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from apis import keys, kinds
from controllers.cron.controller import CronController
from controllers.cron.records import CronRecords
from controllers.cron.snapshot import project_cron
from controllers.flows.controller import FlowController
from controllers.flows.records import Records as FlowRecords
from controllers.flows.snapshot import project_flow
from controllers.ttl.controller import TtlController
from controllers.ttl.keepers import Everyone
from machinery.clock import Chance, Clock
from machinery.events import EventRecorder
from machinery.informer import Change, Informer, Informers
from machinery.metrics import Metrics
from machinery.port import Port, Streams
from member_agent import views
from member_agent.asking import Foresight
from member_agent.channel.controller import ChannelController
from member_agent.contact import HubContact
from member_agent.inventory import Inventory
from member_agent.jobs.controller import JobController
from member_agent.jobs.controller import Stores as JobStores
from member_agent.ledger import Ledger
from member_agent.modes import Mode, Ruling
from member_agent.podgroups.controller import PodGroupController
from member_agent.podgroups.controller import Stores as PodGroupStores
from member_agent.probes import PodProber
from member_agent.queues.controller import QueueController
from member_agent.queues.controller import Stores as QueueStores
from member_agent.reporting.controller import ReportingController
from member_agent.reporting.offering import OfferController
from member_agent.reporting.stores import Stores as ReportStores
from member_agent.reporting.stores import project_capacity
from member_agent.scheduling.controller import SchedulingController
from member_agent.scheduling.controller import Stores as SchedulingStores
from member_agent.scheduling.mounting import StorageStores
from member_agent.scheduling.planner import installed as installed_schedulers
from member_agent.scheduling.profile import ProfileKeeper
from member_agent.settings import AgentSettings
from member_agent.upstream.controller import Stores as UpstreamStores
from member_agent.upstream.controller import UpstreamController
from member_agent.views.budgets import project_budget
from member_agent.views.namespaces import project_namespace
from member_agent.views.quotas import project_quota
from member_agent.views.volumes import project_attach_limits, project_claim, project_storage_class, project_volume
from member_agent.works.controller import Stores as WorkStores
from member_agent.works.controller import WorkController
from member_agent.works.plain_controller import PlainController
from policies.members import project_command

LEADER = "member-agent"
"""Name of the leader's Lease in the member, and of the component in events."""


class Role(Protocol):
    """A controller of the agent."""

    async def run(self, metrics: Metrics | None = None) -> None:
        """Until cancelled."""
        ...


def runs_jobs(ruling: Ruling) -> bool:
    """Whether Jobs, PodGroups and pods of this member are the agent's own affair."""
    return ruling.mode is Mode.BUILTIN and not ruling.stands_off


@dataclass(frozen=True, slots=True)
class Ground:
    """What the roles of one leader stand on: `hub` and `local` with the informers on each (`there`, `here`), time, settings."""

    hub: Port
    local: Port
    there: Informers
    here: Informers
    clock: Clock
    chance: Chance
    settings: AgentSettings
    cluster_uid: str
    ruling: Ruling
    events: EventRecorder
    projector: views.Projector = field(default_factory=views.Projector)
    inventory: Inventory = field(default_factory=Inventory)
    running: Running = field(default_factory=lambda: Running())
    streams: Streams | None = None
    """Reads logs in the member; None where no channel is set."""


@dataclass(frozen=True, slots=True)
class Stores:
    """The informers that several roles read."""

    jobs: Informer[views.JobView]
    pods: Informer[views.PodView]
    nodes: Informer[views.NodeView]
    groups: Informer[views.GroupView]
    queues: Informer[views.QueueView]
    priorities: Informer[views.PriorityView]
    works: Informer[views.WorkView]

    @classmethod
    def of(cls, ground: Ground) -> Stores:
        """Each kind watched once."""
        here, projector = ground.here, ground.projector
        return cls(
            jobs=here.add(kinds.JOB, projector.job),
            pods=here.add(kinds.POD, projector.pod),
            nodes=here.add(kinds.NODE, views.project_node),
            groups=here.add(kinds.POD_GROUP, views.project_group),
            queues=here.add(kinds.QUEUE, views.project_queue),
            priorities=here.add(kinds.PRIORITY_CLASS, views.project_priority),
            works=ground.there.add(kinds.WORK, views.project_work, namespace=_home(ground)),
        )


def build(ground: Ground) -> Sequence[Role]:
    """All roles that the mode asks for."""
    stores, ledger = Stores.of(ground), Ledger(ground.inventory)
    stores.jobs.subscribe(ground.running.job_changed)
    placing = _placing(ground, stores)
    stores.jobs.subscribe(ledger.job_changed)
    stores.groups.subscribe(ledger.group_changed)
    stores.pods.subscribe(ledger.pod_changed)
    scheduling = placing[0] if placing is not None else None
    works = _works(ground, stores, ledger, foresight=scheduling.foresight if scheduling is not None else None)
    reporting = _reporting(ground, stores, ledger, works, foresight=scheduling.foresight if scheduling is not None else None)
    channel = _channel(ground, stores)
    if runs_jobs(ground.ruling):
        return [*(placing or ()), works, _plain(ground, stores), reporting, *_jobs(ground, stores), *channel, _offer(ground)]
    if ground.ruling.stands_off:
        return [reporting]
    upstream = UpstreamController(
        port=ground.local,
        stores=UpstreamStores(jobs=stores.jobs),
        events=ground.events,
        clock=ground.clock,
        settings=ground.settings.upstream,
    )
    return [works, _plain(ground, stores), reporting, upstream, *channel, _offer(ground)]


def _home(ground: Ground) -> str:
    """The member's namespace at the hub."""
    return keys.execution_namespace(ground.settings.cluster)


def _placing(ground: Ground, stores: Stores) -> tuple[SchedulingController, ProfileKeeper, HubContact] | None:
    """The scheduler, where pods are ours to place; otherwise only the picture of the resources is kept."""
    if not runs_jobs(ground.ruling):
        stores.nodes.subscribe(ground.inventory.node_changed)
        stores.pods.subscribe(ground.inventory.pod_changed)
        return None
    settings, registry = ground.settings.scheduling, installed_schedulers()
    profile = ProfileKeeper(
        known=registry.known,
        informers=ground.here,
        clock=ground.clock,
        changed=lambda: scheduling.wake(),
        file=settings.configuration,
    )
    contact = HubContact(ground.hub, namespace=_home(ground), clock=ground.clock, wanted=lambda: scheduling.waits_for_the_hub)
    scheduling = SchedulingController(
        port=ground.local,
        stores=SchedulingStores(
            pods=stores.pods,
            nodes=stores.nodes,
            groups=stores.groups,
            queues=stores.queues,
            priorities=stores.priorities,
            jobs=stores.jobs,
            quotas=ground.here.add(kinds.RESOURCE_QUOTA, project_quota),
            budgets=ground.here.add(kinds.POD_DISRUPTION_BUDGET, project_budget),
            storage=StorageStores(
                claims=ground.here.add(kinds.CLAIM, project_claim),
                volumes=ground.here.add(kinds.VOLUME, project_volume),
                classes=ground.here.add(kinds.STORAGE_CLASS, project_storage_class),
                limits=ground.here.add(kinds.CSI_NODE, project_attach_limits),
            ),
            namespaces=ground.here.add(kinds.NAMESPACE, project_namespace),
        ),
        inventory=ground.inventory,
        clock=ground.clock,
        settings=settings,
        runs=ground.running.may_run,
        events=ground.events,
        configuration=lambda: profile.profile.current,
        registry=registry,
        heard=contact.heard,
    )
    ground.running.listen(scheduling.wake)
    return scheduling, profile, contact


def _works(ground: Ground, stores: Stores, ledger: Ledger, *, foresight: Foresight | None) -> WorkController:
    return WorkController(
        hub=ground.hub,
        local=ground.local,
        stores=WorkStores(
            works=stores.works,
            jobs=stores.jobs,
            pods=stores.pods,
            nodes=stores.nodes,
            queues=stores.queues,
            priorities=stores.priorities,
        ),
        projector=ground.projector,
        ledger=ledger,
        clock=ground.clock,
        cluster=ground.settings.cluster,
        cluster_uid=ground.cluster_uid,
        scheduler=ground.settings.scheduling.scheduler_name,
        upstream=ground.ruling.mode is Mode.VOLCANO,
        settings=ground.settings.works,
        times=ground.settings.times,
        foresight=foresight,
    )


def _channel(ground: Ground, stores: Stores) -> Sequence[Role]:
    """Answers the hub's questions, where it is said where the hub is."""
    settings = ground.settings.channel
    if settings is None or ground.streams is None:
        return []
    controller = ChannelController(
        port=ground.local,
        streams=ground.streams,
        works=stores.works,
        jobs=stores.jobs,
        pods=stores.pods,
        clock=ground.clock,
        chance=ground.chance,
        settings=settings,
    )
    return [controller]


def _plain(ground: Ground, stores: Stores) -> PlainController:
    return PlainController(
        hub=ground.hub,
        local=ground.local,
        works=stores.works,
        here=ground.here,
        clock=ground.clock,
        settings=ground.settings.works,
    )


def _offer(ground: Ground) -> OfferController:
    return OfferController(hub=ground.hub, clock=ground.clock, cluster=ground.settings.cluster, sheet=ground.settings.offer)


def _reporting(
    ground: Ground, stores: Stores, ledger: Ledger, works: WorkController, *, foresight: Foresight | None
) -> ReportingController:
    return ReportingController(
        hub=ground.hub,
        local=ground.local,
        stores=ReportStores(
            works=stores.works,
            jobs=stores.jobs,
            groups=stores.groups,
            pods=stores.pods,
            nodes=stores.nodes,
            queues=stores.queues,
            priorities=stores.priorities,
            capacities=ground.there.add(kinds.CLUSTER_CAPACITY, project_capacity, namespace=_home(ground)),
        ),
        inventory=ground.inventory,
        ledger=ledger,
        orphans=works.orphans,
        clock=ground.clock,
        cluster_uid=ground.cluster_uid,
        settings=ground.settings,
        ruling=ground.ruling,
        foresight=foresight,
    )


def _jobs(ground: Ground, stores: Stores) -> Sequence[Role]:
    """Jobs, groups of other pods, queues, CronJobs, JobFlows and the time to live, where all that is ours."""
    port, events, clock, settings = ground.local, ground.events, ground.clock, ground.settings
    commands = ground.here.add(kinds.COMMAND, project_command)
    jobs = JobController(
        port=port,
        stores=JobStores(
            jobs=stores.jobs,
            groups=stores.groups,
            pods=stores.pods,
            queues=stores.queues,
            works=stores.works,
            priorities=stores.priorities,
            claims=ground.here.add(kinds.CLAIM, project_claim),
            commands=commands,
        ),
        events=events,
        clock=clock,
        settings=settings.jobs,
    )
    groups = PodGroupController(
        port=port,
        stores=PodGroupStores(pods=stores.pods, groups=stores.groups, informers=ground.here),
        events=events,
        clock=clock,
        scheduler=settings.scheduling.names,
        queue=settings.scheduling.default_queue,
        settings=settings.podgroups,
    )
    queues = QueueController(
        port=port,
        stores=QueueStores(queues=stores.queues, pods=stores.pods, groups=stores.groups, commands=commands),
        events=events,
        clock=clock,
        settings=settings.queues,
        default=settings.scheduling.default_queue,
    )
    # Hub-run Jobs carry no time to live here: the hub keeps it.
    job_flows = ground.here.add(kinds.JOB_FLOW, project_flow)
    runs = CronRecords(ground.here.add(kinds.CRON_JOB, project_cron))
    crons = CronController(port=port, informers=ground.here, jobs=stores.jobs, flows=job_flows, events=events, clock=clock)
    # Flows of this cluster's own people; those of the hub stay at the hub.
    flows = FlowController(port=port, informers=ground.here, jobs=stores.jobs, clock=clock, prober=PodProber(port), keeper=runs)
    keepers = Everyone[views.JobView](FlowRecords(job_flows), runs)
    ttl = TtlController(port=port, jobs=stores.jobs, clock=clock, keepers=keepers)
    return [jobs, groups, queues, crons, flows, ttl]


class Running:
    """Which Jobs may have pods bound: those that are there and are not being deleted."""

    def __init__(self) -> None:
        self._alive: set[str] = set()
        self._listener: Callable[[], None] | None = None

    def listen(self, listener: Callable[[], None]) -> None:
        """Call it whenever pods that might not run may run: pods can be seen before their Job."""
        self._listener = listener

    def job_changed(self, change: Change[views.JobView]) -> None:
        """Fold one change of a Job in."""
        job = change.new
        if job is not None and not job.deleting:
            if job.uid not in self._alive and self._listener is not None:
                self._listener()
            self._alive.add(job.uid)
            return
        gone = job or change.old
        if gone is not None:
            self._alive.discard(gone.uid)

    def may_run(self, pod: views.PodView) -> bool:
        """False for a pod of a run whose Job is being deleted or has gone."""
        return not pod.run or pod.owner in self._alive
