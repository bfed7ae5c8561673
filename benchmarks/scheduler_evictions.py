"""The scheduler's core where gangs have others evicted: seconds of a preempt and of a reclaim round (design.md 12).

The cluster is that of `scheduler_core`; on some of its nodes less important gangs, or those of another queue, hold what is
left. A gang that may run only there needs more than is free. Every plan is checked by plain sums: victims and nodes fit
together, and without any one victim the gang would not have found room.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from apis.vectors import ResourceVector
from benchmarks.harness import Row, cost
from benchmarks.scheduler_core import GIB, World, make_pod, make_world
from machinery.informer import Change
from member_agent.scheduling.configuration import Configuration, parse
from member_agent.scheduling.decisions import Plan
from member_agent.scheduling.planner import BUILT_IN, plan
from member_agent.views import GroupStatus, GroupView
from policies.shapes import PodShape

NAME = "scheduler_evictions"
SECONDS = 0.1
AGAIN = 3
HERE = (("kind", "general"),)
"""Where the beneficiary may run."""
WANTED = PodShape(ResourceVector({"cpu": 2000, "memory": GIB, "pods": 1000}), node_selector=HERE)

CONFIGURATION = """
actions: "enqueue, allocate, backfill, {action}"
tiers:
- plugins: [{{name: priority}}, {{name: gang, enablePreemptable: false}}, {{name: conformance}}]
- plugins: [{{name: overcommit}}, {{name: drf, enablePreemptable: false}}, {{name: predicates}}, {{name: nodeorder}}]
- plugins: [{{name: {shares}}}]
"""


def configuration(action: str) -> Configuration:
    shares = "proportion" if action == "preempt" else "capacity"
    return parse(CONFIGURATION.format(action=action, shares=shares), known=BUILT_IN.known)


def add_group(world: World, name: str, *, queue: str, minimum: int, priority: int, phase: str) -> None:
    group = GroupView(
        namespace="ns",
        name=name,
        uid=f"uid-{name}",
        version="1",
        created="2026-01-01T00:00:00Z",
        owner="",
        deleting=False,
        admitted=False,
        min_member=minimum,
        min_task_member=(),
        queue=queue,
        priority_class=str(priority),
        min_resources=ResourceVector(),
        status=GroupStatus(phase=phase),
    )
    world.groups["ns", name] = group
    world.gangs.group_changed(Change(("ns", name), None, group))


def fill(world: World, *, candidates: int, queue: str, seed: int) -> None:
    """Pods of less important gangs on nodes of the kind, until nothing is left of these for another pod of the gang; on further
    nodes of the kind others hold all."""
    chance = random.Random(seed)
    free = {name: int(node.allocatable["cpu"]) for name, node in world.nodes.items()}
    for held in world.inventory.held().values():
        free[held.node] -= held.shape.requests.get("cpu")
    names = [name for name, node in sorted(world.nodes.items()) if node.labels["kind"] == "general"]
    chance.shuffle(names)
    made = 0
    for name in names:
        while free[name] >= 1000:
            cpu = min(chance.choice((1000, 2000, 3000)), free[name])
            shape = PodShape(ResourceVector({"cpu": cpu, "memory": GIB, "pods": 1000}))
            gang = f"low-{made // 10:05}" if made < candidates else ""
            if gang and ("ns", gang) not in world.groups:
                add_group(world, gang, queue=queue, minimum=1, priority=1 + made // 10 % 5, phase="Running")
            pod = replace(
                make_pod(f"c{made:06}", gang, shape), node=name, phase="Running", created=f"2026-01-{made % 28 + 1:02}"
            )
            world.fold([pod])
            free[name] -= cpu
            made += 1
    if made < candidates:
        raise SystemExit(f"only {made} of {candidates} candidates found room on {len(names)} nodes")


def faults(world: World, found: Plan, *, wanted: int) -> list[str]:
    """What is wrong with a plan, in words."""
    victims = {each.pod.uid: each.pod for each in found.evictions}
    said = [] if len(victims) == len(found.evictions) else ["somebody is evicted twice"]
    free = {name: int(node.allocatable["cpu"]) for name, node in world.nodes.items()}
    for uid, held in world.inventory.held().items():
        if uid not in victims:
            free[held.node] -= held.shape.requests.get("cpu")
    placed = Counter(each.node for each in found.nominated)
    if sum(placed.values()) != wanted:
        said.append(f"{sum(placed.values())} of {wanted} pods have a node")
    size = WANTED.requests.get("cpu")
    said += [f"{name} is over" for name, count in placed.items() if free[name] < count * size]
    there = {name for name, node in world.nodes.items() if WANTED.accepts(node.labels, taints=node.taints)}
    room = sum(free[name] // size for name in there)
    for pod in victims.values():
        less = (free[pod.node] - pod.shape.requests.get("cpu")) // size - free[pod.node] // size
        if room + less >= wanted:
            said.append(f"{pod.name} need not go")
    return said


def seconds_of(action: str, *, nodes: int, candidates: int, size: int, seed: int) -> float:
    """CPU seconds of one round (snapshot and plan) that evicts for one gang; the least of a few."""
    world = make_world(nodes=nodes, seed=seed)
    others = "d0-t0" if action == "preempt" else "d1-t0"
    fill(world, candidates=candidates, queue=others, seed=seed)
    deserved = ResourceVector({"cpu": size * WANTED.requests.get("cpu")})
    world.queues = {**world.queues, "d0-t0": replace(world.queues["d0-t0"], deserved=deserved)}
    add_group(world, "high", queue="d0-t0", minimum=size, priority=9, phase="Inqueue")
    world.fold(make_pod(f"high-{index}", "high", WANTED) for index in range(size))
    by, took = configuration(action), []
    for _ in range(AGAIN):
        begun = time.process_time()
        found = plan(world.freeze(), configuration=by)
        took.append(time.process_time() - begun)
    wrong = faults(world, found, wanted=size)
    if wrong:
        raise SystemExit(f"the plan is wrong: {'; '.join(wrong[:5])}; {found.waiting}")
    print(
        f"{nodes} nodes, {action}: {len(found.evictions)} of {candidates} evicted for {size} in {min(took):.3f} s", flush=True
    )
    return min(took)


def measure(*, nodes: Sequence[int], candidates: int, size: int, seed: int) -> list[Row]:
    rows = []
    for count in nodes:
        for action in ("preempt", "reclaim"):
            ours = seconds_of(action, nodes=count, candidates=candidates, size=size, seed=seed)
            case = f"{action} for {size} pods, {candidates} candidates, {count} nodes"
            rows.append(cost(NAME, case, ours=ours, bound=SECONDS, unit="s"))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000, 10_000], help="sizes of the cluster")
    parser.add_argument("--candidates", type=int, default=1000, help="pods that may have to go")
    parser.add_argument("--size", type=int, default=100, help="pods of the gang that starves")
    parser.add_argument("--seed", type=int, default=1, help="of the cluster")
    asked = parser.parse_args()
    for row in measure(nodes=asked.nodes, candidates=asked.candidates, size=asked.size, seed=asked.seed):
        print(row.line(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
