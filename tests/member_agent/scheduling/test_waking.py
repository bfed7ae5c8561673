"""What is changed while a gang waits has the scheduler look again: nothing polls, so nothing may be overlooked."""

from __future__ import annotations

from typing import Any

import pytest

from apis import keys, kinds
from machinery.port import PatchType
from tests.member_agent.scheduling.test_stories import CAPACITY, configure, create, limit, pod, told
from tests.member_agent.world import EAST, Stage, play

pytestmark = pytest.mark.story

Doc = dict[str, Any]


async def waits(stage: Stage, **spec: Any) -> None:
    """A group of somebody's own, with a pod, that is not let in or finds no node."""
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "own", "namespace": "default"},
        "spec": {"minMember": 1, "queue": "default", **spec},
    }
    await stage.world.client(EAST).create(kinds.POD_GROUP, group, namespace="default")
    body = pod("one", cpu="2")
    body["metadata"]["annotations"] = {keys.GROUP_NAME: "own"}
    await create(stage, body)
    await stage.until(lambda: bool(told(stage, "Unschedulable")), timeout=60)
    await stage.world.advance(60)
    assert stage.running() == []


async def edit(stage: Stage, **spec: Any) -> None:
    await stage.world.client(EAST).patch(kinds.POD_GROUP, "own", {"spec": spec}, type=PatchType.MERGE, namespace="default")


def test_a_group_that_asks_for_less_is_let_in() -> None:
    async def story(stage: Stage) -> None:
        await waits(stage, minResources={"cpu": "500"})
        await edit(stage, minResources={"cpu": "2"})
        await stage.until(lambda: stage.running() == ["one"], timeout=30)

    play(story)


def test_a_group_that_goes_to_another_queue_is_tried_there() -> None:
    async def story(stage: Stage) -> None:
        await configure(stage, CAPACITY)
        await limit(stage, cpu="1")
        queue = {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": {"name": "large"},
            "spec": {"weight": 1},
        }
        await stage.world.client(EAST).create(kinds.QUEUE, queue)
        await stage.world.advance(5)
        await waits(stage, minResources={"cpu": "2"})
        await edit(stage, queue="large")
        await stage.until(lambda: stage.running() == ["one"], timeout=30)

    play(story)


@pytest.mark.parametrize("how", ["deleted", "elsewhere"])
def test_room_that_was_nominated_for_a_foreign_pod_is_given_to_who_waits(how: str) -> None:
    async def story(stage: Stage) -> None:
        client = stage.world.client(EAST)
        for node in stage.world.all(kinds.NODE, server=EAST)[1:]:
            await client.patch(kinds.NODE, node["metadata"]["name"], {"spec": {"unschedulable": True}}, type=PatchType.MERGE)
        node = stage.world.all(kinds.NODE, server=EAST)[0]
        foreign = pod("foreign", cpu=node["status"]["allocatable"]["cpu"])
        foreign["spec"] |= {"schedulerName": "other", "priority": 1000}
        await create(stage, foreign)
        said = {"status": {"nominatedNodeName": node["metadata"]["name"]}}
        await client.patch(kinds.POD, "foreign", said, type=PatchType.MERGE, namespace="default", subresource="status")
        await waits(stage)
        if how == "deleted":
            await client.delete(kinds.POD, "foreign", namespace="default")
        else:
            none = {"status": {"nominatedNodeName": None}}
            await client.patch(kinds.POD, "foreign", none, type=PatchType.MERGE, namespace="default", subresource="status")
        await stage.until(lambda: "one" in stage.running(), timeout=30)

    play(story)
