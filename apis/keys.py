"""Names that people and programs write on objects: annotations, labels, finalizers, namespaces."""

from __future__ import annotations

from typing import Final

GROUP: Final = "volcano-federation.io"

# --- namespaces ------------------------------------------------------------------------------------------------------
SYSTEM_NAMESPACE: Final = "federation-system"
EXECUTION_NAMESPACE_PREFIX: Final = "karmada-es-"
DEFAULT_QUEUE: Final = "default"
ROOT_QUEUE: Final = "root"
DEFAULT_SCHEDULER: Final = "volcano"

# --- the run (protocol.md 1) -----------------------------------------------------------------------------------------
RUN: Final = f"{GROUP}/run"
"""Annotation of binding (BindingRun), Work, member Job and pods (RunRecord), JSON."""
WORK_UID: Final = f"{GROUP}/work-uid"
"""Annotation of the member's Job: UID of the Work it was made from."""
WORK_DIGEST: Final = f"{GROUP}/work-digest"
"""Annotation of the member's Job: digest of the Work's manifest it was last made or updated from."""
RUN_NODES: Final = f"{GROUP}/run-nodes"
"""Annotation of the member's Job under withdrawal: JSON, pod UID to the node that may still run it (protocol.md 2, A4)."""
UPSTREAM: Final = f"{GROUP}/upstream"
"""Annotation of a Job that a Volcano runs: what the agent ordered by Commands, JSON (`member_agent.upstream`)."""
RUN_FINALIZER: Final = f"{GROUP}/run"
"""Finalizer of the member's Job: the record of its nodes stays until its pods are known to be gone."""
LAST_EPOCH: Final = f"{GROUP}/last-epoch"
"""Annotation of the hub's Job: the highest epoch of a binding that was let go while its Job lives; the next one goes on from
there."""
JOB_GENERATION: Final = f"{GROUP}/job-generation"
"""Annotation of a Work: generation of the hub's Job that its manifest was made from."""
VERDICTS: Final = f"{GROUP}/verdicts"
"""Annotation of the binding: why this cluster, or why none; JSON, within the 4 KiB of the whole object (protocol.md 7)."""
EPOCH_ENV: Final = "VC_RUN_EPOCH"
MEMBER_LEASE: Final = "member"
"""Name of the Lease and of the ClusterCapacity in a member's execution namespace."""

# --- what users may set (design.md 3) --------------------------------------------------------------------------------
SUSPEND: Final = f"{GROUP}/suspend"
EXCLUSIVE: Final = f"{GROUP}/exclusive"
FAILOVER: Final = f"{GROUP}/failover"
FENCE_AFTER: Final = f"{GROUP}/fence-after"
START_TIMEOUT: Final = f"{GROUP}/start-timeout"
MAX_RUN_TIME: Final = f"{GROUP}/max-run-time"
PROFILE: Final = f"{GROUP}/profile"
ESTIMATED_DURATION: Final = f"{GROUP}/estimated-duration"
MAIN_CONTAINER: Final = f"{GROUP}/main-container"
"""Annotation of a Job, `task=container,…`: a pod of the task has ended when this container has."""
NO_RETRY: Final = f"{GROUP}/no-retry"
"""Annotation of a Job, "true": one run and no other, whatever maxRetry says."""
ONLY_BELOW_MINIMUM: Final = f"{GROUP}/policies-only-below-minimum"
"""Annotation of a Job, "true": a lost pod is a policy's affair only once fewer than the minimum are left."""
HOLD_WANTED: Final = f"{GROUP}/hold-wanted"
"""Annotation of a PodGroup, a number: room is to be held for it, no pod is made before this is taken away (protocol.md 5)."""
HOLD: Final = f"{GROUP}/hold"
"""Annotation of a PodGroup, JSON: the scheduler's answer: number, nodes and amounts, or why the hold was given up."""
COMPANION: Final = f"{GROUP}/companion"
"""Label ("true") of a Work that brings an object which Jobs refer to, and no run."""
SOURCE_DIGEST: Final = f"{GROUP}/source-digest"
"""Annotation of such a Work: digest of what it was made from."""
OBJECT: Final = f"{GROUP}/object"
"""Label ("true") of a binding or Work of an object that is no Volcano Job and that a policy sends to members."""
NO_OBJECT: Final = f"!{OBJECT}"
"""Selects the bindings of Volcano Jobs."""
ASSIGNMENT: Final = f"{GROUP}/quota-assignment"
"""Label ("true") of a Work that brings the ResourceQuota of a FederatedResourceQuota, and annotation: `namespace/name` of
that."""
DEMAND: Final = f"{GROUP}/demand"
"""Annotation of such a Work while its object runs or may run: what its pods ask for, JSON."""
APPLIED_POLICY: Final = f"{GROUP}/applied-policy"
"""Annotation of such a binding: what it was last made from, JSON: policy, its generation, version of the object."""
COMMAND: Final = f"{GROUP}/command"
"""Annotation of a Work and of the member's Job: an order for the agent, JSON: id, action, target (protocol.md 2)."""

