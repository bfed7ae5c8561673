"""Gangs of which a binding was refused: nothing stays half bound in silence, whatever else happens at that moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from apis import kinds
from machinery import errors
from machinery.port import PatchType
from member_agent.settings import SchedulingSettings
from simulator.api import MemoryPort
from tests.member_agent.world import EAST, Stage, job, play

Refuse = Callable[[Callable[[int, str], bool]], None]


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Refuse:
    """Give it a rule of (number of the attempt from 1, pod): bindings that it names are refused, and a node changes then."""
    real = MemoryPort.bind

    def use(rule: Callable[[int, str], bool]) -> None:
        tried: list[str] = []

        async def bind(self: MemoryPort, pod: str, *, namespace: str, node: str, uid: str | None = None) -> None:
            tried.append(pod)
            if not rule(len(tried), pod):
                await real(self, pod, namespace=namespace, node=node, uid=uid)
                return
            somebody = MemoryPort(self.server, agent="kubectl")
            labels: dict[str, Any] = {"metadata": {"labels": {"changed": str(len(tried))}}}
            await somebody.patch(kinds.NODE, "node-0", labels, type=PatchType.MERGE)
            raise errors.Forbidden("the webhook says no")

        monkeypatch.setattr(MemoryPort, "bind", bind)

    return use


def condition(stage: Stage) -> dict[str, Any]:
    """The PodGroup's condition Unschedulable."""
    (group,) = stage.world.all(kinds.POD_GROUP, server=EAST)
    found = (group.get("status") or {}).get("conditions") or []
    return next((each for each in found if each["type"] == "Unschedulable"), {})


@pytest.mark.parametrize("attempts", [{1}, {2}, {3}, {2, 4}, {1, 2, 3}, {2, 4, 5, 6}])
def test_a_refused_binding_is_tried_again_and_the_gang_becomes_whole(refuse: Refuse, attempts: set[int]) -> None:
    """Whatever woke the scheduler at that moment: a node that changes makes a round of its own."""
    refuse(lambda number, _: number in attempts)

    async def story(stage: Stage) -> None:
        work = await stage.grant(job("train", replicas=3, command="sleep 30"))
        await stage.until(lambda: stage.reported(work) == "Completed", timeout=90)
        assert len(stage.starts()) == 3

    play(story)


def test_while_it_waits_the_job_says_which_binding_was_refused_with_numbers(refuse: Refuse) -> None:
    refuse(lambda _, pod: pod.endswith("-2"))

    async def story(stage: Stage) -> None:
        work = await stage.grant(job("train", replicas=3, command="sleep 600"))
        await stage.world.advance(60)
        words = "2 of 3 pods of the gang have nodes; pod train-work-2 on node node-"
        for message in (condition(stage)["message"], stage.local("train")["status"]["state"]["message"]):  # type: ignore[index]
            assert words in message, message
            assert "the webhook says no" in message
        told = (stage.work(work) or {})["status"]["manifestStatuses"][0]["status"]["state"]
        assert told["reason"] == "BindRefused"
        assert words in told["message"], "the hub is told in the same words"

    play(story)


def test_a_gang_that_stays_partial_gives_its_nodes_back_and_is_tried_again_whole(refuse: Refuse) -> None:
    times = SchedulingSettings()
    healed = False
    refuse(lambda _, pod: pod.endswith("-2") and not healed)

    async def story(stage: Stage) -> None:
        nonlocal healed
        work = await stage.grant(job("train", replicas=3, command="sleep 600"))
        await stage.until(lambda: len(stage.running()) == 2)
        await stage.world.advance(times.partial_after + 35)
        assert [pod["spec"].get("nodeName") for pod in stage.pods("train")] == [None] * 3
        assert condition(stage)["reason"] == "NotEnoughResources"
        assert condition(stage)["message"].startswith("GangReleased: ")
        assert "only 2 of 3 pods of the gang had nodes after 120 s" in condition(stage)["message"]
        assert "the webhook says no" in condition(stage)["message"]
        healed = True
        await stage.until(lambda: stage.reported(work) == "Running", timeout=times.partial_pause + 60)

    play(story)


def test_the_room_of_a_partial_gang_goes_to_others(refuse: Refuse) -> None:
    """Each gang wants the whole member; the first can never be whole."""
    refuse(lambda _, pod: pod == "bad-work-1")

    async def story(stage: Stage) -> None:
        client = stage.world.client(EAST)
        await client.create(kinds.JOB, job("bad", cpu="6", command="sleep 600"), namespace="default")
        await stage.until(lambda: len(stage.running()) == 1)
        await client.create(kinds.JOB, job("good", cpu="6", command="sleep 5"), namespace="default")
        await stage.until(lambda: stage.phase("good") == "Completed", timeout=600)

    play(story)


def test_a_gang_that_lost_a_pod_after_it_was_whole_keeps_its_nodes(refuse: Refuse) -> None:
    """What follows a lost pod is said by the Job's policies, not by the scheduler; before and after a restart."""
    broken = False
    refuse(lambda *_: broken)

    async def story(stage: Stage) -> None:
        nonlocal broken
        await stage.grant(job("train", replicas=3, command="sleep 6000"))
        await stage.until(lambda: stage.phase("train") == "Running")
        await stage.world.advance(10)
        broken = True
        await stage.world.client(EAST).delete(kinds.POD, "train-work-1", namespace="default")
        await stage.world.advance(60)
        stage.world.kill(f"agent-{EAST}")
        await stage.world.advance(400)
        assert stage.running() == ["train-work-0", "train-work-2"]
        assert condition(stage)["message"].startswith("BindRefused: ")

    play(story)


def test_pods_that_nobody_would_make_again_keep_their_nodes(refuse: Refuse) -> None:
    refuse(lambda _, pod: pod == "lone-1")

    async def story(stage: Stage) -> None:
        client = stage.world.client(EAST)
        group = {"metadata": {"name": "own"}, "spec": {"minMember": 2, "queue": "default"}}
        await client.create(
            kinds.POD_GROUP, {"apiVersion": kinds.POD_GROUP.api_version, "kind": "PodGroup", **group}, namespace="default"
        )
        for index in range(2):
            meta = {"name": f"lone-{index}", "annotations": {"scheduling.k8s.io/group-name": "own"}}
            spec = {
                "schedulerName": "volcano",
                "containers": [{"name": "main", "image": "busybox:1", "command": ["sleep", "9999"]}],
            }
            await client.create(
                kinds.POD, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}, namespace="default"
            )
        await stage.world.advance(400)
        assert stage.running() == ["lone-0"]
        assert "1 of 2 pods of the gang have nodes" in condition(stage)["message"]

    play(story)
