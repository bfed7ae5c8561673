"""The hub program: its roles in task groups, under one elected leader. Restartable at any instant with nothing lost."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Annotated

import orjson
import typer
import yaml
from prometheus_client import CollectorRegistry

from apis import keys, kinds
from controllers.admission.service import Admission, job_plugins
from controllers.admission.webhooks import HUB_KINDS
from controllers.cron.controller import CronController
from controllers.cron.records import CronRecords
from controllers.cron.snapshot import project_cron
from controllers.flows.controller import FlowController
from controllers.flows.probing import Prober
from controllers.flows.records import Records
from controllers.flows.snapshot import project_flow
from controllers.ttl.controller import TtlController
from controllers.ttl.keepers import Everyone
from federation import extensions, ownership
from federation.channel.service import Channel
from federation.claiming.controller import ClaimingController, MakersInformers
from federation.clusters import creators, fairness, guard
from federation.clusters.candidates import CandidatesController
from federation.clusters.controller import ClustersController
from federation.clusters.rights import RightsController
from federation.collection.controller import CollectionController
from federation.dependencies.controller import DependenciesController
from federation.dispatch.admission import problems_of
from federation.dispatch.controller import DispatchController
from federation.dispatch.rounds import Pace
from federation.dispatch.snapshot import Rules
from federation.fences import Fences
from federation.joining.controller import JoiningController
from federation.objects.controller import ObjectsController
from federation.objects.snapshot import Rules as ObjectRules
from federation.places import BindingPlaces
from federation.queueing.controller import QueueingController
from federation.quotas.controller import QuotasController
from federation.rebalancing.controller import RebalancingController
from federation.reviews.controller import ReviewsController
from federation.settings import HubSettings
from federation.usage.controller import UsageController
from machinery import crds, logs, shutdown
from machinery.clock import Chance, Clock, Ids, SystemClock
from machinery.election import Elector, Timing
from machinery.errors import AlreadyExists, ApiError, Forbidden, NotFound
from machinery.events import EventRecorder
from machinery.guarded import GuardedMetrics, Readers
from machinery.http import HealthServer
from machinery.informer import Informers
from machinery.metering import MeteredPort
from machinery.metrics import Metrics
from machinery.port import Port
from machinery.readiness import Readiness
from policies.views import JobView, Projections

log = logging.getLogger(__name__)

LEADER = "federation-hub"
"""Name of the leader's Lease."""

PAUSE = 1.0
"""Seconds before the system namespace is asked for again."""


async def run_hub(
    port: Port,
    *,
    clock: Clock,
    chance: Chance,
    ids: Ids,
    settings: HubSettings,
    metrics: Metrics | None = None,
    readiness: Readiness | None = None,
    admission: Admission | None = None,
    prober: Prober | None = None,
) -> None:
    """Campaign, and lead while elected; until cancelled. `admission` is served beside; its leader registers it. `prober`
    reaches pods at members, for steps of flows."""
    ready = readiness or Readiness()
    await _system_namespace(port, clock=clock, name=settings.namespace)
    ready.campaigning()
    identity = f"{LEADER}-{ids.uuid()}"
    elector = Elector(
        port,
        namespace=settings.namespace,
        name=LEADER,
        identity=identity,
        clock=clock,
        chance=chance,
        timing=Timing(
            lease_duration=settings.lease_duration,
            renew_deadline=settings.renew_deadline,
            request_timeout=settings.request_timeout,
            retry=settings.renew_every,
        ),
        metrics=metrics,
    )

    async def leading() -> None:
        with ready.leading():
            await lead(
                port,
                clock=clock,
                chance=chance,
                settings=settings,
                identity=identity,
                metrics=metrics,
                readiness=ready,
                admission=admission,
                prober=prober,
            )

    await elector.run(leading)


async def _system_namespace(port: Port, *, clock: Clock, name: str) -> None:
    body = {"apiVersion": "v1", "kind": kinds.NAMESPACE.kind, "metadata": {"name": name}}
    while True:
        try:
            await port.create(kinds.NAMESPACE, body)
            return
        except AlreadyExists:
            return
        except ApiError as error:
            log.warning("namespace %s: %s", name, error)
            await clock.sleep(PAUSE)


