"""Propagation policies as rules see them: whom they select, which clusters they allow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from policies.division import Strategy
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
    overflow: tuple[Affinity, ...] = ()
    """Clusters that are used, in this order, once those meant above are full."""

    @property
    def empty(self) -> bool:
        """Nothing is given: every cluster is meant."""
        return not (self.names or self.exclude or self.labels or self.fields)


@dataclass(frozen=True, slots=True)
class ReplicaRule:
    """How replicas are divided; `strategy` None: the policy says nothing, so that a Job runs whole in one cluster.

    `weights` are static: a cluster has the largest of those that mean it, and 0 where none does.
    """

    strategy: Strategy | None = None
    weights: tuple[tuple[Affinity, int], ...] = ()


@dataclass(frozen=True, slots=True)
class SpreadRule:
    """Over how many groups a placement goes. `by` is cluster, region, zone or provider, or a label's key where `label` is set.

    `least` is at least 1; `most` 0 means without bound.
    """

    by: str
    least: int = 1
    most: int = 0
    label: bool = False


@dataclass(frozen=True, slots=True)
class ApplicationRule:
    """What becomes of a run that has started and is no longer whole: after `toleration` seconds it is placed anew, unless
    `never`: then it stays, and people are told."""

    toleration: int = 300
    never: bool = False


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
    bears: tuple[tuple[Toleration, int], ...] = ()
    """Seconds for which tolerations hold, where that is limited."""
    settings: Mapping[str, str] = field(default_factory=dict)
    placement: bytes = b""
    """`spec.placement` as written, for the binding."""
    places_again: bool = False
    """`spec.failover.application` is set: a Job that was deleted in its member is granted again (protocol.md 2, A6)."""
    application: ApplicationRule | None = None
    deleting: bool = False
    generation: int = 0
    preempts: bool = False
    """`preemption: Always`: it takes objects from policies that claimed them before."""
    lazy: bool = False
    """A change of the policy acts with the next change of the object."""
    overwrites: bool = False
    """`conflictResolution: Overwrite`: an object that a member has already is adopted."""
    suspended: bool = False
    suspended_on: frozenset[str] = frozenset()
    preserves: bool | None = None
    """Objects stay in members when they are deleted at the hub."""
    carries: bool = False
    """`propagateDeps`: what objects refer to goes with them."""
    waits_for: tuple[str, ...] = ()
    """Override policies that must exist before it acts."""
    priority_class: str = ""
    replicas: ReplicaRule = ReplicaRule()
    spread: tuple[SpreadRule, ...] = ()
    together_by: str = ""
    apart_by: str = ""
    """Label keys: objects of one value go to the same cluster, or to different ones."""

    @property
    def default(self) -> bool:
        """It governs what no other policy selects (annotation `volcano-federation.io/default: "true"`)."""
        return self.settings.get("default") == "true"

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
    overflow_affinities: list[AffinityWire] | None = None


class _Toleration(_Wire, frozen=True):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None

    def made(self) -> Toleration:
        return Toleration(self.key or "", self.operator or "Equal", self.value or "", self.effect or "")


class _Weight(_Wire, frozen=True):
    target_cluster: AffinityWire = AffinityWire()
    weight: int = 0


class _Weights(_Wire, frozen=True):
    static_weight_list: list[_Weight] | None = None
    dynamic_weight: str | None = None


class _Replicas(_Wire, frozen=True):
    replica_scheduling_type: str | None = None
    replica_division_preference: str | None = None
    weight_preference: _Weights | None = None


class _Spread(_Wire, frozen=True):
    spread_by_field: str | None = None
    spread_by_label: str | None = None
    min_groups: int | None = None
    max_groups: int | None = None


class _GroupBy(_Wire, frozen=True):
    group_by_label_key: str = ""


class _Groups(_Wire, frozen=True):
    affinity: _GroupBy | None = None
    anti_affinity: _GroupBy | None = None


class _Placement(_Wire, frozen=True):
    cluster_affinity: AffinityWire | None = None
    cluster_affinities: list[AffinityWire] | None = None
    cluster_tolerations: list[_Toleration] | None = None
    spread_constraints: list[_Spread] | None = None
    replica_scheduling: _Replicas | None = None
    workload_affinity: _Groups | None = None


class SelectorWire(_Wire, frozen=True):
    """A resource selector as it is written."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    label_selector: LabelSelectorWire | None = None


class _Decision(_Wire, frozen=True):
    toleration_seconds: int | None = None


class _Application(_Wire, frozen=True):
    decision_conditions: _Decision | None = None
    purge_mode: str | None = None

    def made(self) -> ApplicationRule:
        seconds = self.decision_conditions.toleration_seconds if self.decision_conditions is not None else None
        return ApplicationRule(300 if seconds is None else seconds, never=self.purge_mode == "Never")


