"""What a review says over a whole federation, hub and agents as shipped: the named change, made as told, starts the Job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from apis import kinds
from machinery.port import PatchType
from simulator.api import MemoryPort
from simulator.world import HUB, Doc, World
from tests.support.stage import play
from tests.support.stories import flow, job, phase, policy, queue, template

Best = tuple[tuple[str, str | int], ...]


async def asked(world: World, name: str, **spec: Any) -> Doc:
    """The answer to a review."""
    kind = kinds.PLACEMENT_REVIEW
    meta = {"name": name, "namespace": "default"}
    await world.apply([{"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, "spec": spec}])

    def answered() -> bool:
        found = world.get(kind, name) or {}
        return bool((found.get("status") or {}).get("answeredAt"))

    await world.until(answered, timeout=60, what=f"review {name} is answered")
    status: Doc = (world.get(kind, name) or {})["status"]
    return status


def best(status: Doc) -> Best:
    """The changes it names, with what they are to be."""
    return tuple((each["change"], each.get("to") or each.get("count") or "") for each in status["cheapest"]["changes"])


async def edit(world: World, kind: kinds.Kind, name: str, patch: Mapping[str, Any]) -> None:
    port = MemoryPort(world.servers[HUB], agent="ann")
    await port.patch(kind, name, patch, type=PatchType.MERGE, namespace="default" if kind.namespaced else None)


async def fewer_pods(world: World) -> None:
    tasks = (world.get(kinds.JOB, "train") or {})["spec"]["tasks"]
    await edit(world, kinds.JOB, "train", {"spec": {"minAvailable": 8, "tasks": [{**tasks[0], "minAvailable": 8}]}})


async def any_cluster(world: World) -> None:
    await edit(world, kinds.PROPAGATION_POLICY, "narrow", {"spec": {"placement": {"clusterAffinity": None}}})


async def tolerate(world: World) -> None:
    tolerations = [{"key": "maintenance", "operator": "Exists", "effect": "NoSchedule"}]
    await edit(world, kinds.PROPAGATION_POLICY, "narrow", {"spec": {"placement": {"clusterTolerations": tolerations}}})


async def resume(world: World) -> None:
    await edit(world, kinds.JOB, "train", {"spec": {"suspend": None}})


STORIES: dict[str, tuple[list[Doc], Best, Any]] = {
    "a gang that is larger than any cluster": ([job("train", pods=10)], (("MinAvailable", 8),), fewer_pods),
    "a policy that allows one small cluster": (
        [policy("narrow", jobs=["train"], clusters=["west"]), job("train", pods=1, cpu=4)],
        (("AnyCluster", ""),),
        any_cluster,
    ),
    "a cluster whose taint nobody tolerates": (
        [policy("narrow", jobs=["train"], clusters=["east"]), job("train", pods=1, cpu=4)],
        (("TolerateCluster", "maintenance:NoSchedule"),),
        tolerate,
    ),
    "a Job that somebody suspended": ([job("train", suspend=True)], (("Resume", ""),), resume),
}


@pytest.mark.parametrize("name", sorted(STORIES))
def test_the_named_change_starts_it_and_without_it_it_waits(name: str) -> None:
    objects, expected, change = STORIES[name]

    async def story(world: World) -> None:
        if "taint" in name:
            taints = [{"key": "maintenance", "effect": "NoSchedule"}]
            await edit(world, kinds.CLUSTER, "east", {"spec": {"taints": taints}})
        await world.apply(objects)
        await world.advance(20)
        assert phase(world, "train") not in ("Running", "Completed")
        status = await asked(world, "why", job="train")
        assert best(status) == expected, status
        assert not any(each["starts"] for each in status.get("tried", ()) if each["points"] < status["cheapest"]["points"])
        await world.advance(60)
        assert phase(world, "train") not in ("Running", "Completed")
        await change(world)
        await world.until(lambda: phase(world, "train") in ("Running", "Completed"), timeout=120, what="it starts")

    # A gang that starts with fewer pods than it has is whole with those.
    play(story, cpus={"east": 4, "west": 2}, admission=True, gang_patience=1000.0)


def test_a_full_queue_is_told_with_another_and_submitted_there_the_job_runs() -> None:
    async def story(world: World) -> None:
        await world.apply([queue("narrow", capability={"cpu": "1"}), queue("wide")])
        await world.advance(5)
        await world.apply([job("train", pods=2, queue="narrow")])
        await world.advance(20)
        status = await asked(world, "why", job="train")
        assert (status["reason"], best(status)) == ("QueueFull", (("Queue", "default"),))
        await world.apply([job("again", pods=2, queue="default")])
        await world.until(lambda: phase(world, "again") in ("Running", "Completed"), timeout=120)

    play(story, admission=True)


def test_a_flow_runs_where_its_review_said_and_in_that_order() -> None:
    async def story(world: World) -> None:
        notes = {"volcano-federation.io/estimated-duration": "30s"}
        templates = [template(name, pods=pods, cpu=2) for name, pods in (("prepare", 2), ("train", 4), ("report", 1))]
        for each in templates:
            each["metadata"]["annotations"] = notes
        steps = flow("nightly", {"prepare": [], "train": ["prepare"], "report": ["train"]})
        status = await asked(world, "plan", manifest=steps, templates=templates)
        assert status["outcome"] == "Starts", status
        assert world.all(kinds.JOB) == []
        said = {each["name"]: each["clusters"] for each in status["steps"]}
        assert status["criticalPath"] == ["nightly-prepare", "nightly-train", "nightly-report"]
        await world.apply([*templates, steps])
        await world.until(lambda: phase(world, "nightly", kind=kinds.JOB_FLOW) == "Succeed", timeout=300)
        ran = {
            each["metadata"]["name"].removesuffix("-job"): [part["name"] for part in each["spec"]["clusters"]]
            for each in world.all(kinds.RESOURCE_BINDING)
        }
        assert ran == said

    play(story, cpus={"east": 8, "west": 2}, admission=True)


def test_a_hub_that_is_killed_again_and_again_answers_every_review_once() -> None:
    async def story(world: World) -> None:
        kind = kinds.PLACEMENT_REVIEW
        names = [f"r{at}" for at in range(6)]
        for at, name in enumerate(names):
            body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name, "namespace": "default"}}
            await world.apply([{**body, "spec": {"manifest": job("train", pods=at + 1)}}])
            world.kill("hub")
            await world.advance(3)
        await world.until(
            lambda: all(((world.get(kind, name) or {}).get("status") or {}).get("answeredAt") for name in names),
            timeout=120,
            what="all are answered",
        )
        outcomes = [(world.get(kind, name) or {})["status"]["outcome"] for name in names]
        assert set(outcomes) == {"Starts"}
        assert world.all(kinds.JOB) == []
        await world.until(lambda: world.all(kind) == [], timeout=700, what="all are gone")

    play(story, admission=True)
