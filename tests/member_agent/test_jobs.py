"""The counting rules of Jobs (reference/volcano.md 1.6) and what a Job is turned into, on values alone."""

from __future__ import annotations

import datetime
from typing import Any

import orjson
import pytest

from member_agent.jobs import children
from member_agent.jobs.planner import Plan, Snapshot, Urgency, plan, wanted
from member_agent.views import JobView, PodView, Projector
from tests.member_agent.test_room import pod, shape
from tests.member_agent.world import job as manifest_of

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def view(manifest: dict[str, Any], *, phase: str = "") -> JobView:
    meta = {**manifest["metadata"], "uid": "uid-1", "resourceVersion": "1", "creationTimestamp": "2025-12-31T23:59:00Z"}
    status = {"state": {"phase": phase}} if phase else {}
    return Projector().job(orjson.dumps({**manifest, "metadata": meta, "status": status}))


def pods(job: JobView, phases: list[str]) -> tuple[PodView, ...]:
    import dataclasses

    names = [order.name for order in wanted(job)]
    return tuple(
        dataclasses.replace(pod(name, shape(1), task="work", on="n"), phase=phase)
        for name, phase in zip(names, phases, strict=False)
    )


def decide(job: JobView, phases: list[str]) -> Plan:
    return plan(Snapshot(job=job, group=None, pods=pods(job, phases), queue=None), now=NOW, stamp="t")


R, S, F, P = "Running", "Succeeded", "Failed", "Pending"


@pytest.mark.parametrize(
    ("before", "spec", "phases", "after"),
    [
        ("", {"replicas": 2}, [P, P], "Pending"),
        ("Pending", {"replicas": 2}, [R, P], "Pending"),
        ("Pending", {"replicas": 2}, [R, S], "Running"),
        ("", {"replicas": 2}, [S, S], "Completed"),
        ("Running", {"replicas": 3, "minimum": 2}, [S, S, F], "Completed"),
        ("Running", {"replicas": 3, "minimum": 2}, [S, F, F], "Failed"),
        ("Running", {"replicas": 3, "minimum": 2, "minSuccess": 1}, [S, R, R], "Completed"),
        ("Running", {"replicas": 2, "minimum": 1, "minSuccess": 2}, [S, F], "Failed"),
        ("Running", {"replicas": 3, "minimum": 2}, [R, P, P], "Pending"),
        ("Running", {"replicas": 3, "minimum": 2}, [R, R, P], "Running"),
        ("Completed", {"replicas": 2}, [R, R], "Completed"),
        ("Failed", {"replicas": 2}, [], "Failed"),
    ],
)
def test_the_phase_follows_from_the_counters(before: str, spec: dict[str, Any], phases: list[str], after: str) -> None:
    job = view(manifest_of("train", **spec), phase=before)
    decided = decide(job, phases)
    assert (decided.status or job.status).state.phase == after


def test_a_task_with_a_minimum_of_its_own_must_reach_it() -> None:
    manifest = manifest_of("train", replicas=3, minimum=2)
    manifest["spec"]["tasks"][0]["minAvailable"] = 2
    job = view(manifest, phase="Running")
    status = decide(job, [S, F, F]).status
    assert status is not None
    assert status.state.phase == "Failed"


def test_an_end_is_written_at_once_with_every_phase_on_the_way() -> None:
    decided = decide(view(manifest_of("train")), [S, S])
    assert decided.urgency is Urgency.END
    assert decided.status is not None
    assert [each.status for each in decided.status.conditions] == ["Pending", "Running", "Completed"]
    assert decided.status.running_duration == "60s"


def test_a_finished_job_makes_nothing_and_removes_what_still_runs() -> None:
    decided = decide(view(manifest_of("train"), phase="Completed"), [S, R])
    assert decided.create == ()
    assert [each.name for each in decided.delete] == ["train-work-1"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tasks": []}, "spec.tasks: no task is given"),
        ({"minAvailable": 9}, "spec.minAvailable: 9 is more than all replicas (2)"),
        ({"plugins": {"svc": []}}, "not supported by this agent yet: spec.plugins.svc"),
    ],
)
def test_an_impossible_job_fails_with_the_field(change: dict[str, Any], message: str) -> None:
    manifest = manifest_of("train")
    manifest["spec"] |= change
    status = decide(view(manifest), []).status
    assert status is not None
    assert (status.state.phase, status.state.message) == ("Failed", message)


def test_policies_that_are_not_acted_on_are_said() -> None:
    manifest = manifest_of("train")
    manifest["spec"]["policies"] = [{"event": "PodEvicted", "action": "RestartJob"}]
    status = decide(view(manifest), [P, P]).status
    assert status is not None
    assert status.state.message.endswith("not acted on by this agent yet: spec.policies")


def test_a_pod_carries_what_upstream_programs_read() -> None:
    manifest = manifest_of("train", plugins={"env": []}, priorityClassName="high")
    job = view(manifest)
    order = list(wanted(job))[1]
    made = children.pod(job, manifest, order, scheduler="volcano")
    assert made["metadata"]["name"] == "train-work-1"
    assert made["metadata"]["labels"]["volcano.sh/task-index"] == "1"
    assert made["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == "train-uid-1"
    assert made["metadata"]["ownerReferences"][0]["controller"]
    assert made["spec"]["schedulerName"] == "volcano"
    assert made["spec"]["priorityClassName"] == "high"
    assert {"name": "VC_TASK_INDEX", "value": "1"} in made["spec"]["containers"][0]["env"]


def test_a_pod_group_asks_for_the_minimum_in_quota_form() -> None:
    manifest = manifest_of("train", replicas=4, minimum=2)
    made = children.pod_group(view(manifest), manifest)
    assert made["spec"]["minMember"] == 2
    assert made["spec"]["minResources"] == {
        "count/pods": "2",
        "cpu": "2",
        "memory": "128Mi",
        "pods": "2",
        "requests.cpu": "2",
        "requests.memory": "128Mi",
    }
