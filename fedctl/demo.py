"""The quick start on the embedded federation, and the same words about it on any other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import yaml
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from apis import kinds, naming
from fedctl.follow import FlowFollower, Followed
from machinery.clock import Clock, SystemClock
from machinery.port import Port
from policies import verdicts

NAMESPACE = "default"
SUCCEEDED, FLOW_FAILED, NO_END = 0, 2, 4
"""Exit codes: the flow reached Succeed; it ended otherwise; it did not end in time."""

QUICKSTART = Path(__file__).parent.parent / "examples" / "quickstart.yaml"


def flow_name(manifest: str) -> str:
    """Name of the one JobFlow of a manifest; ValueError when there is none or more than one."""
    names = [doc["metadata"]["name"] for doc in yaml.safe_load_all(manifest) if doc and doc.get("kind") == kinds.JOB_FLOW.kind]
    if len(names) != 1:
        raise ValueError(f"the manifest has {len(names)} JobFlows, one is needed")
    return str(names[0])


async def show(port: Port, *, namespace: str, name: str, console: Console, clock: Clock, timeout: float) -> int:
    """Follow the flow, say where each step ran and why, and judge it by its phase in the API."""
    follower = FlowFollower(port, namespace=namespace, name=name, clock=clock)
    async with follower.watching():
        try:
            async with asyncio.timeout(timeout):
                seen = await follower.until_end(console)
        except TimeoutError:
            seen = follower.look()
            console.print(f"JobFlow {namespace}/{name} has not ended within {timeout:.0f} s; it is {seen.phase or 'unseen'}.")
            return NO_END
        explain(console, name, seen)
    console.print(
        f"JobFlow {namespace}/{name}: {seen.phase}{' - ' + seen.message if seen.message else ''}", highlight=False, markup=False
    )
    return SUCCEEDED if seen.phase == "Succeed" else FLOW_FAILED


def explain(console: Console, flow: str, seen: Followed) -> None:
    """One line per step: where it ran, and how the other clusters compared."""
    table = Table(title="Where each step ran, and why", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for column in ("STEP", "CLUSTER", "WHY"):
        table.add_column(column, overflow="fold")
    for row in seen.rows:
        binding = seen.bindings.get(naming.binding_name(naming.flow_job_name(flow, step=row.step)))
        decision = verdicts.decode(binding.verdicts) if binding else None
        table.add_row(row.step, row.cluster or "nowhere", escape(reason(decision, chosen=row.cluster)))
    console.print()
    console.print(table)
    console.print()


def reason(decision: verdicts.Decision | None, *, chosen: str) -> str:
    """A decision in half a sentence: the chosen cluster's score by rule, the others' scores, who was ruled out and why."""
    if decision is None:
        return ""
    winner = next((each for each in decision.clusters if each.cluster == chosen and not each.code), None)
    if winner is None:
        return decision.message or decision.reason
    others = [f"{each.cluster} {each.total}" for each in decision.clusters if not each.code and each is not winner]
    ruled_out = [f"{each.cluster}: {each.text or each.code}" for each in decision.clusters if each.code]
    rules = ", ".join(f"{rule} {score}" for rule, score in sorted(winner.scores.items()))
    before = f" before {', '.join(others)}" if others else ", the only one that fits"
    return f"{winner.total} points ({rules}){before}" + "".join(f"; {text}" for text in ruled_out)


async def run_demo(manifest: Path | None, *, timeout: float) -> int:
    """Hub and three members in this process, nodes simulated in real time; the exit code."""
    from simulator.nodes import uniform
    from simulator.world import Member, World

    logging.basicConfig(level=logging.ERROR)
    console = Console()
    text = (manifest or QUICKSTART).read_text()
    members = {
        "east": Member(nodes=uniform("east", 2, cpu="4", memory="8Gi"), region="eu-east"),
        "west": Member(nodes=uniform("west", 2, cpu="4", memory="8Gi"), region="eu-west"),
        "north": Member(nodes=uniform("north", 1, cpu="4", memory="8Gi"), region="eu-north"),
    }
    console.print("Starting a hub and the members east, west and north in this process; their nodes are simulated.")
    async with World(seed=1, members=members) as world:
        await world.until(lambda: _ready(world.all(kinds.CLUSTER)) == len(members), timeout=timeout, what="members Ready")
        await world.apply(text, namespace=NAMESPACE)
        return await show(
            world.client(), namespace=NAMESPACE, name=flow_name(text), console=console, clock=world.clock, timeout=timeout
        )


def _ready(clusters: list[dict[str, object]]) -> int:
    conditions = [(cluster.get("status") or {}).get("conditions") or [] for cluster in clusters]  # type: ignore[attr-defined]
    return sum(any(each["type"] == "Ready" and each["status"] == "True" for each in found) for found in conditions)


@asynccontextmanager
async def opened(kubeconfig: Path | None, context: str | None) -> AsyncIterator[Port]:
    """The port to the hub that a kubeconfig names."""
    from machinery.kube import KubePort

    port = await KubePort.from_kubeconfig(str(kubeconfig) if kubeconfig else None, context=context)
    try:
        yield port
    finally:
        await port.close()


async def follow_real(kubeconfig: Path | None, context: str | None, *, namespace: str, name: str) -> int:
    """`fedctl flow watch`."""
    async with opened(kubeconfig, context) as port:
        return await show(port, namespace=namespace, name=name, console=Console(), clock=SystemClock(), timeout=7 * 24 * 3600.0)
