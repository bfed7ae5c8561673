"""Queues: the tree, the numbers along it, the state that may be asked for."""

from __future__ import annotations

from typing import Any

import pytest

from apis.scheduling import Queue
from controllers.admission import Problem, is_leaf, validate_queue, validate_queue_deletion


def queue(name: str, **spec: Any) -> Queue:
    return Queue.of(name, spec=spec)


def tree(*queues: Queue) -> dict[str, Queue]:
    return {each.metadata.name: each for each in (queue("root"), *queues)}


def says(problems: list[Problem], text: str) -> bool:
    return any(text in str(problem) for problem in problems)


def test_a_child_of_a_queue_is_taken() -> None:
    assert validate_queue(queue("child", parent="team"), queues=tree(queue("team"))) == []


def test_no_parent_means_root_and_root_has_none() -> None:
    assert validate_queue(queue("team"), queues={}) == []
    assert validate_queue(queue("root"), queues=tree()) == []
    assert is_leaf("team", queues=tree(queue("team")))
    assert not is_leaf("root", queues=tree(queue("team")))


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"weight": 0}, "spec.weight: 0 should be greater than or equal to 1"),
        ({"weight": 70000}, "should be less than or equal to 65535"),
        ({"priority": -1}, "spec.priority"),
        ({"parent": "ghost"}, "queue 'ghost' does not exist"),
        ({"parent": "q"}, "own parent"),
        ({"deserved": {"cpu": "-1"}}, "spec.deserved.cpu: '-1' is negative"),
    ],
)
def test_a_bad_queue_is_refused(spec: dict[str, Any], reason: str) -> None:
    assert says(validate_queue(queue("q", **spec), queues=tree()), reason)


def test_resources_the_ceiling_does_not_name_are_free() -> None:
    spec = {"deserved": {"cpu": 4, "memory": "1Gi"}, "guarantee": {"resource": {"memory": "1Gi"}}, "capability": {"cpu": 4}}
    assert validate_queue(queue("q", **spec), queues=tree()) == []


def test_a_circle_is_refused() -> None:
    assert says(
        validate_queue(queue("a", parent="c"), queues=tree(queue("b", parent="a"), queue("c", parent="b"))), "own ancestor"
    )


def test_a_tree_too_deep_is_refused_also_when_it_moves_below() -> None:
    deep = [queue("a"), queue("b", parent="a"), queue("c", parent="b"), queue("d", parent="c"), queue("e", parent="d")]
    assert says(validate_queue(queue("f", parent="e"), queues=tree(*deep)), "6 deep")
    assert validate_queue(queue("e", parent="d"), queues=tree(*deep)) == []
    assert says(validate_queue(queue("a", parent="top"), queues=tree(queue("top"), *deep)), "6 deep")


def test_a_leaf_with_pods_can_not_become_a_parent() -> None:
    problems = validate_queue(queue("child", parent="team"), queues=tree(queue("team")), holds_pods=lambda name: name == "team")
    assert says(problems, "holds pods")


def test_a_child_stays_below_the_nearest_ceiling_that_names_the_resource() -> None:
    queues = tree(queue("top", capability={"cpu": 10}), queue("team", parent="top", capability={"memory": "1Gi"}))
    assert says(
        validate_queue(queue("child", parent="team", capability={"cpu": 11}), queues=queues),
        "must be <= capability 10 of queue top",
    )
    assert validate_queue(queue("child", parent="team", capability={"cpu": 10}), queues=queues) == []


@pytest.mark.parametrize("field", ["deserved", "guarantee"])
def test_children_are_promised_no_more_than_their_parent(field: str) -> None:
    def promised(cpu: int) -> dict[str, Any]:
        share = {"deserved": {"cpu": cpu}}
        return share if field == "deserved" else {**share, "guarantee": {"resource": {"cpu": cpu}}}

    queues = tree(queue("team", **promised(10)), queue("one", parent="team", **promised(6)))
    assert validate_queue(queue("two", parent="team", **promised(4)), queues=queues) == []
    assert says(validate_queue(queue("two", parent="team", **promised(5)), queues=queues), "are promised more cpu than it has")
    assert says(validate_queue(queue("team", **promised(5)), queues=queues), "are promised more cpu than it has")


def test_root_bounds_nobody() -> None:
    assert validate_queue(queue("team", deserved={"cpu": 10}), queues=tree()) == []


@pytest.mark.parametrize(
    ("state", "fine"), [("Open", True), ("Closed", True), ("", True), ("Closing", False), ("Unknown", False)]
)
def test_only_open_and_closed_may_be_asked_for(state: str, fine: bool) -> None:
    assert (validate_queue(Queue.of("q", spec={}, status={"state": state}), queues=tree()) == []) is fine


@pytest.mark.parametrize(
    ("path", "weights", "reason"),
    [
        ("root/a", "1/2", None),
        ("root/a", "", "must have the same length"),
        ("root/a", "1", "must have the same length"),
        ("root/a", "1/2/3", "must have the same length"),
        ("root/a", "1/-2", "must be a number larger than 0"),
        ("root/a", "1/x", "must be a number larger than 0"),
    ],
)
def test_the_older_hierarchy_is_checked(path: str, weights: str, reason: str | None) -> None:
    problems = validate_queue(hierarchical("q", path, weights), queues=tree())
    assert says(problems, reason) if reason else problems == []


def hierarchical(name: str, path: str, weights: str) -> Queue:
    made = queue(name)
    made.metadata = made.metadata.model_copy(
        update={"annotations": {"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": weights}}
    )
    return made


def test_a_path_on_the_way_to_another_queue_is_refused() -> None:
    queues = tree(hierarchical("deep", "root/a/b", "1/1/1"))
    assert says(validate_queue(hierarchical("q", "root/a", "1/1"), queues=queues), "sub path")
    assert validate_queue(hierarchical("q", "root/ab", "1/1"), queues=queues) == []


def test_queues_everybody_relies_on_are_not_deleted() -> None:
    queues = tree(queue("default"), queue("team"), queue("child", parent="team"))
    for name, reason in (("root", "can not be deleted"), ("default", "can not be deleted"), ("team", "1 child queues: child")):
        assert says(validate_queue_deletion(name, queues=queues), reason)
    assert validate_queue_deletion("child", queues=queues) == []
