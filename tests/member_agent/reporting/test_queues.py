"""The published tree of queues: use with what is below, and the most each may reach."""

from __future__ import annotations

import dataclasses
from typing import Any

from apis.capacity import QueueUse
from member_agent.reporting import queues
from member_agent.views import QueueView
from tests.member_agent.scheduling.build import queue, vector

CLUSTER = vector(cpu=100, memory="64Gi")


def tree(*views: QueueView, held: dict[str, Any] | None = None, admitted: dict[str, Any] | None = None) -> dict[str, QueueUse]:
    told = queues.tree(views, held=held, admitted=admitted or {}, available=CLUSTER)
    return {each.name: each for each in told}


def test_use_and_what_is_admitted_count_for_every_queue_above() -> None:
    found = tree(
        queue("root"),
        queue("research", parent="root"),
        queue("vision", parent="research"),
        queue("speech", parent="research"),
        held={"vision": {"cpu": 4000}, "speech": {"cpu": 3000}},
        admitted={"vision": vector(cpu=2)},
    )
    assert found["research"].allocated == {"cpu": 7000}
    assert found["research"].admitted == {"cpu": 2000}
    assert (found["vision"].allocated, found["vision"].admitted) == ({"cpu": 4000}, {"cpu": 2000})
    assert (found["speech"].allocated, found["speech"].admitted) == ({"cpu": 3000}, {})
    assert found["root"].allocated == {"cpu": 7000}


def test_the_real_capability_lies_within_the_parents_less_what_siblings_are_guaranteed() -> None:
    found = tree(
        queue("research", capability=60),
        queue("vision", parent="research", capability=80),
        queue("speech", parent="research", guarantee=15),
        queue("free"),
    )
    assert found["vision"].real_capability == {"cpu": 45_000}
    assert found["speech"].real_capability == {"cpu": 60_000}
    assert found["free"].real_capability == {"cpu": 85_000}  # what is guaranteed below research is research's
    assert tree(queue("alone"))["alone"].real_capability is None


def test_a_queue_that_may_have_none_of_something_says_so() -> None:
    poor = dataclasses.replace(queue("poor"), none_of=frozenset({"nvidia.com/gpu", "cpu"}))
    assert tree(poor)["poor"].real_capability == {"cpu": 0, "nvidia.com/gpu": 0}


def test_a_capability_of_what_no_node_has_yet_holds_when_nodes_come() -> None:
    view = dataclasses.replace(queue("gpus"), capability=vector(nvidia_com=4))
    assert tree(view)["gpus"].real_capability == {"nvidia/com": 4000}


def test_where_somebody_else_counts_the_status_of_each_queue_is_its_use() -> None:
    view = dataclasses.replace(queue("theirs"), allocated=vector(cpu=9))
    assert tree(view)["theirs"].allocated == {"cpu": 9000}


def test_cycles_and_missing_parents_do_no_harm() -> None:
    found = tree(queue("a", parent="b"), queue("b", parent="a"), queue("c", parent="nobody"), held={"a": {"cpu": 1000}})
    assert [found[name].allocated for name in "abc"] == [{"cpu": 1000}, {}, {}]
