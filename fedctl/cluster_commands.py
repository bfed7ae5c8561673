"""The commands of `fedctl cluster`; what they do is in `fedctl.clusters`."""

from __future__ import annotations

import asyncio
import enum
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from fedctl.flows import Place

cluster_app = typer.Typer(name="cluster", help="Members of the federation.", no_args_is_help=True)


class Output(enum.StrEnum):
    """How members are shown."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


Name = Annotated[str, typer.Argument(help="Name of the member.")]
Names = Annotated[list[str], typer.Argument(help="Names of members.")]
Kubeconfig = Annotated[Path | None, typer.Option(help="Kubeconfig of the hub.", envvar="KUBECONFIG")]
Context = Annotated[str | None, typer.Option(help="Context in the kubeconfig.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Stay = Annotated[bool, typer.Option("--wait/--no-wait", help="Stay until it is done, and tell how far it is.")]
Timeout = Annotated[float, typer.Option(help="Seconds to stay at most; the hub goes on after that.")]


@cluster_app.command()
def get(
    names: Annotated[list[str] | None, typer.Argument(help="Names of members; none: all.")] = None,
    output: Annotated[Output, typer.Option("--output", "-o", help="How to show them.")] = Output.TABLE,
    selector: Annotated[str, typer.Option("--selector", "-l", help="Only those with these labels.")] = "",
    watch: Annotated[bool, typer.Option("--watch", "-w", help="A line for every change, until interrupted.")] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """List members: how they stand, and what is asked of them."""
    from fedctl import clusters
    from machinery.clock import SystemClock

    chosen, clock = names or [], SystemClock()
    _run(
        kubeconfig,
        context,
        lambda place: clusters.get(place, chosen, output=output.value, labels=selector, watch=watch, clock=clock),
    )


@cluster_app.command()
def describe(name: Name, kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """Show one member: place, room, orders with the names of those who gave them, taints, conditions."""
    from fedctl import clusters

    _run(kubeconfig, context, lambda place: clusters.describe(place, name))


@cluster_app.command()
def cordon(names: Names, kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """Send nothing new to members; what runs there goes on."""
    from fedctl import clusters

    _run(kubeconfig, context, lambda place: clusters.cordon(place, names, value=True))


@cluster_app.command()
def uncordon(names: Names, kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """Let members take new work again; ends a drain, too."""
    from fedctl import clusters

    _run(kubeconfig, context, lambda place: clusters.cordon(place, names, value=False))


@cluster_app.command()
def drain(
    name: Name,
    reason: Annotated[str, typer.Option(help="Why, for those who read it.")] = "",
    yes: Yes = False,
    wait: Stay = True,
    timeout: Timeout = 3600.0,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Stop what runs in a member, one run after the other, and place it again elsewhere."""
    from fedctl import clusters
    from machinery.clock import SystemClock

    stay, clock = clusters.Wait(wait, timeout), SystemClock()
    _run(
        kubeconfig,
        context,
        lambda place: clusters.drain(place, name, why=reason, confirm=_confirm(yes), wait=stay, clock=clock),
    )


@cluster_app.command()
def unjoin(
    name: Name,
    yes: Yes = False,
    wait: Stay = True,
    timeout: Timeout = 3600.0,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Remove a member from the federation: what runs there moves, what the hub sent there goes."""
    from fedctl import clusters
    from machinery.clock import SystemClock

    stay, clock = clusters.Wait(wait, timeout), SystemClock()
    _run(kubeconfig, context, lambda place: clusters.unjoin(place, name, confirm=_confirm(yes), wait=stay, clock=clock))


@cluster_app.command("declare-lost")
def declare_lost(
    name: Name,
    reason: Annotated[str, typer.Option(help="How you know it: recorded with your name.")],
    yes: Yes = False,
    wait: Stay = True,
    timeout: Timeout = 300.0,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Give your word that nothing runs in a member any more, so that its runs start elsewhere."""
    from fedctl import clusters
    from machinery.clock import SystemClock

    stay, clock = clusters.Wait(wait, timeout), SystemClock()
    _run(
        kubeconfig,
        context,
        lambda place: clusters.declare_lost(place, name, why=reason, confirm=_confirm(yes), wait=stay, clock=clock),
    )


@cluster_app.command()
def join(
    name: Name,
    print_helm: Annotated[bool, typer.Option("--print-helm/--print-values", help="Print the command, or only values.")] = True,
    provider: Annotated[str, typer.Option(help="Provider of the cluster.")] = "",
    region: Annotated[str, typer.Option(help="Region of the cluster.")] = "",
    zone: Annotated[list[str] | None, typer.Option(help="Zone of the cluster; several times.")] = None,
    label: Annotated[list[str] | None, typer.Option(help="Label key=value of the Cluster; several times.")] = None,
    mode: Annotated[str, typer.Option(help="Who runs Jobs there: auto, builtin or volcano.")] = "",
    price_sheet: Annotated[Path | None, typer.Option(help="YAML file with the spec of a ClusterOffer.")] = None,
    life: Annotated[float, typer.Option(help="Seconds that the token is good.", min=60.0, max=86400.0)] = 3600.0,
    hub_server: Annotated[str, typer.Option(help="https://host:port by which the member reaches the hub.")] = "",
    hub_ca: Annotated[Path | None, typer.Option(help="PEM: who signs the certificate that the hub shows.")] = None,
    chart: Annotated[str, typer.Option(help="Where the chart of the member is.")] = "charts/member-agent",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Let a cluster join: prints the one helm command that does it, with a token that is good once."""
    from fedctl import joining

    wish = joining.Wish(
        cluster=name,
        provider=provider,
        region=region,
        zones=tuple(zone or ()),
        labels=_labels(label or []),
        mode=mode,
        chart=chart,
    )
    address = joining.Address(kubeconfig, context, hub_server, hub_ca)
    _run(
        kubeconfig,
        context,
        lambda place: joining.join(place, wish, address=address, prices=price_sheet, life=life, helm=print_helm),
    )


def _labels(pairs: list[str]) -> dict[str, str]:
    found = dict(pair.partition("=")[::2] for pair in pairs)
    bad = [pair for pair in pairs if "=" not in pair or pair.startswith("=")]
    if bad:
        raise typer.BadParameter(f"{bad[0]!r} is not key=value", param_hint="--label")
    return found


def _confirm(yes: bool) -> Callable[[str], bool]:
    """Asks on a terminal; where there is none, only --yes is a yes."""

    def ask(question: str) -> bool:
        if yes:
            return True
        if not sys.stdin.isatty():
            typer.echo(f"{question} Nobody can be asked here: say --yes", err=True)
            return False
        return typer.confirm(question)

    return ask


def _run(kubeconfig: Path | None, context: str | None, action: Callable[[Place], Coroutine[Any, Any, int]]) -> None:
    from fedctl.doors import carry_out

    raise typer.Exit(asyncio.run(carry_out(kubeconfig, context, namespace="", action=action)))
