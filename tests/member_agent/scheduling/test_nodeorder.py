"""The scores of nodeorder that speak of preferred nodes, of images, and of pods around; each weight at 0 changes the plan."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

import orjson
import pytest

from machinery.informer import Change
from member_agent.layout import HOSTNAME
from member_agent.scheduling.configuration import Configuration
from member_agent.scheduling.decisions import Plan
from member_agent.views import NodeView, project_node
from policies.neighbours import Neighbours, Spread
from policies.selectors import NODE_NAME, Requirement
from tests.member_agent.scheduling.around import ZONE, beside, crew, crowd, machine, prefers
from tests.member_agent.scheduling.build import Made, configuration, decide, gang, places, started
from tests.member_agent.test_room import inventory, node, shape

MIB = 1 << 20


def by(**weights: int) -> Configuration:
    """The predicates, and nodeorder with these weights and no others."""
    names = (
        "leastrequested",
        "balancedresource",
        "tainttoleration",
        "nodeaffinity",
        "podaffinity",
        "imagelocality",
        "podtopologyspread",
    )
    said = ", ".join(f"{name}.weight: {weights.get(name, 0)}" for name in names)
    return configuration("gang", "predicates", f"{{name: nodeorder, arguments: {{{said}}}}}", actions="allocate")


def zones(*names: str, cpu: int = 8) -> list[NodeView]:
    return [machine(f"n{index}", cpu=cpu, zone=name) for index, name in enumerate(names)]


def by_zone(machines: list[NodeView], found: Plan) -> dict[str, int]:
    labels = {each.name: each.labels.get(ZONE, "-") for each in machines}
    return dict(Counter(labels[binding.node] for binding in found.bindings))


# --- nodes -----------------------------------------------------------------------------------------------------------


def wishing(*terms: tuple[Requirement, int]) -> Made:
    of = dataclasses.replace(shape(1), prefers=tuple(((term,), weight) for term, weight in terms))
    return gang("g", shape=of)


def test_a_pod_gets_a_node_that_it_would_rather_have() -> None:
    machines = zones("a", "b", "c")
    made = wishing((Requirement(ZONE, "In", ("b",)), 1), (Requirement(ZONE, "In", ("c",)), 5))
    assert places(decide(machines, made, by=by(nodeaffinity=2))) == {"n2": 1}
    assert places(decide(machines, made, by=by())) == {"n0": 1}


def test_a_wish_may_name_the_node() -> None:
    assert places(decide(zones("a", "a"), wishing((Requirement(NODE_NAME, "In", ("n1",)), 1)), by=by(nodeaffinity=1))) == {
        "n1": 1
    }


def test_a_wish_weighs_against_other_scores() -> None:
    machines = zones("a", "b")
    made = wishing((Requirement(ZONE, "In", ("b",)), 1))
    busy = gang("busy", pods=8, on=["n1"] * 7 + ["n0"])
    assert places(decide(machines, busy, made, by=by(nodeaffinity=2, leastrequested=1))) == {"n1": 1}
    assert places(decide(machines, busy, made, by=by(nodeaffinity=1, leastrequested=9))) == {"n0": 1}


# --- images ----------------------------------------------------------------------------------------------------------


def having(machine: NodeView, *images: tuple[str, int]) -> NodeView:
    return dataclasses.replace(machine, images=tuple(sorted(images)))


def wanting(*images: str) -> Made:
    return gang("g", shape=dataclasses.replace(shape(1), images=images))


def test_a_pod_goes_where_its_image_is() -> None:
    machines = [node("n0", cpu=8), having(node("n1", cpu=8), ("app:latest", 800 * MIB))]
    assert places(decide(machines, wanting("app"), by=by(imagelocality=1))) == {"n1": 1}
    assert places(decide(machines, wanting("app"), by=by())) == {"n0": 1}
    assert places(decide(machines, wanting("app:v2"), by=by(imagelocality=1))) == {"n0": 1}


@pytest.mark.parametrize(("size", "on"), [(10, "n0"), (60, "n1")])
def test_small_images_do_not_count(size: int, on: str) -> None:
    machines = [node("n0", cpu=8), having(node("n1", cpu=8), ("app:latest", size * MIB))]
    assert places(decide(machines, wanting("app"), by=by(imagelocality=1))) == {on: 1}


def test_an_image_that_is_pulled_later_counts_from_then_on() -> None:
    machines = [node("n0", cpu=8), node("n1", cpu=8)]
    found = inventory(machines)
    before = found.room.layout
    assert found.room.layout.has_image("app:latest").tolist() == [0, 0]
    version = found.layout_version
    found.node_changed(Change(("", "n1"), machines[1], having(machines[1], ("app:latest", 5))))
    assert found.room.layout.has_image("app:latest").tolist() == [0, 5]
    assert before.has_image("app:latest").tolist() == [0, 0]
    assert found.layout_version == version


def test_images_of_a_node_are_read_by_all_their_names() -> None:
    images = [{"names": ["b@sha256:1", "b:1"], "sizeBytes": 7}, {"names": ["a:1"], "sizeBytes": 3}]
    document = orjson.dumps({"metadata": {"name": "n"}, "status": {"images": images}})
    assert project_node(document).images == (("a:1", 3), ("b:1", 7), ("b@sha256:1", 7))
    assert project_node(document).images[0] is project_node(document).images[0]


# --- pods around -----------------------------------------------------------------------------------------------------


def test_a_pod_goes_near_those_it_likes_and_far_from_those_it_does_not() -> None:
    machines = zones("a", "b")
    db = crew("db", on=["n1"])
    assert by_zone(machines, decide(machines, db, crew("web", prefers("db", 10)), by=by(podaffinity=2))) == {"b": 1}
    assert by_zone(machines, decide(machines, db, crew("web", prefers("db", 10)), by=by())) == {"a": 1}
    far = crew("far", prefers("db", -10))
    assert by_zone(machines, decide(machines, crew("db", on=["n0"]), far, by=by(podaffinity=2))) == {"b": 1}


@pytest.mark.parametrize("asks", [prefers("web", 10), beside("web")], ids=["preferred", "required"])
def test_pods_that_run_draw_those_they_like(asks: Neighbours) -> None:
    machines = zones("a", "b")
    fond = crew("fond", asks, on=["n1"])
    assert by_zone(machines, decide(machines, fond, crew("web"), by=by(podaffinity=2))) == {"b": 1}
    assert by_zone(machines, decide(machines, fond, crew("web"), by=by())) == {"a": 1}


def test_a_gang_that_would_rather_keep_apart_does_as_far_as_there_are_nodes() -> None:
    machines = zones("a", "a", "a", cpu=16)
    made = crew("web", prefers("web", -10, by=HOSTNAME), pods=7)
    assert sorted(places(decide(machines, made, by=by(podaffinity=2))).values()) == [2, 2, 3]
    assert places(decide(machines, made, by=by())) == {"n0": 7}


def test_a_gang_that_would_rather_stay_together_does() -> None:
    machines = zones("a", "b", "a", "b", cpu=4)
    made = crew("web", prefers("web", 10), pods=6)
    assert len(by_zone(machines, decide(machines, made, by=by(podaffinity=9, leastrequested=1)))) == 1
    assert len(by_zone(machines, decide(machines, made, by=by(leastrequested=1)))) == 2


def soft(*labels: str) -> Neighbours:
    return Neighbours(spreads=tuple(Spread(crowd("web"), label, 1, hard=False) for label in labels))


def test_pods_that_would_rather_spread_go_where_few_of_their_kind_are() -> None:
    machines = zones("a", "b", cpu=16)
    old = crew("old", pods=3, on=["n0"] * 3, of="web")
    made = crew("web", soft(ZONE), pods=5)
    assert by_zone(machines, decide(machines, old, made, by=by(podtopologyspread=2))) == {"a": 1, "b": 4}
    assert by_zone(machines, decide(machines, old, made, by=by())) == {"a": 5}


def test_a_wish_to_spread_never_keeps_a_pod_out() -> None:
    machines = [*zones("a", cpu=8), node("n1", cpu=1, zone="b")]
    assert started(decide(machines, crew("web", soft(ZONE), pods=9), by=by(podtopologyspread=2))) == {"web": 9}


def test_nodes_without_the_label_are_the_last_to_be_taken() -> None:
    machines = zones("-", "a", cpu=2)
    assert places(decide(machines, crew("web", soft(ZONE), pods=3), by=by(podtopologyspread=2))) == {"n1": 2, "n0": 1}


def test_scores_of_pods_around_count_for_pods_without_wishes_only_if_somebody_has_any() -> None:
    machines = zones("a", "b")
    assert places(decide(machines, crew("db", on=["n0"]), crew("web", pods=2), by=by(podaffinity=2))) == {"n0": 2}


def test_the_same_gang_is_placed_alike_every_time() -> None:
    machines = zones("a", "b", "c", "a", cpu=16)
    kept: list[Any] = [decide(machines, crew("web", soft(ZONE, HOSTNAME), pods=11)).bindings for _ in range(2)]
    assert kept[0] == kept[1]
