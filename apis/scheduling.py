"""scheduling.volcano.sh/v1beta1: Queue and PodGroup (reference/volcano.md 2)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from pydantic import Field

from apis import kinds
from apis.batch import NetworkTopology
from apis.meta import Model, Resource
from apis.schema import SUBDOMAIN, Amount, Count, Int32, Object, Positive, Rule, Time, one_of, rules, served

MAX_RESOURCES: Final = 64
MAX_NODE_GROUPS: Final = 256
OPEN: Final = "Open"
CLOSED: Final = "Closed"
CLOSING: Final = "Closing"
UNKNOWN: Final = "Unknown"

ResourceList = dict[str, Amount]
Resources = Annotated[ResourceList, served(maxProperties=MAX_RESOURCES)]


def _within(small: str, large: str, *, message: str, named: bool) -> Rule:
    """Every resource of `small` is at most that of `large`; where `large` does not name it, `named` says whether that fails."""
    compare = f"quantity(string({small}[r])).compareTo(quantity(string({large}[r]))) <= 0"
    missing = f"(r in {large} && {compare})" if named else f"(!(r in {large}) || {compare})"
    return Rule(f"{_given(small, negated=True)} || {_absent(large, named=named)} {small}.all(r, {missing})", message)


def _given(path: str, *, negated: bool = False) -> str:
    parts = path.split(".")[1:]
    tests = ["has(self." + ".".join(parts[: i + 1]) + ")" for i in range(len(parts))]
    return "!(" + " && ".join(tests) + ")" if negated else "(" + " && ".join(tests) + ")"


def _absent(path: str, *, named: bool) -> str:
    return f"{_given(path)} &&" if named else f"{_given(path, negated=True)} ||"


QUEUE_SPEC_RULES: Final = rules(
    _within("self.deserved", "self.capability", message="deserved must be <= capability in every resource", named=False),
    _within(
        "self.guarantee.resource", "self.capability", message="guarantee must be <= capability in every resource", named=False
    ),
    _within("self.guarantee.resource", "self.deserved", message="deserved must be >= guarantee in every resource", named=True),
)
QUEUE_RULES: Final = (
    Rule(
        "!has(self.spec) || !has(self.spec.parent) || self.spec.parent != self.metadata.name",
        "a queue may not be its own parent",
        ".spec.parent",
    ),
)


class Guarantee(Model):
    resource: Resources | None = None


class NodeGroups(Model):
    required_during_scheduling_ignored_during_execution: Annotated[list[str] | None, served(maxItems=MAX_NODE_GROUPS)] = None
    preferred_during_scheduling_ignored_during_execution: Annotated[list[str] | None, served(maxItems=MAX_NODE_GROUPS)] = None


class QueueAffinity(Model):
    node_group_affinity: NodeGroups | None = None
    node_group_anti_affinity: NodeGroups | None = None


class ExtendCluster(Model):
    name: str | None = None
    weight: Int32 | None = None
    capacity: Resources | None = None


class QueueSpec(Model):
    """A share of the capacity and its bounds."""

    weight: Annotated[int | None, served(format="int32", minimum=1, maximum=65535, default=1)] = None
    capability: Resources | None = None
    """Never exceeded."""
    deserved: Resources | None = None
    """The share that may be taken back from others."""
    guarantee: Guarantee | None = None
    """Kept free for this queue alone."""
    reclaimable: Annotated[bool | None, served(default=True)] = None
    parent: Annotated[str | None, served(maxLength=253)] = None
    priority: Count | None = None
    type: str | None = None
    affinity: QueueAffinity | None = None
    extend_clusters: list[ExtendCluster] | None = None
    dequeue_strategy: Annotated[str | None, one_of("", "fifo", "traverse")] = None


class Reservation(Model):
    nodes: list[str] | None = None
    resource: dict[str, Amount] | None = None


class QueueStatus(Model):
    state: Annotated[str | None, one_of("", OPEN, CLOSED, CLOSING, UNKNOWN)] = None
    unknown: Int32 | None = None
    pending: Int32 | None = None
    running: Int32 | None = None
    inqueue: Int32 | None = None
    completed: Int32 | None = None
    reservation: Reservation | None = None
    allocated: dict[str, Amount] | None = None


class Queue(Resource):
    """A place in the order: who gets capacity, how much, and before whom."""

    served_as: ClassVar[kinds.Kind] = kinds.QUEUE

    spec: Annotated[QueueSpec, Field(json_schema_extra={**QUEUE_SPEC_RULES})] = QueueSpec()
    status: QueueStatus | None = None


class SubGroupPolicy(Model):
    name: str | None = None
    network_topology: NetworkTopology | None = None
    sub_group_size: Annotated[Positive | None, served(default=1)] = None
    min_sub_groups: Annotated[Count | None, served(default=0)] = None
    label_selector: Object | None = None
    match_label_keys: list[str] | None = None


class PodGroupSpec(Model):
    min_member: Count | None = None
    min_task_member: dict[str, Int32] | None = None
    queue: Annotated[str | None, served(default="default", maxLength=253, pattern=SUBDOMAIN)] = None
    priority_class_name: Annotated[str | None, served(maxLength=253)] = None
    min_resources: dict[str, Amount] | None = None
    network_topology: NetworkTopology | None = None
    sub_group_policy: list[SubGroupPolicy] | None = None


class PodGroupCondition(Model):
    type: str | None = None
    status: str | None = None
    transition_id: Annotated[str | None, Field(alias="transitionID")] = None
    last_transition_time: Time | None = None
    reason: str | None = None
    message: str | None = None


class PodGroupStatus(Model):
    phase: Annotated[str | None, one_of("", "Pending", "Running", "Unknown", "Inqueue", "Completed")] = None
    conditions: list[PodGroupCondition] | None = None
    running: Count | None = None
    succeeded: Count | None = None
    failed: Count | None = None


class PodGroup(Resource):
    """Pods that are placed together or not at all."""

    served_as: ClassVar[kinds.Kind] = kinds.POD_GROUP

    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus | None = None
