"""The CEL rules of our definitions that a program could run into, in Python.

The real API server evaluates the rules themselves; here they are only as complete as programs under simulation need: what a
Job must have, and what of it may change.
"""

from __future__ import annotations

from apis import kinds
from apis.kinds import Kind
from machinery.errors import FieldCause
from simulator.schemas import Validator
from simulator.store import Doc

_FIXED = (
    "queue",
    "schedulerName",
    "maxRetry",
    "minSuccess",
    "ttlSecondsAfterFinished",
    "runningEstimate",
    "policies",
    "plugins",
)
_FIXED_TEXT = (
    "job updates may not change fields other than `minAvailable`, `priorityClassName`, `tasks[*].replicas` and"
    " `tasks[*].minAvailable` under spec"
)


def _job(doc: Doc, old: Doc | None) -> list[FieldCause]:
    spec = doc.get("spec") or {}
    tasks = spec.get("tasks") or []
    causes: list[FieldCause] = []
    if not tasks:
        causes.append(FieldCause("spec.tasks", "Invalid value: No task specified in job spec"))
    elif spec.get("minAvailable") is not None and spec["minAvailable"] > sum(task.get("replicas") or 0 for task in tasks):
        text = "Invalid value: job 'minAvailable' should not be greater than total replicas in tasks"
        causes.append(FieldCause("spec.minAvailable", text))
    names = [task["name"] for task in tasks if task.get("name")]
    if len(names) != len(set(names)):
        causes.append(FieldCause("spec.tasks", "Invalid value: duplicated task name"))
    before = (old or {}).get("spec")
    if before is None:
        return causes
    if len(tasks) != len(before.get("tasks") or []):
        causes.append(FieldCause("spec.tasks", "Invalid value: job updates may not add or remove tasks"))
    causes += [
        FieldCause(f"spec.{name}", f"Invalid value: {_FIXED_TEXT}") for name in _FIXED if spec.get(name) != before.get(name)
    ]
    return causes


RULES: dict[Kind, Validator] = {kinds.JOB: _job}
