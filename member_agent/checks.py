"""What this agent cannot run, asked by works before it accepts and by jobs before it starts. Pure.

These are the rules that a projection of the Job can answer; the rest of admission is asked with the manifest at hand
(`controllers.admission`), once per Job.
"""

from __future__ import annotations

import functools
from collections import Counter

from apis.batch import PLUGIN_ENTRY_POINTS, PLUGINS
from machinery.extensions import entry_points
from member_agent.views import JobView


def impossible(job: JobView) -> tuple[str, str] | None:
    """Reason and message naming the field, for a spec that can never run."""
    gang = job.gang
    if job.unreadable or gang is None:
        return "Invalid", job.unreadable
    if not gang.tasks:
        return "Invalid", "spec.tasks: No task specified in job spec"
    names = Counter(task.name for task in gang.tasks)
    for index, task in enumerate(gang.tasks):
        field = f"spec.tasks[{index}]"
        if names[task.name] > 1:
            return "Invalid", f"{field}.name: duplicated task name {task.name}: {names[task.name]} tasks have it"
        if task.replicas < 0:
            return "Invalid", f"{field}.replicas: {task.replicas} is less than 0"
        if not 0 <= task.minimum <= task.replicas:
            text = f"'minAvailable' is greater than 'replicas' in task: {task.minimum} of {task.replicas}"
            return "Invalid", f"{field}.minAvailable: {text}"
    if gang.minimum > gang.replicas:
        text = f"job 'minAvailable' should not be greater than total replicas in tasks: {gang.minimum} of {gang.replicas}"
        return "Invalid", f"spec.minAvailable: {text}"
    return None


@functools.cache
def installed_plugins() -> frozenset[str]:
    """Names of the job plugins that this program has: the built-in ones and those installed beside it."""
    return frozenset(PLUGINS) | {entry.name for entry in entry_points(PLUGIN_ENTRY_POINTS)}


def elsewhere(job: JobView, *, scheduler: str) -> tuple[str, str] | None:
    """Reason and message for a hub-run Job that asks for plugins this member has not, or whose pods the gang scheduler would
    not place: their nodes would come from somebody who knows neither the gang nor that the run is being stopped."""
    unknown = sorted(set(job.rules.plugins) - installed_plugins())
    if unknown:
        named = ", ".join(f"spec.plugins.{name}" for name in unknown)
        return "NotSupported", f"{named}: not installed in this member, which has {', '.join(sorted(installed_plugins()))}"
    fields = [(name, value) for name, value in job.placed if name.endswith("nodeName") or value != scheduler]
    if not fields:
        return None
    named = ", ".join(f"{name} ({value})" for name, value in fields)
    return "NotSupported", f"pods of Jobs from the hub are placed by scheduler {scheduler} alone: {named}"
