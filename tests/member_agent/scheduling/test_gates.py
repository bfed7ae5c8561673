"""The scheduling gate before a queue: opened when it is the last one and the queue has room, which is then held."""

from __future__ import annotations

import dataclasses

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from apis import keys
from member_agent.scheduling.decisions import Plan
from member_agent.views import Projector, QueueGate
from tests.member_agent.scheduling.build import Made, admitted, code, configuration, decide, gang, nodes, queue, started, why

OURS = {"name": keys.QUEUE_GATE}
FOREIGN = {"name": "example.com/licence"}
BY = configuration("gang", "capacity", "predicates", "overcommit")


def at(gate: QueueGate, made: Made, *, pods: int | None = None) -> Made:
    """The first pods of the gang stand so to the gate; the others have none."""
    shut = gate in (QueueGate.SHUT, QueueGate.BEHIND)
    gated = [dataclasses.replace(pod, gate=gate, gated=shut) for pod in made.pods[:pods]]
    return dataclasses.replace(made, pods=(*gated, *made.pods[len(gated) :]))


def opened(found: Plan) -> list[str]:
    return [pod.name for pod in found.opened]


@pytest.mark.parametrize(
    ("gates", "asked", "expected"),
    [
        ([], False, QueueGate.NONE),
        ([FOREIGN], True, QueueGate.NONE),
        ([OURS], True, QueueGate.SHUT),
        ([FOREIGN, OURS], True, QueueGate.BEHIND),
        ([], True, QueueGate.OPEN),
    ],
)
def test_a_pod_says_by_its_gates_and_its_annotation_how_it_stands(
    gates: list[dict[str, str]], asked: bool, expected: QueueGate
) -> None:
    notes = {keys.QUEUE_GATE: "true"} if asked else {}
    body = {"metadata": {"name": "one", "namespace": "ns", "annotations": notes}, "spec": {"schedulingGates": gates}}
    assert Projector().pod(orjson.dumps(body)).gate is expected


def test_a_gate_is_opened_when_the_queue_has_room_and_the_pod_is_bound_only_after() -> None:
    small = [queue("default", capability=2)]
    found = decide(nodes(8), at(QueueGate.SHUT, gang("one", cpu=2)), queues=small, by=BY)
    assert opened(found) == ["one-0"]
    assert started(found) == {}


def test_two_gated_pods_get_through_one_after_the_other_when_the_queue_holds_one() -> None:
    small = [queue("default", capability=3)]
    first, second = (at(QueueGate.SHUT, gang(name, cpu=2)) for name in ("first", "second"))
    found = decide(nodes(8), first, second, queues=small, by=BY)
    assert opened(found) == ["first-0"]
    assert code(found, "second") == "QueueGate"
    assert why(found, "second").startswith("1 pods wait at the gate of their queue: queue default")


def test_a_gate_beside_a_foreign_one_stays_until_the_foreign_one_is_gone() -> None:
    assert opened(decide(nodes(8), at(QueueGate.BEHIND, gang("one")), by=BY)) == []
    assert opened(decide(nodes(8), at(QueueGate.SHUT, gang("one")), by=BY)) == ["one-0"]


def test_a_pod_that_passed_and_finds_no_node_holds_its_room_in_the_queue_until_it_is_gone() -> None:
    small = [queue("default", capability=4)]
    stuck = at(QueueGate.OPEN, gang("stuck", cpu=4))
    waits = at(QueueGate.SHUT, gang("waits", cpu=1))
    other = gang("other", cpu=1)
    found = decide(nodes(2), stuck, waits, other, queues=small, by=BY)
    assert opened(found) == []
    assert started(found) == {}
    assert code(found, "other") == "QueueFull"
    after = decide(nodes(2), waits, other, queues=small, by=BY)
    assert opened(after) == ["waits-0"]
    assert started(after) == {"other": 1}


def test_a_pod_that_passed_is_bound_within_the_room_it_holds() -> None:
    small = [queue("default", capability=4)]
    passed = at(QueueGate.OPEN, gang("passed", cpu=4))
    assert started(decide(nodes(8), passed, queues=small, by=BY)) == {"passed": 1}


