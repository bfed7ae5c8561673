"""The quickstart flow in a simulated federation, and what must be true of it whatever happens on the way."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

from apis import kinds
from machinery.clock import Chance, Ids
from simulator import manifests
from simulator.faults import Write
from simulator.loop import SimClock, run_virtual
from simulator.nodes import uniform
from simulator.world import Member, World

MANIFEST = Path(__file__).parents[2] / "examples" / "quickstart.yaml"
FLOW = "quickstart"
STARTED = 15.0
"""Seconds the programs have to find each other before the flow is applied."""
PATIENCE = 1800.0
"""Seconds after which a flow that has not ended is stuck. A clean run takes about one minute; a fault at most a few."""
AFTERWARDS = 30.0
"""Seconds that follow the end, in which nothing may start any more."""

Strike = Callable[[World], None]


def members() -> dict[str, Member]:
    """Three members, of which none could run everything at once."""
    return {name: Member(nodes=uniform(name, 2, cpu=2, memory="4Gi")) for name in ("east", "south", "west")}


@functools.cache
def expected_starts() -> int:
    """Pods of all steps together."""
    docs = manifests.read(MANIFEST.read_text())
    templates = {doc["metadata"]["name"]: doc["spec"] for doc in docs if doc["kind"] == kinds.JOB_TEMPLATE.kind}
    (flow,) = (doc for doc in docs if doc["kind"] == kinds.JOB_FLOW.kind)
    steps = [templates[step.get("template", step["name"])] for step in flow["spec"]["flows"]]
    return sum(task["replicas"] for step in steps for task in step["tasks"])


def succeeded(world: World) -> bool:
    """The flow's own word, in the API."""
    flow = world.get(kinds.JOB_FLOW, FLOW)
    return flow is not None and ((flow.get("status") or {}).get("state") or {}).get("phase") == "Succeed"


def run(seed: int, *, strike: Strike = lambda world: None) -> World:
    """From nothing to the end of the flow, with what `strike` plans; AssertionError with the story where it ends wrong."""

    async def main(clock: SimClock, chance: Chance, ids: Ids) -> World:
        async with World(seed, members=members()) as world:
            strike(world)
            await world.advance(STARTED)
            await world.apply(MANIFEST.read_text())
            await world.until(lambda: succeeded(world), timeout=PATIENCE, what="the flow succeeds")
            await world.advance(AFTERWARDS)
            judge(world)
            return world

    return run_virtual(main, seed=seed)


def judge(world: World) -> None:
    """Once, right, and by the nodes' own records."""
    assert succeeded(world), world.story()
    assert world.records.repeated() == {}, world.story()
    assert world.records.two_clusters_at_once() == [], world.story()
    assert len(world.records) == expected_starts(), world.story()
    assert world.records.running() == [], world.story()
    assert world.crashes == [], world.story()


def is_renewal(write: Write) -> bool:
    """A Lease written again: it comes every few seconds and says nothing new."""
    return write.verb == "replace" and write.kind == kinds.LEASE.name


def worth_a_kill(log: list[Write]) -> list[Write]:
    """Every write of a run, of renewals the first of each actor and Lease."""
    seen: set[tuple[str, str, str]] = set()
    chosen = []
    for write in log:
        lease = (write.actor, write.namespace, write.name)
        if is_renewal(write):
            if lease in seen:
                continue
            seen.add(lease)
        chosen.append(write)
    return chosen
