"""Jobs that can be refused by what the view of them says."""

from __future__ import annotations

from policies.queueing import Refusal
from policies.views import JobView


def spec_refusal(job: JobView) -> Refusal | None:
    """What can be told from the view alone; the full rules run on the manifest before the first write."""
    if job.problem is not None:
        return Refusal("InvalidSpec", job.problem.field, job.problem.message)
    if job.gang is None or not job.gang.tasks:
        return Refusal("InvalidSpec", "spec.tasks", "a Job needs at least one task")
    if job.gang.minimum > job.gang.replicas:
        text = f"{job.gang.minimum} pods cannot start together: all tasks have {job.gang.replicas}"
        return Refusal("InvalidSpec", "spec.minAvailable", text)
    for index, task in enumerate(job.gang.tasks):
        if task.minimum > task.replicas:
            text = f"task {task.name} has {task.replicas} replicas and a minimum of {task.minimum}"
            return Refusal("InvalidSpec", f"spec.tasks[{index}].minAvailable", text)
    return None
