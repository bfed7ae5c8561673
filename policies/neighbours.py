"""What a pod asks of the pods around it: affinity, anti-affinity, spreading, host ports; and how that is read.

Terms are complete in themselves: the namespace of the pod that has them and the labels that `matchLabelKeys` names are filled
in, so that equal terms of different pods are equal values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from policies.selectors import Requirement

Labels = tuple[tuple[str, str], ...]
"""Labels by key."""

EVERY_ADDRESS: Final = "0.0.0.0"
"""A host port without an address is taken on all of them."""


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port of the node itself."""

    port: int
    protocol: str = "TCP"
    address: str = EVERY_ADDRESS

    def clashes(self, other: HostPort) -> bool:
        """Whether both cannot be had on one node."""
        if (self.port, self.protocol) != (other.port, other.protocol):
            return False
        return self.address == other.address or EVERY_ADDRESS in (self.address, other.address)


@dataclass(frozen=True, slots=True)
class PodSelector:
    """Pods of some namespaces by their labels. `spaces` are namespaces by name, `of_spaces` select more of them by their labels
    (None: no more); `labels` None selects no pod, empty selects every one."""

    spaces: tuple[str, ...]
    of_spaces: tuple[Requirement, ...] | None
    labels: tuple[Requirement, ...] | None

    def selects(self, namespace: str, labels: Mapping[str, str], *, of_namespace: Mapping[str, str]) -> bool:
        """Whether a pod of these labels, in a namespace of these labels, is meant."""
        if self.labels is None or not all(each.holds(labels) for each in self.labels):
            return False
        if namespace in self.spaces:
            return True
        return self.of_spaces is not None and all(each.holds(of_namespace) for each in self.of_spaces)


@dataclass(frozen=True, slots=True)
class Crowd:
    """Pods that count together: those that every one of the selectors means."""

    selectors: tuple[PodSelector, ...]
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(self.selectors))

    def __hash__(self) -> int:
        return self._hash

    def has(self, namespace: str, labels: Mapping[str, str], *, of_namespace: Mapping[str, str]) -> bool:
        """Whether a pod of these labels, in a namespace of these labels, belongs to it."""
        return all(each.selects(namespace, labels, of_namespace=of_namespace) for each in self.selectors)

    @property
    def reads_namespaces(self) -> bool:
        """Whether labels of namespaces decide who belongs to it."""
        return any(each.of_spaces is not None for each in self.selectors)


@dataclass(frozen=True, slots=True)
class PodTerm:
    """Beside (or away from) a crowd: on nodes with the same value of a label."""

    crowd: Crowd
    topology: str


@dataclass(frozen=True, slots=True)
class Spread:
    """A topology spread constraint: no domain may have `skew` more pods of the crowd than the one with the fewest. `hard`:
    a must. `least_domains`: with fewer domains than these the fewest counts as none. `honours_selector` and `honours_taints`:
    domains of nodes that the pod itself cannot run on do not count."""

    crowd: Crowd
    topology: str
    skew: int = 1
    hard: bool = True
    least_domains: int = 1
    honours_selector: bool = True
    honours_taints: bool = False


@dataclass(frozen=True, slots=True)
class Neighbours:
    """All of it. The terms of `beside` have one crowd between them: pods that match every one of them. `prefers` has weights,
    below zero for keeping away."""

    beside: tuple[PodTerm, ...] = ()
    apart: tuple[PodTerm, ...] = ()
    prefers: tuple[tuple[PodTerm, int], ...] = ()
    spreads: tuple[Spread, ...] = ()

    @property
    def crowds(self) -> tuple[Crowd, ...]:
        """Everybody that is spoken of, each once."""
        of_terms = [term.crowd for term in (*self.beside, *self.apart, *(term for term, _ in self.prefers))]
        return tuple(dict.fromkeys((*of_terms, *(each.crowd for each in self.spreads))))


# --- reading ---------------------------------------------------------------------------------------------------------


class Wire(msgspec.Struct, frozen=True, rename="camel"):
    pass


class Expression(Wire, frozen=True):
    """One requirement over labels."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class LabelSelector(Wire, frozen=True):
    """A selector over labels."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[Expression] | None = None


