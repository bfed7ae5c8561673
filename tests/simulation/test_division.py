"""A Job that is divided over members is one Job: indices, edits, Commands and its end."""

from __future__ import annotations

from typing import Any

import pytest

from apis import kinds, naming
from machinery.port import PatchType
from simulator.world import Doc, World
from tests.simulation.test_orders import order
from tests.support.stage import play
from tests.support.stories import binding_run, job, phase, policy, why

PODS = {"default/train": 6}


def divided(**how: Any) -> Doc:
    """A policy that divides `train` over both members."""
    made = policy("divides", jobs=["train"], clusters=["east", "west"])
    made["spec"]["placement"]["replicaScheduling"] = {"replicaSchedulingType": "Divided", **how}
    return made


def train(**spec: Any) -> Doc:
    """Six pods, of which one is enough."""
    return job("train", **{"pods": 6, "minAvailable": 1, "runs_for": 60, **spec})


def pods(world: World, *phases: str) -> dict[str, list[str]]:
    """Names of pods by member, of those phases."""
    found = {}
    for name in world.members:
        there = [pod for pod in world.all(kinds.POD, server=name) if (pod.get("status") or {}).get("phase") in phases]
        found[name] = sorted(pod["metadata"]["name"] for pod in there)
    return found


def epoch(world: World) -> int:
    run = binding_run(world, "train")
    return run.epoch if run is not None else 0


async def start(world: World, made: Doc, **how: Any) -> None:
    await world.apply(divided(**how))
    await world.apply(made)
    await world.until(lambda: sum(map(len, pods(world, "Running").values())) == 6, timeout=90, what="all six run")


def names(*indices: int) -> list[str]:
    return [f"train-worker-{index}" for index in indices]


def test_it_runs_in_both_members_each_index_once_and_ends_when_both_parts_did() -> None:
    async def story(world: World) -> None:
        await start(world, train())
        assert pods(world, "Running") == {"east": names(0, 1, 2), "west": names(3, 4, 5)}
        run = binding_run(world, "train")
        assert run is not None
        assert run.epoch == 1
        assert {name: part.shares["worker"].offset for name, part in run.parts.items()} == {"east": 0, "west": 3}
        binding = world.get(kinds.RESOURCE_BINDING, "train-job") or {}
        assert binding["spec"]["clusters"] == [{"name": "east", "replicas": 3}, {"name": "west", "replicas": 3}]
        await world.until(lambda: phase(world, "train") == "Completed", timeout=180, what="it ends")
        assert (world.get(kinds.JOB, "train") or {})["status"]["succeeded"] == 6

    play(story, pods=PODS)


def test_weights_say_who_gets_how_many() -> None:
    async def story(world: World) -> None:
        weights = [{"targetCluster": {"clusterNames": [name]}, "weight": weight} for name, weight in (("east", 1), ("west", 2))]
        await start(world, train(), weightPreference={"staticWeightList": weights})
        assert pods(world, "Running") == {"east": names(0, 1), "west": names(2, 3, 4, 5)}

    play(story, pods=PODS)


def test_the_failure_of_a_part_is_that_of_the_job_and_the_other_part_stops() -> None:
    async def story(world: World) -> None:
        await start(world, train(runs_for=600, policies=[{"event": "PodEvicted", "action": "TerminateJob"}]))
        await world.client("west").delete(kinds.POD, "train-worker-4", namespace="default")
        await world.until(lambda: phase(world, "train") == "Terminated", timeout=90, what="the Job has ended")
        await world.until(lambda: pods(world, "Running") == {"east": [], "west": []}, timeout=60, what="nothing is left")
        run = binding_run(world, "train")
        assert run is not None
        assert run.epoch == 1

    play(story, pods=PODS)


def test_a_part_that_is_withdrawn_takes_the_others_with_it_and_all_is_divided_anew() -> None:
    async def story(world: World) -> None:
        await start(world, train(runs_for=600))
        work = naming.work_name("train", namespace="default")
        await world.client().delete(kinds.WORK, work, namespace="karmada-es-west")
        await world.until(lambda: epoch(world) == 2, timeout=90, what="it is divided anew")
        await world.until(lambda: sum(map(len, pods(world, "Running").values())) == 6, timeout=90, what="all six run again")

    play(story, pods=PODS, restarts={"default/train": 1})


def test_it_is_aborted_everywhere_and_divided_anew_when_it_is_resumed() -> None:
    async def story(world: World) -> None:
        await start(world, train(runs_for=600))
        await order(world, "AbortJob")
        await world.until(lambda: phase(world, "train") == "Aborted", timeout=90, what="it is aborted")
        assert pods(world, "Running", "Pending") == {"east": [], "west": []}
        await order(world, "ResumeJob")
        await world.until(lambda: sum(map(len, pods(world, "Running").values())) == 6, timeout=90, what="all six run again")
        run = binding_run(world, "train")
        assert run is not None
        assert (run.epoch, sorted(run.parts)) == (2, ["east", "west"])

    play(story, pods=PODS, restarts={"default/train": 1})


@pytest.mark.parametrize(("action", "end"), [("TerminateJob", "Terminated"), ("CompleteJob", "Completed")])
def test_what_people_order_happens_in_every_part(action: str, end: str) -> None:
    async def story(world: World) -> None:
        await start(world, train(runs_for=600))
        await order(world, action)
        await world.until(lambda: phase(world, "train") == end, timeout=90, what="it has ended")
        await world.until(lambda: pods(world, "Running") == {"east": [], "west": []}, timeout=60, what="no pod is left")

    play(story, pods=PODS)


def test_an_edit_reaches_every_part_and_one_of_replicas_is_told_and_moves_no_index() -> None:
    async def story(world: World) -> None:
        made = train(runs_for=60)
        await start(world, made)

        async def edit(**spec: Any) -> None:
            body = {"spec": {**made["spec"], **spec}}
            await world.client().patch(kinds.JOB, "train", body, type=PatchType.MERGE, namespace="default")

        def everywhere() -> bool:
            there = [world.get(kinds.JOB, "train", server=name) or {} for name in world.members]
            return [each["spec"].get("priorityClassName") for each in there] == ["system-node-critical"] * 2

        await edit(priorityClassName="system-node-critical")
        await world.until(everywhere, timeout=60, what="both members have the edit")
        await edit(tasks=[{**made["spec"]["tasks"][0], "replicas": 8}])
        await world.until(lambda: "does not carry out" in why(world, "train"), timeout=60, what="it is told")
        assert pods(world, "Running") == {"east": names(0, 1, 2), "west": names(3, 4, 5)}
        await world.until(lambda: phase(world, "train") == "Completed", timeout=180, what="it ends")

    play(story, pods=PODS)
