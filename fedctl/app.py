"""The entry point: `fedctl`, also installed as `kubectl fed`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="fedctl", help="Many clusters as one queue: submit once, see where it runs and why it waits.", no_args_is_help=True
)
flow_app = typer.Typer(name="flow", help="JobFlows.", no_args_is_help=True)
app.add_typer(flow_app)

EXIT_FLOW_FAILED = 2
EXIT_NO_SERVER = 3


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


@flow_app.command()
def watch(
    name: Annotated[str, typer.Argument(help="Name of the JobFlow.")],
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Namespace of the JobFlow.")] = "default",
    kubeconfig: Annotated[Path | None, typer.Option(help="Kubeconfig of the hub.", envvar="KUBECONFIG")] = None,
    context: Annotated[str | None, typer.Option(help="Context in the kubeconfig.")] = None,
) -> None:
    """Follow a flow to its end; exit 0 only if it succeeds."""
    from fedctl.demo import follow_real

    raise typer.Exit(asyncio.run(follow_real(kubeconfig, context, namespace=namespace, name=name)))


def main() -> None:
    """Run fedctl."""
    app()
