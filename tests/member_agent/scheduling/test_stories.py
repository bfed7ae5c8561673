"""A member's scheduler as a whole: configuration changed while it runs, and events for people."""

from __future__ import annotations

import contextlib
from typing import Any

from apis import keys, kinds
from machinery import errors
from machinery.port import PatchType
from member_agent.scheduling.profile import PLACES
from tests.member_agent.world import EAST, Stage, job, play

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


def gated(name: str, *, cpu: str, gates: tuple[str, ...] = (keys.QUEUE_GATE,)) -> Doc:
    """As it comes out of our webhook."""
    body = pod(name, cpu=cpu)
    body["metadata"]["annotations"] = {keys.QUEUE_GATE: "true"}
    body["spec"]["schedulingGates"] = [{"name": each} for each in gates]
    return body


CAPACITY = "actions: 'enqueue, allocate, backfill'\ntiers: [{plugins: [{name: gang}, {name: capacity}, {name: predicates}]}]"


async def limit(stage: Stage, *, cpu: str) -> None:
    await stage.until(lambda: stage.world.get(kinds.QUEUE, "default", server=EAST) is not None)
    spec = {"spec": {"capability": {"cpu": cpu}}}
    await stage.world.client(EAST).patch(kinds.QUEUE, "default", spec, type=PatchType.MERGE)


def gates_of(stage: Stage, name: str) -> list[str]:
    found = next(each for each in stage.pods() if each["metadata"]["name"] == name)
    return [each["name"] for each in found["spec"].get("schedulingGates") or []]


def test_a_gated_pod_loses_its_gate_when_its_queue_has_room_and_what_finds_no_node_holds_that_room() -> None:
    async def story(stage: Stage) -> None:
        await limit(stage, cpu="10")
        await configure(stage, CAPACITY)
        await create(stage, gated("stuck", cpu="9"))
        await stage.until(lambda: gates_of(stage, "stuck") == [], timeout=60)
        await create(stage, gated("next", cpu="2"))
        await stage.world.advance(30)
        assert gates_of(stage, "next") == [keys.QUEUE_GATE]
        await stage.world.client(EAST).delete(kinds.POD, "stuck", namespace="default")
        await stage.until(lambda: "next" in stage.running(), timeout=60)
        assert stage.running() == ["next"]

    play(story)


def test_a_gate_stays_beside_a_foreign_one() -> None:
    async def story(stage: Stage) -> None:
        await create(stage, gated("one", cpu="1", gates=("example.com/licence", keys.QUEUE_GATE)))
        await stage.world.advance(30)
        assert len(gates_of(stage, "one")) == 2
        spec = {"spec": {"schedulingGates": [{"name": keys.QUEUE_GATE}]}}
        await stage.world.client(EAST).patch(kinds.POD, "one", spec, type=PatchType.MERGE, namespace="default")
        await stage.until(lambda: stage.running() == ["one"], timeout=60)

    play(story)


def test_a_group_waits_for_its_namespaces_quota_and_goes_on_when_that_grows() -> None:
    async def story(stage: Stage) -> None:
        client = stage.world.client(EAST)
        await configure(stage, "actions: 'enqueue, allocate'\ntiers: [{plugins: [{name: gang}, {name: resourcequota}]}]")
        quota = {"metadata": {"name": "compute", "namespace": "default"}, "spec": {"hard": {"cpu": "1"}}}
        await client.create(kinds.RESOURCE_QUOTA, quota, namespace="default")
        await create(stage, pod("two", cpu="2"))
        await stage.until(lambda: bool(told(stage, "Unschedulable")), timeout=60)
        assert (
            told(stage, "Unschedulable")[0][1]
            == "QuotaExceeded: quota compute of namespace default is at cpu 0 of 1: 2 asked for"
        )
        more = {"spec": {"hard": {"cpu": "2"}}}
        await client.patch(kinds.RESOURCE_QUOTA, "compute", more, type=PatchType.MERGE, namespace="default")
        await stage.until(lambda: phase_of_group(stage) == "Running", timeout=30)

    play(story)


def test_a_group_that_goes_before_it_has_nodes_lets_the_next_one_in() -> None:
    """The first is let in and its pods find no node; the queue has room for one of them at a time."""

    async def story(stage: Stage) -> None:
        await configure(stage, CAPACITY)
        await create(stage, pod("large", cpu="9"))
        await stage.until(lambda: bool(told(stage, "FailedScheduling")), timeout=60)
        await create(stage, pod("next", cpu="8"))
        await stage.world.advance(30)
        assert stage.running() == []
        groups = [each["metadata"]["name"] for each in stage.world.all(kinds.POD_GROUP, server=EAST)]
        assert len(groups) == 2
        await stage.world.client(EAST).delete(kinds.POD, "large", namespace="default")
        await stage.until(lambda: stage.running() == ["next"], timeout=30)

    play(story)


def test_a_job_that_waits_says_in_its_own_status_what_fits_now_and_how_many_nodes_are_cordoned() -> None:
    async def story(stage: Stage) -> None:
        port = stage.world.client(EAST)
        await port.patch(kinds.NODE, "node-1", {"spec": {"unschedulable": True}}, type=PatchType.MERGE)
        await configure(stage, "actions: 'allocate, backfill'\ntiers: [{plugins: [{name: gang}, {name: predicates}]}]")
        await stage.world.advance(5)
        await port.create(kinds.JOB, job("train", replicas=3, cpu="4"), namespace="default")

        def state() -> Doc:
            return ((stage.local("train") or {}).get("status") or {}).get("state") or {}

        await stage.until(lambda: state().get("reason") == "NotEnoughResources", timeout=60)
        assert "room for 2 of 3 pods (cpu 4, " in state()["message"]
        assert "2 nodes, 1 cordoned" in state()["message"]
        await stage.until(lambda: ("Job", state()["message"]) in told(stage, "NotEnoughResources"), timeout=10)
        await port.patch(kinds.NODE, "node-1", {"spec": {"unschedulable": False}}, type=PatchType.MERGE)
        await stage.until(lambda: len(stage.running("train")) == 3, timeout=60)

    play(story)


def test_a_pod_that_its_gang_can_do_without_says_too_why_it_waits_and_says_it_once() -> None:
    async def story(stage: Stage) -> None:
        await stage.world.client(EAST).create(
            kinds.JOB, job("elastic", replicas=3, cpu="5", minimum=2, command="sleep 600"), namespace="default"
        )
        await stage.until(lambda: len(stage.running("elastic")) == 2, timeout=60)
        await stage.until(lambda: bool(told(stage, "FailedScheduling")), timeout=60)
        await stage.world.advance(60)
        ((kind, message),) = told(stage, "FailedScheduling")
        assert kind == "Pod" and "the gang has its minimum" in message and "cpu" in message
        assert phase_of_group(stage) == "Running" and told(stage, "Unschedulable") == []

    play(story)
