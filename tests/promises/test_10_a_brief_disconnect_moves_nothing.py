"""Promise 10: a brief disconnect moves and kills nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from simulator.faults import Way
from simulator.world import HUB, World
from tests.support.stage import play
from tests.support.stories import binding_run, job, phase, running

JOBS = [f"job-{number}" for number in range(6)]


def cut(way: Way) -> Callable[[World], None]:
    """Both members lose the hub, in this way."""

    def act(world: World) -> None:
        for actor in world.supervisors:
            if actor != "hub":
                world.faults.cut(actor, HUB, way=way)

    act.__name__ = f"cut {way}"
    return act


def hub_down(world: World) -> None:
    world.stop("hub")


def hub_cut(world: World) -> None:
    world.faults.cut("hub", HUB)


def agents_down(world: World) -> None:
    for actor in world.supervisors:
        if actor != "hub":
            world.stop(actor)


def members_cut_off_from_themselves(world: World) -> None:
    """Agents reach the hub and not their own API server."""
    for member in world.members:
        for role in ("agent", "fencer"):
            world.faults.cut(f"{role}-{member}", member)


def over(world: World) -> None:
    """All is well again."""
    world.faults.heal_all()
    for actor in world.supervisors:
        world.resume(actor)


TROUBLES = [*(cut(way) for way in Way), hub_down, hub_cut, agents_down, members_cut_off_from_themselves]


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda it: it.__name__)
@pytest.mark.parametrize("minutes", [1, 9])
def test_what_runs_goes_on_and_ends_where_it_began(trouble: Callable[[World], None], minutes: int) -> None:
    """Some Jobs run through it, some end during it: no container is stopped, none is started, nothing is granted anew."""

    async def story(world: World) -> None:
        await world.apply([job(name, pods=2, runs_for=90 if number % 2 else 900) for number, name in enumerate(JOBS)])
        await world.until(lambda: all(running(world, name) == 2 for name in JOBS), timeout=30)
        begun = [(record.pod_uid, record.cluster) for record in world.records]
        trouble(world)
        await world.advance(60 * minutes)
        over(world)
        await world.until(lambda: all(phase(world, name) == "Completed" for name in JOBS), timeout=1200)
        assert [(record.pod_uid, record.cluster) for record in world.records] == begun
        assert all(record.exit_code == 0 for record in world.records)
        assert [run.epoch for name in JOBS if (run := binding_run(world, name)) is not None] == [1] * len(JOBS)

    play(story, cpus={"east": 6, "west": 6}, pods={f"default/{name}": 2 for name in JOBS})
