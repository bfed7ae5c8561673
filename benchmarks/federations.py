"""A federation in memory for the benchmarks of the hub: members with what they have published, queues, policies, offers, Jobs.

Nodes are of 24 classes, 70 % full and fragmented; queues have three levels; Jobs have 240 shapes of pods with selectors,
affinities and tolerations, and no two neighbours are equal. One Job in twelve is small enough to find room; of the others most
wait: no cluster holds so many pods of their shape together, or has such nodes, or their queue is full.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np

from apis import keys
from apis.kinds import Kind
from apis.runs import BindingRun
from apis.vectors import ResourceVector
from benchmarks.scheduler_core import GIB, TAINT, make_shapes
from federation.dispatch.snapshot import Member, Rules
from federation.settings import HubSettings
from policies.capacities import CapacityView, MemberQueue
from policies.fit import NodeClass, Rows
from policies.members import ClusterView, LeaseView, QueueView
from policies.offers import OfferView, project_offer
from policies.placements import Affinity, PolicyView, Selector
from policies.shapes import Gang, PodShape, Pool, Requirement, Task
from policies.verdicts import Gist, Outcome
from policies.views import BindingView, JobView

ZONES, KINDS, DISKS = ("a", "b", "c", "d"), ("general", "memory", "batch"), ("ssd", "hdd")
SIZES = (16, 32, 48, 96)
"""Cores of a node."""
STEPS = 64
"""Free amounts are published in 64ths of a node (protocol.md 4)."""
NOWHERE = "quantum"
"""A kind of node that no member has."""
DEPARTMENTS, TEAMS = 10, 10
REGIONS = 8
LABEL_KEYS = frozenset({*HubSettings().label_keys, "zone", "kind", "disk"})


@dataclass(slots=True)
class World:
    """What a round looks at, by parts."""

    members: list[Member]
    queues: dict[str, QueueView]
    policies: tuple[PolicyView, ...]
    offers: tuple[OfferView, ...]
    jobs: list[JobView] = field(default_factory=list)
    bindings: dict[tuple[str, str], BindingView] = field(default_factory=dict)
    used: dict[str, ResourceVector] = field(default_factory=dict)


def make_world(*, clusters: int, nodes: int, jobs: int, seed: int = 1) -> World:
    """The same for the same seed."""
    chance = random.Random(seed)
    numbers = np.random.default_rng(seed)
    queues = make_queues()
    world = World(
        members=[make_member(index, nodes=nodes, numbers=numbers, queues=queues) for index in range(clusters)],
        queues=queues,
        policies=make_policies(),
        offers=tuple(make_offer(index, chance) for index in range(clusters)),
    )
    world.used = {name: queue.capability for name, queue in queues.items() if queue.capability is not None}
    pool, shapes = Pool(), make_shapes()
    world.jobs = [make_job(index, shapes=shapes, pool=pool) for index in range(jobs)]
    world.bindings = {job.key: waiting(job) for job in world.jobs}
    return world


# --- members ---------------------------------------------------------------------------------------------------------
def make_member(index: int, *, nodes: int, numbers: np.random.Generator, queues: Mapping[str, QueueView]) -> Member:
    name = cluster_name(index)
    region = f"region-{index % REGIONS}"
    cluster = ClusterView(
        namespace="",
        name=name,
        uid=f"cluster-{index}",
        version="1",
        id=f"id-{index}",
        provider=f"provider-{index % 3}",
        region=region,
        zones=tuple(f"{region}{zone}" for zone in ZONES),
        labels={"tier": "gold" if index % 4 else "silver"},
        ready="True",
    )
    capacity = CapacityView(
        namespace=keys.execution_namespace(name),
        name=keys.MEMBER_LEASE,
        uid=f"capacity-{index}",
        version="1",
        rows=make_rows(nodes, region=region, numbers=numbers),
        cluster=name,
        works_through=0,
        generation=1,
        label_keys=LABEL_KEYS,
        queues=member_queues(queues),
        answers={},
    )
    return Member(cluster=cluster, fence=1, capacity=capacity)


def cluster_name(index: int) -> str:
    return f"member-{index:04}"


def make_rows(nodes: int, *, region: str, numbers: np.random.Generator) -> Rows:
    """Free amounts of nodes that are 70 % full, each unlike most others; equal ones share a row."""
    classes = []
    for at in range(len(ZONES) * len(KINDS) * len(DISKS)):
        kind, disk, zone, cores = KINDS[at % 3], DISKS[at // 3 % 2], ZONES[at // 6], SIZES[at % 4]
        labels = {"zone": zone, "kind": kind, "disk": disk, "topology.kubernetes.io/region": region}
        amounts = {"cpu": cores * 1000, "memory": cores * (8 if kind == "memory" else 4) * GIB, "pods": 110_000}
        classes.append(NodeClass(str(at), labels, (TAINT,) if kind == "batch" else (), ResourceVector(amounts)))
    kinds = numbers.integers(0, len(classes), nodes)
    full = np.clip(numbers.normal(0.7, 0.2, (nodes, 3)), 0.3, 1.0)
    size = np.array([[each.allocatable.get(name) for name in ("cpu", "memory", "pods")] for each in classes], dtype=np.int64)
    free = (size[kinds] // STEPS) * ((1 - full) * STEPS).astype(np.int64)
    free[:, 2] -= free[:, 2] % 1000
    cells, counts = np.unique(np.column_stack((kinds, free)), axis=0, return_counts=True)
    return Rows(tuple(classes), ("cpu", "memory", "pods"), cells[:, 0].copy(), cells[:, 1:].copy(), counts.astype(np.int64))


def make_queues() -> dict[str, QueueView]:
    """Ten departments of ten teams under the root; one team in twenty may start nothing more."""
    found = {keys.ROOT_QUEUE: make_queue(keys.ROOT_QUEUE, parent="")}
    for department in range(DEPARTMENTS):
        above = f"d{department}"
        found[above] = make_queue(above, parent=keys.ROOT_QUEUE)
        for team in range(TEAMS):
            full = (department * TEAMS + team) % 20 == 7
            limit = ResourceVector({"cpu": 64_000, "memory": 256 * GIB}) if full else None
            found[f"{above}-t{team}"] = make_queue(f"{above}-t{team}", parent=above, capability=limit, priority=team % 3)
    return found


def make_queue(name: str, *, parent: str, **more: Any) -> QueueView:
    return QueueView("", name, f"queue-{name}", "1", parent=parent, state="Open", **more)


def member_queues(queues: Mapping[str, QueueView]) -> dict[str, MemberQueue]:
    """The same tree at the member; one team in ten is limited there."""
    used = ResourceVector({"cpu": 1000, "memory": GIB, "pods": 1000})
    limit = {"cpu": 4_000_000, "memory": 16_000 * GIB}
    return {
        name: MemberQueue(name, queue.parent, True, used, limit if name.endswith("t3") else None)
        for name, queue in queues.items()
    }


def make_offer(index: int, chance: random.Random) -> OfferView:
    """Three classes of nodes, each with its prices, one of them also as spot, and a pool."""
    base = 0.02 + 0.001 * chance.randrange(40)
    classes = [
        {"name": kind, "labels": {"kind": kind}, "prices": {"cpu": f"{base * (1 + at / 2):.4f}", "memory": "0.004"}}
        for at, kind in enumerate(KINDS)
    ]
    classes[2]["spot"] = {"prices": {"cpu": f"{base / 3:.4f}", "memory": "0.001"}, "interruptionsPerHour": "0.01"}
    pool = {
        "name": "burst",
        "nodeClass": "general",
        "size": {"cpu": "32", "memory": "128Gi", "pods": "110"},
        "max": 20,
        "provisionTime": "3m",
    }
    spec = {"currency": "EUR", "classes": classes, "pools": [pool]}
    return project_offer(
        msgspec.json.encode({"metadata": {"name": cluster_name(index), "uid": f"offer-{index}"}, "spec": spec})
    )


def make_policies() -> tuple[PolicyView, ...]:
    """Two that select by namespace; most Jobs go by the federation's default."""
    jobs = (Selector("batch.volcano.sh/v1alpha1", "Job"),)
    near = Affinity(fields=(Requirement("region", "In", tuple(f"region-{at}" for at in range(3))),), name="near")
    gold = Affinity(labels=None, exclude=tuple(cluster_name(at) for at in range(0, 40, 4)), name="others")
    return (
        PolicyView("team-01", "near", "policy-1", "1", selectors=jobs, affinities=(near, gold)),
        PolicyView("team-02", "cheap", "policy-2", "1", selectors=jobs, settings={"profile": "cost-first"}),
    )


