"""A member's scheduler as a whole: configuration changed while it runs, and events for people."""

from __future__ import annotations

import contextlib
from typing import Any

from apis import kinds
from machinery import errors
from machinery.port import PatchType
from member_agent.scheduling.profile import PLACES
from tests.member_agent.world import EAST, Stage, play

Doc = dict[str, Any]


def pod(name: str, *, cpu: str) -> Doc:
    container = {"name": "main", "image": "busybox:1", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulerName": "volcano", "restartPolicy": "Never", "containers": [container]},
    }


async def create(stage: Stage, body: Doc) -> None:
    await stage.world.client(EAST).create(kinds.POD, body, namespace="default")


async def configure(stage: Stage, text: str) -> None:
    """As upstream's tests do it: in their ConfigMap."""
    place, port = PLACES[-1], stage.world.client(EAST)
    with contextlib.suppress(errors.AlreadyExists):
        await port.create(kinds.NAMESPACE, {"metadata": {"name": place.namespace}})
    body = {"metadata": {"name": place.name, "namespace": place.namespace}, "data": {place.key: text}}
    try:
        await port.create(kinds.CONFIGMAP, body, namespace=place.namespace)
    except errors.AlreadyExists:
        await port.patch(kinds.CONFIGMAP, place.name, body, type=PatchType.MERGE, namespace=place.namespace)


def told(stage: Stage, reason: str) -> list[tuple[str, str]]:
    """Who got an event of this reason, and its message."""
    events = stage.world.all(kinds.EVENT, server=EAST)
    return [(each["involvedObject"]["kind"], each["message"]) for each in events if each["reason"] == reason]


def phase_of_group(stage: Stage) -> str:
    groups = stage.world.all(kinds.POD_GROUP, server=EAST)
    return str((groups[0].get("status") or {}).get("phase", "")) if groups else ""


def test_a_pod_that_finds_no_room_says_so_on_itself_and_on_its_group() -> None:
    async def story(stage: Stage) -> None:
        await create(stage, pod("large", cpu="99"))
        await stage.until(lambda: bool(told(stage, "FailedScheduling")), timeout=60)
        assert [kind for kind, _ in told(stage, "Unschedulable")] == ["PodGroup"]
        (kind, message), *_ = told(stage, "FailedScheduling")
        assert kind == "Pod"
        assert "cpu 99" in message

    play(story)


def test_a_configuration_in_a_config_map_holds_within_seconds_and_a_bad_one_changes_nothing() -> None:
    """Without enqueue a group that the cluster could never hold is let in all the same; before, it is not."""

    async def story(stage: Stage) -> None:
        await create(stage, pod("large", cpu="99"))
        await stage.until(lambda: bool(told(stage, "Unschedulable")), timeout=60)
        assert phase_of_group(stage) in ("", "Pending")
        await configure(stage, "actions: 'allocat'")
        await stage.world.advance(10)
        assert phase_of_group(stage) in ("", "Pending")
        await configure(stage, "actions: 'allocate, backfill'\ntiers: [{plugins: [{name: gang}, {name: predicates}]}]")
        await stage.until(lambda: phase_of_group(stage) == "Inqueue", timeout=10)

    play(story)
