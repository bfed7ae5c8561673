"""The benchmark of pods that keep apart and spread: its validator finds what is wrong."""

from __future__ import annotations

import dataclasses

from benchmarks.scheduler_core import make_world
from benchmarks.scheduler_neighbours import add_crews, measure, objections, seat_crowds, seated_apps
from member_agent.scheduling.planner import plan


def test_the_validator_finds_every_kind_of_fault() -> None:
    world = make_world(nodes=60, seed=2)
    seat_crowds(world)
    add_crews(world, gangs=3, size=8, apps=0)
    seated = seated_apps(world)
    found = plan(world.freeze())
    assert len(found.bindings) == 24
    assert objections(world, found, seated=seated) == []
    crowded = tuple(dataclasses.replace(each, node=found.bindings[0].node) for each in found.bindings)
    said = " ".join(objections(world, dataclasses.replace(found, bindings=crowded), seated=seated))
    assert "is not alone on" in said
    assert "is uneven" in said


def test_pods_that_are_there_are_objected_to() -> None:
    world = make_world(nodes=60, seed=2)
    seat_crowds(world)
    add_crews(world, gangs=20, size=1, apps=20)
    seated = seated_apps(world)
    found = plan(world.freeze())
    assert objections(world, found, seated=seated) == []
    taken = {app: next(iter(nodes)) for app, nodes in seated.items()}
    first = next(each for each in found.bindings if dict(each.pod.labels)["app"] in taken)
    moved = dataclasses.replace(first, node=taken[dict(first.pod.labels)["app"]])
    assert objections(world, dataclasses.replace(found, bindings=(moved,)), seated=seated) == [
        f"{first.pod.name} is not alone on {moved.node}"
    ]


def test_every_case_is_measured() -> None:
    rows = measure(nodes=[60], gangs=3, size=4, singles=5, seed=1)
    assert [row.unit for row in rows] == ["placements/s"] * 2
    assert all(row.ours > 0 for row in rows)
