"""Settings of the hub: unit, default and reason each. `federation-hub run --config` reads them from YAML."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field

from controllers.admission.settings import AdmissionSettings
from controllers.channel.settings import HubChannel
from machinery.guarded import MetricsSettings

Seconds = Annotated[float, Field(gt=0)]


class HubSettings(BaseModel):
    """What an operator may turn."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    namespace: str = "federation-system"
    """Where the leader's Lease lives."""

    cluster_objects: bool = True
    """Whether the hub puts the admission policy that guards fence numbers and the flow control of agents in place itself, at
    every start. The chart brings them and switches this off, so that the hub needs no right to them."""

    hub_runs_workloads: bool = True
    """Whether controllers at the hub act on Deployments, Pods and batch Jobs: those are then not sent to members as well,
    except batch Jobs with `spec.managedBy`. False for a hub whose kube-controller-manager runs none of these controllers."""

    filters: tuple[str, ...] = ("health", "affinity", "taints", "apis", "company", "refused", "queue", "capacity")
    """Filters in order. The cheap ones first; the packing last, because it costs most."""

    weights: dict[str, int] = {"balance": 4, "stability": 2, "cost": 1, "efficiency": 1, "locality": 1}
    """Weights of the rules in the profile balanced, unless a PlacementProfile has that name: room decides, a late start costs
    at most half of that, and money and time where clusters are alike otherwise."""

    run_time: Seconds = 3600.0
    """Seconds that a Job is expected to run of which nobody says anything: prices and speeds of clusters are compared by it."""

    usage_days: Annotated[int, Field(gt=0)] = 90
    """Days that UsageReports stay: a quarter is billed from them, and the history of run times is read from them."""

    exchange_rates: dict[str, Annotated[float, Field(gt=0)]] = {}
    """Units of the federation's currency for one unit of another, by the names that ClusterOffers use. Without any all money is
    the federation's; with some, what has no rate counts as a price that nobody knows."""

    start_timeout: Annotated[int, Field(gt=0)] = 600
    """Seconds a run may take from its Work to its first pod; protocol.md 3. Users override it with `start-timeout`."""

    trouble_timeout: Annotated[int, Field(gt=0)] = 60
    """Seconds a run may stay unstarted once its member says that an image cannot be pulled or a container not be made: a
    kubelet has tried three or four times by then. Doubled by each start of the Job that timed out in that cluster."""

    fence_after: Annotated[int, Field(gt=0)] = 600
    """Seconds without a renewal after which a member stops runs with failover Fence; protocol.md 2. Users override it with
    `fence-after`."""

    explain_every: Seconds = 10.0
    """Least seconds between two explanations of one waiting Job whose reason stays the same: each is a write."""

    orphan_grace: Seconds = 10.0
    """Seconds the garbage collector gets to delete the binding of a deleted Job before the hub does it: 3 writes to vanish."""

    commits: Annotated[int, Field(gt=0)] = 1000
    """Items of one round; protocol.md 3."""

    round_cases: Annotated[int, Field(gt=0)] = 1000
    """Jobs that one round looks at, the most important first: as many as it may commit."""

    round_seconds: Seconds = 1.0
    """Seconds that one round may plan; protocol.md 3. What is left comes next."""

    status_pace: Seconds = 1.0
    """Least seconds between two writes of one Job's status; protocol.md 7."""

    status_patience: Seconds = 3.0
    """Seconds a placement waits for the first pod, so that both are one write of the binding's status."""

    silence: Seconds = 40.0
    """Seconds without a renewal after which a member is Unknown: four renewals of 10 s may be lost (karmada.md 4.3)."""

    recovery: Annotated[int, Field(gt=0)] = 2
    """Renewals in a row after which a silent member is Ready again: one may be a straggler."""

    cluster_profiles: bool = False
    """Whether ClusterProfiles (multicluster.x-k8s.io) name candidates for members and give them labels; their kind must be
    served."""

    taint_policies_evict: bool = False
    """Whether ClusterTaintPolicies may put on taints with effect NoExecute: whoever writes one could empty every cluster."""

    evictions_per_second: Annotated[float, Field(gt=0)] = 1.0
    """Runs that are taken away from one cluster in a second, by drain, taint, failover or unjoining: what is placed again does
    not come all at once, and whoever drained the wrong cluster has time to say so."""

    eviction_settle: Seconds = 5.0
    """Seconds that a taint with NoExecute stands on a cluster that is Ready before it evicts: taints that follow conditions are
    taken off a moment after the condition changes."""

    label_keys: tuple[str, ...] = (
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    )
    """Node labels by which members tell their nodes apart from the start; those that Jobs ask for are added."""

    admission: AdmissionSettings | None = None
    """The webhook server; none is run, and no configuration touched, when not given: nobody could reach it."""

    channel: HubChannel | None = None
    """Where agents dial in for logs and probes of steps; without it neither is served, and steps await their targets' end."""

    metrics: MetricsSettings | None = None
    """Where metrics are served over TLS to those who may `get` /metrics; without it they are plain, beside health: who
    reaches them is then the network's affair."""

    lease_duration: Seconds = 10.0
    """Of the leader's Lease; renew deadline + request time-out must be less (protocol.md 2, I3)."""

    renew_deadline: Seconds = 6.0
    """Seconds a leader goes on after its last successful renewal was sent."""

    request_timeout: Seconds = 3.0
    """Seconds one request to the Lease may take."""

    renew_every: Seconds = 2.0
    """Seconds between renewals of the leader's Lease: three fit into the deadline."""

    def scaled(self, factor: float) -> Self:
        """All times of the protocol times `factor`: tests scale hub and members together (protocol.md 2, Times)."""
        if factor == 1.0:
            return self
        names = ("silence", "lease_duration", "renew_deadline", "request_timeout", "renew_every", "orphan_grace")
        changed: dict[str, float] = {name: getattr(self, name) * factor for name in names}
        changed["start_timeout"] = max(1, round(self.start_timeout * factor))
        changed["fence_after"] = max(1, round(self.fence_after * factor))
        changed["trouble_timeout"] = max(1, round(self.trouble_timeout * factor))
        return self.model_copy(update=changed)
