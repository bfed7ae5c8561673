"""policy.karmada.io/v1alpha1: propagation and override policies (reference/karmada.md 1, 2)."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final

from pydantic import ConfigDict, Field

from apis import kinds
from apis.meta import LabelSelector, Model, Requirement, Resource, Toleration
from apis.schema import Int32, Rule, one_of, rules, served

MAX_SELECTORS: Final = 256
MAX_CLUSTERS: Final = 1024
MAX_TERMS: Final = 64


PLACEMENT_RULES: Final = rules(
    Rule(
        "!has(self.clusterAffinity) || !has(self.clusterAffinities) || self.clusterAffinities.size() == 0",
        "clusterAffinities can not co-exist with clusterAffinity",
        ".clusterAffinities",
    ),
    Rule(
        "!has(self.spreadConstraints) || !self.spreadConstraints.exists(c, has(c.spreadByField) && c.spreadByField != '')"
        " || self.spreadConstraints.exists(c, has(c.spreadByField) && c.spreadByField == 'cluster')",
        "spreadConstraints by field must include one by cluster",
        ".spreadConstraints",
    ),
    Rule(
        "!has(self.spreadConstraints) || ['cluster', 'region', 'zone', 'provider'].all(f,"
        " self.spreadConstraints.filter(c, has(c.spreadByField) && c.spreadByField == f).size() <= 1)",
        "spreadConstraints may not name a field twice",
        ".spreadConstraints",
    ),
)
SPREAD_RULES: Final = rules(
    Rule(
        "!has(self.spreadByField) || self.spreadByField == '' || !has(self.spreadByLabel) || self.spreadByLabel == ''",
        "spreadByLabel can not co-exist with spreadByField",
        ".spreadByLabel",
    ),
    Rule(
        "!has(self.maxGroups) || self.maxGroups == 0 || !has(self.minGroups) || self.maxGroups >= self.minGroups",
        "maxGroups must be at least minGroups",
        ".maxGroups",
    ),
)
SUSPENSION_RULES: Final = rules(
    Rule(
        "!has(self.dispatching) || !self.dispatching || !has(self.dispatchingOnClusters)"
        " || !has(self.dispatchingOnClusters.clusterNames) || self.dispatchingOnClusters.clusterNames.size() == 0",
        "dispatchingOnClusters can not co-exist with dispatching",
        ".dispatchingOnClusters",
    ),
)
WORKLOAD_AFFINITY_RULES: Final = rules(
    Rule(
        "!has(self.affinity) || !has(self.antiAffinity) || self.affinity.groupByLabelKey != self.antiAffinity.groupByLabelKey",
        "affinity and antiAffinity must group by different labels",
        ".antiAffinity",
    ),
)
APPLICATION_RULES: Final = rules(
    Rule(
        "!has(self.gracePeriodSeconds) || !has(self.purgeMode) || self.purgeMode == 'Gracefully'",
        "gracePeriodSeconds goes with purgeMode Gracefully only",
        ".gracePeriodSeconds",
    ),
)
PROPAGATION_RULES: Final = rules(
    Rule(
        "!has(self.preemption) || self.preemption != 'Always' || self.resourceSelectors.all(s, has(s.name) && s.name != '')",
        "preemption Always needs a name in every resource selector",
        ".preemption",
    ),
    Rule(
        "!has(self.failover) || !has(self.failover.application) || (has(self.propagateDeps) && self.propagateDeps)",
        "failover of applications needs propagateDeps",
        ".propagateDeps",
    ),
    Rule(
        "has(self.schedulerName) == has(oldSelf.schedulerName)"
        " && (!has(self.schedulerName) || self.schedulerName == oldSelf.schedulerName)",
        "schedulerName is immutable",
        ".schedulerName",
    ),
)
OVERRIDE_RULES: Final = rules(
    Rule(
        "!has(self.overrideRules) || self.overrideRules.size() == 0 || (!has(self.targetCluster) && !has(self.overriders))",
        "overrideRules and overriders can't co-exist",
        ".overrideRules",
    ),
)

MAX_OVERRIDERS: Final = 64
IMAGE_RULES: Final = rules(
    Rule(
        "self.operator == 'remove' || (has(self.value) && self.value != '')",
        "add and replace need a value",
        ".value",
    ),
)
FIELD_RULES: Final = rules(
    Rule("has(self.json) != has(self.yaml)", "exactly one of json and yaml must be given"),
)


class ResourceSelector(Model):
    """Which objects: by kind, then by name or labels."""

    api_version: Annotated[str, served(minLength=1)]
    kind: Annotated[str, served(minLength=1)]
    namespace: str | None = None
    name: Annotated[str | None, served(maxLength=253)] = None
    label_selector: LabelSelector | None = None


class FieldRequirement(Requirement):
    key: Annotated[str, one_of("provider", "region", "zone")]
    operator: Annotated[str, one_of("In", "NotIn")]


class FieldSelector(Model):
    match_expressions: list[FieldRequirement] | None = None


class ClusterAffinity(Model):
    """Which clusters: everything given must match, `exclude` wins, nothing given means all."""

    label_selector: LabelSelector | None = None
    field_selector: FieldSelector | None = None
    cluster_names: Annotated[list[str] | None, served(maxItems=MAX_CLUSTERS)] = None
    exclude: Annotated[list[str] | None, served(maxItems=MAX_CLUSTERS)] = None


class OverflowAffinity(ClusterAffinity):
    affinity_name: Annotated[str, served(minLength=1, maxLength=32)]


class ClusterAffinityTerm(OverflowAffinity):
    overflow_affinities: Annotated[list[OverflowAffinity] | None, served(maxItems=MAX_TERMS)] = None


class SpreadConstraint(Model):
    model_config = ConfigDict(json_schema_extra=SPREAD_RULES)

    spread_by_field: Annotated[str | None, one_of("", "cluster", "region", "zone", "provider")] = None
    spread_by_label: str | None = None
    max_groups: Annotated[int | None, served(minimum=0)] = None
    min_groups: Annotated[int | None, served(minimum=0)] = None


class StaticWeight(Model):
    target_cluster: ClusterAffinity
    weight: Annotated[int, served(format="int64", minimum=1)]


class WeightPreference(Model):
    static_weight_list: Annotated[list[StaticWeight] | None, served(maxItems=MAX_CLUSTERS)] = None
    dynamic_weight: Annotated[str | None, one_of("", "AvailableReplicas")] = None


class ReplicaScheduling(Model):
    replica_scheduling_type: Annotated[str | None, one_of("Duplicated", "Divided", default="Divided")] = None
    replica_division_preference: Annotated[str | None, one_of("", "Aggregated", "Weighted")] = None
    weight_preference: WeightPreference | None = None


class GroupByLabel(Model):
    group_by_label_key: Annotated[str, served(minLength=1, maxLength=317)]


class WorkloadAffinity(Model):
    model_config = ConfigDict(json_schema_extra=WORKLOAD_AFFINITY_RULES)

    affinity: GroupByLabel | None = None
    anti_affinity: GroupByLabel | None = None


class Placement(Model):
    """Where it may run and how replicas are divided."""

    model_config = ConfigDict(json_schema_extra=PLACEMENT_RULES)

    cluster_affinity: ClusterAffinity | None = None
    cluster_affinities: Annotated[list[ClusterAffinityTerm] | None, served(maxItems=MAX_TERMS)] = None
    cluster_tolerations: list[Toleration] | None = None
    spread_constraints: Annotated[list[SpreadConstraint] | None, served(maxItems=MAX_TERMS)] = None
    replica_scheduling: ReplicaScheduling | None = None
    workload_affinity: WorkloadAffinity | None = None


class PreservationRule(Model):
    alias_label_name: str
    json_path: str


class StatePreservation(Model):
    rules: Annotated[list[PreservationRule] | None, served(maxItems=64)] = None


class DecisionConditions(Model):
    toleration_seconds: Annotated[Int32 | None, served(minimum=0, default=300)] = None


class ApplicationFailover(Model):
    model_config = ConfigDict(json_schema_extra=APPLICATION_RULES)

    decision_conditions: DecisionConditions | None = None
    purge_mode: Annotated[str | None, one_of("Directly", "Gracefully", "Never", default="Gracefully")] = None
    grace_period_seconds: Annotated[Int32 | None, served(minimum=1)] = None
    state_preservation: StatePreservation | None = None


class ClusterFailover(Model):
    purge_mode: Annotated[str | None, one_of("Directly", "Gracefully", default="Gracefully")] = None
    state_preservation: StatePreservation | None = None


class Failover(Model):
    application: ApplicationFailover | None = None
    cluster: ClusterFailover | None = None


class SuspendClusters(Model):
    cluster_names: list[str] | None = None


class Suspension(Model):
    model_config = ConfigDict(json_schema_extra=SUSPENSION_RULES)

    dispatching: bool | None = None
    dispatching_on_clusters: SuspendClusters | None = None


class SchedulePriority(Model):
    priority_class_source: Annotated[str, one_of("KubePriorityClass")]
    priority_class_name: Annotated[str, served(minLength=1)]


class PropagationSpec(Model):
    """Which objects go where, and how."""

    model_config = ConfigDict(json_schema_extra=PROPAGATION_RULES)

    resource_selectors: Annotated[list[ResourceSelector], served(minItems=1, maxItems=MAX_SELECTORS)]
    association: bool | None = None
    propagate_deps: bool | None = None
    placement: Placement | None = None
    priority: Annotated[Int32 | None, served(default=0)] = None
    preemption: Annotated[str | None, one_of("Always", "Never", default="Never")] = None
    dependent_overrides: list[str] | None = None
    scheduler_name: Annotated[str | None, served(maxLength=253, default="default-scheduler")] = None
    failover: Failover | None = None
    conflict_resolution: Annotated[str | None, one_of("Abort", "Overwrite", default="Abort")] = None
    activation_preference: Annotated[str | None, one_of("", "Lazy")] = None
    suspension: Suspension | None = None
    preserve_resources_on_deletion: bool | None = None
    schedule_priority: SchedulePriority | None = None


class PropagationPolicy(Resource):
    """Where objects of this namespace run."""

    served_as: ClassVar[kinds.Kind] = kinds.PROPAGATION_POLICY

    spec: PropagationSpec


class ClusterPropagationPolicy(Resource):
    """Where objects of any namespace run."""

    served_as: ClassVar[kinds.Kind] = kinds.CLUSTER_PROPAGATION_POLICY

    spec: PropagationSpec


class ImagePredicate(Model):
    path: str


class ImageOverrider(Model):
    model_config = ConfigDict(json_schema_extra=IMAGE_RULES)

    predicate: ImagePredicate | None = None
    component: Annotated[str, one_of("Registry", "Repository", "Tag")]
    operator: Annotated[str, one_of("add", "remove", "replace")]
    value: str | None = None


class CommandOverrider(Model):
    container_name: str
    operator: Annotated[str, one_of("add", "remove")]
    value: list[str] | None = None


class KeysOverrider(Model):
    operator: Annotated[str, one_of("add", "remove", "replace")]
    value: dict[str, str] | None = None


_ANYTHING = Field(json_schema_extra={"x-anything": True})


class TextPatch(Model):
    sub_path: str
    operator: Annotated[str, one_of("add", "remove", "replace")]
    value: Annotated[Any, _ANYTHING] = None


class FieldOverrider(Model):
    model_config = ConfigDict(json_schema_extra=FIELD_RULES)

    field_path: str
    json_patches: Annotated[list[TextPatch] | None, Field(alias="json")] = None
    yaml_patches: Annotated[list[TextPatch] | None, Field(alias="yaml")] = None


class PlaintextOverrider(Model):
    path: str
    operator: Annotated[str, one_of("add", "remove", "replace")]
    value: Annotated[Any, _ANYTHING] = None


class Overriders(Model):
    """Changes, applied in this order: image, command, args, labels, annotations, field, plaintext."""

    plaintext: list[PlaintextOverrider] | None = None
    image_overrider: Annotated[list[ImageOverrider] | None, served(maxItems=MAX_OVERRIDERS)] = None
    command_overrider: list[CommandOverrider] | None = None
    args_overrider: list[CommandOverrider] | None = None
    labels_overrider: list[KeysOverrider] | None = None
    annotations_overrider: list[KeysOverrider] | None = None
    field_overrider: Annotated[list[FieldOverrider] | None, served(maxItems=MAX_OVERRIDERS)] = None


class OverrideRule(Model):
    target_cluster: ClusterAffinity | None = None
    overriders: Overriders


class OverrideSpec(Model):
    """What differs by cluster."""

    model_config = ConfigDict(json_schema_extra=OVERRIDE_RULES)

    resource_selectors: Annotated[list[ResourceSelector] | None, served(maxItems=MAX_SELECTORS)] = None
    override_rules: Annotated[list[OverrideRule] | None, served(maxItems=MAX_SELECTORS)] = None
    target_cluster: ClusterAffinity | None = None
    overriders: Overriders | None = None


class OverridePolicy(Resource):
    """What differs by cluster for objects of this namespace."""

    served_as: ClassVar[kinds.Kind] = kinds.OVERRIDE_POLICY

    spec: OverrideSpec


class ClusterOverridePolicy(Resource):
    """What differs by cluster for objects of any namespace."""

    served_as: ClassVar[kinds.Kind] = kinds.CLUSTER_OVERRIDE_POLICY

    spec: OverrideSpec
