"""Tasks of a gang that want each other sit on one node, tasks that avoid each other do not, as far as there is room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from machinery.informer import Key
from member_agent.aspects import aspect, plain
from member_agent.room import Columns, Rows, Scores, Spot
from member_agent.scheduling.plugins.buckets import Bucket, Topology, fill_buckets, read_topology
from member_agent.scheduling.plugins.hooks import Hook
from member_agent.scheduling.plugins.protocol import Order, Plugin, Session
from member_agent.scheduling.snapshot import Waiting
from member_agent.views import PodView
from policies.shapes import PodShape

OUTSIDE: Order = (1,)
"""Of pods in no bucket: after those in one."""


class Arguments(BaseModel):
    """Of task-topology."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    weight: int = Field(default=1, ge=0, alias="task-topology.weight", description="beside other plugins")


class _Plan:
    """Where the pods of one gang should sit, and where they do; changed as pods are given nodes and lose them."""

    def __init__(self, topology: Topology, gang: Waiting, *, sites: Sequence[tuple[str, str]]) -> None:
        self.topology = topology
        self.buckets, self.of = fill_buckets(topology, gang.pods, sites=sites)
        self.sizes = {bucket.index: bucket.waiting.total() for bucket in self.buckets}
        self.largest = max((bucket.pods for bucket in self.buckets), default=0)
        self.on: dict[str, Counter[str]] = {}
        """By node, pods of the gang by task."""
        for task, node in sites:
            self.on.setdefault(node, Counter())[task] += 1
        self.asked: dict[PodShape, None] = {}

    def order(self, pod: PodView) -> Order:
        """The largest bucket first; in it, as its topology ranks the tasks."""
        bucket = self.of.get(pod.uid)
        return OUTSIDE if bucket is None else (0, -self.sizes[bucket.index], bucket.index, self.topology.rank(pod.task))


class TaskTopology(Plugin):
    """By annotations of the group: `task-topology-affinity`, `-anti-affinity`, `-task-order` under `volcano.sh/`."""

    name = "task-topology"
    arguments = Arguments

    def __init__(self, arguments: Arguments, *, session: Session, hooks: frozenset[Hook] = frozenset(Hook)) -> None:
        super().__init__(arguments, session=session, hooks=hooks)
        self._weight = arguments.weight
        self._plans: dict[Key, _Plan] = {}
        for gang in session.gangs:
            found = self._plan(gang) if gang.group.hints and gang.pods else None
            if found is not None:
                self._plans[gang.key] = found
        self._row_of = {name: row for row, name in enumerate(session.room.layout.names)} if self._plans else {}

    def _plan(self, gang: Waiting) -> _Plan | None:
        sites = self.session.sites(gang.key)
        tasks = {pod.task for pod in gang.pods} | {task for task, _ in sites} | dict(gang.group.min_task_member).keys()
        topology = read_topology(gang.group.hints, tasks=tasks | gang.tally.placed.keys())
        return _Plan(topology, gang, sites=sites) if topology is not None else None

    def task_order(self, pod: PodView) -> Order:
        plan = self._plans.get((pod.namespace, pod.group))
        return plan.order(pod) if plan is not None else OUTSIDE

    def aspect(self, gang: Waiting, *, pod: PodView) -> tuple[Key, str, int] | None:
        plan = self._plans.get(gang.key)
        bucket = plan.of.get(pod.uid) if plan is not None else None
        return (gang.key, pod.task, bucket.index) if bucket is not None else None

    def local(self, shape: PodShape) -> bool:
        return aspect(shape, of=self.name) is None

    def reads(self, shape: PodShape) -> frozenset[str] | None:
        return frozenset() if aspect(shape, of=self.name) is None else None

    # --- where pods go best ------------------------------------------------------------------------------------------

    def node_order(self, columns: Columns, shape: PodShape) -> Scores:
        found = self._found(shape)
        if found is None or not self._weight:
            return np.zeros(len(columns.rows))
        plan, task, bucket = found
        plan.asked[shape] = None
        more = self._ahead(columns, shape)
        beside = self._by_row({node: bucket.sitting[node] for node in bucket.sitting}, columns.rows) + more
        avoided = self._by_row({node: plan.topology.dislikes(task, on) for node, on in plan.on.items()}, columns.rows)
        if (task, task) in plan.topology.avoids:
            avoided = avoided + more
        left = np.maximum(bucket.waiting.total() - more, 1)
        # Who sits there already counts twice: else a node that fills up would be no better than one that could be filled.
        score: Scores = 2 * (beside - avoided) + np.minimum(_fit_together(columns, task, shape, bucket), left)
        return score * (50 * self._weight / plan.largest)

    def _found(self, shape: PodShape) -> tuple[_Plan, str, Bucket] | None:
        known = aspect(shape, of=self.name)
        if not isinstance(known, tuple):
            return None
        key, task, index = known
        plan = self._plans[key]
        return plan, task, plan.buckets[index]

    def _ahead(self, columns: Columns, shape: PodShape) -> Scores:
        """By row, how many more pods of the shape sit there than in the room itself."""
        for name, amount in shape.requests.items():
            column = columns.column(name)
            if column is not None:
                ahead: Scores = (self.session.room.free[columns.rows, column] - columns.free[:, column]) / amount
                return ahead
        return np.zeros(len(columns.rows))

    def _by_row(self, by_node: Mapping[str, int], rows: Rows) -> Scores:
        table: Scores = np.zeros(len(self._row_of))
        for node, count in by_node.items():
            row = self._row_of.get(node)
            if row is not None:
                table[row] = count
        return table[rows]

    # --- books -------------------------------------------------------------------------------------------------------

    def took(self, spot: Spot) -> None:
        self._note(spot, 1)

    def gave_back(self, spot: Spot) -> None:
        self._note(spot, -1)

    def _note(self, spot: Spot, sign: int) -> None:
        found = self._found(spot.shape)
        if found is None:
            return
        plan, task, bucket = found
        node = self.session.room.layout.names[spot.row]
        bucket.waiting[task, plain(spot.shape)] -= sign * spot.count
        bucket.sitting[node] += sign * spot.count
        plan.on.setdefault(node, Counter())[task] += sign * spot.count
        for shape in plan.asked:
            self.session.room.forget(shape)
        plan.asked.clear()


def _fit_together(columns: Columns, task: str, shape: PodShape, bucket: Bucket) -> Scores:
    """By row, pods of the bucket that fit there together with one of the shape, it included; the first ones first."""
    others = [(each, count - (key == task and each == plain(shape))) for (key, each), count in bucket.waiting.items()]
    total = 1 + sum(count for _, count in others)
    counts = np.array([1, *(count for _, count in others)])
    fit: Scores = np.full(len(columns.rows), float(total))
    for name in sorted({name for each, _ in others for name in each.requests} | shape.requests.keys()):
        column = columns.column(name)
        each = np.array([shape.requests.get(name), *(other.requests.get(name) for other, _ in others)], dtype=np.int64)
        free = columns.free[:, column] if column is not None else np.zeros(len(columns.rows), dtype=np.int64)
        np.minimum(fit, np.searchsorted(np.cumsum(np.repeat(each, np.maximum(counts, 0))), free, side="right"), out=fit)
    return np.maximum(fit, 1.0)
