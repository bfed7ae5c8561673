"""People give orders, write states, move queues and run Jobs as a seed has it, watches lag and fail, the agent is killed: the
tree comes to rest as it should every time."""

from __future__ import annotations

import pytest

from apis import keys, kinds
from machinery.clock import Chance
from machinery.errors import ApiError
from machinery.port import PatchType
from simulator.faults import WatchFaults
from tests.member_agent.queues.making import command, commands, found, local, marked, queue, state, write_state
from tests.member_agent.world import EAST, Stage, job, play

AGENT = f"agent-{EAST}"
NAMES = ("a", "b", "c", "d", "e")
ROUGH = WatchFaults(duplicate=0.1, drop=0.03, expire=0.03, lag=1.0)


def pick(chance: Chance, *of: str) -> str:
    return of[chance.below(len(of))]


async def something(stage: Stage, chance: Chance, *, number: int) -> None:
    """One act of people, or an accident."""
    name = pick(chance, *NAMES)
    match chance.below(8):
        case 0 | 1:
            await command(stage, name, "CloseQueue")
        case 2 | 3:
            await command(stage, name, "OpenQueue")
        case 4:
            await write_state(stage, name, pick(chance, "Open", "Closed", "Unknown"))
        case 5:
            parent = pick(chance, "root", *(each for each in NAMES if each < name))
            await stage.world.client(EAST).patch(kinds.QUEUE, name, {"spec": {"parent": parent}}, type=PatchType.MERGE)
        case 6:
            await stage.world.apply([local(job(f"job-{number}", replicas=1, command="sleep 8"), name)], server=EAST)
        case _:
            stage.world.kill(AGENT)


def at_rest(stage: Stage) -> list[str]:
    """What is not as it should be."""
    groups = {group["spec"]["queue"] for group in stage.world.all(kinds.POD_GROUP, server=EAST)}
    wrong = [] if not commands(stage) else ["a Command is left"]
    for name in NAMES:
        mine, parent = state(stage, name), found(stage.world, name)["spec"]["parent"]
        shut = parent != keys.ROOT_QUEUE and state(stage, parent) in ("Closed", "Closing")
        if (mine == "Open" and shut) or (marked(stage, name) and not shut) or (marked(stage, name) and mine == "Open"):
            wrong.append(f"{name} is {mine} under {parent}, marked: {marked(stage, name)}")
        if mine not in ("Open", "Closed") and name not in groups:
            wrong.append(f"{name} is {mine} without PodGroups")
    return wrong


@pytest.mark.parametrize("seed", range(4))
def test_a_tree_that_many_hands_pull_at_comes_to_rest(seed: int) -> None:
    async def story(stage: Stage) -> None:
        chance = Chance(seed)
        for number, name in enumerate(NAMES):
            await queue(stage, name, parent=pick(chance, "root", *NAMES[:number]))
        stage.world.faults.watches = ROUGH
        stage.world.faults.conflict_once = bool(seed % 2)
        for number in range(25):
            try:
                await something(stage, chance, number=number)
            except ApiError as error:
                assert error.code == 409, error  # a hand that came too late
            await stage.world.advance(chance.uniform(0.0, 1.5))
        stage.world.faults.watches = WatchFaults()
        await stage.world.advance(120)
        assert at_rest(stage) == []
        written = len([each for each in stage.world.faults.log if each.kind == kinds.QUEUE.name])
        await stage.world.advance(300)
        assert len([each for each in stage.world.faults.log if each.kind == kinds.QUEUE.name]) == written

    play(story, seed=seed, register=False)
