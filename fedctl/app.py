"""The entry point: `fedctl`, also installed as `kubectl fed`."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedctl.cluster_commands import cluster_app
from fedctl.log_commands import logs
from fedctl.work_commands import COMMANDS, queue_app, top_app

if TYPE_CHECKING:
    from fedctl.flows import Place

app = typer.Typer(
    name="fedctl",
    help="Many clusters as one queue: submit once, see where it runs and why it waits.",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help is there in half the time
)
flow_app = typer.Typer(name="flow", help="JobFlows.", no_args_is_help=True)
app.add_typer(flow_app)
app.command()(logs)
app.add_typer(cluster_app)
app.add_typer(queue_app)
app.add_typer(top_app)
for each in COMMANDS:
    app.command()(each)


@app.command()
def version() -> None:
    """Print the version."""
    import importlib.metadata

    typer.echo(f"fedctl {importlib.metadata.version('volcano-federation')}")


@app.command()
def demo(
    manifest: Annotated[Path | None, typer.Option(help="JobFlow and JobTemplates to run instead of the quick start.")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds until the demo gives up.")] = 50.0,
) -> None:
    """Run the quick start on an embedded federation: a hub and three members in this process, nodes simulated."""
    from fedctl.demo import run_demo

    raise typer.Exit(asyncio.run(run_demo(manifest, timeout=timeout)))


Name = Annotated[str, typer.Argument(help="Name of the JobFlow.")]
Namespace = Annotated[str, typer.Option("--namespace", "-n", help="Namespace of the JobFlow.")]
Kubeconfig = Annotated[Path | None, typer.Option(help="Kubeconfig of the hub.", envvar="KUBECONFIG")]
Context = Annotated[str | None, typer.Option(help="Context in the kubeconfig.")]


@flow_app.command()
def watch(name: Name, namespace: Namespace = "default", kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """Follow a flow to its end; exit 0 only if it succeeds."""
    from fedctl.demo import follow_real

    raise typer.Exit(asyncio.run(follow_real(kubeconfig, context, namespace=namespace, name=name)))


@flow_app.command()
def get(
    namespace: Namespace = "default",
    everywhere: Annotated[bool, typer.Option("--all-namespaces", "-A", help="Flows of all namespaces.")] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """List flows: phase, progress, age and why they wait."""
    from fedctl import flows

    _run(kubeconfig, context, namespace, lambda place: flows.get(place, everywhere=everywhere))


@flow_app.command()
def describe(name: Name, namespace: Namespace = "default", kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """Show the graph of a flow with states, where its steps run, and why it is not further."""
    from fedctl import flows

    _run(kubeconfig, context, namespace, lambda place: flows.describe(place, name))


class Form(enum.StrEnum):
    """What a flow is drawn as."""

    MERMAID = "mermaid"
    GRAPHVIZ = "graphviz"
    TEXT = "text"


@flow_app.command()
def export(
    name: Name,
    form: Annotated[Form, typer.Option("--output", "-o", help="What to draw it as.")] = Form.MERMAID,
    namespace: Namespace = "default",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Draw the graph of a flow, coloured by state."""
    from fedctl import flows

    _run(kubeconfig, context, namespace, lambda place: flows.export(place, name, form=form.value))


@flow_app.command()
def suspend(name: Name, namespace: Namespace = "default", kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """Begin no more steps; those that run go on."""
    from fedctl import flows

    _run(kubeconfig, context, namespace, lambda place: flows.suspend(place, name, value=True))


@flow_app.command()
def resume(name: Name, namespace: Namespace = "default", kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """Let a suspended flow go on."""
    from fedctl import flows

    _run(kubeconfig, context, namespace, lambda place: flows.suspend(place, name, value=False))


@flow_app.command()
def retry(
    name: Name,
    step: Annotated[list[str] | None, typer.Option(help="Run this step and all that wait for it again; repeatable.")] = None,
    namespace: Namespace = "default",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Run what failed again, and what waits for it; nothing that completed."""
    from fedctl import flows
    from machinery.clock import Ids

    request = Ids().uuid()
    _run(kubeconfig, context, namespace, lambda place: flows.retry(place, name, steps=list(step or ()), request=request))


class Output(enum.StrEnum):
    """How answers are printed."""

    TEXT = "text"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


In = Annotated[str, typer.Option("--namespace", "-n", help="Namespace to look in.")]
Format = Annotated[Output, typer.Option("--output", "-o", help="How to print the answer.")]
Relax = Annotated[list[str] | None, typer.Option(help="Plan as if this were changed: queue=NAME, replicas=N, …; repeatable.")]


@app.command()
def plan(
    file: Annotated[Path, typer.Argument(help="A file with Jobs, CronJobs, or a JobFlow and its JobTemplates.")],
    relax: Relax = None,
    output: Format = Output.TEXT,
    suggest: Annotated[bool, typer.Option(help="Look for the cheapest change that would start what waits.")] = True,
    namespace: In = "default",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Say where it would run, for how much and until when, or what would start it; nothing is made."""
    from fedctl import plans
    from machinery.clock import SystemClock

    def action(place: Place) -> Coroutine[Any, Any, int]:
        given = list(relax or ())
        return plans.plan(place, file, relax=given, output=output.value, suggest=suggest, clock=SystemClock())

    _run(kubeconfig, context, namespace, action)


@app.command()
def explain(
    target: Annotated[str, typer.Argument(help="The Job, as job/NAME.")],
    relax: Relax = None,
    output: Format = Output.TEXT,
    namespace: In = "default",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Say why a Job runs where it runs, or why it waits and what would start it."""
    from fedctl import explain
    from machinery.clock import SystemClock

    def action(place: Place) -> Coroutine[Any, Any, int]:
        given = list(relax or ())
        return explain.explain(place, target, relax=given, output=output.value, clock=SystemClock())

    _run(kubeconfig, context, namespace, action)


def _run(
    kubeconfig: Path | None, context: str | None, namespace: str, action: Callable[[Place], Coroutine[Any, Any, int]]
) -> None:
    """Carry out an action on the hub that the kubeconfig names; a mistake is a sentence and an exit code."""
    from fedctl.doors import carry_out

    raise typer.Exit(asyncio.run(carry_out(kubeconfig, context, namespace=namespace, action=action)))


def main() -> None:
    """Run fedctl."""
    app()
