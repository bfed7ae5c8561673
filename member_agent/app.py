"""The member programs: the agent (works, jobs, queues, scheduler, reports) under one elected leader, and the fencer beside it.

Both run until cancelled, all tasks in task groups, and may be killed at any instant with nothing lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
import yaml
from prometheus_client import CollectorRegistry

from apis import keys, kinds
from controllers.admission.service import Admission
from controllers.admission.webhooks import MEMBER_KINDS
from machinery import errors, logs, shutdown
from machinery.clock import Chance, Clock, Ids, SystemClock
from machinery.election import Elector, Timing
from machinery.events import EventRecorder
from machinery.http import HealthServer
from machinery.informer import Informers
from machinery.metering import MeteredPort
from machinery.metrics import Metrics
from machinery.port import Port, Streams
from machinery.readiness import Heartbeat, Readiness
from member_agent import pushing
from member_agent.fencing.controller import Fencer
from member_agent.fencing.lease import Identity
from member_agent.jobs.plugins import Registry
from member_agent.joining import command as joining
from member_agent.joining.joiner import Joiner, Place
from member_agent.joining.renewal import Renewed, keep_young, until_replaced
from member_agent.modes import AUTO, Choice, ModeKeeper, Ruling, WrittenMode
from member_agent.roles import LEADER, Ground, Role, build, runs_jobs
from member_agent.settings import AgentSettings, FencerSettings, ProtocolTimes

log = logging.getLogger(__name__)

PAUSE = 1.0
"""Seconds before an API server that did not answer at the start is asked again."""


async def run_agent(
    hub: Port,
    local: Port,
    *,
    clock: Clock,
    chance: Chance,
    ids: Ids,
    settings: AgentSettings,
    metrics: Metrics | None = None,
    readiness: Readiness | None = None,
    admission: Admission | None = None,
    streams: Streams | None = None,
) -> None:
    """Campaign in the member, and lead while elected; until cancelled. `admission` runs beside, registered by the leader.
    `streams` reads logs in the member, where the settings have a channel."""
    ready = readiness or Readiness()
    cluster_uid = await _cluster_uid(local, clock=clock)
    await _system_namespace(local, clock=clock)
    ready.campaigning()
    elector = Elector(
        local,
        namespace=keys.SYSTEM_NAMESPACE,
        name=LEADER,
        identity=f"{settings.identity or LEADER}-{ids.uuid()}",
        clock=clock,
        chance=chance,
        timing=_timing(settings.times),
        metrics=metrics,
    )

    async def serve(ruling: Ruling) -> None:
        judges = admission is not None and runs_jobs(ruling)  # a Volcano has webhooks of its own
        async with admission.registered() if admission is not None and judges else contextlib.nullcontext():
            await lead(
                hub,
                local,
                clock=clock,
                chance=chance,
                settings=settings,
                cluster_uid=cluster_uid,
                ruling=ruling,
                metrics=metrics,
                readiness=ready,
                streams=streams,
            )

    async def leading() -> None:
        with ready.leading():
            await ModeKeeper(local, clock=clock, chance=chance, setting=settings.mode).run(serve)

    await elector.run(leading)


async def run_fencer(
    hub: Port,
    local: Port,
    *,
    clock: Clock,
    chance: Chance,
    ids: Ids,
    settings: FencerSettings,
    heartbeat: Heartbeat | None = None,
) -> None:
    """Renew the member Lease; until cancelled."""
    cluster_uid = await _cluster_uid(local, clock=clock)
    identity = Identity(cluster_uid, settings.identity or ids.uuid())
    pulse = heartbeat or heartbeat_of(settings)
    mode = WrittenMode(local, clock=clock, chance=chance, setting=settings.mode)
    fencer = Fencer(hub=hub, identity=identity, clock=clock, settings=settings, heartbeat=pulse, mode=mode)
    async with asyncio.TaskGroup() as group:
        group.create_task(mode.run(), name="mode")
        group.create_task(fencer.run(), name="fencer")


def heartbeat_of(settings: FencerSettings) -> Heartbeat:
    """Three looks at the Lease may fail in a row."""
    return Heartbeat(patience=3 * (settings.times.renew + settings.times.request))


async def lead(
    hub: Port,
    local: Port,
    *,
    clock: Clock,
    chance: Chance,
    settings: AgentSettings,
    cluster_uid: str,
    ruling: Ruling,
    metrics: Metrics | None = None,
    readiness: Readiness | None = None,
    streams: Streams | None = None,
) -> None:
    """What a leader does: one set of informers per API server, one picture of the resources, the roles on top that go with
    the mode."""
    here = Informers(local, clock, chance, metrics=metrics.server("member") if metrics is not None else None)
    there = Informers(hub, clock, chance, metrics=metrics.server("hub") if metrics is not None else None)
    events = EventRecorder(local, component=LEADER, instance=settings.identity or LEADER, clock=clock, chance=chance)
    ground = Ground(
        hub=hub,
        local=local,
        here=here,
        there=there,
        clock=clock,
        chance=chance,
        settings=settings,
        cluster_uid=cluster_uid,
        ruling=ruling,
        events=events,
        streams=streams,
    )
    await _run_roles(build(ground), events=events, informers=(here, there), metrics=metrics, readiness=readiness)


async def _run_roles(
    roles: Iterable[Role],
    *,
    events: EventRecorder,
    informers: Sequence[Informers],
    metrics: Metrics | None,
    readiness: Readiness | None,
) -> None:
    """All at once, under the watches they share; the first that fails ends the others."""
    async with asyncio.TaskGroup() as group:
        for number, each in enumerate(informers):
            group.create_task(each.run(), name=f"informers-{number}")
        group.create_task(events.run(), name="events")
        for role in roles:
            group.create_task(role.run(metrics), name=type(role).__name__)
        if readiness is not None:
            readiness.running(informers)


def _timing(times: ProtocolTimes) -> Timing:
    return Timing(
        lease_duration=times.lease_duration,
        renew_deadline=times.renew_deadline,
        request_timeout=times.request,
        retry=times.renew_deadline / 3,
    )


async def _cluster_uid(local: Port, *, clock: Clock) -> str:
    """UID of the member's kube-system namespace; asked for until the member answers."""
    while True:
        try:
            document = orjson.loads(await local.get(kinds.NAMESPACE, "kube-system"))
            return str(document["metadata"]["uid"])
        except errors.ApiError as error:
            log.warning("the member does not answer: %s", error)
            await clock.sleep(PAUSE)


