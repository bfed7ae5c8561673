"""What this agent cannot run, asked by works before it accepts and by jobs before it starts. Pure."""

from __future__ import annotations

from collections import Counter

from member_agent.views import JobView

NOT_BUILT = ("spec.plugins.", "spec.volumes", ".dependsOn", ".partitionPolicy")
"""Demands without which the pods would run wrongly: refused. Others are run without, and the message says so."""
BUILT = frozenset({"spec.plugins.env"})


def impossible(job: JobView) -> tuple[str, str] | None:
    """Reason and message naming the field, for a spec that can never run."""
    gang = job.gang
    if job.unreadable or gang is None:
        return "Invalid", job.unreadable
    if not gang.tasks:
        return "Invalid", "spec.tasks: no task is given"
    names = Counter(task.name for task in gang.tasks)
    for index, task in enumerate(gang.tasks):
        field = f"spec.tasks[{index}]"
        if names[task.name] > 1:
            return "Invalid", f"{field}.name: {task.name!r} is used by {names[task.name]} tasks"
        if task.replicas < 0:
            return "Invalid", f"{field}.replicas: {task.replicas} is less than 0"
        if not 0 <= task.minimum <= task.replicas:
            return "Invalid", f"{field}.minAvailable: {task.minimum} is not between 0 and replicas ({task.replicas})"
    if gang.minimum > gang.replicas:
        return "Invalid", f"spec.minAvailable: {gang.minimum} is more than all replicas ({gang.replicas})"
    refused = [name for name in job.demands if name not in BUILT and any(part in name for part in NOT_BUILT)]
    if refused:
        return "NotSupported", f"not supported by this agent yet: {', '.join(refused)}"
    return None


def elsewhere(job: JobView, *, scheduler: str) -> tuple[str, str] | None:
    """Reason and message for a hub-run Job whose pods the gang scheduler would not place: their nodes would come from somebody
    who knows neither the gang nor that the run is being stopped."""
    fields = [(name, value) for name, value in job.placed if name.endswith("nodeName") or value != scheduler]
    if not fields:
        return None
    named = ", ".join(f"{name} ({value})" for name, value in fields)
    return "NotSupported", f"pods of Jobs from the hub are placed by scheduler {scheduler} alone: {named}"
