"""Filters of nodes that need no other pod's opinion: names, host ports, claims of devices; and what is said of them."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as some

from member_agent.views import NodeView
from policies.neighbours import HostPort
from policies.selectors import NODE_NAME, Requirement, Taint
from policies.shapes import CLAIMS, PodShape
from tests.member_agent.scheduling.around import crew, faults, seats, spread
from tests.member_agent.scheduling.build import Made, configuration, decide, gang, nodes, places, started, why
from tests.member_agent.test_room import inventory, node, pod, shape

WITHOUT_PORTS = configuration("gang", "{name: predicates, arguments: {predicate.NodePortsEnable: false}}")


def porty(*ports: HostPort, cpu: int = 1) -> PodShape:
    return dataclasses.replace(shape(cpu), ports=ports, one_per_node=bool(ports))


def listening(name: str, *ports: HostPort, pods: int = 1, on: tuple[str, ...] = (), minimum: int | None = None) -> Made:
    return gang(name, pods=pods, minimum=minimum, shape=porty(*ports), on=on)


# --- host ports ------------------------------------------------------------------------------------------------------


def test_pods_with_one_port_get_a_node_each_and_say_so() -> None:
    found = decide(nodes(8, 8), listening("web", HostPort(80), pods=3))
    assert started(found) == {}
    assert "room for 2 of 3 pods" in why(found, "web")
    assert places(decide(nodes(8, 8), listening("web", HostPort(80), pods=2))) == {"n0": 1, "n1": 1}
    assert started(decide(nodes(8, 8), listening("web", HostPort(80), pods=3), by=WITHOUT_PORTS)) == {"web": 3}


def test_different_ports_share_a_node() -> None:
    found = decide(nodes(8), listening("a", HostPort(80)), listening("b", HostPort(81)), listening("c", HostPort(80, "UDP")))
    assert places(found) == {"n0": 3}


def test_a_port_on_one_address_leaves_the_others_free_but_not_all_of_them() -> None:
    one, other, every = HostPort(80, address="10.0.0.1"), HostPort(80, address="10.0.0.2"), HostPort(80)
    assert started(decide(nodes(8), listening("a", one), listening("b", other))) == {"a": 1, "b": 1}
    assert started(decide(nodes(8), listening("a", one), listening("b", every))) == {"a": 1}


def test_ports_of_other_schedulers_pods_are_taken() -> None:
    """A daemon of another shape has the port on one node."""
    foreign = dataclasses.replace(pod("daemon", porty(HostPort(80), cpu=2), group="", on="n0"), scheduler="default-scheduler")
    machines = [node("n0", cpu=8), node("n1", cpu=8)]
    room = inventory(machines, [foreign]).room
    assert room.capacity(porty(HostPort(80))).tolist() == [0, 1]
    assert room.capacity(porty(HostPort(81))).tolist() == [1, 1]
    assert "1 with a host port taken" in room.copy().explain(porty(HostPort(80)), count=2, placed=0)


def test_a_port_is_free_again_when_its_pod_was_given_back() -> None:
    room = inventory([node("n0", cpu=8)]).room.copy()
    spots = room.place_some(porty(HostPort(80)), 1)
    assert room.capacity(porty(HostPort(80), cpu=2)).tolist() == [0]
    room.give_back(spots)
    assert room.capacity(porty(HostPort(80), cpu=2)).tolist() == [1]


ports = some.lists(
    some.builds(
        HostPort, some.sampled_from([80, 81]), some.sampled_from(["TCP", "UDP"]), some.sampled_from(["0.0.0.0", "10.0.0.1"])
    ),
    max_size=2,
    unique=True,
)


@given(
    some.lists(some.integers(1, 4), min_size=1, max_size=4),
    some.lists(some.tuples(ports, some.integers(1, 3)), min_size=1, max_size=5),
)
@settings(deadline=None, max_examples=60)
def test_no_two_pods_of_a_node_want_the_same_port(sizes: list[int], described: list[tuple[list[HostPort], int]]) -> None:
    machines = nodes(*sizes)
    gangs = [listening(f"g{index}", *wanted, pods=pods, minimum=1) for index, (wanted, pods) in enumerate(described)]
    found = decide(machines, *gangs)
    newcomers = frozenset(one.uid for each in gangs for one in each.pods)
    assert faults(machines, seats(machines, gangs, found), newcomers=newcomers) == []


# --- names and labels ------------------------------------------------------------------------------------------------


def named(operator: str, *names: str) -> Made:
    return gang("g", shape=dataclasses.replace(shape(1), node_affinity=((Requirement(NODE_NAME, operator, names),),)))


def test_a_pod_may_ask_for_a_node_by_its_name() -> None:
    machines = [dataclasses.replace(each, labels={"kubernetes.io/hostname": f"host-{each.name}"}) for each in nodes(8, 8)]
    assert places(decide(machines, named("In", "n1"))) == {"n1": 1}
    assert places(decide(machines, named("NotIn", "n0"))) == {"n1": 1}
    assert started(decide(machines, named("In", "host-n1"))) == {}


def test_what_nobody_decides_is_said() -> None:
    found = decide(nodes(8), gang("g", shape=dataclasses.replace(shape(1), unknown=CLAIMS)))
    assert started(found) == {}
    assert "dynamic resource claims are not decided by this scheduler yet" in why(found, "g")


def test_terms_of_one_pod_are_all_met_at_once() -> None:
    """A selector, a taint, a port and spreading: what is left is one node for each of the two zones."""
    reserved = Taint("reserved", "", "NoSchedule")
    machines: list[NodeView] = [
        node("n0", cpu=8, zone="a", disk="ssd"),
        node("n1", cpu=8, zone="a", disk="hdd"),
        node("n2", cpu=8, zone="b", disk="ssd", taints=(reserved,)),
        node("n3", cpu=8, zone="b", disk="ssd"),
    ]
    made = crew("web", spread("web"), pods=2)
    of = dataclasses.replace(made.pods[0].shape, node_selector=(("disk", "ssd"),), ports=(HostPort(80),), one_per_node=True)
    both = dataclasses.replace(made, pods=tuple(dataclasses.replace(each, shape=of) for each in made.pods))
    assert places(decide(machines, both)) == {"n0": 1, "n3": 1}


def test_the_masks_of_a_layout_are_made_once() -> None:
    layout = inventory([node("n0", cpu=8, zone="a"), node("n1", cpu=8)]).room.layout
    picky = dataclasses.replace(shape(1), node_selector=(("zone", "a"),))
    assert layout.selected(picky) is layout.selected(dataclasses.replace(picky, requests=shape(2).requests))
    assert layout.topology("zone") is layout.topology("zone")
    assert layout.topology("zone").of_row.tolist() == [0, 1]
    assert np.array_equal(layout.tolerated(picky), [True, True])
