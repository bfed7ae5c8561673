from __future__ import annotations

import ipaddress
from itertools import combinations

import pytest

from e2e.controlplane.plan import Member, NodeShape, NodeSource
from tests.controlplane.builders import plan


def test_every_cluster_has_ports_of_its_own() -> None:
    clusters = plan({"east": Member(), "west": Member()}).clusters
    ports = [port for c in clusters for port in (c.ports.etcd_client, c.ports.etcd_peer, c.ports.apiserver, c.ports.kwok)]
    assert len(ports) == len(set(ports)) == 12


def test_networks_never_overlap() -> None:
    clusters = plan({"east": Member(nodes=100), "west": Member(nodes=3)}).clusters
    networks = [ipaddress.ip_network(c.service_subnet) for c in clusters]
    networks += [ipaddress.ip_network(node.pod_subnet) for c in clusters for node in c.nodes]
    networks += [ipaddress.ip_network(f"{c.switch_address}/24", strict=False) for c in clusters]
    assert not [pair for pair in combinations(networks, 2) if pair[0].overlaps(pair[1])]


def test_addresses_of_nodes_and_switch_are_distinct() -> None:
    east = plan({"east": Member(nodes=100)}).members[0]
    addresses = {node.address for node in east.nodes} | {east.switch_address}
    assert len(addresses) == 101


def test_the_hub_has_no_nodes() -> None:
    hub = plan({"east": Member()}).hub
    assert (hub.nodes, hub.kwok_nodes) == ((), ())


def test_automatic_members_follow_the_choice_and_others_do_not() -> None:
    made = plan({"east": Member(), "west": Member(source=NodeSource.REAL)}, automatic=NodeSource.KWOK)
    assert [c.source for c in made.members] == [NodeSource.KWOK, NodeSource.REAL]
    assert made.members[0].kwok_nodes == ("east-1", "east-2")
    assert [node.name for node in made.members[1].nodes] == ["west-1", "west-2"]


@pytest.mark.parametrize("name", ["hub", "East", "-east", "e" * 21, ""])
def test_a_bad_member_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="member name"):
        plan({name: Member()})


def test_too_many_members_are_refused() -> None:
    with pytest.raises(ValueError, match="61 members"):
        plan({f"m{n}": Member() for n in range(61)})


def test_too_many_real_nodes_are_refused() -> None:
    with pytest.raises(ValueError, match="101 real nodes"):
        plan({"east": Member(nodes=101)})


def test_a_work_directory_that_nodes_hide_is_refused() -> None:
    with pytest.raises(ValueError, match="/var/lib"):
        plan({"east": Member()}, work="/var/lib/x")


def test_a_work_directory_too_long_for_sockets_is_refused() -> None:
    with pytest.raises(ValueError, match="too long for a socket"):
        plan({"east": Member()}, work="/tmp/" + "x" * 100)


def test_a_shape_reads_as_a_node_spells_it() -> None:
    shape = NodeShape(cpu_millis=500, memory_mib=64, pods=7, extended={"example.com/gpu": 8})
    assert shape.quantities() == {"cpu": "500m", "memory": "64Mi", "pods": "7", "example.com/gpu": "8"}
