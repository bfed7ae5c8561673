"""A Job as pods, groups and plugins are made from it: names, tasks, hosts; read once from view and manifest. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from apis import kinds, naming
from apis.runs import TaskSlice
from member_agent.views import JobView

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """One task. `indices` are those of all clusters; `hostname` and `subdomain` are what the template itself sets."""

    job: str
    name: str
    indices: Sequence[int]
    template: Mapping[str, Any]
    hostname: str = ""
    subdomain: str = ""
    manifest: Mapping[str, Any] = field(default_factory=dict)

    @property
    def replicas(self) -> int:
        """Pods over all clusters."""
        return len(self.indices)

    def host(self, index: int) -> str:
        """The name by which other pods of the Job reach this one: `<hostname>.<subdomain>`."""
        name = self.hostname or naming.pod_name(self.job, task=self.name, index=index)
        return f"{name}.{self.subdomain or self.job}"

    def hosts(self) -> list[str]:
        """Hosts of all pods in order of index; one, where the template gives all pods one hostname."""
        return [self.host(index) for index in (self.indices[:1] if self.hostname else self.indices)]


@dataclass(frozen=True, slots=True)
class JobFacts:
    """What plugins may know of a Job. `manifest` is the Job as served and must not be changed."""

    namespace: str
    name: str
    uid: str
    tasks: Mapping[str, TaskFacts]
    manifest: Mapping[str, Any]
    owner: Mapping[str, Any]

    @property
    def replicas(self) -> int:
        """Pods of all tasks over all clusters."""
        return sum(task.replicas for task in self.tasks.values())


def owner(job: JobView) -> Manifest:
    """The controlling owner reference."""
    return {
        "apiVersion": kinds.JOB.api_version,
        "kind": kinds.JOB.kind,
        "name": job.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def tasks_in(manifest: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Tasks by name, the name filled in as upstream admission does."""
    for index, task in enumerate((manifest.get("spec") or {}).get("tasks") or []):
        yield task.get("name") or f"default{index}", task


def facts_of(job: JobView, manifest: Mapping[str, Any]) -> JobFacts:
    """The facts; tasks have the pods of all clusters of the run."""
    totals = _totals(job)
    tasks = {name: _task(job.name, name, task, totals.get(name, 0)) for name, task in tasks_in(manifest)}
    return JobFacts(job.namespace, job.name, job.uid, tasks, manifest, owner(job))


def facts_without_view(manifest: Mapping[str, Any]) -> JobFacts:
    """The facts of a Job that no agent keeps yet: its own replicas, no owner. Raises nothing for fields that are missing."""
    meta = manifest.get("metadata") or {}
    name = meta.get("name") or ""
    tasks = {task: _task(name, task, each, int(each.get("replicas") or 0)) for task, each in tasks_in(manifest)}
    return JobFacts(meta.get("namespace") or "", name, meta.get("uid") or "", tasks, manifest, {})


def _totals(job: JobView) -> dict[str, int]:
    """Pods of each task: what the run record says that the whole run has, else its replicas."""
    slices: Mapping[str, TaskSlice] = job.record.tasks if job.record else {}
    tasks = job.gang.tasks if job.gang else ()
    return {task.name: slices[task.name].total if task.name in slices else task.replicas for task in tasks}


def _task(job: str, name: str, task: Mapping[str, Any], total: int) -> TaskFacts:
    template = task.get("template") or {}
    spec = template.get("spec") or {}
    return TaskFacts(
        job=job,
        name=name,
        indices=range(total),
        template=template,
        hostname=spec.get("hostname") or "",
        subdomain=spec.get("subdomain") or "",
        manifest=task,
    )
