"""Shapes of waiting work as the hub asks members about them (`spec.shapes` of a ClusterCapacity; protocol.md 4).

What is asked about is the whole of what decides where pods may run, cut out of the Job's manifest: the member's scheduler
answers what no published row can, inter-pod affinity and volumes for two.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from apis import keys
from policies.shapes import Gang, PodTemplate, Pool, TaskSpec, read_gang
from policies.shapes import UnreadableShape as Malformed

MOST_SHAPES: Final = 64
"""Shapes that a member is asked about at once (protocol.md 4)."""
MOST_BYTES: Final = 64 << 10
"""What all of them may take together; those that are wanted most come first."""
ONE_SHAPE: Final = 16 << 10
"""What one may take: a larger one is not asked about, and the refusal of the member is the answer."""

_POD: Final = (
    "overhead",
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "resourceClaims",
    "priorityClassName",
    "runtimeClassName",
)
_CLAIMS: Final = ("persistentVolumeClaim", "ephemeral")
_OURS: Final = ("volcano.sh/",)
"""Beginnings of annotations of a template that a scheduler reads."""


class Shape(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One entry of `spec.shapes`."""

    hash: str
    requirements: msgspec.Raw = msgspec.Raw(b"{}")
    minimum: int = 0
    queue: str = ""
    priority: int = 0


