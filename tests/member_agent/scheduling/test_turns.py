"""A long round pauses between gangs: what happens meanwhile changes no decision, and what no longer fits is not carried out."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from machinery.clock import Chance, Ids
from machinery.informer import Change
from member_agent.inventory import Inventory
from member_agent.scheduling.decisions import Plan
from member_agent.scheduling.overtaken import still
from member_agent.scheduling.planner import BUILT_IN, decide, deciding, default
from member_agent.scheduling.session import OpenSession
from member_agent.scheduling.snapshot import Snapshot
from member_agent.scheduling.turns import decide_in_turns
from simulator.loop import SimClock, run_virtual
from tests.member_agent.scheduling.build import Made, frozen, gang, queue, without
from tests.member_agent.test_room import inventory, node, pod, shape, waiting


def opened(found: Inventory, *gangs: Made) -> OpenSession:
    listed = tuple(waiting(each.group.name, list(each.pods), minimum=each.group.min_member) for each in gangs)
    snapshot = Snapshot(found.room.copy(), listed, (), (), {"default": queue("default")})
    return OpenSession(snapshot, configuration=default(), registry=BUILT_IN)


def places(plan: Plan) -> dict[str, str]:
    return {binding.pod.name: binding.node for binding in plan.bindings}


@given(some.lists(some.integers(1, 5), min_size=1, max_size=8), some.lists(some.integers(0, 2), min_size=1, max_size=10))
@settings(deadline=None, max_examples=50)
def test_a_round_that_pauses_decides_what_it_would_decide_at_once(cpus: list[int], meanwhile: list[int]) -> None:
    found = inventory([node("a", cpu=9), node("b", cpu=7)])
    gangs = [gang(f"g{index}", pods=1 + index % 2, cpu=cpu) for index, cpu in enumerate(cpus)]
    at_once = decide(opened(inventory([node("a", cpu=9), node("b", cpu=7)]), *gangs))[0]
    steps = deciding(opened(found, *gangs))
    try:
        for number in range(10_000):
            next(steps)
            what = meanwhile[number % len(meanwhile)]
            if what == 1:  # a dry run of somebody else, on a room of its own
                decide(opened(found, *gangs[::2]))
            if what == 2:
                found.pod_changed(Change(("ns", f"x{number}"), None, pod(f"x{number}", shape(1), on="b")))
    except StopIteration as done:
        assert done.value[0] == at_once
    else:
        pytest.fail("it never ends")


def test_other_rules_that_come_meanwhile_do_not_mix_with_those_of_the_round() -> None:
    found = inventory([node("a", cpu=4), node("b", cpu=8)])
    gangs = [gang("g0", cpu=1), gang("g1", cpu=2)]
    steps = deciding(opened(found, *gangs))
    for _ in range(2):
        next(steps)
    listed = tuple(waiting(each.group.name, list(each.pods), minimum=1) for each in gangs)
    others = Snapshot(found.room.copy(), listed, (), (), {"default": queue("default")})
    fresh = dataclasses.replace(others, room=inventory([node("a", cpu=4), node("b", cpu=8)]).room.copy())
    for _ in steps:
        pass
    by = without("nodeorder")
    kept, anew = (
        decide(OpenSession(each, configuration=by, registry=BUILT_IN), registry=BUILT_IN)[0] for each in (others, fresh)
    )
    assert kept == anew


def test_others_have_their_turn_between_two_gangs() -> None:
    async def story(clock: SimClock, _chance: Chance, _ids: Ids) -> list[str]:
        told: list[str] = []

        async def somebody_else() -> None:
            told.append("somebody else")

        session = opened(inventory([node("a", cpu=9)]), *(gang(f"g{index}") for index in range(5)))
        other = asyncio.ensure_future(somebody_else())
        decided, _, _ = await decide_in_turns(session, registry=BUILT_IN, clock=clock, stretch=0.0)
        told.append(f"{len(decided.bindings)} pods have nodes")
        await other
        return told

    assert run_virtual(story, seed=1) == ["somebody else", "5 pods have nodes"]


# --- what no longer fits ---------------------------------------------------------------------------------------------


def overtaken(found: Inventory, *gangs: Made, by: list[Change[Any]]) -> Plan:
    before = found.room.free.copy()
    session = opened(found, *gangs)
    decided = decide(session)[0]
    for change in by:
        if change.key[0]:
            found.pod_changed(change)
        else:
            found.node_changed(change)
    return still(decided, room=session.room, before=before, now=found.room)


def test_a_gang_goes_whole_when_somebody_filled_one_of_its_nodes_and_the_others_stay() -> None:
    found = inventory([node("a", cpu=4), node("b", cpu=4)])
    wide = gang("wide", pods=2, cpu=4)
    taken = Change(("ns", "foreign"), None, pod("foreign", shape(1), group="", on="b"))
    plan = overtaken(found, wide, by=[taken])
    assert (places(plan), plan.more) == ({}, True), "it is tried again at once"
    assert "wide" not in {key[1] for key in plan.waiting}


def test_a_plan_stays_as_it_is_where_there_is_room_for_both_and_where_somebody_left() -> None:
    leaves = pod("leaves", shape(2), group="", on="a")
    found = inventory([node("a", cpu=6), node("b", cpu=1)], [leaves])
    small = gang("small", cpu=2)
    comes = Change(("ns", "comes"), None, pod("comes", shape(1), group="", on="a"))
    gone = Change(("ns", "leaves"), leaves, None)
    plan = overtaken(found, small, by=[comes, gone])
    assert (places(plan), plan.more) == ({"small-0": "a"}, False)


def test_nothing_is_bound_to_a_node_that_was_cordoned_or_went_meanwhile() -> None:
    for change in (
        Change(("", "b"), None, dataclasses.replace(node("b", cpu=8), cordoned=True)),
        Change(("", "b"), node("b", cpu=8), None),
    ):
        found = inventory([node("a", cpu=1), node("b", cpu=8), node("c", cpu=1)])
        plan = overtaken(found, gang("large", cpu=8), gang("small", cpu=1), by=[change])
        assert list(places(plan)) == ["small-0"]


def test_a_node_that_came_meanwhile_changes_nothing() -> None:
    found = inventory([node("b", cpu=2), node("c", cpu=8)])
    plan = overtaken(found, gang("one", cpu=8), by=[Change(("", "a"), None, node("a", cpu=8))])
    assert places(plan) == {"one-0": "c"}


def test_frozen_snapshots_are_what_rounds_begin_with() -> None:
    made = gang("g", cpu=1)
    session = OpenSession(frozen([node("a", cpu=2)], [made]), configuration=default(), registry=BUILT_IN)
    assert places(decide(session)[0]) == {"g-0": "a"}