# --- karmada (reference/karmada.md 0.1) ------------------------------------------------------------------------------
MANAGED_LABEL: Final = "karmada.io/managed"
WORK_NAMESPACE: Final = "work.karmada.io/namespace"
WORK_NAME: Final = "work.karmada.io/name"
BINDING_NAMESPACE: Final = "resourcebinding.karmada.io/namespace"
BINDING_NAME: Final = "resourcebinding.karmada.io/name"
BINDING_ID: Final = "resourcebinding.karmada.io/permanent-id"
WORK_ID: Final = "work.karmada.io/permanent-id"
DEPENDENCIES: Final = "resourcebinding.karmada.io/dependencies"
"""Annotation of the binding of an object: what it refers to, JSON."""
POLICY_NAMESPACE: Final = "propagationpolicy.karmada.io/namespace"
POLICY_NAME: Final = "propagationpolicy.karmada.io/name"
TEMPLATE_UID: Final = "resourcetemplate.karmada.io/uid"
BINDING_FINALIZER: Final = "karmada.io/binding-controller"
WORK_FINALIZER: Final = "karmada.io/execution-controller"
CLUSTER_FINALIZER: Final = "karmada.io/cluster-controller"
TAINT_NOT_READY: Final = "cluster.karmada.io/not-ready"
TAINT_UNREACHABLE: Final = "cluster.karmada.io/unreachable"
TAINT_UNSCHEDULABLE: Final = "cluster.karmada.io/unschedulable"

# --- volcano (reference/volcano.md 1.7, 3) ---------------------------------------------------------------------------
JOB_NAME: Final = "volcano.sh/job-name"
JOB_NAMESPACE: Final = "volcano.sh/job-namespace"
JOB_VERSION: Final = "volcano.sh/job-version"
JOB_RETRY_COUNT: Final = "volcano.sh/job-retry-count"
TASK_SPEC: Final = "volcano.sh/task-spec"
TASK_INDEX: Final = "volcano.sh/task-index"
TEMPLATE_ID: Final = "volcano.sh/template-uid"
QUEUE_NAME: Final = "volcano.sh/queue-name"
JOB_FORWARDING: Final = "volcano.sh/job-forwarding"
GROUP_NAME: Final = "scheduling.k8s.io/group-name"
PARTITION_ID: Final = "volcano.sh/partition-id"
QUEUE_GATE: Final = "scheduling.volcano.sh/queue-allocation-gate"
"""Annotation ("true") by which a pod asks for the scheduling gate of the same name: it waits until its queue has room."""
PREEMPTABLE: Final = "volcano.sh/preemptable"
"""Annotation or label of pod and PodGroup, "false": nobody may evict it."""
COOLDOWN: Final = "volcano.sh/cooldown-time"
"""Annotation or label of a pod, a duration: nobody may evict it for so long after its start."""
NUMA_POLICY: Final = "volcano.sh/numa-topology-policy"
CREATED_BY_TEMPLATE: Final = "volcano.sh/createdByJobTemplate"
FLOW_FINALIZER: Final = f"{GROUP}/jobflow"
"""Finalizer of the Job of a step: a deleted Job stays until its flow has recorded how it ended."""
CREATED_BY_FLOW: Final = "volcano.sh/createdByJobFlow"
CREATED_BY_CRON: Final = f"{GROUP}/created-by-cronjob"
"""Annotation of a JobFlow and all that is made for it: `<namespace>.<name>` of the CronJob that made the flow."""
READS: Final = f"{GROUP}/reads"
PATH_AHEAD: Final = f"{GROUP}/path-ahead"
"""Annotation of the Job of a step: steps on the longest path of its flow that begins with it."""
OUTPUTS: Final = f"{GROUP}/outputs"
"""Annotation of a Job: which of its pods leave which values (JSON: name, task, index); they are kept in its status."""


def execution_namespace(cluster: str) -> str:
    """The hub namespace that carries everything exchanged with `cluster`."""
    return EXECUTION_NAMESPACE_PREFIX + cluster


def cluster_of(namespace: str) -> str | None:
    """The member whose execution namespace this is, or None for any other namespace."""
    if namespace.startswith(EXECUTION_NAMESPACE_PREFIX):
        return namespace.removeprefix(EXECUTION_NAMESPACE_PREFIX)
    return None
