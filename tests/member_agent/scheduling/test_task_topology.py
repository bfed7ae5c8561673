"""task-topology: tasks of a gang that belong together or apart."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from member_agent.scheduling.configuration import BadConfiguration, Configuration
from member_agent.scheduling.decisions import Plan
from member_agent.scheduling.plugins.buckets import Topology, fill_buckets, read_topology
from member_agent.views.hints import TASK_AFFINITY, TASK_ANTI_AFFINITY, TASK_ORDER
from tests.member_agent import test_room
from tests.member_agent.scheduling.build import Made, configuration, decide, gang, nodes, places
from tests.member_agent.test_room import shape

SPREADING = "{name: nodeorder, arguments: {balancedresource.weight: 0}}"
TOPOLOGY = "{name: task-topology, arguments: {task-topology.weight: 10}}"


def by(*plugins: str) -> Configuration:
    return configuration("gang", "predicates", SPREADING, *plugins)


def tasks(name: str, *, hints: dict[str, str], on: dict[str, str] | None = None, cpu: int = 1, **counts: int) -> Made:
    """A gang of tasks; `on`: nodes of pods, by the pods' names."""
    made = gang(name, pods=0, minimum=sum(counts.values()))
    pods = [
        dataclasses.replace(test_room.pod(f"{task}-{index}", shape(cpu), group=name, task=task), index=index)
        for task, count in counts.items()
        for index in range(count)
    ]
    pods = [dataclasses.replace(pod, node=(on or {}).get(pod.name, "")) for pod in pods]
    group = dataclasses.replace(made.group, hints=tuple(sorted(hints.items())))
    return Made(group, tuple(pods), 0)


def together(found: Plan) -> Counter[frozenset[str]]:
    """Which tasks met on nodes, and on how many."""
    on: dict[str, list[str]] = {}
    for each in found.bindings:
        on.setdefault(each.node, []).append(each.pod.task)
    return Counter(frozenset(listed) for listed in on.values())


def test_tasks_that_want_each_other_share_nodes_although_empty_nodes_score_higher() -> None:
    pair = tasks("g", hints={TASK_AFFINITY: "ps,work"}, ps=1, work=3)
    assert set(places(decide(nodes(8, 8, 8, 8), pair, by=by(TOPOLOGY))).values()) == {4}
    assert len(places(decide(nodes(8, 8, 8, 8), pair, by=by()))) == 4
    light = "{name: task-topology, arguments: {task-topology.weight: 0}}"
    assert len(places(decide(nodes(8, 8, 8, 8), pair, by=by(light)))) == 4
    off = "{name: task-topology, enableNodeOrder: false}"
    assert len(places(decide(nodes(8, 8, 8, 8), pair, by=by(off)))) == 4


def test_tasks_that_avoid_each_other_take_nodes_of_their_own_as_long_as_there_are_some() -> None:
    apart = tasks("g", hints={TASK_ANTI_AFFINITY: "ps;ps,work"}, ps=2, work=2)
    packing = configuration("gang", "predicates", "binpack", TOPOLOGY)
    assert together(decide(nodes(8, 8, 8), apart, by=packing)) == {frozenset({"ps"}): 2, frozenset({"work"}): 1}
    alone = configuration("gang", "predicates", "binpack")
    assert places(decide(nodes(8, 8, 8), apart, by=alone)) == {"n0": 4}
    assert sum(places(decide(nodes(8), apart, by=packing)).values()) == 4


def test_buckets_that_do_not_fit_on_one_node_are_split_where_they_must() -> None:
    pair = tasks("g", hints={TASK_AFFINITY: "ps,work"}, ps=2, work=4)
    assert sorted(places(decide(nodes(4, 4, 4), pair, by=by(TOPOLOGY))).values()) == [2, 4]