async def lead(
    port: Port,
    *,
    clock: Clock,
    chance: Chance,
    settings: HubSettings,
    identity: str = LEADER,
    metrics: Metrics | None = None,
    readiness: Readiness | None = None,
    admission: Admission | None = None,
    prober: Prober | None = None,
) -> None:
    """What a leader does. H0 comes first; a member whose fence number cannot be raised yet gets nothing until it is, and holds
    up nobody."""
    fences = Fences(port, clock=clock)
    async with asyncio.TaskGroup() as group:
        group.create_task(fences.run(), name="fences")
        if admission is not None:
            group.create_task(admission.register(), name="webhooks")
        await fences.first_round()
        await _roles(
            port,
            clock=clock,
            chance=chance,
            settings=settings,
            fences=fences,
            identity=identity,
            metrics=metrics,
            readiness=readiness,
            prober=prober,
        )


async def _roles(
    port: Port,
    *,
    clock: Clock,
    chance: Chance,
    settings: HubSettings,
    fences: Fences,
    identity: str,
    metrics: Metrics | None,
    readiness: Readiness | None,
    prober: Prober | None,
) -> None:
    if settings.cluster_objects:
        await guard.apply(port)
        await fairness.apply(port)
    guarded = await (creators.apply if settings.cluster_objects else creators.present)(port)
    seen = metrics.server("hub") if metrics is not None else None
    informers, projections = Informers(port, clock, chance, metrics=seen), Projections()
    events = EventRecorder(port, component=LEADER, instance=identity, clock=clock, chance=chance)
    kept_apart = Informers(port, clock, chance, metrics=seen)
    made_from = MakersInformers(kept_apart)
    dispatch = DispatchController(
        makers=made_from.labels,
        port=port,
        informers=informers,
        projections=projections,
        rules=_rules(settings),
        events=events,
        clock=clock,
        validate=partial(problems_of, plugins=job_plugins(settings.admission.job_plugins if settings.admission else ())),
        fences=fences,
        pace=Pace(cases=settings.round_cases, seconds=settings.round_seconds),
    )
    collection = CollectionController(
        port=port,
        informers=informers,
        projections=projections,
        events=events,
        clock=clock,
        pace=settings.status_pace,
        patience=settings.status_patience,
    )
    clusters = ClustersController(
        port=port,
        informers=informers,
        projections=projections,
        clock=clock,
        fences=fences,
        silence=settings.silence,
        recovery=settings.recovery,
        label_keys=settings.label_keys,
        taints_evict=settings.taint_policies_evict,
    )
    dependencies = DependenciesController(port=port, informers=informers, projections=projections, events=events, clock=clock)
    queueing = QueueingController(port=port, informers=informers, projections=projections, events=events, clock=clock)
    objects = ObjectsController(
        port=port,
        informers=informers,
        watched=Informers(port, clock, chance, metrics=seen),
        projections=projections,
        events=events,
        clock=clock,
        rules=_object_rules(settings),
    )
    claiming = ClaimingController(port=port, informers=informers, made_from=made_from, projections=projections, clock=clock)
    used = UsageController(port=port, informers=informers, projections=projections, clock=clock, keep=settings.usage_days)
    quotas = QuotasController(port=port, informers=informers, projections=projections, clock=clock)
    rebalancing = RebalancingController(port=port, informers=informers, projections=projections, clock=clock)
    reviews = ReviewsController(
        port=port,
        informers=informers,
        projections=projections,
        tries=dispatch,
        clock=clock,
        guarded=guarded,
        plugins=job_plugins(settings.admission.job_plugins if settings.admission else ()),
    )
    jobs = informers.add(kinds.JOB, projections.job)
    job_flows = informers.add(kinds.JOB_FLOW, project_flow)
    runs = CronRecords(informers.add(kinds.CRON_JOB, project_cron))
    places = BindingPlaces(informers.add(kinds.RESOURCE_BINDING, projections.binding, labels=keys.NO_OBJECT))
    flows = FlowController(port=port, informers=informers, jobs=jobs, clock=clock, prober=prober, keeper=runs, places=places)
    crons = CronController(port=port, informers=informers, jobs=jobs, flows=job_flows, events=events, clock=clock)
    keepers = Everyone[JobView](Records(job_flows), runs)
    ttl = TtlController(port=port, jobs=jobs, clock=clock, keepers=keepers)
    candidates = CandidatesController(port=port, informers=informers, clock=clock) if settings.cluster_profiles else None
    async with asyncio.TaskGroup() as roles:
        roles.create_task(informers.run(), name="informers")
        if candidates is not None:
            roles.create_task(candidates.run(metrics), name="candidates")
        roles.create_task(kept_apart.run(), name="informers/makers")
        for name, role in (
            ("clusters", clusters),
            ("joining", JoiningController(port=port, informers=informers, events=events, clock=clock)),
            ("rights", RightsController(port=port, informers=informers, clock=clock)),
            ("queueing", queueing),
            ("dependencies", dependencies),
            ("dispatch", dispatch),
            ("claiming", claiming),
            ("objects", objects),
            ("collection", collection),
            ("quotas", quotas),
            ("rebalancing", rebalancing),
            ("usage", used),
            ("reviews", reviews),
            ("flows", flows),
            ("cron", crons),
            ("ttl", ttl),
        ):
            roles.create_task(role.run(metrics), name=name)
        roles.create_task(events.run(), name="events")
        if readiness is not None:
            readiness.running([informers])


