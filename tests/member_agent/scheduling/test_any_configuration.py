"""Whatever plugins are configured, with whatever flags: no node is overdrawn, gangs are whole, and equal questions get equal
answers."""

from __future__ import annotations

import dataclasses
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as some

from member_agent.aspects import SeenShape
from member_agent.scheduling.configuration import Configuration
from member_agent.scheduling.decisions import Plan
from member_agent.scheduling.planner import plan
from member_agent.scheduling.plugins.built_in import PLUGINS
from member_agent.scheduling.plugins.hooks import Hook
from member_agent.scheduling.plugins.nodegroup import LABEL
from member_agent.views import NodeView, QueueView
from member_agent.views.hints import STRATEGY_TYPE, TASK_AFFINITY, TASK_ANTI_AFFINITY
from member_agent.views.queues import NodeGroups
from tests.member_agent.scheduling.around import apart, crew, spread
from tests.member_agent.scheduling.build import Made, configuration, frozen, gang, queue
from tests.member_agent.test_room import node

NAMES = sorted(each.name for each in PLUGINS if each.name not in ("gang", "proportion"))
FLAGS = ["", ", enableHierarchy: true", *(f", enable{hook.value}: false" for hook in (Hook.NODE_ORDER, Hook.JOB_ORDER))]

machines = some.lists(some.tuples(some.integers(1, 8), some.sampled_from(["", "a", "b"])), min_size=1, max_size=5)
work = some.lists(
    some.tuples(
        some.integers(1, 4),
        some.integers(0, 2),
        some.integers(1, 4),
        some.sampled_from(["q", "r"]),
        some.sampled_from(["plain", "apart", "spread", "topology", "packed"]),
        some.sampled_from(["Pending", "Inqueue"]),
    ),
    min_size=1,
    max_size=5,
)
choices = some.lists(
    some.tuples(some.sampled_from(NAMES), some.sampled_from(FLAGS)), max_size=8, unique_by=lambda each: each[0]
)
groups = some.sampled_from([None, NodeGroups(required=("a",)), NodeGroups(preferred=("b", "a"), rather_not=("a",))])


def make(index: int, of: tuple[int, int, int, str, str, str]) -> Made:
    least, extra, cpu, where, kind, phase = of
    name, pods = f"g{index}", least + extra
    if kind in ("apart", "spread"):
        asks = apart(name) if kind == "apart" else spread(name, by="kubernetes.io/hostname")
        made = crew(name, asks, pods=pods, cpu=cpu, minimum=least, queue=where, phase=phase)
    else:
        made = gang(name, pods=pods, minimum=least, cpu=cpu, queue=where, phase=phase)
    if kind == "topology":
        hints = ((TASK_AFFINITY, "x,y"), (TASK_ANTI_AFFINITY, "x"))
        tasked = tuple(dataclasses.replace(pod, task="xy"[pod.index % 2]) for pod in made.pods)
        return Made(dataclasses.replace(made.group, hints=hints), tasked, 0)
    if kind == "packed":
        return dataclasses.replace(
            made, pods=tuple(dataclasses.replace(pod, hints=((STRATEGY_TYPE, "MostAllocated"),)) for pod in made.pods)
        )
    return made


def cluster(listed: list[tuple[int, str]]) -> list[NodeView]:
    made = [node(f"n{index}", cpu=cpu) for index, (cpu, _) in enumerate(listed)]
    return [
        dataclasses.replace(each, labels={**each.labels, LABEL: group}) if group else each
        for each, (_, group) in zip(made, listed, strict=True)
    ]


def decide(by: Configuration, nodes: list[NodeView], gangs: list[Made], queues: list[QueueView]) -> Plan:
    return plan(frozen(nodes, gangs, queues=queues), configuration=by)


@given(machines, work, choices, groups)
@settings(deadline=None, max_examples=40)
def test_no_configuration_overdraws_a_node_or_splits_a_gang(
    listed: list[tuple[int, str]],
    gangs_of: list[tuple[int, int, int, str, str, str]],
    chosen: list[tuple[str, str]],
    kept_to: NodeGroups | None,
) -> None:
    by = configuration("gang", *(f"{{name: {name}{flag}}}" for name, flag in chosen))
    nodes, gangs = cluster(listed), [make(index, of) for index, of in enumerate(gangs_of)]
    queues = [dataclasses.replace(queue("q", capability=6), node_groups=kept_to), queue("r", weight=2, deserved=3)]
    found = decide(by, nodes, gangs, queues)
    used = Counter[str]()
    for each in found.bindings:
        used[each.node] += each.pod.shape.requests.get("cpu")
    assert all(used[each.name] <= each.allocatable.get("cpu") for each in nodes)
    pods = {pod.uid for each in gangs for pod in each.pods}
    bound = [each.pod.uid for each in found.bindings]
    assert len(bound) == len(set(bound) & pods)
    assert not any(isinstance(each.pod.shape, SeenShape) for each in found.bindings), "what plugins see stays in the session"
    counts = Counter(each.pod.group for each in found.bindings)
    assert all(counts[each.group.name] in (0, *range(each.group.min_member, 99)) for each in gangs)
    assert found == decide(by, nodes, gangs, queues)
