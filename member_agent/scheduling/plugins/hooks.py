"""Questions that plugins answer, each with the flag that switches its answer off (reference/volcano.md 4.1)."""

from __future__ import annotations

import enum
from typing import Final


class Hook(enum.StrEnum):
    """A question of the scheduler. The value is the flag's name without `enable` or `enabled`."""

    JOB_ORDER = "JobOrder"
    JOB_READY = "JobReady"
    JOB_PIPELINED = "JobPipelined"
    TASK_ORDER = "TaskOrder"
    PREEMPTABLE = "Preemptable"
    RECLAIMABLE = "Reclaimable"
    PREEMPTIVE = "Preemptive"
    QUEUE_ORDER = "QueueOrder"
    NAMESPACE_ORDER = "NamespaceOrder"
    PREDICATE = "Predicate"
    BEST_NODE = "BestNode"
    NODE_ORDER = "NodeOrder"
    TARGET_JOB = "TargetJob"
    RESERVED_NODES = "ReservedNodes"
    JOB_ENQUEUED = "JobEnqueued"
    VICTIM = "Victim"
    JOB_STARVING = "JobStarving"
    OVERUSED = "Overused"
    ALLOCATABLE = "Allocatable"
    HYPER_NODE_ORDER = "HyperNodeOrder"
    SUB_JOB_READY = "SubJobReady"
    SUB_JOB_PIPELINED = "SubJobPipelined"
    SUB_JOB_ORDER = "SubJobOrder"
    HYPER_NODE_GRADIENT = "HyperNodeGradient"
    HIERARCHY = "Hierarchy"
    CLUSTER_ORDER = "ClusterOrder"


OFF: Final = frozenset({Hook.HIERARCHY, Hook.CLUSTER_ORDER})
"""Off unless a configuration says otherwise; all others are on."""

FLAGS: Final = {f"{prefix}{hook.value}": hook for hook in Hook for prefix in ("enable", "enabled")}
"""Flags as they are written. Upstream spells some with `enabled`; both spellings are read for all."""
