"""Reclaim: queues get back what they deserve from those that borrow (reference/volcano.md 8.5, reclaim)."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from member_agent.scheduling.configuration import Configuration
from policies.evictions import pruned
from tests.member_agent.scheduling.build import Made, code, configuration, decide, gang, nodes, queue, started
from tests.member_agent.scheduling.rounds import Rounds, victims

ACTIONS = "enqueue, allocate, backfill, reclaim, preempt"
FIRST = "[{name: priority}, {name: gang, enablePreemptable: false}, {name: conformance}]"


def by(*shares: str) -> Configuration:
    """As upstream's own tests: who lends is decided although a tier before has the first word."""
    more = ", ".join(each if "{" in each else f"{{name: {each}}}" for each in ("predicates", *shares, "nodeorder"))
    return configuration(actions=ACTIONS, tiers=f"tiers: [{{plugins: {FIRST}}}, {{plugins: [{more}]}}]")


PROPORTION = by("proportion")
CAPACITY = by("capacity")
DEEP = by("{name: capacity, enableHierarchy: true}")
TWO = [queue("q1"), queue("q2")]


def running(name: str, *on: str, queue: str = "q1", minimum: int = 1, **more: object) -> Made:
    return gang(name, pods=len(on), minimum=minimum, on=on, queue=queue, phase="Running", **more)  # type: ignore[arg-type]


def coming(name: str, *, queue: str = "q2", **more: object) -> Made:
    return gang(name, queue=queue, **more)  # type: ignore[arg-type]


def rounds(machines: int, *gangs: Made, **more: object) -> Rounds:
    """One cpu a node."""
    return Rounds(nodes(*[1] * machines), *gangs, **more)  # type: ignore[arg-type]


def test_nothing_is_reclaimed_where_there_is_room() -> None:
    found = decide(nodes(1, 1), running("j1", "n0"), coming("j2"), queues=TWO, by=PROPORTION)
    assert started(found) == {"j2": 1}
    assert not found.evictions


def test_a_newcomer_gets_the_share_of_its_queue_back() -> None:
    """Three tenants' worth: of four pods one queue keeps two, whoever came first."""
    world = rounds(4, running("j1", "n0", "n1", "n2", "n3"), coming("j2", pods=4, minimum=1), queues=TWO, by=PROPORTION)
    first = world.round()
    assert {each.action for each in first.evictions} == {"reclaim"}
    assert "queue q1 made room for j2 of queue q2" in first.evictions[0].reason.sentence
    world.until_quiet()
    assert world.standing() == {"j1": 2, "j2": 2} or world.standing() == {"j1": 3, "j2": 1}
    assert len(world.evictions) <= 2


def test_a_gang_gets_its_minimum_or_nobody_goes() -> None:
    world = rounds(4, running("j1", "n0", "n1", "n2", "n3"), coming("j2", pods=2), queues=TWO, by=PROPORTION)
    world.until_quiet()
    assert world.standing() == {"j1": 2, "j2": 2}
    assert len(world.evictions) == 2
    much = rounds(4, running("j1", "n0", "n1", "n2", "n3"), coming("j2", pods=3), queues=TWO, by=PROPORTION)
    much.until_quiet()
    assert not much.evictions, "a queue of half the cluster is not entitled to three quarters"


def test_a_gang_that_was_not_let_in_reclaims_nothing() -> None:
    found = decide(nodes(1, 1), running("j1", "n0", "n1"), coming("j2", phase="Pending", asks=9), queues=TWO, by=PROPORTION)
    assert not found.evictions


def test_a_queue_that_is_not_there_reclaims_nothing() -> None:
    found = decide(nodes(1, 1), running("j1", "n0", "n1"), coming("j2", queue="q9"), queues=TWO, by=PROPORTION)
    assert not found.evictions


def test_what_a_queue_deserves_is_not_taken_whatever_the_priorities() -> None:
    """A newcomer in a queue that has its share waits, important or not; so does one whose victims have no more than theirs."""
    full = [running("j1", "n0", queue="q1"), running("j2", "n1", queue="q2")]
    for priority in (1, 10_000):
        found = decide(nodes(1, 1), *full, coming("j3", priority=priority), queues=TWO, by=PROPORTION)
        assert not found.evictions or {each.action for each in found.evictions} == {"preempt"}
    three = [queue("q1"), queue("q2"), queue("q3")]
    thirds = [running("j1", "n0"), running("j2", "n1", queue="q2"), running("j3", "n2", queue="q3")]
    assert not decide(nodes(1, 1, 1), *thirds, coming("j4", queue="q3"), queues=three, by=PROPORTION).evictions


