"""Room held for a part of a gang over clusters: found, kept from everybody else, given to the gang when it comes."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from member_agent.inventory import Held
from member_agent.scheduling.decisions import Plan
from member_agent.scheduling.holds import HOLD, HoldEvent, HoldPhase, Preparing, entries, phase_of
from member_agent.scheduling.planner import plan
from member_agent.scheduling.snapshot import Gangs, Snapshot
from member_agent.views import HeldFor, HoldRecord, NodeView, PodView, held_for
from policies.neighbours import Neighbours
from policies.shapes import Gang, Task
from tests.member_agent.scheduling.around import apart, beside, crew, machine
from tests.member_agent.scheduling.build import Made, code, frozen, gang, nodes, places, queue, started, why
from tests.member_agent.test_room import group, shape

WISH = dataclasses.replace(group("part", 4), uid="part-uid", owner="job-uid", admitted=True, hold_wanted=3)


def tasks(*counts: tuple[str, int, int]) -> Gang:
    """Name, replicas and cpu of each task; all of them are the minimum."""
    made = tuple(Task(name, count, count, shape(cpu)) for name, count, cpu in counts)
    return Gang(made, sum(count for _, count, _ in counts))


def preparing(of: Gang) -> Preparing:
    return Preparing(("ns", "part"), WISH, of, 3, 0)


def decide(machines: list[NodeView], *gangs: Made, wants: tuple[Preparing, ...] = (), **more: object) -> Plan:
    snapshot: Snapshot = dataclasses.replace(frozen(machines, gangs), preparing=wants, **more)  # type: ignore[arg-type]
    return plan(snapshot)


def test_room_for_the_minimum_is_found_whole_and_told_by_task_and_node() -> None:
    found = decide(nodes(4, 4), wants=(preparing(tasks(("master", 1, 4), ("worker", 2, 2))),))
    assert found.bindings == ()
    assert [(hold.key, hold.n) for hold in found.prepared] == [(("ns", "part"), 3)]
    assert sorted(found.prepared[0].places) == [("master", "n0", 1), ("worker", "n1", 2)]


def test_two_tasks_of_one_shape_are_told_apart() -> None:
    found = decide(nodes(4, 4), wants=(preparing(tasks(("a", 3, 1), ("b", 3, 1))),))
    held: dict[str, int] = {}
    for task, _, count in found.prepared[0].places:
        held[task] = held.get(task, 0) + count
    assert held == {"a": 3, "b": 3}


def test_a_part_that_finds_no_room_is_told_why_with_numbers() -> None:
    found = decide(nodes(2, 1), wants=(preparing(tasks(("worker", 4, 1))),))
    assert found.prepared == ()
    assert code(found, "part") == "NotEnoughResources"
    assert why(found, "part").startswith("nothing is held for the gang yet; room for 3 of 4 pods (cpu 1, ")


def test_two_parts_do_not_get_the_same_room() -> None:
    wants = preparing(tasks(("worker", 4, 1)))
    other = dataclasses.replace(wants, key=("ns", "other"), group=dataclasses.replace(WISH, name="other"))
    found = decide(nodes(4), wants=(wants, other))
    assert [hold.key for hold in found.prepared] == [("ns", "part")]
    assert code(found, "other") == "NotEnoughResources"


# --- pods around -----------------------------------------------------------------------------------------------------


def drafted(of: Gang, **asks: Neighbours | None) -> Preparing:
    """With drafts: pods of each task have its name as label app, and ask that of others."""
    made = [crew(name, asked).pods[0] for name, asked in asks.items()]
    return dataclasses.replace(preparing(of), drafts=tuple(dataclasses.replace(pod, task=pod.group) for pod in made))


def prepare(machines: list[NodeView], *gangs: Made, wants: Preparing) -> Plan:
    kept: list[Gangs] = []
    frozen(machines, gangs, told=kept.append)
    room = kept[0].freeze(
        groups={(each.group.namespace, each.group.name): each.group for each in gangs}.get,
        pending={},
        priority=lambda name: 0,
        queues={"default": queue("default")},
        held_back=lambda pod: False,
        preparing=(wants,),
    )
    return plan(room)


def held_on(found: Plan) -> dict[str, list[str]]:
    """Nodes by task."""
    places: dict[str, list[str]] = {}
    for task, node, count in found.prepared[0].places if found.prepared else ():
        places.setdefault(task, []).extend([node] * count)
    return {task: sorted(listed) for task, listed in places.items()}


def test_pods_that_keep_apart_have_room_held_apart() -> None:
    wants = drafted(tasks(("worker", 2, 1)), worker=apart("worker"))
    assert held_on(prepare(nodes(4, 4), wants=wants)) == {"worker": ["n0", "n1"]}
    found = prepare(nodes(4), wants=wants)
    assert found.prepared == ()
    assert "one per node" in why(found, "part")


def test_nothing_is_held_where_pods_around_are_in_the_way() -> None:
    noisy = crew("noisy", on=["n0"], phase="Running")
    jealous = crew("jealous", apart("worker"), on=["n1"], phase="Running")
    wants = drafted(tasks(("worker", 1, 1)), worker=apart("noisy"))
    assert held_on(prepare(nodes(4, 4, 4), noisy, jealous, wants=wants)) == {"worker": ["n2"]}


def test_tasks_that_sit_beside_another_one_are_told_apart_whatever_comes_first() -> None:
    machines = [machine("a0", cpu=2, zone="a"), machine("b0", cpu=2, zone="b"), machine("b1", cpu=2, zone="b")]
    wants = drafted(tasks(("helper", 2, 1), ("master", 2, 1)), helper=beside("master"), master=None)
    found = held_on(prepare(machines, gang("fill", cpu=2, on=["a0"], phase="Running"), wants=wants))
    assert {task: len(listed) for task, listed in found.items()} == {"helper": 2, "master": 2}
    assert {node[0] for listed in found.values() for node in listed} == {"b"}


def test_what_is_held_keeps_others_away_and_not_its_own_gang() -> None:
    """Room is held on n1 for a pod that keeps apart from its kind: a stranger that minds it goes elsewhere, it goes there."""
    made = crew("part", apart("part"), hub=True)
    berth = Held("n1", made.pods[0].shape, "job-uid", "", ("ns", "part"), labels=made.pods[0].labels)
    shy = crew("shy", apart("part"), created="2025-01-01T00:00:00Z")

    def told(kept: Gangs) -> None:
        kept.neighbourhood.took("hold", berth)

    for newcomers, expected in (([shy], {"n0": 1}), ([made], {"n1": 1})):
        snapshot = frozen(nodes(1, 4), newcomers, told=told)
        assert snapshot.around.members, "what is held is counted"
        kept = dataclasses.replace(berth, shape=snapshot.counted_as(made.pods[0]))
        assert places(plan(dataclasses.replace(snapshot, berths={("ns", "part"): [kept]}))) == expected


# --- coming for it ---------------------------------------------------------------------------------------------------


def coming(machines: list[NodeView], made: Made, *, held: dict[str, int], beside: tuple[Made, ...] = ()) -> Plan:
    """The gang comes with its pods; so many pods of it have room held on each node. The snapshot's room is without that."""
    snapshot = frozen(machines, [made, *beside])
    names = snapshot.room.layout.names
    where = [node for node, count in held.items() for _ in range(count)]
    berths = [Held(node, shape(1), "job-uid", "", ("ns", made.group.name)) for node in where]
    for each in berths:
        if each.node not in names:
            continue
        row = names.index(each.node)
        for name, amount in each.shape.requests.items():
            snapshot.room.free[row, snapshot.room.layout.columns[name]] -= amount
    return plan(dataclasses.replace(snapshot, berths={("ns", made.group.name): berths}))


