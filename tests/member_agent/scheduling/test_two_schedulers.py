"""A member's scheduler beside another one that binds pods of its own to the same nodes, whenever it likes."""

from __future__ import annotations

import pytest

from apis import kinds
from apis.vectors import ResourceVector
from tests.member_agent.world import EAST, Doc, Stage, job, play


def foreign(name: str, *, node: str, cpu: int) -> Doc:
    """A pod that its own scheduler has just bound; it ends after 20 s."""
    container = {
        "name": "main",
        "image": "busybox:1",
        "command": ["sh", "-c", "sleep 20"],
        "resources": {"requests": {"cpu": str(cpu)}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulerName": "other", "nodeName": node, "restartPolicy": "Never", "containers": [container]},
    }


def running(stage: Stage) -> dict[str, int]:
    """Milli cpu of pods that run, by node."""
    found: dict[str, int] = {}
    for pod in stage.world.all(kinds.POD, server=EAST):
        if (pod.get("status") or {}).get("phase") == "Running":
            requests = pod["spec"]["containers"][0]["resources"]["requests"]
            where = pod["spec"]["nodeName"]
            found[where] = found.get(where, 0) + ResourceVector.from_quantities(requests).get("cpu")
    return found


@pytest.mark.parametrize("moment", [0.0, 0.05, 0.15, 0.5])
def test_a_job_gets_its_nodes_although_another_scheduler_takes_some_at_the_same_moment(moment: float) -> None:
    async def story(stage: Stage) -> None:
        client = stage.world.client(EAST)
        nodes = sorted(each["metadata"]["name"] for each in stage.world.all(kinds.NODE, server=EAST))
        size = {
            each["metadata"]["name"]: ResourceVector.from_quantities(each["status"]["allocatable"]).get("cpu")
            for each in stage.world.all(kinds.NODE, server=EAST)
        }
        pods = sum(size.values()) // 1000
        await client.create(kinds.JOB, job("ours", replicas=pods, cpu="1", command="sleep 10"), namespace="default")
        await stage.world.advance(moment)
        for number, node in enumerate(nodes):
            await client.create(kinds.POD, foreign(f"theirs-{number}", node=node, cpu=2), namespace="default")
        for _ in range(60):
            await stage.world.advance(1)
            assert all(used <= size[node] for node, used in running(stage).items())
        await stage.until(lambda: stage.phase("ours") == "Completed", timeout=120)

    play(story)
