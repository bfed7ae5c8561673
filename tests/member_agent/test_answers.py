"""Laws of answers that are kept from session to session: nobody can tell them from answers found anew."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as some

from machinery.informer import Change
from member_agent.answers import KEPT_CELLS, Kept, Log
from member_agent.inventory import Inventory
from member_agent.room import UNBOUNDED, Amounts, Columns, Layout, Mask, Room, Rows, Scores
from member_agent.scheduling.configuration import Configuration
from member_agent.scheduling.decisions import Plan
from member_agent.scheduling.planner import plan
from member_agent.scheduling.snapshot import Snapshot
from policies.selectors import Requirement
from policies.shapes import PodShape, Taint, Toleration
from tests.member_agent.scheduling.build import queue, without
from tests.member_agent.test_room import inventory, node, pod, shape, waiting

SHAPES = [shape(1), shape(2, memory=3), shape(1, zone="a"), dataclasses.replace(shape(1), one_per_node=True)]


def snapshot(found: Inventory, described: list[tuple[int, int, int]], *, round: int, kept: bool) -> Snapshot:
    """Gangs of (shape, pods, minimum); without `kept` on a room that knows nothing."""
    gangs = []
    for index, (which, pods, least) in enumerate(described):
        name = f"r{round}-{index}"
        listed = [pod(f"{name}-{at}", SHAPES[which], group=name) for at in range(pods)]
        gangs.append(waiting(name, listed, minimum=min(least, pods)))
    room = found.room.copy()
    if not kept:
        room.kept = None
    return Snapshot(room, tuple(gangs), (), (), {"default": queue("default")})


def like(nodes: list[int]) -> Inventory:
    """Nodes of two zones; every third would rather not be taken, and has an image."""
    made = []
    for index, cpu in enumerate(nodes):
        kind = node(f"n{index}", cpu=cpu, memory=12 - cpu, zone="ab"[index % 2])
        if index % 3 == 0:
            kind = dataclasses.replace(kind, taints=(Taint("busy", "", "PreferNoSchedule"),), images=(("app:latest", 1 << 29),))
        made.append(kind)
    return inventory(made)


WISHES = [
    shape(1),
    shape(1, zone="a"),
    dataclasses.replace(shape(1), tolerations=(Toleration("busy", "Exists"),)),
    dataclasses.replace(shape(1), images=("app",)),
    dataclasses.replace(shape(1, zone="b"), images=("app",)),
    dataclasses.replace(shape(1), prefers=(((Requirement("zone", "In", ("a",)),), 3),)),
    dataclasses.replace(shape(1), one_per_node=True),
]
"""They ask for the same, and measure nodes alike where no plugin looks at what tells them apart."""


@given(some.lists(some.integers(2, 9), min_size=2, max_size=8), some.lists(some.integers(0, 6), min_size=1, max_size=12))
@settings(deadline=None, max_examples=60)
def test_shapes_that_are_measured_together_get_the_nodes_that_each_would_get_by_itself(
    sizes: list[int], asked: list[int]
) -> None:
    gangs = [
        waiting(f"g{at:02}", [pod(f"p{at}", WISHES[which], group=f"g{at:02}")], minimum=1) for at, which in enumerate(asked)
    ]
    found = like(sizes)
    alone, together = found.room.copy(), found.room.copy()
    alone.kept = None
    plans = [plan(Snapshot(room, tuple(gangs), (), (), {"default": queue("default")})) for room in (alone, together)]
    assert plans[0] == plans[1]


rounds = some.lists(
    some.lists(some.tuples(some.integers(0, 3), some.integers(1, 4), some.integers(1, 3)), max_size=3), min_size=1, max_size=4
)


@given(some.lists(some.integers(1, 6), min_size=1, max_size=5), rounds, some.sets(some.integers(0, 11)), some.booleans())
@settings(deadline=None, max_examples=60)
def test_a_plan_with_kept_answers_is_the_plan_with_a_fresh_room(
    sizes: list[int], asked: list[list[tuple[int, int, int]]], gone: set[int], binpack: bool
) -> None:
    found = inventory([node(f"n{index}", cpu=cpu, zone="ab"[index % 2]) for index, cpu in enumerate(sizes)])
    by = without("nodeorder") if binpack else without("binpack")
    older: Snapshot | None = None
    bound: list[str] = []
    for number, gangs in enumerate(asked):
        late = snapshot(found, gangs, round=number, kept=True)
        decided = _decide(snapshot(found, gangs, round=number, kept=True), by)
        assert decided == _decide(snapshot(found, gangs, round=number, kept=False), by)
        if older is not None:  # a snapshot of the past still sees the past, also after a newer one was planned on
            again = dataclasses.replace(older, room=older.room.copy())
            again.room.kept = None
            assert _decide(older, by) == _decide(again, by)
        older = late
        for binding in decided.bindings:
            found.assume(binding.pod, node=binding.node)
            bound.append(binding.pod.uid)
        for uid in bound[::2] if number in gone else bound[1::3]:
            found.forget(uid)


def _decide(frozen: Snapshot, by: Configuration) -> Plan:
    return plan(frozen, configuration=by)


class Counting:
    """Fuller nodes first; counts the rows that it was asked about."""

    scores_nodes = True

    def __init__(self) -> None:
        self.asked = 0

    def predicate(self, layout: Layout, shape: PodShape) -> Mask:
        return layout.usable

    def limits(self, columns: Columns, shape: PodShape) -> Amounts:
        return np.full(len(columns.rows), UNBOUNDED, dtype=np.int64)

    def node_order(self, columns: Columns, shape: PodShape) -> Scores:
        self.asked += len(columns.rows)
        return -columns.free[:, 0].astype(np.float64)


def session(found: Inventory, rules: Counting, *, by: str = "a", local: bool = True) -> Room:
    room = found.room.copy(rules=rules)
    room.keep(rules=by, local=lambda shape: local)
    return room


def test_a_later_session_asks_only_about_rows_that_changed_since() -> None:
    found, rules = inventory([node(f"n{index:02}", cpu=8) for index in range(50)]), Counting()
    session(found, rules).place_some(shape(1), 1)
    assert rules.asked == 50
    found.pod_changed(Change(("ns", "p"), None, pod("p", shape(2), on="n07")))
    rules.asked = 0
    session(found, rules).place_some(shape(1), 1)
    assert rules.asked == 1, "n07; the first session ended before its copy changed anything that was looked at again"
    rules.asked = 0
    session(found, rules).place_some(shape(1), 1)
    assert rules.asked == 0


def test_other_rules_and_answers_that_are_not_local_start_anew() -> None:
    found, rules = inventory([node(f"n{index:02}", cpu=8) for index in range(50)]), Counting()
    session(found, rules, by="a").place_some(shape(1), 1)
    session(found, rules, by="b").place_some(shape(1), 1)
    assert rules.asked == 100
    rules.asked = 0
    session(found, rules, by="b", local=False).place_some(shape(1), 1)
    assert rules.asked == 50


def test_shapes_that_differ_only_in_where_they_may_go_are_measured_once() -> None:
    found, rules = inventory([node(f"n{index:02}", cpu=8, zone="ab"[index % 2]) for index in range(50)]), Counting()
    room = found.room.copy(rules=rules)
    room.keep(rules="a", local=lambda shape: True, measured=lambda shape: PodShape(shape.requests))
    room.place_some(shape(1, zone="a"), 1)
    room.place_some(shape(1, zone="b"), 1)
    assert rules.asked == 50 + 1, "the row that changed between the two"


def test_who_reads_an_answer_takes_it_over_and_the_other_copy_still_finds_its_own_room() -> None:
    found, rules = inventory([node("a", cpu=3), node("b", cpu=2)]), Counting()
    first, second = session(found, rules), session(found, rules)
    assert [spot.row for spot in first.place_some(shape(1), 2)] == [1]
    assert [spot.row for spot in second.place_some(shape(1), 1)] == [1], "what the first took is not taken here"
    assert first.known(shape(1))[1].tolist() == [3, 0]
    assert second.known(shape(1))[1].tolist() == [3, 1]


def test_as_many_answers_are_kept_as_memory_was_set_aside_for_and_the_one_not_read_for_longest_goes() -> None:
    kept, log = Kept(KEPT_CELLS // 2), Log()
    room = inventory([node("n", cpu=4)]).room.copy()

    def look(of: PodShape, rows: Rows) -> tuple[Amounts, Scores]:
        return np.ones(len(rows), dtype=np.int64), np.zeros(len(rows))

    answer = room._answer(shape(1))
    for cpu in (1, 2):
        kept.learn(shape(cpu), answer)
    assert kept.read(shape(1), at=0, log=log, look=look) is not None
    kept.learn(shape(3), answer)
    known = [cpu for cpu in (1, 2, 3) if kept.read(shape(cpu), at=0, log=log, look=look) is not None]
    assert known == [1, 3]
