"""The scheduler's core where pods keep apart and spread: placements a second at many nodes (design.md 12).

The cluster is that of `scheduler_core`; on half of its nodes run pods that newcomers speak of. Gangs keep apart by host, spread
over zones, or do both; every plan is checked pod by pod by a validator that shares no code with the planner.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from apis.vectors import ResourceVector
from benchmarks.harness import Row, rate
from benchmarks.scheduler_core import GIB, World, faults, make_pod, make_world
from machinery.informer import Change
from member_agent.scheduling.decisions import Plan
from member_agent.scheduling.planner import plan
from member_agent.views import GroupStatus, GroupView, NodeView, PodView
from policies.neighbours import Crowd, Neighbours, PodSelector, PodTerm, Spread
from policies.selectors import Requirement
from policies.shapes import PodShape

NAME = "scheduler_neighbours"
A_SECOND = 2000.0
HOST, ZONE = "kubernetes.io/hostname", "zone"
APPS = 20
"""Crowds that pods which run and single pods belong to."""
SKEW = 2


def crowd(app: str) -> Crowd:
    return Crowd((PodSelector(("ns",), None, (Requirement("app", "In", (app,)),)),))


def asks(kind: int, app: str) -> Neighbours:
    """Keep apart by host, spread over zones, or both."""
    apart = (PodTerm(crowd(app), HOST),) if kind != 1 else ()
    return Neighbours(apart=apart, spreads=(Spread(crowd(app), ZONE, SKEW),) if kind != 0 else ())


def add_crews(world: World, *, gangs: int, size: int, apps: int) -> None:
    """Gangs of `size` equal pods; each is a crowd of its own, unless `apps` crowds are shared by all."""
    for index in range(gangs):
        name = f"g{index:06}"
        app = f"app-{index % apps}" if apps else name
        requests = ResourceVector({"cpu": 500 + 250 * (index % 4), "memory": GIB, "pods": 1000})
        shape = PodShape(requests, neighbours=asks(index % 3 if not apps else 0, app))
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
            queue=f"d{index % 4}-t{index % 3}",
            priority_class="",
            min_resources=ResourceVector(),
            status=GroupStatus(phase="Inqueue"),
        )
        world.groups[("ns", name)] = group
        world.gangs.group_changed(Change(("ns", name), None, group))
        world.fold(replace(make_pod(f"{name}-{at}", name, shape), labels=(("app", app),)) for at in range(size))


def seat_crowds(world: World) -> None:
    """Two pods of an app on every second node."""
    shape = PodShape(ResourceVector({"pods": 1000}))
    for index, name in enumerate(sorted(world.nodes)):
        pods = [replace(make_pod(f"{name}-app-{number}", "", shape), node=name, phase="Running") for number in range(2)]
        world.fold(replace(one, labels=(("app", f"app-{index % APPS}"),)) for one in pods if index % 20 < APPS // 2)


# --- checking --------------------------------------------------------------------------------------------------------


def objections(world: World, found: Plan, *, seated: Mapping[str, Mapping[str, int]]) -> list[str]:
    """What pods object to, by plain counts over pods; `seated`: pods by app and node before."""
    by_app: dict[str, Counter[str]] = defaultdict(Counter, {app: Counter(nodes) for app, nodes in seated.items()})
    for binding in found.bindings:
        by_app[_app(binding.pod)][binding.node] += 1
    said = []
    for binding in found.bindings:
        app, terms = _app(binding.pod), binding.pod.shape.neighbours
        if terms is not None and terms.apart and by_app[app][binding.node] > 1:
            said.append(f"{binding.pod.name} is not alone on {binding.node}")
    for app in sorted(
        {_app(each.pod) for each in found.bindings if each.pod.shape.neighbours and each.pod.shape.neighbours.spreads}
    ):
        zones = _by_zone(world.nodes, by_app[app])
        if max(zones.values()) - min(zones.values()) > SKEW:
            said.append(f"{app} is uneven: {dict(zones)}")
    return said


def _app(pod: PodView) -> str:
    return dict(pod.labels)["app"]


def _by_zone(nodes: Mapping[str, NodeView], count: Mapping[str, int]) -> Counter[str]:
    zones = Counter({node.labels[ZONE]: 0 for node in nodes.values()})
    for name, number in count.items():
        zones[nodes[name].labels[ZONE]] += number
    return zones


def seated_apps(world: World) -> dict[str, Counter[str]]:
    """Pods by app and node."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for held in world.inventory.held().values():
        app = dict(held.labels).get("app")
        if app is not None:
            found[app][held.node] += 1
    return found


# --- measuring -------------------------------------------------------------------------------------------------------


def placements(*, nodes: int, gangs: int, size: int, apps: int, seed: int) -> float:
    """Placements a second of one round (snapshot and plan)."""
    world = make_world(nodes=nodes, seed=seed)
    seat_crowds(world)
    add_crews(world, gangs=gangs, size=size, apps=apps)
    seated = seated_apps(world)
    started = time.perf_counter()
    found = plan(world.freeze())
    seconds = time.perf_counter() - started
    wrong = faults(world, found) + objections(world, found, seated=seated)
    if wrong:
        raise SystemExit(f"the plan is wrong: {'; '.join(wrong[:5])}")
    waits = Counter(reason.code for reason in found.waiting.values())
    said = f", waiting {dict(waits)}" if waits else ""
    print(f"{nodes} nodes, {gangs} gangs of {size}: {len(found.bindings)} placements in {seconds:.3f} s{said}", flush=True)
    return len(found.bindings) / seconds


def measure(*, nodes: Sequence[int], gangs: int, size: int, singles: int, seed: int) -> list[Row]:
    rows = []
    for count in nodes:
        many = placements(nodes=count, gangs=gangs, size=size, apps=0, seed=seed)
        rows.append(rate(NAME, f"gangs of {size}, {count} nodes", ours=many, bound=A_SECOND, unit="placements/s", target=1.0))
        one = placements(nodes=count, gangs=singles, size=1, apps=APPS, seed=seed)
        rows.append(rate(NAME, f"single pods, {count} nodes", ours=one, bound=A_SECOND, unit="placements/s", target=1.0))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000, 10_000], help="sizes of the cluster")
    parser.add_argument("--gangs", type=int, default=100, help="gangs that wait")
    parser.add_argument("--size", type=int, default=100, help="pods of a gang")
    parser.add_argument("--singles", type=int, default=1000, help="single pods that wait")
    parser.add_argument("--seed", type=int, default=1, help="of the cluster")
    asked = parser.parse_args()
    rows = measure(nodes=asked.nodes, gangs=asked.gangs, size=asked.size, singles=asked.singles, seed=asked.seed)
    for row in rows:
        print(row.line(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
