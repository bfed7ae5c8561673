"""Keeps control planes running for people: `python -m e2e.controlplane up --members 2`, `… status`, `… down`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from e2e.controlplane import process, teardown
from e2e.controlplane.build import BuildError
from e2e.controlplane.fleet import Federation, WorkInUse, default_work
from e2e.controlplane.plan import Member, NodeShape, NodeSource
from e2e.controlplane.process import ProcessFailed
from e2e.controlplane.system import WrongMachine

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False)

Work = Annotated[Path | None, typer.Option(help="Folder of this federation; a fixed one of this checkout by default.")]
NAMES = ("east", "west", "north", "south")


def member_names(count: int) -> list[str]:
    """east, west, north, south, then member-5 and on."""
    return [NAMES[i] if i < len(NAMES) else f"member-{i + 1}" for i in range(count)]


def exports(kubeconfigs: dict[str, Path]) -> list[str]:
    """Lines for a shell: HUB_KUBECONFIG, EAST_KUBECONFIG, …"""
    return [f"export {name.upper().replace('-', '_')}_KUBECONFIG={path}" for name, path in kubeconfigs.items()]


@app.command()
def up(
    members: Annotated[int, typer.Option(help="How many members.")] = 2,
    nodes: Annotated[int, typer.Option(help="Nodes per member.")] = 2,
    kind: Annotated[
        NodeSource, typer.Option(help="Where nodes come from; auto is real where the machine can.")
    ] = NodeSource.AUTO,
    cpu: Annotated[int, typer.Option(help="CPU of one node, thousandths of a core.")] = NodeShape().cpu_millis,
    memory: Annotated[int, typer.Option(help="Memory of one node, MiB.")] = NodeShape().memory_mib,
    work: Work = None,
) -> None:
    """Boots a hub and members and leaves them running; what ran under the same folder before is taken down first."""
    shape = NodeShape(cpu_millis=cpu, memory_mib=memory)
    asked = {name: Member(nodes=nodes, source=kind, shape=shape) for name in member_names(members)}
    federation = Federation(asked, work=work or default_work("up"))

    async def boot() -> None:
        try:
            await federation.up()
        except BaseException:
            federation.down()
            raise

    try:
        asyncio.run(boot())
    except* (BuildError, WrongMachine, WorkInUse, ProcessFailed, ValueError) as errors:
        for error in errors.exceptions:
            typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    for line in exports({cluster.name: cluster.kubeconfig for cluster in federation.clusters}):
        typer.echo(line)
    federation.close()


@app.command()
def status(work: Work = None) -> None:
    """The processes that run, with memory."""
    for folder in sorted((work or default_work("up")).glob("*/processes")):
        for record in filter(process.alive, process.read(folder)):
            megabytes = process.usage(record).resident_bytes >> 20
            typer.echo(f"{record.pid:>8}  {megabytes:>5} MiB  {folder.parent.name}/{record.name}")


@app.command()
def down(work: Work = None) -> None:
    """Ends every process of `up`; logs stay."""
    folder = work or default_work("up")
    count = len(teardown.running(folder))
    teardown.teardown(folder)
    typer.echo(f"ended {count} processes; logs in {folder}")


if __name__ == "__main__":
    app()
