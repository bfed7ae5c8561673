"""policy.karmada.io/v1alpha1: FederatedResourceQuota, what a namespace may use over all clusters (reference/karmada.md 3.9)."""

from __future__ import annotations

from typing import Annotated, ClassVar

from apis import kinds
from apis.meta import Model, Resource
from apis.schema import Amount, served

MAX_RESOURCES = 64
ResourceList = Annotated[dict[str, Amount], served(maxProperties=MAX_RESOURCES)]


class StaticAssignment(Model):
    """The part of it that one cluster's own ResourceQuota gets."""

    cluster_name: Annotated[str, served(minLength=1, maxLength=63)]
    hard: ResourceList


class FederatedQuotaSpec(Model):
    overall: ResourceList
    static_assignments: Annotated[list[StaticAssignment] | None, served(maxItems=1024)] = None


class ClusterQuotaStatus(Model):
    cluster_name: str
    hard: ResourceList | None = None
    used: ResourceList | None = None


class FederatedQuotaStatus(Model):
    overall: ResourceList | None = None
    overall_used: ResourceList | None = None
    aggregated_status: list[ClusterQuotaStatus] | None = None


class FederatedResourceQuota(Resource):
    """What the objects of a namespace may use in all clusters together."""

    served_as: ClassVar[kinds.Kind] = kinds.FEDERATED_RESOURCE_QUOTA

    spec: FederatedQuotaSpec
    status: FederatedQuotaStatus | None = None
