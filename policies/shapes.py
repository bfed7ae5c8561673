"""What a Job asks of nodes: pod shapes, and the gang that they form.

A shape is everything about a pod template that decides on which node it can run, as far as the hub can know it. Equal
shapes are one object (`Pool`), because ten thousand Jobs are made from a handful of templates.
"""

from __future__ import annotations

import dataclasses
import hashlib
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from apis.quantities import InvalidQuantity
from apis.vectors import MILLI, ResourceVector, total
from policies.neighbours import (
    EVERY_ADDRESS,
    Crowd,
    Expression,
    HostPort,
    Labels,
    Neighbours,
    Wire,
    WirePodAffinity,
    WireSpread,
    expressions,
    read_neighbours,
)
from policies.selectors import NEVER, NODE_NAME
from policies.selectors import Requirement as Requirement
from policies.selectors import Taint as Taint
from policies.selectors import Toleration as Toleration
from policies.selectors import tolerated as tolerated
from policies.volumes import VolumeNeeds

ONE_POD: Final = ResourceVector({"pods": MILLI})

CLAIMS: Final = "dynamic resource claims"
"""What nobody decides yet: neither the hub nor a member's scheduler."""

BY_NAME: Final = "node field selectors"
"""What only a member can answer: nodes by name."""

Term = tuple[Requirement, ...]
"""A conjunction over the labels of a node, or over its name (`selectors.NODE_NAME`)."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class PodShape:
    """One pod: requests (milli units, one pod included), where it may run, and what the hub cannot answer.

    `node_affinity` are the required terms: one of them must hold, each is a conjunction; empty: anywhere.
    `unknown` names what only the member's scheduler can answer (protocol.md 4); "" when requests and labels decide.

    The last six are known at members alone: terms over other pods, the crowds in which the pod itself is counted (of those
    that anybody speaks of), nodes it would rather have with their weights, its images, and what its volumes need now.
    """

    requests: ResourceVector
    node_selector: tuple[tuple[str, str], ...] = ()
    node_affinity: tuple[Term, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    one_per_node: bool = False
    unknown: str = ""
    ports: tuple[HostPort, ...] = ()
    neighbours: Neighbours | None = None
    seen: tuple[Crowd, ...] = ()
    prefers: tuple[tuple[Term, int], ...] = ()
    images: tuple[str, ...] = ()
    volumes: VolumeNeeds | None = None
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Shapes are keys on the hottest paths: their hash is worked out once, over what tells most of them apart."""
        places = (self.node_selector, self.node_affinity, self.tolerations, self.ports)
        object.__setattr__(self, "_hash", hash((self.requests, places, self.unknown, self.neighbours, self.seen, self.volumes)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def minds_others(self) -> bool:
        """Whether pods elsewhere decide on where it may go, or it on where they may."""
        return self.neighbours is not None or self.volumes is not None or bool(self.seen)

    @property
    def undecided(self) -> str:
        """What not even a member's scheduler can answer, or ""."""
        return self.unknown if self.unknown == CLAIMS else ""

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether selector and required affinity accept a node of these labels."""
        if any(labels.get(key) != value for key, value in self.node_selector):
            return False
        return not self.node_affinity or any(all(each.holds(labels) for each in term) for term in self.node_affinity)

    def accepts(self, labels: Mapping[str, str], *, taints: tuple[Taint, ...]) -> bool:
        """Whether a node of these labels and taints may run it."""
        return self.selects(labels) and tolerated(taints, by=self.tolerations) is None


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
    _requests: ResourceVector | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def replicas(self) -> int:
        """Pods in all."""
        return sum(task.replicas for task in self.tasks)

    @property
    def requests(self) -> ResourceVector:
        """What all pods ask for together; worked out once, because every round asks."""
        if self._requests is None:
            object.__setattr__(self, "_requests", total(task.shape.requests * task.replicas for task in self.tasks))
        return self._requests  # type: ignore[return-value]

    @property
    def unknown(self) -> str:
        """The first thing the hub cannot answer, or ""."""
        return next((task.shape.unknown for task in self.tasks if task.shape.unknown), "")

    def whole(self) -> tuple[tuple[PodShape, int], ...]:
        """Shapes and counts when everything runs."""
        return tuple((task.shape, task.replicas) for task in self.tasks if task.replicas)

    def least(self) -> tuple[tuple[PodShape, int], ...]:
        """Shapes and counts of the gang minimum."""
        return tuple((task.shape, count) for task, count in self.minima())

    def minima(self) -> tuple[tuple[Task, int], ...]:
        """Tasks and counts of the gang minimum.

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
        return tuple((task, count) for task, count in zip(self.tasks, floors, strict=True) if count)


# --- reading ---------------------------------------------------------------------------------------------------------


class _Resources(Wire, frozen=True):
    requests: dict[str, Any] | None = None
    limits: dict[str, Any] | None = None
    claims: list[Any] | None = None


class _Port(Wire, frozen=True):
    host_port: int | None = None
    protocol: str | None = None
    host_ip: str | None = msgspec.field(name="hostIP", default=None)


class _Container(Wire, frozen=True):
    resources: _Resources | None = None
    ports: list[_Port] | None = None
    restart_policy: str | None = None
    image: str | None = None


class _Term(Wire, frozen=True):
    match_expressions: list[Expression] | None = None
    match_fields: list[Expression] | None = None


class _Preferred(Wire, frozen=True):
    weight: int = 0
    preference: _Term = _Term()


class _Required(Wire, frozen=True):
    node_selector_terms: list[_Term] | None = None


class _NodeAffinity(Wire, frozen=True):
    required: _Required | None = msgspec.field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)
    preferred: list[_Preferred] | None = msgspec.field(name="preferredDuringSchedulingIgnoredDuringExecution", default=None)


class _Affinity(Wire, frozen=True):
    node_affinity: _NodeAffinity | None = None
    pod_affinity: WirePodAffinity | None = None
    pod_anti_affinity: WirePodAffinity | None = None


class _Toleration(Wire, frozen=True):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class PodSpec(Wire, frozen=True):
    """What of a pod's spec decides on its node."""

    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    overhead: dict[str, Any] | None = None
    node_selector: dict[str, str] | None = None
    affinity: _Affinity | None = None
    tolerations: list[_Toleration] | None = None
    topology_spread_constraints: list[WireSpread] | None = None
    resource_claims: list[Any] | None = None

    @property
    def reads_owner(self) -> bool:
        """Whether its shape depends on whose it is too: namespace and labels, or whether the pod has its node."""
        affinity = self.affinity
        if self.topology_spread_constraints or (affinity and (affinity.pod_affinity or affinity.pod_anti_affinity)):
            return True
        return _unknown(self) == BY_NAME


class PodTemplate(Wire, frozen=True):
    """The declared part of a pod template."""

    spec: PodSpec = PodSpec()


class PartitionSpec(Wire, frozen=True):
    """How a task's pods fall into partitions."""

    partition_size: int = 0
    min_partitions: int = 0


class TaskSpec(Wire, frozen=True):
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
    """Effective requests of a pod, overhead and one pod included; absurd amounts count as the most that is counted."""
    asked = _effective(spec, of=_container_requests) + ResourceVector.from_quantities(spec.overhead)
    return asked.bounded() + ONE_POD


def pod_limits(spec: PodSpec) -> ResourceVector:
    """Effective limits of a pod; overhead adds to a limit that is there."""
    limits = _effective(spec, of=_container_limits)
    overhead = ResourceVector.from_quantities(spec.overhead)
    return limits + ResourceVector({name: amount for name, amount in overhead.items() if name in limits})


def _term(read: _Term, *, fields: bool) -> Term:
    """A term of node affinity; one that says nothing selects nothing."""
    found = expressions(read.match_expressions)
    if fields:
        found += tuple(dataclasses.replace(each, key=NODE_NAME) for each in expressions(read.match_fields))
    return found or ((Requirement("", NEVER),) if fields or not read.match_fields else ())


def _node_affinity(affinity: _Affinity | None, *, fields: bool) -> tuple[Term, ...]:
    required = affinity.node_affinity.required if affinity and affinity.node_affinity else None
    return tuple(_term(each, fields=fields) for each in (required.node_selector_terms if required else None) or ())


def _prefers(affinity: _Affinity | None) -> tuple[tuple[Term, int], ...]:
    listed = affinity.node_affinity.preferred if affinity and affinity.node_affinity else None
    found = [(_term(each.preference, fields=True), each.weight) for each in listed or ()]
    return tuple(each for each in found if each[1] > 0)


def _unknown(spec: PodSpec) -> str:
    """What requests, labels and taints do not decide."""
    affinity = spec.affinity or _Affinity()
    if spec.resource_claims or any(each.resources and each.resources.claims for each in spec.containers or []):
        return CLAIMS
    if affinity.pod_affinity and affinity.pod_affinity.required:
        return "inter-pod affinity"
    if affinity.pod_anti_affinity and affinity.pod_anti_affinity.required:
        return "inter-pod anti-affinity"
    if any(each.when_unsatisfiable == "DoNotSchedule" for each in spec.topology_spread_constraints or []):
        return "topology spread"
    required = affinity.node_affinity.required if affinity.node_affinity else None
    terms = (required.node_selector_terms if required else None) or []
    return BY_NAME if any(term.match_fields for term in terms) else ""


def _ports(spec: PodSpec) -> tuple[HostPort, ...]:
    sidecars = [each for each in spec.init_containers or () if each.restart_policy == "Always"]
    listed = [port for each in (*(spec.containers or ()), *sidecars) for port in each.ports or () if port.host_port]
    found = {HostPort(each.host_port or 0, each.protocol or "TCP", each.host_ip or EVERY_ADDRESS) for each in listed}
    return tuple(sorted(found, key=lambda each: (each.port, each.protocol, each.address)))


def read_shape(template: PodTemplate) -> PodShape:
    """The shape of a template as the hub can know it; raises InvalidQuantity."""
    return shape_of(template.spec)


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose spec it is: the namespace and the labels of a pod, and whether it has its node already."""

    namespace: str
    labels: Labels = ()
    bound: bool = False


def shape_of(spec: PodSpec, *, owner: Owner | None = None) -> PodShape:
    """The shape of a pod, of a template where there is no `owner`; raises InvalidQuantity."""
    ports, known = _ports(spec), owner is not None
    shape = PodShape(
        requests=pod_requests(spec),
        node_selector=tuple(sorted((spec.node_selector or {}).items())),
        node_affinity=() if _settled(spec, owner) else _node_affinity(spec.affinity, fields=known),
        tolerations=tuple(
            Toleration(each.key or "", each.operator or "Equal", each.value or "", each.effect or "")
            for each in spec.tolerations or []
        ),
        one_per_node=bool(ports),
        unknown=_unknown(spec),
        ports=ports,
    )
    return shape if owner is None else _at_member(shape, spec, owner)


def _settled(spec: PodSpec, owner: Owner | None) -> bool:
    """A pod of a daemon that has its node: nobody looks where else it might go, and without this all of them are unlike."""
    return owner is not None and owner.bound and _unknown(spec) == BY_NAME


def _at_member(shape: PodShape, spec: PodSpec, owner: Owner) -> PodShape:
    affinity = spec.affinity or _Affinity()
    images = (each.image for each in (*(spec.init_containers or ()), *(spec.containers or ())))
    return dataclasses.replace(
        shape,
        unknown=CLAIMS if shape.unknown == CLAIMS else "",
        neighbours=read_neighbours(
            affinity.pod_affinity,
            affinity.pod_anti_affinity,
            spec.topology_spread_constraints,
            namespace=owner.namespace,
            labels=dict(owner.labels),
        ),
        prefers=_prefers(affinity),
        images=tuple(sorted(each for each in images if each)),
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