@pytest.mark.parametrize("where", ["q3", "q4"])
def test_a_newcomer_of_low_priority_reclaims_nothing_from_queues_within_their_shares(where: str) -> None:
    """Three nodes, three queues with a gang each (8.5, reclaim 5): the newcomer waits, in one of them or in a queue of its own
    whose share is less than a node, and says so."""
    queues = [queue(f"q{number}") for number in range(1, 5)]
    full = [running(f"j{index + 1}", f"n{index}", queue=f"q{index + 1}", priority=10_000) for index in range(3)]
    world = rounds(3, *full, coming("j4", queue=where, priority=10), queues=queues, by=PROPORTION)
    world.until_quiet()
    assert not world.evictions
    assert world.standing() == {"j1": 1, "j2": 1, "j3": 1}
    assert world.gangs["ns", "j4"].group.phase == "Inqueue"
    assert "j4" in {name for _, name in world.plan.waiting}


def test_the_second_gang_of_a_queue_with_its_share_waits() -> None:
    world = rounds(
        3,
        running("j1", "n0"),
        running("j2", "n1", queue="q2"),
        running("j3", "n2", queue="q3"),
        coming("j4", queue="q3"),
        queues=[queue("q1"), queue("q2"), queue("q3")],
        by=PROPORTION,
    )
    world.until_quiet()
    assert not world.evictions
    assert world.gangs["ns", "j4"].group.phase == "Inqueue"


def test_a_newcomer_that_matches_no_node_leaves_everybody_alone() -> None:
    from tests.member_agent.test_room import shape

    picky = coming("j2", shape=shape(1, disk="ssd"))
    assert not decide(nodes(1, 1), running("j1", "n0", "n1"), picky, queues=TWO, by=PROPORTION).evictions


def test_a_request_larger_than_any_node_leaves_everybody_alone() -> None:
    found = decide(nodes(2, 2), running("j1", "n0", "n0", "n1", "n1"), coming("j2", cpu=3), queues=TWO, by=CAPACITY)
    assert not found.evictions


def test_queues_that_are_not_reclaimable_keep_what_they_have() -> None:
    closed = [queue("q1", reclaimable=False), queue("q2")]
    assert not decide(nodes(1, 1), running("j1", "n0", "n1"), coming("j2"), queues=closed, by=PROPORTION).evictions


def test_two_newcomers_get_room_from_two_queues_with_surplus() -> None:
    four = [queue(f"q{number}") for number in range(1, 5)]
    world = rounds(
        4,
        running("j1", "n0", "n1"),
        running("j2", "n2", "n3", queue="q2"),
        coming("j3", queue="q3"),
        coming("j4", queue="q4"),
        queues=four,
        by=PROPORTION,
    )
    world.until_quiet()
    assert world.standing() == {"j1": 1, "j2": 1, "j3": 1, "j4": 1}
    assert len(world.evictions) == 2


def test_capacity_gives_queues_what_they_deserve() -> None:
    """1/1/2/4 of eight, as in 8.5 reclaim 11; the first queue has all of it before the others come."""
    deserved = {"q1": 1, "q2": 1, "q3": 2, "q4": 4}
    queues = [queue(name, deserved=amount) for name, amount in deserved.items()]
    world = rounds(8, running("j1", *[f"n{index}" for index in range(8)]), queues=queues, by=CAPACITY)
    for name, amount in deserved.items():
        if name != "q1":
            world.add(coming(f"j{name[1]}", queue=name, pods=amount))
    world.until_quiet()
    assert world.standing() == {"j1": 1, "j2": 1, "j3": 2, "j4": 4}
    assert len(world.evictions) == 7


def test_capacity_takes_no_queue_below_what_it_deserves_or_is_guaranteed() -> None:
    holder, newcomer = running("j1", "n0", "n1", "n2", "n3"), coming("j2", pods=2)
    kinds: list[dict[str, Any]] = [{"deserved": 3}, {"guarantee": 3, "deserved": 3}, {"guarantee": 3}]
    for kept in kinds:
        queues = [queue("q1", **kept), queue("q2", deserved=2)]
        found = decide(nodes(1, 1, 1, 1), holder, newcomer, queues=queues, by=CAPACITY)
        assert not found.evictions, kept
    queues = [queue("q1", deserved=2), queue("q2", deserved=2)]
    assert len(decide(nodes(1, 1, 1, 1), holder, newcomer, queues=queues, by=CAPACITY).evictions) == 2


def test_a_queue_that_deserves_nothing_takes_nothing_back() -> None:
    queues = [queue("q1"), queue("q2")]
    assert not decide(nodes(1, 1), running("j1", "n0", "n1"), coming("j2"), queues=queues, by=CAPACITY).evictions
    queues = [queue("q1"), queue("q2", deserved=1)]
    assert decide(nodes(1, 1), running("j1", "n0", "n1"), coming("j2"), queues=queues, by=CAPACITY).evictions


