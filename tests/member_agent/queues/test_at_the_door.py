"""Queues behind our own admission: what it lets the controller write, and whom a closed queue turns away."""

from __future__ import annotations

import pytest

from apis import kinds
from machinery.clock import Chance, Ids
from machinery.errors import ApiError
from simulator.loop import SimClock, run_virtual
from simulator.nodes import uniform
from simulator.programs import Programs, federation
from simulator.world import Member, World
from tests.member_agent.queues.making import command, local, marked, queue, settled
from tests.member_agent.world import EAST, Stage, job


def test_a_closed_tree_refuses_jobs_and_deletion_and_the_controller_may_still_write_it() -> None:
    async def main(clock: SimClock, chance: Chance, ids: Ids) -> None:
        members = {EAST: Member(nodes=uniform("node", 2, cpu="8"))}
        async with World(1, members=members, programs=Programs(member=federation().member), admission=True) as world:
            stage = Stage(world)
            await settled(stage, root="Open", default="Open")
            await queue(stage, "lab")
            await settled(stage, lab="Open")
            await queue(stage, "a", parent="lab")
            await settled(stage, a="Open")
            with pytest.raises(ApiError, match="child queues"):
                await world.client(EAST).delete(kinds.QUEUE, "lab")
            await command(stage, "lab", "CloseQueue")
            await settled(stage, lab="Closed", a="Closed")
            assert marked(stage, "a")
            with pytest.raises(ApiError, match="Closed"):
                await world.client(EAST).create(kinds.JOB, local(job("late"), "a"), namespace="default")
            await command(stage, "lab", "OpenQueue")
            await settled(stage, lab="Open", a="Open")
            await world.client(EAST).create(kinds.JOB, local(job("late"), "a"), namespace="default")
            await stage.until(lambda: stage.phase("late") == "Completed")
            assert world.crashes == []

    run_virtual(main, seed=1)