class WireTerm(Wire, frozen=True):
    """A term of pod affinity."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WireWeighted(Wire, frozen=True):
    """A preferred term of pod affinity."""

    weight: int = 0
    pod_affinity_term: WireTerm = WireTerm()


class WirePodAffinity(Wire, frozen=True):
    """Pod affinity, or anti-affinity."""

    required: list[WireTerm] | None = msgspec.field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)
    preferred: list[WireWeighted] | None = msgspec.field(name="preferredDuringSchedulingIgnoredDuringExecution", default=None)


class WireSpread(Wire, frozen=True):
    """A topology spread constraint."""

    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


def expressions(listed: Iterable[Expression] | None) -> tuple[Requirement, ...]:
    """Requirements as they are listed."""
    return tuple(Requirement(each.key, each.operator, tuple(each.values or ())) for each in listed or ())


def requirements(selector: LabelSelector | None) -> tuple[Requirement, ...] | None:
    """A label selector in canonical order; None where there is none."""
    if selector is None:
        return None
    equal = [Requirement(key, "In", (value,)) for key, value in (selector.match_labels or {}).items()]
    listed = [
        Requirement(each.key, each.operator, tuple(sorted(each.values))) for each in expressions(selector.match_expressions)
    ]
    return tuple(sorted({*equal, *listed}))


def _with_own(
    found: tuple[Requirement, ...] | None,
    own: Mapping[str, str],
    *,
    same: Sequence[str] | None,
    other: Sequence[str] | None = None,
) -> tuple[Requirement, ...] | None:
    """With the pod's own values of some keys: those that must be the same, and those that must not."""
    if found is None:
        return None
    more = [Requirement(key, "In", (own[key],)) for key in same or () if key in own]
    more += [Requirement(key, "NotIn", (own[key],)) for key in other or () if key in own]
    return tuple(sorted({*found, *more}))


def _selector(term: WireTerm, *, namespace: str, own: Mapping[str, str]) -> PodSelector:
    found = requirements(term.label_selector)
    spaces = tuple(sorted(set(term.namespaces or ())))
    of_spaces = requirements(term.namespace_selector)
    return PodSelector(
        spaces=spaces if spaces or of_spaces is not None else (namespace,),
        of_spaces=of_spaces,
        labels=_with_own(found, own, same=term.match_label_keys, other=term.mismatch_label_keys),
    )


def _spread(read: WireSpread, *, namespace: str, own: Mapping[str, str]) -> Spread:
    found = _with_own(requirements(read.label_selector), own, same=read.match_label_keys)
    return Spread(
        crowd=Crowd((PodSelector((namespace,), None, found),)),
        topology=read.topology_key,
        skew=max(read.max_skew, 1),
        hard=read.when_unsatisfiable == "DoNotSchedule",
        least_domains=read.min_domains or 1,
        honours_selector=read.node_affinity_policy != "Ignore",
        honours_taints=read.node_taints_policy == "Honor",
    )


def read_neighbours(
    beside: WirePodAffinity | None,
    apart: WirePodAffinity | None,
    spreads: Sequence[WireSpread] | None,
    *,
    namespace: str,
    labels: Mapping[str, str],
) -> Neighbours | None:
    """What a pod of this namespace and these labels asks; None for nothing."""
    near, far = beside or WirePodAffinity(), apart or WirePodAffinity()
    if not (near.required or near.preferred or far.required or far.preferred or spreads):
        return None

    def term(each: WireTerm) -> PodTerm:
        return PodTerm(Crowd((_selector(each, namespace=namespace, own=labels),)), each.topology_key)

    # A pod counts for required affinity only if it matches all of the terms, whatever their topology.
    everyone = Crowd(tuple(_selector(each, namespace=namespace, own=labels) for each in near.required or ()))
    liked = [(term(each.pod_affinity_term), each.weight) for each in near.preferred or ()]
    avoided = [(term(each.pod_affinity_term), -each.weight) for each in far.preferred or ()]
    return Neighbours(
        beside=tuple(PodTerm(everyone, each.topology_key) for each in near.required or ()),
        apart=tuple(term(each) for each in far.required or ()),
        prefers=tuple(each for each in (*liked, *avoided) if each[1]),
        spreads=tuple(_spread(each, namespace=namespace, own=labels) for each in spreads or ()),
    )
