"""batch.volcano.sh/v1alpha1: Job (reference/volcano.md 1.1, 1.2)."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final

from pydantic import ConfigDict, Field

from apis import kinds
from apis.meta import Model, Resource
from apis.quantities import MAX_LENGTH, PATTERN
from apis.schema import (
    LABEL,
    OPAQUE,
    SUBDOMAIN,
    Count,
    Duration,
    Int32,
    Object,
    Positive,
    Rule,
    Time,
    one_of,
    rules,
    served,
)

MAX_TASKS: Final = 1024
MAX_POLICIES: Final = 64
MAX_TASK_POLICIES: Final = 32
MAX_VOLUMES: Final = 128
MAX_PLUGINS: Final = 32
DEFAULT_MAX_RETRY: Final = 3

ANY_EVENT: Final = "*"
EVENTS: Final = (ANY_EVENT, "PodFailed", "PodEvicted", "PodPending", "Unknown", "TaskCompleted", "TaskFailed", "JobUpdated")
"""Events a policy may name; PodRunning, OutOfSync and CommandIssued are internal."""
ACTIONS: Final = (
    "AbortJob",
    "RestartJob",
    "RestartTask",
    "RestartPod",
    "RestartPartition",
    "TerminateJob",
    "CompleteJob",
    "ResumeJob",
)
"""Actions a user may ask for; SyncJob, EnqueueJob and the Queue actions are internal or belong to Queues."""
PLUGINS: Final = ("ssh", "svc", "env", "tensorflow", "mpi", "pytorch", "ray", "hcclrank")
PLUGIN_ENTRY_POINTS: Final = "volcano_federation.job_plugins"
"""Entry points of this group are job plugins that are installed beside the programs."""
"""Job plugins that come with the programs; others are installed beside them, so that names are no affair of the schema."""
PHASES: Final = (
    "Pending",
    "Aborting",
    "Aborted",
    "Running",
    "Restarting",
    "Completing",
    "Completed",
    "Terminating",
    "Terminated",
    "Failed",
)
TERMINAL_PHASES: Final = frozenset({"Completed", "Failed", "Terminated"})

# --- rules, in CEL ---------------------------------------------------------------------------------------------------
_EVENT_LIST = str(list(EVENTS)).replace('"', "'")


def _names(event: str) -> str:
    """Whether policy `p` names this event."""
    return f"((has(p.event) && p.event == {event}) || (has(p.events) && {event} in p.events))"


_HAS_EVENT = "((has(self.event) && self.event != '') || (has(self.events) && self.events.size() > 0))"

POLICY_RULES: Final = rules(
    Rule(f"!(has(self.exitCode) && {_HAS_EVENT})", "must not specify event and exitCode simultaneously"),
    Rule(f"has(self.exitCode) || {_HAS_EVENT}", "either event and exitCode should be specified"),
    Rule("!has(self.exitCode) || self.exitCode != 0", "0 is not a valid error code", ".exitCode"),
    Rule(f"has(self.action) && self.action in {list(ACTIONS)}", f"invalid policy action, want one of {', '.join(ACTIONS)}"),
)
POLICY_LIST_RULES: Final = (
    Rule(
        f"{_EVENT_LIST}.all(e, self.filter(p, {_names('e')}).size() <= 1)",
        "duplicate event: one event may stand in one policy only",
    ),
    Rule(
        f"""!self.exists(p, {_names("'*'")}) || self.all(p, has(p.exitCode) || {_names("'*'")}
        && (!has(p.event) || p.event in ['', '*']) && (!has(p.events) || p.events.all(e, e == '*')))""",
        "if there's * here, no other policy should be here",
    ),
    Rule(
        "self.filter(p, has(p.exitCode)).transformMapEntry(i, p, {p.exitCode: i}).size() >= 0",
        "duplicate exitCode: one exit code may stand in one policy only",
    ),
)
VOLUME_RULES: Final = rules(
    Rule(
        "(has(self.volumeClaimName) && self.volumeClaimName != '') || has(self.volumeClaim)",
        "either VolumeClaim or VolumeClaimName must be specified, and not both",
    ),
)
# A controller fills the name in beside the claim it was made from; nobody creates a Job with both.
ONE_CLAIM: Final = Rule(
    "oldSelf.hasValue() || self.all(v, !(has(v.volumeClaimName) && v.volumeClaimName != '' && has(v.volumeClaim)))",
    "either VolumeClaim or VolumeClaimName must be specified, and not both",
    optional_old=True,
)
TOPOLOGY_RULES: Final = rules(
    Rule(
        "!has(self.highestTierAllowed) || !has(self.highestTierName) || self.highestTierName == ''",
        "must not specify highestTierAllowed and highestTierName simultaneously",
        ".highestTierName",
    ),
)
_REPLICAS = "(has(self.replicas) ? self.replicas : 0)"
_PARTITION = "self.partitionPolicy"
TASK_RULES: Final = rules(
    Rule(
        f"!has(self.minAvailable) || self.minAvailable <= {_REPLICAS}",
        "'minAvailable' is greater than 'replicas' in task",
        ".minAvailable",
    ),
    Rule(
        f"!has({_PARTITION}) || {_PARTITION}.totalPartitions * {_PARTITION}.partitionSize == {_REPLICAS}",
        "'replicas' is not equal to totalPartitions * partitionSize",
        ".partitionPolicy",
    ),
    Rule(
        f"!has({_PARTITION}) || !has({_PARTITION}.minPartitions) || {_PARTITION}.minPartitions == 0 || !has(self.minAvailable)"
        f" || self.minAvailable == {_PARTITION}.minPartitions * {_PARTITION}.partitionSize",
        "'minAvailable' is not equal to minPartitions * partitionSize",
        ".minAvailable",
    ),
)
# A map entry made twice is an error, so one pass finds a name that stands twice; comparing all pairs of 1,000 tasks would pass
# the cost an API server allows. Names that are filled in later (default<i>) are compared by the controllers.
UNIQUE_TASKS: Final = Rule(
    "self.filter(t, has(t.name)).transformMapEntry(i, t, {t.name: i}).size() >= 0", "duplicated task name"
)
UNIQUE_MOUNTS: Final = Rule("self.transformMapEntry(i, v, {v.mountPath: i}).size() >= 0", "duplicated mountPath")

_FIXED = (
    "queue",
    "schedulerName",
    "maxRetry",
    "minSuccess",
    "ttlSecondsAfterFinished",
    "runningEstimate",
    "policies",
    "plugins",
)
UPDATE_MESSAGE: Final = (
    "job updates may not change fields other than `minAvailable`, `priorityClassName`, `tasks[*].replicas` and"
    " `tasks[*].minAvailable` under spec"
)


def _same(name: str) -> str:
    return f"(has(self.{name}) ? has(oldSelf.{name}) && self.{name} == oldSelf.{name} : !has(oldSelf.{name}))"


JOB_RULES: Final = rules(
    Rule("has(self.tasks) && self.tasks.size() > 0", "No task specified in job spec", ".tasks"),
    Rule(
        "!has(self.minAvailable) || !has(self.tasks)"
        " || self.minAvailable <= self.tasks.map(t, has(t.replicas) ? t.replicas : 0).sum()",
        "job 'minAvailable' should not be greater than total replicas in tasks",
        ".minAvailable",
    ),
    Rule(
        "!has(self.tasks) || !has(oldSelf.tasks) || self.tasks.size() == oldSelf.tasks.size()",
        "job updates may not add or remove tasks",
        ".tasks",
    ),
    *(Rule(_same(name), UPDATE_MESSAGE, f".{name}") for name in _FIXED),
)

# --- the pod template: kept as it is, amounts checked ----------------------------------------------------------------
_AMOUNTS = {
    "type": "object",
    "additionalProperties": {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": True,
        "pattern": PATTERN,
        "maxLength": MAX_LENGTH,
    },
}
_CONTAINERS = {
    "type": "array",
    "items": {
        "type": "object",
        **OPAQUE,
        "properties": {"resources": {"type": "object", **OPAQUE, "properties": {"requests": _AMOUNTS, "limits": _AMOUNTS}}},
    },
}
POD_TEMPLATE_SCHEMA: Final[dict[str, Any]] = {
    **OPAQUE,
    "properties": {
        "metadata": {"type": "object", **OPAQUE},
        "spec": {"type": "object", **OPAQUE, "properties": {"containers": _CONTAINERS, "initContainers": _CONTAINERS}},
    },
}
PodTemplate = Annotated[dict[str, Any], Field(json_schema_extra=POD_TEMPLATE_SCHEMA)]


# --- the models ------------------------------------------------------------------------------------------------------
class LifecyclePolicy(Model):
    """What to do when something happens to pods."""

    model_config = ConfigDict(json_schema_extra=POLICY_RULES)

    action: Annotated[str | None, served(maxLength=32)] = None
    event: Annotated[str | None, one_of("", *EVENTS)] = None
    events: Annotated[list[str] | None, served(items={"type": "string", "enum": list(EVENTS)}, maxItems=len(EVENTS))] = None
    exit_code: Int32 | None = None
    timeout: Duration | None = None


class NetworkTopology(Model):
    """Where in the tree of HyperNodes a gang may spread."""

    model_config = ConfigDict(json_schema_extra=TOPOLOGY_RULES)

    mode: Annotated[str | None, one_of("hard", "soft", default="hard")] = None
    highest_tier_allowed: Annotated[int | None, served(minimum=0)] = None
    highest_tier_name: Annotated[str | None, served(maxLength=253)] = None


class Volume(Model):
    """A claim mounted into every container of every pod."""

    model_config = ConfigDict(json_schema_extra=VOLUME_RULES)

    mount_path: Annotated[str, served(minLength=1, maxLength=4096, pattern="^[^:]+$")]
    volume_claim_name: Annotated[str | None, served(maxLength=253)] = None
    volume_claim: Object | None = None


class PartitionPolicy(Model):
    total_partitions: Positive
    partition_size: Positive
    min_partitions: Annotated[Count | None, served(default=0)] = None
    network_topology: NetworkTopology | None = None


class TaskDependsOn(Model):
    """Tasks that must be ready before this one's pods are made."""

    name: Annotated[list[str] | None, served(maxItems=MAX_TASKS)] = None
    iteration: Annotated[str | None, one_of("", "any", "all")] = None


