"""policy.karmada.io/v1alpha1: ClusterTaintPolicy, taints that follow conditions of clusters (reference/karmada.md 4.4)."""

from __future__ import annotations

from typing import Annotated, ClassVar

from apis import kinds
from apis.meta import Model, Resource
from apis.policy import ClusterAffinity
from apis.schema import one_of, served


class MatchCondition(Model):
    """Holds where the cluster has the condition and its status is, or is not, one of those named."""

    condition_type: Annotated[str, served(minLength=1, maxLength=316)]
    operator: Annotated[str, one_of("In", "NotIn")]
    status_values: Annotated[list[str], served(minItems=1, maxItems=8)]


class PolicyTaint(Model):
    key: Annotated[str, served(minLength=1, maxLength=317)]
    effect: Annotated[str, one_of("NoSchedule", "PreferNoSchedule", "NoExecute")]
    value: str | None = None


class ClusterTaintSpec(Model):
    """Taints are put on while all of `addOnConditions` hold, and taken off once all of `removeOnConditions` do."""

    target_clusters: ClusterAffinity | None = None
    add_on_conditions: Annotated[list[MatchCondition] | None, served(maxItems=64)] = None
    remove_on_conditions: Annotated[list[MatchCondition] | None, served(maxItems=64)] = None
    taints: Annotated[list[PolicyTaint], served(minItems=1, maxItems=64)]


class ClusterTaintPolicy(Resource):
    """Taints of clusters by their conditions."""

    served_as: ClassVar[kinds.Kind] = kinds.CLUSTER_TAINT_POLICY

    spec: ClusterTaintSpec
