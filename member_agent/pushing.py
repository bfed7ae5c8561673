"""A push member: the same agent, run beside the hub with the kubeconfig of one member (protocol.md 8, Push).

Agent and renewal of the Lease are one process, one account and one execution namespace per member. Such a member is never
armed: whoever has the hub has the member, too, and what fences runs would fall with the hub.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import tempfile
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import yaml

from machinery import shutdown
from machinery.clock import Chance, Clock, Ids, SystemClock
from machinery.port import Port
from machinery.push_kubeconfig import RefusedKubeconfig, read
from machinery.readiness import Heartbeat, Readiness
from member_agent.settings import AgentSettings, FencerSettings

log = logging.getLogger(__name__)

LOOK: Final = 5.0
"""Seconds between looks at the mounted kubeconfigs: kubelets take a minute to bring a changed Secret."""
REFUSED: Final = 78
"""Exit code of a kubeconfig that is refused: starting again does not help (EX_CONFIG)."""


class Replaced(Exception):
    """A kubeconfig was replaced; whoever runs this program starts it again with the new one."""


async def run_push(
    hub: Port,
    member: Port,
    *,
    clock: Clock,
    chance: Chance,
    ids: Ids,
    settings: AgentSettings,
    heartbeat: Heartbeat | None = None,
    readiness: Readiness | None = None,
) -> None:
    """Agent and fencer of one push member, until cancelled; the first that fails ends the other."""
    from member_agent.app import run_agent, run_fencer

    fencer = FencerSettings(cluster=settings.cluster, mode=settings.mode, times=settings.times)
    async with asyncio.TaskGroup() as group:
        group.create_task(
            run_agent(hub, member, clock=clock, chance=chance, ids=ids, settings=settings, readiness=readiness), name="agent"
        )
        group.create_task(
            run_fencer(hub, member, clock=clock, chance=chance, ids=ids, settings=fencer, heartbeat=heartbeat), name="fencer"
        )


@contextlib.asynccontextmanager
async def opened(path: Path) -> AsyncIterator[Port]:
    """The member that a kubeconfig names, if it holds only what it may; raises RefusedKubeconfig. What is opened is made anew
    from what was read once: a file that changes meanwhile opens nothing else."""
    from machinery.kube import KubePort  # the library behind it takes a second to import

    access = read(await asyncio.to_thread(path.read_bytes), where=str(path))
    descriptor, name = tempfile.mkstemp(prefix="member-")  # nobody else may read it
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(access.kubeconfig())
        port = await KubePort.from_kubeconfig(name)
    finally:
        Path(name).unlink()  # noqa: ASYNC240  a file of a few bytes
    try:
        yield port
    finally:
        await port.close()


async def until_replaced(paths: Iterable[Path], *, clock: Clock) -> None:
    """Raise Replaced once one of these files holds something else than now; one that is gone for a moment is being replaced."""
    first = {path: _content(path) for path in paths}
    while True:
        await clock.sleep(LOOK)
        for path, before in first.items():
            now = _content(path)
            if now and now != before:
                raise Replaced(f"{path} was replaced")


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def push(
    cluster: Annotated[str, typer.Option("--cluster", help="Name of this member at the hub.")],
    hub_kubeconfig: Annotated[Path, typer.Option("--hub-kubeconfig", help="Kubeconfig of the hub.")],
    kubeconfig: Annotated[
        Path, typer.Option("--kubeconfig", help="Kubeconfig of the member, as mounted from its Secret: server, CA, credential.")
    ],
    secret: Annotated[str, typer.Option(help="Namespace/name of that Secret at the hub, written on the Cluster.")],
    hub_context: Annotated[str | None, typer.Option(help="Context in the hub's kubeconfig.")] = None,
    health_port: Annotated[int | None, typer.Option(help="Serve /healthz, /readyz and /metrics here.")] = None,
    config: Annotated[Path | None, typer.Option(help="YAML file with settings of the agent; options win over it.")] = None,
    time_scale: Annotated[float, typer.Option(help="Scale the times of the protocol; for tests.")] = 1.0,
) -> None:
    """Run the agent of a push member beside the hub, until it is told to stop. A stolen hub is a stolen member."""
    from machinery import logs

    logs.set_up()
    given = (yaml.safe_load(config.read_text()) if config is not None else None) or {}
    settings = AgentSettings(**{**given, "cluster": cluster, "push_secret": secret})
    settings = settings.model_copy(update={"times": settings.times.scaled(time_scale)})

    async def serve() -> None:
        await _serve(settings, hub_kubeconfig=hub_kubeconfig, hub_context=hub_context, kubeconfig=kubeconfig, port=health_port)

    try:
        raise typer.Exit(shutdown.run(serve))
    except* RefusedKubeconfig as refused:
        for error in refused.exceptions:
            typer.echo(f"error: {error}", err=True)
        raise typer.Exit(REFUSED) from None
    except* Replaced as replaced:
        log.info("%s: starting again with it is up to whoever runs this program", replaced.exceptions[0])


async def _serve(
    settings: AgentSettings, *, hub_kubeconfig: Path, hub_context: str | None, kubeconfig: Path, port: int | None
) -> None:
    from prometheus_client import CollectorRegistry

    from machinery.http import HealthServer
    from machinery.kube import KubePort
    from member_agent.app import heartbeat_of

    clock, readiness, registry = SystemClock(), Readiness(), CollectorRegistry()
    heartbeat = heartbeat_of(FencerSettings(cluster=settings.cluster, times=settings.times))
    async with opened(kubeconfig) as member, asyncio.TaskGroup() as group:
        hub = await KubePort.from_kubeconfig(str(hub_kubeconfig), context=hub_context)
        try:
            group.create_task(until_replaced((hub_kubeconfig, kubeconfig), clock=clock), name="kubeconfigs")
            if port is not None:
                ready: dict[str, Any] = {**readiness.checks, "renewing": lambda: heartbeat.alive(now=clock.boot())}
                group.create_task(HealthServer(registry, ready=ready, port=port).run(), name="health")
            await run_push(
                hub,
                member,
                clock=clock,
                chance=Chance(),
                ids=Ids(),
                settings=settings,
                heartbeat=heartbeat,
                readiness=readiness,
            )
        finally:
            await hub.close()
