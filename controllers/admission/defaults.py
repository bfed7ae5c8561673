"""What a Job gets where it says nothing (reference/volcano.md 1.3)."""

from __future__ import annotations

from typing import Any, Final

from apis.batch import DEFAULT_MAX_RETRY, Job, Task
from apis.keys import DEFAULT_QUEUE, DEFAULT_SCHEDULER

_NEEDS: Final = {"tensorflow": ("svc",), "pytorch": ("svc",), "mpi": ("svc", "ssh"), "ray": ("svc",)}
"""Plugins that another plugin cannot do without."""


def default_job(job: Job, *, scheduler: str = DEFAULT_SCHEDULER) -> Job:
    """The Job completed; `job` stays as it is. Completing twice changes nothing more.

    As upstream: 0 retries and a minimum of 0 count as not given, and given plugin arguments are never overwritten.
    """
    spec = job.spec
    tasks = [_task(task, index=index) for index, task in enumerate(spec.tasks or [])]
    filled: dict[str, Any] = {
        "queue": spec.queue or DEFAULT_QUEUE,
        "scheduler_name": spec.scheduler_name or scheduler,
        "max_retry": spec.max_retry or DEFAULT_MAX_RETRY,
        "min_available": spec.min_available or sum(task.min_available or 0 for task in tasks),
    }
    if spec.tasks is not None:
        filled["tasks"] = tasks
    if spec.plugins:
        filled["plugins"] = _plugins(spec.plugins)
    return job.model_copy(update={"spec": spec.model_copy(update=filled)})


def task_minimum(task: Task) -> int:
    """Pods of a task that must fit at once, where the task does not say: its least partitions, else all of them."""
    if task.min_available is not None:
        return task.min_available
    partition = task.partition_policy
    if partition is not None and partition.min_partitions:
        return partition.min_partitions * partition.partition_size
    return task.replicas or 0


def task_name(task: Task, *, index: int) -> str:
    """The name of a task, given or filled in."""
    return task.name or f"default{index}"


def _task(task: Task, *, index: int) -> Task:
    filled: dict[str, Any] = {
        "name": task_name(task, index=index),
        "replicas": task.replicas or 0,
        "min_available": task_minimum(task),
        "max_retry": task.max_retry or DEFAULT_MAX_RETRY,
    }
    pod = (task.template or {}).get("spec")
    if task.template is not None and isinstance(pod, dict) and pod.get("hostNetwork") and not pod.get("dnsPolicy"):
        filled["template"] = {**task.template, "spec": {**pod, "dnsPolicy": "ClusterFirstWithHostNet"}}
    return task.model_copy(update=filled)


def _plugins(given: dict[str, list[str]]) -> dict[str, list[str]]:
    plugins = dict(given)
    for name in given:
        for needed in _NEEDS.get(name, ()):
            plugins.setdefault(needed, [])
    return plugins