class _Task(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    replicas: int = 0
    min_available: int = 0
    template: msgspec.Raw = msgspec.Raw(b"{}")


class _Requirements(msgspec.Struct, frozen=True, rename="camel"):
    namespace: str = ""
    job: str = ""
    tasks: tuple[_Task, ...] = ()


@dataclass(frozen=True, slots=True)
class AskedTask:
    """One task: how many pods, how many of them the gang needs, and its pod template as JSON."""

    name: str
    replicas: int
    minimum: int
    template: bytes


@dataclass(frozen=True, slots=True)
class Asked:
    """A gang that waits at the hub."""

    hash: str
    namespace: str
    job: str
    queue: str
    priority: int
    minimum: int
    tasks: tuple[AskedTask, ...]

    def needed(self) -> tuple[tuple[AskedTask, int], ...]:
        """Pods of each task that make up the minimum, as a gang counts them (`policies.shapes.Gang.least`)."""
        floors = [min(task.minimum, task.replicas) for task in self.tasks]
        if sum(floors) > self.minimum:
            floors = [0 for _ in self.tasks]
        missing = self.minimum - sum(floors)
        for index, task in enumerate(self.tasks):
            more = min(missing, task.replicas - floors[index])
            floors[index] += more
            missing -= more
        return tuple((task, count) for task, count in zip(self.tasks, floors, strict=True) if count)


class UnreadableShape(ValueError):
    """An entry of `spec.shapes` that cannot be asked about; the message says why."""


_requirements = msgspec.json.Decoder(_Requirements)
_template_of = msgspec.json.Decoder(PodTemplate)


def gang_of(asked: Asked, *, pool: Pool) -> Gang | None:
    """The gang as rules see it; None where a template cannot be read."""
    try:
        tasks = [TaskSpec(task.name, task.replicas, task.minimum, _template_of.decode(task.template)) for task in asked.tasks]
        return read_gang(tasks, minimum=asked.minimum, pool=pool)
    except (msgspec.MsgspecError, Malformed):
        return None


def read(shape: Shape) -> Asked:
    """What is asked; raises UnreadableShape."""
    try:
        found = _requirements.decode(shape.requirements)
    except msgspec.MsgspecError as error:
        raise UnreadableShape(f"shape {shape.hash}: {error}") from error
    tasks = tuple(AskedTask(each.name, each.replicas, each.min_available, bytes(each.template)) for each in found.tasks)
    if not any(task.replicas > 0 for task in tasks) or any(task.replicas < 0 or task.minimum < 0 for task in tasks):
        raise UnreadableShape(f"shape {shape.hash}: it has no pods")
    return Asked(shape.hash, found.namespace, found.job, shape.queue, shape.priority, shape.minimum, tasks)


# --- the hub's side --------------------------------------------------------------------------------------------------


def requirements_of(document: bytes) -> dict[str, Any]:
    """What of a Job's manifest decides where it may run; the same bytes give the same answer. Raises msgspec's errors."""
    job = msgspec.json.decode(document)
    meta, spec = job.get("metadata") or {}, job.get("spec") or {}
    tasks = [_task(index, task) for index, task in enumerate(spec.get("tasks") or [])]
    return {"namespace": meta.get("namespace", ""), "job": meta.get("name", ""), "tasks": tasks}


def of_job(document: bytes) -> Asked:
    """A Job's manifest as a question, by itself and for nobody else; raises UnreadableShape."""
    try:
        requirements = msgspec.Raw(msgspec.json.encode(requirements_of(document)))
        spec = msgspec.json.decode(document).get("spec") or {}
    except (msgspec.MsgspecError, AttributeError, TypeError) as error:
        raise UnreadableShape(str(error)) from error
    found = read(Shape("job", requirements, queue=spec.get("queue") or ""))
    least = spec.get("minAvailable") or sum(task.minimum for task in found.tasks)
    return replace(found, minimum=least)


def fingerprint(document: bytes) -> str:
    """A short name for what decides where a Job may run: the same for Jobs that differ in nothing but their names. The name
    counts where somebody's terms speak of it."""
    found = requirements_of(document)
    if keys.JOB_NAME not in str(found["tasks"]):
        found["job"] = ""
    spec = msgspec.json.decode(document).get("spec") or {}
    told = msgspec.json.encode((found, spec.get("minAvailable")), order="deterministic")
    return hashlib.blake2b(told, digest_size=8).hexdigest()


def _task(index: int, task: Mapping[str, Any]) -> dict[str, Any]:
    replicas = task.get("replicas") or 0
    parts = task.get("partitionPolicy") or {}
    least = task.get("minAvailable")
    if least is None:
        whole = (parts.get("minPartitions") or 0) * (parts.get("partitionSize") or 0)
        least = whole if whole > 0 else replicas
    return {
        "name": task.get("name") or f"default{index}",
        "replicas": replicas,
        "minAvailable": least,
        "template": _template(task.get("template") or {}),
    }


def _template(template: Mapping[str, Any]) -> dict[str, Any]:
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    notes = {key: value for key, value in (meta.get("annotations") or {}).items() if key.startswith(_OURS)}
    kept: dict[str, Any] = {name: spec[name] for name in _POD if spec.get(name)}
    kept["containers"] = [_container(each) for each in spec.get("containers") or []]
    if spec.get("initContainers"):
        kept["initContainers"] = [_container(each) for each in spec["initContainers"]]
    volumes = [_volume(each) for each in spec.get("volumes") or [] if any(each.get(kind) for kind in _CLAIMS)]
    if volumes:
        kept["volumes"] = volumes
    told = {name: value for name, value in (("labels", meta.get("labels")), ("annotations", notes)) if value}
    return {"metadata": told, "spec": kept}


def _container(container: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: container[name] for name in ("name", "image", "resources", "restartPolicy") if container.get(name)}
    ports = [each for each in container.get("ports") or [] if each.get("hostPort")]
    return {**kept, "ports": ports} if ports else kept


def _volume(volume: Mapping[str, Any]) -> dict[str, Any]:
    return {name: volume[name] for name in ("name", *_CLAIMS) if volume.get(name)}


def written(shape: Shape) -> dict[str, Any]:
    """One entry as it is written."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(shape))
    return found


def within(shapes: Iterable[Shape]) -> list[Shape]:
    """The first of them, as many as may be asked about at once; each hash once."""
    kept: dict[str, Shape] = {}
    left = MOST_BYTES
    for shape in shapes:
        size = len(msgspec.json.encode(shape)) + 1
        if shape.hash in kept or size > ONE_SHAPE or size > left:
            continue
        kept[shape.hash] = shape
        left -= size
        if len(kept) == MOST_SHAPES:
            break
    return list(kept.values())
