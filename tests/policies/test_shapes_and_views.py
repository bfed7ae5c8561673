"""Reading Jobs, bindings and Works from bytes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from apis import keys, runs
from apis.runs import BindingRun, Part, RunRecord
from policies import durations
from policies.views import Projections, Stage
from tests.federation.world import job as manifest


def document(**changes: object) -> bytes:
    body = manifest("train", pods=3)
    body["metadata"] |= {"uid": "u", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z"}
    body["spec"] |= changes
    return msgspec.json.encode(body)


def test_equal_templates_are_one_object() -> None:
    read = Projections()
    one, other = read.job(document()), read.job(document())
    assert one.gang is other.gang
    assert one.gang is not None
    assert (one.gang.minimum, one.gang.replicas, one.gang.requests.get("cpu")) == (3, 3, 3000)


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        ({"containers": [{"resources": {"requests": {"cpu": "1"}}}, {"resources": {"limits": {"cpu": "500m"}}}]}, 1500),
        (
            {
                "containers": [{"resources": {"requests": {"cpu": "1"}}}],
                "initContainers": [{"resources": {"requests": {"cpu": "3"}}}],
            },
            3000,
        ),
        (
            {
                "containers": [{"resources": {"requests": {"cpu": "1"}}}],
                "initContainers": [{"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}],
                "overhead": {"cpu": "250m"},
            },
            2250,
        ),
    ],
)
def test_effective_requests_of_a_pod(spec: dict[str, object], cpu: int) -> None:
    view = Projections().job(document(tasks=[{"name": "t", "replicas": 1, "template": {"spec": spec}}]))
    assert view.gang is not None
    assert view.gang.requests.get("cpu") == cpu


@pytest.mark.parametrize(
    ("spec", "unknown"),
    [
        ({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}}, "inter-pod affinity"),
        ({"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]}, "topology spread"),
        ({"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]}, ""),
        ({"resourceClaims": [{"name": "gpu"}]}, "dynamic resource claims"),
    ],
)
def test_what_the_hub_cannot_answer_is_named(spec: dict[str, object], unknown: str) -> None:
    view = Projections().job(document(tasks=[{"name": "t", "replicas": 1, "template": {"spec": spec}}]))
    assert view.gang is not None
    assert view.gang.unknown == unknown


def test_a_job_with_a_malformed_amount_is_a_view_with_a_problem() -> None:
    broken = [{"name": "t", "replicas": 1, "template": {"spec": {"containers": [{"resources": {"requests": {"cpu": "x"}}}]}}}]
    view = Projections().job(document(tasks=broken))
    assert view.gang is None
    assert view.problem is not None
    assert view.problem.field == "spec.tasks[0].template.spec"
    assert Projections().job(document(tasks="none")).problem is not None


def test_task_minima_give_way_to_a_smaller_minimum_of_the_job() -> None:
    tasks = [
        {"name": name, "replicas": 3, "template": {"spec": {"containers": [{"resources": {"requests": {"cpu": cpu}}}]}}}
        for name, cpu in (("a", "1"), ("b", "2"))
    ]
    view = Projections().job(document(tasks=tasks, minAvailable=4))
    assert view.gang is not None
    assert [count for _, count in view.gang.least()] == [3, 1]


def test_a_binding_tells_its_run_its_stage_and_its_end() -> None:
    run = BindingRun(job="u", epoch=2, parts={"east": Part(cluster_uid="id", fence=3)})
    conditions = [
        {"type": "Started", "status": "True", "message": "epoch 2"},
        {"type": "Finished", "status": "True", "reason": "Failed"},
    ]
    tree: dict[str, Any] = {
        "metadata": {"name": "train-job", "namespace": "default", "annotations": {keys.RUN: runs.encode(run)}},
        "spec": {"resource": {"name": "train", "uid": "u"}, "clusters": [{"name": "east"}]},
        "status": {"conditions": conditions},
    }
    view = Projections().binding(msgspec.json.encode(tree))
    assert (view.run, view.ended, view.stage, view.clusters) == (run, "Failed", (2, Stage.ENDED), ("east",))
    tree["metadata"]["annotations"] = {keys.RUN: "{"}
    unreadable = Projections().binding(msgspec.json.encode(tree))
    assert unreadable.run is None
    assert unreadable.problem is not None


def test_a_work_tells_what_the_member_said() -> None:
    record = RunRecord(job="u", epoch=1, fence=1)
    tree = {
        "metadata": {
            "name": "train-1",
            "namespace": "karmada-es-east",
            "annotations": {keys.RUN: runs.encode(record), keys.BINDING_NAMESPACE: "default", keys.BINDING_NAME: "train-job"},
        },
        "spec": {"workload": {"manifests": [manifest("train")]}},
        "status": {
            "conditions": [{"type": "Applied", "status": "False", "reason": "NoRoom"}],
            "manifestStatuses": [{"status": {"state": {"phase": "Running"}, "running": 2}}],
        },
    }
    view = Projections().work(msgspec.json.encode(tree))
    assert view.record == record
    assert view.status is not None
    assert view.status.running == 2
    assert (view.cluster, view.refusal, view.phase, view.started) == ("east", runs.RefusalReason.NO_ROOM, "Running", True)
    assert view.gang is not None


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("10m", 600), ("2h", 7200), ("1d", 86400)])
def test_durations_are_read_and_written(text: str, seconds: int) -> None:
    assert durations.parse(text) == seconds
    assert durations.parse(durations.text(seconds)) == seconds


@pytest.mark.parametrize("text", ["", "10", "m", "1.5h", "-3s", "10 m"])
def test_what_is_no_duration_is_named(text: str) -> None:
    with pytest.raises(durations.InvalidDuration, match=repr(text)):
        durations.parse(text)