def test_who_asked_for_a_gate_that_nobody_put_up_passes_no_limit_of_its_queue() -> None:
    small = [queue("default", capability=4)]
    gangs = [at(QueueGate.OPEN, gang(name, cpu=3)) for name in ("first", "second")]
    assert started(decide(nodes(8), *gangs, queues=small, by=BY)) == {"first": 1}


def test_the_minimum_of_a_gang_gets_through_together_or_not_at_all() -> None:
    small = [queue("default", capability=3)]
    large = at(QueueGate.SHUT, gang("large", pods=4, minimum=4))
    small_one = at(QueueGate.SHUT, gang("small", pods=5, minimum=2, created="2026-01-02T00:00:00Z"))
    found = decide(nodes(8), large, small_one, queues=small, by=BY)
    assert opened(found) == ["small-0", "small-1", "small-2"]


def test_gated_pods_use_no_room_that_others_need_to_be_let_in() -> None:
    """Overcommit lets 1.2 times the cluster in: 4 of 4.8 are spoken for unless the pods that ask are gated."""
    waits = gang("waits", pods=4, phase="Inqueue")
    newcomer = gang("newcomer", pods=2, phase="Pending", created="2026-01-02T00:00:00Z")
    by = configuration("gang", "capacity", "predicates", "overcommit", actions="enqueue")
    assert admitted(decide(nodes(4), waits, newcomer, by=by)) == []
    assert admitted(decide(nodes(4), at(QueueGate.BEHIND, waits), newcomer, by=by)) == ["newcomer"]


def test_a_gate_is_not_opened_before_the_group_is_let_in() -> None:
    closed = [queue("default", state="Closed")]
    waits = at(QueueGate.SHUT, gang("waits", pods=4, phase="Pending", asks=99), pods=2)
    assert opened(decide(nodes(4), waits, queues=closed)) == []


def test_shares_are_filled_by_what_waits_at_the_gate_too() -> None:
    """Under proportion a queue deserves what it asks for: pods at the gate ask."""
    by = configuration("gang", "proportion", "predicates")
    assert opened(decide(nodes(4), at(QueueGate.SHUT, gang("waits", pods=2)), by=by)) == ["waits-0", "waits-1"]


def test_the_room_that_a_pod_holds_since_it_passed_does_not_keep_itself_out() -> None:
    """Under proportion its queue has all it deserves, by that very pod."""
    by = configuration("gang", "proportion", "predicates")
    assert started(decide(nodes(4), at(QueueGate.OPEN, gang("passed", pods=2)), by=by)) == {"passed": 2}


@given(
    some.lists(some.tuples(some.integers(1, 3), some.integers(1, 4), some.booleans()), max_size=6),
    some.integers(1, 12),
)
@settings(deadline=None, max_examples=60)
def test_no_more_gets_through_than_the_queue_may_hold_and_nobody_waits_who_fits(
    gangs: list[tuple[int, int, bool]], capability: int
) -> None:
    """Pods, cpu of each, and whether the whole gang passed before; what passed counts whether it has nodes or not."""
    made, held = [], 0
    for index, (pods, cpu, passed) in enumerate(gangs):
        if passed and held + pods * cpu > capability:
            continue
        held += pods * cpu if passed else 0
        made.append(at(QueueGate.OPEN if passed else QueueGate.SHUT, gang(f"g{index}", pods=pods, cpu=cpu)))
    found = decide(nodes(100), *made, queues=[queue("default", capability=capability)], by=BY)
    through = sum(pod.shape.requests["cpu"] for pod in found.opened) // 1000
    assert held + through <= capability
    waiting = [each for each in made if each.pods[0].gate is QueueGate.SHUT and each.pods[0].name not in opened(found)]
    for each in waiting:
        whole = sum(pod.shape.requests["cpu"] for pod in each.pods) // 1000
        assert held + through + whole > capability, each.group.name
    assert sum(started(found).values()) == sum(len(each.pods) for each in made if each.pods[0].gate is QueueGate.OPEN)
