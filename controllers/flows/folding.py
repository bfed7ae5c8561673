"""The lists of a flow's status (reference/volcano.md 3), from what is recorded of its Jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from controllers.flows.lifecycle import StepPhase
from controllers.flows.snapshot import FlowJob, FlowSnapshot
from controllers.flows.status import FlowStatus, StepStatus
from controllers.flows.steps import COMPLETED

RUNS: Final = frozenset({"Running", "Completing"})
WAITS: Final = frozenset({"", "Pending", StepPhase.RETRYING.value, StepPhase.WAITING.value})


def folded(snapshot: FlowSnapshot, records: Mapping[str, StepStatus]) -> FlowStatus:
    """The flow's status with these records; its state and times are the caller's."""
    groups: dict[str, list[str]] = {"pending": [], "running": [], "failed": [], "completed": [], "terminated": [], "other": []}
    for record in records.values():
        if record.state != StepPhase.SKIPPED:
            groups[_group(record.state)].append(record.name)
    conditions = dict(snapshot.flow.status.conditions)
    for name, job in sorted({**snapshot.ended, **snapshot.jobs}.items()):
        conditions[name] = _condition(job)
    return msgspec.structs.replace(
        snapshot.flow.status,
        pending_jobs=groups["pending"],
        running_jobs=groups["running"],
        failed_jobs=groups["failed"],
        completed_jobs=groups["completed"],
        terminated_jobs=groups["terminated"],
        unknow_jobs=groups["other"],
        job_status_list=list(records.values()),
        conditions=conditions,
    )


def _group(state: str) -> str:
    if state in WAITS:
        return "pending"
    if state in RUNS:
        return "running"
    return {"Failed": "failed", COMPLETED: "completed", "Terminated": "terminated"}.get(state, "other")


def _condition(job: FlowJob) -> dict[str, object]:
    condition: dict[str, object] = {"createTime": job.created}
    if job.phase:
        condition["phase"] = job.phase
    if job.running_duration:
        condition["runningDuration"] = job.running_duration
    if job.task_status_count:
        condition["taskStatusCount"] = {
            task: {"phase": dict(count["phase"])} if "phase" in count else dict(count)
            for task, count in job.task_status_count.items()
        }
    return condition
