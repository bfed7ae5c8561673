"""The hub is killed before and after every write of a drain, of an unjoining and of a word that a member is lost, one run each.

A clean run says which writes there are. Each case kills the hub at one of them; it restarts, and in the end every run has moved
once, by the ground that it should, and nothing ran twice at once by the nodes' own records.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable

import pytest

from apis import kinds
from apis.runs import Ground
from machinery.clock import Chance, Ids
from simulator.faults import Kill, Moment, Write
from simulator.loop import SimClock, run_virtual
from simulator.nodes import uniform
from simulator.world import Member, World
from tests.support.members import condition, declare_lost, drain
from tests.support.quickstart import SEED, is_renewal, told
from tests.support.stories import binding_run, home, job, running
from tests.support.watching import Watch

JOBS = ("one", "two")
STARTED = 10.0
WITHIN = 180.0
"""Seconds: an election, a silence of 40 s and the pace of evictions come on top of what a clean run takes."""

Tale = Callable[[World], Awaitable[None]]


async def drained(world: World) -> None:
    """A drain, to its end."""
    await drain(world, "east")
    await world.until(
        lambda: condition(world, "east", "Drained")[0] == "True", timeout=WITHIN, what="it says that it is drained"
    )


async def unjoined(world: World) -> None:
    """The Cluster is deleted while its agent is there."""
    await world.client().delete(kinds.CLUSTER, "east")
    await world.until(lambda: world.get(kinds.CLUSTER, "east") is None, timeout=WITHIN, what="the Cluster goes")


async def lost(world: World) -> None:
    """The member is lost, and a person says so as soon as the hub knows that it is silent."""
    world.lose("east")
    await world.until(lambda: condition(world, "east", "Ready")[0] == "Unknown", timeout=WITHIN, what="it is silent")
    await declare_lost(world, "east")
    await world.until(lambda: condition(world, "east", "DeclaredLost")[0] == "True", timeout=WITHIN, what="it is declared lost")


TALES: dict[str, tuple[Tale, Ground]] = {
    "drained": (drained, Ground.CONFIRMED),
    "unjoined": (unjoined, Ground.CONFIRMED),
    "lost": (lost, Ground.DECLARED),
}


def live(name: str, *, at: Write | None = None, moment: Moment = Moment.BEFORE) -> tuple[World, float]:
    """Two Jobs in the east, and what becomes of them; the world and the second at which the tale began."""
    tale, ground = TALES[name]

    async def main(clock: SimClock, chance: Chance, ids: Ids) -> tuple[World, float]:
        members = {each: Member(nodes=uniform(each, 2, cpu=cpu)) for each, cpu in (("east", 8), ("west", 4))}
        async with World(SEED, members=members, restart_delay=1.0) as world:
            if at is not None:
                world.faults.at(at.actor, at.number, moment, Kill())
            seen = Watch(world, pods={f"default/{each}": 2 for each in JOBS})
            await world.advance(STARTED)
            await world.apply([job(each, pods=2, runs_for=900.0) for each in JOBS])
            await world.until(lambda: all(running(world, each) == 2 for each in JOBS), timeout=60, what="both run")
            assert {home(world, each) for each in JOBS} == {"east"}
            began = world.clock.boot()
            await tale(world)
            moved = lambda: all(home(world, each) == "west" and running(world, each) == 2 for each in JOBS)  # noqa: E731
            await world.until(moved, timeout=WITHIN, what="both have moved")
            await world.advance(15.0)
            seen.check()
            assert world.crashes == [], world.story()
            assert world.records.two_clusters_at_once() == [], world.story()
            for each in JOBS:
                record = binding_run(world, each)
                assert record is not None
                assert (record.epoch, [past.ground for past in record.past]) == (2, [ground]), world.story()
                assert [past.by for past in record.past] == ["alice" if ground is Ground.DECLARED else ""]
            return world, began

    return run_virtual(main, seed=SEED)


@functools.cache
def writes(name: str) -> tuple[Write, ...]:
    """What the hub writes in that tale; its own election, Events and the status of Jobs apart, on which nothing depends."""
    world, began = live(name)
    struck = [write for write in world.faults.writes_of("hub") if write.time >= began and write.kind != kinds.EVENT.name]
    struck = [write for write in struck if (write.kind, write.subresource) != (kinds.JOB.name, "status")]
    return tuple(write for write in struck if not is_renewal(write) or write.namespace.startswith("karmada-es-"))


CASES = [(name, write, moment) for name in TALES for write in writes(name) for moment in Moment]


def named(case: tuple[str, Write, Moment]) -> str:
    """The name of a case."""
    return f"{case[0]}-{case[2]}-{told(case[1])}"


@pytest.mark.parametrize("case", CASES, ids=named)
def test_a_hub_that_dies_while_members_leave_goes_on_where_it_stood(case: tuple[str, Write, Moment]) -> None:
    name, write, moment = case
    world, _ = live(name, at=write, moment=moment)
    assert world.faults.fired == [f"Kill {moment} write {write.number} of hub"]


def test_the_kills_hit_what_matters() -> None:
    """The decision, the order to stop, the fence and the end of what was exchanged."""
    struck = {name: {(write.verb, write.kind) for write in writes(name)} for name in TALES}
    for name in TALES:
        assert ("replace", kinds.RESOURCE_BINDING.name) in struck[name]
        assert ("delete", kinds.WORK.name) in struck[name]
    assert ("replace", kinds.LEASE.name) in struck["lost"]
    assert ("delete", kinds.NAMESPACE.name) in struck["unjoined"]
