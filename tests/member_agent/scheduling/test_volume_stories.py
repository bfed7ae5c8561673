"""Pods with claims, told with the whole member: volumes that are there, that are made, and claims nobody can satisfy."""

from __future__ import annotations

import dataclasses
from typing import Any

from apis import kinds
from apis.kinds import Kind
from machinery.port import PatchType
from simulator.nodes import uniform
from simulator.world import Member
from tests.member_agent.world import EAST, Stage, job, play

Doc = dict[str, Any]
WAITS = "WaitForFirstConsumer"


def member(nodes: int = 3) -> Member:
    machines = uniform("node", nodes, cpu="8")
    zoned = [dataclasses.replace(each, labels={"zone": f"z{index}"}) for index, each in enumerate(machines)]
    return Member(nodes=tuple(zoned), settings={"scheduling": {"volumes_wait": 30.0}})


async def create(stage: Stage, kind: Kind, body: Doc) -> None:
    namespace = "default" if kind.namespaced else None
    await stage.world.client(EAST).create(kind, body, namespace=namespace)


async def storage_class(stage: Stage, name: str, *, provisioner: str = "kubernetes.io/no-provisioner", **more: Any) -> None:
    body = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": WAITS, **more}
    await create(stage, kinds.STORAGE_CLASS, body)


async def claim(stage: Stage, name: str, *, of: str) -> None:
    spec = {"storageClassName": of, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await create(stage, kinds.CLAIM, {"metadata": {"name": name}, "spec": spec})


async def local_volume(stage: Stage, name: str, *, node: str) -> None:
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    spec = {
        "storageClassName": "local",
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "2Gi"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    await create(stage, kinds.VOLUME, {"metadata": {"name": name}, "spec": spec})


def mounting(name: str, *claims: str, **more: Any) -> Doc:
    manifest = job(name, **more)
    volumes = [{"name": f"v{index}", "persistentVolumeClaim": {"claimName": each}} for index, each in enumerate(claims)]
    manifest["spec"]["tasks"][0]["template"]["spec"]["volumes"] = volumes
    return manifest


def claims_of(stage: Stage) -> dict[str, tuple[str, str]]:
    """Phase and volume of every claim."""
    found = stage.world.all(kinds.CLAIM, server=EAST)
    return {
        each["metadata"]["name"]: ((each.get("status") or {}).get("phase", ""), each["spec"].get("volumeName", ""))
        for each in found
    }


def notes_of(stage: Stage, name: str) -> Doc:
    """Of a claim."""
    found = stage.world.get(kinds.CLAIM, name, namespace="default", server=EAST)
    return dict((found or {"metadata": {}})["metadata"].get("annotations") or {})


def promised(stage: Stage) -> list[str]:
    """Volumes that name a claim."""
    return [each["metadata"]["name"] for each in stage.world.all(kinds.VOLUME, server=EAST) if each["spec"].get("claimRef")]


def nodes_of(stage: Stage, name: str) -> set[str]:
    return {pod["spec"]["nodeName"] for pod in stage.pods(name) if pod["spec"].get("nodeName")}


def waits(stage: Stage, name: str) -> str:
    for group in stage.world.all(kinds.POD_GROUP, server=EAST):
        if group["metadata"]["name"].startswith(name):
            listed = (group.get("status") or {}).get("conditions") or []
            return next(
                (each["message"] for each in listed if each["type"] == "Unschedulable" and each["status"] == "True"), ""
            )
    return ""


def test_a_pod_goes_to_the_node_of_the_volume_that_it_gets() -> None:
    async def story(stage: Stage) -> None:
        await storage_class(stage, "local")
        await local_volume(stage, "disk", node="node-1")
        await claim(stage, "data", of="local")
        await create(stage, kinds.JOB, mounting("train", "data", replicas=2, command="sleep 5"))
        await stage.until(lambda: stage.phase("train") == "Completed", what="both pods ran")
        assert nodes_of(stage, "train") == {"node-1"}
        assert claims_of(stage) == {"data": ("Bound", "disk")}

    play(story, member=member())


def test_a_volume_is_made_on_the_node_that_the_scheduler_chose() -> None:
    async def story(stage: Stage) -> None:
        only = [{"matchLabelExpressions": [{"key": "zone", "values": ["z2"]}]}]
        await storage_class(stage, "fast", provisioner="csi.example", allowedTopologies=only)
        await claim(stage, "data", of="fast")
        await create(stage, kinds.JOB, mounting("train", "data", replicas=1, command="sleep 5"))
        await stage.until(lambda: stage.phase("train") == "Completed")
        assert nodes_of(stage, "train") == {"node-2"}
        assert claims_of(stage)["data"][0] == "Bound"

    play(story, member=member())


def test_a_claim_that_nobody_can_satisfy_says_so_until_a_volume_comes() -> None:
    async def story(stage: Stage) -> None:
        await storage_class(stage, "local")
        await claim(stage, "data", of="local")
        await create(stage, kinds.JOB, mounting("train", "data", replicas=1, command="sleep 5"))
        await create(stage, kinds.JOB, job("other", replicas=1, command="sleep 5"))
        await stage.until(lambda: "3 without a volume to have" in waits(stage, "train"), what="it says why it waits")
        await stage.until(lambda: stage.phase("other") == "Completed", what="others pass it")
        await local_volume(stage, "disk", node="node-0")
        await stage.until(lambda: stage.phase("train") == "Completed")

    play(story, member=member())


def test_a_missing_claim_is_named_and_awaited() -> None:
    async def story(stage: Stage) -> None:
        body: Doc = {"metadata": {"name": "lone"}, "spec": {"schedulerName": "volcano", "restartPolicy": "Never"}}
        body["spec"] |= {
            "containers": [{"name": "main", "image": "busybox:1", "command": ["sh", "-c", "sleep 5"]}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "later"}}],
        }
        await create(stage, kinds.POD, body)
        await stage.until(lambda: "claim later does not exist" in waits(stage, ""), what="it names the claim")
        await create(stage, kinds.CLAIM, {"metadata": {"name": "later"}, "spec": {"accessModes": ["ReadWriteOnce"]}})
        await stage.until(lambda: len(stage.running()) == 1)

    play(story, member=member())


