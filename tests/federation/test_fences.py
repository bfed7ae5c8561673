"""Fence numbers only grow, member by member: one bad Lease stops nobody else, and a deleted one gives no number twice."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apis import kinds
from apis.runs import Ground, PartState
from machinery.errors import ApiError, Forbidden, Invalid, Unreachable
from machinery.port import Body, Document
from simulator.api import ApiServer, MemoryPort
from tests.federation.world import World, job, story


class BadLeasePort(MemoryPort):
    """Writes of one member's Lease fail while `failure` is set; None: they are never answered."""

    def __init__(self, server: ApiServer, *, world: World, cluster: str, failure: ApiError | None) -> None:
        super().__init__(server)
        self._world = world
        self._namespace = f"karmada-es-{cluster}"
        self.failure = failure
        self.bad = True

    async def replace(self, kind: kinds.Kind, name: str, body: Body, **options: Any) -> Document:
        if self.bad and kind == kinds.LEASE and options.get("namespace") == self._namespace:
            if self.failure is None:
                await self._world.clock.sleep(10.0)
                raise Unreachable("no answer within 10 s")
            raise self.failure
        return await super().replace(kind, name, body, **options)


async def fence(world: World, cluster: str) -> int:
    lease = json.loads(await world.port.get(kinds.LEASE, "member", namespace=f"karmada-es-{cluster}"))
    return int(lease["spec"]["leaseTransitions"])


@pytest.mark.parametrize("failure", [Invalid("leaseDurationSeconds must be positive"), Forbidden("no"), None])
def test_a_member_whose_lease_cannot_be_written_waits_alone(failure: ApiError | None) -> None:
    async def tell(world: World) -> None:
        first = world.hub()
        world.member("east", cpus=32)
        world.member("west", cpus=8)
        await world.clock.sleep(15.0)
        first.cancel()
        port = BadLeasePort(world.server, world=world, cluster="east", failure=failure)
        world.hub(port=port)
        uid = await world.submit(job("train"))
        await world.until_phase("train", "Completed", within=60.0)
        assert [stint.cluster for stint in world.journal.of(uid)] == ["west"]
        await world.submit(job("large", pods=20))
        await world.until_phase("large", "Pending")
        await world.clock.sleep(20.0)
        assert "has not taken it over yet" in (await world.state("large"))["message"]
        port.bad = False
        await world.until_phase("large", "Completed")

    story(tell)


def test_an_absent_work_proves_nothing_of_a_member_that_is_not_taken_over() -> None:
    async def tell(world: World) -> None:
        first = world.hub()
        world.member("east", cpus=32, seconds=500.0)
        world.member("west", cpus=8, seconds=500.0)
        await world.submit(job("train"))
        await world.until_phase("train", "Running")
        first.cancel()
        port = BadLeasePort(world.server, world=world, cluster="east", failure=Invalid("no"))
        world.hub(port=port)
        await world.annotate("train", suspend="true")
        await world.clock.sleep(60.0)
        assert (await world.run_of("train")).parts["east"].state is PartState.STOPPING
        assert (await world.port.list(kinds.WORK)).items == []
        port.bad = False
        await world.until_phase("train", "Aborted")
        assert (await world.run_of("train")).parts["east"].state is PartState.GONE

    story(tell)


@pytest.mark.parametrize("restarts", [0, 2])
@pytest.mark.parametrize("deleted_while", ["the hub leads", "no hub leads"])
def test_a_deleted_lease_comes_back_with_a_number_that_was_never_given(restarts: int, deleted_while: str) -> None:
    async def tell(world: World) -> None:
        hub = world.hub()
        east = world.member("east", seconds=500.0)
        await world.clock.sleep(15.0)
        for _ in range(restarts):
            hub.cancel()
            hub = world.hub()
            await world.clock.sleep(15.0)
        east.away = True
        await world.submit(job("train"))
        await world.clock.sleep(5.0)
        given = await fence(world, "east")
        assert (await world.run_of("train")).parts["east"].fence == given
        if deleted_while == "no hub leads":
            hub.cancel()
            await world.clock.sleep(1.0)
        await world.port.delete(kinds.LEASE, "member", namespace="karmada-es-east")
        if deleted_while == "no hub leads":
            world.hub()
        await world.clock.sleep(20.0)
        assert await fence(world, "east") > given
        east.away = False
        await world.until_phase("train", "Running")
        assert (await world.run_of("train")).parts["east"].fence == await fence(world, "east")
        assert (await world.run_of("train")).epoch == 1

    story(tell)


def test_a_part_gets_the_number_of_now_even_if_somebody_made_it_smaller() -> None:
    async def tell(world: World) -> None:
        first = world.hub()
        east = world.member("east", seconds=500.0)
        await world.clock.sleep(15.0)
        first.cancel()
        world.hub()
        await world.clock.sleep(15.0)
        east.away = True
        await world.submit(job("train"))
        await world.clock.sleep(5.0)
        lease = json.loads(await world.port.get(kinds.LEASE, "member", namespace="karmada-es-east"))
        lease["spec"]["leaseTransitions"] = 1
        await world.port.replace(kinds.LEASE, "member", lease, namespace="karmada-es-east")
        await world.clock.sleep(5.0)
        east.away = False
        await world.until_phase("train", "Running")
        assert (await world.run_of("train")).parts["east"].fence == await fence(world, "east") == 1

    story(tell)


def test_a_binding_remembers_why_its_earlier_epochs_are_known_to_have_ended() -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("east", seconds=500.0)
        await world.submit(job("train"))
        for _ in range(12):
            await world.until_phase("train", "Running")
            await world.annotate("train", suspend="true")
            await world.until_phase("train", "Aborted")
            await world.annotate("train", suspend="false")
        run = await world.run_of("train")
        assert [past.epoch for past in run.past] == list(range(run.epoch - 8, run.epoch))
        assert {past.ground for past in run.past} == {Ground.CONFIRMED}
        assert len(json.dumps(await world.binding("train"))) < 4096

    story(tell)
