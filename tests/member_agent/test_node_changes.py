"""Laws of nodes that change: the room with one row changed is the room built anew, whatever happened before."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as some

from apis.vectors import ResourceVector
from machinery.informer import Change
from member_agent.inventory import Inventory
from member_agent.scheduling.planner import plan
from member_agent.scheduling.snapshot import Snapshot
from member_agent.views import NodeView
from policies.shapes import Taint, Toleration
from tests.member_agent.scheduling.build import queue
from tests.member_agent.test_room import inventory, node, pod, shape, waiting

NOT_READY = Taint("node.kubernetes.io/not-ready", "", "NoSchedule")
RATHER_NOT = Taint("busy", "", "PreferNoSchedule")
SHAPES = [shape(1), shape(1, zone="a"), dataclasses.replace(shape(2), tolerations=(Toleration(NOT_READY.key, "Exists"),))]


def changed(one: NodeView, what: str) -> NodeView:
    match what:
        case "ready":
            return dataclasses.replace(one, ready=not one.ready)
        case "cordoned":
            return dataclasses.replace(one, cordoned=not one.cordoned)
        case "tainted":
            return dataclasses.replace(one, taints=() if one.taints else (NOT_READY,))
        case "disliked":
            return dataclasses.replace(one, taints=() if one.taints else (RATHER_NOT,))
        case "moved":
            zone = "b" if one.labels["zone"] == "a" else "a"
            return dataclasses.replace(one, labels={**one.labels, "zone": zone})
        case "resized":
            return dataclasses.replace(one, allocatable=one.allocatable + ResourceVector({"cpu": 1000}))
        case "given a device":
            return dataclasses.replace(one, allocatable=one.allocatable + ResourceVector({"example.com/device": 1000}))
        case _:
            return dataclasses.replace(one, images=((what, 1000),))


def snapshot(found: Inventory) -> Snapshot:
    gangs = [
        waiting(f"g{at}", [pod(f"g{at}-{index}", each, group=f"g{at}") for index in range(3)], minimum=2)
        for at, each in enumerate(SHAPES)
    ]
    return Snapshot(found.room.copy(), tuple(gangs), (), (), {"default": queue("default")})


whats = ["ready", "cordoned", "tainted", "disliked", "moved", "resized", "given a device", "image"]


@given(some.lists(some.tuples(some.integers(0, 3), some.sampled_from(whats), some.booleans()), max_size=8))
@settings(deadline=None, max_examples=40)
def test_a_room_in_which_nodes_changed_is_the_room_built_anew(happened: list[tuple[int, str, bool]]) -> None:
    nodes = [node(f"n{at}", cpu=4, zone="ab"[at % 2]) for at in range(4)]
    found = inventory(nodes)
    plan(snapshot(found))  # whatever is kept is kept of the nodes as they were
    pods = []
    for number, (at, what, busy) in enumerate(happened):
        after = changed(nodes[at], what)
        found.node_changed(Change(("", after.name), nodes[at], after))
        nodes[at] = after
        if busy:
            pods.append(pod(f"p{number}", shape(1), on=after.name))
            found.pod_changed(Change(("ns", pods[-1].name), None, pods[-1]))
        fresh = inventory(nodes, pods)
        mine, theirs = found.room, fresh.room
        assert set(mine.layout.classes) == set(theirs.layout.classes)
        assert len(mine.layout.classes) == len(set(mine.layout.classes))
        kinds = [[room.layout.classes[index] for index in room.layout.class_of.tolist()] for room in (mine, theirs)]
        assert kinds[0] == kinds[1]
        for name, column in theirs.layout.columns.items():
            assert np.array_equal(mine.free[:, mine.layout.columns[name]], theirs.free[:, column])
            assert np.array_equal(mine.allocatable[:, mine.layout.columns[name]], theirs.allocatable[:, column])
        assert (mine.layout.cordoned, mine.layout.images) == (theirs.layout.cordoned, theirs.layout.images)
        assert plan(snapshot(found)) == plan(snapshot(fresh))


def test_a_node_that_becomes_unready_leaves_the_tables_of_all_others_as_they_are() -> None:
    nodes = [node(f"n{at}", cpu=4) for at in range(3)]
    found = inventory(nodes)
    before = found.room
    copy = before.copy()
    found.node_changed(Change(("", "n1"), nodes[1], dataclasses.replace(nodes[1], ready=False, taints=(NOT_READY,))))
    assert found.room.free is before.free, "not built anew"
    assert found.room is not before, "who built on the old one must notice"
    assert [found.room.layout.usable.tolist(), copy.layout.usable.tolist()] == [[True, False, True], [True, True, True]]
