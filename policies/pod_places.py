"""Where pod templates are in an object, by its kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from apis import kinds

Tree = dict[str, Any]

_TEMPLATE: Final = ("spec", "template", "spec")
_TASKS: Final = ("spec", "tasks", "*", "template", "spec")
_RAY: Final = (("headGroupSpec", "template", "spec"), ("workerGroupSpecs", "*", "template", "spec"))

PATHS: Final[Mapping[tuple[str, str], tuple[tuple[str, ...], ...]]] = {
    ("", "Pod"): (("spec",),),
    ("", "ReplicationController"): (_TEMPLATE,),
    ("apps", "ReplicaSet"): (_TEMPLATE,),
    ("apps", "Deployment"): (_TEMPLATE,),
    ("apps", "DaemonSet"): (_TEMPLATE,),
    ("apps", "StatefulSet"): (_TEMPLATE,),
    ("batch", "Job"): (_TEMPLATE,),
    ("batch", "CronJob"): (("spec", "jobTemplate", *_TEMPLATE),),
    (kinds.JOB.group, "Job"): (_TASKS,),
    (kinds.CRON_JOB.group, "CronJob"): (("spec", "jobTemplate", *_TASKS),),
    (kinds.JOB_TEMPLATE.group, "JobTemplate"): (_TASKS,),
    ("kubeflow.org", "PyTorchJob"): (("spec", "pytorchReplicaSpecs", "*", "template", "spec"),),
    ("kubeflow.org", "TFJob"): (("spec", "tfReplicaSpecs", "*", "template", "spec"),),
    ("kubeflow.org", "MPIJob"): (("spec", "mpiReplicaSpecs", "*", "template", "spec"),),
    ("ray.io", "RayCluster"): tuple(("spec", *path) for path in _RAY),
    ("ray.io", "RayJob"): tuple(("spec", "rayClusterSpec", *path) for path in _RAY),
}
"""Paths to pod specs by group and kind; `*` is every item of a list or map. Objects of other kinds have none that is known."""


@dataclass(frozen=True, slots=True)
class PodPlace:
    """A pod spec inside of an object. `task` is the name of the task, replica type or worker group; "" where there is one."""

    task: str
    spec: Tree

    def containers(self, *, init: bool) -> Iterator[Tree]:
        """Its containers, the init containers before the others where they are wanted."""
        for field in ("initContainers", "containers") if init else ("containers",):
            yield from (each for each in self.spec.get(field) or [] if isinstance(each, dict))


def pods_of(manifest: Mapping[str, Any]) -> list[PodPlace]:
    """Every pod spec of an object, in the order of the manifest; none for a kind that is not known."""
    api_version = str(manifest.get("apiVersion", ""))
    group = api_version.rpartition("/")[0]
    paths = PATHS.get((group, str(manifest.get("kind", ""))), ())
    return [place for path in paths for place in _walk(manifest, path, task="")]


def _walk(node: Any, path: tuple[str, ...], *, task: str) -> Iterator[PodPlace]:
    if not path:
        if isinstance(node, dict):
            yield PodPlace(task, node)
        return
    step, rest = path[0], path[1:]
    if step == "*" and isinstance(node, list):
        for index, item in enumerate(node):
            name = (item.get("name") or item.get("groupName")) if isinstance(item, dict) else None
            yield from _walk(item, rest, task=name or f"default{index}")
    elif step == "*" and isinstance(node, dict):
        for name, item in node.items():
            yield from _walk(item, rest, task=name)
    elif isinstance(node, Mapping) and step in node:
        yield from _walk(node[step], rest, task=task)