def test_a_pod_that_is_made_again_goes_back_to_those_it_wants() -> None:
    here = {"ps-0": "n2", "work-0": "n2"}
    again = tasks("g", hints={TASK_AFFINITY: "ps,work"}, on=here, ps=1, work=2)
    assert places(decide(nodes(8, 8, 8), again, by=by(TOPOLOGY))) == {"n2": 1}
    assert places(decide(nodes(8, 8, 8), again, by=by())) == {"n0": 1}


def test_the_tasks_named_first_are_placed_first() -> None:
    made = tasks("g", hints={TASK_AFFINITY: "a,b", TASK_ORDER: "b,a"}, a=1, b=1)
    short = dataclasses.replace(made, group=dataclasses.replace(made.group, min_member=1))
    assert [each.pod.task for each in decide(nodes(1), short, by=by(TOPOLOGY)).bindings] == ["b"]
    off = "{name: task-topology, enableTaskOrder: false}"
    assert [each.pod.task for each in decide(nodes(1), short, by=by(off)).bindings] == ["a"]


def test_two_gangs_of_equal_pods_do_not_mix_up_their_buckets() -> None:
    one = tasks("g", hints={TASK_AFFINITY: "a,b"}, a=1, b=1)
    other = tasks("h", hints={TASK_AFFINITY: "a,b"}, a=1, b=1)
    renamed = tuple(dataclasses.replace(pod, uid=f"h-{pod.uid}", name=f"h-{pod.name}") for pod in other.pods)
    found = decide(nodes(4, 4), one, dataclasses.replace(other, pods=renamed), by=by(TOPOLOGY))
    homes = {(each.pod.group, each.node) for each in found.bindings}
    assert len(homes) == 2
    assert {each.pod for each in found.bindings} == {*one.pods, *renamed}


@pytest.mark.parametrize(
    "hints",
    [{TASK_AFFINITY: "a,nobody"}, {TASK_AFFINITY: "a,a"}, {TASK_ORDER: "a;b"}, {TASK_ANTI_AFFINITY: ";,;"}, {}],
)
def test_annotations_that_mean_nothing_count_as_not_given(hints: dict[str, str]) -> None:
    assert read_topology(tuple(hints.items()), tasks={"a", "b"}) is None
    made = tasks("g", hints=hints, a=1, b=1)
    assert decide(nodes(4, 4), made, by=by(TOPOLOGY)) == decide(nodes(4, 4), made, by=by())


def test_a_weight_that_means_nothing_is_refused() -> None:
    with pytest.raises(BadConfiguration, match=r"task-topology\.weight"):
        by("{name: task-topology, arguments: {task-topology.weight: -1}}")


names = some.sampled_from("abc")
pairs = some.frozensets(some.tuples(names, names), max_size=4).map(lambda found: found | {(b, a) for a, b in found})


@given(pairs, pairs, some.lists(names, max_size=12), some.lists(some.tuples(names, some.sampled_from(["n", "m"])), max_size=6))
@settings(deadline=None, max_examples=60)
def test_every_pod_with_a_wish_is_in_one_bucket_and_where_nobody_wants_anybody_meets_nobody_it_avoids(
    wants: frozenset[tuple[str, str]], avoids: frozenset[tuple[str, str]], listed: list[str], sites: list[tuple[str, str]]
) -> None:
    topology = Topology(wants, avoids, ())
    pods = [test_room.pod(f"p{index}", shape(1), task=task) for index, task in enumerate(listed)]
    buckets, of = fill_buckets(topology, pods, sites=sites)
    assert of.keys() == {pod.uid for pod in pods if topology.concerns(pod.task)}
    assert sum(bucket.pods for bucket in buckets) == len(of) + sum(topology.concerns(task) for task, _ in sites)
    if not wants:
        for bucket in buckets:
            if not bucket.sitting:
                there = Counter(task for (task, _), count in bucket.waiting.items() for _ in range(count))
                assert all(topology.dislikes(task, there - Counter([task])) == 0 for task in there)
