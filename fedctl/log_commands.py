"""The command `fedctl logs`: its flags, by the names that kubectl has."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fedctl.flows import Place
    from fedctl.logs import Asked

TOKEN = "FEDCTL_TOKEN"
"""Environment variable with a token for `--channel`: a token on the command line could be read by everybody on the machine."""

Name = Annotated[str, typer.Argument(help="A Job (or job/NAME), or flow/NAME: all Jobs of a JobFlow.")]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on until it has ended, over moves and restarts too.")]
Tail = Annotated[int | None, typer.Option(min=0, help="Last lines of each container; all when not given.")]
Since = Annotated[str | None, typer.Option(help="Only what is newer, as 90s, 10m or 2h.")]
Container = Annotated[str, typer.Option("--container", "-c", help="This container of each pod, init containers too.")]
Task = Annotated[str, typer.Option(help="Pods of this task.")]
Pod = Annotated[str, typer.Option(help="This pod.")]
Previous = Annotated[bool, typer.Option("--previous", "-p", help="Of the containers that ran before these.")]
Timestamps = Annotated[bool, typer.Option("--timestamps", help="When each line was printed.")]
Namespace = Annotated[str, typer.Option("--namespace", "-n", help="Namespace of the Job or flow.")]
Kubeconfig = Annotated[Path | None, typer.Option(help="Kubeconfig of the hub.", envvar="KUBECONFIG")]
Context = Annotated[str | None, typer.Option(help="Context in the kubeconfig.")]
Channel = Annotated[str, typer.Option(help=f"https://host:port of the hub's channel itself, with the token in {TOKEN}.")]
ChannelCa = Annotated[Path | None, typer.Option(help="Who signs the certificate of --channel.", exists=True, dir_okay=False)]


def logs(
    name: Name,
    follow: Follow = False,
    tail: Tail = None,
    since: Since = None,
    container: Container = "",
    task: Task = "",
    pod: Pod = "",
    previous: Previous = False,
    timestamps: Timestamps = False,
    namespace: Namespace = "default",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    channel: Channel = "",
    channel_ca: ChannelCa = None,
) -> None:
    """Show what the pods of a Job or flow print, in whatever clusters they run, each line with its pod."""
    from fedctl.doors import carry_out
    from fedctl.logs import Asked

    if previous and follow:
        raise typer.BadParameter("what has ended cannot be followed", param_hint="--previous")
    asked = Asked(
        follow=follow,
        tail=tail,
        since=_seconds(since),
        timestamps=timestamps,
        previous=previous,
        container=container,
        task=task,
        pod=pod,
    )

    async def read(place: Place) -> int:
        return await _read(place, name, asked, channel=channel, channel_ca=channel_ca)

    raise typer.Exit(asyncio.run(carry_out(kubeconfig, context, namespace=namespace, action=read)))


async def _read(place: Place, name: str, asked: Asked, *, channel: str, channel_ca: Path | None) -> int:
    from fedctl import direct
    from fedctl.logs import logs as read
    from machinery.clock import SystemClock

    if not channel:
        return await read(place, name, asked, clock=SystemClock())
    async with direct.opened(channel, ca=channel_ca, token=os.environ.get(TOKEN, "")) as door:
        return await read(place, name, asked, clock=SystemClock(), streams=door)


def _seconds(text: str | None) -> int | None:
    """Of a duration; a mistake is one of the command line."""
    if text is None:
        return None
    from policies import durations

    try:
        return durations.parse(text)
    except durations.InvalidDuration as error:
        raise typer.BadParameter(str(error), param_hint="--since") from error
