"""What people order at the hub happens in the member that runs the Job, once, whoever dies meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from apis import kinds
from machinery.port import PatchType
from simulator.world import World
from tests.support.stage import play
from tests.support.stories import job, phase, starts


async def order(world: World, action: str, name: str = "train") -> None:
    """A Command as people write it."""
    target = {"apiVersion": kinds.JOB.api_version, "kind": "Job", "name": name}
    body = {"apiVersion": kinds.COMMAND.api_version, "kind": "Command", "action": action, "target": target}
    await world.client().create(kinds.COMMAND, {**body, "metadata": {"generateName": "order-"}}, namespace="default")


def running(world: World) -> bool:
    return phase(world, "train") == "Running"


def pods(world: World) -> int:
    """Pods of the Job that run, in all members."""
    found = [pod for name in world.members for pod in world.all(kinds.POD, server=name)]
    return sum((pod.get("status") or {}).get("phase") == "Running" for pod in found)


@pytest.mark.parametrize("killed", ["nobody", "hub", "agents"])
def test_a_job_that_runs_is_restarted_once(killed: str) -> None:
    async def story(world: World) -> None:
        await world.apply(job("train", pods=2, runs_for=60))
        await world.until(lambda: running(world) and pods(world) == 2, timeout=60, what="it runs")
        await order(world, "RestartJob")
        for _ in range(4 if killed != "nobody" else 0):
            await world.advance(1.3)
            for actor in ("hub",) if killed == "hub" else ("agent-east", "agent-west"):
                world.kill(actor)
        await world.until(lambda: starts(world, "train") == 4 and running(world), timeout=120, what="it runs again")
        await world.until(lambda: phase(world, "train") == "Completed", timeout=180, what="it ends")
        assert starts(world, "train") == 4

    play(story, pods={"default/train": 2}, restarts={"default/train": 1})


def test_a_job_that_runs_is_scaled_where_it_runs() -> None:
    async def story(world: World) -> None:
        made: dict[str, Any] = job("train", pods=2, runs_for=60)
        await world.apply(made)
        await world.until(lambda: running(world) and pods(world) == 2, timeout=60, what="it runs")
        tasks = [{**made["spec"]["tasks"][0], "replicas": 3}]
        spec = {"spec": {**made["spec"], "tasks": tasks}}
        await world.client().patch(kinds.JOB, "train", spec, type=PatchType.MERGE, namespace="default")
        await world.until(lambda: pods(world) == 3, timeout=60, what="a third pod runs")
        assert starts(world, "train") == 3
        assert phase(world, "train") == "Running"
        await world.until(lambda: phase(world, "train") == "Completed", timeout=180, what="it ends")

    play(story, pods={"default/train": 3})


@pytest.mark.parametrize(("action", "end"), [("TerminateJob", "Terminated"), ("CompleteJob", "Completed")])
def test_a_job_that_runs_is_ended(action: str, end: str) -> None:
    async def story(world: World) -> None:
        await world.apply(job("train", pods=2, runs_for=600))
        await world.until(lambda: running(world) and pods(world) == 2, timeout=60, what="it runs")
        await order(world, action)
        await world.until(lambda: phase(world, "train") == end, timeout=60, what="it has ended")
        assert pods(world) == 0

    play(story, pods={"default/train": 2})


def test_a_job_that_its_own_policy_aborted_is_resumed_where_it_is() -> None:
    async def story(world: World) -> None:
        made: dict[str, Any] = job("train", pods=1, runs_for=20)
        made["spec"]["tasks"][0]["policies"] = [{"event": "PodFailed", "action": "AbortJob"}]
        notes = made["spec"]["tasks"][0]["template"].setdefault("metadata", {}).setdefault("annotations", {})
        notes["simulator.volcano-federation.io/exit-code"] = "3"
        await world.apply(made)
        await world.until(lambda: phase(world, "train") == "Aborted", timeout=90, what="its policy aborts it")
        await order(world, "ResumeJob")
        await world.until(lambda: starts(world, "train") == 2, timeout=90, what="it runs again")
        await world.until(lambda: phase(world, "train") == "Aborted", timeout=90, what="its policy aborts it again")

    play(story, restarts={"default/train": 1})
