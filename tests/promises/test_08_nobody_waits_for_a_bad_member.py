"""Promise 8: one member being slow, full, malformed or away never delays the others; measured in virtual time."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable

import pytest

from apis import keys, kinds
from machinery.port import PatchType
from simulator.faults import Delay, Hang, Moment
from simulator.world import World
from tests.support.stage import play
from tests.support.stories import job, phase, policy, running

Trouble = Callable[[World], Awaitable[None]]
MINE = [f"mine-{number}" for number in range(6)]
EASTERN = [f"east-{number}" for number in range(20)]
TOLERANCE = 0.25
"""Seconds: requests have random latencies, and a write more or less shifts them."""


async def fine(world: World) -> None:
    """Nothing is wrong."""


async def away(world: World) -> None:
    """Cut off for longer than anybody waits for it."""
    world.cut("east")
    await world.advance(60)


async def just_gone(world: World) -> None:
    """Cut off this instant: nobody has noticed yet."""
    world.cut("east")


async def slow(world: World) -> None:
    """Every write of its agent takes five seconds more."""
    for number in range(1, 2000):
        world.faults.at("agent-east", number, Moment.BEFORE, Delay(5.0))


async def hanging(world: World) -> None:
    """No write of its agent is ever answered."""
    for number in range(1, 2000):
        world.faults.at("agent-east", number, Moment.AFTER, Hang())


async def malformed(world: World) -> None:
    """Its capacity, its Lease and its Cluster say nonsense, and somebody spoilt a run record."""
    home = keys.execution_namespace("east")
    world.stop("agent-east")
    world.stop("fencer-east")
    client = world.client()

    async def spoil(kind: kinds.Kind, patch: dict[str, object], *, subresource: str | None = None) -> None:
        name, namespace = ("east", None) if kind == kinds.CLUSTER else (keys.MEMBER_LEASE, home)
        await client.patch(kind, name, patch, type=PatchType.MERGE, namespace=namespace, subresource=subresource)

    nodes = {"classes": [{}], "rows": [{"class": 99, "count": -5, "free": {"cpu": "-1"}}]}
    await spoil(kinds.CLUSTER_CAPACITY, {"status": {"worksThrough": "yesterday", "nodes": nodes}}, subresource="status")
    await spoil(kinds.LEASE, {"spec": {"holderIdentity": "???", "renewTime": None, "leaseDurationSeconds": None}})
    for work in world.all(kinds.WORK, namespace=home):
        note = {"metadata": {"annotations": {keys.RUN: "{not json"}}}
        await client.patch(kinds.WORK, work["metadata"]["name"], note, type=PatchType.MERGE, namespace=home)


def pace(trouble: Trouble, *, cpus: int = 8) -> dict[str, float]:
    """Seconds from submission to all pods running, and to the end, of Jobs that may run in the west alone, while a crowd waits
    for the east."""
    found: dict[str, float] = {}

    async def story(world: World) -> None:
        await world.apply(policy("east", jobs=EASTERN, clusters=["east"]))
        await world.apply(policy("west", jobs=MINE, clusters=["west"]))
        await world.apply([job(name, runs_for=None) for name in EASTERN[:10]])
        await world.advance(10)
        await trouble(world)
        await world.apply([job(name, runs_for=None) for name in EASTERN[10:]])
        begin = world.clock.boot()
        await world.apply([job(name, pods=2, runs_for=10) for name in MINE])
        await world.until(lambda: all(running(world, name) == 2 for name in MINE), timeout=60, what="running in the west")
        found["running"] = world.clock.boot() - begin
        await world.until(lambda: all(phase(world, name) == "Completed" for name in MINE), timeout=60, what="ended in the west")
        found["ended"] = world.clock.boot() - begin
        assert bool(world.faults.fired) == (trouble in (slow, hanging))

    play(story, cpus={"east": cpus, "west": 8}, pods={f"default/{name}": 2 for name in MINE})
    return found


@functools.cache
def usual() -> dict[str, float]:
    """Beside a member that is fine."""
    return pace(fine)


@pytest.mark.parametrize("trouble", [away, just_gone, slow, hanging, malformed], ids=lambda it: it.__name__)
def test_jobs_of_another_member_are_as_fast_as_ever(trouble: Trouble) -> None:
    found = pace(trouble)
    print(trouble.__name__, found, usual())
    assert found["running"] <= usual()["running"] + TOLERANCE
    assert found["ended"] <= usual()["ended"] + TOLERANCE


def test_jobs_of_another_member_are_as_fast_beside_a_full_one() -> None:
    found = pace(fine, cpus=1)
    assert found["running"] <= usual()["running"] + TOLERANCE
    assert found["ended"] <= usual()["ended"] + TOLERANCE
