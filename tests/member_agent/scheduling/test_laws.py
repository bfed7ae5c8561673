"""Laws of sessions: who is served next, what queues end up with, and two schedulers on one cluster."""

from __future__ import annotations

import dataclasses
from collections import deque

from hypothesis import given, settings
from hypothesis import strategies as some

from apis.vectors import total
from machinery.informer import Change
from member_agent.inventory import Inventory
from member_agent.scheduling.planner import plan
from member_agent.scheduling.snapshot import Gangs
from member_agent.views import GroupView, PodView
from policies.shares import Claim, dominant, fill
from tests.member_agent import test_room
from tests.member_agent.scheduling.build import Made, configuration, decide, gang, nodes, queue, started, vector, without
from tests.member_agent.test_room import node, shape

# --- dominant resource fairness --------------------------------------------------------------------------------------


@given(
    some.lists(some.tuples(some.integers(0, 3), some.integers(1, 4), some.integers(1, 4)), min_size=1, max_size=5),
    some.integers(0, 6),
)
@settings(deadline=None, max_examples=30)
def test_whoever_is_served_holds_no_more_of_what_it_uses_most_than_whoever_is_not(
    listed: list[tuple[int, int, int]], room: int
) -> None:
    """Each gang holds some pods of its own shape; all want one more pod of one and the same shape."""
    gangs: list[Made] = []
    for index, (held, cpu, memory) in enumerate(listed):
        of = gang(f"g{index}", pods=held, shape=shape(cpu, memory), on=["full"] * held)
        one = dataclasses.replace(test_room.pod(f"g{index}-new", shape(1), group=f"g{index}"), index=held)
        gangs.append(Made(dataclasses.replace(of.group, min_member=1), (*of.pods, one), 0))
    taken = sum(held * cpu for held, cpu, _ in listed)
    machines = [node("full", cpu=max(taken, 1), memory=64), node("open", cpu=room, memory=64)]
    found = started(decide(machines, *gangs, by=configuration("drf", "predicates")))
    there = machines[0].allocatable + machines[1].allocatable
    held_by = {each.group.name: dominant(total(pod.shape.requests for pod in each.pods if pod.node), there) for each in gangs}
    assert sum(found.values()) == min(room + max(taken, 1) - taken, len(gangs))
    for served in found:
        assert all(held_by[served] <= share for name, share in held_by.items() if name not in found)


# --- shares of queues ------------------------------------------------------------------------------------------------


@given(some.lists(some.tuples(some.integers(1, 4), some.integers(0, 8)), min_size=1, max_size=4), some.integers(1, 16))
@settings(deadline=None, max_examples=30)
def test_queues_of_single_pods_end_up_with_what_water_filling_gives_them(listed: list[tuple[int, int]], cpu: int) -> None:
    queues = [queue(f"q{index}", weight=weight) for index, (weight, _) in enumerate(listed)]
    gangs = [
        gang(f"q{index}-{number}", queue=f"q{index}") for index, (_, wants) in enumerate(listed) for number in range(wants)
    ]
    found = started(decide(nodes(cpu), *gangs, queues=queues))
    deserved = fill(
        vector(cpu=cpu), [Claim(f"q{index}", weight, vector(cpu=wants)) for index, (weight, wants) in enumerate(listed)]
    )
    for index in range(len(listed)):
        mine = sum(name.startswith(f"q{index}-") for name in found)
        assert mine == deserved[f"q{index}"].get("cpu") // 1000


# --- two schedulers --------------------------------------------------------------------------------------------------


BY = without("backfill")
"""Nobody keeps nodes: who has room starts."""


class Scheduler:
    """One of two: sees what it was told so far, and what itself has bound."""

    def __init__(self, name: str, sizes: list[int]) -> None:
        self.name = name
        self.inventory = Inventory()
        for index, cpu in enumerate(sizes):
            self.inventory.node_changed(Change(("", f"n{index}"), None, node(f"n{index}", cpu=cpu)))
        self.gangs = Gangs(self.inventory, scheduler=name)
        self.news: deque[Change[PodView]] = deque()
        self.groups: dict[tuple[str, str], GroupView] = {}

    def add(self, group: GroupView) -> None:
        key = (group.namespace, group.name)
        self.groups[key] = group
        self.gangs.group_changed(Change(key, None, group))

    def read(self, count: int | None = None) -> None:
        """Learn the next news."""
        for _ in range(len(self.news) if count is None else min(count, len(self.news))):
            change = self.news.popleft()
            self.inventory.pod_changed(change)
            self.gangs.pod_changed(change)

    def round(self) -> list[tuple[PodView, str]]:
        snapshot = self.gangs.freeze(
            groups=self.groups.get,
            pending={},
            priority=lambda name: 0,
            queues={"default": queue("default")},
            held_back=lambda pod: False,
        )
        found = plan(snapshot, configuration=BY)
        for each in found.bindings:
            self.inventory.assume(each.pod, node=each.node)
        return [(each.pod, each.node) for each in found.bindings]