async def _system_namespace(local: Port, *, clock: Clock) -> None:
    body = {"apiVersion": "v1", "kind": kinds.NAMESPACE.kind, "metadata": {"name": keys.SYSTEM_NAMESPACE}}
    while True:
        try:
            await local.create(kinds.NAMESPACE, body)
            return
        except errors.AlreadyExists:
            return
        except errors.ApiError as error:
            log.warning("namespace %s: %s", keys.SYSTEM_NAMESPACE, error)
            await clock.sleep(PAUSE)


# --- the command -----------------------------------------------------------------------------------------------------

main = typer.Typer(name="member-agent", no_args_is_help=True, add_completion=False, help="The agent of a member cluster.")
main.command("push")(pushing.push)
main.command("join")(joining.join)

Cluster = Annotated[str, typer.Option("--cluster", help="Name of this member at the hub.")]
HubConfig = Annotated[Path, typer.Option("--hub-kubeconfig", help="Kubeconfig of the hub.")]
HubContext = Annotated[str | None, typer.Option("--hub-context", help="Context in it; none: its current one.")]
LocalConfig = Annotated[Path | None, typer.Option("--kubeconfig", help="Kubeconfig of the member; none: in-cluster.")]
LocalContext = Annotated[str | None, typer.Option("--context", help="Context in it; none: its current one.")]
HealthPort = Annotated[int | None, typer.Option("--health-port", help="Serve /healthz, /readyz and /metrics here.")]
Config = Annotated[Path | None, typer.Option("--config", help="YAML file with settings of the agent; options win over it.")]
CredentialSecret = Annotated[
    str,
    typer.Option(
        "--credential-secret", help="Secret of the agent's namespace from which --hub-kubeconfig is mounted: renewed in time."
    ),
]
ModeOption = Annotated[
    Choice | None,
    typer.Option("--mode", help="Who runs Jobs here; auto (the default): a Volcano that is alive, else the agent."),
]
TimeScale = Annotated[float, typer.Option("--time-scale", help="Scale the times of the protocol; for tests.")]


