"""work.karmada.io: Work (v1alpha1), ResourceBinding and ClusterResourceBinding (v1alpha2) (reference/karmada.md 5.1, 5.2).

Programs write these, thousands of them: their served schemas check identity and leave the rest unread, because checking costs
the API server more than storing.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from apis import kinds
from apis.meta import ClusterReplicas, Condition, Model, ReplicaRequirements, Resource
from apis.policy import Failover, Placement, Suspension
from apis.schema import Int32, Object, Time, served

LEAN = Field(json_schema_extra={"x-lean": True})
"""Served as an object that is not looked into."""


class Workload(Model):
    manifests: list[Object] | None = None


class WorkSpec(Model):
    workload: Workload | None = None
    suspend_dispatching: bool | None = None
    preserve_resources_on_deletion: bool | None = None


class Identifier(Model):
    ordinal: int = 0
    group: str | None = None
    version: str = ""
    kind: str = ""
    resource: str = ""
    namespace: str | None = None
    name: str = ""


class ManifestStatus(Model):
    identifier: Identifier
    status: Object | None = None
    health: str | None = None


class WorkStatus(Model):
    conditions: list[Condition] | None = None
    manifest_statuses: list[ManifestStatus] | None = None


class Work(Resource):
    """What one member is to run."""

    served_as: ClassVar[kinds.Kind] = kinds.WORK

    spec: WorkSpec = WorkSpec()
    status: Annotated[WorkStatus | None, LEAN] = None


class BoundObject(Model):
    api_version: Annotated[str, served(minLength=1)]
    kind: Annotated[str, served(minLength=1)]
    namespace: str | None = None
    name: Annotated[str, served(minLength=1)]
    uid: str | None = None
    resource_version: str | None = None


class ComponentReplicas(Model):
    name: str
    replicas: Int32 | None = None


class TargetCluster(ClusterReplicas):
    components: list[ComponentReplicas] | None = None


class Component(Model):
    name: str
    replicas: Int32 | None = None
    replica_requirements: ReplicaRequirements | None = None


class GracefulEvictionTask(Model):
    from_cluster: str
    purge_mode: str | None = None
    replicas: Int32 | None = None
    reason: str = ""
    message: str | None = None
    producer: str = ""
    grace_period_seconds: Int32 | None = None
    suppress_deletion: bool | None = None
    preserved_label_state: dict[str, str] | None = None
    creation_timestamp: Time | None = None
    clusters_before_failover: list[str] | None = None


class BindingSnapshot(Model):
    namespace: str | None = None
    name: str
    clusters: list[TargetCluster] | None = None


class BindingSuspension(Suspension):
    scheduling: bool | None = None
    """Set by whoever decides about admission; the planner leaves the binding alone while it is true."""


class BindingPriority(Model):
    priority: Int32 | None = None


class AffinityGroups(Model):
    affinity_group: str | None = None
    anti_affinity_group: str | None = None


class BindingSpec(Model):
    """What is bound, to which clusters, by which placement."""

    resource: BoundObject
    propagate_deps: bool | None = None
    replica_requirements: Annotated[ReplicaRequirements | None, LEAN] = None
    replicas: Int32 | None = None
    components: Annotated[list[Component] | None, LEAN] = None
    clusters: Annotated[list[TargetCluster] | None, LEAN] = None
    placement: Annotated[Placement | None, LEAN] = None
    graceful_eviction_tasks: Annotated[list[GracefulEvictionTask] | None, LEAN] = None
    required_by: Annotated[list[BindingSnapshot] | None, LEAN] = None
    scheduler_name: str | None = None
    failover: Annotated[Failover | None, LEAN] = None
    conflict_resolution: str | None = None
    reschedule_triggered_at: Time | None = None
    suspension: Annotated[BindingSuspension | None, LEAN] = None
    preserve_resources_on_deletion: bool | None = None
    schedule_priority: BindingPriority | None = None
    workload_affinity_groups: AffinityGroups | None = None


class AggregatedStatusItem(Model):
    cluster_name: str
    status: Object | None = None
    applied: bool | None = None
    applied_message: str | None = None
    health: str | None = None


class BindingStatus(Model):
    scheduler_observed_generation: int | None = None
    scheduler_observing_affinity_name: str | None = None
    last_scheduled_time: Time | None = None
    conditions: list[Condition] | None = None
    aggregated_status: list[AggregatedStatusItem] | None = None


class ResourceBinding(Resource):
    """The decision about one namespaced object."""

    served_as: ClassVar[kinds.Kind] = kinds.RESOURCE_BINDING

    spec: BindingSpec
    status: Annotated[BindingStatus | None, LEAN] = None


class ClusterResourceBinding(Resource):
    """The decision about one cluster-scoped object."""

    served_as: ClassVar[kinds.Kind] = kinds.CLUSTER_RESOURCE_BINDING

    spec: BindingSpec
    status: Annotated[BindingStatus | None, LEAN] = None
