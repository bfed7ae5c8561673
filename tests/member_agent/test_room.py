"""Laws of room and of the scheduler's plan."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as some

from apis.vectors import ResourceVector
from machinery.informer import Change
from member_agent.inventory import Inventory
from member_agent.ledger import Ledger
from member_agent.room import Shortage
from member_agent.scheduling.decisions import Plan
from member_agent.scheduling.planner import plan
from member_agent.scheduling.snapshot import Snapshot, Tally, Waiting
from member_agent.views import GroupStatus, GroupView, NodeView, PodView
from policies.shapes import CLAIMS, Gang, PodShape, Taint, Task, Toleration


def node(
    name: str, *, cpu: int, memory: int = 64, ready: bool = True, taints: tuple[Taint, ...] = (), **labels: str
) -> NodeView:
    amounts = ResourceVector({"cpu": cpu * 1000, "memory": memory * 1000, "pods": 110_000})
    return NodeView(
        name=name,
        uid=f"uid-{name}",
        version="1",
        labels={"kubernetes.io/hostname": name, **labels},
        taints=taints,
        cordoned=False,
        ready=ready,
        boot_id="b",
        allocatable=amounts,
    )


def shape(cpu: int, memory: int = 1, **selector: str) -> PodShape:
    return PodShape(
        ResourceVector({"cpu": cpu * 1000, "memory": memory * 1000, "pods": 1000}), node_selector=tuple(selector.items())
    )


def pod(name: str, of: PodShape, *, group: str = "g", task: str = "work", on: str = "", owner: str = "") -> PodView:
    return PodView(
        namespace="ns",
        name=name,
        uid=f"uid-{name}",
        version="1",
        created="",
        owner=owner,
        group=group,
        task=task,
        queue="default",
        run=bool(owner),
        scheduler="volcano",
        node=on,
        priority=0,
        gated=False,
        phase="Pending",
        deleting=False,
        confirmed=False,
        shape=of,
    )


def group(name: str, minimum: int, *, created: str = "1") -> GroupView:
    return GroupView(
        namespace="ns",
        name=name,
        uid=f"uid-{name}",
        version="1",
        created=created,
        owner="",
        deleting=False,
        admitted=True,
        min_member=minimum,
        min_task_member=(),
        queue="default",
        priority_class="",
        min_resources=ResourceVector(),
        status=GroupStatus(),
    )


def inventory(nodes: list[NodeView], pods: list[PodView] = []) -> Inventory:  # noqa: B006  only read
    found = Inventory()
    for each in nodes:
        found.node_changed(Change(("", each.name), None, each))
    for one in pods:
        found.pod_changed(Change((one.namespace, one.name), None, one))
    return found


def waiting(name: str, pods: list[PodView], *, minimum: int, priority: int = 0) -> Waiting:
    return Waiting(("ns", name), group(name, minimum), tuple(pods), Tally(), priority)


def decide(found: Inventory, gangs: list[Waiting]) -> Plan:
    return plan(Snapshot(room=found.room.copy(), waiting=tuple(gangs), candidates=(), expected=(), queues={}))


nodes_strategy = some.lists(some.integers(1, 16), min_size=1, max_size=6)
gangs_strategy = some.lists(
    some.tuples(some.integers(1, 6), some.integers(0, 6), some.integers(1, 6), some.integers(0, 2)), min_size=1, max_size=6
)


def make_gangs(described: list[tuple[int, int, int, int]]) -> list[Waiting]:
    gangs = []
    for index, (minimum, extra, cpu, priority) in enumerate(described):
        name = f"g{index}"
        pods = [pod(f"{name}-{number}", shape(cpu), group=name) for number in range(minimum + extra)]
        gangs.append(waiting(name, pods, minimum=minimum, priority=priority))
    return gangs


@given(nodes_strategy, gangs_strategy)
@settings(deadline=None)
def test_a_plan_never_overdraws_a_node_and_gangs_go_whole_or_not_at_all(
    sizes: list[int], described: list[tuple[int, int, int, int]]
) -> None:
    found = inventory([node(f"n{index}", cpu=cpu) for index, cpu in enumerate(sizes)])
    gangs = make_gangs(described)
    decided = decide(found, gangs)
    used: dict[str, int] = {}
    for binding in decided.bindings:
        used[binding.node] = used.get(binding.node, 0) + binding.pod.shape.requests.get("cpu")
    assert all(used.get(f"n{index}", 0) <= cpu * 1000 for index, cpu in enumerate(sizes))
    bound = [binding.pod.uid for binding in decided.bindings]
    assert len(bound) == len(set(bound))
    for gang in gangs:
        assert gang.group is not None
        count = sum(binding.pod.group == gang.key[1] for binding in decided.bindings)
        assert count == 0 or count >= gang.group.min_member
        assert (count == 0) == (gang.key in decided.waiting)


@given(nodes_strategy, gangs_strategy)
@settings(deadline=None)
def test_the_same_snapshot_gives_the_same_plan_whatever_the_order_of_its_parts(
    sizes: list[int], described: list[tuple[int, int, int, int]]
) -> None:
    nodes = [node(f"n{index}", cpu=cpu) for index, cpu in enumerate(sizes)]
    gangs = make_gangs(described)
    first = decide(inventory(nodes), gangs)
    again = decide(inventory(list(reversed(nodes))), list(reversed(gangs)))
    assert first == again


@given(nodes_strategy, some.lists(some.tuples(some.integers(0, 5), some.integers(1, 4), some.booleans()), max_size=30))
@settings(deadline=None)
def test_room_kept_by_deltas_is_room_counted_anew(sizes: list[int], events: list[tuple[int, int, bool]]) -> None:
    nodes = [node(f"n{index}", cpu=cpu) for index, cpu in enumerate(sizes)]
    kept = inventory(nodes)
    kept.room  # noqa: B018  build it, so that deltas are applied
    there: dict[str, PodView] = {}
    for index, (where, cpu, comes) in enumerate(events):
        if comes:
            one = pod(f"p{index}", shape(cpu), on=f"n{where % len(nodes)}")
            there[one.uid] = one
            kept.pod_changed(Change((one.namespace, one.name), None, one))
        elif there:
            gone = there.pop(min(there))
            kept.pod_changed(Change((gone.namespace, gone.name), gone, None))
    fresh = inventory(nodes, list(there.values()))
    assert np.array_equal(kept.room.free, fresh.room.free)


@given(nodes_strategy, gangs_strategy)
@settings(deadline=None)
def test_accepted_gangs_fit_together_and_releasing_all_gives_everything_back(
    sizes: list[int], described: list[tuple[int, int, int, int]]
) -> None:
    found = inventory([node(f"n{index}", cpu=cpu) for index, cpu in enumerate(sizes)])
    ledger = Ledger(found)
    accepted = []
    for index, (minimum, extra, cpu, _) in enumerate(described):
        gang = Gang((Task("work", minimum + extra, minimum, shape(cpu)),), minimum)
        if not isinstance(ledger.accept(f"w{index}", gang), Shortage):
            accepted.append((index, minimum * cpu))
        assert (ledger.shadow().free >= 0).all()
    assert sum(amount for _, amount in accepted) <= sum(sizes)
    for index, _ in accepted:
        ledger.release(f"w{index}")
    assert np.array_equal(ledger.shadow().free, found.room.free)


# --- examples --------------------------------------------------------------------------------------------------------


def test_taints_selectors_and_readiness_rule_nodes_out_and_the_reason_counts_them() -> None:
    dedicated = Taint("dedicated", "gpu", "NoSchedule")
    nodes = [
        node("a", cpu=8, ready=False),
        node("b", cpu=8, taints=(dedicated,), zone="z1"),
        node("c", cpu=8, zone="z2"),
        node("d", cpu=1, zone="z1"),
    ]
    room = inventory(nodes).room
    wanted = shape(4, zone="z1")
    answer = room.copy().place([(wanted, 1)])
    assert isinstance(answer, Shortage)
    assert answer.sentence == (
        "room for 0 of 1 pods (cpu 4, memory 1): 4 nodes, 1 not ready, "
        "2 ruled out by selector, affinity or taints, 1 with too little cpu (most free: 1)"
    )
    tolerant = dataclasses.replace(wanted, tolerations=(Toleration("dedicated", "Equal", "gpu", "NoSchedule"),))
    placed = room.copy().place([(tolerant, 1)])
    assert not isinstance(placed, Shortage)
    assert room.layout.names[placed[0].row] == "b"


def test_a_host_name_selector_finds_its_node() -> None:
    room = inventory([node("a", cpu=8), node("b", cpu=8)]).room
    wanted = PodShape(ResourceVector({"pods": 1000}), node_selector=(("kubernetes.io/hostname", "b"),))
    placed = room.copy().place([(wanted, 1)])
    assert not isinstance(placed, Shortage)
    assert placed[0].row == 1


def test_what_the_scheduler_cannot_decide_is_said_and_not_guessed() -> None:
    room = inventory([node("a", cpu=8)]).room
    answer = room.place([(PodShape(ResourceVector({"pods": 1000}), unknown=CLAIMS), 1)])
    assert isinstance(answer, Shortage)
    assert "dynamic resource claims are not decided" in answer.sentence


def test_higher_priority_goes_first_and_age_breaks_ties() -> None:
    found = inventory([node("a", cpu=4)])
    low = waiting("low", [pod("low-0", shape(4), group="low")], minimum=1)
    high = waiting("high", [pod("high-0", shape(4), group="high")], minimum=1, priority=10)
    assert [binding.pod.name for binding in decide(found, [low, high]).bindings] == ["high-0"]


def test_pods_that_ask_for_their_own_node_never_share_one() -> None:
    found = inventory([node("a", cpu=8), node("b", cpu=8)])
    lonely = dataclasses.replace(shape(1), one_per_node=True)
    gang = waiting("g", [pod(f"g-{index}", lonely) for index in range(3)], minimum=2)
    bindings = decide(found, [gang]).bindings
    assert sorted(binding.node for binding in bindings) == ["a", "b"]


def test_a_binding_that_failed_gives_its_room_back() -> None:
    found = inventory([node("a", cpu=4)])
    one = pod("p", shape(4))
    found.assume(one, node="a")
    assert found.room.capacity(one.shape).tolist() == [0]
    found.forget(one.uid)
    assert found.room.capacity(one.shape).tolist() == [1]
