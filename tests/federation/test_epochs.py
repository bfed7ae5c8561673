"""No epoch of a Job is given twice, whatever becomes of the binding that counts them."""

from __future__ import annotations

import pytest

from apis import kinds, naming
from tests.federation.world import World, job, story


async def suspend_and_resume(world: World, times: int) -> None:
    for _ in range(times):
        await world.annotate("train", suspend="true")
        await world.until_phase("train", "Aborted")
        await world.annotate("train", suspend="false")
        await world.until_phase("train", "Running")


async def delete_binding(world: World, *, force: bool) -> None:
    name = naming.binding_name("train")
    if force:
        binding = await world.binding("train")
        binding["metadata"]["finalizers"] = []
        await world.port.replace(kinds.RESOURCE_BINDING, name, binding, namespace="default")
    await world.port.delete(kinds.RESOURCE_BINDING, name, namespace="default")


@pytest.mark.parametrize("while_held", [True, False])
def test_a_job_whose_binding_was_deleted_goes_on_with_the_next_epoch(while_held: bool) -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("east", seconds=500.0)
        uid = await world.submit(job("train"))
        await world.until_phase("train", "Running")
        await suspend_and_resume(world, 3)
        if while_held:
            await world.annotate("train", suspend="true")
            await world.until_phase("train", "Aborted")
        await delete_binding(world, force=False)
        await world.clock.sleep(20.0)
        await world.annotate("train", suspend="false")
        await world.until_phase("train", "Running")
        assert (await world.run_of("train")).epoch == 5
        assert [stint.epoch for stint in world.journal.of(uid)] == [1, 2, 3, 4, 5]
        assert world.journal.overlaps() == []

    story(tell)


@pytest.mark.parametrize("hub_is_there", [True, False])
def test_a_run_whose_binding_was_removed_by_force_is_stopped_before_the_next_epoch(hub_is_there: bool) -> None:
    async def tell(world: World) -> None:
        hub = world.hub()
        world.member("east", cpus=16, seconds=500.0)
        west = world.member("west", cpus=8, seconds=500.0)
        uid = await world.submit(job("train"))
        await world.until_phase("train", "Running")
        await suspend_and_resume(world, 2)
        west.cpus = 64
        if not hub_is_there:
            hub.cancel()
            await world.clock.sleep(1.0)
        await delete_binding(world, force=True)
        if not hub_is_there:
            world.hub()
        await world.clock.sleep(60.0)
        assert [stint.epoch for stint in world.journal.of(uid)] == [1, 2, 3, 4]
        assert world.journal.overlaps() == []

    story(tell)


@pytest.mark.parametrize("explains", [True, False])
def test_a_member_that_knows_a_newer_epoch_is_asked_with_a_newer_one_after_few_refusals(explains: bool) -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("east", seconds=500.0, explains=explains)
        uid = await world.submit(job("train"))
        await world.until_phase("train", "Running")
        await suspend_and_resume(world, 4)
        await world.annotate("train", suspend="true")
        await world.until_phase("train", "Aborted")
        await delete_binding(world, force=True)  # with it the count is gone
        await world.annotate("train", suspend="false")
        await world.clock.sleep(120.0)
        await world.until_phase("train", "Running", within=60.0)
        run = await world.run_of("train")
        assert run.epoch >= 6
        assert run.refusals <= 4
        assert world.journal.overlaps() == []
        epochs = [stint.epoch for stint in world.journal.of(uid)]
        assert epochs == sorted(set(epochs))

    story(tell)
