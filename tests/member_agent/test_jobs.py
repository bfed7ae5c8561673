"""The counting rules of Jobs (reference/volcano.md 1.6) and what a Job is turned into, on values alone."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

import orjson
import pytest

from apis import keys
from member_agent.jobs.planner import Plan, Snapshot, Urgency, plan
from member_agent.jobs.roster import Roster
from member_agent.views import JobView, PodView, Projector
from tests.member_agent.making import orders
from tests.member_agent.test_room import pod, shape
from tests.member_agent.world import job as manifest_of

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
STAMP = "2026-01-01T00:00:00Z"


def view(manifest: dict[str, Any], *, phase: str = "", from_hub: bool = False) -> JobView:
    if from_hub:
        marks = {"labels": {keys.MANAGED_LABEL: "true"}, "annotations": {keys.WORK_UID: "uid-of-work"}}
        manifest = {**manifest, "metadata": {**manifest["metadata"], **marks}}
    meta = {**manifest["metadata"], "uid": "uid-1", "resourceVersion": "1", "creationTimestamp": "2025-12-31T23:59:00Z"}
    status = {"state": {"phase": phase}} if phase else {}
    return Projector().job(orjson.dumps({**manifest, "metadata": meta, "status": status}))


def pods(job: JobView, phases: list[str]) -> tuple[PodView, ...]:
    return tuple(
        dataclasses.replace(pod(order.name, shape(1), task=order.task, on="n"), phase=phase, index=order.index)
        for order, phase in zip(orders(job), phases, strict=False)
    )


def decide(job: JobView, phases: list[str]) -> Plan:
    return plan(Snapshot(job=job, group=None, roster=Roster(pods(job, phases)), queue=None), now=NOW, stamp=STAMP)


R, S, F, P = "Running", "Succeeded", "Failed", "Pending"


@pytest.mark.parametrize(
    ("before", "spec", "phases", "after"),
    [
        ("", {"replicas": 2}, [P, P], "Pending"),
        ("Pending", {"replicas": 2}, [R, P], "Pending"),
        ("Pending", {"replicas": 2}, [R, S], "Running"),
        ("", {"replicas": 2}, [S, S], "Running"),
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


def test_the_end_of_a_job_from_the_hub_is_written_at_once_with_every_phase_on_the_way() -> None:
    decided = decide(view(manifest_of("train"), from_hub=True), [S, S])
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
        ({"tasks": []}, "spec.tasks: No task specified in job spec"),
        (
            {"minAvailable": 9},
            "spec.minAvailable: job 'minAvailable' should not be greater than total replicas in tasks: 9 of 2",
        ),
        (
            {"policies": [{"event": "PodFailed", "action": "AbortJob", "timeout": "soon"}]},
            "spec.policies[0].timeout: 'soon' is no duration: want a whole number and s, m, h or d, such as 90s, 10m or 2h",
        ),
    ],
)
def test_an_impossible_job_fails_with_the_field(change: dict[str, Any], message: str) -> None:
    manifest = manifest_of("train")
    manifest["spec"] |= change
    status = decide(view(manifest), []).status
    assert status is not None
    assert (status.state.phase, status.state.message) == ("Failed", message)
