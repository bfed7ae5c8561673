"""Two hubs that both believe to lead, one of them late with its writes: never two runs of one Job at a time."""

from __future__ import annotations

from typing import Any

import pytest

from apis import kinds
from apis.runs import RefusalReason
from federation.app import lead
from federation.settings import HubSettings
from machinery.port import Body, Document
from simulator.api import ApiServer, MemoryPort
from tests.federation.world import World, job, story


class LatePort(MemoryPort):
    """Writes of bindings and Works arrive `late` seconds after they were sent, while `slow`."""

    def __init__(self, server: ApiServer, *, world: World, late: float) -> None:
        super().__init__(server)
        self._world = world
        self._late = late
        self.slow = False

    async def _be_late(self, kind: kinds.Kind) -> None:
        if self.slow and kind in (kinds.WORK, kinds.RESOURCE_BINDING):
            await self._world.clock.sleep(self._late)

    async def create(self, kind: kinds.Kind, body: Body, **options: Any) -> Document:
        await self._be_late(kind)
        return await super().create(kind, body, **options)

    async def replace(self, kind: kinds.Kind, name: str, body: Body, **options: Any) -> Document:
        await self._be_late(kind)
        return await super().replace(kind, name, body, **options)

    async def delete(self, kind: kinds.Kind, name: str, **options: Any) -> None:
        await self._be_late(kind)
        await super().delete(kind, name, **options)


@pytest.mark.parametrize("late", [0.3, 2.0, 7.0, 15.0])
@pytest.mark.parametrize("meet", [0.0, 1.0, 3.0])
def test_an_old_leader_with_late_writes_never_makes_a_second_run(late: float, meet: float) -> None:
    async def tell(world: World) -> None:
        old = LatePort(world.server, world=world, late=late)
        world.tasks.create_task(lead(old, clock=world.clock, chance=world.chance, settings=HubSettings()), name="old")
        world.member("east", cpus=32, seconds=20.0, refuses={"train-0": RefusalReason.NO_ROOM})
        world.member("west", cpus=16, seconds=20.0)
        await world.clock.sleep(15.0)
        old.slow = True
        uids = [await world.submit(job(f"train-{index}")) for index in range(3)]
        await world.clock.sleep(meet)
        new = lead(world.port, clock=world.clock, chance=world.chance, settings=HubSettings())
        world.tasks.create_task(new, name="new")
        for index in range(3):
            await world.until_phase(f"train-{index}", "Completed", within=600.0)
        await world.clock.sleep(60.0)
        assert world.journal.overlaps() == []
        assert [len(world.journal.of(uid)) for uid in uids] == [1, 1, 1]

    story(tell)


def test_works_that_have_not_started_are_restamped_by_the_next_leader() -> None:
    async def tell(world: World) -> None:
        first = world.hub()
        east = world.member("east")
        await world.clock.sleep(15.0)
        east.away = True
        uid = await world.submit(job("train"))
        await world.clock.sleep(5.0)
        assert (await world.run_of("train")).parts["east"].fence == 1
        first.cancel()
        world.hub()
        await world.clock.sleep(15.0)
        east.away = False
        await world.until_phase("train", "Completed")
        run = await world.run_of("train")
        assert (run.epoch, run.parts["east"].fence) == (1, 2)
        assert len(world.journal.of(uid)) == 1

    story(tell)
