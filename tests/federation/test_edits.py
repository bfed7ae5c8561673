"""A Job that is edited between the look at it and the commit is looked at again (protocol.md 3, hard versions)."""

from __future__ import annotations

from typing import Any

from apis import kinds
from apis.kinds import Kind
from machinery.metering import MeteredPort
from machinery.port import Document, PatchType
from tests.federation.world import Tree, World, job, story


class Meddler(MeteredPort):
    """Somebody edits a Job in the instant before the hub reads it for its Work."""

    def __init__(self, world: World, *, edit: Tree) -> None:
        super().__init__(world.port)
        self._world = world
        self._edit: Tree | None = edit

    async def get(self, kind: Kind, name: str, *, namespace: str | None = None) -> Document:
        if kind == kinds.JOB and self._edit is not None:
            edit, self._edit = self._edit, None
            await self._world.port.patch(kind, name, edit, type=PatchType.MERGE, namespace=namespace)
        return await super().get(kind, name, namespace=namespace)


def test_what_is_placed_is_what_was_packed() -> None:
    async def tell(world: World) -> None:
        small = job("train", pods=2)
        large: dict[str, Any] = job("train", pods=100)
        world.member("east", cpus=8)
        world.hub(port=Meddler(world, edit={"spec": large["spec"]}))
        await world.clock.sleep(15.0)
        uid = await world.submit(small)
        await world.clock.sleep(30.0)
        assert (await world.state("train"))["reason"] == "NoClusterFits"
        assert (await world.run_of("train")).epoch == 0
        assert world.journal.of(uid) == []
        await world.port.patch(kinds.JOB, "train", {"spec": small["spec"]}, type=PatchType.MERGE, namespace="default")
        await world.until_phase("train", "Completed")

    story(tell)