class Task(Model):
    """One role of a Job: equal pods."""

    model_config = ConfigDict(json_schema_extra=TASK_RULES)

    name: Annotated[str | None, served(maxLength=63, pattern=LABEL)] = None
    replicas: Count | None = None
    min_available: Count | None = None
    """Pods of this role that must fit at once; all of them when not given."""
    template: PodTemplate | None = None
    policies: Annotated[list[LifecyclePolicy] | None, served(*POLICY_LIST_RULES, maxItems=MAX_TASK_POLICIES)] = None
    """Looked at before the policies of the Job."""
    topology_policy: Annotated[str | None, one_of("", "none", "best-effort", "restricted", "single-numa-node")] = None
    max_retry: Count | None = None
    depends_on: TaskDependsOn | None = None
    partition_policy: PartitionPolicy | None = None


class JobSpec(Model):
    """What a Job runs and when it counts as started and as done."""

    scheduler_name: Annotated[str | None, served(maxLength=63)] = None
    min_available: Count | None = None
    """Pods that start together or not at all; also how many must succeed."""
    volumes: Annotated[list[Volume] | None, served(UNIQUE_MOUNTS, ONE_CLAIM, maxItems=MAX_VOLUMES)] = None
    tasks: Annotated[list[Task] | None, served(UNIQUE_TASKS, maxItems=MAX_TASKS)] = None
    policies: Annotated[list[LifecyclePolicy] | None, served(*POLICY_LIST_RULES, maxItems=MAX_POLICIES)] = None
    plugins: Annotated[dict[str, list[str]] | None, served(maxProperties=MAX_PLUGINS)] = None
    running_estimate: Duration | None = None
    queue: Annotated[str | None, served(maxLength=253, pattern=SUBDOMAIN, default="default")] = None
    max_retry: Annotated[Count | None, served(default=DEFAULT_MAX_RETRY)] = None
    """How many runs there may be: the first and the restarts after it."""
    ttl_seconds_after_finished: Count | None = None
    priority_class_name: Annotated[str | None, served(maxLength=253, pattern=SUBDOMAIN)] = None
    min_success: Positive | None = None
    network_topology: NetworkTopology | None = None
    suspend: bool | None = None
    """The Job gives back its room and waits; the annotation `volcano-federation.io/suspend` says the same and wins."""


