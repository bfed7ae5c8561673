"""A member that lies about its capacity, and one that floods the hub with statuses: other Jobs and members are not delayed.

Measured in virtual seconds and in counts of writes, beside the same crowd of Jobs on a member that is fine.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import orjson
import pytest

from apis import capacity, keys, kinds
from apis.vectors import ResourceVector
from federation.dispatch.trust import LEAST
from machinery import errors
from machinery.port import PatchType
from simulator.world import World
from tests.support.members import condition
from tests.support.stage import play
from tests.support.stories import clusters, job, phase, policy, running

HOME = keys.execution_namespace("east")
MINE = [f"mine-{number}" for number in range(6)]
ANYWHERE = [f"any-{number}" for number in range(4)]
EASTERN = [f"east-{number}" for number in range(24)]
TOLERANCE = 0.5
"""Seconds: requests have random latencies, and a write more or less shifts them."""

Bad = Callable[[World], Coroutine[Any, Any, None]]


async def fine(world: World) -> None:
    """Nothing is wrong."""


async def lying(world: World) -> None:
    """A cluster that says of itself that it is huge and empty, and takes nothing: what somebody else wrote beside a fencer that
    goes on renewing."""
    world.stop("agent-east")
    client = world.client()
    size = ResourceVector.from_quantities({"cpu": 1000, "memory": "4Ti", "pods": 10_000})
    table, domains = capacity.node_table({capacity.NodeGroup((), (), size, "", size): 50})
    for number in itertools.count(1000):
        status = capacity.CapacityStatus(works_through="0", generation=number, nodes=table, domains=domains)
        told = orjson.loads(capacity.write_status(status))
        with contextlib.suppress(errors.ApiError):
            await client.patch(
                kinds.CLUSTER_CAPACITY,
                keys.MEMBER_LEASE,
                {"status": told},
                type=PatchType.MERGE,
                namespace=HOME,
                subresource="status",
            )
        for work in world.all(kinds.WORK, namespace=HOME):
            await _refuse(world, work)
        await world.clock.sleep(0.5)


async def _refuse(world: World, work: dict[str, Any]) -> None:
    """No room after all; what is withdrawn is let go."""
    client, name = world.client(), work["metadata"]["name"]
    with contextlib.suppress(errors.ApiError):
        if work["metadata"].get("deletionTimestamp"):
            body: dict[str, Any] = {"metadata": {"finalizers": []}}
            await client.patch(kinds.WORK, name, body, type=PatchType.MERGE, namespace=HOME)
        elif not (work.get("status") or {}).get("conditions") and keys.RUN in work["metadata"]["annotations"]:
            said = [{"type": "Applied", "status": "False", "reason": "NoRoom", "message": "not today"}]
            body = {"status": {"conditions": said}}
            await client.patch(kinds.WORK, name, body, type=PatchType.MERGE, namespace=HOME, subresource="status")


async def flooding(world: World) -> None:
    """Everything that an agent may write, twenty times a second, each time with something new in it."""
    client = world.client()
    for number in itertools.count():
        note = {"status": {"observedAt": f"2026-01-01T00:00:{number % 60:02}Z", "generation": 10_000 + number}}
        with contextlib.suppress(errors.ApiError):
            await client.patch(
                kinds.CLUSTER_CAPACITY,
                keys.MEMBER_LEASE,
                note,
                type=PatchType.MERGE,
                namespace=HOME,
                subresource="status",
            )
            said = {"status": {"remedyActions": [str(number)]}}
            await client.patch(kinds.CLUSTER, "east", said, type=PatchType.MERGE, subresource="status")
            for work in world.all(kinds.WORK, namespace=HOME)[:3]:
                body = {"metadata": {"annotations": {"flood": str(number)}}}
                await client.patch(kinds.WORK, work["metadata"]["name"], body, type=PatchType.MERGE, namespace=HOME)
        await world.clock.sleep(0.05)


@dataclass(frozen=True)
class Found:
    """Seconds until all of the west's Jobs run and have ended, and until those that may go anywhere have; writes of the hub at
    the Jobs and bindings of the west, and Works that it sent to the east."""

    running: float
    ended: float
    anywhere: float
    writes: int
    sent: int


@contextlib.asynccontextmanager
async def beside(world: World, bad: Bad) -> AsyncIterator[None]:
    """While that goes on."""
    task = asyncio.create_task(bad(world))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def pace(bad: Bad) -> Found:
    """A crowd waits for the east, some may go anywhere, and some to the west alone."""
    found: list[Found] = []

    async def story(world: World) -> None:
        await world.apply(policy("east", jobs=EASTERN, clusters=["east"]))
        await world.apply(policy("west", jobs=MINE, clusters=["west"]))
        async with beside(world, bad):
            await world.advance(10)
            await world.apply([job(name, cpu=1 + number % 3, runs_for=None) for number, name in enumerate(EASTERN)])
            begin = world.clock.boot()
            await world.apply([job(name, pods=2, runs_for=10) for name in MINE])
            await world.apply([job(name, runs_for=10) for name in ANYWHERE])
            await world.until(lambda: all(running(world, name) == 2 for name in MINE), timeout=60, what="running in the west")
            runs = world.clock.boot() - begin
            await world.until(lambda: all(phase(world, name) == "Completed" for name in MINE), timeout=60, what="ended there")
            ended = world.clock.boot() - begin
            done = lambda: all(phase(world, name) == "Completed" for name in ANYWHERE)  # noqa: E731
            await world.until(done, timeout=180, what="those that may go anywhere end")
            assert condition(world, "west", "Ready")[0] == "True"
        writes = [write for write in world.faults.writes_of("hub") if write.name.split("-job")[0] in MINE]
        sent = [
            write
            for write in world.faults.writes_of("hub")
            if (write.verb, write.kind, write.namespace) == ("create", kinds.WORK.name, HOME)
        ]
        assert {cluster for name in MINE for cluster in clusters(world, name)} == {"west"}
        found.append(Found(runs, ended, world.clock.boot() - begin, len(writes), len(sent)))

    play(story, cpus={"east": 6, "west": 10}, nodes=2, pods={f"default/{name}": 2 for name in MINE})
    return found[0]


@functools.cache
def usual() -> Found:
    """Beside a member that is fine."""
    return pace(fine)


@pytest.mark.parametrize("bad", [lying, flooding], ids=lambda it: it.__name__)
def test_jobs_of_another_member_are_as_fast_and_cost_as_few_writes(bad: Bad) -> None:
    found = pace(bad)
    assert found.running <= usual().running + TOLERANCE
    assert found.ended <= usual().ended + TOLERANCE
    assert found.writes <= usual().writes + len(MINE), "a flood is not passed on"


def test_whoever_believed_a_lie_runs_elsewhere_and_the_liar_is_soon_sent_nothing_more() -> None:
    """Two attempts of whoever may go anywhere; of the crowd no more than it takes to find out."""
    found = pace(lying)
    assert found.anywhere <= 60.0
    assert found.sent <= 2 * LEAST + len(EASTERN), found
