"""Actions: who is let in, who gets nodes, who waits for whom."""

from __future__ import annotations

import dataclasses
import importlib.metadata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from member_agent.scheduling import actions
from member_agent.scheduling.planner import plan
from member_agent.scheduling.plugins.built_in import PLUGINS
from member_agent.scheduling.plugins.registry import Registry
from member_agent.scheduling.reasons import Reason
from member_agent.scheduling.session import OpenSession
from policies.shapes import PodShape
from tests.member_agent.scheduling.build import (
    USUAL,
    Made,
    admitted,
    code,
    configuration,
    decide,
    frozen,
    gang,
    nodes,
    queue,
    started,
    vector,
    why,
    without,
)

BEST_EFFORT = PodShape(vector(pods=1))


# --- enqueue ---------------------------------------------------------------------------------------------------------


def test_enqueue_lets_groups_in_one_after_the_other_while_there_may_be_room() -> None:
    waiting = [gang(name, pods=0, asks=5, minimum=1, phase="Pending") for name in "abc"]
    found = decide(nodes(10), *waiting)
    assert admitted(found) == ["a", "b"]
    assert code(found, "c") == "NotEnoughResources"
    assert "the gang asks for cpu 5; of the cluster times 1.2 cpu 3 is missing" in why(found, "c")


def test_without_enqueue_everybody_is_let_in_and_placed_at_once() -> None:
    big = gang("big", pods=3, cpu=8, phase="Pending")
    small = gang("small", pods=2, cpu=2, phase="Pending")
    found = decide(nodes(10), big, small, by=without("enqueue"))
    assert admitted(found) == ["big", "small"]
    found = decide(nodes(10, 10), small, by=without("enqueue"))
    assert started(found) == {"small": 2}


def test_enqueue_says_of_a_queue_that_it_is_closed_or_not_there() -> None:
    shut, lost = gang("shut", queue="q", phase="Pending"), gang("lost", queue="gone", phase="Pending")
    found = decide(nodes(10), shut, lost, queues=[queue("q", state="Closed")])
    assert why(found, "shut") == "queue q is Closed"
    assert why(found, "lost") == "queue gone does not exist"
    assert found.bindings == ()


def test_pods_of_a_group_that_is_not_let_in_get_no_nodes() -> None:
    found = decide(nodes(10), gang("big", pods=3, cpu=8, phase="Pending"))
    assert found.bindings == ()
    assert code(found, "big") == "NotEnoughResources"


def test_a_group_without_minimum_resources_is_let_in_at_once() -> None:
    found = decide(nodes(1), gang("free", pods=0, asks=0, minimum=1, phase="Pending"))
    assert admitted(found) == ["free"]


# --- allocate --------------------------------------------------------------------------------------------------------


def test_allocate_places_a_gang_whole_or_leaves_no_trace() -> None:
    large, small = gang("a-large", pods=5, cpu=4), gang("b-small", pods=2, cpu=4)
    found = decide(nodes(8, 8), large, small, by=without("backfill"))
    assert started(found) == {"b-small": 2}
    assert "0 of 5 pods of the gang have nodes; room for 4 of 5 pods" in why(found, "a-large")


def test_allocate_gives_every_gang_its_minimum_before_anybody_gets_more() -> None:
    first, second = gang("a", pods=6, minimum=2), gang("b", pods=6, minimum=2)
    assert started(decide(nodes(4), first, second)) == {"a": 2, "b": 2}
    assert started(decide(nodes(12), first, second)) == {"a": 6, "b": 6}


def test_a_gang_over_several_shapes_that_fits_in_part_gives_everything_back() -> None:
    small, large = gang("two", pods=2, cpu=3), gang("two", pods=2, cpu=9)
    others = [dataclasses.replace(pod, name=f"x{pod.name}", uid=f"x{pod.uid}") for pod in large.pods]
    mixed = Made(dataclasses.replace(small.group, min_member=4), (*small.pods, *others), 0)
    late = gang("z", pods=4, cpu=3)
    assert started(decide(nodes(9, 3), mixed, late, by=without("backfill"))) == {"z": 4}


def test_the_hubs_gangs_are_counted_by_local_queues_and_never_refused_by_them() -> None:
    queues = [queue("small", capability=2)]
    hub = gang("hub", pods=4, queue="small", hub=True)
    local = gang("local", pods=1, queue="small")
    found = decide(nodes(16), hub, local, queues=queues)
    assert started(found) == {"hub": 4}
    assert code(found, "local") in ("QueueOverused", "QueueFull")


def test_a_queue_that_is_first_in_first_out_lets_nobody_pass() -> None:
    large = gang("a", pods=9, cpu=4, queue="line", created="2026-01-01T00:00:00Z")
    small = gang("b", pods=1, queue="line", created="2026-01-01T00:01:00Z")
    by = without("backfill")
    assert started(decide(nodes(8, 8), large, small, queues=[queue("line")], by=by)) == {"b": 1}
    found = decide(nodes(8, 8), large, small, queues=[queue("line", fifo=True)], by=by)
    assert started(found) == {}
    assert why(found, "b") == "queue line is first in, first out: a waits before it"


# --- backfill --------------------------------------------------------------------------------------------------------


def test_backfill_places_pods_that_ask_for_nothing() -> None:
    free = gang("free", pods=3, shape=BEST_EFFORT, asks=0)
    assert started(decide(nodes(1), free)) == {"free": 3}
    assert started(decide(nodes(1), free, by=without("backfill"))) == {}


