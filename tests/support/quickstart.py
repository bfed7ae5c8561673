"""The quickstart flow in a simulated federation, and what must be true of it whatever happens on the way."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Sequence
from pathlib import Path

from apis import kinds, naming
from machinery.clock import Chance, Ids
from simulator import manifests
from simulator.faults import Write
from simulator.loop import SimClock, run_virtual
from simulator.nodes import uniform
from simulator.world import Doc, Member, World
from tests.support.stories import phase
from tests.support.watching import Watch

MANIFEST = Path(__file__).parents[2] / "examples" / "quickstart.yaml"
FLOW = "quickstart"
SEED = 1
"""The run whose writes are struck one by one."""
STARTED = 15.0
"""Seconds the programs have to find each other before the flow is applied."""
PATIENCE = 1800.0
"""Seconds after which a flow that has not ended is stuck, whatever the accidents. A clean run takes about 17."""
AFTERWARDS = 30.0
"""Seconds that follow the end, in which nothing may start any more."""

Strike = Callable[[World], Sequence[asyncio.Task[None]]]
"""Plans what goes wrong; the tasks it returns carry out what comes later and end with the run."""


def members() -> dict[str, Member]:
    """Three members, of which none could run everything at once."""
    return {name: Member(nodes=uniform(name, 2, cpu=2, memory="4Gi")) for name in ("east", "south", "west")}


@functools.cache
def documents() -> tuple[Doc, ...]:
    """The manifest."""
    return tuple(manifests.read(MANIFEST.read_text()))


def watch(world: World, docs: tuple[Doc, ...]) -> Watch:
    """A watch that knows the flow of these documents: which pods, and what waits for what."""
    templates = {doc["metadata"]["name"]: doc["spec"] for doc in docs if doc["kind"] == kinds.JOB_TEMPLATE.kind}
    (flow,) = (doc for doc in docs if doc["kind"] == kinds.JOB_FLOW.kind)

    def named(step: str) -> str:
        return f"default/{naming.flow_job_name(flow['metadata']['name'], step=step)}"

    pods, waits = {}, {}
    for step in flow["spec"]["flows"]:
        pods[named(step["name"])] = sum(task["replicas"] for task in templates[step["name"]]["tasks"])
        waits[named(step["name"])] = tuple(named(target) for target in (step.get("dependsOn") or {}).get("targets") or ())
    return Watch(world, pods=pods, waits=waits)


def run(seed: int, *, strike: Strike = lambda world: (), patience: float = PATIENCE) -> World:
    """From nothing to the end of the flow, with what `strike` plans; AssertionError with the story where it ends wrong."""

    async def main(clock: SimClock, chance: Chance, ids: Ids) -> World:
        async with World(seed, members=members()) as world:
            later = strike(world)
            try:
                await to_the_end(world, documents(), name=FLOW, patience=patience)
            finally:
                for task in later:
                    task.cancel()
            return world

    return run_virtual(main, seed=seed)


@functools.cache
def clean() -> World:
    """The run without faults, which says what writes there are."""
    return run(SEED)


@functools.cache
def writes() -> tuple[Write, ...]:
    """Every write of it; of renewals the first of each actor and Lease."""
    return tuple(worth_a_fault(clean().faults.log))


def told(write: Write) -> str:
    """A write as part of a test's name: actor, number, and what was written."""
    part = f".{write.subresource}" if write.subresource else ""
    return f"{write.actor}#{write.number}-{write.verb}-{write.kind.split('.')[0]}{part}-{write.name}"


async def to_the_end(
    world: World,
    docs: tuple[Doc, ...],
    *,
    name: str,
    patience: float = PATIENCE,
    started: float = STARTED,
    afterwards: float = AFTERWARDS,
) -> None:
    """Apply the flow `name` of `docs`, watch it to its end and beyond, and judge."""
    seen = watch(world, docs)

    def ended() -> bool:
        seen.check()
        return phase(world, name, kind=kinds.JOB_FLOW) == "Succeed"

    await world.advance(started)
    await world.apply(docs)
    await world.until(ended, timeout=patience, what="the flow succeeds")
    await world.advance(afterwards)
    seen.check()
    judge(world, starts=sum(seen.pods.values()))


def judge(world: World, *, starts: int) -> None:
    """Once, right, and by the nodes' own records."""
    assert len(world.records) == starts, world.story()
    assert world.records.repeated() == {}, world.story()
    assert world.records.two_clusters_at_once() == [], world.story()
    assert all(record.exit_code == 0 for record in world.records), world.story()
    assert world.crashes == [], world.story()


def is_renewal(write: Write) -> bool:
    """A Lease written again: it comes every few seconds and says nothing new."""
    return write.verb == "replace" and write.kind == kinds.LEASE.name


def worth_a_fault(log: list[Write]) -> list[Write]:
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