# --- Jobs ------------------------------------------------------------------------------------------------------------
def make_job(index: int, *, shapes: list[PodShape], pool: Pool) -> JobView:
    """Of twelve Jobs one is small; of the others one in fourteen wants nodes that nobody has."""
    first, second = shapes[index * 7 % len(shapes)], shapes[(index * 7 + 3) % len(shapes)]
    small = index % 12 == 3
    size = (1, 4, 8, 16, 32, 64, 100)[index % 7] if small else 4000 + 120 * (index % 25)
    if not small and index % 14 == 5:
        first = replace(first, node_selector=(("kind", NOWHERE),))
    tasks = [Task("work", size, size, pool.shape(first))]
    if index % 5 < 2:
        beside = max(1, size // 10)
        tasks.append(Task("lead", beside, beside, pool.shape(second)))
    gang = pool.gang(tuple(tasks), minimum=sum(task.minimum for task in tasks))
    return job_view(index, gang)


def job_view(index: int, gang: Gang) -> JobView:
    return JobView(
        namespace=f"team-{index % 40:02}",
        name=f"job-{index:06}",
        uid=f"job-uid-{index}",
        version=str(index + 1),
        created="2026-01-01T00:00:00Z",
        generation=1,
        settings={"estimated-duration": f"{1 + index % 5}h"},
        queue=f"d{index % DEPARTMENTS}-t{index // DEPARTMENTS % TEAMS}",
        gang=gang,
    )


def waiting(job: JobView, known: Gist | None = None) -> BindingView:
    """Its binding, from an earlier round in which it found no room."""
    return BindingView(
        namespace=job.namespace,
        name=f"{job.name}-job",
        uid=f"binding-{job.uid}",
        version="1",
        job=job.name,
        job_uid=job.uid,
        run=BindingRun(job=job.uid),
        decision=known if known is not None else Gist(Outcome.WAITING, "NoClusterFits"),
    )


def rules(*, commits: int = 1000) -> Rules:
    """As the hub's settings have them."""
    settings = HubSettings()
    return Rules(
        filters=settings.filters,
        weights=settings.weights,
        start_timeout=settings.start_timeout,
        explain_every=settings.explain_every,
        orphan_grace=settings.orphan_grace,
        commits=commits,
        trouble_timeout=settings.trouble_timeout,
        fence_after=settings.fence_after,
        run_time=settings.run_time,
    )


# --- stores ----------------------------------------------------------------------------------------------------------
class Shelf:
    """An informer whose objects are put there."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Any] = {}
        self.reached = "1"

    def get(self, namespace: str | None, name: str) -> Any:
        return self.objects.get((namespace or "", name))

    def values(self) -> Iterable[Any]:
        return self.objects.values()

    def sorted(self) -> list[Any]:
        return [self.objects[key] for key in sorted(self.objects)]

    def subscribe(self, handler: Callable[[Any], None]) -> None:
        """Nothing changes here."""

    def put(self, *views: Any) -> None:
        for view in views:
            self.objects[(view.namespace, view.name)] = view


class Shelves:
    """Stands for the informers of a program."""

    def __init__(self) -> None:
        self.by_kind: dict[str, Shelf] = {}

    def add(self, kind: Kind, project: object, **scope: object) -> Shelf:
        return self.by_kind.setdefault(kind.name, Shelf())


class Raised:
    """Fences of a leader that has taken all members over."""

    def raised(self, cluster: str) -> bool:
        return True


def lease(name: str) -> LeaseView:
    namespace = keys.execution_namespace(name)
    return LeaseView(namespace, keys.MEMBER_LEASE, f"lease-{name}", "1", cluster=name, holder="agent", fence=1)