def test_released_pods_go_onto_the_nodes_that_are_held_for_them() -> None:
    """Left alone, the gang would be packed onto the first node that holds it."""
    made = gang("part", pods=4, hub=True)
    assert places(coming(nodes(4, 4, 4), made, held={"n1": 2, "n2": 2})) == {"n1": 2, "n2": 2}


def test_nobody_else_gets_room_that_is_held() -> None:
    made = gang("part", pods=2, hub=True, phase="Pending")
    made = dataclasses.replace(made, pods=())
    other = gang("other", pods=1, created="2025-01-01T00:00:00Z")
    assert started(coming(nodes(2), made, held={"n0": 2}, beside=(other,))) == {}


def test_a_gang_whose_nodes_are_lost_goes_elsewhere() -> None:
    made = gang("part", pods=4, hub=True)
    assert started(coming(nodes(4, 4), made, held={"n0": 2, "lost": 2})) == {"part": 4}


def test_a_gang_that_does_not_fit_leaves_what_is_held_for_it_held() -> None:
    """Two of its four pods have grown since: nothing is bound, and the next gang gets none of the room."""
    made = gang("part", pods=4, hub=True, shape=shape(3))
    other = gang("other", pods=3, created="2026-01-02T00:00:00Z")
    assert started(coming(nodes(4), made, held={"n0": 4}, beside=(other,))) == {}


