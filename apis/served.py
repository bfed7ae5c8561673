"""How each kind of ours is served: model, short names, columns, subresources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from apis import (
    batch,
    bus,
    capacity,
    cluster,
    cron,
    data,
    federated_quota,
    flow,
    interpreter,
    offer,
    policy,
    rebalancer,
    review,
    scheduling,
    taint_policy,
    usage,
    work,
)
from apis.kinds import Kind
from apis.meta import Resource
from apis.schema import Rule


@dataclass(frozen=True, slots=True)
class Column:
    """What `kubectl get` prints; `wide` only with `-o wide`."""

    name: str
    path: str
    type: str = "string"
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Served:
    """One kind as its CRD describes it."""

    model: type[Resource]
    short: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    status: bool = True
    categories: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()

    @property
    def kind(self) -> Kind:
        return self.model.served_as


def _condition(type: str) -> str:
    return f'.status.conditions[?(@.type=="{type}")].status'


_AGE = Column("Age", ".metadata.creationTimestamp", "date")
_AGE_CAPITAL = Column("AGE", ".metadata.creationTimestamp", "date")
_KARMADA = ("karmada-io",)
_PROPAGATION = (
    Column("Conflict-Resolution", ".spec.conflictResolution"),
    Column("Priority", ".spec.priority", "integer"),
    _AGE,
)
_BINDING = (
    Column("Scheduled", _condition("Scheduled")),
    Column("FullyApplied", _condition("FullyApplied")),
    Column("Suspended", ".spec.suspension.scheduling", "boolean", wide=True),
    _AGE,
)

SERVED: Final[tuple[Served, ...]] = (
    Served(
        batch.Job,
        short=("vcjob", "vj"),
        columns=(
            Column("STATUS", ".status.state.phase"),
            Column("minAvailable", ".status.minAvailable", "integer"),
            Column("RUNNINGS", ".status.running", "integer"),
            _AGE_CAPITAL,
            Column("QUEUE", ".spec.queue", wide=True),
        ),
    ),
    Served(
        cron.CronJob,
        short=("cronvcjob", "cronvj"),
        columns=(
            Column("Schedule", ".spec.schedule"),
            Column("Suspend", ".spec.suspend", "boolean"),
            Column("LastScheduleTime", ".status.lastScheduleTime", "date"),
            _AGE,
        ),
        rules=cron.CRON_RULES,
    ),
    Served(flow.JobFlow, short=("jf",), columns=(Column("Status", ".status.state.phase"), _AGE)),
    Served(flow.JobTemplate, short=("jt",)),
    Served(
        scheduling.Queue,
        short=("q", "queue-v1beta1"),
        columns=(Column("PARENT", ".spec.parent"),),
        rules=scheduling.QUEUE_RULES,
    ),
    Served(
        scheduling.PodGroup,
        short=("pg", "podgroup-v1beta1"),
        columns=(
            Column("STATUS", ".status.phase"),
            Column("minMember", ".spec.minMember", "integer"),
            Column("RUNNINGS", ".status.running", "integer"),
            _AGE_CAPITAL,
            Column("QUEUE", ".spec.queue", wide=True),
        ),
        # Upstream's scheduler writes status through the main resource.
        status=False,
    ),
    Served(bus.Command, status=False),
    Served(policy.PropagationPolicy, short=("pp",), columns=_PROPAGATION, status=False, categories=_KARMADA),
    Served(policy.ClusterPropagationPolicy, short=("cpp",), columns=_PROPAGATION, status=False, categories=_KARMADA),
    Served(policy.OverridePolicy, short=("op",), columns=(_AGE,), status=False, categories=_KARMADA),
    Served(policy.ClusterOverridePolicy, short=("cop",), columns=(_AGE,), status=False, categories=_KARMADA),
    Served(taint_policy.ClusterTaintPolicy, columns=(_AGE,), status=False, categories=_KARMADA),
    Served(
        federated_quota.FederatedResourceQuota,
        short=("frq",),
        columns=(Column("Overall", ".spec.overall", wide=True), Column("Overall_Used", ".status.overallUsed", wide=True), _AGE),
        categories=_KARMADA,
    ),
    Served(
        interpreter.ResourceInterpreterCustomization,
        short=("ric",),
        columns=(
            Column("Target-API-Version", ".spec.target.apiVersion"),
            Column("Target-Kind", ".spec.target.kind"),
            _AGE,
        ),
        status=False,
        categories=_KARMADA,
    ),
    Served(
        cluster.Cluster,
        columns=(
            Column("Version", ".status.kubernetesVersion"),
            Column("Mode", ".spec.syncMode"),
            Column("Ready", _condition("Ready")),
            _AGE,
            Column("Zones", ".spec.zones", wide=True),
            Column("Region", ".spec.region", wide=True),
            Column("Provider", ".spec.provider", wide=True),
            Column("APIEndpoint", ".spec.apiEndpoint", wide=True),
        ),
        categories=_KARMADA,
    ),
    Served(work.Work, short=("wk",), columns=(Column("Applied", _condition("Applied")), _AGE), categories=_KARMADA),
    Served(work.ResourceBinding, short=("rb",), columns=_BINDING, categories=_KARMADA),
    Served(work.ClusterResourceBinding, short=("crb",), columns=_BINDING, categories=_KARMADA),
    Served(
        rebalancer.WorkloadRebalancer,
        columns=(Column("Finished", ".status.finishTime", "date"), _AGE),
        categories=_KARMADA,
    ),
    Served(
        capacity.ClusterCapacity,
        short=("ccap",),
        columns=(
            Column("Generation", ".status.generation", "integer"),
            Column("WorksThrough", ".status.worksThrough", wide=True),
            Column("Observed", ".status.observedAt", "date"),
            _AGE,
        ),
    ),
    Served(
        offer.ClusterOffer,
        short=("coffer",),
        columns=(Column("Currency", ".spec.currency"), _AGE),
        status=False,
    ),
    Served(
        data.DataSource,
        columns=(Column("System", ".spec.system"), Column("Size", ".spec.size"), _AGE),
    ),
    Served(
        usage.UsageReport,
        short=("usage",),
        columns=(
            Column("Day", ".spec.day"),
            Column("Queue", ".spec.queue"),
            Column("Cluster", ".spec.cluster"),
            Column("Runs", ".status.runs", "integer"),
            Column("Money", ".status.money"),
            Column("Currency", ".status.currency", wide=True),
            _AGE,
        ),
        status=False,
    ),
    Served(offer.PlacementProfile, short=("pprofile",), columns=(_AGE,), status=False),
    Served(
        review.PlacementReview,
        short=("preview",),
        columns=(
            Column("Outcome", ".status.outcome"),
            Column("Reason", ".status.reason"),
            Column("Cost", ".status.cost"),
            Column("Currency", ".status.currency", wide=True),
            Column("Finish", ".status.expectedFinish", "date", wide=True),
            _AGE,
        ),
        rules=review.RULES,
    ),
)

BY_KIND: Final[dict[Kind, Served]] = {each.kind: each for each in SERVED}


def model_of(document: dict[str, Any]) -> type[Resource] | None:
    """The model of an object by its apiVersion and kind, or None for a kind that is not ours."""
    for each in SERVED:
        if each.kind.api_version == document.get("apiVersion") and each.kind.kind == document.get("kind"):
            return each.model
    return None
