"""apps.karmada.io/v1alpha1: WorkloadRebalancer, a list of workloads to be placed anew, once (reference/karmada.md 3.8)."""

from __future__ import annotations

from typing import Annotated, ClassVar

from apis import kinds
from apis.meta import Model, Resource
from apis.schema import Int32, Time, one_of, served

MAX_WORKLOADS = 4096


class WorkloadReference(Model):
    """One workload, by name."""

    api_version: Annotated[str, served(minLength=1)]
    kind: Annotated[str, served(minLength=1)]
    name: Annotated[str, served(minLength=1, maxLength=253)]
    namespace: str | None = None


class RebalancerSpec(Model):
    workloads: Annotated[list[WorkloadReference], served(minItems=1, maxItems=MAX_WORKLOADS)]
    ttl_seconds_after_finished: Annotated[Int32 | None, served(minimum=0)] = None


class ObservedWorkload(Model):
    """What became of one."""

    workload: WorkloadReference
    result: Annotated[str | None, one_of("Successful", "Failed")] = None
    reason: str | None = None


class RebalancerStatus(Model):
    observed_generation: int | None = None
    observed_workloads: list[ObservedWorkload] | None = None
    finish_time: Time | None = None


class WorkloadRebalancer(Resource):
    """Workloads to be placed as if they ran nowhere yet."""

    served_as: ClassVar[kinds.Kind] = kinds.WORKLOAD_REBALANCER

    spec: RebalancerSpec
    status: RebalancerStatus | None = None
