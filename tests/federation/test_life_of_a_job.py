"""Stories of Jobs at the hub, with members that are a few lines each."""

from __future__ import annotations

from apis import kinds
from tests.federation.world import World, job, story


def test_a_job_runs_on_the_emptier_of_two_clusters_and_its_end_comes_home() -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("east", cpus=4)
        world.member("west", cpus=16)
        uid = await world.submit(job("train", pods=2))
        await world.until_phase("train", "Completed")
        assert [stint.cluster for stint in world.journal.of(uid)] == ["west"]
        binding = await world.binding("train")
        assert [each["name"] for each in binding["spec"]["clusters"]] == ["west"]
        ends = [each for each in binding["status"]["conditions"] if each["type"] == "Finished"]
        assert [each["reason"] for each in ends] == ["Completed"]
        assert (await world.job("train"))["status"]["succeeded"] == 2

    story(tell)


def test_a_deleted_job_leaves_nothing_behind() -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("east", seconds=1000.0)
        await world.submit(job("train"))
        await world.until_phase("train", "Running")
        await world.port.delete(kinds.JOB, "train", namespace="default")

        async def nothing() -> bool:
            works = await world.port.list(kinds.WORK)
            return await world.gone(kinds.RESOURCE_BINDING, "train-job") and not works.items

        await world.until(nothing)
        assert all(stint.ended is not None for stint in world.journal.stints)

    story(tell)
