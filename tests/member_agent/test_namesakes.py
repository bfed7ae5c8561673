"""A Job that was deleted, and another one of its name: what is left of the first never hurts the second."""

from __future__ import annotations

from typing import Any

import orjson

from apis import keys, kinds
from apis.kinds import Kind
from machinery.port import PatchType
from simulator.commands import IGNORES_TERM
from tests.member_agent.world import EAST, Stage, job, play

Doc = dict[str, Any]

HOLD = "tests.volcano-federation.io/hold"
"""A finalizer that keeps what is deleted terminating."""
GRACE = 60


def deaf(manifest: Doc) -> Doc:
    """Its pods end only when their grace is over."""
    for task in manifest["spec"]["tasks"]:
        task["template"]["metadata"] = {"annotations": {IGNORES_TERM: "true"}}
        task["template"]["spec"]["terminationGracePeriodSeconds"] = GRACE
    return manifest


async def submit(stage: Stage, manifest: Doc) -> str:
    """UID of the new Job."""
    made = await stage.world.client(EAST).create(kinds.JOB, manifest, namespace="default")
    return str(orjson.loads(made)["metadata"]["uid"])


async def again(stage: Stage, manifest: Doc) -> str:
    """Delete the Job and submit another one of its name, as soon as the name is free; its UID."""
    name = manifest["metadata"]["name"]
    await stage.world.client(EAST).delete(kinds.JOB, name, namespace="default")
    await stage.until(lambda: stage.local(name) is None, what="the first Job is gone")
    return await submit(stage, manifest)


def state(stage: Stage, name: str = "train") -> Doc:
    """The Job's status."""
    found: Doc = (stage.local(name) or {}).get("status") or {}
    return found


def owned(stage: Stage, kind: Kind, uid: str) -> list[str]:
    """Names of what a Job of this UID controls."""
    found = stage.world.all(kind, namespace="default", server=EAST)
    return [doc["metadata"]["name"] for doc in found if uid in str(doc["metadata"].get("ownerReferences"))]


async def hold(stage: Stage, kind: Kind, name: str, *, finalizers: list[str]) -> None:
    """Set the finalizers of an object."""
    patch = {"metadata": {"finalizers": finalizers}}
    await stage.world.client(EAST).patch(kind, name, patch, type=PatchType.MERGE, namespace="default")


def test_pods_of_the_first_are_neither_counted_nor_taken_for_an_accident_of_the_second() -> None:
    async def story(stage: Stage) -> None:
        policies = [{"events": ["PodEvicted", "PodFailed"], "action": "RestartJob"}]
        first = await submit(stage, deaf(job("train", command="sleep 600", policies=policies)))
        await stage.until(lambda: len(stage.running("train")) == 2)
        second = await again(stage, job("train", command="sleep 5", policies=policies))
        await stage.world.advance(20)
        assert sorted(owned(stage, kinds.POD, first)) == ["train-work-0", "train-work-1"]
        assert state(stage)["state"]["phase"] == "Pending"
        assert state(stage)["state"]["reason"] and "train-work-" in state(stage)["state"]["message"]
        assert not state(stage).get("running")
        assert not state(stage).get("terminating")
        await stage.until(lambda: stage.phase("train") == "Completed", timeout=300)
        assert owned(stage, kinds.POD, second) == ["train-work-0", "train-work-1"]
        assert not state(stage).get("retryCount")
        assert not state(stage)["memory"].get("evictions")
        assert len(stage.starts()) == 4

    play(story, register=False)


def test_pods_of_the_first_that_end_while_the_second_runs_change_nothing() -> None:
    async def story(stage: Stage) -> None:
        policies = [{"events": ["PodFailed", "PodEvicted", "TaskFailed"], "action": "AbortJob"}]
        await submit(stage, deaf(job("train", replicas=2, command="sleep 600")))
        await stage.until(lambda: len(stage.running("train")) == 2)
        smaller = job("train", replicas=1, command="sleep 120", policies=policies)
        smaller["spec"]["tasks"][0]["name"] = "other"
        await again(stage, smaller)
        await stage.until(lambda: stage.phase("train") == "Running", timeout=50, what="no name of a pod is in the way")
        assert len(stage.running("train")) == 3
        await stage.until(lambda: len(stage.pods("train")) == 1, timeout=GRACE + 20, what="the old pods go")
        assert state(stage)["running"] == 1
        await stage.until(lambda: stage.phase("train") == "Completed", timeout=300)
        assert not state(stage).get("retryCount")

    play(story, register=False)


