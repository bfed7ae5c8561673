"""What happens to Jobs on real nodes: policies, exit codes, restarts, minima, order of tasks, scaling, suspending, orders.

The manifests are those of examples/jobs, applied at a member as they are; the stories of one test are told side by side.
"""

from __future__ import annotations

import datetime
from collections.abc import AsyncIterator

import pytest

from apis import keys, kinds, naming
from e2e.apply import phase, wait_ready
from e2e.controlplane.fleet import Federation
from e2e.jobs import Place, counted, ended, in_phase, phases, place, reason, tell, uids
from machinery.kube import KubePort

pytestmark = [pytest.mark.issue(4), pytest.mark.usefixtures("real_nodes", "running")]

MINUTE = 60.0


@pytest.fixture
async def east(
    federation: Federation, hub_port: KubePort, member_ports: dict[str, KubePort], namespace: str
) -> AsyncIterator[Place]:
    """The test's namespace in a member with real nodes, its agent at work."""
    await wait_ready(hub_port, kinds.CLUSTER, names=["east"])
    async with place(federation.members["east"], member_ports["east"], namespace=namespace) as found:
        yield found


def moment(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text)


def entered(job: dict[str, object], name: str) -> datetime.datetime:
    """When the Job last entered a phase."""
    conditions = job["status"]["conditions"]  # type: ignore[index]
    return moment(next(each["lastTransitionTime"] for each in conditions if each["status"] == name))


# --- what policies do ------------------------------------------------------------------------------------------------
async def ends(east: Place, name: str, *, by: str, action: str, phase: str, code: int | None = None) -> None:
    """A pod ends, an action follows: the Job passes `by`, is in `phase` in the end, and an event names the action."""
    await east.apply(name)
    job = await east.reach(name, phase)
    assert by in phases(job), phases(job)
    assert counted(job, "running") == counted(job, "pending") == counted(job, "terminating") == 0, job["status"]
    pods = await east.pods_until(
        name, lambda pods: all(pod["status"]["phase"] in ("Succeeded", "Failed") for pod in pods.values())
    )
    if code is not None:
        assert code in [each for pod in pods.values() for each in ended(pod).values()]
    await east.told(name, reason="ExecuteAction", says=action)


async def restarts_the_whole_job_until_its_runs_are_used_up(east: Place) -> None:
    name = "event-pod-failed-restart-job"
    await east.apply(name)
    job = await east.reach(name, "Failed")
    assert {"Pending", "Running", "Restarting"} <= set(phases(job))
    assert counted(job, "retryCount") == 2
    pods = await east.pods(name)
    assert ended(pods["bad-0"]) == {"main": 1}, "the last failed pod is kept"
    assert pods["bad-0"]["metadata"]["annotations"][keys.JOB_VERSION] == "1"
    assert job["status"]["state"]["reason"], "a failed Job says why"


async def restarts_only(east: Place, name: str, *, renewed: set[str]) -> None:
    """Of the pods of a Job those named are made anew; the others stay, and the retry is counted."""
    await east.apply(name)
    before = uids(await east.pods_until(name, lambda pods: len(pods) >= 2))
    job = await east.reach(name, "Completed", "Failed", "Terminated")
    assert phase(job) == "Completed", job["status"]
    after = uids(await east.pods(name))
    assert {pod for pod in after if after[pod] != before.get(pod)} == renewed
    assert counted(job, "retryCount") == 1
    assert "Restarting" in phases(job)


async def an_eviction_costs_no_retry_and_deletion_leaves_nothing(east: Place) -> None:
    name = "event-pod-evicted"
    await east.apply(name)
    await east.reach(name, "Running")
    before = uids(await east.pods(name))
    await east.delete(f"{name}-worker-0", kind=kinds.POD)
    job = await east.until(lambda doc: phase(doc) == "Running" and counted(doc, "version") > 0, name)
    after = uids(await east.pods(name))
    assert before.keys() == after.keys()
    assert not set(before.values()) & set(after.values())
    assert counted(job, "retryCount") == 0
    assert job["status"]["memory"]["evictions"] == 1
    await east.delete(name)
    await east.gone(name)
    await east.pods_until(name, lambda pods: not pods)
    await east.gone(naming.pod_group_name(name, uid=job["metadata"]["uid"]), kind=kinds.POD_GROUP)


