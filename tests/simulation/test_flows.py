"""What flows can do, over a whole simulated federation: values that pods leave decide what runs next."""

from __future__ import annotations

from typing import Any

import pytest

from apis import kinds
from simulator.world import World
from tests.support.stage import play
from tests.support.stories import phase, starts

SAYS = "echo {} > /dev/termination-log"


def template(name: str, script: str, *, pods: int = 1) -> dict[str, Any]:
    """A JobTemplate of one task whose pods run a script."""
    containers = [{"name": "c", "image": "i", "command": ["sh", "-c", script], "resources": {"requests": {"cpu": "100m"}}}]
    task = {"name": "main", "replicas": pods, "template": {"spec": {"restartPolicy": "Never", "containers": containers}}}
    spec = {"minAvailable": pods, "queue": "default", "maxRetry": 1, "tasks": [task]}
    return {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobTemplate", "metadata": {"name": name}, "spec": spec}


def jobflow(spec: dict[str, Any]) -> dict[str, Any]:
    """The flow `flow`."""
    return {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow", "metadata": {"name": "flow"}, "spec": spec}


TRAINING = {
    "flows": [
        {"name": "prepare", "outputs": [{"name": "shards"}]},
        {
            "name": "train",
            "dependsOn": {"targets": ["prepare"]},
            "with": {"fromOutput": "prepare.shards"},
            "parameters": [{"name": "shard", "value": "{{item}}"}],
        },
        {
            "name": "evaluate",
            "dependsOn": {"targets": ["train"]},
            "outputs": [{"name": "accuracy", "task": "main", "index": 0}],
        },
        {
            "name": "publish",
            "dependsOn": {"targets": ["evaluate"]},
            "when": "double(targets.evaluate.outputs.accuracy) >= 0.9",
        },
        {"name": "tidy", "dependsOn": {"targets": ["publish"]}},
    ],
    "onExit": [{"name": "tell", "template": "tidy"}],
}


def ends(world: World) -> bool:
    return phase(world, "flow", kind=kinds.JOB_FLOW) in ("Succeed", "Failed")


@pytest.mark.parametrize(("accuracy", "published"), [("0.93", 1), ("0.71", 0)])
@pytest.mark.parametrize("killed", [False, True], ids=["in peace", "while the hub is killed again and again"])
def test_training_fans_out_over_what_preparing_left_and_is_published_when_it_is_good(
    accuracy: str, published: int, killed: bool
) -> None:
    async def story(world: World) -> None:
        left = SAYS.format("""'["a", "b", "c"]'""")
        templates = [
            template("prepare", f"sleep 2 && {left}"),
            template("train", "sleep 3", pods=2),
            template("evaluate", f"sleep 1 && {SAYS.format(accuracy)}"),
            template("publish", "sleep 1"),
            template("tidy", "sleep 1"),
        ]
        await world.apply([*templates, jobflow(TRAINING)])
        for _ in range(10 if killed else 0):
            await world.advance(1.9)
            world.kill("hub")
        await world.until(lambda: ends(world), timeout=300, what="the flow ends")
        assert phase(world, "flow", kind=kinds.JOB_FLOW) == "Succeed"
        found = {job["metadata"]["name"] for job in world.all(kinds.JOB)}
        assert {"flow-train-0", "flow-train-1", "flow-train-2", "flow-tell", "flow-tidy"} <= found
        assert ("flow-publish" in found) == bool(published)
        assert all(starts(world, f"flow-train-{index}") == 2 for index in range(3))

    play(story)


def test_a_step_is_tried_as_often_as_it_may_and_no_more() -> None:
    async def story(world: World) -> None:
        await world.apply(
            [template("flaky", "exit 3"), jobflow({"flows": [{"name": "flaky", "retry": {"limit": 2, "backoff": "5s"}}]})]
        )
        await world.until(lambda: ends(world), timeout=300, what="the flow ends")
        status = (world.get(kinds.JOB_FLOW, "flow") or {})["status"]
        assert status["state"]["phase"] == "Failed"
        assert status["jobStatusList"][0]["attempt"] == 3
        assert starts(world, "flow-flaky") == 3

    play(story)
