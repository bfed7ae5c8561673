"""Protocol.md 7: what the hub keeps of a Job, its binding and its Work together."""

from __future__ import annotations

import gc
import json
import tracemalloc
from typing import Any

from apis import keys, runs
from apis.runs import BindingRun, Part, RunRecord, TaskSlice
from policies.views import VERDICTS, Projections
from tests.federation.world import job

JOBS = 1500
LIMIT = 3072
"""Bytes."""

STATUS = {
    "state": {"phase": "Running", "message": "east: Running", "lastTransitionTime": "2026-01-01T00:00:00Z"},
    "minAvailable": 2,
    "running": 2,
    "taskStatusCount": {"work": {"phase": {"Running": 2}}},
    "conditions": [{"status": "Running", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
}


def _documents(number: int) -> tuple[bytes, bytes, bytes]:
    uid, name = f"00000000-0000-4000-8000-{number:012d}", f"training-{number}"
    body = job(name)
    body["metadata"] |= {"uid": uid, "resourceVersion": str(number), "labels": {"team": "ml", "stage": "test"}}
    run = BindingRun(job=uid, epoch=1, parts={"east": Part(cluster_uid="00000000-0000-4000-8000-0000000000ff", fence=1)})
    record = RunRecord(job=uid, epoch=1, fence=1, tasks={"work": TaskSlice(0, 2)})
    considered = [{"cluster": f"c{each}", "scores": {"balance": 80, "stability": 100}, "total": 86} for each in range(5)]
    verdict = json.dumps({"outcome": "Placed", "reason": "Placed", "message": "east is the best of 5", "clusters": considered})
    binding: dict[str, Any] = {
        "metadata": {
            "name": f"{name}-job",
            "namespace": "default",
            "uid": uid[::-1],
            "resourceVersion": str(number),
            "annotations": {keys.RUN: runs.encode(run), VERDICTS: verdict},
        },
        "spec": {"resource": {"name": name, "uid": uid}, "clusters": [{"name": "east"}]},
    }
    pointers = {keys.BINDING_NAMESPACE: "default", keys.BINDING_NAME: f"{name}-job"}
    work = {
        "metadata": {
            "name": f"{name}-abcdef01",
            "namespace": "karmada-es-east",
            "uid": uid[1:] + "0",
            "resourceVersion": str(number),
            "annotations": {keys.RUN: runs.encode(record), **pointers},
        },
        "spec": {"workload": {"manifests": [body]}},
        "status": {"conditions": [{"type": "Applied", "status": "True"}], "manifestStatuses": [{"status": STATUS}]},
    }
    return json.dumps({**body, "status": STATUS}).encode(), json.dumps(binding).encode(), json.dumps(work).encode()


def test_a_running_job_takes_at_most_three_kilobytes_of_the_hub() -> None:
    read = Projections()
    documents = [_documents(number) for number in range(JOBS)]
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        kept = [(read.job(one), read.binding(two), read.work(three)) for one, two, three in documents]
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(kept) == JOBS
    assert taken / JOBS <= LIMIT
