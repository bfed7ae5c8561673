"""The phase of groups of pods that come without a Job of ours: ends of batch Jobs, updates of Deployments, slow goodbyes."""

from __future__ import annotations

import pytest

from apis import kinds
from tests.member_agent.podgroups.test_stories import MIN_MEMBER, Cluster, Doc, pod, reference
from tests.member_agent.world import Stage, play

pytestmark = pytest.mark.story


def status(east: Cluster, owner: Doc) -> Doc:
    found: Doc = east.group(owner["metadata"]["uid"]).get("status") or {}
    return found


async def phase(east: Cluster, owner: Doc, wanted: str) -> None:
    await east.stage.until(lambda: status(east, owner).get("phase") == wanted, timeout=120, what=f"phase {wanted}")


def test_the_group_of_a_batch_job_is_completed_when_the_job_succeeds() -> None:
    async def story(stage: Stage) -> None:
        east = Cluster(stage)
        batch = await east.owned(kinds.BATCH_JOB, "sum", replicas=2, command="sleep 20")
        await phase(east, batch, "Running")
        await phase(east, batch, "Completed")
        await stage.until(lambda: status(east, batch).get("succeeded") == 2, timeout=60)
        assert len(east.groups()) == 1

    play(story)


def test_the_group_of_a_batch_job_that_fails_is_completed_and_runs_again_with_its_next_try() -> None:
    async def story(stage: Stage) -> None:
        east = Cluster(stage)
        batch = await east.owned(kinds.BATCH_JOB, "sum", replicas=1, command="sleep 5 && exit 3")
        await phase(east, batch, "Completed")
        again = pod("sum-again", owner=reference(kinds.BATCH_JOB, batch), command="sleep 30 && exit 3")
        await east.create(kinds.POD, again)
        await phase(east, batch, "Running")
        await phase(east, batch, "Completed")
        await stage.until(lambda: status(east, batch).get("failed") == 2, timeout=60)
        assert len(east.groups()) == 1

    play(story)


def test_an_update_of_a_deployment_brings_a_group_more_and_takes_the_old_one_when_it_is_scaled_away() -> None:
    async def story(stage: Stage) -> None:
        east = Cluster(stage)
        old = await east.owned(kinds.REPLICA_SET, "web-1", replicas=2)
        await phase(east, old, "Running")
        new = await east.owned(kinds.REPLICA_SET, "web-2", replicas=2)
        await phase(east, new, "Running")
        assert len(east.groups()) == 2
        await east.patch(kinds.REPLICA_SET, "web-1", {"spec": {"replicas": 0}})
        for name in ("web-1-0", "web-1-1"):
            await east.delete(kinds.POD, name)
        await stage.until(lambda: len(east.groups()) == 1, timeout=60)
        assert status(east, new)["phase"] == "Running"

    play(story)


@pytest.mark.parametrize("going", [1, 3])
def test_a_group_stays_running_while_its_placed_members_terminate_slowly(going: int) -> None:
    """Containers that ignore SIGTERM for 300 s: their pods hold nodes, and are counted, until they are killed."""

    async def story(stage: Stage) -> None:
        east = Cluster(stage)
        deaf = {"simulator.volcano-federation.io/ignores-term": "true"}
        owner = await east.create(
            kinds.REPLICA_SET,
            {
                "metadata": {"name": "web", "annotations": {MIN_MEMBER: "3"}},
                "spec": {
                    "replicas": 3,
                    "selector": {"matchLabels": {"app": "web"}},
                    "template": {**pod("web"), "metadata": {"labels": {"app": "web"}}},
                },
            },
        )
        for index in range(3):
            body = pod(f"web-{index}", owner=reference(kinds.REPLICA_SET, owner), annotations=deaf)
            body["spec"]["terminationGracePeriodSeconds"] = 300
            await east.create(kinds.POD, body)
        await phase(east, owner, "Running")
        await east.running("web-0", "web-1", "web-2")
        for index in range(going):
            await east.delete(kinds.POD, f"web-{index}")
        for _ in range(9):
            await stage.world.advance(30)
            assert status(east, owner)["phase"] == "Running"
        await stage.world.advance(60)
        assert len(stage.pods()) == 3 - going
        assert status(east, owner).get("phase") != "Running"

    play(story)
