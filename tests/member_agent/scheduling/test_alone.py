"""Gangs of one pod are placed on a short way: it leads where the long one does."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as some

from member_agent.scheduling.configuration import Configuration
from member_agent.scheduling.decisions import Plan
from member_agent.scheduling.planner import plan
from member_agent.views import NodeView
from tests.member_agent.scheduling.build import USUAL, Made, configuration, frozen, gang, queue
from tests.member_agent.test_room import node, shape

QUEUES = [queue("default"), queue("small", capability=3), queue("line", weight=2, fifo=True), queue("shut", state="Closed")]
CONFIGURATIONS = [
    USUAL,
    configuration("gang", "predicates", "binpack", "capacity"),
    configuration("priority", "predicates", "{name: drf, enableHierarchy: true}", actions="allocate"),
]

singles = some.lists(
    some.tuples(some.integers(1, 4), some.sampled_from(["default", "small", "line", "shut", "gone"]), some.integers(0, 5)),
    min_size=1,
    max_size=12,
)


def the_long_way(made: Made) -> Made:
    """The same gang, which also names the minimum of its only task."""
    return Made(dataclasses.replace(made.group, min_task_member=(("work", 1),)), made.pods, made.priority)


def described(asked: Sequence[tuple[int, str, int]]) -> list[Made]:
    """Every sixth was let in by the hub, every fourth is a gang of three beside the single ones."""
    found = []
    for index, (cpu, of, kind) in enumerate(asked):
        of_zone = shape(cpu, zone="a") if kind == 1 else shape(cpu)
        made = gang(f"g{index:02}", pods=3 if kind == 2 else 1, shape=of_zone, queue=of, hub=kind == 3, priority=kind % 2)
        if kind == 4:
            pods = tuple(dataclasses.replace(pod, nominated="n0") for pod in made.pods)
            made = Made(made.group, pods, made.priority)
        found.append(made)
    return found


def decided(machines: Sequence[NodeView], gangs: Sequence[Made], by: Configuration) -> Plan:
    return plan(frozen(machines, gangs, queues=QUEUES), configuration=by)


@given(some.lists(some.integers(1, 8), min_size=1, max_size=6), singles, some.sampled_from(CONFIGURATIONS))
@settings(deadline=None, max_examples=40)
def test_a_gang_of_one_pod_gets_what_the_search_for_any_gang_gives_it(
    sizes: list[int], asked: list[tuple[int, str, int]], by: Configuration
) -> None:
    machines = [node(f"n{index}", cpu=cpu, zone="ab"[index % 2]) for index, cpu in enumerate(sizes)]
    gangs = described(asked)
    short, long = decided(machines, gangs, by), decided(machines, [the_long_way(each) for each in gangs], by)
    assert [(each.pod.uid, each.node) for each in short.bindings] == [(each.pod.uid, each.node) for each in long.bindings]
    assert short.waiting == long.waiting
    assert short.admitted == long.admitted
