"""A gang starts with any of its pods that make up its minimum, not only with the first."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as some

from member_agent.views import PodView
from tests.member_agent import test_room
from tests.member_agent.scheduling.build import Made, decide, gang, nodes, queue, started, why, without
from tests.member_agent.test_room import shape

BY = without("backfill")


def mixed(
    name: str, *tasks: tuple[str, int, int], minimum: int, floors: dict[str, int] | None = None, of: str = "default"
) -> Made:
    """`tasks`: name, pods, cpu of each; several entries of one name are shapes of one task."""
    made = gang(name, pods=0, minimum=minimum, queue=of)
    pods: list[PodView] = []
    for task, count, cpu in tasks:
        for index in range(count):
            one = test_room.pod(f"{name}-{task}-{cpu}-{index}", shape(cpu), group=name, task=task)
            pods.append(dataclasses.replace(one, index=len(pods)))
    group = dataclasses.replace(made.group, min_task_member=tuple(sorted((floors or {}).items())))
    return Made(group, tuple(pods), 0)


def test_a_pod_that_fits_nowhere_keeps_nobody_back_who_is_enough() -> None:
    made = mixed("g", ("a", 1, 99), ("b", 3, 1), minimum=3)
    found = decide(nodes(4), made)
    assert Counter(each.pod.task for each in found.bindings) == {"b": 3}
    assert found.waiting == {}


def test_nor_does_one_that_its_queue_does_not_take() -> None:
    made = mixed("g", ("a", 1, 5), ("b", 3, 1), minimum=3, of="q")
    assert started(decide(nodes(16), made, queues=[queue("q", capability=4)])) == {"g": 3}


def test_without_the_pods_that_its_tasks_must_have_it_waits() -> None:
    made = mixed("g", ("a", 1, 99), ("b", 3, 1), minimum=3, floors={"a": 1, "b": 1})
    found = decide(nodes(4), made)
    assert found.bindings == ()
    assert "0 of 3 pods of the gang have nodes" in why(found, "g")


def test_a_task_of_two_shapes_meets_its_minimum_with_either() -> None:
    made = mixed("g", ("a", 2, 9), ("a", 2, 2), ("b", 1, 1), minimum=3, floors={"a": 2, "b": 1})
    found = decide(nodes(4, 4), made)
    assert Counter((each.pod.task, each.pod.shape.requests.get("cpu")) for each in found.bindings) == {
        ("a", 2000): 2,
        ("b", 1000): 1,
    }


def test_the_first_pods_are_taken_where_they_fit() -> None:
    made = mixed("g", ("a", 2, 3), ("b", 2, 1), minimum=2)
    assert Counter(each.pod.task for each in decide(nodes(7), made, by=BY).bindings) == {"a": 2, "b": 1}


def test_a_gang_that_cannot_start_leaves_no_trace_of_what_was_tried() -> None:
    made = mixed("g", ("a", 2, 9), ("b", 2, 3), minimum=3)
    late = gang("late", pods=4, cpu=2)
    assert started(decide(nodes(4, 4), made, late, by=BY)) == {"late": 4}


def test_what_is_left_over_goes_on_when_the_gang_has_its_minimum() -> None:
    made = mixed("g", ("a", 1, 99), ("b", 5, 1), minimum=2)
    assert started(decide(nodes(4), made)) == {"g": 4}


@given(
    some.lists(some.tuples(some.sampled_from("ab"), some.integers(1, 3), some.integers(1, 6)), min_size=1, max_size=4),
    some.integers(1, 5),
    some.dictionaries(some.sampled_from("ab"), some.integers(0, 2)),
    some.integers(1, 12),
)
@settings(deadline=None, max_examples=80)
def test_on_one_node_a_gang_starts_whenever_any_admissible_choice_fits(
    tasks: list[tuple[str, int, int]], minimum: int, floors: dict[str, int], cpu: int
) -> None:
    made = mixed("g", *dict.fromkeys(tasks), minimum=minimum, floors=floors)
    held = {} if sum(floors.values()) > minimum else floors
    found = decide(nodes(cpu), made, by=BY)

    def admissible(choice: tuple[tuple[str, int], ...]) -> bool:
        counts = Counter(task for task, _ in choice)
        enough = len(choice) >= minimum and all(counts[task] >= least for task, least in held.items())
        return enough and sum(size for _, size in choice) <= cpu * 1000

    sizes = [(pod.task, pod.shape.requests.get("cpu")) for pod in made.pods]
    possible = any(
        admissible(choice) for count in range(minimum, len(sizes) + 1) for choice in set(itertools.combinations(sizes, count))
    )
    assert bool(found.bindings) == possible
    if found.bindings:
        assert admissible(tuple((each.pod.task, each.pod.shape.requests.get("cpu")) for each in found.bindings))
