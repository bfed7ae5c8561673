"""What nobody should have written and somebody did: that one object is left out or told, and everybody else goes on."""

from __future__ import annotations

import dataclasses
from typing import Any

import orjson
import pytest

from apis import kinds
from apis.vectors import MOST, ResourceVector
from machinery.informer import Change
from machinery.port import PatchType
from member_agent.inventory import Inventory
from member_agent.views import NodeView, Projector, project_node
from simulator.nodes import uniform
from simulator.world import Member
from tests.member_agent.podgroups.test_stories import Cluster, pod
from tests.member_agent.scheduling.build import Made, code, configuration, decide, gang, nodes, queue, started
from tests.member_agent.world import EAST, Stage, play, typed

Doc = dict[str, Any]
ABSURD = {"cpu": "9E", "memory": "8Ei"}
PLAIN = configuration("gang", "predicates")


def node(name: str = "odd", **body: Any) -> NodeView:
    meta = {"name": name, "uid": name, "labels": {"kubernetes.io/hostname": name}}
    return project_node(orjson.dumps({"metadata": meta, **body}))


READY = {"conditions": [{"type": "Ready", "status": "True"}]}


def asking(requests: Doc, *, on: str = "") -> Made:
    """A gang of one pod, read as pods are read."""
    made = gang("absurd", on=[on] if on else ())
    container = {"name": "main", "resources": {"requests": requests}}
    body = {"metadata": {"name": "p", "namespace": "ns"}, "spec": {"containers": [container]}}
    shape = Projector().pod(orjson.dumps(body)).shape
    return dataclasses.replace(made, pods=tuple(dataclasses.replace(each, shape=shape) for each in made.pods))


# --- nodes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "odd",
    [
        node(),
        node(status={}),
        node(status={"allocatable": None, "conditions": None}),
        node(status=READY),
        node(status={**READY, "allocatable": {"cpu": "-5", "memory": "-1Gi", "pods": "-10"}}),
        node(status={**READY, "allocatable": {"pods": "110"}}),
    ],
    ids=["no status", "empty status", "null status", "nothing allocatable", "negative", "pods only"],
)
def test_a_node_that_says_nothing_or_less_than_nothing_gets_no_pods_and_stops_nobody(odd: NodeView) -> None:
    found = decide([odd, *nodes(4)], gang("good", pods=4))
    assert {binding.node for binding in found.bindings} == {"n0"}


def test_a_node_with_absurd_amounts_is_a_large_node() -> None:
    huge = node("huge", status={**READY, "allocatable": {**ABSURD, "pods": "110"}})
    assert huge.allocatable["memory"] == MOST
    assert started(decide([huge], gang("good", pods=4))) == {"good": 4}


# --- pods ------------------------------------------------------------------------------------------------------------


def test_a_pod_that_asks_for_more_than_there_can_be_waits_and_the_others_start() -> None:
    found = decide(nodes(4), asking(ABSURD), gang("good", created="2026-01-02T00:00:00Z"))
    assert started(found) == {"good": 1}
    assert code(found, "absurd") in ("NotEnoughResources", "QueueFull")


def test_a_bound_pod_that_asks_for_more_than_there_can_be_fills_its_node_alone() -> None:
    found = decide(nodes(4, 4), asking(ABSURD, on="n0"), gang("good", pods=4, created="2026-01-02T00:00:00Z"), by=PLAIN)
    assert {binding.node for binding in found.bindings} == {"n1"}


def test_a_pod_that_asks_for_less_than_nothing_asks_for_nothing() -> None:
    found = decide(nodes(4), asking({"cpu": "-3"}), gang("good", pods=5))
    assert started(found) == {"absurd": 1}, "five pods of one cpu do not fit on four, whatever somebody takes back"


def test_pods_on_nodes_that_are_not_there_hold_nothing_of_those_that_are() -> None:
    found = decide(nodes(2), gang("lost", pods=2, on=["nowhere", "nowhere"]), gang("good", pods=2), by=PLAIN)
    assert started(found) == {"good": 2}