async def any_event_means_a_deleted_pod_too(east: Place) -> None:
    await east.apply("event-any")
    await east.reach("event-any", "Running")
    await east.delete("event-any-worker-1", kind=kinds.POD)
    await east.reach("event-any", "Aborted")
    await east.pods_until("event-any", lambda pods: not pods)


async def a_changed_spec_restarts_where_a_policy_says_so(east: Place) -> None:
    name = "event-job-updated"
    await east.apply(name)
    job = await east.reach(name, "Running")
    before = uids(await east.pods(name))
    task = {**job["spec"]["tasks"][0], "replicas": 2}
    await east.change(name, {"spec": {"tasks": [task]}})
    job = await east.until(lambda doc: phase(doc) == "Running" and counted(doc, "version") > 0, name)
    after = uids(await east.pods_until(name, lambda pods: len(in_phase(pods, "Running")) == 2))
    assert after["worker-0"] != before["worker-0"]
    assert counted(job, "retryCount") == 1


async def a_pod_that_waits_too_long_aborts(east: Place) -> None:
    name = "event-pod-pending-timeout"
    await east.apply(name)
    job = await east.reach(name, "Aborted")
    assert "Running" not in phases(job)
    await east.told(name, reason="ExecuteAction", says="AbortJob")


async def a_timeout_is_waited_for(east: Place) -> None:
    await east.apply("timeout-fires")
    pods = await east.pods_until("timeout-fires", lambda pods: "bad-0" in pods and bool(ended(pods["bad-0"])))
    job = await east.reach("timeout-fires", "Terminated")
    failed = pods["bad-0"]["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"]
    assert entered(job, "Terminating") - moment(failed) >= datetime.timedelta(seconds=3)


async def a_timeout_is_called_off(east: Place) -> None:
    await east.apply("timeout-cancelled")
    job = await east.reach("timeout-cancelled", "Completed", "Failed", "Terminated")
    assert phase(job) == "Completed"
    assert counted(job, "retryCount") == 1
    assert "Terminating" not in phases(job)


async def test_policies_act_on_events_of_pods(east: Place) -> None:
    await tell(
        ends(east, "event-task-completed", by="Completing", action="CompleteJob", phase="Completed", code=0),
        ends(east, "event-pod-failed-abort", by="Aborting", action="AbortJob", phase="Aborted", code=1),
        ends(east, "event-pod-failed-terminate", by="Terminating", action="TerminateJob", phase="Terminated", code=1),
        ends(east, "event-list", by="Terminating", action="TerminateJob", phase="Terminated", code=1),
        ends(east, "event-task-failed", by="Terminating", action="TerminateJob", phase="Terminated"),
        ends(east, "task-policy-first", by="Aborting", action="AbortJob", phase="Aborted", code=1),
        restarts_the_whole_job_until_its_runs_are_used_up(east),
        restarts_only(east, "event-pod-failed-restart-task", renewed={"flaky-0"}),
        restarts_only(east, "event-pod-failed-restart-pod", renewed={"flaky-0"}),
        restarts_only(east, "event-pod-failed-restart-partition", renewed={"part-0", "part-1"}),
        an_eviction_costs_no_retry_and_deletion_leaves_nothing(east),
        any_event_means_a_deleted_pod_too(east),
        a_changed_spec_restarts_where_a_policy_says_so(east),
        a_pod_that_waits_too_long_aborts(east),
        a_timeout_is_waited_for(east),
        a_timeout_is_called_off(east),
    )


# --- how pods end, and how many must ---------------------------------------------------------------------------------
async def completes(east: Place, name: str, *, succeeded: int, failed: int = 0) -> None:
    await east.apply(name)
    job = await east.reach(name, "Completed", "Failed", "Terminated", "Aborted")
    assert phase(job) == "Completed", job["status"]
    assert (counted(job, "succeeded"), counted(job, "failed")) == (succeeded, failed), job["status"]
    assert job["status"]["runningDuration"]


async def a_pod_of_several_containers_ends_with_all_of_them(east: Place) -> None:
    await completes(east, "several-containers", succeeded=1)
    assert ended((await east.pods("several-containers"))["pair-0"]) == {"first": 0, "second": 0}


async def an_init_container_prepares(east: Place) -> None:
    await completes(east, "init-containers", succeeded=1)
    assert await east.log("init-containers-main-0", container="main") == "prepared\n"