def test_a_pod_group_of_the_first_that_is_still_terminating_is_not_the_second_ones() -> None:
    async def story(stage: Stage) -> None:
        first = await submit(stage, job("train", command="sleep 600"))
        await stage.until(lambda: len(stage.running("train")) == 2)
        (old,) = owned(stage, kinds.POD_GROUP, first)
        await hold(stage, kinds.POD_GROUP, old, finalizers=[HOLD])
        second = await again(stage, job("train", command="sleep 30"))
        await stage.until(lambda: stage.phase("train") == "Running", timeout=60)
        assert owned(stage, kinds.POD_GROUP, first) == [old]
        (new,) = owned(stage, kinds.POD_GROUP, second)
        assert new != old
        groups = {pod["metadata"]["annotations"][keys.GROUP_NAME] for pod in stage.pods("train")}
        assert groups == {new}
        await hold(stage, kinds.POD_GROUP, old, finalizers=[])
        await stage.until(lambda: stage.phase("train") == "Completed", timeout=120)
        assert len(stage.starts()) == 4

    play(story, register=False)


def test_a_claim_of_the_first_that_its_pods_still_use_is_not_mounted_by_the_second() -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}

    def with_claim(command: str) -> Doc:
        return job("train", replicas=1, command=command, volumes=[{"mountPath": "/data", "volumeClaim": claim}])

    async def story(stage: Stage) -> None:
        first = await submit(stage, deaf(with_claim("sleep 600")))
        await stage.until(lambda: len(stage.running("train")) == 1)
        (old,) = owned(stage, kinds.CLAIM, first)
        second = await again(stage, with_claim("sleep 5"))
        await stage.world.advance(20)
        held = stage.world.get(kinds.CLAIM, old, namespace="default", server=EAST)
        assert held is not None and held["metadata"].get("deletionTimestamp"), "the claim is in use"
        await stage.until(lambda: stage.phase("train") == "Completed", timeout=300)
        (new,) = owned(stage, kinds.CLAIM, second)
        (pod,) = stage.pods("train")
        mounted = [each["persistentVolumeClaim"]["claimName"] for each in pod["spec"]["volumes"]]
        assert mounted == [new]
        assert owned(stage, kinds.CLAIM, first) == []

    play(story, register=False)


def test_keys_of_the_first_that_are_still_terminating_are_waited_for_and_never_used() -> None:
    async def story(stage: Stage) -> None:
        first = await submit(stage, job("train", command="sleep 600", plugins={"ssh": []}))
        await stage.until(lambda: len(stage.running("train")) == 2)
        assert owned(stage, kinds.SECRET, first) == ["train-ssh"]
        before = stage.world.get(kinds.SECRET, "train-ssh", namespace="default", server=EAST)
        await hold(stage, kinds.SECRET, "train-ssh", finalizers=[HOLD])
        second = await again(stage, job("train", command="sleep 5", plugins={"ssh": []}))
        await stage.world.advance(30)
        assert stage.phase("train") == "Pending"
        assert "Secret train-ssh is still being deleted" in state(stage)["state"]["message"]
        assert len(stage.starts()) == 2
        await hold(stage, kinds.SECRET, "train-ssh", finalizers=[])
        await stage.until(lambda: owned(stage, kinds.SECRET, second) == ["train-ssh"], timeout=120)
        after = stage.world.get(kinds.SECRET, "train-ssh", namespace="default", server=EAST)
        assert before is not None and after is not None and before["data"] != after["data"]
        await stage.until(lambda: stage.phase("train") == "Completed", timeout=120)
        assert len(stage.starts()) == 4

    play(story, register=False)
