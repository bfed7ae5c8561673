"""The quick start on the embedded federation, and the same words about it on any other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import yaml
from rich.console import Console

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
    """One line per step: where it ran, and the scores of the clusters that were in the choice."""
    console.print("\nWhere each step ran, and why:")
    for row in seen.rows:
        binding = seen.bindings.get(naming.binding_name(naming.flow_job_name(flow, step=row.step)))
        decision = verdicts.decode(binding.verdicts) if binding else None
        text = f"  {row.step}: {row.cluster or 'nowhere'}{reason(decision)}"
        console.print(text, highlight=False, markup=False, soft_wrap=True)


def reason(decision: verdicts.Decision | None) -> str:
    """A decision in half a sentence."""
    if decision is None:
        return ""
    offered = [
        f"{each.cluster} {each.text or each.code}" if each.code else f"{each.cluster} {each.total}{_scores(each)}"
        for each in decision.clusters
    ]
    said = decision.message or decision.reason
    return "".join([f", {said}" if said else "", f" (scores: {'; '.join(offered)})" if offered else ""])


def _scores(considered: verdicts.Considered) -> str:
    rules = ", ".join(f"{rule} {score}" for rule, score in sorted(considered.scores.items()))
    return f" [{rules}]" if rules else ""


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
