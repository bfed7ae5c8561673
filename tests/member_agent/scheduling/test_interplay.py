"""What plugins, actions and what is kept do to each other: stories in which each alone is right."""

from __future__ import annotations

import dataclasses

from member_agent.scheduling.actions import run
from member_agent.scheduling.actions.allocate import allocate
from member_agent.scheduling.earmarks import Earmark, Place
from member_agent.scheduling.planner import BUILT_IN, plan
from member_agent.scheduling.session import OpenSession
from tests.member_agent.scheduling.build import (
    USUAL,
    Made,
    admitted,
    configuration,
    decide,
    frozen,
    gang,
    nodes,
    queue,
    started,
)
from tests.member_agent.scheduling.rounds import Rounds, victims
from tests.member_agent.scheduling.test_shuffle import REGISTRY, by
from tests.member_agent.test_room import shape

ACTIONS = "enqueue, allocate, backfill, preempt"
BY = configuration("priority", "gang", "conformance", "predicates", "nodeorder", actions=ACTIONS)
LIMITED = configuration("priority", "gang", "predicates", "capacity", actions=ACTIONS)


def test_a_gang_that_was_kept_less_than_it_needs_does_not_start_beyond_its_queue() -> None:
    """A scheduler before this one was killed when one of four pods had been told its node; the queue has room for two."""
    holds = gang("holds", pods=2, on=["n0", "n0"], queue="q", priority=100, phase="Running")
    world = Rounds(
        nodes(4, 4), holds, gang("high", pods=4, queue="q", priority=100), by=LIMITED, queues=[queue("q", capability=4)]
    )
    places = (Place("n0", shape(1), 1),)
    world.earmarks.keep(Earmark(("ns", "high"), "q", places, sure=False), now=world.now)
    world.round()
    assert world.standing() == {"holds": 2}


def test_room_that_is_kept_for_a_resource_that_no_node_has_any_more_is_kept_no_more() -> None:
    """A pod was told a node, the scheduler began anew, and the node's device plugin is not back yet."""
    gpu = dataclasses.replace(shape(1), requests=shape(1).requests + type(shape(1).requests)({"example.com/gpu": 1000}))
    world = Rounds(nodes(2, 2), gang("trains", shape=gpu, priority=5), gang("other"), by=BY)
    world.earmarks.keep(Earmark(("ns", "trains"), "default", (Place("n0", gpu, 1),), sure=False), now=world.now)
    found = world.round()
    assert started(found) == {"other": 1}
    assert ("ns", "trains") in found.ended


def test_tasks_are_tried_within_their_gang_although_no_other_gang_helped() -> None:
    """Two looks in one action: what the first found impossible says nothing about the second."""
    little = gang("little", on=["n0"], priority=1, phase="Running")
    full = gang("full", cpu=3, on=["n1"], priority=200, phase="Running")
    made = gang("mixed", pods=3, minimum=1, cpu=2, on=["n2", "n2"], priority=50, phase="Running")
    worker, other, master = made.pods
    pods = (dataclasses.replace(worker, priority=0), dataclasses.replace(other, priority=0), master)
    by_priority = configuration("priority", "predicates", actions=ACTIONS)
    found = decide(nodes(1, 3, 4), little, full, dataclasses.replace(made, pods=pods), by=by_priority)
    assert len(victims(found)) == 1
    assert victims(found)[0].startswith("mixed")


def test_gangs_whose_pods_differ_in_priority_do_not_evict_each_other_in_turns() -> None:
    """No PriorityClass on the groups: a gang is as important whether it waits or stands."""

    def mixed(name: str, *on: str) -> Made:
        made = gang(name, pods=2, minimum=1, on=on, phase="Running")
        low, high = made.pods
        pods = (
            dataclasses.replace(low, task="a", priority=1),
            dataclasses.replace(high, task="b", priority=50, created="2026-01-02T00:00:00Z"),
        )
        return dataclasses.replace(made, pods=pods)

    world = Rounds(
        nodes(3), mixed("one", "n0", "n0"), mixed("two", "n0"), by=configuration("priority", "predicates", actions=ACTIONS)
    )
    world.until_quiet()
    assert [each.pod.name for each in world.evictions] == ["two-0"], "within its gang, once"