def test_a_pod_whose_node_comes_later_holds_its_room_from_then_on() -> None:
    inventory = Inventory()
    early = gang("early", cpu=3, on=["n0"]).pods[0]
    inventory.pod_changed(Change(("ns", early.name), None, early))
    (late,) = nodes(4)
    inventory.node_changed(Change(("", "n0"), None, late))
    assert inventory.room.free[0, 0] == 1000


# --- queues ----------------------------------------------------------------------------------------------------------

LOOP = [queue("default", parent="a"), queue("a", parent="b"), queue("b", parent="default"), queue("good")]


@pytest.mark.parametrize(
    "by", [PLAIN, configuration("gang", "proportion", "predicates"), configuration("gang", "capacity", "predicates")]
)
def test_queues_that_are_their_own_ancestors_stop_nobody(by: Any) -> None:
    found = decide(nodes(4), gang("inside"), gang("beside", queue="good"), queues=LOOP, by=by)
    assert started(found)["beside"] == 1


@pytest.mark.parametrize("text", ["{name: drf, enableHierarchy: true}", "{name: capacity, enableHierarchy: true}"])
def test_a_loop_of_queues_is_no_endless_way_up(text: str) -> None:
    by = configuration("gang", text, "predicates")
    assert started(decide(nodes(4), gang("beside", queue="good"), queues=LOOP, by=by)) == {"beside": 1}


@pytest.mark.parametrize("weight", [0, -3, 10**15])
def test_an_absurd_weight_of_one_queue_leaves_the_others_their_own(weight: int) -> None:
    queues = [queue("default", weight=weight), queue("good")]
    found = decide(nodes(4), gang("good", queue="good"), queues=queues)
    assert started(found) == {"good": 1}


@pytest.mark.parametrize("field", ["capability", "guarantee", "deserved"])
def test_an_absurd_amount_of_one_queue_stops_no_session(field: str) -> None:
    absurd: Doc = {field: ResourceVector.from_quantities(ABSURD)}
    queues = [dataclasses.replace(queue("odd"), **absurd), queue("default")]
    for by in (configuration("gang", "proportion", "predicates"), configuration("gang", "capacity", "predicates")):
        decide(nodes(4), gang("good"), queues=queues, by=by)


# --- clocks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("now", [-1e12, 0.0, 1e15])
def test_a_clock_that_jumps_changes_no_placement(now: float) -> None:
    by = configuration("gang", "{name: sla, arguments: {sla-waiting-time: 1m}}", "predicates")
    found = decide(nodes(4), gang("good"), now=now, by=by)
    assert started(found) == {"good": 1}


@pytest.mark.parametrize("created", ["", "yesterday", "9999-12-31T23:59:59Z"])
def test_a_time_that_is_none_is_an_order_like_any_other(created: str) -> None:
    assert started(decide(nodes(4), gang("odd", created=created), gang("good"))) == {"odd": 1, "good": 1}


# --- the whole member ------------------------------------------------------------------------------------------------


@pytest.mark.story
def test_a_member_with_odd_nodes_pods_and_queues_places_everybody_else() -> None:
    async def story(stage: Stage) -> None:
        east = Cluster(stage)
        port = stage.world.client(EAST)
        await port.create(kinds.NODE, {"metadata": {"name": "bare"}})
        await port.create(kinds.NODE, {"metadata": {"name": "huge"}, "spec": {"unschedulable": True}})
        status = {"status": {"allocatable": ABSURD, **READY}}
        await port.patch(kinds.NODE, "huge", status, type=PatchType.MERGE, subresource="status")
        for name, parent in (("a", "b"), ("b", "a")):
            spec = {"weight": 1, "parent": parent, "capability": {"cpu": "9E"}}
            await port.create(kinds.QUEUE, typed(kinds.QUEUE, {"metadata": {"name": name}, "spec": spec}))
        await east.create(kinds.POD, pod("absurd", cpu="9E"))
        lost = pod("lost")
        lost["spec"]["nodeName"] = "nowhere"
        await east.create(kinds.POD, lost)
        await stage.world.advance(10)
        await east.create(kinds.POD, pod("good"))
        await east.running("good")
        assert stage.running() == ["good"]

    play(story, member=Member(nodes=uniform("node", 1, cpu="4")))
