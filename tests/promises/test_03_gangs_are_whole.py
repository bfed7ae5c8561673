"""Promise 3, in one cluster: a gang binds its minimum in one commit or nothing."""

from __future__ import annotations

import pytest

from apis import kinds
from machinery.port import PatchType
from simulator.faults import Kill, Moment, answer
from simulator.world import World
from tests.support.stage import play
from tests.support.stories import job, phase, running, starts

GANGS = ("red", "green", "blue")
PODS = {f"default/{name}": 3 for name in GANGS}


def test_gangs_that_want_the_same_room_never_hold_half_of_it() -> None:
    """Each needs three of the four CPUs: two halves would wait for each other for ever. A gang's bindings are requests of
    their own, milliseconds apart; a second after the first all of them must stand."""

    async def story(world: World) -> None:
        await world.apply([job(name, pods=3, runs_for=20) for name in GANGS])
        await world.until(lambda: all(phase(world, name) == "Completed" for name in GANGS), timeout=180)
        assert {name: starts(world, name) for name in GANGS} == dict.fromkeys(GANGS, 3)

    play(story, cpus={"east": 2}, pods=PODS, gang_patience=1.0)


@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("moment", list(Moment))
def test_an_agent_that_dies_between_two_bindings_finishes_the_gang(nth: int, moment: Moment) -> None:
    """It comes back, sees what is bound, and binds the rest: nobody else gets that room meanwhile."""

    async def clean(world: World) -> None:
        await world.apply([job(name, pods=3, runs_for=20) for name in GANGS])
        await world.until(lambda: any(running(world, name) == 3 for name in GANGS), timeout=60)
        binds.extend(write.number for write in world.faults.writes_of("agent-east") if write.verb == "bind")

    async def struck(world: World) -> None:
        world.faults.at("agent-east", binds[nth - 1], moment, Kill())
        await world.apply([job(name, pods=3, runs_for=20) for name in GANGS])
        await world.until(lambda: all(phase(world, name) == "Completed" for name in GANGS), timeout=240)
        assert world.faults.fired
        assert {name: starts(world, name) for name in GANGS} == dict.fromkeys(GANGS, 3)

    binds: list[int] = []
    play(clean, cpus={"east": 2}, pods=PODS)
    play(struck, cpus={"east": 2}, pods=PODS)


def test_a_gang_that_can_never_be_whole_starts_nothing() -> None:
    async def story(world: World) -> None:
        await world.apply(job("red", pods=5, runs_for=5))
        await world.advance(120)
        assert (starts(world, "red"), phase(world, "red")) == (0, "Pending")

    play(story, cpus={"east": 2, "west": 1})


@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize(("code", "reason"), [(403, "Forbidden"), (409, "Conflict"), (0, "")])
def test_a_binding_that_is_refused_or_never_answered_leaves_no_gang_half_bound(nth: int, code: int, reason: str) -> None:
    """The gang becomes whole as soon as the API server takes the binding, whatever else wakes the scheduler meanwhile."""

    async def clean(world: World) -> None:
        await world.apply([job(name, pods=3, runs_for=20) for name in GANGS])
        await world.until(lambda: any(running(world, name) == 3 for name in GANGS), timeout=60)
        binds.extend(write.number for write in world.faults.writes_of("agent-east") if write.verb == "bind")

    async def struck(world: World) -> None:
        world.faults.at("agent-east", binds[nth - 1], Moment.BEFORE, answer(code, reason=reason))
        await world.apply([job(name, pods=3, runs_for=20) for name in GANGS])
        await world.until(lambda: bool(world.faults.fired), timeout=60)
        node = world.all(kinds.NODE, server="east")[0]["metadata"]["name"]
        patch = {"metadata": {"labels": {"changed": "now"}}}
        await world.client("east").patch(kinds.NODE, node, patch, type=PatchType.MERGE)
        await world.until(lambda: all(phase(world, name) == "Completed" for name in GANGS), timeout=240)
        assert {name: starts(world, name) for name in GANGS} == dict.fromkeys(GANGS, 3)

    binds: list[int] = []
    play(clean, cpus={"east": 2}, pods=PODS)
    play(struck, cpus={"east": 2}, pods=PODS, gang_patience=10.0)
