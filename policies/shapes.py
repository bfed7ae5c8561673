"""What a Job asks of nodes: pod shapes, and the gang that they form.

A shape is everything about a pod template that decides on which node it can run, as far as the hub can know it. Equal
shapes are one object (`Pool`), because ten thousand Jobs are made from a handful of templates.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from apis.quantities import InvalidQuantity
from apis.vectors import MILLI, ResourceVector, total

ONE_POD: Final = ResourceVector({"pods": MILLI})


@dataclass(frozen=True, slots=True, order=True)
class Requirement:
    """One expression over labels: In, NotIn, Exists, DoesNotExist, Gt, Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether a label set satisfies it; an operator nobody knows is never satisfied."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return value is not None and self._compares(value)
            case _:
                return False

    def _compares(self, value: str) -> bool:
        try:
            left, right = int(value), int(self.values[0])
        except (ValueError, IndexError):
            return False
        return left > right if self.operator == "Gt" else left < right


@dataclass(frozen=True, slots=True, order=True)
class Taint:
    """A taint of a node or of a cluster."""

    key: str
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True, order=True)
class Toleration:
    """What a pod, or a policy, puts up with."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """By the rules of Kubernetes: an empty key with Exists tolerates everything, an empty effect every effect."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.operator == "Exists":
            return self.key in ("", taint.key)
        return self.key == taint.key and self.value == taint.value


def tolerated(taints: Iterable[Taint], *, by: tuple[Toleration, ...]) -> Taint | None:
    """The first taint that keeps new pods away and is not tolerated; None when there is none."""
    for taint in taints:
        if taint.effect in ("NoSchedule", "NoExecute") and not any(each.tolerates(taint) for each in by):
            return taint
    return None


@dataclass(frozen=True, slots=True, weakref_slot=True)
class PodShape:
    """One pod: requests (milli units, one pod included), where it may run, and what the hub cannot answer.

    `node_affinity` are the required terms: one of them must hold, each is a conjunction; empty: anywhere.
    `unknown` names what only the member's scheduler can answer (protocol.md 4); "" when requests and labels decide.
    """

    requests: ResourceVector
    node_selector: tuple[tuple[str, str], ...] = ()
    node_affinity: tuple[tuple[Requirement, ...], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    one_per_node: bool = False
    unknown: str = ""

    def accepts(self, labels: Mapping[str, str], *, taints: tuple[Taint, ...]) -> bool:
        """Whether a node of these labels and taints may run it."""
        if any(labels.get(key) != value for key, value in self.node_selector):
            return False
        if self.node_affinity and not any(all(each.holds(labels) for each in term) for term in self.node_affinity):
            return False
        return tolerated(taints, by=self.tolerations) is None


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Task:
    """One task of a Job: how many pods, how many of them the gang needs, and their shape."""

    name: str
    replicas: int
    minimum: int
    shape: PodShape


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Gang:
    """All tasks of a Job and its minimum; equal gangs are answered alike everywhere."""

    tasks: tuple[Task, ...]
    minimum: int
    digest: str = field(default="", compare=False)

    @property
    def replicas(self) -> int:
        """Pods in all."""
        return sum(task.replicas for task in self.tasks)

    @property
    def requests(self) -> ResourceVector:
        """What all pods ask for together."""
        return total(task.shape.requests * task.replicas for task in self.tasks)

    @property
    def unknown(self) -> str:
        """The first thing the hub cannot answer, or ""."""
        return next((task.shape.unknown for task in self.tasks if task.shape.unknown), "")

    def whole(self) -> tuple[tuple[PodShape, int], ...]:
        """Shapes and counts when everything runs."""
        return tuple((task.shape, task.replicas) for task in self.tasks if task.replicas)

    def least(self) -> tuple[tuple[PodShape, int], ...]:
        """Shapes and counts of the gang minimum.

        Task minima count only while together they do not exceed the Job's minimum (reference/volcano.md 4.3, gang); what
        is missing to the minimum is taken in the order of tasks.
        """
        floors = [min(task.minimum, task.replicas) for task in self.tasks]
        if sum(floors) > self.minimum:
            floors = [0 for _ in self.tasks]
        missing = self.minimum - sum(floors)
        for index, task in enumerate(self.tasks):
            more = min(missing, task.replicas - floors[index])
            floors[index] += more
            missing -= more
        return tuple((task.shape, count) for task, count in zip(self.tasks, floors, strict=True) if count)


# --- reading ---------------------------------------------------------------------------------------------------------


class _Wire(msgspec.Struct, frozen=True, rename="camel"):
    pass


class _Resources(_Wire, frozen=True):
    requests: dict[str, Any] | None = None
    limits: dict[str, Any] | None = None
    claims: list[Any] | None = None


class _Port(_Wire, frozen=True):
    host_port: int | None = None


class _Container(_Wire, frozen=True):
    resources: _Resources | None = None
    ports: list[_Port] | None = None
    restart_policy: str | None = None


class _Expression(_Wire, frozen=True):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class _Term(_Wire, frozen=True):
    match_expressions: list[_Expression] | None = None
    match_fields: list[_Expression] | None = None


class _Required(_Wire, frozen=True):
    node_selector_terms: list[_Term] | None = None


class _NodeAffinity(_Wire, frozen=True):
    required: _Required | None = msgspec.field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)