# --- what is left of a hold ------------------------------------------------------------------------------------------


def test_each_pod_that_gets_a_node_ends_the_entry_on_that_node_first() -> None:
    record = HoldRecord(3, held_for([("worker", "a", 2), ("worker", "b", 1)], amounts={}))
    of = tasks(("worker", 3, 1))
    left = entries(WISH, record, of, pods=[("worker", "b")])
    assert sorted(held.node for held in left.values()) == ["a", "a"]
    elsewhere = entries(WISH, record, of, pods=[("worker", "c")])
    assert len(elsewhere) == 2


@given(
    some.lists(some.tuples(some.sampled_from("xy"), some.sampled_from("abc"), some.integers(1, 3)), max_size=5),
    some.lists(some.tuples(some.sampled_from("xyz"), some.sampled_from(["a", "b", "c", "d", ""])), max_size=8),
)
@settings(deadline=None, max_examples=60)
def test_as_much_is_held_as_pods_are_missing(held: list[tuple[str, str, int]], pods: list[tuple[str, str]]) -> None:
    record = HoldRecord(3, held_for(held, amounts={}))
    left = entries(WISH, record, tasks(("x", 20, 1), ("y", 20, 1)), pods=pods)
    for task in "xy":
        wanted = sum(count for name, _, count in held if name == task)
        there = sum(name == task for name, _ in pods)
        assert sum(entry.task == task for entry in left.values()) == max(wanted - there, 0)


# --- the table -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "record", "phase"),
    [
        (0, None, HoldPhase.NONE),
        (3, None, HoldPhase.WANTED),
        (3, HoldRecord(2), HoldPhase.WANTED),
        (3, HoldRecord(3), HoldPhase.HELD),
        (3, HoldRecord(3, dropped="the hub was away"), HoldPhase.DROPPED),
        (0, HoldRecord(3), HoldPhase.RELEASED),
        (0, HoldRecord(3, dropped="the hub was away"), HoldPhase.DROPPED),
    ],
)
def test_where_a_hold_stands_is_read_off_its_group(wanted: int, record: HoldRecord | None, phase: HoldPhase) -> None:
    assert phase_of(dataclasses.replace(WISH, hold_wanted=wanted, hold=record)) is phase


def test_what_was_given_up_is_never_released_and_what_was_released_is_never_given_up() -> None:
    assert not HOLD.knows(HoldPhase.DROPPED, HoldEvent.RELEASED)
    assert not HOLD.knows(HoldPhase.RELEASED, HoldEvent.ABANDONED)


def test_a_hold_on_a_thousand_equal_nodes_is_told_in_few_bytes() -> None:
    record = HoldRecord(3, held_for([("worker", f"node-{n}", 8) for n in range(1000)], amounts={"worker": {"cpu": "1"}}))
    assert record.held == (HeldFor("worker", 8, tuple(f"node-{n}" for n in range(1000)), {"cpu": "1"}),)
    assert (record.pods, record.nodes) == (8000, 1000)
    assert len(msgspec.json.encode(record)) < 16_000


# --- nodes that another scheduler nominated --------------------------------------------------------------------------


def nominee(*, cpu: int, priority: int) -> PodView:
    made = gang("foreign", cpu=cpu, priority=priority).pods[0]
    return dataclasses.replace(made, group="", scheduler="default-scheduler", nominated="n0")


@pytest.mark.parametrize(("priority", "starts"), [(0, False), (5, False), (6, True)])
def test_a_nominated_node_keeps_room_against_gangs_of_equal_or_lower_priority(priority: int, starts: bool) -> None:
    foreign = nominee(cpu=2, priority=5)
    found = decide(nodes(2), gang("ours", cpu=2, priority=priority), nominated=(foreign,))
    assert bool(started(found)) is starts


def test_a_gang_goes_where_its_pods_are_nominated_if_they_fit() -> None:
    made = gang("ours", pods=2)
    fits = dataclasses.replace(made, pods=tuple(dataclasses.replace(pod, nominated="n2") for pod in made.pods))
    assert places(decide(nodes(4, 4, 4), fits)) == {"n2": 2}
    small = decide(nodes(4, 4, 1), fits)
    assert started(small) == {"ours": 2}