class _Failover(_Wire, frozen=True):
    application: _Application | None = None


class _OnClusters(_Wire, frozen=True):
    cluster_names: list[str] | None = None


class _Suspension(_Wire, frozen=True):
    dispatching: bool | None = None
    dispatching_on_clusters: _OnClusters | None = None


class _SchedulePriority(_Wire, frozen=True):
    priority_class_name: str = ""


class _PolicySpec(_Wire, frozen=True):
    resource_selectors: list[SelectorWire] | None = None
    priority: int | None = None
    placement: msgspec.Raw = msgspec.Raw(b"{}")
    failover: _Failover | None = None
    preemption: str | None = None
    activation_preference: str | None = None
    conflict_resolution: str | None = None
    suspension: _Suspension | None = None
    preserve_resources_on_deletion: bool | None = None
    propagate_deps: bool | None = None
    dependent_overrides: list[str] | None = None
    schedule_priority: _SchedulePriority | None = None


class _Policy(_Wire, frozen=True):
    metadata: Meta = Meta()
    spec: _PolicySpec = _PolicySpec()


_policy = msgspec.json.Decoder(_Policy)


_placement = msgspec.json.Decoder(_Placement | None)


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
        overflow=tuple(affinity_of(each) for each in read.overflow_affinities or ()),
    )


def selectors_of(read: list[SelectorWire] | None) -> tuple[Selector, ...]:
    """The resource selectors of a policy."""
    return tuple(
        Selector(each.api_version, each.kind, each.namespace, each.name, labels_of(each.label_selector)) for each in read or []
    )


def _replicas(read: _Replicas | None) -> ReplicaRule:
    """Where the struct is there, Divided is its default, and Weighted that of Divided (reference/karmada.md 1.2)."""
    if read is None:
        return ReplicaRule()
    if read.replica_scheduling_type == "Duplicated":
        return ReplicaRule(Strategy.DUPLICATED)
    if read.replica_division_preference == "Aggregated":
        return ReplicaRule(Strategy.AGGREGATED)
    preference = read.weight_preference or _Weights()
    if preference.dynamic_weight:
        return ReplicaRule(Strategy.DYNAMIC)
    weights = tuple((affinity_of(each.target_cluster), each.weight) for each in preference.static_weight_list or [])
    return ReplicaRule(Strategy.STATIC, weights)


def _spread(read: _Spread) -> SpreadRule:
    bounds = (max(read.min_groups or 1, 1), max(read.max_groups or 0, 0))
    if read.spread_by_label:
        return SpreadRule(read.spread_by_label, *bounds, label=True)
    return SpreadRule(read.spread_by_field or "cluster", *bounds)


def project_policy(document: bytes) -> PolicyView:
    """A PropagationPolicy or ClusterPropagationPolicy."""
    read = _policy.decode(document)
    meta, spec = read.metadata, read.spec
    placement = _placement.decode(spec.placement) or _Placement()
    affinities = placement.cluster_affinities or ([placement.cluster_affinity] if placement.cluster_affinity else [])
    suspension = spec.suspension or _Suspension()
    application = spec.failover.application if spec.failover is not None else None
    groups = placement.workload_affinity or _Groups()
    return PolicyView(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        priority=spec.priority or 0,
        selectors=selectors_of(spec.resource_selectors),
        affinities=tuple(affinity_of(each) for each in affinities),
        tolerations=tuple(each.made() for each in placement.cluster_tolerations or []),
        bears=tuple(
            (each.made(), each.toleration_seconds)
            for each in placement.cluster_tolerations or []
            if each.toleration_seconds is not None
        ),
        settings=own_settings(meta.annotations),
        placement=bytes(spec.placement),
        places_again=application is not None,
        application=application.made() if application is not None else None,
        deleting=meta.deletion_timestamp is not None,
        generation=meta.generation,
        preempts=spec.preemption == "Always",
        lazy=spec.activation_preference == "Lazy",
        overwrites=spec.conflict_resolution == "Overwrite",
        suspended=bool(suspension.dispatching),
        suspended_on=frozenset((suspension.dispatching_on_clusters or _OnClusters()).cluster_names or ()),
        preserves=spec.preserve_resources_on_deletion,
        carries=bool(spec.propagate_deps),
        waits_for=tuple(spec.dependent_overrides or ()),
        priority_class=spec.schedule_priority.priority_class_name if spec.schedule_priority else "",
        replicas=_replicas(placement.replica_scheduling),
        spread=tuple(_spread(each) for each in placement.spread_constraints or []),
        together_by=groups.affinity.group_by_label_key if groups.affinity else "",
        apart_by=groups.anti_affinity.group_by_label_key if groups.anti_affinity else "",
    )
