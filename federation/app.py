"""The hub program: its roles in task groups, under one elected leader. Restartable at any instant with nothing lost."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Annotated

import typer

from apis import kinds
from controllers.flows.controller import FlowController
from federation.clusters import guard
from federation.clusters.controller import ClustersController
from federation.collection.controller import CollectionController
from federation.dispatch.admission import problems_of
from federation.dispatch.controller import DispatchController
from federation.dispatch.fences import take_over
from federation.dispatch.snapshot import Rules
from federation.queueing.controller import QueueingController
from federation.settings import HubSettings
from machinery.clock import Chance, Clock, Ids, SystemClock
from machinery.election import Elector, Timing
from machinery.errors import AlreadyExists, ApiError
from machinery.informer import Informers
from machinery.port import Port
from policies.views import Projections

log = logging.getLogger(__name__)

LEADER = "federation-hub"
"""Name of the leader's Lease."""

PAUSE = 1.0
"""Seconds before the system namespace is asked for again."""


async def run_hub(port: Port, *, clock: Clock, chance: Chance, ids: Ids, settings: HubSettings) -> None:
    """Campaign, and lead while elected; until cancelled."""
    await _system_namespace(port, clock=clock, name=settings.namespace)
    elector = Elector(
        port,
        namespace=settings.namespace,
        name=LEADER,
        identity=f"{LEADER}-{ids.uuid()}",
        clock=clock,
        chance=chance,
        timing=Timing(
            lease_duration=settings.lease_duration,
            renew_deadline=settings.renew_deadline,
            request_timeout=settings.request_timeout,
            retry=settings.renew_every,
        ),
    )
    await elector.run(lambda: lead(port, clock=clock, chance=chance, settings=settings))


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


async def lead(port: Port, *, clock: Clock, chance: Chance, settings: HubSettings) -> None:
    """What a leader does. H0 comes first: no store is filled before every fence number is raised."""
    await take_over(port, clock=clock)
    await guard.apply(port)
    informers, projections = Informers(port, clock, chance), Projections()
    dispatch = DispatchController(
        port=port,
        informers=informers,
        projections=projections,
        rules=_rules(settings),
        clock=clock,
        validate=problems_of,
    )
    collection = CollectionController(
        port=port,
        informers=informers,
        projections=projections,
        clock=clock,
        pace=settings.status_pace,
        patience=settings.status_patience,
    )
    clusters = ClustersController(
        port=port,
        informers=informers,
        projections=projections,
        clock=clock,
        silence=settings.silence,
        recovery=settings.recovery,
        label_keys=settings.label_keys,
    )
    queueing = QueueingController(port=port, informers=informers, clock=clock)
    jobs = informers.add(kinds.JOB, projections.job)
    flows = FlowController(port=port, informers=informers, jobs=jobs, clock=clock)
    async with asyncio.TaskGroup() as roles:
        roles.create_task(informers.run(), name="informers")
        for name, role in (
            ("clusters", clusters),
            ("queueing", queueing),
            ("dispatch", dispatch),
            ("collection", collection),
            ("flows", flows),
        ):
            roles.create_task(role.run(), name=name)


def _rules(settings: HubSettings) -> Rules:
    return Rules(
        filters=settings.filters,
        weights=settings.weights,
        start_timeout=settings.start_timeout,
        explain_every=settings.explain_every,
        orphan_grace=settings.orphan_grace,
        commits=settings.commits,
    )


# --- the command -----------------------------------------------------------------------------------------------------

main = typer.Typer(name="federation-hub", no_args_is_help=True, add_completion=False, help="The hub of Volcano Federation.")

Kubeconfig = Annotated[Path | None, typer.Option("--kubeconfig", help="Kubeconfig of the hub's API server; none: in-cluster.")]
Context = Annotated[str | None, typer.Option("--context", help="Context in the kubeconfig; none: its current one.")]


@main.callback()
def program() -> None:
    """Keeps `run` a word of its own while it is the only command."""


@main.command()
def run(kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """Run the hub until it is told to stop."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    asyncio.run(_serve(kubeconfig, context))


async def _serve(kubeconfig: Path | None, context: str | None) -> None:
    from machinery.kube import KubePort  # the library behind it takes a second to import

    opened = KubePort.from_kubeconfig(str(kubeconfig), context=context) if kubeconfig is not None else KubePort.in_cluster()
    port = await opened
    try:
        await run_hub(port, clock=SystemClock(), chance=Chance(), ids=Ids(), settings=HubSettings())
    finally:
        await port.close()