class _PodAffinity(_Wire, frozen=True):
    required: list[Any] | None = msgspec.field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)


class _Affinity(_Wire, frozen=True):
    node_affinity: _NodeAffinity | None = None
    pod_affinity: _PodAffinity | None = None
    pod_anti_affinity: _PodAffinity | None = None


class _Spread(_Wire, frozen=True):
    when_unsatisfiable: str = "DoNotSchedule"


class _Toleration(_Wire, frozen=True):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class PodSpec(_Wire, frozen=True):
    """What of a pod's spec decides on its node."""

    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    overhead: dict[str, Any] | None = None
    node_selector: dict[str, str] | None = None
    affinity: _Affinity | None = None
    tolerations: list[_Toleration] | None = None
    topology_spread_constraints: list[_Spread] | None = None
    resource_claims: list[Any] | None = None


class PodTemplate(_Wire, frozen=True):
    """The declared part of a pod template."""

    spec: PodSpec = PodSpec()


class PartitionSpec(_Wire, frozen=True):
    """How a task's pods fall into partitions."""

    partition_size: int = 0
    min_partitions: int = 0


class TaskSpec(_Wire, frozen=True):
    """The declared part of a Job's task."""

    name: str = ""
    replicas: int = 0
    min_available: int | None = None
    template: PodTemplate = PodTemplate()
    partition_policy: PartitionSpec | None = None

    @property
    def floor(self) -> int:
        """Its minimum, as admission fills it in: what it says, else what its partitions need, else all of it."""
        if self.min_available is not None:
            return self.min_available
        parts = self.partition_policy
        return parts.min_partitions * parts.partition_size if parts is not None and parts.min_partitions > 0 else self.replicas


