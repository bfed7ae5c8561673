from __future__ import annotations

from e2e.controlplane import commands
from e2e.controlplane.__main__ import exports, member_names
from e2e.controlplane.plan import Member, NodeSource
from tests.controlplane.builders import PROGRAMS, plan


def test_everything_listens_on_loopback() -> None:
    east = plan({"east": Member()}).members[0]
    assert "--bind-address=127.0.0.1" in commands.apiserver(PROGRAMS, cluster=east, audit=False)
    urls = [flag for flag in commands.etcd(PROGRAMS, cluster=east) if "http://" in flag]
    assert urls and all("http://127.0.0.1:" in flag for flag in urls)
    assert "--secure-port=0" in commands.controller_manager(PROGRAMS, cluster=east)


def test_only_an_api_server_with_real_nodes_reaches_into_their_network() -> None:
    made = plan({"east": Member(source=NodeSource.REAL), "west": Member(source=NodeSource.KWOK)})
    east, west = (commands.apiserver(PROGRAMS, cluster=c, audit=False) for c in made.members)
    assert any(flag.startswith("--egress-selector-config-file=") for flag in east)
    assert not any(flag.startswith("--egress-selector-config-file=") for flag in west)


def test_writes_are_audited_when_asked_for() -> None:
    hub = plan({"east": Member()}).hub
    assert not [flag for flag in commands.apiserver(PROGRAMS, cluster=hub, audit=False) if "audit" in flag]
    assert f"--audit-log-path={hub.folder / 'audit.log'}" in commands.apiserver(PROGRAMS, cluster=hub, audit=True)


def test_the_host_only_creates_cables_that_end_in_other_namespaces() -> None:
    east = plan({"east": Member(nodes=2)}).members[0]
    lines = commands.ip_batch(east, switch_pid=100, sandbox_pids={1: 201, 2: 202})
    assert lines[0] == [
        "link add port1 netns 100 type veth peer name eth0 netns 201",
        "link add port2 netns 100 type veth peer name eth0 netns 202",
    ]
    assert set(lines) == {0, 100, 201, 202}


def test_no_namespace_has_a_default_route() -> None:
    east = plan({"east": Member(nodes=2)}).members[0]
    lines = commands.ip_batch(east, switch_pid=100, sandbox_pids={1: 201, 2: 202})
    routes = [line for batch in lines.values() for line in batch if line.startswith("route")]
    assert sorted(set(routes)) == ["route add 10.65.1.0/24 via 10.65.255.1", "route add 10.65.2.0/24 via 10.65.255.2"]


def test_a_sandbox_hides_what_programs_hard_code() -> None:
    node = plan({"east": Member()}).members[0].nodes[0]
    command = commands.sandbox(node)
    assert {"--net", "--mount", "--pid"} < set(command)
    assert all(f"mount -t tmpfs tmpfs {folder}" in command[-1] for folder in ("/run", "/var/lib", "/var/log"))


def test_people_get_lines_for_their_shell() -> None:
    kubeconfigs = {cluster.name: cluster.kubeconfig for cluster in plan({"east": Member(), "member-5": Member()}).clusters}
    assert exports(kubeconfigs) == [
        "export HUB_KUBECONFIG=/tmp/work/hub/admin.kubeconfig",
        "export EAST_KUBECONFIG=/tmp/work/east/admin.kubeconfig",
        "export MEMBER_5_KUBECONFIG=/tmp/work/member-5/admin.kubeconfig",
    ]
    assert member_names(5) == ["east", "west", "north", "south", "member-5"]