def _rules(settings: HubSettings) -> Rules:
    return Rules(
        filters=settings.filters,
        weights=settings.weights,
        start_timeout=settings.start_timeout,
        explain_every=settings.explain_every,
        orphan_grace=settings.orphan_grace,
        commits=settings.commits,
        trouble_timeout=settings.trouble_timeout,
        fence_after=settings.fence_after,
        run_time=settings.run_time,
        rates=settings.exchange_rates,
        settle=settings.eviction_settle,
        evictions=settings.evictions_per_second,
    )


def _object_rules(settings: HubSettings) -> ObjectRules:
    return ObjectRules(
        hub_runs=settings.hub_runs_workloads,
        run_time=settings.run_time,
        rates=settings.exchange_rates,
        weights=settings.weights,
        filters=settings.filters,
    )


# --- the command -----------------------------------------------------------------------------------------------------

main = typer.Typer(name="federation-hub", no_args_is_help=True, add_completion=False, help="The hub of Volcano Federation.")
crds_app = typer.Typer(name="crds", no_args_is_help=True, help="The kinds that the hub's API server must serve.")
main.add_typer(crds_app)

Kubeconfig = Annotated[Path | None, typer.Option("--kubeconfig", help="Kubeconfig of the hub's API server; none: in-cluster.")]
Context = Annotated[str | None, typer.Option("--context", help="Context in it; none: its current one.")]
HealthPort = Annotated[int | None, typer.Option("--health-port", help="Serve /healthz, /readyz and /metrics here.")]
Config = Annotated[Path | None, typer.Option("--config", help="YAML file with settings of the hub.")]
TimeScale = Annotated[float, typer.Option("--time-scale", help="Scale the times of the protocol; for tests.")]


@main.command()
def run(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    health_port: HealthPort = None,
    config: Config = None,
    time_scale: TimeScale = 1.0,
) -> None:
    """Run the hub until it is told to stop."""
    given = yaml.safe_load(config.read_text()) if config is not None else {}
    settings = HubSettings(**(given or {})).scaled(time_scale)
    logs.set_up()
    try:
        extensions.install()
        extensions.check(settings.filters)
    except extensions.Unusable as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None

    async def checked() -> None:
        await _alone(kubeconfig, context)
        await _serve(kubeconfig, context, settings=settings, health_port=health_port)

    try:
        raise typer.Exit(shutdown.run(checked))
    except ownership.Occupied as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None


async def _alone(kubeconfig: Path | None, context: str | None) -> None:
    """Return once nobody else serves these kinds; asked for until the API server answers. Raises Occupied."""
    clock = SystemClock()
    async with _port(kubeconfig, context) as port:
        while True:
            try:
                await ownership.check(port, clock=clock)
                return
            except Forbidden as error:
                log.warning("whether a Karmada is at work here cannot be found out: %s", error)
                return
            except ApiError as error:
                log.warning("the API server does not answer: %s", error)
                await clock.sleep(PAUSE)


