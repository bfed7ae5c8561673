"""The core of a member's scheduler in memory: placements a second, and what a change costs (design.md 12).

The cluster has 24 classes of nodes, 70 % full and fragmented; 240 shapes of pods with selectors, affinities and tolerations;
queues in three levels; no two consecutive gangs are equal. Every plan is checked by a validator that shares no code with the
planner. Nothing is written anywhere: figures are this machine's, against the stated limits, in CPU seconds: nothing
waits here, and others on the same machine should not count. A fresh cluster knows nothing of the shapes that are asked about, a
running one was asked before.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from apis.vectors import ResourceVector
from benchmarks.harness import Row, cost, rate
from machinery.informer import Change, Key
from member_agent.inventory import Inventory
from member_agent.scheduling.decisions import Binding, Plan
from member_agent.scheduling.planner import plan
from member_agent.scheduling.snapshot import Gangs, Snapshot
from member_agent.views import GroupStatus, GroupView, NodeView, PodView, QueueView
from policies.shapes import PodShape, Requirement, Taint, Toleration

NAME = "scheduler_core"
GANGS_A_SECOND, SINGLES_A_SECOND, FOLD_SECONDS = 50_000.0, 10_000.0, 0.010
GROWTH, SLICE = (1, 10, 100, 1000), 0.1
"""Pods that change between two rounds, and the longest that nobody else in the program may have its turn, seconds."""
ZONES, KINDS, DISKS = ("a", "b", "c", "d"), ("general", "memory", "batch"), ("ssd", "hdd")
FULL = 0.7
AGAIN, AFTERWARDS = 3, 9
"""Rounds made again, and gangs that come one by one: the best and the middle one count."""
TAINT = Taint("reserved", "batch", "NoSchedule")
GIB = (1 << 30) * 1000


@dataclass(slots=True)
class World:
    """A cluster and what feeds its scheduler."""

    inventory: Inventory
    gangs: Gangs
    groups: dict[Key, GroupView]
    queues: dict[str, QueueView]
    nodes: dict[str, NodeView]

    def freeze(self) -> Snapshot:
        """As the controller does before every round."""
        return self.gangs.freeze(
            groups=self.groups.get,
            pending={},
            priority=lambda name: int(name or 0),
            queues=self.queues,
            held_back=lambda pod: False,
        )

    def fold(self, pods: Iterable[PodView]) -> None:
        """Pods changed."""
        for pod in pods:
            change = Change((pod.namespace, pod.name), None, pod)
            self.inventory.pod_changed(change)
            self.gangs.pod_changed(change)


# --- making ----------------------------------------------------------------------------------------------------------


def make_world(*, nodes: int, seed: int) -> World:
    """Nodes of 24 classes, filled to 70 % with pods of uneven sizes; twelve teams in four departments."""
    chance = random.Random(seed)
    inventory = Inventory()
    world = World(inventory, Gangs(inventory, scheduler="volcano"), {}, make_queues(), {})
    for index in range(nodes):
        node = make_node(index, chance)
        world.nodes[node.name] = node
        inventory.node_changed(Change(("", node.name), None, node))
    world.fold(pod for node in world.nodes.values() for pod in make_fillers(node, chance))
    _ = inventory.room
    return world


def make_node(index: int, chance: random.Random) -> NodeView:
    kind, disk, cpu = KINDS[index % 3], DISKS[index // 3 % 2], chance.choice((16, 32, 48, 96))
    labels = {"zone": ZONES[index // 6 % 4], "kind": kind, "disk": disk, "kubernetes.io/hostname": f"n{index:06}"}
    memory = cpu * (8 if kind == "memory" else 4)
    amounts = ResourceVector({"cpu": cpu * 1000, "memory": memory * GIB, "pods": 110_000})
    taints = (TAINT,) if kind == "batch" else ()
    return NodeView(f"n{index:06}", f"uid-n{index}", "1", labels, taints, False, True, "boot", amounts)


def make_fillers(node: NodeView, chance: random.Random) -> list[PodView]:
    """Pods that are there already: between 40 % and all of the node."""
    left = int(node.allocatable.get("cpu") * min(max(chance.gauss(FULL, 0.2), 0.4), 1.0))
    made: list[PodView] = []
    while left >= 500:
        cpu = min(chance.choice((500, 1000, 2000, 4000, 7000)), left)
        shape = FILLERS.setdefault(cpu, PodShape(ResourceVector({"cpu": cpu, "memory": cpu * GIB // 250, "pods": 1000})))
        made.append(replace(make_pod(f"{node.name}-{len(made)}", "", shape), node=node.name, phase="Running"))
        left -= cpu
    return made


FILLERS: dict[int, PodShape] = {}


def make_queues() -> dict[str, QueueView]:
    found = {}
    for department in range(4):
        found[f"d{department}"] = make_queue(f"d{department}", parent="root", weight=1 + department)
        for team in range(3):
            name = f"d{department}-t{team}"
            found[name] = make_queue(name, parent=f"d{department}", weight=1 + team)
    return found | {"root": make_queue("root", parent="", weight=1)}


def make_queue(name: str, *, parent: str, weight: int) -> QueueView:
    nothing = ResourceVector()
    return QueueView(name, f"uid-{name}", "1", parent, weight, nothing, nothing, "Open", nothing)


def make_shapes() -> list[PodShape]:
    """240 shapes: 10 sizes, 24 ways to say where."""
    wheres: list[dict[str, object]] = [{}, {"tolerations": (Toleration("reserved", "Exists"),)}]
    for zone in ZONES:
        wheres.append({"node_selector": (("zone", zone),)})
        for disk in DISKS:
            wheres.append({"node_selector": (("disk", disk), ("zone", zone))})
            wheres.append({"node_affinity": ((Requirement("zone", "NotIn", (zone,)), Requirement("disk", "In", (disk,))),)})
    wheres += [{"node_selector": (("kind", "memory"),)}, {"node_selector": (("disk", "ssd"),)}]
    shapes = []
    for size in range(10):
        requests = ResourceVector({"cpu": 500 + 250 * size, "memory": (1 + size % 4) * GIB, "pods": 1000})
        shapes += [PodShape(requests, **where) for where in wheres]  # type: ignore[arg-type]
    return shapes


def make_pod(name: str, group: str, shape: PodShape) -> PodView:
    return PodView(
        namespace="ns",
        name=name,
        uid=f"uid-{name}",
        version="1",
        created="",
        owner="",
        group=group,
        task="work",
        queue="",
        run=False,
        scheduler="volcano",
        node="",
        priority=0,
        gated=False,
        phase="Pending",
        deleting=False,
        confirmed=False,
        shape=shape,
    )


def add_gangs(world: World, *, gangs: int, size: int, after: int = 0) -> None:
    """Gangs of `size` equal pods, neighbours in shape and queue always different; every third has a second shape in it. `after`
    so many others."""
    shapes, leaves = make_shapes(), [name for name in world.queues if "-" in name]
    for index in range(after, after + gangs):
        name = f"g{index:06}"
        first, second = shapes[index * 7 % len(shapes)], shapes[(index * 7 + 3) % len(shapes)]
        group = GroupView(
            namespace="ns",
            name=name,
            uid=f"uid-{name}",
            version="1",
            created="2026-01-01T00:00:00Z",
            owner="",
            deleting=False,
            admitted=False,
            min_member=size,
            min_task_member=(),
            queue=leaves[index % len(leaves)],
            priority_class="",
            min_resources=ResourceVector(),
            status=GroupStatus(phase="Inqueue"),
        )
        world.groups[("ns", name)] = group
        world.gangs.group_changed(Change(("ns", name), None, group))
        mixed = size >= 10 and index % 3 == 0
        world.fold(make_pod(f"{name}-{at}", name, second if mixed and at < size // 10 else first) for at in range(size))


# --- checking --------------------------------------------------------------------------------------------------------


def faults(world: World, found: Plan) -> list[str]:
    """What is wrong with a plan, in words; by plain sums over pods, with nothing of the planner's. Call it before the plan is
    carried out."""
    said = [f"{binding.pod.name} is bound twice" for binding in _twice(found.bindings)]
    used: dict[str, Counter[str]] = {name: Counter() for name in world.nodes}
    for held in world.inventory.held().values():
        used[held.node].update(dict(held.shape.requests))
    for binding in found.bindings:
        node = world.nodes[binding.node]
        used[node.name].update(dict(binding.pod.shape.requests))
        if not binding.pod.shape.accepts(node.labels, taints=node.taints) or node.cordoned or not node.ready:
            said.append(f"{binding.pod.name} may not run on {node.name}")
    for name, amounts in used.items():
        size = world.nodes[name].allocatable
        said += [f"{name} is over in {resource}" for resource, amount in amounts.items() if amount > size.get(resource)]
    count = Counter((binding.pod.namespace, binding.pod.group) for binding in found.bindings)
    said += [
        f"{key[1]} has {got} of {world.groups[key].min_member}"
        for key, got in count.items()
        if got < world.groups[key].min_member
    ]
    waiting = {key for key in world.groups if key not in count}
    return said + [f"{key[1]} waits and nobody says why" for key in sorted(waiting - found.waiting.keys())]


def _twice(bindings: Sequence[Binding]) -> list[Binding]:
    count = Counter(binding.pod.uid for binding in bindings)
    return [binding for binding in bindings if count[binding.pod.uid] > 1]


# --- measuring -------------------------------------------------------------------------------------------------------


def decide(world: World) -> tuple[Plan, float]:
    """One round (snapshot and plan), checked, and its seconds."""
    started = time.process_time()
    found = plan(world.freeze())
    seconds = time.process_time() - started
    wrong = faults(world, found)
    if wrong:
        raise SystemExit(f"the plan is wrong: {'; '.join(wrong[:5])}")
    return found, seconds


def placements(world: World, *, gangs: int, size: int) -> tuple[float, float]:
    """Placements a second of a round on a fresh cluster, and of the same round made again."""
    add_gangs(world, gangs=gangs, size=size)
    found, fresh = decide(world)
    again = min(decide(world)[1] for _ in range(AGAIN))
    waits = Counter(reason.code for reason in found.waiting.values())
    said = f", waiting {dict(waits)}" if waits else ""
    count = len(found.bindings)
    print(
        f"{len(world.nodes)} nodes, {gangs} gangs of {size}: {count} placements in {fresh:.3f} s, again in {again:.3f} s{said}",
        flush=True,
    )
    return count / fresh, count / again


def one_more(world: World, *, gangs: int, size: int) -> float:
    """Seconds of the round that places one gang more, after one that placed many and was carried out."""
    for binding in plan(world.freeze()).bindings:
        world.inventory.assume(binding.pod, node=binding.node)
    seconds = []
    for index in range(AFTERWARDS):
        add_gangs(world, gangs=1, size=size, after=gangs + index)
        found, spent = decide_new(world, gang=f"g{gangs + index:06}")
        seconds.append(spent)
        for binding in found.bindings:
            world.inventory.assume(binding.pod, node=binding.node)
    return sorted(seconds)[AFTERWARDS // 2]


def decide_new(world: World, *, gang: str) -> tuple[Plan, float]:
    """The same when all but one gang have their nodes: only that one may be placed."""
    started = time.process_time()
    found = plan(world.freeze())
    seconds = time.process_time() - started
    groups = {key: group for key, group in world.groups.items() if key[1] == gang}
    wrong = faults(replace(world, groups=groups), found)
    if wrong or {binding.pod.group for binding in found.bindings} - {gang}:
        raise SystemExit(f"the plan for {gang} is wrong: {'; '.join(wrong[:5])}")
    return found, seconds


def folding(*, nodes: int, changes: int, seed: int) -> float:
    """Seconds to fold so many changed pods in: half of them end, half come with a node."""
    world = make_world(nodes=nodes, seed=seed)
    chance = random.Random(seed)
    shape = PodShape(ResourceVector({"cpu": 100, "memory": GIB, "pods": 1000}))
    names = sorted(world.nodes)
    pods = [replace(make_pod(f"new-{index}", "", shape), node=chance.choice(names)) for index in range(changes)]
    world.fold(pods[: changes // 2])
    changed = [replace(pod, phase="Succeeded") for pod in pods[: changes // 2]] + pods[changes // 2 :]
    started = time.process_time()
    world.fold(changed)
    _ = world.inventory.room
    return time.process_time() - started


def growth(world: World, *, changes: Sequence[int], gangs: int, seed: int) -> dict[int, float]:
    """Seconds of a round by how many pods have changed since the one before it, their folding included; one gang waits in each.
    Most of what there is has not changed, and should cost nothing."""
    chance, names = random.Random(seed), sorted(world.nodes)
    shape = PodShape(ResourceVector({"cpu": 1, "memory": 1 << 20, "pods": 1000}))
    found = {}
    for count in changes:
        seconds = []
        for index in range(AFTERWARDS):
            name = f"c{count}-{index}"
            pods = [replace(make_pod(f"{name}-{at}", "", shape), node=chance.choice(names)) for at in range(count)]
            add_gangs(world, gangs=1, size=1, after=gangs + len(world.groups))
            started = time.process_time()
            world.fold(pods)
            decided = plan(world.freeze())
            seconds.append(time.process_time() - started)
            for binding in decided.bindings:
                world.inventory.assume(binding.pod, node=binding.node)
        found[count] = sorted(seconds)[AFTERWARDS // 2]
    told = ", ".join(f"{count}: {1000 * seconds:.2f} ms" for count, seconds in found.items())
    print(f"{len(world.nodes)} nodes, a round after so many changed pods: {told}", flush=True)
    return found


def measure(*, nodes: Sequence[int], gangs: int, size: int, singles: int, changes: int, seed: int) -> list[Row]:
    rows = []
    for count in nodes:
        world = make_world(nodes=count, seed=seed)
        fresh, again = placements(world, gangs=gangs, size=size)
        rows.append(_rate(f"gangs of {size}, {count} nodes, fresh", fresh, GANGS_A_SECOND))
        rows.append(_rate(f"gangs of {size}, {count} nodes, running", again, GANGS_A_SECOND))
        before = min(gangs, count // 20)
        world = make_world(nodes=count, seed=seed)
        add_gangs(world, gangs=before, size=size)
        more, limit = one_more(world, gangs=before, size=size), size / GANGS_A_SECOND
        rows.append(cost(NAME, f"one gang of {size} after {before}, {count} nodes", ours=more, bound=limit, unit="s"))
        for changed, seconds in growth(world, changes=GROWTH, gangs=before + AFTERWARDS, seed=seed).items():
            rows.append(cost(NAME, f"round after {changed} changed pods, {count} nodes", ours=seconds, bound=SLICE, unit="s"))
        fresh, again = placements(make_world(nodes=count, seed=seed), gangs=singles, size=1)
        rows.append(_rate(f"single pods, {count} nodes, fresh", fresh, SINGLES_A_SECOND))
        rows.append(_rate(f"single pods, {count} nodes, running", again, SINGLES_A_SECOND))
        seconds = folding(nodes=count, changes=changes, seed=seed)
        limit = FOLD_SECONDS * changes / 1000
        rows.append(cost(NAME, f"{changes} changed pods folded, {count} nodes", ours=seconds, bound=limit, unit="s"))
    return rows


def _rate(case: str, ours: float, limit: float) -> Row:
    return rate(NAME, case, ours=ours, bound=limit, unit="placements/s", target=1.0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[100, 1000, 10_000], help="sizes of the cluster")
    parser.add_argument("--gangs", type=int, default=200, help="gangs that wait")
    parser.add_argument("--size", type=int, default=100, help="pods of a gang")
    parser.add_argument("--singles", type=int, default=5000, help="single pods that wait")
    parser.add_argument("--changes", type=int, default=1000, help="changed pods")
    parser.add_argument("--seed", type=int, default=1, help="of the cluster")
    asked = parser.parse_args()
    rows = measure(
        nodes=asked.nodes,
        gangs=asked.gangs,
        size=asked.size,
        singles=asked.singles,
        changes=asked.changes,
        seed=asked.seed,
    )
    for row in rows:
        print(row.line(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
