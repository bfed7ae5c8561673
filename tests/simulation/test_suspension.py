"""What policies say beside where: dispatching that is suspended, and runs that stay when their Job is deleted."""

from __future__ import annotations

from typing import Any

from apis import keys, kinds
from machinery.port import PatchType
from simulator.world import Doc, World
from tests.support.stage import play
from tests.support.stories import clusters, home, job, phase, running, starts

JOB = "train"


def policy(**spec: Any) -> Doc:
    """A policy for the Job, anywhere."""
    kind = kinds.PROPAGATION_POLICY
    selectors = [{"apiVersion": kinds.JOB.api_version, "kind": "Job", "name": JOB}]
    body = {"resourceSelectors": selectors, "placement": {}, **spec}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "p", "namespace": "default"}, "spec": body}


async def say(world: World, **spec: Any) -> None:
    """Change fields of the policy."""
    await world.client().patch(kinds.PROPAGATION_POLICY, "p", {"spec": spec}, type=PatchType.MERGE, namespace="default")


def work(world: World, cluster: str) -> Doc:
    """The Job's Work."""
    found = [each for each in world.all(kinds.WORK, namespace=keys.execution_namespace(cluster)) if keys.RUN in _notes(each)]
    assert len(found) == 1
    return found[0]


def _notes(doc: Doc) -> Doc:
    notes: Doc = doc["metadata"].get("annotations") or {}
    return notes


def test_a_job_whose_dispatching_is_suspended_is_placed_and_starts_when_it_is_not() -> None:
    async def story(world: World) -> None:
        await world.apply([policy(suspension={"dispatching": True}), job(JOB, pods=2, runs_for=5)])
        await world.until(lambda: home(world, JOB) == "east", timeout=30, what="it is placed")
        await world.advance(700.0)  # longer than a run may take to start: nobody is late who may not start
        assert starts(world, JOB) == 0
        assert work(world, "east")["spec"]["suspendDispatching"] is True
        await say(world, suspension=None)
        await world.until(lambda: phase(world, JOB) == "Completed", timeout=60, what="it runs")
        assert clusters(world, JOB) == ["east"]

    play(story, cpus={"east": 8, "west": 4}, pods={f"default/{JOB}": 2})


def test_a_cluster_to_which_dispatching_is_suspended_gets_nothing_new_and_no_updates() -> None:
    async def story(world: World) -> None:
        await world.apply([policy(), job(JOB, pods=1, runs_for=600, minAvailable=1)])
        await world.until(lambda: running(world, JOB) == 1, timeout=60, what="it runs")
        assert home(world, JOB) == "east"
        await say(world, suspension={"dispatchingOnClusters": {"clusterNames": ["east"]}})
        await world.until(lambda: work(world, "east")["spec"].get("suspendDispatching") is True, timeout=30, what="paused")
        tasks = (world.get(kinds.JOB, JOB) or {})["spec"]["tasks"]
        more = {"spec": {"tasks": [{**tasks[0], "replicas": 2}]}}
        await world.client().patch(kinds.JOB, JOB, more, type=PatchType.MERGE, namespace="default")
        await world.advance(30.0)
        assert running(world, JOB) == 1, "an edit waits"
        await say(world, suspension=None)
        await world.until(lambda: running(world, JOB) == 2, timeout=60, what="the edit arrives")
        await say(world, suspension={"dispatchingOnClusters": {"clusterNames": ["east"]}})
        await world.client().delete(kinds.JOB, JOB, namespace="default")
        await world.until(lambda: world.get(kinds.JOB, JOB) is None and running(world, JOB) == 0, timeout=60, what="it goes")
        await world.apply(job(JOB, pods=1, runs_for=5))
        await world.until(lambda: phase(world, JOB) == "Completed", timeout=90, what="a new one ends")
        assert clusters(world, JOB)[-1] == "west"

    play(story, cpus={"east": 8, "west": 4}, pods={f"default/{JOB}": 3})


def test_a_run_that_is_to_be_preserved_stays_in_its_member_when_its_job_is_deleted() -> None:
    async def story(world: World) -> None:
        await world.apply([policy(preserveResourcesOnDeletion=True), job(JOB, pods=2, runs_for=120)])
        await world.until(lambda: running(world, JOB) == 2, timeout=60, what="it runs")
        await world.client().delete(kinds.JOB, JOB, namespace="default")
        gone = lambda: world.get(kinds.RESOURCE_BINDING, f"{JOB}-job") is None  # noqa: E731
        await world.until(gone, timeout=60, what="the hub forgets it")
        assert world.all(kinds.WORK, namespace=keys.execution_namespace("east")) == [] or not _runs(world, "east")
        left = world.get(kinds.JOB, JOB, namespace="default", server="east") or {}
        assert running(world, JOB) == 2, "nothing was stopped"
        assert keys.MANAGED_LABEL not in (left["metadata"].get("labels") or {})
        assert keys.RUN not in _notes(left)
        assert not left["metadata"].get("finalizers")
        ended = lambda: _state(world) == "Completed"  # noqa: E731
        await world.until(ended, timeout=240, what="it ends as the member's own")
        assert starts(world, JOB) == 2

    play(story, cpus={"east": 8, "west": 4}, pods={f"default/{JOB}": 2})


def test_suspending_a_job_stops_it_whatever_is_to_be_preserved() -> None:
    async def story(world: World) -> None:
        await world.apply([policy(preserveResourcesOnDeletion=True), job(JOB, pods=2, runs_for=60)])
        await world.until(lambda: running(world, JOB) == 2, timeout=60, what="it runs")
        note = {"metadata": {"annotations": {keys.SUSPEND: "true"}}}
        await world.client().patch(kinds.JOB, JOB, note, type=PatchType.MERGE, namespace="default")
        await world.until(lambda: running(world, JOB) == 0, timeout=60, what="it stops")
        gone = lambda: world.get(kinds.JOB, JOB, namespace="default", server="east") is None  # noqa: E731
        await world.until(gone, timeout=30, what="nothing of it is left")

    play(story, cpus={"east": 8, "west": 4}, pods={f"default/{JOB}": 2})


def _runs(world: World, cluster: str) -> list[Doc]:
    return [each for each in world.all(kinds.WORK, namespace=keys.execution_namespace(cluster)) if keys.RUN in _notes(each)]


def _state(world: World) -> str:
    found = world.get(kinds.JOB, JOB, namespace="default", server="east") or {}
    return str(((found.get("status") or {}).get("state") or {}).get("phase", ""))
