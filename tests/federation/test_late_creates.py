"""A create of a Work that was never answered may arrive at any time, however much has happened since."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from apis import kinds
from apis.runs import RefusalReason
from machinery.errors import ApiError, Unreachable
from machinery.port import Body, Document
from simulator.api import ApiServer, MemoryPort
from tests.federation.world import World, job, story


class UnansweredPort(MemoryPort):
    """The first `count` creates of Works are not answered, and arrive when `arrive` is called."""

    def __init__(self, server: ApiServer, *, count: int) -> None:
        super().__init__(server)
        self._left = count
        self._sent: list[tuple[Body, dict[str, Any]]] = []

    async def create(self, kind: kinds.Kind, body: Body, **options: Any) -> Document:
        if kind != kinds.WORK or self._left == 0:
            return await super().create(kind, body, **options)
        self._left -= 1
        self._sent.append((body, options))
        raise Unreachable("no answer within 10 s")

    async def arrive(self) -> list[str]:
        """Everything unanswered reaches the API server now; answers what it said."""
        said = []
        for body, options in self._sent:
            try:
                await super().create(kinds.WORK, body, **options)
                said.append("created")
            except ApiError as error:
                said.append(type(error).__name__)
            await asyncio.sleep(0)
        return said


@pytest.mark.parametrize("unanswered", [1, 2])
@pytest.mark.parametrize("end", ["suspended", "aborted", "deleted in the member"])
def test_a_create_that_arrives_when_the_next_epoch_runs_elsewhere_starts_nothing(unanswered: int, end: str) -> None:
    async def tell(world: World) -> None:
        port = UnansweredPort(world.server, count=unanswered)
        hub = world.hub(port=port)
        east = world.member("east", cpus=16, seconds=500.0)
        world.member("west", cpus=8, seconds=500.0)
        uid = await world.submit(job("train"))
        await world.until_phase("train", "Running")
        if end == "suspended":
            await world.annotate("train", suspend="true")
        elif end == "aborted":
            await world.command("AbortJob", job="train")
        else:
            east.deleted.add("train")
        await world.until_phase("train", "Aborted")
        east.refuses["train"] = RefusalReason.NO_ROOM
        await (world.annotate("train", suspend="false") if end == "suspended" else world.command("ResumeJob", job="train"))
        await world.until_phase("train", "Running")
        assert [each.cluster for each in world.journal.of(uid)] == ["east", "west"]
        hub.cancel()  # nobody sweeps what arrives
        east.refuses.clear()
        assert "created" in await port.arrive()
        await world.clock.sleep(60.0)
        assert world.journal.overlaps() == []

    story(tell)


@pytest.mark.parametrize("ended", [True, False])
def test_a_create_that_arrives_when_its_job_is_gone_starts_nothing(ended: bool) -> None:
    async def tell(world: World) -> None:
        port = UnansweredPort(world.server, count=1)
        hub = world.hub(port=port)
        world.member("east", seconds=5.0 if ended else 500.0)
        uid = await world.submit(job("train"))
        await world.until_phase("train", "Completed" if ended else "Running")
        await world.port.delete(kinds.JOB, "train", namespace="default")

        async def released() -> bool:
            return await world.gone(kinds.RESOURCE_BINDING, "train-job")

        await world.until(released)
        hub.cancel()
        assert await port.arrive() == ["created"]
        await world.clock.sleep(60.0)
        assert len(world.journal.of(uid)) == 1

    story(tell)