def test_a_volume_that_is_not_made_in_time_frees_the_node_and_is_tried_again() -> None:
    """The provisioner is away: its class makes volumes, and nobody does."""

    async def story(stage: Stage) -> None:
        await storage_class(stage, "missing", provisioner="csi.example")
        await claim(stage, "data", of="missing")
        await create(stage, kinds.JOB, mounting("train", "data", replicas=1, cpu="8", command="sleep 5"))
        await stage.until(lambda: bool(notes_of(stage, "data")), what="the claim names a node")
        await stage.until(lambda: "were not bound within 30 s" in waits(stage, "train"), what="the binding is given up")
        name = stage.pods("train")[0]["metadata"]["name"]
        assert stage.running("train") == []
        port = stage.world.client(EAST)
        patch = {"spec": {"volumeName": "made-by-hand"}}
        volume = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "storageClassName": "missing"}
        reference = {"namespace": "default", "name": "data"}
        await create(stage, kinds.VOLUME, {"metadata": {"name": "made-by-hand"}, "spec": {**volume, "claimRef": reference}})
        await port.patch(kinds.CLAIM, "data", patch, type=PatchType.MERGE, namespace="default")
        await stage.until(lambda: stage.running("train") == [name], timeout=300, what="the same pod starts")

    play(story, member=member(1))


def test_an_agent_that_dies_between_promise_and_binding_finishes_what_it_began() -> None:
    """The volume names the claim; nobody has bound the pod. The next agent gives the same volume to the same claim."""

    async def story(stage: Stage) -> None:
        await storage_class(stage, "local")
        for index in range(2):
            await local_volume(stage, f"disk-{index}", node=f"node-{index}")
        await claim(stage, "data", of="local")
        await create(stage, kinds.JOB, mounting("train", "data", replicas=2, command="sleep 5"))
        await stage.until(lambda: len(promised(stage)) == 1, what="a volume is promised")
        stage.world.kill("agent-east")
        (before,) = promised(stage)
        await stage.until(lambda: stage.phase("train") == "Completed", timeout=300, what="both pods ran")
        assert promised(stage) == [before]
        assert claims_of(stage) == {"data": ("Bound", before)}

    play(story, member=member())
