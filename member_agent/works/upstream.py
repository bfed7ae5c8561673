"""What becomes of a run where a Volcano runs the Jobs of this member: what it cannot be asked for, and the Job it gets.

A spec goes through typed clients there, which drop fields they do not know; so nothing of ours may be left in it that
somebody relies on. What the agent itself acts on afterwards is in `member_agent.upstream`. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apis import keys, runs
from apis.batch import DEFAULT_MAX_RETRY, PLUGINS
from apis.runs import RunRecord
from member_agent.views import JobView


def unsupported(job: JobView, record: RunRecord) -> str:
    """What the Job asks for that upstream has not and the agent cannot add from outside, each by its field; "" for nothing."""
    found = [f"metadata.annotations[{keys.MAIN_CONTAINER}]: only the end of a whole pod counts there"] if job.rules.main else []
    if job.rules.outputs:
        found.append(f"metadata.annotations[{keys.OUTPUTS}]: its pods do not say that what they leave is wanted")
    if job.rules.only_below_minimum:
        found.append(f"metadata.annotations[{keys.ONLY_BELOW_MINIMUM}]: its policies act on every pod")
    found += [f"spec.plugins.{name}: not a plugin of Volcano" for name in job.rules.plugins if name not in PLUGINS]
    if not record.release:
        found.append("a gang over several clusters: its scheduler holds no nodes for others")
    if job.rules.plugins and _divided(job, record):
        named = ", ".join(f"spec.plugins.{name}" for name in job.rules.plugins)
        found.append(f"{named} of a Job divided over clusters: its plugins count the pods of one cluster alone")
    return "; ".join(found)


def _divided(job: JobView, record: RunRecord) -> bool:
    """Some task has pods in other clusters too."""
    here = {task.name: task.replicas for task in job.gang.tasks} if job.gang is not None else {}
    return any(part.offset or part.total != here.get(name, part.total) for name, part in record.tasks.items())


def translated(body: Mapping[str, Any], record: RunRecord) -> dict[str, Any]:
    """A hub-run Job as upstream runs it: restarts counted as we count them, and every pod marked as one of this run."""
    metadata, spec = dict(body["metadata"]), dict(body.get("spec") or {})
    notes = metadata.get("annotations") or {}
    allowed = 1 if notes.get(keys.NO_RETRY) == "true" else spec.get("maxRetry") or DEFAULT_MAX_RETRY
    spec["maxRetry"] = max(allowed - record.retries, 1)
    spec.pop("suspend", None)  # of a hub-run Job the hub says so, by withdrawing it
    spec["tasks"] = [_task(task, record) for task in spec.get("tasks") or []]
    return {**body, "metadata": metadata, "spec": spec}


def _task(task: Mapping[str, Any], record: RunRecord) -> dict[str, Any]:
    """The task with the run record on its pods, by which the agent knows them, and the epoch in their environment."""
    template = dict(task.get("template") or {})
    metadata, spec = dict(template.get("metadata") or {}), dict(template.get("spec") or {})
    metadata["annotations"] = {**(metadata.get("annotations") or {}), keys.RUN: runs.encode(record)}
    for field in ("initContainers", "containers"):
        if spec.get(field):
            spec[field] = [_with_epoch(container, record) for container in spec[field]]
    return {**task, "template": {**template, "metadata": metadata, "spec": spec}}


def _with_epoch(container: Mapping[str, Any], record: RunRecord) -> dict[str, Any]:
    kept = [each for each in container.get("env") or [] if each.get("name") != keys.EPOCH_ENV]
    return {**container, "env": [*kept, {"name": keys.EPOCH_ENV, "value": str(record.epoch)}]}