class TaskState(Model):
    phase: dict[str, int] | None = None


class JobState(Model):
    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    last_transition_time: Time | None = None


class JobCondition(Model):
    """One phase the Job went through, and when it last entered it."""

    status: str | None = None
    last_transition_time: Time | None = None


class JobMemory(Model):
    """What a controller must remember of a Job over its own restarts; written together with the phase it belongs to."""

    floors: dict[str, int] | None = None
    """Lowest version of a pod that counts, by scope: "" the Job, `task`, `task/partition` or `task#index`."""
    pods: dict[str, str] | None = None
    """Indices that were made, by task: `0-3,7`."""
    done: dict[str, str] | None = None
    """Indices that succeeded in the present run, by task: they count and are not run again when their pods are deleted."""
    since: dict[str, Time] | None = None
    """When something a policy acts on with a delay began, for what no object tells any more: `PodEvicted/<pod>`."""
    evictions: Int32 | None = None
    """Restarts after evictions and preemptions; they are not counted in retryCount."""
    started_at: Time | None = None
    """When the present run first had its minimum; `max-run-time` counts from here."""
    orders: list[str] | None = None
    """UIDs of the Commands carried out last, the newest at the end."""
    suspended: bool | None = None
    """Aborted by `suspend`, and resumed when that ends."""
    generation: Annotated[int | None, served(format="int64")] = None
    """`metadata.generation` that was acted on."""


class JobStatus(Model):
    memory: JobMemory | None = None
    state: JobState | None = None
    min_available: Int32 | None = None
    task_status_count: dict[str, TaskState] | None = None
    pending: Int32 | None = None
    running: Int32 | None = None
    succeeded: Int32 | None = None
    failed: Int32 | None = None
    terminating: Int32 | None = None
    unknown: Int32 | None = None
    version: Int32 | None = None
    retry_count: Int32 | None = None
    running_duration: Duration | None = None
    controlled_resources: dict[str, str] | None = None
    conditions: list[JobCondition] | None = None
    outputs: dict[str, str] | None = None
    """Small values that pods left in their termination messages; beyond upstream."""


class Job(Resource):
    """A gang of pods in roles, with rules for what happens to them."""

    served_as: ClassVar[kinds.Kind] = kinds.JOB

    spec: Annotated[JobSpec, Field(json_schema_extra=JOB_RULES)] = JobSpec()
    status: JobStatus | None = None