def test_the_priority_of_a_gang_does_not_depend_on_which_pod_was_seen_first() -> None:
    made = gang("mixed", pods=2, minimum=1, on=["n0", "n0"], phase="Running")
    pods = (dataclasses.replace(made.pods[0], priority=1), dataclasses.replace(made.pods[1], priority=50))
    for seen in (pods, pods[::-1]):
        assert not decide(nodes(2), dataclasses.replace(made, pods=seen), gang("middle", priority=20), by=BY).evictions


def test_what_one_pod_leaves_over_of_kept_room_is_kept_no_longer_than_pods_wait() -> None:
    """Both pods start on one node: nothing is kept on the other one for nobody, and nothing was in vain."""
    low = gang("low", pods=2, minimum=1, on=["n0", "n1"], priority=1, phase="Running")
    ends = gang("ends", on=["n0"], priority=100, phase="Running")
    high = gang("high", pods=3, minimum=1, on=["n2"], priority=100, phase="Running")
    world = Rounds(nodes(2, 1, 1), low, ends, high, by=configuration("priority", "predicates", actions=ACTIONS))
    world.round()
    assert len(world.evictions) == 2
    world.pods = {uid: pod for uid, pod in world.pods.items() if pod.group != "ends"}
    world.gangs.pop(("ns", "ends"))
    world.round(seconds=31)
    assert world.standing()["high"] == 3
    assert not world.earmarks.told()
    world.until_quiet()
    assert not world.ended


def test_a_pod_that_cannot_be_moved_is_not_told_again() -> None:
    snapshot = frozen(nodes(4, 4), [gang("g", on=["n0"], phase="Running")])
    (eviction,) = plan(snapshot, configuration=by(), registry=REGISTRY).evictions
    told = dataclasses.replace(snapshot.holders, stuck=frozenset({eviction.pod.uid}))
    assert not plan(dataclasses.replace(snapshot, holders=told), configuration=by(), registry=REGISTRY).evictions


def test_nodes_kept_for_a_gang_are_not_kept_for_its_namesake_of_another_namespace() -> None:
    session = OpenSession(
        frozen(nodes(2, 2), [gang("fill", on=["n0"]), gang("big", pods=4)]), configuration=USUAL, registry=BUILT_IN
    )
    run(allocate, session)
    (big,) = (each for each in session.waiting if each.key == ("ns", "big"))
    assert session.open_to(big) is None
    assert session.open_to(dataclasses.replace(big, key=("other", "big"))) is not None


def test_a_group_that_is_being_deleted_is_not_let_in_and_keeps_nothing() -> None:
    """Whoever holds its deletion up (a finalizer, a deletion in the foreground) holds nobody else up."""
    going = gang("going", cpu=4, phase="Pending", deleting=True)
    assert admitted(decide(nodes(4), going, gang("comes", cpu=4, phase="Pending", created="2026-02-01T00:00:00Z"))) == ["comes"]
    going = dataclasses.replace(gang("going", pods=4, deleting=True), pods=())
    assert admitted(decide(nodes(4), going, gang("comes", cpu=4, phase="Pending"))) == ["comes"]


def test_room_in_a_queue_is_free_when_those_who_made_it_have_gone() -> None:
    """The nodes have room at once; the queue has it only then, of a gang's minimum and of what is above it alike."""
    low = gang("low", pods=4, minimum=1, on=["n0", "n0", "n1", "n1"], priority=10, phase="Running")
    for minimum in (3, 1):
        by_queue = LIMITED if minimum == 3 else configuration("priority", "predicates", "capacity", actions=ACTIONS)
        high = gang("high", pods=3, minimum=minimum, priority=100)
        world = Rounds(nodes(2, 2, 8), low, high, queues=[queue("default", capability=4)], by=by_queue)
        for _ in range(8):
            world.round(seconds=11)
            assert sum(bool(pod.node) for pod in world.pods.values()) <= 4
        world.until_quiet()
        assert world.standing() == {"low": 1, "high": 3}
        assert not world.ended