class Cluster:
    """The API server and kubelets that refuse what does not fit; a refused pod fails and is made again."""

    def __init__(self, sizes: list[int]) -> None:
        self.sizes = {f"n{index}": cpu * 1000 for index, cpu in enumerate(sizes)}
        self.schedulers = [Scheduler(name, sizes) for name in ("volcano", "other")]
        self.pods: dict[str, PodView] = {}
        self.refused = 0

    def _tell(self, old: PodView | None, new: PodView) -> None:
        self.pods[new.uid] = new
        for each in self.schedulers:
            each.news.append(Change((new.namespace, new.name), old, new))

    def submit(self, by: int, name: str, *, pods: int, cpu: int) -> None:
        scheduler = self.schedulers[by]
        scheduler.add(dataclasses.replace(test_room.group(name, pods), admitted=True))
        for index in range(pods):
            self._make(test_room.pod(f"{name}-{index}", shape(cpu), group=name), scheduler=scheduler.name)

    def _make(self, pod: PodView, *, scheduler: str) -> None:
        self._tell(None, dataclasses.replace(pod, scheduler=scheduler, node="", phase="Pending"))

    def used(self, name: str) -> int:
        return sum(pod.shape.requests.get("cpu") for pod in self.pods.values() if pod.node == name and not pod.ended)

    def act(self, by: int) -> None:
        """A round, and its bindings reach the kubelets."""
        for pod, where in self.schedulers[by].round():
            old = self.pods[pod.uid]
            fits = self.used(where) + pod.shape.requests.get("cpu") <= self.sizes[where]
            self._tell(old, dataclasses.replace(old, node=where, phase="Running" if fits else "Failed"))
            if not fits:
                self.refused += 1
                again = f"{pod.name}-again"
                self._make(dataclasses.replace(old, name=again, uid=f"uid-{again}"), scheduler=old.scheduler)
            assert self.used(where) <= self.sizes[where]

    def settle(self) -> None:
        """Everybody reads everything and has rounds until nothing changes."""
        for _ in range(4):
            for by, each in enumerate(self.schedulers):
                each.read()
                self.act(by)
                for other in self.schedulers:
                    other.read()


work = some.lists(some.tuples(some.integers(0, 1), some.integers(1, 3), some.integers(1, 4)), min_size=1, max_size=6)
sizes = some.lists(some.integers(1, 8), min_size=1, max_size=4)


@given(sizes, work)
@settings(deadline=None, max_examples=25)
def test_two_schedulers_that_know_of_each_others_pods_never_overdraw_a_node(
    cpus: list[int], listed: list[tuple[int, int, int]]
) -> None:
    cluster = Cluster(cpus)
    for number, (by, pods, cpu) in enumerate(listed):
        cluster.submit(by, f"g{number}", pods=pods, cpu=cpu)
        for each in cluster.schedulers:
            each.read()
        cluster.act(by)
        for each in cluster.schedulers:
            each.read()
    cluster.settle()
    assert cluster.refused == 0


@given(sizes, work, some.lists(some.tuples(some.integers(0, 1), some.integers(0, 4)), max_size=12))
@settings(deadline=None, max_examples=30)
def test_two_schedulers_that_hear_late_of_each_other_end_with_true_books_and_nothing_left_undone(
    cpus: list[int], listed: list[tuple[int, int, int]], steps: list[tuple[int, int]]
) -> None:
    cluster = Cluster(cpus)
    for number, (by, pods, cpu) in enumerate(listed):
        cluster.submit(by, f"g{number}", pods=pods, cpu=cpu)
    for by, heard in steps:
        cluster.schedulers[by].read(heard)
        cluster.act(by)
    cluster.settle()
    for each in cluster.schedulers:
        room = each.inventory.room
        for row, name in enumerate(room.layout.names):
            assert room.free[row, room.layout.columns["cpu"]] == cluster.sizes[name] - cluster.used(name)
    before = cluster.refused
    cluster.settle()
    assert cluster.refused == before
    waiting = [pod for pod in cluster.pods.values() if not pod.node and not pod.ended]
    for pod in waiting:
        mates = [each for each in waiting if each.group == pod.group]
        assert not _fits([each.shape.requests.get("cpu") for each in mates], cluster), "its whole gang has room"


def _fits(cpus: list[int], cluster: Cluster) -> bool:
    """Whether equal pods fit beside what runs."""
    return sum((cluster.sizes[name] - cluster.used(name)) // cpus[0] for name in cluster.sizes) >= len(cpus)
