"""`spec.suspend` of the hub's Job says what the annotation says."""

from __future__ import annotations

from apis import kinds
from machinery.port import PatchType
from tests.federation.world import World, job, story


async def suspend(world: World, value: bool | None) -> None:
    await world.port.patch(kinds.JOB, "train", {"spec": {"suspend": value}}, type=PatchType.MERGE, namespace="default")


def test_a_job_gives_its_room_back_and_comes_back_as_a_new_run() -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("east", seconds=500.0)
        uid = await world.submit(job("train"))
        await world.until_phase("train", "Running")
        await suspend(world, True)
        await world.until_phase("train", "Aborted")
        await suspend(world, None)
        await world.until_phase("train", "Running")
        assert [stint.epoch for stint in world.journal.of(uid)] == [1, 2]
        assert world.journal.overlaps() == []

    story(tell)


def test_the_annotation_wins_where_both_are_there() -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("east", seconds=500.0)
        await world.submit(job("train"))
        await world.until_phase("train", "Running")
        await world.annotate("train", suspend="false")
        await suspend(world, True)
        await world.clock.sleep(60.0)
        assert (await world.state("train"))["phase"] == "Running"
        await world.annotate("train", suspend=None)
        await world.until_phase("train", "Aborted")

    story(tell)