def test_a_gang_that_finds_no_room_keeps_nodes_that_the_next_ones_leave_alone() -> None:
    busy = gang("busy", pods=1, cpu=4, on=["n0"])
    large = gang("a-large", pods=2, cpu=8)
    small = gang("b-small", pods=1, cpu=2)
    machines = nodes(8, 8, 8)
    running = [busy, gang("full", pods=1, cpu=8, on=["n1"])]
    found = decide(machines, *running, large, small)
    assert started(found) == {}
    assert "queue default is at cpu 12 of 24 of its share: 2 × cpu 8 asked for, 1 fit" in why(found, "a-large")
    assert started(decide(machines, *running, large, small, by=without("backfill"))) == {"b-small": 1}


def test_a_gang_that_no_empty_cluster_could_hold_keeps_nothing() -> None:
    impossible = gang("a", pods=3, cpu=9)
    small = gang("b", pods=1)
    assert started(decide(nodes(8, 8), impossible, small)) == {"b": 1}


def test_what_others_hold_is_not_waited_for() -> None:
    daemon = gang("daemon", pods=1, cpu=1, on=["n0"])
    foreign = [dataclasses.replace(pod, group="", scheduler="default-scheduler") for pod in daemon.pods]
    running = Made(daemon.group, tuple(foreign), 0)
    whole, small = gang("a", pods=1, cpu=8), gang("b", pods=1)
    assert started(decide(nodes(8), running, whole, small)) == {"b": 1}


def test_what_the_first_gang_of_a_queue_lacks_there_is_kept_for_it() -> None:
    running = gang("r", pods=3, queue="q", on=["n0"] * 3)
    large, small = gang("a", pods=4, queue="q"), gang("b", pods=1, queue="q")
    queues = [queue("q", capability=6)]
    found = decide(nodes(20), running, large, small, queues=queues)
    assert started(found) == {}
    assert why(found, "a") == "queue q is at cpu 3 of 6 of its share: 4 × cpu 1 asked for, 3 fit"
    assert why(found, "b") == "queue q keeps cpu 4, memory 4, pods 4 for a, which waits before it"
    assert started(decide(nodes(20), running, large, small, queues=queues, by=without("backfill"))) == {"b": 1}


def test_nothing_is_kept_in_a_queue_for_a_gang_that_it_can_never_hold() -> None:
    large, small = gang("a", pods=7, queue="q"), gang("b", pods=1, queue="q")
    assert started(decide(nodes(20), large, small, queues=[queue("q", capability=6)])) == {"b": 1}


# --- laws ------------------------------------------------------------------------------------------------------------

described = some.lists(
    some.tuples(some.integers(1, 5), some.integers(0, 3), some.integers(1, 6), some.sampled_from(["q", "r"]), some.booleans()),
    min_size=1,
    max_size=6,
)


def made(listed: list[tuple[int, int, int, str, bool]]) -> list[Made]:
    return [
        gang(f"g{index}", pods=least + extra, minimum=least, cpu=cpu, queue=where, hub=hub)
        for index, (least, extra, cpu, where, hub) in enumerate(listed)
    ]


@given(some.lists(some.integers(1, 12), min_size=1, max_size=5), described, some.integers(1, 20))
@settings(deadline=None, max_examples=60)
def test_no_node_and_no_queue_is_overdrawn_and_gangs_are_whole(
    cpus: list[int], listed: list[tuple[int, int, int, str, bool]], ceiling: int
) -> None:
    gangs = made(listed)
    queues = [queue("q", capability=ceiling), queue("r", weight=2, guarantee=1)]
    snapshot = frozen(nodes(*cpus), gangs, queues=queues)
    before = snapshot.room.free.copy()
    found = plan(snapshot)
    assert (snapshot.room.free >= 0).all()
    given_away = (before - snapshot.room.free)[:, 0].sum()
    cpu = {binding.pod.uid: binding.pod.shape.requests.get("cpu") for binding in found.bindings}
    assert given_away == sum(cpu.values())
    count = started(found)
    local = 0
    for each in gangs:
        assert count.get(each.group.name, 0) == 0 or count[each.group.name] >= each.group.min_member
        if each.group.queue == "q" and not each.group.admitted:
            local += count.get(each.group.name, 0) * each.pods[0].shape.requests.get("cpu")
        assert count.get(each.group.name) or ("ns", each.group.name) in found.waiting
    assert local <= ceiling * 1000


@given(some.lists(some.integers(1, 12), min_size=1, max_size=5), described)
@settings(deadline=None, max_examples=30)
def test_the_same_snapshot_gives_the_same_plan(cpus: list[int], listed: list[tuple[int, int, int, str, bool]]) -> None:
    queues = [queue("q"), queue("r", weight=3)]
    once, again = (plan(frozen(nodes(*cpus), made(listed), queues=queues)) for _ in range(2))
    assert once == again


# --- own actions -----------------------------------------------------------------------------------------------------


def freeze_all(session: OpenSession) -> None:
    """An action that somebody wrote themselves."""
    for each in session.waiting:
        session.refuse(each, Reason("Frozen", "nobody starts today"))


def test_an_own_action_is_found_configured_and_run() -> None:
    own = actions.installed([importlib.metadata.EntryPoint("freeze-all", f"{__name__}:freeze_all", actions.GROUP)])
    registry = Registry(built_in=PLUGINS, actions={**actions.BUILT_IN, **own}, own={})
    from member_agent.scheduling.configuration import parse

    by = parse("actions: 'freeze-all'", known=registry.known)
    found = plan(frozen(nodes(8), [gang("a")]), configuration=by, registry=registry)
    assert why(found, "a") == "nobody starts today"
    with pytest.raises(TypeError, match="text of .* is no scheduler action"):
        actions.installed([importlib.metadata.EntryPoint("text", f"{__name__}:USUAL", actions.GROUP)])
    assert USUAL.actions == ("enqueue", "allocate", "backfill")
    assert configuration("gang").actions == USUAL.actions