class UnreadableShape(ValueError):
    """A template that cannot be read; `field` says where."""

    def __init__(self, message: str, *, field: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


def _container_requests(container: _Container) -> ResourceVector:
    resources = container.resources or _Resources()
    # A resource with only a limit requests its limit: the API server defaults it the same way when the pod is made.
    return ResourceVector.from_quantities({**(resources.limits or {}), **(resources.requests or {})})


def _container_limits(container: _Container) -> ResourceVector:
    return ResourceVector.from_quantities((container.resources or _Resources()).limits)


def _effective(spec: PodSpec, *, of: Callable[[_Container], ResourceVector]) -> ResourceVector:
    """Containers and restartable init containers (sidecars) add up; an ordinary init container needs its own beside the
    sidecars started before it; the larger of both counts (Kubernetes, "resource sharing within containers")."""
    running = total(of(container) for container in spec.containers or [])
    sidecars, peak = ResourceVector(), ResourceVector()
    for container in spec.init_containers or []:
        if container.restart_policy == "Always":
            sidecars = sidecars + of(container)
            peak = peak.at_least(sidecars)
        else:
            peak = peak.at_least(sidecars + of(container))
    return (running + sidecars).at_least(peak)


def pod_requests(spec: PodSpec) -> ResourceVector:
    """Effective requests of a pod, overhead and one pod included."""
    return _effective(spec, of=_container_requests) + ResourceVector.from_quantities(spec.overhead) + ONE_POD


def pod_limits(spec: PodSpec) -> ResourceVector:
    """Effective limits of a pod; overhead adds to a limit that is there."""
    limits = _effective(spec, of=_container_limits)
    overhead = ResourceVector.from_quantities(spec.overhead)
    return limits + ResourceVector({name: amount for name, amount in overhead.items() if name in limits})


def _expressions(listed: list[_Expression] | None) -> tuple[Requirement, ...]:
    return tuple(Requirement(each.key, each.operator, tuple(each.values or ())) for each in listed or [])


def _node_affinity(affinity: _Affinity | None) -> tuple[tuple[Requirement, ...], ...]:
    required = affinity.node_affinity.required if affinity and affinity.node_affinity else None
    terms = required.node_selector_terms if required else None
    return tuple(_expressions(term.match_expressions) for term in terms or [])


def _unknown(spec: PodSpec) -> str:
    """What requests, labels and taints do not decide."""
    affinity = spec.affinity or _Affinity()
    if affinity.pod_affinity and affinity.pod_affinity.required:
        return "inter-pod affinity"
    if affinity.pod_anti_affinity and affinity.pod_anti_affinity.required:
        return "inter-pod anti-affinity"
    if any(each.when_unsatisfiable == "DoNotSchedule" for each in spec.topology_spread_constraints or []):
        return "topology spread"
    if spec.resource_claims or any(each.resources and each.resources.claims for each in spec.containers or []):
        return "dynamic resource claims"
    required = affinity.node_affinity.required if affinity.node_affinity else None
    terms = (required.node_selector_terms if required else None) or []
    return "node field selectors" if any(term.match_fields for term in terms) else ""


def _has_host_port(spec: PodSpec) -> bool:
    return any(port.host_port for container in spec.containers or [] for port in container.ports or [])


def read_shape(template: PodTemplate) -> PodShape:
    """The shape of a template; raises InvalidQuantity."""
    return shape_of(template.spec)


def shape_of(spec: PodSpec) -> PodShape:
    """The shape of a pod; raises InvalidQuantity."""
    return PodShape(
        requests=pod_requests(spec),
        node_selector=tuple(sorted((spec.node_selector or {}).items())),
        node_affinity=_node_affinity(spec.affinity),
        tolerations=tuple(
            Toleration(each.key or "", each.operator or "Equal", each.value or "", each.effect or "")
            for each in spec.tolerations or []
        ),
        one_per_node=_has_host_port(spec),
        unknown=_unknown(spec),
    )


class Pool:
    """Keeps one object per value for as long as somebody holds it."""

    def __init__(self) -> None:
        self._shapes: weakref.WeakValueDictionary[PodShape, PodShape] = weakref.WeakValueDictionary()
        self._gangs: weakref.WeakValueDictionary[tuple[tuple[Task, ...], int], Gang] = weakref.WeakValueDictionary()

    def shape(self, shape: PodShape) -> PodShape:
        """The one object equal to `shape`."""
        return self._shapes.setdefault(shape, shape)

    def gang(self, tasks: tuple[Task, ...], *, minimum: int) -> Gang:
        """The one gang of these tasks; its digest is worked out when it is new."""
        known = self._gangs.get((tasks, minimum))
        if known is None:
            digest = hashlib.blake2b(repr((tasks, minimum)).encode(), digest_size=8).hexdigest()
            known = Gang(tasks=tasks, minimum=minimum, digest=digest)
            self._gangs[(tasks, minimum)] = known
        return known


def read_gang(tasks: Iterable[TaskSpec], *, minimum: int | None, pool: Pool) -> Gang:
    """The gang of a Job, defaults as upstream admission sets them (reference/volcano.md 1.3); raises UnreadableShape."""
    read = []
    for index, task in enumerate(tasks):
        try:
            shape = pool.shape(read_shape(task.template))
        except InvalidQuantity as error:
            raise UnreadableShape(str(error), field=f"spec.tasks[{index}].template.spec") from error
        read.append(Task(name=task.name or f"default{index}", replicas=task.replicas, minimum=task.floor, shape=shape))
    return pool.gang(tuple(read), minimum=minimum if minimum else sum(task.minimum for task in read))
