"""What is worth a write (protocol.md 4), and what evicting would free."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from apis.capacity import Backlog, CapacityStatus, NodeClass, NodeTable, QueueUse, Reclaimable, ShapeAnswer
from machinery.informer import Change
from member_agent.reporting import capacity
from member_agent.reporting.evictable import BANDS, Evictable
from member_agent.views import PodView
from member_agent.views.pods import Manner
from tests.member_agent.test_room import group, pod, shape


def status(cpu: int = 800, nodes: int = 1, **more: Any) -> CapacityStatus:
    """One class of nodes with so much free each."""
    table = NodeTable(("cpu",), (NodeClass({}, (), (1000,)),), ((0, -1, cpu, nodes),))
    return CapacityStatus(nodes=table, queues=(QueueUse("default", allocated={"cpu": 800}),), **more)


def material(before: CapacityStatus, after: CapacityStatus) -> bool:
    return capacity.material(before, after, share=1 / 8)


def test_an_eighth_of_a_group_of_rows_is_worth_a_write_and_less_is_not() -> None:
    assert material(status(800), status(700))
    assert material(status(800), status(900))
    assert not material(status(800), status(701))
    assert material(status(800), status(800, nodes=2))
    assert material(status(0), status(1))
    assert capacity.differs(status(800), status(701))


def test_binding_what_was_admitted_is_no_news_and_using_an_eighth_more_is() -> None:
    def use(allocated: int, admitted: int) -> CapacityStatus:
        return _with(QueueUse("default", allocated={"cpu": allocated}, admitted={"cpu": admitted} if admitted else {}))

    assert not material(use(800, 200), use(1000, 0))
    assert material(use(800, 0), use(900, 0))
    assert not material(use(800, 0), use(899, 0))
    assert material(use(800, 0), _with(QueueUse("default", state="Closed", allocated={"cpu": 800})))
    assert material(use(800, 0), _with(QueueUse("default", allocated={"cpu": 800}, real_capability={"cpu": 900})))


def _with(*queues: QueueUse) -> CapacityStatus:
    return msgspec.structs.replace(status(), queues=queues)


def test_an_answer_that_turns_is_worth_a_write_and_its_words_are_not() -> None:
    def told(fits: int, **more: Any) -> CapacityStatus:
        return status(shapes=(ShapeAnswer("a", fits=fits, **more),))

    assert material(told(0), told(1))
    assert material(told(0), told(0, after_eviction=True))
    assert material(told(0), told(0, wait=60))
    assert material(status(shapes=()), told(0))
    assert not material(told(0, wait=60, reason="3 fit"), told(0, wait=55, reason="4 fit"))
    assert not capacity.differs(told(0, wait=60, reason="3 fit"), told(0, wait=55, reason="4 fit"))


def test_only_what_lets_the_hub_act_is_told_sooner() -> None:
    no, yes = (status(shapes=(ShapeAnswer("a", fits=fits),)) for fits in (0, 2))
    assert capacity.better(no, yes)
    assert capacity.better(status(shapes=()), yes)
    assert not capacity.better(yes, no)
    assert capacity.worse(status(nodes=2), status(nodes=1))
    assert not capacity.worse(status(nodes=1), status(nodes=2))


def test_backlog_and_reclaimable_room_count_by_an_eighth_too() -> None:
    def waits(cpu: int) -> CapacityStatus:
        return status(backlog=(Backlog("default", demand={"cpu": cpu}),), reclaimable=(Reclaimable(5, {"cpu": cpu}),))

    assert material(waits(800), waits(900))
    assert not material(waits(800), waits(850))
    assert material(waits(800), status())


# --- evicting --------------------------------------------------------------------------------------------------------


def local(name: str, *, priority: int, **more: Any) -> PodView:
    return dataclasses.replace(pod(name, shape(2), on="a"), priority=priority, **more)


def seen(*pods: PodView) -> Evictable:
    found = Evictable()
    for each in pods:
        found.pod_changed(Change((each.namespace, each.name), None, each))
    return found


def test_room_is_counted_below_each_priority_with_all_that_is_lower() -> None:
    bands = seen(local("a", priority=0), local("b", priority=0), local("c", priority=10)).bands()
    assert [(each.below, each.pods, each.room["cpu"]) for each in bands] == [(1, 2, 4000), (11, 3, 6000)]


def test_what_the_hub_runs_what_is_protected_and_what_keeps_the_cluster_alive_is_no_room() -> None:
    found = seen(
        local("hubs", priority=0, run=True),
        local("critical", priority=2_000_000_000),
        local("system", priority=0, namespace="kube-system"),
        local("foreign", priority=0, group=""),
        local("waits", priority=0, node=""),
        local("leaves", priority=0, deleting=True),
        local("stays", priority=0, manner=Manner(preemptable=False)),
    )
    assert found.bands() == ()


@pytest.mark.parametrize("how", [{"preemptable": False}, {"admitted": True}])
def test_a_group_that_is_protected_or_the_hubs_is_no_room_for_as_long_as_it_is(how: dict[str, Any]) -> None:
    found = seen(local("a", priority=0))
    plain = dataclasses.replace(group("g", 1), admitted=False)
    found.group_changed(Change(("ns", "g"), None, dataclasses.replace(plain, **how)))
    assert found.bands() == ()
    found.group_changed(Change(("ns", "g"), None, plain))
    assert [each.pods for each in found.bands()] == [1]


def test_a_pod_that_ends_or_goes_frees_nothing_more() -> None:
    one = local("a", priority=0)
    found = seen(one)
    found.pod_changed(Change(("ns", "a"), one, dataclasses.replace(one, phase="Succeeded")))
    assert found.bands() == ()
    found.pod_changed(Change(("ns", "a"), None, one))
    found.pod_changed(Change(("ns", "a"), one, None))
    assert found.bands() == ()


@settings(max_examples=40, deadline=None)
@given(some.lists(some.integers(-50, 50), max_size=40))
def test_few_bands_and_each_is_exact(priorities: list[int]) -> None:
    found = seen(*(local(f"p{index}", priority=each) for index, each in enumerate(priorities))).bands()
    assert len(found) <= BANDS
    assert [each.pods for each in found] == [sum(priority < each.below for priority in priorities) for each in found]
    assert not priorities or found[-1].pods == len(priorities)
