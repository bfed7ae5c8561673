"""The benchmark of the scheduler's core: its conditions hold, and its validator finds what is wrong."""

from __future__ import annotations

import dataclasses

from benchmarks.scheduler_core import AFTERWARDS, add_gangs, faults, make_shapes, make_world, measure, one_more
from member_agent.scheduling.planner import plan


def test_the_conditions_of_the_design_hold() -> None:
    world = make_world(nodes=240, seed=1)
    assert len(world.inventory.room.layout.classes) >= 20
    assert len(set(make_shapes())) >= 200
    used = world.inventory.used().get("cpu") / sum(node.allocatable.get("cpu") for node in world.nodes.values())
    assert 0.6 < used < 0.8
    add_gangs(world, gangs=40, size=10)
    ordered = [world.gangs.pods(key) for key in sorted(world.groups)]
    shapes = [{pod.shape for pod in pods.values()} for pods in ordered]
    assert all(one != other for one, other in zip(shapes, shapes[1:], strict=False))


def test_the_validator_finds_every_kind_of_fault() -> None:
    world = make_world(nodes=60, seed=2)
    add_gangs(world, gangs=6, size=4)
    found = plan(world.freeze())
    assert faults(world, found) == []
    first = found.bindings[0]
    assert "bound twice" in faults(world, dataclasses.replace(found, bindings=(*found.bindings, first)))[0]
    assert any("has 3 of 4" in each for each in faults(world, dataclasses.replace(found, bindings=found.bindings[1:])))
    assert any("nobody says why" in each for each in faults(world, dataclasses.replace(found, bindings=(), waiting={})))
    small = min(world.nodes.values(), key=lambda node: (node.allocatable.get("cpu"), node.name))
    crowded = tuple(dataclasses.replace(each, node=small.name) for each in found.bindings * 9)
    said = " ".join(faults(world, dataclasses.replace(found, bindings=crowded)))
    assert f"{small.name} is over in cpu" in said
    assert "may not run on" in said


def test_every_case_is_measured() -> None:
    rows = measure(nodes=[60], gangs=3, size=4, singles=5, changes=10, seed=1)
    rates, seconds = "placements/s", "s"
    assert [row.unit for row in rows] == [rates, rates, *[seconds] * 5, rates, rates, seconds]
    assert all(row.ours > 0 for row in rows)


def test_a_gang_that_comes_after_others_started_is_placed_and_no_other_is_touched() -> None:
    world = make_world(nodes=60, seed=2)
    add_gangs(world, gangs=4, size=4)
    assert one_more(world, gangs=4, size=4) >= 0
    held = world.inventory.held()
    assert all(pod.uid in held for key in world.groups for pod in world.gangs.pods(key).values())
    assert len(world.groups) == 4 + AFTERWARDS
