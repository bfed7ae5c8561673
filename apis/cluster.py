"""cluster.karmada.io/v1alpha1: Cluster, a member as the hub knows it (reference/karmada.md 4.1)."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from apis import kinds
from apis.meta import Condition, Model, Resource, Taint
from apis.schema import Amount, one_of, served


class SecretReference(Model):
    namespace: str
    name: str


class ModelRange(Model):
    name: str
    min: Amount
    max: Amount


class ResourceModel(Model):
    grade: Annotated[int, served(minimum=0)]
    ranges: list[ModelRange]


class ClusterSpec(Model):
    """Who the member is and how it is reached."""

    id: Annotated[str | None, served(maxLength=128)] = None
    """UID of the member's kube-system namespace."""
    sync_mode: Annotated[str, one_of("Push", "Pull")]
    api_endpoint: str | None = None
    secret_ref: SecretReference | None = None
    impersonator_secret_ref: SecretReference | None = None
    insecure_skip_tls_verification: Annotated[bool | None, Field(alias="insecureSkipTLSVerification")] = None
    proxy_url: Annotated[str | None, Field(alias="proxyURL")] = None
    proxy_header: dict[str, str] | None = None
    provider: str | None = None
    region: str | None = None
    zone: str | None = None
    zones: list[str] | None = None
    taints: list[Taint] | None = None
    resource_models: list[ResourceModel] | None = None


class ApiResource(Model):
    name: str
    kind: str


class ApiEnablement(Model):
    group_version: str
    resources: list[ApiResource] | None = None


class NodeSummary(Model):
    total_num: int | None = None
    ready_num: int | None = None


class AllocatableModeling(Model):
    grade: int
    count: int


class ResourceSummary(Model):
    allocatable: dict[str, Amount] | None = None
    allocating: dict[str, Amount] | None = None
    allocated: dict[str, Amount] | None = None
    allocatable_modelings: list[AllocatableModeling] | None = None


class ClusterStatus(Model):
    kubernetes_version: str | None = None
    api_enablements: list[ApiEnablement] | None = None
    conditions: list[Condition] | None = None
    node_summary: NodeSummary | None = None
    resource_summary: ResourceSummary | None = None
    remedy_actions: list[str] | None = None


class Cluster(Resource):
    """A member cluster."""

    served_as: ClassVar[kinds.Kind] = kinds.CLUSTER

    spec: ClusterSpec
    status: ClusterStatus | None = None
