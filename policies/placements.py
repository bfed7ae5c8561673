"""Propagation policies as rules see them: whom they select, which clusters they allow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from policies.shapes import Requirement, Toleration
from policies.views import Meta, own_settings


class _Wire(msgspec.Struct, frozen=True, rename="camel"):
    """Declared fields only."""


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """matchLabels and matchExpressions as one conjunction."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """An empty selector matches everything."""
        return all(each.holds(labels) for each in self.requirements)


@dataclass(frozen=True, slots=True)
class Affinity:
    """Which clusters a policy means; what is given must all hold, nothing given means every cluster."""

    names: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    labels: LabelSelector | None = None
    fields: tuple[Requirement, ...] = ()
    name: str = ""


@dataclass(frozen=True, slots=True)
class Selector:
    """One resource selector of a policy."""

    api_version: str
    kind: str
    namespace: str = ""
    name: str = ""
    labels: LabelSelector | None = None


@dataclass(frozen=True, slots=True)
class PolicyView:
    """A PropagationPolicy (`namespace` set) or a ClusterPropagationPolicy.

    `affinities` are alternatives in order, the first with a fitting cluster is used; none means any cluster.
    """

    namespace: str
    name: str
    uid: str = ""
    version: str = ""
    priority: int = 0
    selectors: tuple[Selector, ...] = ()
    affinities: tuple[Affinity, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    placement: bytes = b""
    """`spec.placement` as written, for the binding."""
    places_again: bool = False
    """`spec.failover.application` is set: a Job that was deleted in its member is granted again (protocol.md 2, A6)."""
    deleting: bool = False

    @property
    def title(self) -> str:
        """How people refer to it."""
        if not self.uid:
            return self.name
        return f"PropagationPolicy {self.namespace}/{self.name}" if self.namespace else f"ClusterPropagationPolicy {self.name}"


class ExpressionWire(_Wire, frozen=True):
    """One requirement as it is written."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class LabelSelectorWire(_Wire, frozen=True):
    """A label selector as it is written."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[ExpressionWire] | None = None


class FieldSelectorWire(_Wire, frozen=True):
    """A field selector as it is written."""

    match_expressions: list[ExpressionWire] | None = None


class AffinityWire(_Wire, frozen=True):
    """A cluster affinity, or a term of several, as it is written."""

    affinity_name: str = ""
    cluster_names: list[str] | None = None
    exclude: list[str] | None = None
    label_selector: LabelSelectorWire | None = None
    field_selector: FieldSelectorWire | None = None


class _Toleration(_Wire, frozen=True):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class _Placement(_Wire, frozen=True):
    cluster_affinity: AffinityWire | None = None
    cluster_affinities: list[AffinityWire] | None = None
    cluster_tolerations: list[_Toleration] | None = None


class SelectorWire(_Wire, frozen=True):
    """A resource selector as it is written."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    label_selector: LabelSelectorWire | None = None


class _Failover(_Wire, frozen=True):
    application: msgspec.Raw = msgspec.Raw(b"null")


class _PolicySpec(_Wire, frozen=True):
    resource_selectors: list[SelectorWire] | None = None
    priority: int | None = None
    placement: msgspec.Raw = msgspec.Raw(b"{}")
    failover: _Failover | None = None


class _Policy(_Wire, frozen=True):
    metadata: Meta = Meta()
    spec: _PolicySpec = _PolicySpec()


_policy = msgspec.json.Decoder(_Policy)


_placement = msgspec.json.Decoder(_Placement)


def _requirements(listed: list[ExpressionWire] | None) -> tuple[Requirement, ...]:
    return tuple(Requirement(each.key, each.operator, tuple(each.values or ())) for each in listed or [])


def labels_of(selector: LabelSelectorWire | None) -> LabelSelector | None:
    """A label selector; None where none is given."""
    if selector is None:
        return None
    exact = tuple(Requirement(key, "In", (value,)) for key, value in sorted((selector.match_labels or {}).items()))
    return LabelSelector(exact + _requirements(selector.match_expressions))


def affinity_of(read: AffinityWire) -> Affinity:
    """Which clusters are meant."""
    return Affinity(
        names=tuple(read.cluster_names or ()),
        exclude=tuple(read.exclude or ()),
        labels=labels_of(read.label_selector),
        fields=_requirements(read.field_selector.match_expressions if read.field_selector else None),
        name=read.affinity_name,
    )


def selectors_of(read: list[SelectorWire] | None) -> tuple[Selector, ...]:
    """The resource selectors of a policy."""
    return tuple(
        Selector(each.api_version, each.kind, each.namespace, each.name, labels_of(each.label_selector)) for each in read or []
    )


def project_policy(document: bytes) -> PolicyView:
    """A PropagationPolicy or ClusterPropagationPolicy."""
    read = _policy.decode(document)
    placement = _placement.decode(read.spec.placement)
    affinities = placement.cluster_affinities or ([placement.cluster_affinity] if placement.cluster_affinity else [])
    return PolicyView(
        namespace=read.metadata.namespace,
        name=read.metadata.name,
        uid=read.metadata.uid,
        version=read.metadata.resource_version,
        priority=read.spec.priority or 0,
        selectors=selectors_of(read.spec.resource_selectors),
        affinities=tuple(affinity_of(each) for each in affinities),
        tolerations=tuple(
            Toleration(each.key or "", each.operator or "Equal", each.value or "", each.effect or "")
            for each in placement.cluster_tolerations or []
        ),
        settings=own_settings(read.metadata.annotations),
        placement=bytes(read.spec.placement),
        places_again=read.spec.failover is not None and bytes(read.spec.failover.application) != b"null",
        deleting=read.metadata.deletion_timestamp is not None,
    )
