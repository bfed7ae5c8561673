"""One object as one decision looks at it: frozen, with the versions it was read at."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from apis.kinds import Kind
from apis.vectors import ResourceVector
from federation.objects.views import ObjectWork
from policies.capacities import CapacityView
from policies.dependencies import Reference
from policies.federated_quotas import FederatedQuotaView, Holding
from policies.interpreting import Interpreter
from policies.members import ClusterView, QueueView
from policies.offers import OfferView
from policies.overrides import OverrideView
from policies.placements import PolicyView
from policies.profiles import Profile
from policies.shapes import Gang


@dataclass(frozen=True, slots=True)
class Site:
    """A registered cluster: what it published, what was promised to it since, and why it refused this object before."""

    cluster: ClusterView
    capacity: CapacityView | None = None
    promised: tuple[tuple[str, Gang], ...] = ()
    closed: str = ""


@dataclass(frozen=True, slots=True)
class Rules:
    """Settings of the planner. `hub_runs`: controllers at the hub act on workloads of Kubernetes; times in seconds."""

    hub_runs: bool = True
    run_time: float = 3600.0
    rates: Mapping[str, float] = field(default_factory=dict)
    weights: Mapping[str, int] = field(default_factory=dict)
    filters: tuple[str, ...] = ("health", "affinity", "taints", "apis", "refused", "queue", "capacity")


@dataclass(frozen=True, slots=True)
class Around:
    """What all objects have in common at one instant."""

    policies: tuple[PolicyView, ...] = ()
    sites: tuple[Site, ...] = ()
    overrides: tuple[OverrideView, ...] = ()
    interpreter: Interpreter = field(default_factory=Interpreter)
    offers: tuple[OfferView, ...] = ()
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    queues: Mapping[str, QueueView] = field(default_factory=dict)
    used: Mapping[str, ResourceVector] = field(default_factory=dict)
    """What runs from each queue, descendants counted."""
    quotas: tuple[FederatedQuotaView, ...] = ()
    holdings: tuple[Holding, ...] = ()
    given: Mapping[str, str] = field(default_factory=dict)
    """Settings of the object's namespace."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`source` and `binding` are as quorum reads have them, None when there certainly is none; `works` by cluster, of whatever
    UID; `registered`: names of all clusters."""

    reference: Reference
    kind: Kind
    around: Around
    source: Mapping[str, Any] | None = None
    binding: Mapping[str, Any] | None = None
    works: Mapping[str, ObjectWork] = field(default_factory=dict)
    registered: Collection[str] = ()
