"""Policies, Commands, suspend and limits of local Jobs, told on a member with its real agent."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from apis import keys, kinds
from machinery.clock import Chance, Ids
from machinery.events import EventRecorder
from machinery.informer import Informers
from machinery.metrics import Metrics
from machinery.port import PatchType
from member_agent import views
from member_agent.app import run_agent
from member_agent.jobs.controller import JobController, Stores
from member_agent.settings import AgentSettings, JobSettings
from member_agent.views.volumes import project_claim
from policies.members import project_command
from simulator.loop import SimClock, run_virtual
from simulator.nodes import uniform
from simulator.programs import Programs, Surroundings
from simulator.world import Member, World
from tests.member_agent.world import EAST, Doc, Stage, job, play, typed


class Watched:
    """Every phase a Job was in, as a watcher sees them."""

    def __init__(self, stage: Stage, name: str) -> None:
        self.phases: list[str] = []
        self._stage, self._name = stage, name
        stage.world.servers[EAST].listeners.append(self._look)

    def _look(self, change: object) -> None:
        phase = self._stage.phase(self._name)
        if phase and (not self.phases or self.phases[-1] != phase):
            self.phases.append(phase)


def told(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def status(stage: Stage, name: str) -> Doc:
    return (stage.local(name) or {}).get("status") or {}


def events(stage: Stage, name: str, reason: str) -> list[str]:
    found = stage.world.all(kinds.EVENT, server=EAST)
    return [each["message"] for each in found if each["involvedObject"]["name"] == name and each["reason"] == reason]


async def submit(stage: Stage, manifest: Doc) -> None:
    await stage.world.apply(manifest, server=EAST)


async def command(stage: Stage, action: str, name: str, *, uid: str = "", called: str = "") -> None:
    local = stage.local(name)
    uid = uid or (local["metadata"]["uid"] if local else "")
    target = {"apiVersion": kinds.JOB.api_version, "kind": "Job", "name": name, "uid": uid, "controller": True}
    body = {
        "metadata": {"name": called or f"{name}-{action.lower()}-x", "namespace": "default"},
        "action": action,
        "target": target,
    }
    await stage.world.apply(typed(kinds.COMMAND, body), server=EAST)


def with_policies(manifest: Doc, *policies: Doc, task: bool = False) -> Doc:
    (manifest["spec"]["tasks"][0] if task else manifest["spec"])["policies"] = list(policies)
    return manifest


def on(event: str, action: str, **more: Any) -> Doc:
    return {"event": event, "action": action, **more}


FAILING = "sleep 5 && exit 3"


@pytest.mark.parametrize(
    ("action", "phases"),
    [
        ("AbortJob", "Pending Running Aborting Aborted"),
        ("TerminateJob", "Pending Running Terminating Terminated"),
        ("CompleteJob", "Pending Running Completing Completed"),
    ],
)
@pytest.mark.parametrize(
    "rule", [{"event": "PodFailed"}, {"exitCode": 3}, {"events": ["PodEvicted", "PodFailed"]}, {"event": "*"}]
)
def test_a_failed_pod_stops_the_job_as_its_policy_says(action: str, phases: str, rule: Doc) -> None:
    async def story(stage: Stage) -> None:
        watched = Watched(stage, "train")
        manifest = job("train", replicas=2, command="sleep 60")
        failing = job("train", replicas=1, command=FAILING)["spec"]["tasks"][0]
        manifest["spec"]["tasks"].append({**failing, "name": "bad"})
        await submit(stage, with_policies(manifest, {"action": action, **rule}))
        await stage.until(lambda: stage.phase("train") == told(phases)[-1])
        assert watched.phases == told(phases)
        now = status(stage, "train")
        assert (now["failed"], now.get("running", 0), now.get("retryCount", 0)) == (1, 0, 0)
        assert now["state"]["reason"] == "PodFailed"
        assert "pod train-bad-0 failed: container main exited with 3" in now["state"]["message"]
        assert f"Start to execute action {action}" in events(stage, "train", "ExecuteAction")[0]
        await stage.until(lambda: stage.world.all(kinds.POD_GROUP, server=EAST) == [])
        assert [pod["metadata"]["name"] for pod in stage.pods("train")] == ["train-bad-0"]

    play(story, register=False)


def test_restarts_end_with_the_retries_and_the_last_failed_pod_stays() -> None:
    async def story(stage: Stage) -> None:
        watched = Watched(stage, "train")
        manifest = job("train", replicas=1, command=FAILING, maxRetry=3)
        await submit(stage, with_policies(manifest, on("PodFailed", "RestartJob")))
        await stage.until(lambda: stage.phase("train") == "Failed", timeout=300)
        assert watched.phases == [*told("Pending Running Restarting") * 3, "Failed"]
        now = status(stage, "train")
        assert (now["retryCount"], now["state"]["reason"]) == (3, "MaxRetryExceeded")
        assert len(stage.starts()) == 3
        assert [pod["metadata"]["name"] for pod in stage.pods("train")] == ["train-work-0"]

    play(story, register=False)


def test_no_retry_means_one_run() -> None:
    async def story(stage: Stage) -> None:
        manifest = job("train", replicas=1, command=FAILING)
        manifest["metadata"]["annotations"] = {keys.NO_RETRY: "true"}
        await submit(stage, with_policies(manifest, on("PodFailed", "RestartJob")))
        await stage.until(lambda: stage.phase("train") == "Failed")
        assert len(stage.starts()) == 1

    play(story, register=False)


@pytest.mark.parametrize(("action", "restarted"), [("RestartJob", 3), ("RestartTask", 2), ("RestartPod", 1)])
def test_an_evicted_pod_restarts_what_the_policy_names_and_uses_up_no_retry(action: str, restarted: int) -> None:
    async def story(stage: Stage) -> None:
        manifest = job("train", replicas=2, command="sleep 90")
        other = job("train", replicas=1, command="sleep 90")["spec"]["tasks"][0]
        manifest["spec"]["tasks"].append({**other, "name": "other"})
        manifest["spec"]["minAvailable"] = 3
        await submit(stage, with_policies(manifest, on("PodEvicted", action)))
        await stage.until(lambda: len(stage.running("train")) == 3)
        before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in stage.pods("train")}
        await stage.world.client(EAST).delete(kinds.POD, "train-work-1", namespace="default")
        await stage.until(lambda: stage.phase("train") == "Restarting")
        await stage.until(lambda: stage.phase("train") == "Running")
        await stage.until(lambda: len(stage.running("train")) == 3)
        after = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in stage.pods("train")}
        assert sum(after[name] != uid for name, uid in before.items()) == restarted
        now = status(stage, "train")
        assert now.get("retryCount", 0) == 0
        assert now["memory"]["evictions"] == 1
        await stage.until(lambda: stage.phase("train") == "Completed", timeout=300)

    play(story, register=False)


def test_a_pod_that_is_made_again_cancels_the_delayed_policy_of_its_eviction() -> None:
    async def story(stage: Stage) -> None:
        manifest = job("train", replicas=2, command="sleep 400")
        await submit(stage, with_policies(manifest, on("PodEvicted", "TerminateJob", timeout="5m")))
        await stage.until(lambda: stage.phase("train") == "Running")
        await stage.world.client(EAST).delete(kinds.POD, "train-work-1", namespace="default")
        await stage.until(lambda: "PodEvicted/train-work-1" in status(stage, "train")["memory"].get("since", {}))
        await stage.until(lambda: any("after 300s" in text for text in events(stage, "train", "ExecuteAction")))
        await stage.until(lambda: "PodEvicted/train-work-1" not in status(stage, "train")["memory"].get("since", {}))
        await stage.until(lambda: stage.phase("train") == "Completed", timeout=900)

    play(story, register=False)


def test_a_delayed_policy_survives_the_agent() -> None:
    async def story(stage: Stage) -> None:
        manifest = job("train", replicas=3, command="sleep 5 && exit 1", minimum=3)
        manifest["spec"]["tasks"][0]["replicas"] = 1
        manifest["spec"]["minAvailable"] = 2
        other = job("train", replicas=1, command="sleep 600")["spec"]["tasks"][0]
        manifest["spec"]["tasks"].append({**other, "name": "other"})
        await submit(stage, with_policies(manifest, on("PodFailed", "AbortJob", timeout="2m")))
        await stage.until(lambda: status(stage, "train").get("failed") == 1)
        failed_at = stage.world.clock.boot()
        stage.world.kill("agent-east")
        await stage.world.advance(90)
        assert stage.phase("train") == "Running"
        await stage.until(lambda: stage.phase("train") == "Aborted")
        assert 110 < stage.world.clock.boot() - failed_at < 135
        assert any("AbortJob after 120s" in text for text in events(stage, "train", "ExecuteAction"))

    play(story, register=False)


def test_a_pod_that_stays_pending_too_long_is_acted_on() -> None:
    async def story(stage: Stage) -> None:
        manifest = job("train", replicas=2, cpu="3", minimum=1, command="sleep 600")
        await submit(stage, with_policies(manifest, on("PodPending", "TerminateJob", timeout="1m")))
        await stage.until(lambda: stage.phase("train") == "Terminated", timeout=120)
        assert status(stage, "train")["state"]["reason"] == "PodPending"

    play(story, register=False, nodes=1, cpu="4")


def test_the_policies_of_a_task_come_before_those_of_the_job() -> None:
    async def story(stage: Stage) -> None:
        manifest = with_policies(job("train", replicas=1, command=FAILING), on("PodFailed", "AbortJob"))
        await submit(stage, with_policies(manifest, on("PodFailed", "TerminateJob"), task=True))
        await stage.until(lambda: stage.phase("train") == "Terminated")
        assert "policy of task work" in status(stage, "train")["state"]["message"]

    play(story, register=False)


def test_a_completed_task_completes_the_job() -> None:
    async def story(stage: Stage) -> None:
        manifest = job("train", replicas=2, command="sleep 5")
        other = job("train", replicas=1, command="sleep 600")["spec"]["tasks"][0]
        manifest["spec"]["tasks"].append({**other, "name": "other"})
        await submit(stage, with_policies(manifest, on("TaskCompleted", "CompleteJob"), task=True))
        await stage.until(lambda: stage.phase("train") == "Completed")
        assert status(stage, "train")["succeeded"] == 2
        await stage.until(lambda: len(stage.pods("train")) == 2)

    play(story, register=False)


def test_a_task_whose_containers_restart_too_often_has_failed() -> None:
    async def story(stage: Stage) -> None:
        manifest = job("train", replicas=1, command="sleep 1 && exit 1")
        task = manifest["spec"]["tasks"][0]
        task["maxRetry"] = 2
        task["template"]["spec"]["restartPolicy"] = "OnFailure"
        await submit(stage, with_policies(manifest, on("TaskFailed", "TerminateJob")))
        await stage.until(lambda: stage.phase("train") == "Terminated")
        assert "restarted 2 times of 2" in status(stage, "train")["state"]["message"]

    play(story, register=False)


def test_policies_may_wait_until_the_job_is_below_its_minimum() -> None:
    async def story(stage: Stage) -> None:
        manifest = job("train", replicas=3, command="sleep 300", minimum=2)
        manifest["metadata"]["annotations"] = {keys.ONLY_BELOW_MINIMUM: "true"}
        failing = job("train", replicas=1, command=FAILING)["spec"]["tasks"][0]
        manifest["spec"]["tasks"].append({**failing, "name": "spare", "minAvailable": 0})
        manifest["spec"]["tasks"][0]["minAvailable"] = 2
        await submit(stage, with_policies(manifest, on("PodFailed", "AbortJob"), on("PodEvicted", "AbortJob")))
        await stage.until(lambda: status(stage, "train").get("failed") == 1)
        await stage.world.client(EAST).delete(kinds.POD, "train-work-0", namespace="default")
        await stage.world.advance(20)
        assert stage.phase("train") == "Running"
        for name in ("train-work-0", "train-work-1"):
            await stage.world.client(EAST).delete(kinds.POD, name, namespace="default", grace_seconds=0)
        await stage.until(lambda: stage.phase("train") in ("Aborting", "Aborted"))

    play(story, register=False)


# --- Commands and suspend --------------------------------------------------------------------------------------------


def test_a_job_is_aborted_and_resumed_by_command() -> None:
    async def story(stage: Stage) -> None:
        watched = Watched(stage, "train")
        await submit(stage, job("train", replicas=2, command="sleep 60"))
        await stage.until(lambda: stage.phase("train") == "Running")
        await command(stage, "AbortJob", "train")
        await stage.until(lambda: stage.phase("train") == "Aborted")
        assert stage.pods("train") == []
        await command(stage, "ResumeJob", "train")
        await stage.until(lambda: stage.phase("train") == "Completed", timeout=300)
        assert watched.phases == told("Pending Running Aborting Aborted Restarting Pending Running Completed")
        assert status(stage, "train").get("retryCount", 0) == 0
        assert stage.world.all(kinds.COMMAND, server=EAST) == []
        assert events(stage, "train", "CommandIssued")

    play(story, register=False)


@pytest.mark.parametrize("before", [True, False])
def test_a_job_rests_while_it_is_suspended(before: bool) -> None:
    async def story(stage: Stage) -> None:
        manifest = job("train", replicas=2, command="sleep 30")
        if before:
            manifest["spec"]["suspend"] = True
        await submit(stage, manifest)
        client = stage.world.client(EAST)
        if not before:
            await stage.until(lambda: stage.phase("train") == "Running")
            note = {"metadata": {"annotations": {keys.SUSPEND: "true"}}}
            await client.patch(kinds.JOB, "train", note, type=PatchType.MERGE, namespace="default")
        rests = "Pending" if before else "Aborted"
        await stage.until(lambda: status(stage, "train").get("state", {}).get("reason") == "Suspended")
        await stage.until(lambda: stage.phase("train") == rests)
        await stage.world.advance(30)
        assert stage.phase("train") == rests
        assert stage.pods("train") == []
        go = {"metadata": {"annotations": {keys.SUSPEND: "false"}}}
        await client.patch(kinds.JOB, "train", go, type=PatchType.MERGE, namespace="default")
        await stage.until(lambda: stage.phase("train") == "Completed", timeout=200)
        assert len(stage.starts()) == (2 if before else 4)

    play(story, register=False)


@pytest.mark.parametrize(
    ("action", "reason"), [("MeltJob", "CommandRefused"), ("ResumeJob", "CommandTooLate"), ("OpenQueue", "CommandRefused")]
)
def test_a_command_that_cannot_be_carried_out_is_told_and_deleted(action: str, reason: str) -> None:
    async def story(stage: Stage) -> None:
        await submit(stage, job("train", command="sleep 30"))
        await stage.until(lambda: stage.phase("train") == "Running")
        await command(stage, action, "train", called="order")
        await stage.until(lambda: stage.world.all(kinds.COMMAND, server=EAST) == [])
        await stage.until(lambda: events(stage, "train", reason) != [])
        await stage.until(lambda: stage.phase("train") == "Completed")

    play(story, register=False)


def test_a_command_for_nobody_or_for_a_namesake_of_old_is_told_and_deleted() -> None:
    async def story(stage: Stage) -> None:
        await submit(stage, job("train", command="sleep 30"))
        await stage.until(lambda: stage.phase("train") == "Running")
        await command(stage, "AbortJob", "train", uid="uid-of-old")
        await command(stage, "AbortJob", "nobody", called="lonely")
        await stage.until(lambda: stage.world.all(kinds.COMMAND, server=EAST) == [])
        await stage.until(lambda: stage.phase("train") == "Completed")
        await stage.until(lambda: len(events(stage, "lonely", "CommandWithoutTarget")) == 1)

    play(story, register=False)


def test_a_run_that_takes_too_long_is_terminated_also_after_a_restart_of_the_agent() -> None:
    async def story(stage: Stage) -> None:
        manifest = job("train", command="sleep 600")
        manifest["metadata"]["annotations"] = {keys.MAX_RUN_TIME: "90s"}
        await submit(stage, manifest)
        await stage.until(lambda: stage.phase("train") == "Running")
        start = stage.world.clock.boot()
        stage.world.kill("agent-east")
        await stage.until(lambda: stage.phase("train") == "Terminated", timeout=300)
        assert 85 < stage.world.clock.boot() - start < 110
        assert status(stage, "train")["state"]["reason"] == "MaxRunTimeExceeded"

    play(story, register=False)


def test_a_main_container_ends_its_pod_though_another_lingers() -> None:
    async def story(stage: Stage) -> None:
        manifest = job("train", replicas=1, command="sleep 5")
        manifest["metadata"]["annotations"] = {keys.MAIN_CONTAINER: "work=main"}
        containers = manifest["spec"]["tasks"][0]["template"]["spec"]["containers"]
        containers.append({**containers[0], "name": "proxy", "command": ["sh", "-c", "sleep 9999"]})
        await submit(stage, manifest)
        await stage.until(lambda: stage.phase("train") == "Completed")
        assert status(stage, "train")["succeeded"] == 1
        await stage.until(lambda: stage.running("train") == [])

    play(story, register=False)


# --- scaling, dependencies, counters ---------------------------------------------------------------------------------


async def scale(stage: Stage, name: str, replicas: int, *, minimum: int | None = None) -> None:
    body = [{"op": "replace", "path": "/spec/tasks/0/replicas", "value": replicas}]
    if minimum is not None:
        body.append({"op": "replace", "path": "/spec/minAvailable", "value": minimum})
    await stage.world.client(EAST).patch(kinds.JOB, name, body, type=PatchType.JSON, namespace="default")


def names(stage: Stage, name: str) -> list[str]:
    return sorted(pod["metadata"]["name"] for pod in stage.pods(name))


def test_a_job_is_scaled_up_down_and_to_nothing() -> None:
    async def story(stage: Stage) -> None:
        await submit(stage, job("train", replicas=2, command="sleep 600", minimum=1))
        await stage.until(lambda: len(stage.running("train")) == 2)
        await scale(stage, "train", 4)
        await stage.until(lambda: len(stage.running("train")) == 4)
        await scale(stage, "train", 1)
        await stage.until(lambda: names(stage, "train") == ["train-work-0"])
        await scale(stage, "train", 0, minimum=0)
        await stage.until(lambda: names(stage, "train") == [])
        assert stage.phase("train") in ("Pending", "Running")
        await scale(stage, "train", 2, minimum=1)
        await stage.until(lambda: len(stage.running("train")) == 2)
        await stage.until(lambda: status(stage, "train").get("running") == 2)

    play(story, register=False)


def test_a_pod_that_was_scaled_away_is_no_eviction_when_it_comes_back() -> None:
    async def story(stage: Stage) -> None:
        manifest = job("train", replicas=3, command="sleep 600", minimum=1)
        await submit(stage, with_policies(manifest, on("PodEvicted", "AbortJob")))
        for replicas in (1, 3, 2, 3):
            await scale(stage, "train", replicas)
            await stage.until(lambda: len(stage.running("train")) == replicas == len(stage.pods("train")))  # noqa: B023
        assert stage.phase("train") == "Running"

    play(story, register=False)


def test_scaling_down_takes_the_pods_first_that_wait() -> None:
    async def story(stage: Stage) -> None:
        await submit(stage, job("train", replicas=3, cpu="3", command="sleep 600", minimum=1))
        await stage.until(lambda: len(stage.running("train")) == 2)
        waiting = next(name for name in names(stage, "train") if name not in stage.running("train"))
        running = sorted(stage.running("train"))
        await stage.world.client(EAST).delete(kinds.POD, running[0], namespace="default")
        await stage.until(lambda: waiting in stage.running("train"))
        left = sorted(stage.running("train"))
        await scale(stage, "train", 2)
        await stage.until(lambda: names(stage, "train") == left)
        await stage.world.advance(30)
        assert names(stage, "train") == left

    play(story, register=False, nodes=2, cpu="4")


def test_a_task_waits_for_the_tasks_it_depends_on() -> None:
    async def story(stage: Stage) -> None:
        manifest = job("train", replicas=2, command="sleep 30", minimum=1)
        after = job("train", replicas=1, command="sleep 5")["spec"]["tasks"][0]
        manifest["spec"]["tasks"].append({**after, "name": "after", "dependsOn": {"name": ["work"]}})
        await submit(stage, manifest)
        await stage.until(lambda: len(stage.running("train")) == 3)
        starts = stage.starts()
        assert starts[-1] == "train-after-0"
        await stage.until(lambda: stage.phase("train") == "Completed")

    play(story, register=False)


def test_a_pod_that_succeeded_and_was_deleted_still_counts_and_is_not_run_again() -> None:
    async def story(stage: Stage) -> None:
        manifest = job("train", replicas=1, command="sleep 5", minimum=2)
        other = job("train", replicas=1, command="sleep 60")["spec"]["tasks"][0]
        manifest["spec"]["tasks"].append({**other, "name": "other"})
        await submit(stage, with_policies(manifest, on("PodEvicted", "AbortJob")))
        await stage.until(lambda: status(stage, "train").get("succeeded") == 1)
        await stage.world.client(EAST).delete(kinds.POD, "train-work-0", namespace="default")
        stage.world.kill("agent-east")
        await stage.until(lambda: stage.phase("train") == "Completed")
        assert status(stage, "train")["succeeded"] == 2
        assert sorted(stage.starts()) == ["train-other-0", "train-work-0"]

    play(story, register=False)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda spec: spec.update(queue="nowhere"), "queue nowhere does not exist"),
        (
            lambda spec: spec.update(volumes=[{"mountPath": "/data", "volumeClaimName": "nothing"}]),
            "claim nothing does not exist",
        ),
    ],
)
def test_a_job_that_waits_says_for_what(change: Callable[[Doc], None], words: str) -> None:
    async def story(stage: Stage) -> None:
        manifest = job("train")
        change(manifest["spec"])
        await submit(stage, manifest)
        await stage.until(lambda: words in status(stage, "train").get("state", {}).get("message", ""))
        assert stage.phase("train") == "Pending"

    play(story, register=False)


def test_what_no_webhook_has_seen_fails_with_the_field() -> None:
    async def story(stage: Stage) -> None:
        manifest = job("train")
        manifest["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["name"] = "Not A Name"
        await submit(stage, manifest)
        await submit(stage, job("good"))
        await stage.until(lambda: stage.phase("train") == "Failed")
        state = status(stage, "train")["state"]
        assert state["reason"] == "Invalid"
        assert "spec.tasks[0].template.spec.containers[0].name" in state["message"]
        await stage.until(lambda: stage.phase("good") == "Completed")
        assert stage.pods("train") == []

    play(story, register=False)


@pytest.mark.parametrize(("action", "end"), [("RestartJob", "Pending"), ("AbortJob", "Aborted")])
def test_a_gang_that_loses_a_member_and_finds_no_room_for_it_is_unknown(action: str, end: str) -> None:
    async def story(stage: Stage) -> None:
        await submit(stage, with_policies(job("train", replicas=2, cpu="3", command="sleep 600"), on("Unknown", action)))
        await stage.until(lambda: len(stage.running("train")) == 2)
        client = stage.world.client(EAST)
        for name in ("node-0", "node-1"):
            taint = {"spec": {"taints": [{"key": "full", "effect": "NoSchedule"}]}}
            await client.patch(kinds.NODE, name, taint, type=PatchType.MERGE)
        watched = Watched(stage, "train")
        await client.delete(kinds.POD, "train-work-1", namespace="default")
        await stage.until(lambda: stage.phase("train") == end and len(watched.phases) > 2)
        assert watched.phases[-2] == {"RestartJob": "Restarting", "AbortJob": "Aborting"}[action]
        assert status(stage, "train").get("retryCount", 0) == 0

    play(story, register=False, nodes=2, cpu="4")


def test_a_job_that_cannot_even_be_read_is_failed_by_name_of_the_field() -> None:
    async def story(stage: Stage) -> None:
        manifest = job("train")
        manifest["spec"]["tasks"][0]["template"]["spec"]["affinity"] = "here"
        await submit(stage, manifest)
        await stage.until(lambda: stage.phase("train") == "Failed")
        assert "spec" in status(stage, "train")["state"]["message"]
        assert status(stage, "train")["state"]["reason"] == "Invalid"

    play(story, register=False)


def test_ends_are_counted_by_queue_and_pods_are_timed() -> None:
    async def story(stage: Stage) -> None:
        registry = CollectorRegistry()
        metrics = Metrics(registry)
        client = stage.world.client(EAST)
        informers = Informers(client, stage.world.clock, Chance(1))
        projector = views.Projector()
        stores = Stores(
            jobs=informers.add(kinds.JOB, projector.job),
            groups=informers.add(kinds.POD_GROUP, views.project_group),
            pods=informers.add(kinds.POD, projector.pod),
            queues=informers.add(kinds.QUEUE, views.project_queue),
            works=informers.add(kinds.WORK, views.project_work),
            priorities=informers.add(kinds.PRIORITY_CLASS, views.project_priority),
            claims=informers.add(kinds.CLAIM, project_claim),
            commands=informers.add(kinds.COMMAND, project_command),
        )
        recorder = EventRecorder(client, component="test", instance="test", clock=stage.world.clock, chance=Chance(2))
        controller = JobController(port=client, stores=stores, events=recorder, clock=stage.world.clock, settings=JobSettings())
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(informers.run()), group.create_task(controller.run(metrics))]
            await submit(stage, job("good", command="sleep 5"))
            await submit(stage, job("bad", command=FAILING))
            await stage.until(lambda: (stage.phase("good"), stage.phase("bad")) == ("Completed", "Failed"))
            for task in tasks:
                task.cancel()
        counted = {
            end: registry.get_sample_value(f"volcano_job_{end}_phase_count", {"queue_name": "default"})
            for end in ("completed", "failed")
        }
        assert counted == {"completed": 1.0, "failed": 1.0}
        assert registry.get_sample_value("volcano_controller_job_to_pod_creation_latency_milliseconds_count") == 2.0

    async def main(clock: SimClock, chance: Chance, ids: Ids) -> None:
        """The member without its own Job controller: one that tells its metrics runs in its place."""
        members = {EAST: Member(nodes=uniform("node", 2, cpu="8"))}
        async with World(1, members=members, programs=Programs(member={"agent": others})) as world:
            await story(Stage(world))
            assert world.crashes == []

    run_virtual(main, seed=1)


async def others(at: Surroundings) -> None:
    """The agent with a Job controller that never looks."""
    assert at.local is not None
    settings = AgentSettings(cluster=at.member, jobs=JobSettings(coalesce=1e9), **at.settings)
    await run_agent(at.hub, at.local, clock=at.clock, chance=at.chance, ids=at.ids, settings=settings)


def test_a_job_that_runs_but_can_go_no_further_says_why() -> None:
    async def story(stage: Stage) -> None:
        manifest = job("train", replicas=1, command="exit 3", minimum=1)
        after = job("train", replicas=1)["spec"]["tasks"][0]
        manifest["spec"]["tasks"].append({**after, "name": "after", "dependsOn": {"name": ["work"]}})
        await submit(stage, manifest)
        await stage.until(lambda: status(stage, "train").get("failed") == 1)
        await stage.until(lambda: "task after waits for task work" in status(stage, "train")["state"].get("message", ""))
        assert stage.phase("train") == "Running"

    play(story, register=False)
