"""Small values that pods leave in their termination messages (annotation `volcano-federation.io/outputs`). Pure.

Of one value that a pod is to leave, the message is the value; of several it is a JSON object. What a pod left once stays in the
Job's status, also when the pod has gone; a pod that runs again leaves it anew.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from member_agent.jobs.roster import Roster
from member_agent.views import JobStatus, JobView


def left(job: JobView, status: JobStatus, *, roster: Roster) -> JobStatus:
    """The status with what pods that succeeded have left."""
    if not job.rules.outputs:
        return status
    found = dict(status.outputs)
    for (task, index), wanted in _by_pod(job).items():
        name = roster.there(task).get(index)
        pod = roster.pods.get(name) if name is not None else None
        if pod is not None and pod.phase == "Succeeded" and pod.end is not None:
            found |= values(pod.end.left, wanted)
    return status if found == status.outputs else msgspec.structs.replace(status, outputs=found)


def _by_pod(job: JobView) -> dict[tuple[str, int], list[str]]:
    first = job.rules.roles[0].name if job.rules.roles else ""
    pods: dict[tuple[str, int], list[str]] = {}
    for each in job.rules.outputs:
        pods.setdefault((each.task or first, each.index), []).append(each.name)
    return pods


def wanted_of(job: JobView, task: str) -> str:
    """The indices of a task whose pods are to leave something, as their annotation says it; "" for none."""
    first = job.rules.roles[0].name if job.rules.roles else ""
    return ",".join(str(index) for index in sorted({each.index for each in job.rules.outputs if (each.task or first) == task}))


def values(message: str, wanted: list[str]) -> dict[str, str]:
    """What a termination message says of the values wanted; those it does not name are left out."""
    text = message.strip()
    try:
        read: Any = json.loads(text)
    except ValueError:
        read = None
    if isinstance(read, dict) and any(name in read for name in wanted):
        return {name: _text(read[name]) for name in wanted if name in read}
    return {wanted[0]: text} if len(wanted) == 1 and text else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), sort_keys=True)
