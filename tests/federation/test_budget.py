"""Protocol.md 7: how much is written for one Job, and how large it is."""

from __future__ import annotations

import json

from apis import kinds
from federation.dispatch import documents
from machinery.metering import MeteredPort, Write
from tests.federation.world import World, job, story

OF_A_JOB = (kinds.JOB, kinds.RESOURCE_BINDING, kinds.WORK)


def _counted(*ports: MeteredPort) -> list[Write]:
    return [write for port in ports for write in port.writes if write.kind in OF_A_JOB]


def _told(writes: list[Write]) -> str:
    return "\n".join(f"{write.verb} {write.kind.kind} {write.subresource or ''}" for write in writes)


def test_a_job_costs_at_most_ten_writes_to_its_end_and_three_to_vanish() -> None:
    async def tell(world: World) -> None:
        hub, agent = MeteredPort(world.port), MeteredPort(world.port)
        world.hub(port=hub)
        world.member("east", port=agent, seconds=20.0)
        await world.clock.sleep(15.0)
        await world.submit(job("train"))
        await world.until_phase("train", "Completed")
        await world.clock.sleep(30.0)
        until_end = _counted(hub, agent)
        assert len(until_end) <= 10, _told(until_end)
        await world.port.delete(kinds.JOB, "train", namespace="default")

        async def nothing() -> bool:
            return await world.gone(kinds.RESOURCE_BINDING, "train-job")

        await world.until(nothing)
        vanishing = _counted(hub, agent)[len(until_end) :]
        assert len(_counted(hub, agent)) - len(until_end) <= 3, _told(vanishing)

    story(tell)


def test_a_job_deleted_while_it_runs_costs_three_writes_to_vanish() -> None:
    async def tell(world: World) -> None:
        hub, agent = MeteredPort(world.port), MeteredPort(world.port)
        world.hub(port=hub)
        world.member("east", port=agent, seconds=500.0)
        await world.clock.sleep(15.0)
        await world.submit(job("train"))
        await world.until_phase("train", "Running")
        await world.clock.sleep(10.0)
        before = len(_counted(hub, agent))
        await world.port.delete(kinds.JOB, "train", namespace="default")

        async def nothing() -> bool:
            return await world.gone(kinds.RESOURCE_BINDING, "train-job")

        await world.until(nothing)
        assert len(_counted(hub, agent)) - before <= 3

    story(tell)


def test_bindings_and_works_stay_small() -> None:
    async def tell(world: World) -> None:
        world.hub()
        for index in range(12):
            world.member(f"member-with-a-long-name-{index:02}")
        await world.clock.sleep(15.0)
        await world.submit(job("train"))
        await world.until_phase("train", "Completed")
        binding = await world.port.get(kinds.RESOURCE_BINDING, "train-job", namespace="default")
        assert len(binding) <= 4096, len(binding)
        (work,) = (await world.port.list(kinds.WORK)).items
        tree = json.loads(work)
        manifest = documents.manifest(await world.job("train"))
        assert tree["spec"]["workload"]["manifests"][0] == manifest
        assert "status" not in manifest
        tree.pop("status")
        assert len(json.dumps(tree)) <= len(json.dumps(manifest)) + 1024

    story(tell)
