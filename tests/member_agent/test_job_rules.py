"""Rules of a Job, one story each, on the real agent in a simulated member (reference/volcano.md 1.5 to 1.8).

Jobs are submitted at the member itself, as a user of one cluster would.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from apis import keys, kinds, naming
from machinery.port import PatchType
from simulator.pods import MISSING_IMAGE
from tests.member_agent.world import EAST, Doc, Stage, play

Story = Callable[[Stage], Awaitable[None]]
AGENT = f"agent-{EAST}"
FOREVER = "sleep infinity"
ENDED = ("Completed", "Failed", "Terminated", "Aborted")


def task(name: str, command: str = FOREVER, *, replicas: int = 1, pod: Doc | None = None, **fields: Any) -> Doc:
    """One role; its pods run `command`."""
    container = {
        "name": "main",
        "image": "busybox:1",
        "command": ["sh", "-c", command],
        "resources": {"requests": {"cpu": "100m"}},
    }
    spec = {"restartPolicy": "Never", "containers": [container], **(pod or {})}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}, **fields}


async def submit(stage: Stage, name: str, *tasks: Doc, annotations: dict[str, str] | None = None, **spec: Any) -> None:
    """`kubectl create`, once the member is there for its users."""
    await stage.until(lambda: stage.world.get(kinds.QUEUE, "default", server=EAST) is not None)
    body = {
        "apiVersion": kinds.JOB.api_version,
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations or {}},
        "spec": {"queue": "default", "tasks": list(tasks), **spec},
    }
    await stage.world.client(EAST).create(kinds.JOB, body, namespace="default")


async def reaches(stage: Stage, name: str, *phases: str, timeout: float = 120) -> Doc:
    """The Job in one of the phases."""
    await stage.until(lambda: stage.phase(name) in phases, timeout=timeout, what=f"{name} in {phases}")
    return there(stage, name)


def there(stage: Stage, name: str) -> Doc:
    found = stage.local(name)
    assert found is not None
    return found


def status_of(stage: Stage, name: str) -> Doc:
    found: Doc = there(stage, name).get("status") or {}
    return found


def status_reason(stage: Stage, name: str) -> str:
    return str((status_of(stage, name).get("state") or {}).get("reason", ""))


HERE = {"example.com/here": "true"}
"""A label that one node has as long as a story wants."""


async def only_here(stage: Stage, *, there: bool, node: str = "") -> str:
    """One node gets the label HERE or loses it; its name."""
    name = node or str(stage.world.all(kinds.NODE, server=EAST)[0]["metadata"]["name"])
    labels = {key: value if there else None for key, value in HERE.items()}
    await stage.world.client(EAST).patch(kinds.NODE, name, {"metadata": {"labels": labels}}, type=PatchType.MERGE)
    return name


def visited(job: Doc) -> list[str]:
    return [each["status"] for each in job["status"]["conditions"]]


def number(job: Doc, name: str) -> int:
    return int(job["status"].get(name) or 0)


def names(stage: Stage, job: str, *, phase: str = "") -> set[str]:
    """Pods of the Job, without its name, that are not being deleted."""
    return {
        pod["metadata"]["name"].removeprefix(f"{job}-")
        for pod in stage.pods(job)
        if "deletionTimestamp" not in pod["metadata"] and phase in ("", (pod.get("status") or {}).get("phase"))
    }


def uids(stage: Stage, job: str) -> dict[str, str]:
    return {pod["metadata"]["name"].removeprefix(f"{job}-"): pod["metadata"]["uid"] for pod in stage.pods(job)}


def events(stage: Stage, job: str, reason: str) -> list[str]:
    found = stage.world.all(kinds.EVENT, server=EAST)
    return [each["message"] for each in found if each["involvedObject"]["name"] == job and each["reason"] == reason]


async def lose(stage: Stage, pod: str) -> None:
    """Somebody deletes a pod."""
    await stage.world.client(EAST).delete(kinds.POD, pod, namespace="default", grace_seconds=0)


async def order(stage: Stage, job: str, action: str, *, name: str = "order") -> None:
    """A Command for the Job."""
    target = {"apiVersion": kinds.JOB.api_version, "kind": "Job", "name": job, "uid": there(stage, job)["metadata"]["uid"]}
    body = {
        "apiVersion": kinds.COMMAND.api_version,
        "kind": "Command",
        "metadata": {"name": f"{job}-{name}", "namespace": "default"},
        "action": action,
        "target": target,
    }
    await stage.world.client(EAST).create(kinds.COMMAND, body, namespace="default")


async def change(stage: Stage, job: str, patch: Doc) -> None:
    await stage.world.client(EAST).patch(kinds.JOB, job, patch, type=PatchType.MERGE, namespace="default")


def told(story: Story) -> None:
    play(story)


# --- 1.5 which policy acts -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("action", "by", "end"),
    [
        ("AbortJob", "Aborting", "Aborted"),
        ("TerminateJob", "Terminating", "Terminated"),
        ("CompleteJob", "Completing", "Completed"),
    ],
)
def test_a_failed_pod_stops_the_job_as_its_policy_says(action: str, by: str, end: str) -> None:
    async def story(stage: Stage) -> None:
        policy = {"event": "PodFailed", "action": action}
        await submit(stage, "train", task("bad", "sleep 3; exit 1"), task("good"), policies=[policy])
        job = await reaches(stage, "train", *ENDED)
        assert visited(job)[-2:] == [by, end]
        await stage.until(lambda: names(stage, "train") == {"bad-0"}, what="ended pods are kept, the others go")
        await stage.until(lambda: any(action in text for text in events(stage, "train", "ExecuteAction")))

    told(story)


def test_the_exit_code_decides_where_a_policy_names_it() -> None:
    async def story(stage: Stage) -> None:
        policies = [{"exitCode": 3, "action": "TerminateJob"}, {"exitCode": 4, "action": "AbortJob"}]
        for name, code in (("three", 3), ("four", 4), ("five", 5)):
            await submit(stage, name, task("bad", f"sleep 2; exit {code}"), policies=policies)
        ends = {name: (await reaches(stage, name, *ENDED))["status"]["state"]["phase"] for name in ("three", "four", "five")}
        assert ends == {"three": "Terminated", "four": "Aborted", "five": "Failed"}

    told(story)


def test_policies_of_the_task_come_before_those_of_the_job_and_each_in_order() -> None:
    async def story(stage: Stage) -> None:
        of_task = [{"event": "PodFailed", "action": "AbortJob"}, {"exitCode": 1, "action": "CompleteJob"}]
        of_job = [{"event": "PodFailed", "action": "TerminateJob"}]
        await submit(stage, "task-first", task("bad", "sleep 2; exit 1", policies=of_task), policies=of_job)
        in_order = [{"exitCode": 1, "action": "CompleteJob"}, {"event": "PodFailed", "action": "AbortJob"}]
        await submit(stage, "in-order", task("bad", "sleep 2; exit 1"), policies=in_order)
        other = [{"event": "PodEvicted", "action": "AbortJob"}]
        await submit(stage, "falls-through", task("bad", "sleep 2; exit 1", policies=other), policies=of_job)
        ends = {name: (await reaches(stage, name, *ENDED))["status"]["state"]["phase"] for name in ("task-first", "in-order")}
        assert ends == {"task-first": "Aborted", "in-order": "Completed"}
        await reaches(stage, "falls-through", "Terminated")

    told(story)


@pytest.mark.parametrize("events_named", [{"event": "*"}, {"events": ["PodFailed", "PodEvicted"]}], ids=["any", "list"])
def test_one_policy_may_stand_for_several_events(events_named: Doc) -> None:
    async def story(stage: Stage) -> None:
        policy = {**events_named, "action": "AbortJob"}
        await submit(stage, "fails", task("bad", "sleep 2; exit 1"), policies=[policy])
        await submit(stage, "evicted", task("good"), policies=[policy])
        await reaches(stage, "fails", "Aborted")
        await reaches(stage, "evicted", "Running")
        await lose(stage, "evicted-good-0")
        await reaches(stage, "evicted", "Aborted")

    told(story)


def test_a_pending_pod_is_an_event_only_with_a_timeout() -> None:
    async def story(stage: Stage) -> None:
        nowhere = {"nodeSelector": {"example.com/nowhere": "true"}}
        at_once = {"event": "PodPending", "action": "AbortJob"}
        await submit(stage, "waits", task("w", pod=nowhere), policies=[at_once])
        await submit(stage, "ends", task("w", pod=nowhere), policies=[{**at_once, "timeout": "20s"}])
        await stage.until(lambda: bool(stage.pods("ends")))
        begun = stage.world.clock.now()
        await reaches(stage, "ends", "Aborted")
        assert 18 <= (stage.world.clock.now() - begun).total_seconds() <= 25
        assert stage.phase("waits") == "Pending"

    told(story)


def test_a_pod_that_runs_calls_its_pending_timer_off() -> None:
    async def story(stage: Stage) -> None:
        policy = {"event": "PodPending", "action": "AbortJob", "timeout": "30s"}
        await submit(stage, "train", task("w", "sleep 90"), policies=[policy])
        job = await reaches(stage, "train", *ENDED)
        assert visited(job) == ["Pending", "Running", "Completed"]

    told(story)


def test_a_timeout_is_waited_for_and_survives_the_agent() -> None:
    async def story(stage: Stage) -> None:
        policy = {"event": "PodEvicted", "action": "TerminateJob", "timeout": "60s"}
        node = await only_here(stage, there=True)
        await submit(stage, "train", task("w", pod={"nodeSelector": HERE}), policies=[policy])
        await reaches(stage, "train", "Running")
        await only_here(stage, node=node, there=False)
        begun = stage.world.clock.now()
        await lose(stage, "train-w-0")
        await stage.world.advance(30)
        stage.world.kill(AGENT)
        await reaches(stage, "train", "Terminated", timeout=200)
        assert 55 <= (stage.world.clock.now() - begun).total_seconds() <= 80, "neither forgotten nor begun again"

    told(story)


def test_a_pod_that_runs_again_calls_the_timer_of_its_loss_off() -> None:
    async def story(stage: Stage) -> None:
        policy = {"event": "PodEvicted", "action": "TerminateJob", "timeout": "60s"}
        await submit(stage, "train", task("w"), policies=[policy])
        await reaches(stage, "train", "Running")
        await lose(stage, "train-w-0")
        await stage.until(lambda: names(stage, "train", phase="Running") == {"w-0"})
        await stage.world.advance(120)
        assert stage.phase("train") == "Running"
        assert [text for text in events(stage, "train", "ExecuteAction") if "after 60s" not in text] == []

    told(story)


def test_a_task_that_has_completed_is_an_event() -> None:
    async def story(stage: Stage) -> None:
        policy = {"event": "TaskCompleted", "action": "CompleteJob"}
        await submit(stage, "train", task("batch", "sleep 5", replicas=2, policies=[policy]), task("server"))
        job = await reaches(stage, "train", *ENDED)
        assert visited(job)[-2:] == ["Completing", "Completed"]
        assert names(stage, "train") == {"batch-0", "batch-1"}

    told(story)


def test_containers_restarted_too_often_fail_their_task() -> None:
    async def story(stage: Stage) -> None:
        policy = {"event": "TaskFailed", "action": "TerminateJob"}
        crash = task("crash", "sleep 1; exit 1", pod={"restartPolicy": "OnFailure"}, maxRetry=2)
        await submit(stage, "train", crash, policies=[policy])
        job = await reaches(stage, "train", *ENDED, timeout=300)
        assert job["status"]["state"]["phase"] == "Terminated"
        await stage.until(lambda: any("restarted 2 times of 2" in text for text in events(stage, "train", "ExecuteAction")))

    told(story)


def test_a_changed_spec_is_an_event_that_only_its_name_means() -> None:
    async def story(stage: Stage) -> None:
        await submit(stage, "named", task("w"), minAvailable=1, policies=[{"event": "JobUpdated", "action": "AbortJob"}])
        await submit(stage, "any", task("w"), minAvailable=1, policies=[{"event": "*", "action": "AbortJob"}])
        for name in ("named", "any"):
            await reaches(stage, name, "Running")
            await change(stage, name, {"spec": {"tasks": [{**task("w"), "replicas": 2}]}})
        await reaches(stage, "named", "Aborted")
        await stage.until(lambda: len(stage.running("any")) == 2)
        assert stage.phase("any") == "Running"

    told(story)


def test_a_changed_spec_restarts_the_job_once() -> None:
    async def story(stage: Stage) -> None:
        policies: list[Doc] = [{"event": "JobUpdated", "action": "RestartJob"}]
        plugins: Doc = {"svc": []}
        await submit(stage, "train", task("w"), minAvailable=1, policies=policies, plugins=plugins)
        await reaches(stage, "train", "Running")
        await change(stage, "train", {"spec": {"tasks": [{**task("w"), "replicas": 2}]}})
        await stage.until(lambda: number(there(stage, "train"), "version") == 1)
        await stage.until(lambda: len(stage.running("train")) == 2)
        await stage.world.advance(30)
        job = there(stage, "train")
        assert (stage.phase("train"), number(job, "retryCount"), number(job, "version")) == ("Running", 1, 1)
        hosts = stage.world.get(kinds.CONFIGMAP, "train-svc", namespace="default", server=EAST)
        assert hosts is not None
        assert hosts["data"]["w.host"].split() == ["train-w-0.train", "train-w-1.train"]

    told(story)


def test_a_group_that_became_unknown_is_an_event() -> None:
    async def story(stage: Stage) -> None:
        await submit(stage, "train", task("w"), policies=[{"event": "Unknown", "action": "AbortJob"}])
        job = await reaches(stage, "train", "Running")
        group = naming.pod_group_name("train", uid=job["metadata"]["uid"])
        lost = {"status": {"phase": "Unknown"}}
        await stage.world.client(EAST).patch(kinds.POD_GROUP, group, lost, type=PatchType.MERGE, namespace="default")
        await reaches(stage, "train", "Aborted")
        await stage.until(lambda: any("the gang has lost pods" in text for text in events(stage, "train", "ExecuteAction")))

    told(story)


@pytest.mark.parametrize(("action", "end"), [("RestartJob", "Pending"), ("RestartTask", "Terminated")])
def test_an_action_ends_the_timers_of_its_scope_and_no_others(action: str, end: str) -> None:
    async def story(stage: Stage) -> None:
        node = await only_here(stage, there=True)
        lost = task(
            "lost", pod={"nodeSelector": HERE}, policies=[{"event": "PodEvicted", "action": "TerminateJob", "timeout": "60s"}]
        )
        fails = task("fails", "sleep 20; exit 1", policies=[{"event": "PodFailed", "action": action}])
        await submit(stage, "train", lost, fails, maxRetry=9)
        await reaches(stage, "train", "Running")
        await only_here(stage, node=node, there=False)
        await lose(stage, "train-lost-0")
        await stage.until(lambda: number(there(stage, "train"), "retryCount") == 1)
        await stage.world.advance(120)
        assert stage.phase("train") == end

    told(story)


def test_pods_that_are_refused_for_good_end_the_job() -> None:
    async def story(stage: Stage) -> None:
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
        says = {"expression": "!object.metadata.name.startsWith('train')", "message": "no trains here"}
        client = stage.world.client(EAST)
        spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [says], "failurePolicy": "Fail"}
        await client.create(kinds.ADMISSION_POLICY, {"metadata": {"name": "no-trains"}, "spec": spec})
        binding = {"policyName": "no-trains", "validationActions": ["Deny"]}
        await client.create(kinds.ADMISSION_POLICY_BINDING, {"metadata": {"name": "no-trains"}, "spec": binding})
        await submit(stage, "train", task("w"))
        await stage.until(lambda: "no trains here" in str(status_of(stage, "train")))
        await stage.until(lambda: bool(events(stage, "train", "FailedCreate")))
        job = await reaches(stage, "train", *ENDED, timeout=3600)
        assert job["status"]["state"]["phase"] == "Terminated"
        assert "no trains here" in job["status"]["state"]["message"]

    told(story)


def test_events_of_older_pods_mean_nothing() -> None:
    async def story(stage: Stage) -> None:
        policy = {"event": "PodEvicted", "action": "AbortJob"}
        await submit(stage, "train", task("w", replicas=3), policies=[policy], maxRetry=5)
        await reaches(stage, "train", "Running")
        await order(stage, "train", "RestartJob")
        job = await reaches(stage, "train", "Restarting")
        await stage.until(lambda: stage.phase("train") == "Running" and number(there(stage, "train"), "version") == 1)
        await stage.world.advance(30)
        job = there(stage, "train")
        assert stage.phase("train") == "Running"
        assert (number(job, "retryCount"), number(job, "version")) == (1, 1)

    told(story)


def test_pods_of_a_deleted_namesake_do_not_hurt_the_new_job() -> None:
    async def story(stage: Stage) -> None:
        policy = {"event": "PodFailed", "action": "TerminateJob"}
        slow = "trap 'sleep 8; exit 3' TERM; sleep infinity"
        grace = {"terminationGracePeriodSeconds": 20}
        await submit(stage, "train", task("w", slow, replicas=2, pod=grace), policies=[policy])
        await reaches(stage, "train", "Running")
        old = set(uids(stage, "train").values())
        await stage.world.client(EAST).delete(kinds.JOB, "train", namespace="default")
        await stage.until(lambda: stage.local("train") is None)
        await submit(stage, "train", task("w", slow, replicas=2, pod=grace), policies=[policy])
        job = await reaches(stage, "train", "Running")
        assert not old & set(uids(stage, "train").values())
        assert visited(job) == ["Pending", "Running"]

    told(story)


# --- 1.6 phases ------------------------------------------------------------------------------------------------------
def test_max_retry_counts_runs_and_the_last_failed_pods_are_kept() -> None:
    async def story(stage: Stage) -> None:
        policy = {"event": "PodFailed", "action": "RestartJob"}
        await submit(stage, "train", task("bad", "sleep 2; exit 1"), policies=[policy], maxRetry=3)
        job = await reaches(stage, "train", "Failed")
        assert number(job, "retryCount") == 3
        assert stage.starts() == ["train-bad-0"] * 3
        (pod,) = stage.pods("train")
        assert pod["status"]["phase"] == "Failed"
        assert pod["metadata"]["annotations"][keys.JOB_RETRY_COUNT] == "2"
        assert job["status"]["state"]["reason"]

    told(story)


@pytest.mark.parametrize(
    ("action", "renewed"),
    [
        ("RestartTask", {"w-0", "w-1", "w-2", "w-3"}),
        ("RestartPartition", {"w-2", "w-3"}),
        ("RestartPod", {"w-3"}),
        ("RestartJob", {"w-0", "w-1", "w-2", "w-3", "other-0"}),
    ],
)
def test_a_restart_means_what_its_name_says(action: str, renewed: set[str]) -> None:
    async def story(stage: Stage) -> None:
        parts = {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 2}
        policy = {"event": "PodEvicted", "action": action}
        work = task("w", replicas=4, partitionPolicy=parts, policies=[policy])
        await submit(stage, "train", work, task("other"), minAvailable=5)
        await reaches(stage, "train", "Running")
        before = uids(stage, "train")
        await lose(stage, "train-w-3")
        await stage.until(lambda: stage.phase("train") == "Running" and number(there(stage, "train"), "version") == 1)
        await stage.until(lambda: len(stage.running("train")) == 5)
        after = uids(stage, "train")
        assert {name for name in after if after[name] != before[name]} == renewed
        assert "Restarting" in visited(there(stage, "train"))

    told(story)


def test_a_job_without_pods_stays_as_it_is() -> None:
    async def story(stage: Stage) -> None:
        await submit(stage, "train", task("w", replicas=2), minAvailable=0)
        await reaches(stage, "train", "Running")
        await change(stage, "train", {"spec": {"minAvailable": 0, "tasks": [{**task("w"), "replicas": 0, "minAvailable": 0}]}})
        await stage.until(lambda: not stage.pods("train"))
        await stage.world.advance(30)
        assert stage.phase("train") == "Running"

    told(story)


def test_enough_successes_complete_and_too_few_fail() -> None:
    async def story(stage: Stage) -> None:
        good, bad = task("good", "sleep 2", replicas=2, minAvailable=1), task("bad", "sleep 2; exit 1")
        await submit(stage, "enough", good, {**bad, "minAvailable": 0}, minAvailable=2)
        await submit(stage, "few", good, {**bad, "minAvailable": 0}, minAvailable=3)
        done = await reaches(stage, "enough", *ENDED)
        assert (number(done, "succeeded"), number(done, "failed")) == (2, 1)
        assert done["status"]["state"]["phase"] == "Completed"
        failed = await reaches(stage, "few", *ENDED)
        assert failed["status"]["state"]["phase"] == "Failed"
        assert "2 pods succeeded, 1 failed; 3 had to succeed" in failed["status"]["state"]["message"]

    told(story)


def test_min_success_ends_the_job_early_and_fails_it_when_it_is_not_reached() -> None:
    async def story(stage: Stage) -> None:
        await submit(stage, "early", task("w", "sleep 2"), task("rest", replicas=2), minSuccess=1)
        done = await reaches(stage, "early", *ENDED)
        assert done["status"]["state"]["phase"] == "Completed"
        await stage.until(lambda: names(stage, "early") == {"w-0"})
        await submit(stage, "missed", task("w", "sleep 2"), task("bad", "sleep 2; exit 1"), minSuccess=2)
        failed = await reaches(stage, "missed", *ENDED)
        assert failed["status"]["state"]["phase"] == "Failed"

    told(story)


def test_a_task_below_its_own_minimum_fails_the_job() -> None:
    async def story(stage: Stage) -> None:
        judge = task("judge", "sleep 2; exit 1", minAvailable=1)
        await submit(stage, "train", judge, task("w", "sleep 2", replicas=5, minAvailable=1), minAvailable=2)
        job = await reaches(stage, "train", *ENDED)
        assert job["status"]["state"]["phase"] == "Failed"
        assert "judge" in job["status"]["state"]["message"]

    told(story)


def test_a_gang_that_loses_its_nodes_waits_again() -> None:
    async def story(stage: Stage) -> None:
        node = await only_here(stage, there=True)
        await submit(stage, "train", task("w", replicas=2, pod={"nodeSelector": HERE}))
        await reaches(stage, "train", "Running")
        await only_here(stage, node=node, there=False)
        await lose(stage, "train-w-0")
        job = await reaches(stage, "train", "Pending")
        assert visited(job) == ["Running", "Pending"], "a phase entered again moves to the end"
        assert number(job, "retryCount") == 0

    told(story)


def test_commands_abort_resume_restart_complete_once_each() -> None:
    async def story(stage: Stage) -> None:
        await submit(stage, "train", task("w", replicas=2), maxRetry=5)
        await reaches(stage, "train", "Running")
        await order(stage, "train", "AbortJob", name="one")
        aborted = await reaches(stage, "train", "Aborted")
        assert visited(aborted)[-2:] == ["Aborting", "Aborted"]
        assert not stage.pods("train")
        await order(stage, "train", "ResumeJob", name="two")
        resumed = await reaches(stage, "train", "Running")
        assert "Restarting" in visited(resumed)
        await order(stage, "train", "RestartJob", name="three")
        await stage.until(lambda: number(there(stage, "train"), "retryCount") == number(resumed, "retryCount") + 1)
        await reaches(stage, "train", "Running")
        await order(stage, "train", "CompleteJob", name="four")
        await reaches(stage, "train", "Completed")
        await stage.until(lambda: not stage.world.all(kinds.COMMAND, server=EAST))
        await stage.until(lambda: len(events(stage, "train", "CommandIssued")) == 4)

    told(story)


@pytest.mark.parametrize("end", ["CompleteJob", "TerminateJob"])
def test_a_job_that_has_ended_can_not_be_resumed(end: str) -> None:
    async def story(stage: Stage) -> None:
        await submit(stage, "train", task("w"))
        await reaches(stage, "train", "Running")
        await order(stage, "train", end)
        ended = await reaches(stage, "train", *ENDED)
        await order(stage, "train", "ResumeJob", name="late")
        await stage.until(lambda: not stage.world.all(kinds.COMMAND, server=EAST))
        await stage.world.advance(20)
        assert stage.phase("train") == ended["status"]["state"]["phase"]
        await stage.until(lambda: bool(events(stage, "train", "CommandTooLate")))

    told(story)


def test_a_command_that_cannot_be_read_is_refused_with_a_reason_and_deleted() -> None:
    async def story(stage: Stage) -> None:
        await submit(stage, "train", task("w"))
        await reaches(stage, "train", "Running")
        await order(stage, "train", "Explode")
        await stage.until(lambda: not stage.world.all(kinds.COMMAND, server=EAST))
        await stage.until(lambda: any("Explode" in text for text in events(stage, "train", "CommandRefused")))
        assert stage.phase("train") == "Running"

    told(story)


def test_slow_pods_count_as_terminating_until_they_are_gone() -> None:
    async def story(stage: Stage) -> None:
        slow = task("w", "trap 'sleep 15; exit 0' TERM; sleep infinity", replicas=2, pod={"terminationGracePeriodSeconds": 60})
        await submit(stage, "train", slow)
        await reaches(stage, "train", "Running")
        await order(stage, "train", "TerminateJob")
        await stage.until(lambda: number(there(stage, "train"), "terminating") == 2)
        begun = stage.world.clock.now()
        assert stage.phase("train") == "Terminating"
        job = await reaches(stage, "train", "Terminated")
        assert (stage.world.clock.now() - begun).total_seconds() >= 10
        assert number(job, "terminating") == 0

    told(story)


def test_a_kill_takes_group_and_plugin_objects_along() -> None:
    async def story(stage: Stage) -> None:
        volumes = [{"mountPath": "/scratch", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}}]
        await submit(stage, "train", task("w"), volumes=volumes, plugins={"svc": [], "ssh": []})
        await reaches(stage, "train", "Running")
        made = (kinds.POD_GROUP, kinds.SERVICE, kinds.CONFIGMAP, kinds.SECRET, kinds.NETWORK_POLICY)
        assert [len(stage.world.all(kind, namespace="default", server=EAST)) for kind in made] == [1] * len(made)
        await order(stage, "train", "AbortJob")
        await reaches(stage, "train", "Aborted")
        await stage.until(lambda: not any(stage.world.all(kind, namespace="default", server=EAST) for kind in made))
        assert len(stage.world.all(kinds.CLAIM, server=EAST)) == 1
        await order(stage, "train", "ResumeJob", name="on")
        await reaches(stage, "train", "Running")
        assert [len(stage.world.all(kind, namespace="default", server=EAST)) for kind in made] == [1] * len(made)

    told(story)


# --- 1.7 groups and pods ---------------------------------------------------------------------------------------------
def test_no_pod_is_made_before_the_group_is_let_in() -> None:
    async def story(stage: Stage) -> None:
        huge = {"containers": [{"name": "main", "image": "busybox:1", "resources": {"requests": {"cpu": "1000"}}}]}
        await submit(stage, "train", task("w", replicas=2, pod=huge))
        await reaches(stage, "train", "Pending")
        await stage.world.advance(30)
        group = naming.pod_group_name("train", uid=there(stage, "train")["metadata"]["uid"])
        found = stage.world.get(kinds.POD_GROUP, group, namespace="default", server=EAST)
        assert found is not None
        assert found["status"].get("phase", "Pending") == "Pending"
        assert stage.pods("train") == []
        assert status_of(stage, "train")["state"]["message"], "a Job that waits says why"

    told(story)


def test_the_group_follows_its_job() -> None:
    async def story(stage: Stage) -> None:
        await submit(stage, "train", task("w", replicas=3, minAvailable=1), minAvailable=1)
        job = await reaches(stage, "train", "Running")
        name = naming.pod_group_name("train", uid=job["metadata"]["uid"])

        def spec() -> Doc:
            found = stage.world.get(kinds.POD_GROUP, name, namespace="default", server=EAST)
            return dict(found["spec"]) if found is not None else {}

        assert (spec()["minMember"], spec()["minTaskMember"], spec()["minResources"]["pods"]) == (1, {"w": 1}, "1")
        scaled = {**task("w"), "replicas": 4, "minAvailable": 2}
        await change(stage, "train", {"spec": {"minAvailable": 2, "tasks": [scaled]}})
        await stage.until(lambda: spec()["minMember"] == 2)
        assert (spec()["minTaskMember"], spec()["minResources"]["pods"]) == ({"w": 2}, "2")
        await stage.until(lambda: len(stage.running("train")) == 4)

    told(story)


def test_a_job_waits_for_a_queue_that_is_not_there() -> None:
    async def story(stage: Stage) -> None:
        await submit(stage, "train", task("w"), queue="research")
        await stage.until(lambda: status_reason(stage, "train") == "QueueMissing")
        assert "research" in status_of(stage, "train")["state"]["message"]
        queue = {
            "apiVersion": kinds.QUEUE.api_version,
            "kind": "Queue",
            "metadata": {"name": "research"},
            "spec": {"weight": 1},
        }
        await stage.world.client(EAST).create(kinds.QUEUE, queue)
        await reaches(stage, "train", "Running")

    told(story)


def test_a_job_waits_for_a_claim_that_is_not_there() -> None:
    async def story(stage: Stage) -> None:
        await submit(stage, "train", task("w"), volumes=[{"mountPath": "/data", "volumeClaimName": "data"}])
        await stage.until(lambda: status_reason(stage, "train") == "PVCError")
        assert stage.phase("train") == "Pending"
        assert stage.pods("train") == []
        await stage.until(lambda: any("data" in text for text in events(stage, "train", "PVCError")))
        claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
        await stage.world.client(EAST).create(
            kinds.CLAIM, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **claim}, namespace="default"
        )
        await reaches(stage, "train", "Running")

    told(story)


def test_what_the_job_controls_is_in_its_status() -> None:
    async def story(stage: Stage) -> None:
        volumes = [{"mountPath": "/scratch", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}}]
        await submit(stage, "train", task("w"), volumes=volumes, plugins={"svc": [], "env": []})
        job = await reaches(stage, "train", "Running")
        (claim,) = [each["metadata"]["name"] for each in stage.world.all(kinds.CLAIM, server=EAST)]
        assert set(job["status"]["controlledResources"]) == {f"volume-pvc-{claim}", "plugin-svc", "plugin-env"}

    told(story)


@pytest.mark.parametrize("iteration", ["any", "all"])
def test_a_task_waits_for_those_it_depends_on(iteration: str) -> None:
    async def story(stage: Stage) -> None:
        stuck = {"containers": [{"name": "main", "image": f"busybox{MISSING_IMAGE}"}]}
        needs = {"name": ["ready", "never"], "iteration": iteration}
        tasks = (task("ready"), task("never", pod=stuck), task("w", dependsOn=needs))
        await submit(stage, "train", *tasks, minAvailable=1)
        await stage.until(lambda: "ready-0" in names(stage, "train", phase="Running"))
        await stage.world.advance(30)
        assert ("w-0" in names(stage, "train")) == (iteration == "any")

    told(story)


def test_a_task_that_has_succeeded_lets_others_start() -> None:
    async def story(stage: Stage) -> None:
        await submit(
            stage, "train", task("first", "sleep 3"), task("then", "sleep 3", dependsOn={"name": ["first"]}), minAvailable=1
        )
        job = await reaches(stage, "train", *ENDED)
        assert job["status"]["state"]["phase"] == "Completed"
        assert stage.starts() == ["train-first-0", "train-then-0"]

    told(story)


def test_scaling_down_drops_the_highest_indices_where_ranks_count_and_spares_running_pods_elsewhere() -> None:
    async def story(stage: Stage) -> None:
        given: tuple[tuple[str, Doc], ...] = (("ranked", {"svc": []}), ("plain", {}))
        for name, plugins in given:
            await submit(stage, name, task("w", replicas=4, minAvailable=1), minAvailable=1, plugins=plugins)
            await stage.until(lambda name=name: len(stage.running(name)) == 4)  # type: ignore[misc]
            await change(stage, name, {"spec": {"tasks": [{**task("w"), "replicas": 2, "minAvailable": 1}]}})
            await stage.until(lambda name=name: len(stage.pods(name)) == 2)  # type: ignore[misc]
        assert names(stage, "ranked") == {"w-0", "w-1"}
        assert len(names(stage, "plain", phase="Running")) == 2

    told(story)


def test_a_job_is_scaled_to_nothing_and_up_again_and_its_hosts_follow() -> None:
    async def story(stage: Stage) -> None:
        def hosts() -> list[str]:
            found = stage.world.get(kinds.CONFIGMAP, "train-svc", namespace="default", server=EAST)
            return [] if found is None else found["data"]["w.host"].split()

        await submit(stage, "train", task("w", replicas=2, minAvailable=1), minAvailable=1, plugins={"svc": []})
        await reaches(stage, "train", "Running")
        for replicas in (3, 1, 0, 2):
            least = min(replicas, 1)
            scaled = {**task("w"), "replicas": replicas, "minAvailable": least}
            await change(stage, "train", {"spec": {"minAvailable": least, "tasks": [scaled]}})
            await stage.until(lambda n=replicas: len(stage.running("train")) == len(stage.pods("train")) == n)  # type: ignore[misc]
            await stage.until(lambda n=replicas: hosts() == [f"train-w-{each}.train" for each in range(n)])  # type: ignore[misc]
        await reaches(stage, "train", "Running")

    told(story)


def test_pods_that_wait_go_before_pods_that_run_when_a_job_shrinks() -> None:
    async def story(stage: Stage) -> None:
        await submit(stage, "train", task("w", replicas=3, minAvailable=1), minAvailable=1)
        await stage.until(lambda: len(stage.running("train")) == 3)
        for node in stage.world.all(kinds.NODE, server=EAST):
            cordon = {"spec": {"unschedulable": True}}
            await stage.world.client(EAST).patch(kinds.NODE, node["metadata"]["name"], cordon, type=PatchType.MERGE)
        await lose(stage, "train-w-0")
        await stage.until(lambda: names(stage, "train", phase="Pending") == {"w-0"})
        await change(stage, "train", {"spec": {"tasks": [{**task("w"), "replicas": 2, "minAvailable": 1}]}})
        await stage.until(lambda: names(stage, "train") == {"w-1", "w-2"})
        assert names(stage, "train", phase="Running") == {"w-1", "w-2"}

    told(story)


# --- 1.8 ends --------------------------------------------------------------------------------------------------------
def test_counters_stay_when_the_pods_of_an_ended_job_are_deleted() -> None:
    async def story(stage: Stage) -> None:
        await submit(stage, "train", task("w", "sleep 2", replicas=3))
        job = await reaches(stage, "train", "Completed")
        assert job["status"]["runningDuration"]
        for index in range(3):
            await lose(stage, f"train-w-{index}")
        await stage.world.advance(30)
        assert number(there(stage, "train"), "succeeded") == 3
        assert stage.phase("train") == "Completed"
        assert len(stage.starts()) == 3

    told(story)


def test_a_pod_that_succeeded_and_was_deleted_is_not_run_again() -> None:
    async def story(stage: Stage) -> None:
        await submit(stage, "train", task("short", "sleep 2"), task("long", "sleep 60"))
        await stage.until(lambda: names(stage, "train", phase="Succeeded") == {"short-0"})
        await stage.world.advance(5)
        await lose(stage, "train-short-0")
        job = await reaches(stage, "train", *ENDED)
        assert job["status"]["state"]["phase"] == "Completed"
        assert number(job, "succeeded") == 2
        assert sorted(stage.starts()) == ["train-long-0", "train-short-0"]

    told(story)


def test_an_ended_job_leaves_after_its_ttl_and_an_aborted_one_stays() -> None:
    async def story(stage: Stage) -> None:
        await submit(stage, "done", task("w", "sleep 2"), ttlSecondsAfterFinished=20)
        await submit(stage, "at-once", task("w", "sleep 2"), ttlSecondsAfterFinished=0)
        abort = [{"event": "PodFailed", "action": "AbortJob"}]
        await submit(stage, "aborted", task("w", "sleep 2; exit 1"), ttlSecondsAfterFinished=0, policies=abort)
        await reaches(stage, "done", "Completed")
        begun = stage.world.clock.now()
        await reaches(stage, "aborted", "Aborted")
        await stage.until(lambda: stage.local("at-once") is None)
        await stage.until(lambda: stage.local("done") is None)
        assert (stage.world.clock.now() - begun).total_seconds() >= 18
        await stage.world.advance(60)
        assert stage.phase("aborted") == "Aborted"

    told(story)


# --- extensions ------------------------------------------------------------------------------------------------------
def test_evictions_do_not_use_up_the_retries() -> None:
    async def story(stage: Stage) -> None:
        policy = {"event": "PodEvicted", "action": "RestartJob"}
        await submit(stage, "train", task("w"), policies=[policy], maxRetry=1)
        for count in range(1, 4):
            await reaches(stage, "train", "Running")
            await lose(stage, "train-w-0")
            await stage.until(lambda count=count: number(there(stage, "train"), "version") == count)  # type: ignore[misc]
        await reaches(stage, "train", "Running")
        job = there(stage, "train")
        assert number(job, "retryCount") == 0
        assert job["status"]["memory"]["evictions"] == 3

    told(story)


@pytest.mark.parametrize("way", ["annotation", "field"])
def test_suspend_gives_the_room_back_and_its_end_goes_on(way: str) -> None:
    async def story(stage: Stage) -> None:
        def said(value: bool) -> Doc:
            if way == "field":
                return {"spec": {"suspend": value}}
            return {"metadata": {"annotations": {keys.SUSPEND: "true" if value else None}}}

        await submit(stage, "train", task("w", replicas=2), maxRetry=1)
        await reaches(stage, "train", "Running")
        await change(stage, "train", said(True))
        job = await reaches(stage, "train", "Aborted")
        assert job["status"]["state"]["reason"] == "Suspended"
        assert stage.pods("train") == []
        await order(stage, "train", "ResumeJob")
        await stage.until(lambda: bool(events(stage, "train", "CommandRefused")))
        await change(stage, "train", said(False))
        job = await reaches(stage, "train", "Running")
        assert number(job, "retryCount") == 0

    told(story)


def test_a_job_submitted_suspended_waits_and_says_so() -> None:
    async def story(stage: Stage) -> None:
        await submit(stage, "train", task("w"), annotations={keys.SUSPEND: "true"})
        await stage.until(lambda: status_reason(stage, "train") == "Suspended")
        await stage.world.advance(30)
        assert stage.pods("train") == []
        await change(stage, "train", {"metadata": {"annotations": {keys.SUSPEND: None}}})
        await reaches(stage, "train", "Running")

    told(story)


def test_the_annotation_wins_over_the_field() -> None:
    async def story(stage: Stage) -> None:
        await submit(stage, "train", task("w"), suspend=True, annotations={keys.SUSPEND: "false"})
        await reaches(stage, "train", "Running")

    told(story)


def test_a_pod_has_ended_when_its_main_container_has() -> None:
    async def story(stage: Stage) -> None:
        def pair(command: str) -> Doc:
            main = {"name": "main", "image": "busybox:1", "command": ["sh", "-c", command]}
            return {"containers": [main, {"name": "proxy", "image": "busybox:1", "command": ["sleep", "infinity"]}]}

        main = {keys.MAIN_CONTAINER: "w=main"}
        await submit(stage, "good", task("w", pod=pair("sleep 3")), annotations=main)
        await submit(stage, "bad", task("w", pod=pair("sleep 3; exit 2")), annotations=main)
        policy = [{"exitCode": 2, "action": "AbortJob"}]
        await submit(stage, "acts", task("w", pod=pair("sleep 3; exit 2")), annotations=main, policies=policy)
        ends = {name: (await reaches(stage, name, *ENDED))["status"] for name in ("good", "bad", "acts")}
        assert {name: each["state"]["phase"] for name, each in ends.items()} == {
            "good": "Completed",
            "bad": "Failed",
            "acts": "Aborted",
        }
        assert (ends["good"].get("succeeded"), ends["bad"].get("failed")) == (1, 1)
        await stage.until(lambda: not any(stage.running(name) for name in ends))

    told(story)


def test_no_retry_is_one_run_and_no_other() -> None:
    async def story(stage: Stage) -> None:
        policy = {"event": "PodFailed", "action": "RestartJob"}
        await submit(stage, "train", task("bad", "sleep 2; exit 1"), policies=[policy], annotations={keys.NO_RETRY: "true"})
        await reaches(stage, "train", "Failed")
        assert stage.starts() == ["train-bad-0"]

    told(story)


def test_policies_may_wait_until_the_minimum_is_broken() -> None:
    async def story(stage: Stage) -> None:
        only = {keys.ONLY_BELOW_MINIMUM: "true"}
        policy = {"event": "PodFailed", "action": "AbortJob"}
        workers = task("w", "sleep 60", replicas=2, minAvailable=1)
        one, two = (task("bad", "sleep 3; exit 1", replicas=count, minAvailable=0) for count in (1, 2))
        await submit(stage, "above", workers, one, minAvailable=2, policies=[policy], annotations=only)
        await submit(stage, "below", workers, two, minAvailable=3, policies=[policy], annotations=only)
        await reaches(stage, "below", "Aborted")
        job = await reaches(stage, "above", *ENDED)
        assert visited(job) == ["Pending", "Running", "Completed"]

    told(story)


def test_a_run_is_ended_by_its_longest_time_also_across_a_restart_of_the_agent() -> None:
    async def story(stage: Stage) -> None:
        await submit(stage, "train", task("w"), annotations={keys.MAX_RUN_TIME: "60s"})
        await reaches(stage, "train", "Running")
        begun = stage.world.clock.now()
        await stage.world.advance(30)
        stage.world.kill(AGENT)
        job = await reaches(stage, "train", *ENDED)
        assert job["status"]["state"]["phase"] == "Terminated"
        assert job["status"]["state"]["reason"] == "MaxRunTimeExceeded"
        assert 55 <= (stage.world.clock.now() - begun).total_seconds() <= 80

    told(story)


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (keys.MAX_RUN_TIME, "soon"),
        (keys.MAIN_CONTAINER, "main"),
        (keys.NO_RETRY, "perhaps"),
        (keys.ONLY_BELOW_MINIMUM, "1"),
    ],
)
def test_an_extension_that_cannot_be_read_fails_the_job_by_name(annotation: str, text: str) -> None:
    async def story(stage: Stage) -> None:
        await submit(stage, "train", task("w"), annotations={annotation: text})
        job = await reaches(stage, "train", *ENDED)
        assert job["status"]["state"]["phase"] == "Failed"
        assert annotation in job["status"]["state"]["message"]
        assert stage.pods("train") == []

    told(story)