async def _serve(kubeconfig: Path | None, context: str | None, *, settings: HubSettings, health_port: int | None) -> None:
    clock, registry, readiness = SystemClock(), CollectorRegistry(), Readiness()
    metrics = Metrics(registry)
    async with _port(kubeconfig, context) as opened, asyncio.TaskGroup() as group:
        port = MeteredPort(opened, metrics=metrics.server("hub"), clock=clock, keep_writes=False)
        chance, admission = Chance(), None
        if settings.admission is not None:
            admission = Admission(port, clock=clock, chance=chance, settings=settings.admission, plurals=HUB_KINDS)
            group.create_task(admission.run(), name="admission")
        channel = None
        if settings.channel is not None:
            channel = Channel(port, clock=clock, settings=settings.channel, metrics=metrics)
            group.create_task(channel.run(), name="channel")
        if health_port is not None:
            ready = {**readiness.checks, **(admission.checks if admission is not None else {})}
            ready |= channel.checks if channel is not None else {}
            plain = settings.metrics is None
            group.create_task(HealthServer(registry, ready=ready, port=health_port, metrics=plain).run(), name="health")
        if settings.metrics is not None:
            readers = Readers(port, clock=clock)
            guarded = GuardedMetrics(registry, settings=settings.metrics, readers=readers, clock=clock)
            group.create_task(guarded.run(), name="metrics")
        await run_hub(
            port,
            clock=clock,
            chance=chance,
            ids=Ids(),
            settings=settings,
            metrics=metrics,
            readiness=readiness,
            admission=admission,
            prober=channel.prober() if channel is not None else None,
        )


@contextlib.asynccontextmanager
async def _port(kubeconfig: Path | None, context: str | None) -> AsyncIterator[Port]:
    from machinery.kube import KubePort  # the library behind it takes a second to import

    if kubeconfig is not None:
        port = await KubePort.from_kubeconfig(str(kubeconfig), context=context)
    else:
        port = await KubePort.in_cluster()
    try:
        yield port
    finally:
        await port.close()


Owners = Annotated[bool, typer.Option("--check-owners", help="Apply nothing where a Karmada serves these kinds, and say so.")]


@crds_app.command("apply")
def crds_apply(kubeconfig: Kubeconfig = None, context: Context = None, check_owners: Owners = False) -> None:
    """Apply the CRDs that are absent or ours; foreign ones are compared and left alone. Exit status 1 when one lacks fields."""
    try:
        served = asyncio.run(_apply_crds(kubeconfig, context, check_owners=check_owners))
    except ownership.Occupied as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    for each in served:
        lacking = f", lacks {', '.join(each.missing)}" if each.missing else ""
        typer.echo(f"{each.standing.value:8} {each.name}{lacking}")
    raise typer.Exit(1 if any(each.missing for each in served) else 0)


async def _apply_crds(kubeconfig: Path | None, context: str | None, *, check_owners: bool) -> list[crds.Served]:
    async with _port(kubeconfig, context) as port:
        if check_owners:
            await ownership.check(port, clock=SystemClock())
        return await crds.apply_crds(port, crds.packaged(), clock=SystemClock())


@crds_app.command("check")
def crds_check(kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """Compare what is served with what the hub needs, and change nothing. Exit status 1 when something is missing."""
    lacking = asyncio.run(_check_crds(kubeconfig, context))
    for name, missing in sorted(lacking.items()):
        typer.echo(f"{name}: {', '.join(missing) or 'complete'}")
    raise typer.Exit(1 if any(lacking.values()) else 0)


async def _check_crds(kubeconfig: Path | None, context: str | None) -> dict[str, list[str]]:
    lacking: dict[str, list[str]] = {}
    async with _port(kubeconfig, context) as port:
        for crd in crds.packaged():
            name = str(crd["metadata"]["name"])
            try:
                served = orjson.loads(await port.get(kinds.CRD, name))
            except NotFound:
                lacking[name] = ["not served at all"]
                continue
            lacking[name] = crds.missing_fields(crd, served=served)
    return lacking


@crds_app.command("print")
def crds_print() -> None:
    """Print the CRDs as YAML, for those who apply them by other means."""
    typer.echo(yaml.safe_dump_all(crds.packaged(), sort_keys=False), nl=False)
