"""Works and bindings that vanish at a bad moment: an end stays an end, and nothing starts beside what still stops."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apis import kinds, naming
from machinery.errors import Unreachable
from machinery.port import Document
from simulator.api import ApiServer, MemoryPort
from tests.federation.world import World, job, story


class MutePort(MemoryPort):
    """Statuses of bindings cannot be written while `mute`."""

    def __init__(self, server: ApiServer) -> None:
        super().__init__(server)
        self.mute = True

    async def patch(self, kind: kinds.Kind, name: str, body: Any, **options: Any) -> Document:
        if self.mute and kind == kinds.RESOURCE_BINDING and options.get("subresource") == "status":
            raise Unreachable("no answer")
        return await super().patch(kind, name, body, **options)


@pytest.mark.parametrize("withdrawn", [True, False])
def test_an_end_whose_work_vanishes_before_it_is_recorded_is_an_end(withdrawn: bool) -> None:
    async def tell(world: World) -> None:
        port = MutePort(world.server)
        world.hub(port=port)
        world.member("east")
        uid = await world.submit(job("train"))

        async def completed() -> bool:
            listed = [json.loads(each) for each in (await world.port.list(kinds.WORK)).items]
            return any("Completed" in json.dumps(each.get("status", {})) for each in listed)

        await world.until(completed)
        if withdrawn:
            await world.annotate("train", suspend="true")
        meta = json.loads((await world.port.list(kinds.WORK)).items[0])["metadata"]
        await world.port.delete(kinds.WORK, meta["name"], namespace=meta["namespace"])
        await world.clock.sleep(20.0)
        assert (await world.port.list(kinds.WORK)).items == []
        port.mute = False
        await world.until_phase("train", "Completed", within=90.0)
        await world.clock.sleep(60.0)
        assert len(world.journal.of(uid)) == 1

    story(tell)


@pytest.mark.parametrize("hub_is_there", [True, False])
def test_nothing_is_granted_beside_a_work_that_still_stops_when_its_binding_was_removed_by_force(hub_is_there: bool) -> None:
    async def tell(world: World) -> None:
        hub = world.hub()
        world.member("east", cpus=32, seconds=500.0, grace=30.0)
        west = world.member("west", cpus=8, seconds=500.0)
        uid = await world.submit(job("train"))
        await world.until_phase("train", "Running")
        west.cpus = 64
        if not hub_is_there:
            hub.cancel()
        meta = json.loads((await world.port.list(kinds.WORK)).items[0])["metadata"]
        await world.port.delete(kinds.WORK, meta["name"], namespace=meta["namespace"])
        name = naming.binding_name("train")
        binding = await world.binding("train")
        binding["metadata"]["finalizers"] = []
        await world.port.replace(kinds.RESOURCE_BINDING, name, binding, namespace="default")
        await world.port.delete(kinds.RESOURCE_BINDING, name, namespace="default")
        if not hub_is_there:
            world.hub()
        await world.clock.sleep(120.0)
        assert len(world.journal.of(uid)) == 2
        assert world.journal.overlaps() == []

    story(tell)
