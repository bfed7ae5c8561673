"""nodegroup: queues keep to groups of nodes."""

from __future__ import annotations

import dataclasses
from typing import Any

import orjson
import pytest

from member_agent.scheduling.configuration import BadConfiguration, Configuration
from member_agent.scheduling.plugins.nodegroup import LABEL
from member_agent.views import NodeView, QueueView, project_queue
from member_agent.views.queues import NodeGroups
from tests.member_agent.scheduling.around import apart, crew
from tests.member_agent.scheduling.build import configuration, decide, gang, places, queue, started, why
from tests.member_agent.test_room import node


def machine(name: str, group: str = "", *, cpu: int = 4) -> NodeView:
    made = node(name, cpu=cpu)
    return dataclasses.replace(made, labels={**made.labels, LABEL: group}) if group else made


def bound(name: str = "q", *, under: str = "", **listed: Any) -> QueueView:
    return dataclasses.replace(queue(name, parent=under), node_groups=NodeGroups(**listed) if listed else None)


def by(**arguments: object) -> Configuration:
    flags = "".join(f", {name}: {str(arguments.pop(name)).lower()}" for name in list(arguments) if name.startswith("enable"))
    listed = ", ".join(
        f"{name.replace('preferredOrder', 'enablePreferredOrder')}: {str(value).lower()}" for name, value in arguments.items()
    )
    return configuration("gang", "predicates", f"{{name: nodegroup{flags}, arguments: {{{listed}}}}}")


MACHINES = [machine("a0", "a"), machine("b0", "b"), machine("c0", "c"), machine("x0")]


def test_pods_of_a_queue_go_to_the_groups_it_requires_and_nowhere_else() -> None:
    required = bound(required=("b",))
    found = decide(MACHINES, gang("g", pods=4, queue="q"), gang("h", queue="q"), queues=[required], by=by())
    assert places(found) == {"b0": 4}
    assert "ruled out by selector, affinity or taints" in why(found, "h")
    assert places(decide(MACHINES, gang("g", pods=4, queue="q"), queues=[required], by=configuration("gang"))) == {"a0": 4}


def test_two_queues_with_equal_pods_go_to_different_groups_in_one_session() -> None:
    gangs = [gang("g", pods=2, queue="q"), gang("h", pods=2, queue="r")]
    found = decide(MACHINES, *gangs, queues=[bound(required=("b",)), bound("r", required=("c",))], by=by())
    assert places(found) == {"b0": 2, "c0": 2}
    assert all(each.pod in gangs[0].pods + gangs[1].pods for each in found.bindings)


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ({"required": ("b", "c"), "never": ("b",)}, "c0"),
        ({"required": ("b",), "preferred": ("a",)}, "b0"),
        ({"required": ("a",), "rather_not": ("a", "b"), "preferred": ("c",)}, "c0"),
        ({"rather_not": ("b",)}, "b0"),
        ({"preferred": ("c", "a")}, "a0"),
    ],
)
def test_the_best_group_of_a_queue_is_taken_first(listed: dict[str, Any], expected: str) -> None:
    assert places(decide(MACHINES, gang("g", queue="q"), queues=[bound(**listed)], by=by())) == {expected: 1}


def test_what_pods_ask_of_the_pods_around_holds_within_a_group() -> None:
    machines = [machine("a0", "a"), machine("b0", "b"), machine("b1", "b")]
    made = crew("g", apart("g"), pods=2)
    queues = [dataclasses.replace(bound(required=("b",)), name="default")]
    assert places(decide(machines, made, queues=queues, by=by())) == {"b0": 1, "b1": 1}
    more = crew("h", apart("h"), pods=3)
    assert started(decide(machines, more, queues=queues, by=by())) == {}
    assert started(decide(machines, more, by=configuration("gang", "predicates"))) == {"h": 3}


def test_preferred_groups_go_in_their_order_where_that_is_asked_for() -> None:
    wants = [bound(preferred=("c", "a"))]
    assert places(decide(MACHINES, gang("g", queue="q"), queues=wants, by=by(preferredOrder=True))) == {"c0": 1}
    assert places(decide(MACHINES, gang("g", queue="q"), queues=wants, by=by(preferredOrder=False))) == {"a0": 1}
    unordered = by(preferredOrder=True, enableNodeOrder=False)
    assert places(decide(MACHINES, gang("g", queue="q"), queues=wants, by=unordered)) == {"a0": 1}


def test_nodes_without_a_group_take_queues_that_name_none_unless_it_is_strict() -> None:
    free = gang("g", pods=4, queue="q")
    assert started(decide(MACHINES, free, queues=[bound()], by=by())) == {}
    assert places(decide(MACHINES, free, queues=[bound()], by=by(strict=False))) == {"x0": 4}
    assert started(decide(MACHINES[3:], free, queues=[bound(required=("a",))], by=by(strict=False))) == {}


def test_with_hierarchy_a_queue_that_says_nothing_has_what_is_said_above_it() -> None:
    queues = [bound("top", required=("c",)), bound("q", under="top")]
    assert places(decide(MACHINES, gang("g", queue="q"), queues=queues, by=by(enableHierarchy=True))) == {"c0": 1}
    assert started(decide(MACHINES, gang("g", queue="q"), queues=queues, by=by())) == {}


def test_a_queue_names_its_groups_in_its_affinity() -> None:
    listed = {
        "requiredDuringSchedulingIgnoredDuringExecution": ["b", "b"],
        "preferredDuringSchedulingIgnoredDuringExecution": ["a"],
    }
    never = {"requiredDuringSchedulingIgnoredDuringExecution": ["c"]}
    spec = {"affinity": {"nodeGroupAffinity": listed, "nodeGroupAntiAffinity": never}}
    found = project_queue(orjson.dumps({"metadata": {"name": "q"}, "spec": spec}))
    assert found.node_groups == NodeGroups(required=("b",), preferred=("a",), never=("c",))
    assert project_queue(orjson.dumps({"metadata": {"name": "q"}})).node_groups is None


def test_arguments_that_mean_nothing_are_refused_by_name() -> None:
    with pytest.raises(BadConfiguration, match=r"arguments\.strict"):
        by(strict="perhaps")
    with pytest.raises(BadConfiguration, match=r"arguments\.loose"):
        by(loose=True)
