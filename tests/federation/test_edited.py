"""Jobs and queues that change while a Job waits, and caches that are late to learn of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from apis import kinds
from apis.runs import Held
from federation.dispatch.items import Decide
from federation.dispatch.planner import plan
from federation.settings import HubSettings
from machinery.port import PatchType, WatchEvent
from simulator.api import ApiServer, MemoryPort
from tests.federation.test_planner import RULES, case, member, snapshot
from tests.federation.world import World, job, story


def test_a_job_that_was_edited_into_nonsense_while_held_waits_until_it_is_right_again() -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("east", seconds=60.0)
        world.server.validators[kinds.JOB] = []  # an API server that lets everything through
        uid = await world.submit(job("train"))
        await world.until_phase("train", "Running")
        await world.annotate("train", suspend="true")
        await world.until_phase("train", "Aborted")
        edit: dict[str, Any] = {"spec": {"plugins": {"nonsense": []}}}
        await world.port.patch(kinds.JOB, "train", edit, type=PatchType.MERGE, namespace="default")
        await world.annotate("train", suspend="false")
        await world.clock.sleep(30.0)
        state, run = await world.state("train"), await world.run_of("train")
        assert (state["phase"], state["reason"], run.epoch) == ("Pending", "InvalidSpec", 1)
        assert "nonsense" in state["message"]
        right: dict[str, Any] = {"spec": {"plugins": None}}
        await world.port.patch(kinds.JOB, "train", right, type=PatchType.MERGE, namespace="default")
        await world.until_phase("train", "Completed", within=200.0)
        assert [stint.epoch for stint in world.journal.of(uid)] == [1, 2]
        assert (await world.run_of("train")).held is not Held.ABORTED

    story(tell)


class LateQueues(MemoryPort):
    """What happens to Queues reaches its watchers when `current` is set."""

    def __init__(self, server: ApiServer) -> None:
        super().__init__(server)
        self.current = asyncio.Event()
        self.current.set()

    async def watch(self, kind: kinds.Kind, **options: Any) -> AsyncIterator[WatchEvent]:
        async for event in super().watch(kind, **options):
            if kind == kinds.QUEUE:
                await self.current.wait()
            yield event


@pytest.mark.parametrize("was", ["Closed", "a parent", "absent"])
def test_no_job_fails_for_what_its_queue_was_a_moment_ago(was: str) -> None:
    async def tell(world: World) -> None:
        port = LateQueues(world.server)
        world.hub(port=port)
        world.member("east")
        if was != "absent":
            made = await world.queue("team", weight=1)
        if was == "Closed":
            made["status"] = {"state": "Closed"}
            made = json.loads(await world.port.replace(kinds.QUEUE, "team", made, subresource="status"))
        if was == "a parent":
            await world.queue("under", weight=1, parent="team")
        await world.clock.sleep(15.0)
        port.current.clear()
        if was == "Closed":
            made["status"] = {"state": "Open"}
            await world.port.replace(kinds.QUEUE, "team", made, subresource="status")
        elif was == "a parent":
            await world.port.delete(kinds.QUEUE, "under")
        else:
            await world.queue("team", weight=1)
        await world.submit(job("train", queue="team"))
        await world.clock.sleep(10.0)
        assert (await world.state("train")).get("phase", "") in ("", "Pending")
        port.current.set()
        await world.until_phase("train", "Completed")

    story(tell)


def test_the_time_of_fencing_is_that_of_the_settings_and_scales_with_all_others() -> None:
    rules = HubSettings(fence_after=700).scaled(0.01)
    assert rules.fence_after == 7
    made = plan(snapshot(case("a"), members=(member("east", (1, "64")),)), rules=replace(RULES, fence_after=rules.fence_after))
    assert [item.terms.fence_after for item in made.items if isinstance(item, Decide)] == [7]