SchedulerNames = Annotated[
    list[str] | None, typer.Option("--scheduler-name", help="Pods with this schedulerName are ours; several times.")
]
NodeSelector = Annotated[
    list[str] | None,
    typer.Option("--node-selector", help="Label key:value of nodes to see, all others are not; several times."),
]
DefaultQueue = Annotated[str, typer.Option("--default-queue", help="Queue of pods without a Job that name none.")]


@dataclass(frozen=True, slots=True)
class _Ports:
    hub: Port
    local: Port


@main.command()
def run(
    cluster: Cluster,
    hub_kubeconfig: HubConfig,
    hub_context: HubContext = None,
    kubeconfig: LocalConfig = None,
    context: LocalContext = None,
    provider: Annotated[str, typer.Option(help="Provider of the cluster.")] = "",
    region: Annotated[str, typer.Option(help="Region of the cluster.")] = "",
    zone: Annotated[list[str] | None, typer.Option(help="Zone of the cluster; may be given several times.")] = None,
    label: Annotated[list[str] | None, typer.Option(help="Label key=value of the Cluster; several times.")] = None,
    credential_secret: CredentialSecret = "",
    health_port: HealthPort = None,
    config: Config = None,
    mode: ModeOption = None,
    time_scale: TimeScale = 1.0,
    scheduler_name: SchedulerNames = None,
    node_selector: NodeSelector = None,
    default_queue: DefaultQueue = "",
) -> None:
    """Run the agent until it is told to stop."""
    options: dict[str, Any] = {
        "provider": provider,
        "region": region,
        "zones": tuple(zone or ()),
        "labels": _labels(label or []),
        "mode": mode.value if mode is not None else None,
    }
    given = (yaml.safe_load(config.read_text()) if config is not None else None) or {}
    scheduling = _scheduling(scheduler_name or [], node_selector or [], default_queue)
    if scheduling:
        options["scheduling"] = {**(given.get("scheduling") or {}), **scheduling}
    settings = AgentSettings(**{**given, **{name: value for name, value in options.items() if value}, "cluster": cluster})
    settings = settings.model_copy(update={"times": settings.times.scaled(time_scale)})

    clock, registry, readiness = SystemClock(), CollectorRegistry(), Readiness()
    metrics, ready = Metrics(registry), dict(readiness.checks)

    async def serve() -> None:
        async with (
            _ports(hub_kubeconfig, hub_context, kubeconfig, context, clock=clock, metrics=metrics) as ports,
            _streams(kubeconfig, context, settings=settings) as streams,
            asyncio.TaskGroup() as group,
        ):
            group.create_task(until_replaced(hub_kubeconfig, clock=clock), name="credential")
            if credential_secret:
                place = Place(credential_secret, keys.SYSTEM_NAMESPACE)
                joiner = Joiner(ports.local, clock=clock, cluster=cluster, place=place, opened=joining.opened)
                group.create_task(keep_young(joiner, clock=clock, metrics=metrics), name="renewal")
            chance, admission = Chance(), None
            if settings.admission is not None:
                admission = Admission(
                    ports.local,
                    clock=clock,
                    chance=chance,
                    settings=settings.admission,
                    plurals=MEMBER_KINDS,
                    judge=Registry.installed().problems,
                )
                ready.update(admission.checks)
                group.create_task(admission.run(), name="admission")
            await run_agent(
                ports.hub,
                ports.local,
                clock=clock,
                chance=chance,
                ids=Ids(),
                settings=settings,
                metrics=metrics,
                readiness=readiness,
                admission=admission,
                streams=streams,
            )

    _start(serve, health_port=health_port, registry=registry, ready=ready)


