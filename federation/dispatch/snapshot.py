"""What one round of planning looks at: frozen, with the versions it was read at."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from apis.cluster_orders import Declaration
from apis.vectors import ResourceVector
from federation.dispatch.terrain import Terrain
from policies.capacities import CapacityView
from policies.company import Resident
from policies.federated_quotas import FederatedQuotaView, Holding
from policies.members import ClusterView, PriorityView, QueueView
from policies.offers import OfferView
from policies.placements import PolicyView
from policies.profiles import Profile
from policies.reads import SourceView
from policies.shapes import Gang
from policies.views import BindingView, JobView, WorkView

Key = tuple[str, str]


class Order(enum.StrEnum):
    """What a person asked for by a Command."""

    ABORT = "AbortJob"
    RESUME = "ResumeJob"
    RESTART = "RestartJob"
    TERMINATE = "TerminateJob"
    COMPLETE = "CompleteJob"


PASSED_ON: Final = frozenset({Order.RESTART, Order.TERMINATE, Order.COMPLETE})
"""What the members of a run carry out; of a Job that does not run, the last two are carried out here."""


@dataclass(frozen=True, slots=True)
class Case:
    """One Job by namespace and name, with everything that carries its name or its binding.

    `lost`: Works that showed an end and vanished before it was recorded: an end is an end.
    `works` are all Works that point to the binding, of whatever epoch or Job UID. `settings` are those of the namespace.
    `waited`: for how many seconds this leader has known the Work of a cluster, on its boot clock: clocks of walls differ.
    `troubled`: clusters that say why containers of the run cannot start, and for how many seconds they have said it.
    `orphaned` is seconds since the binding was seen without its Job, `told` since a reason for waiting was last written.
    """

    key: Key
    job: JobView | None = None
    binding: BindingView | None = None
    works: tuple[WorkView, ...] = ()
    lost: tuple[WorkView, ...] = ()
    order: Order | None = None
    order_uid: str = ""
    """UID of the Command that gives the order."""
    settings: Mapping[str, str] = field(default_factory=dict)
    waited: Mapping[str, float] = field(default_factory=dict)
    troubled: Mapping[str, float] = field(default_factory=dict)
    ailing: Mapping[str, float] = field(default_factory=dict)
    """Clusters where the run has started and is not whole, and for how many seconds."""
    orphaned: float = 0.0
    told: float = float("inf")
    labels: Mapping[str, str] | None = None
    """Of its namespace; None while that is not known."""
    outdated: frozenset[str] = frozenset()
    """Clusters whose Work was made by other override policies than those of now."""


@dataclass(frozen=True, slots=True)
class Member:
    """One cluster: its fence number (None until this leader raised it), capacity, promises, and the penalty for late starts.
    `overdue`: hashes that it was asked about in vain; `distrusted`: why its profile is not believed, or ""."""

    cluster: ClusterView
    fence: int | None = None
    capacity: CapacityView | None = None
    promised: tuple[tuple[str, Gang], ...] = ()
    penalty: float = 0.0
    overdue: frozenset[str] = frozenset()
    distrusted: str = ""
    lost: Declaration | None = None
    """A person has said that it is lost, and it is fenced: what was granted before has ended (protocol.md 2, H4)."""
    standing: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """For how many seconds each taint with NoExecute has been there, by key and effect."""
    ready_for: float = float("inf")
    """For how many seconds it has been Ready."""
    leaves: float = float("inf")
    """How many runs may be taken away from it now, whole ones; a fraction tells how near the next is."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything a plan depends on. `closed` maps (digest of a gang or UID of a Job, cluster) to why it was refused there;
    only refusals that no newer capacity has answered are in it."""

    cases: tuple[Case, ...]
    members: tuple[Member, ...] = ()
    queues: Mapping[str, QueueView] = field(default_factory=dict)
    used: Mapping[str, ResourceVector] = field(default_factory=dict)
    """What runs from each queue, descendants counted."""
    policies: tuple[PolicyView, ...] = ()
    priorities: Mapping[str, PriorityView] = field(default_factory=dict)
    closed: Mapping[tuple[str, str], str] = field(default_factory=dict)
    offers: tuple[OfferView, ...] = ()
    """By name; the first of a cluster counts."""
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    """PlacementProfiles by name."""
    sources: Mapping[str, SourceView] = field(default_factory=dict)
    """DataSources by name."""
    quotas: tuple[FederatedQuotaView, ...] = ()
    holdings: tuple[Holding, ...] = ()
    """What live Jobs ask for in the namespaces that have quotas."""
    overrides: frozenset[tuple[str, str]] = frozenset()
    """Override policies that there are, by namespace and name: policies may wait for them."""
    residents: tuple[Resident, ...] = ()
    """Jobs that are placed, where a policy cares where others are."""
    makers: Mapping[tuple[str, str, str], Mapping[str, str]] = field(default_factory=dict)
    """Labels of JobFlows, JobTemplates and CronJobs by kind, namespace and name, where a policy selects by them."""
    history: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Seconds that runs of a template took, on nodes of throughput 1, the newest last."""
    terrain: Terrain | None = None
    """Columns of an earlier round: what of them is still so is used again."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Settings of the planner; times in seconds."""

    filters: tuple[str, ...]
    weights: Mapping[str, int]
    start_timeout: int
    explain_every: float
    orphan_grace: float
    commits: int
    trouble_timeout: int = 60
    fence_after: int = 600
    run_time: float = 3600.0
    rates: Mapping[str, float] = field(default_factory=dict)
    settle: float = 0.0
    """Seconds that a taint stands before it evicts anybody."""
    evictions: float = 1.0
    """Runs that are taken away from one cluster in a second."""
