"""The hub's planner in memory: a full round over many clusters and pending Jobs, and the round of one new Job (design.md 12).

A full round begins with everything that members have published being new: it gathers the snapshot, judges every pending Job and
places up to a thousand (protocol.md 3). The round of one new Job comes in a hub that runs, just after a member has published
something new. Every plan is checked by a validator that shares no code with the planner. Figures are CPU seconds: nothing waits
here, and others on the same machine should not count.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from apis import kinds
from benchmarks.federations import Raised, Shelves, World, job_view, lease, make_job, make_world, rules, waiting
from benchmarks.harness import Row, cost
from benchmarks.scheduler_core import make_shapes
from federation.dispatch.items import Act, Decide, Plan
from federation.dispatch.planner import plan
from federation.dispatch.snapshot import Rules
from federation.dispatch.stores import Stores
from policies.fit import Rows
from policies.shapes import Gang, PodShape, Pool
from policies.views import JobView, Projections

NAME = "hub_round"
FULL_ROUND, ONE_JOB = 1.0, 0.005
"""Seconds, at 100 clusters and 10,000 Jobs."""
LIMITED = 100
"""Clusters for which the limits are; other sizes show how it grows."""
AGAIN, AFTERWARDS = 3, 11
SAMPLE = 300
"""Waiting Jobs that the validator looks at."""


# --- the hub's stores ------------------------------------------------------------------------------------------------
def stores_of(world: World) -> Stores:
    """As a leader has them once everything is listed."""
    shelves = Shelves()
    stores = Stores(shelves, projections=Projections(), fences=Raised())  # type: ignore[arg-type]
    shelf = {name: each.put for name, each in shelves.by_kind.items()}
    shelf[kinds.CLUSTER.name](*(member.cluster for member in world.members))
    shelf[kinds.LEASE.name](*(lease(member.cluster.name) for member in world.members))
    shelf[kinds.CLUSTER_CAPACITY.name](*(member.capacity for member in world.members))
    shelf[kinds.QUEUE.name](*world.queues.values())
    shelf[kinds.PROPAGATION_POLICY.name](*world.policies)
    shelf[kinds.CLUSTER_OFFER.name](*world.offers)
    shelf[kinds.JOB.name](*world.jobs)
    shelf[kinds.RESOURCE_BINDING.name](*world.bindings.values())
    stores.ledger._used.update(world.used)  # what runs from queues without being there
    return stores


def know(stores: Stores, world: World, found: Plan) -> None:
    """What an earlier round said of Jobs that wait is in their bindings."""
    jobs = {job.key: job for job in world.jobs}
    for item in found.items:
        if isinstance(item, Decide) and item.act is Act.WAIT and item.decision is not None:
            view = waiting(jobs[item.key], item.decision.gist())
            stores.bindings.put(view)  # type: ignore[attr-defined]


# --- checking --------------------------------------------------------------------------------------------------------
class Nodes:
    """What is left in one cluster, by plain counting."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.free = [dict(zip(rows.resources, each, strict=True)) for each in rows.free.tolist()]
        self.kind, self.count = rows.kind.tolist(), rows.count.tolist()
        self._may: dict[PodShape, list[bool]] = {}

    def may(self, shape: PodShape) -> list[bool]:
        if shape not in self._may:
            self._may[shape] = [shape.accepts(each.labels, taints=each.taints) for each in self.rows.classes]
        return self._may[shape]

    def copies(self, shape: PodShape, at: int) -> int:
        """Pods that one node of a row takes."""
        if not self.may(shape)[self.kind[at]]:
            return 0
        return min(int(self.free[at].get(name, 0)) // amount for name, amount in shape.requests.items() if amount > 0)

    def put(self, shape: PodShape, pods: int) -> bool:
        """Places so many, on the fullest nodes first; False when they do not fit."""
        order = sorted((copies, at) for at in range(len(self.free)) if self.count[at] and (copies := self.copies(shape, at)))
        for copies, at in order:
            while pods and self.count[at]:
                here, self.count[at] = min(copies, pods), self.count[at] - 1
                left = {name: amount - here * shape.requests.get(name) for name, amount in self.free[at].items()}
                self.free.append(left)
                self.kind.append(self.kind[at])
                self.count.append(1)
                pods -= here
        return pods == 0

    def room(self, shape: PodShape) -> int:
        """Pods of a shape alone that would find a place."""
        return sum(self.copies(shape, at) * count for at, count in enumerate(self.count) if count)


def faults(world: World, found: Plan, *, jobs: Sequence[JobView]) -> list[str]:
    """What is wrong with a plan, in words; by plain sums, with nothing of the planner's."""
    by_key = {job.key: job for job in jobs}
    members = {member.cluster.name: member for member in world.members}
    nodes: dict[str, Nodes] = {}
    said = [f"{key} was not judged" for key in found.rest[:3]]
    said += [f"{key} has two items" for key, count in Counter(item.key for item in found.items).items() if count > 1]
    placed = [item for item in found.items if isinstance(item, Decide) and item.act is Act.PLACE]
    for item in placed:
        job = by_key[item.key]
        queue = world.queues[job.queue]
        if queue.capability is not None:
            said.append(f"{job.name} starts from a queue that is full")
        for cluster, gang in _parts(job, item):
            there = nodes.setdefault(cluster, Nodes(_published(members[cluster].capacity)))
            shapes = sorted(
                gang, key=lambda pair: -max(pair[0].requests.get("cpu") / 96_000, pair[0].requests.get("memory") / 8e14)
            )
            if not all(there.put(shape, pods) for shape, pods in shapes):
                said.append(f"{job.name} does not fit {cluster}")
    started = {item.key for item in placed}
    open_jobs = [job for job in jobs if job.key not in started and world.queues[job.queue].capability is None]
    for job in open_jobs[:: max(1, len(open_jobs) // SAMPLE)]:
        said += _overlooked(job, world, nodes)
    return said


def _overlooked(job: JobView, world: World, nodes: dict[str, Nodes]) -> list[str]:
    """Clusters in which a waiting Job of one shape would fit by what is left after the round."""
    if job.gang is None or len(job.gang.tasks) > 1 or job.namespace == "team-01":
        return []
    shape, wanted = job.gang.tasks[0].shape, job.gang.minimum
    found = []
    for member in world.members:
        rows = _published(member.capacity)
        if _at_most(rows, shape) < wanted:
            continue
        if nodes.setdefault(member.cluster.name, Nodes(rows)).room(shape) >= wanted and not job.queue.endswith("t3"):
            found.append(f"{job.name} waits and would fit {member.cluster.name}")
    return found


def _at_most(rows: Rows, shape: PodShape) -> int:
    may = np.array([shape.accepts(each.labels, taints=each.taints) for each in rows.classes])[rows.kind]
    at = [(rows.resources.index(name), amount) for name, amount in shape.requests.items() if amount > 0]
    each = np.min([rows.free[:, column] // amount for column, amount in at], axis=0)
    return int((each * rows.count)[may].sum())


def _published(capacity: Any) -> Rows:
    rows: Rows = capacity.rows
    return rows


def _parts(job: JobView, item: Decide) -> Iterable[tuple[str, list[tuple[PodShape, int]]]]:
    gang: Gang = job.gang  # type: ignore[assignment]
    for cluster, part in sorted(item.run.parts.items()):
        counts = {task.name: task.replicas for task in gang.tasks}
        if part.shares:
            counts = {name: share.replicas for name, share in part.shares.items()}
        yield cluster, [(task.shape, counts[task.name]) for task in gang.tasks]


# --- measuring -------------------------------------------------------------------------------------------------------
def full_round(world: World, *, by: Rules) -> tuple[float, float]:
    """Seconds of a round that sees everything for the first time, and of one more."""
    stores, keys = stores_of(world), [job.key for job in world.jobs]
    know(stores, world, plan(stores.snapshot(keys, now=0.0), rules=replace(by, commits=len(keys) + 1)))
    spent = []
    for _ in range(AGAIN):
        fresh = stores_of(world)
        fresh.bindings.objects = stores.bindings.objects  # type: ignore[attr-defined]
        begun = time.process_time()
        found = plan(fresh.snapshot(keys, now=0.0), rules=by)
        spent.append(time.process_time() - begun)
    wrong = faults(world, found, jobs=world.jobs)
    if wrong:
        raise SystemExit(f"the plan is wrong: {'; '.join(wrong[:5])}")
    begun = time.process_time()
    plan(fresh.snapshot(keys, now=0.0), rules=by)
    again = time.process_time() - begun
    acts = Counter(item.act.value for item in found.items if isinstance(item, Decide))
    count, best = len(world.jobs), min(spent)
    print(f"{len(world.members)} clusters, {count} Jobs: {dict(acts)}, fresh {best:.3f} s, again {again:.3f} s", flush=True)
    return best, again


def one_job(world: World, *, by: Rules) -> float:
    """Seconds of the round of one new Job, the middle of several."""
    stores, shapes, pool = stores_of(world), make_shapes(), Pool()
    plan(stores.snapshot([world.jobs[3].key], now=0.0), rules=by)
    spent = []
    for turn in range(AFTERWARDS):
        job = make_job(12 * turn + 3, shapes=shapes, pool=pool)
        job = job_view(100_000 + 10 * turn, job.gang) if job.gang is not None else job
        stores.jobs.put(job)  # type: ignore[attr-defined]
        at = turn % len(world.members)
        member = world.members[at]
        assert member.capacity is not None
        rows = replace(member.capacity.rows, free=member.capacity.rows.free.copy())
        newer = replace(member.capacity, version=f"{turn + 2}", generation=turn + 2, rows=rows)
        world.members[at] = replace(member, capacity=newer)
        stores.capacities.put(newer)  # type: ignore[attr-defined]
        begun = time.process_time()
        found = plan(stores.snapshot([job.key], now=0.0), rules=by)
        spent.append(time.process_time() - begun)
        wrong = faults(world, found, jobs=[job])
        if wrong or len(found.items) != 1:
            raise SystemExit(f"the plan for {job.name} is wrong: {'; '.join(wrong[:5])}")
    return sorted(spent)[AFTERWARDS // 2]


def measure(*, clusters: Sequence[int], nodes: int, jobs: int, seed: int) -> list[Row]:
    rows, by = [], rules()
    for count in clusters:
        world = make_world(clusters=count, nodes=nodes, jobs=jobs, seed=seed)
        share = max(count / LIMITED, 1.0)
        seconds, _ = full_round(world, by=by)
        case = f"{count} clusters of {nodes} nodes, {jobs} pending Jobs, full round"
        rows.append(cost(NAME, case, ours=seconds, bound=FULL_ROUND * share, unit="s"))
        seconds = one_job(world, by=by)
        rows.append(
            cost(NAME, f"{count} clusters of {nodes} nodes, one new Job", ours=seconds, bound=ONE_JOB * share, unit="s")
        )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, nargs="+", default=[10, 100, 1000], help="sizes of the federation")
    parser.add_argument("--nodes", type=int, default=1000, help="of each cluster")
    parser.add_argument("--jobs", type=int, default=10_000, help="that wait")
    parser.add_argument("--seed", type=int, default=1, help="of what members have published")
    asked = parser.parse_args()
    for row in measure(clusters=asked.clusters, nodes=asked.nodes, jobs=asked.jobs, seed=asked.seed):
        print(row.line(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