@main.command()
def fencer(
    cluster: Cluster,
    hub_kubeconfig: HubConfig,
    hub_context: HubContext = None,
    kubeconfig: LocalConfig = None,
    context: LocalContext = None,
    health_port: HealthPort = None,
    mode: ModeOption = None,
    time_scale: TimeScale = 1.0,
) -> None:
    """Run the fencer until it is told to stop."""
    settings = FencerSettings(cluster=cluster, mode=mode.value if mode else AUTO, times=ProtocolTimes().scaled(time_scale))

    clock, registry, heartbeat = SystemClock(), CollectorRegistry(), heartbeat_of(settings)
    metrics = Metrics(registry)

    async def serve() -> None:
        async with (
            _ports(hub_kubeconfig, hub_context, kubeconfig, context, clock=clock, metrics=metrics) as ports,
            asyncio.TaskGroup() as group,
        ):
            group.create_task(until_replaced(hub_kubeconfig, clock=clock), name="credential")
            await run_fencer(
                ports.hub, ports.local, clock=clock, chance=Chance(), ids=Ids(), settings=settings, heartbeat=heartbeat
            )

    ready = {"renewing": lambda: heartbeat.alive(now=clock.boot())}
    _start(serve, health_port=health_port, registry=registry, ready=ready)


def _labels(pairs: list[str]) -> dict[str, str]:
    labels = {}
    for pair in pairs:
        key, found, value = pair.partition("=")
        if not found or not key:
            raise typer.BadParameter(f"{pair!r} is not key=value", param_hint="--label")
        labels[key] = value
    return labels


def _scheduling(names: list[str], nodes: list[str], queue: str) -> dict[str, Any]:
    """What options say of the scheduler; the first name is that of pods of hub-run Jobs."""
    given: dict[str, Any] = {"node_selector": tuple(nodes), "default_queue": queue, "more_names": tuple(names[1:])}
    if names:
        given["scheduler_name"] = names[0]
    return {name: value for name, value in given.items() if value}


@contextlib.asynccontextmanager
async def _ports(
    hub_kubeconfig: Path,
    hub_context: str | None,
    kubeconfig: Path | None,
    context: str | None,
    *,
    clock: Clock,
    metrics: Metrics,
) -> AsyncIterator[_Ports]:
    """Both API servers, every request counted."""
    from machinery.kube import KubePort  # the library behind it takes a second to import

    hub = await KubePort.from_kubeconfig(str(hub_kubeconfig), context=hub_context)
    try:
        if kubeconfig is not None:
            local = await KubePort.from_kubeconfig(str(kubeconfig), context=context)
        else:
            local = await KubePort.in_cluster()
        try:
            yield _Ports(
                hub=MeteredPort(hub, metrics=metrics.server("hub"), clock=clock, keep_writes=False),
                local=MeteredPort(local, metrics=metrics.server("member"), clock=clock, keep_writes=False),
            )
        finally:
            await local.close()
    finally:
        await hub.close()


@contextlib.asynccontextmanager
async def _streams(kubeconfig: Path | None, context: str | None, *, settings: AgentSettings) -> AsyncIterator[Streams | None]:
    """The member's API server once more, for logs: many that are followed leave the connections of the agent alone."""
    from machinery.kube import KubePort

    if settings.channel is None:
        yield None
        return
    most = settings.channel.logs_at_once * settings.channel.followed_at_once
    if kubeconfig is not None:
        port = await KubePort.from_kubeconfig(str(kubeconfig), context=context, pool_size=most)
    else:
        port = await KubePort.in_cluster(pool_size=most)
    try:
        yield port
    finally:
        await port.close()


Serve = Callable[[], Awaitable[None]]


def _start(
    serve: Serve, *, health_port: int | None, registry: CollectorRegistry, ready: Mapping[str, Callable[[], bool]]
) -> None:
    """Run until SIGTERM or SIGINT; a leader releases its Lease on the way out."""
    logs.set_up()
    server = HealthServer(registry, ready=ready, port=health_port) if health_port is not None else None
    try:
        raise typer.Exit(shutdown.run(lambda: _with_health(serve, server=server)))
    except* Renewed:
        log.info("the credential for the hub was replaced: starting again with it is up to whoever runs this program")


async def _with_health(serve: Serve, *, server: HealthServer | None) -> None:
    if server is None:
        await serve()
        return
    async with asyncio.TaskGroup() as group:
        group.create_task(server.run(), name="health")
        await serve()