async def the_first_success_is_enough(east: Place) -> None:
    await completes(east, "min-success", succeeded=1)
    pods = await east.pods_until("min-success", lambda pods: set(pods) == {"racer-0"})
    assert ended(pods["racer-0"]) == {"main": 0}


async def a_task_below_its_minimum_fails_the_job(east: Place) -> None:
    await east.apply("task-minima")
    job = await east.reach("task-minima", "Failed", "Completed")
    assert phase(job) == "Failed"
    assert counted(job, "succeeded") == 3
    assert job["status"]["state"]["reason"]
    assert "judge" in job["status"]["state"]["message"]


async def a_pod_ends_with_its_main_container(east: Place) -> None:
    await east.apply("main-container")
    job = await east.reach("main-container", "Completed", "Failed")
    assert phase(job) == "Completed", job["status"]
    await east.pods_until("main-container", lambda pods: not in_phase(pods, "Running"))


async def one_run_and_no_other(east: Place) -> None:
    await east.apply("no-retry")
    job = await east.reach("no-retry", "Failed", "Completed")
    assert phase(job) == "Failed"
    pods = await east.pods("no-retry")
    assert [pod["metadata"]["annotations"][keys.JOB_VERSION] for pod in pods.values()] == ["0"]
    assert job["status"]["state"]["reason"]


async def a_policy_may_wait_for_the_minimum(east: Place) -> None:
    await completes(east, "policies-only-below-minimum", succeeded=2, failed=1)
    job = await east.get(kinds.JOB, "policies-only-below-minimum")
    assert "Aborting" not in phases(job)


async def a_run_is_ended_by_its_longest_time(east: Place) -> None:
    await east.apply("max-run-time")
    job = await east.reach("max-run-time", "Terminated", "Failed", timeout=MINUTE)
    assert entered(job, phases(job)[-1]) - entered(job, "Running") >= datetime.timedelta(seconds=4)
    assert job["status"]["state"]["reason"], job["status"]
    await east.pods_until("max-run-time", lambda pods: not in_phase(pods, "Running"))


async def a_finished_job_is_cleaned_up(east: Place) -> None:
    await east.apply("ttl")
    await east.reach("ttl", "Completed")
    await east.gone("ttl", timeout=MINUTE)
    await east.pods_until("ttl", lambda pods: not pods)


# --- order and shape -------------------------------------------------------------------------------------------------
async def tasks_wait_for_tasks(east: Place, name: str, *, ready: set[str]) -> None:
    """The pod of the last task is made when the containers of those it waits for run."""
    await east.apply(name)
    pods = await east.pods_until(name, lambda pods: "worker-0" in pods)
    states = {pod: pods[pod]["status"]["containerStatuses"][0]["state"] for pod in ready}
    made = moment(pods["worker-0"]["metadata"]["creationTimestamp"])
    assert all(moment(state["running"]["startedAt"]) <= made for state in states.values()), states
    await east.reach(name, "Completed")