def test_a_hierarchy_gives_every_level_what_it_deserves() -> None:
    """q1(q11, q12) and q2, as in 8.5 reclaim 12: q2 gets its half from who is over in q1."""
    queues = [
        queue("q1", deserved=4),
        queue("q11", parent="q1", deserved=2),
        queue("q12", parent="q1", deserved=2),
        queue("q2", deserved=4),
    ]
    world = rounds(
        8,
        running("j11", *[f"n{index}" for index in range(6)], queue="q11"),
        running("j12", "n6", "n7", queue="q12"),
        coming("j2", queue="q2", pods=4),
        queues=queues,
        by=DEEP,
    )
    world.until_quiet()
    assert world.standing() == {"j11": 2, "j12": 2, "j2": 4}


def test_ancestor_reclaim_level_protects_subtrees_within_what_they_deserve() -> None:
    """q11 is over, its parent q1 is not: at level 1 nobody takes from it, at level 0 its neighbours' need counts."""
    queues = [queue("q1", deserved=4), queue("q11", parent="q1", deserved=2), queue("q2", deserved=3)]
    gangs = [running("j11", *[f"n{index}" for index in range(4)], queue="q11"), coming("j2", queue="q2")]
    loose = decide(nodes(1, 1, 1, 1), *gangs, queues=queues, by=DEEP)
    assert len(loose.evictions) == 1
    strict = by("{name: capacity, enableHierarchy: true, arguments: {ancestorReclaimLevel: 1}}")
    assert not decide(nodes(1, 1, 1, 1), *gangs, queues=queues, by=strict).evictions


def test_hub_run_gangs_are_not_reclaimed_and_need_no_entitlement() -> None:
    assert not decide(nodes(1, 1), running("j1", "n0", "n1", hub=True), coming("j2"), queues=TWO, by=PROPORTION).evictions
    queues = [queue("q1", deserved=1), queue("q2")]
    hub = coming("j2", hub=True)
    assert victims(decide(nodes(1, 1), running("j1", "n0", "n1"), hub, queues=queues, by=CAPACITY))
    assert not decide(nodes(1), running("j1", "n0"), hub, queues=queues, by=CAPACITY).evictions, "what q1 deserves stays"


def test_without_a_plugin_that_says_what_queues_deserve_nothing_is_reclaimed() -> None:
    bare = configuration("priority", "gang", "conformance", "predicates", actions=ACTIONS)
    assert not decide(nodes(1, 1), running("j1", "n0", "n1"), coming("j2"), queues=TWO, by=bare).evictions


def test_reclaiming_by_the_annotated_tree() -> None:
    """drf with enableHierarchy: the queue that is behind by the tree takes from the one that stays ahead of it."""
    tree = [
        queue("q1", hierarchy="root/a", hierarchy_weights="1/1"),
        queue("q2", hierarchy="root/b", hierarchy_weights="1/1"),
    ]
    deep = configuration("gang", "{name: drf, enableHierarchy: true}", "predicates", actions=ACTIONS)
    world = rounds(4, running("j1", "n0", "n1", "n2", "n3"), coming("j2", pods=1), queues=tree, by=deep)
    world.until_quiet()
    assert world.standing() == {"j1": 3, "j2": 1}


def test_the_queue_furthest_over_what_it_deserves_is_taken_from_first() -> None:
    three = [queue("q1"), queue("q2"), queue("q3")]
    most = running("most", "n0", "n1", "n2", "n3")
    less = running("less", "n4", "n5", queue="q2")
    for gangs in ((most, less), (less, most)):
        found = decide(nodes(*[1] * 6), *gangs, coming("new", queue="q3"), queues=three, by=PROPORTION)
        assert victims(found)[0].startswith("most"), [each.reason.sentence for each in found.evictions]


def test_who_waits_for_room_that_is_cleared_is_told() -> None:
    found = decide(nodes(1, 1), running("j1", "n0", "n1"), coming("j2"), queues=TWO, by=PROPORTION)
    assert code(found, "j2") == "RoomIsCleared"


@pytest.mark.parametrize("needed", [(), (2,), (0, 3), (0, 1, 2, 3)])
def test_dropping_leaves_exactly_whom_it_takes(needed: tuple[int, ...]) -> None:
    found = pruned(range(4), enough=lambda picked: set(needed) <= set(picked))
    assert found == needed
    assert pruned(range(4), enough=lambda picked: False) is None


def test_a_queue_closed_meanwhile_reclaims_nothing() -> None:
    closed = [queue("q1"), dataclasses.replace(queue("q2"), state="Closed")]
    assert not decide(nodes(1, 1), running("j1", "n0", "n1"), coming("j2"), queues=closed, by=PROPORTION).evictions