async def partitions_are_numbered(east: Place) -> None:
    name = "partitions"
    await east.apply(name)
    job = await east.started(name, pods=6)
    group = await east.get(kinds.POD_GROUP, naming.pod_group_name(name, uid=job["metadata"]["uid"]))
    (part,) = group["spec"]["subGroupPolicy"]
    assert (part["name"], part["subGroupSize"], part["minSubGroups"]) == ("shard", 2, 2)
    assert part["matchLabelKeys"] == [keys.PARTITION_ID]
    assert group["spec"]["minTaskMember"] == {"shard": 4}
    await east.reach(name, "Completed")
    numbers = {pod: found["metadata"]["labels"][keys.PARTITION_ID] for pod, found in (await east.pods(name)).items()}
    assert numbers == {f"shard-{index}": str(index // 2) for index in range(6)}


async def a_job_follows_its_replicas(east: Place) -> None:
    await east.apply("scale")
    await east.reach("scale", "Running")
    task = (await east.get(kinds.JOB, "scale"))["spec"]["tasks"][0]
    for replicas in (3, 1, 0, 2):
        minimum = min(replicas, 1)
        scaled = {**task, "replicas": replicas, "minAvailable": minimum}
        await east.change("scale", {"spec": {"minAvailable": minimum, "tasks": [scaled]}})
        pods = await east.pods_until("scale", lambda pods, n=replicas: len(in_phase(pods, "Running")) == n == len(pods))  # type: ignore[misc]
        assert set(pods) == {f"worker-{index}" for index in range(replicas)}
        hosts = "".join(f"scale-worker-{index}.scale\n" for index in range(replicas))
        await east.until(
            lambda doc, text=hosts: doc["data"].get("worker.host", "").strip() == text.strip(),  # type: ignore[misc]
            "scale-svc",
            kind=kinds.CONFIGMAP,
        )
    await east.reach("scale", "Running")


# --- stopping, going on, orders --------------------------------------------------------------------------------------
async def suspends_and_resumes(east: Place, name: str, *, on: dict[str, object], off: dict[str, object]) -> None:
    """Submitted suspended, let go, suspended again."""
    await east.apply(name)
    job = await east.until(lambda doc: reason(doc) == "Suspended", name)
    assert "Running" not in phases(job)
    assert await east.pods(name) == {}
    await east.change(name, off)
    await east.reach(name, "Running")
    await east.change(name, on)
    await east.until(lambda doc: phase(doc) == "Aborted" and counted(doc, "terminating") == 0, name)
    assert await east.pods(name) == {}


async def obeys_orders(east: Place) -> None:
    """Abort, resume, restart, complete; then, as a new Job of the name, terminate."""
    await east.apply("commanded")
    await east.reach("commanded", "Running")
    await east.apply("command-abort")
    await east.reach("commanded", "Aborted")
    await east.apply("command-resume")
    resumed = await east.reach("commanded", "Running")
    await east.apply("command-restart")
    await east.until(
        lambda doc: phase(doc) == "Running" and counted(doc, "retryCount") > counted(resumed, "retryCount"), "commanded"
    )
    await east.apply("command-complete")
    await east.reach("commanded", "Completed")
    assert await east.all(kinds.COMMAND) == [], "an order is carried out once"
    await east.told("commanded", reason="CommandIssued")
    await east.delete("commanded")
    await east.gone("commanded")
    await east.apply("commanded")
    await east.reach("commanded", "Running")
    await east.apply("command-terminate")
    await east.reach("commanded", "Terminated")


async def slow_pods_are_waited_for(east: Place) -> None:
    """While pods end slowly they count as terminating, and the Job is Aborting."""
    name = "slow-termination"
    await east.apply(name)
    await east.reach(name, "Running")
    await east.change(name, {"metadata": {"annotations": {keys.SUSPEND: "true"}}})
    stopping = await east.until(lambda doc: phase(doc) == "Aborting" and counted(doc, "terminating") == 2, name)
    assert counted(stopping, "running") == 0
    stopped = await east.reach(name, "Aborted")
    assert entered(stopped, "Aborted") - entered(stopped, "Aborting") >= datetime.timedelta(seconds=4)
    assert counted(stopped, "terminating") == 0
    assert await east.pods(name) == {}


async def test_jobs_end_scale_wait_and_obey(east: Place) -> None:
    await tell(
        ends(east, "exit-code", by="Terminating", action="TerminateJob", phase="Terminated", code=3),
        ends(east, "exit-code-several-containers", by="Completing", action="CompleteJob", phase="Completed", code=5),
        ends(east, "exit-code-init-container", by="Aborting", action="AbortJob", phase="Aborted", code=7),
        a_pod_of_several_containers_ends_with_all_of_them(east),
        an_init_container_prepares(east),
        the_first_success_is_enough(east),
        completes(east, "enough-succeeded", succeeded=2, failed=1),
        a_task_below_its_minimum_fails_the_job(east),
        a_pod_ends_with_its_main_container(east),
        one_run_and_no_other(east),
        a_policy_may_wait_for_the_minimum(east),
        a_run_is_ended_by_its_longest_time(east),
        a_finished_job_is_cleaned_up(east),
        tasks_wait_for_tasks(east, "depends-on-all", ready={"store-0", "broker-0"}),
        tasks_wait_for_tasks(east, "depends-on-any", ready={"ready-0"}),
        partitions_are_numbered(east),
        a_job_follows_its_replicas(east),
        suspends_and_resumes(
            east,
            "suspend",
            on={"metadata": {"annotations": {keys.SUSPEND: "true"}}},
            off={"metadata": {"annotations": {keys.SUSPEND: None}}},
        ),
        suspends_and_resumes(east, "suspend-field", on={"spec": {"suspend": True}}, off={"spec": {"suspend": False}}),
        obeys_orders(east),
        slow_pods_are_waited_for(east),
    )
