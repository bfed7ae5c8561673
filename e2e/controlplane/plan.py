"""What will be started: names, addresses, ports and folders of a federation, decided before anything happens. Pure.

Addresses. Member number i (the hub is 0) owns 10.(64+i).0.0/16, which exists only inside its own network namespaces:

    10.P.n.0/24      pods of node n (1 …)
    10.P.192.0/20    Service addresses (allocated by the API server, routed nowhere)
    10.P.255.n/24    node n;  10.P.255.254 is the switch, where API server and image registry are reached

API servers themselves listen on loopback of the host, so ordinary clients need nothing special.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

FIRST_NETWORK = 64
MAX_MEMBERS = 60
MAX_REAL_NODES = 100
SOCKET_PATH_LIMIT = 107
"""Bytes of a Unix socket path that the kernel accepts."""
SWITCH_API_PORT = 6443
SWITCH_REGISTRY_PORT = 5000
HIDDEN = ("/run", "/var/lib", "/var/log")
"""Folders that a node's sandbox covers with empty ones of its own."""

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,18}[a-z0-9])?")


class NodeSource(enum.StrEnum):
    """Where a member's nodes come from."""

    REAL = "real"
    """kubelet and containerd: pods are processes."""
    KWOK = "kwok"
    """Simulated by kwok: pods only change their status."""
    AUTO = "auto"
    """REAL where the machine can, as `system.choose` decides for the run."""


@dataclass(frozen=True, slots=True)
class NodeShape:
    """What one node offers: CPU in thousandths of a core, memory in MiB, pods; `extended` adds resources by name."""

    cpu_millis: int = 2000
    memory_mib: int = 2048
    pods: int = 110
    extended: Mapping[str, int] = field(default_factory=dict)

    def quantities(self) -> dict[str, str]:
        """As a Node's capacity spells it."""
        fixed = {"cpu": f"{self.cpu_millis}m", "memory": f"{self.memory_mib}Mi", "pods": str(self.pods)}
        return fixed | {name: str(amount) for name, amount in self.extended.items()}


@dataclass(frozen=True, slots=True)
class Member:
    """One member as asked for; node n is called `<member>-n` and gets `labels`."""

    nodes: int = 2
    source: NodeSource = NodeSource.AUTO
    shape: NodeShape = field(default_factory=NodeShape)
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterPorts:
    """Loopback ports of one control plane."""

    etcd_client: int
    etcd_peer: int
    apiserver: int
    kwok: int


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One real node: its name, folder, cgroup and addresses."""

    number: int
    name: str
    folder: Path
    cgroup: str
    address: str
    pod_subnet: str


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """One cluster; `nodes` holds real nodes only, `kwok_nodes` the names of simulated ones."""

    name: str
    folder: Path
    prefix: str
    ports: ClusterPorts
    source: NodeSource
    shape: NodeShape
    labels: Mapping[str, str] = field(default_factory=dict)
    nodes: tuple[NodePlan, ...] = ()
    kwok_nodes: tuple[str, ...] = ()

    @property
    def switch_address(self) -> str:
        return f"{self.prefix}.255.254"

    @property
    def service_subnet(self) -> str:
        return f"{self.prefix}.192.0/20"

    @property
    def server(self) -> str:
        """The API server as the host's programs reach it."""
        return f"https://127.0.0.1:{self.ports.apiserver}"

    @property
    def server_for_nodes(self) -> str:
        """The API server as kubelets reach it."""
        return f"https://{self.switch_address}:{SWITCH_API_PORT}"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def certs(self) -> Path:
        return self.folder / "certs"

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "admin.kubeconfig"

    @property
    def egress_socket(self) -> Path:
        return self.folder / "egress.sock"


@dataclass(frozen=True, slots=True)
class FederationPlan:
    """Everything of one run, under `work`; `run` is a short token that makes names unique on the machine."""

    run: str
    work: Path
    hub: ClusterPlan
    members: tuple[ClusterPlan, ...]

    @property
    def clusters(self) -> tuple[ClusterPlan, ...]:
        return (self.hub, *self.members)


def plan_federation(
    members: Mapping[str, Member], *, run: str, work: Path, ports: Iterator[int], automatic: NodeSource
) -> FederationPlan:
    """The plan; `automatic` is what AUTO means in this run, `ports` yields free ports.

    Raises ValueError naming what cannot be: bad names, too many members or nodes, a work directory that sandboxes would hide or
    that is too long for sockets.
    """
    if len(members) > MAX_MEMBERS:
        raise ValueError(f"{len(members)} members: at most {MAX_MEMBERS} fit the address plan")
    hidden = [folder for folder in HIDDEN if work.is_relative_to(folder)]
    if hidden:
        raise ValueError(f"work directory {work}: nodes hide {hidden[0]}, choose another place")
    hub = _cluster(
        "hub", Member(nodes=0, source=NodeSource.KWOK), index=0, run=run, work=work, ports=ports, automatic=automatic
    )
    planned = tuple(
        _cluster(name, member, index=index, run=run, work=work, ports=ports, automatic=automatic)
        for index, (name, member) in enumerate(members.items(), start=1)
    )
    return FederationPlan(run=run, work=work, hub=hub, members=planned)


def _cluster(
    name: str, member: Member, *, index: int, run: str, work: Path, ports: Iterator[int], automatic: NodeSource
) -> ClusterPlan:
    if not _NAME.fullmatch(name) or (name == "hub" and index > 0):
        raise ValueError(f"member name {name!r}: lower-case letters, digits and dashes, at most 20, and not 'hub'")
    source = automatic if member.source is NodeSource.AUTO else member.source
    prefix = f"10.{FIRST_NETWORK + index}"
    folder = work / name
    nodes: tuple[NodePlan, ...] = ()
    if source is NodeSource.REAL:
        if member.nodes > MAX_REAL_NODES:
            raise ValueError(f"member {name}: {member.nodes} real nodes, at most {MAX_REAL_NODES}")
        nodes = tuple(_node(name, n, prefix=prefix, folder=folder, run=run) for n in range(1, member.nodes + 1))
    kwok_nodes = tuple(f"{name}-{n}" for n in range(1, member.nodes + 1)) if source is NodeSource.KWOK else ()
    cluster_ports = ClusterPorts(*(next(ports) for _ in range(4)))
    plan = ClusterPlan(name, folder, prefix, cluster_ports, source, member.shape, member.labels, nodes, kwok_nodes)
    for socket in (plan.egress_socket, *(containerd_socket(node) for node in nodes)):
        if len(bytes(socket)) > SOCKET_PATH_LIMIT:
            raise ValueError(f"work directory {work}: {socket} is too long for a socket, choose a shorter place")
    return plan


def _node(cluster: str, number: int, *, prefix: str, folder: Path, run: str) -> NodePlan:
    return NodePlan(
        number=number,
        name=f"{cluster}-{number}",
        folder=folder / f"n{number}",
        cgroup=f"vf-{run}-{cluster}-{number}",
        address=f"{prefix}.255.{number}",
        pod_subnet=f"{prefix}.{number}.0/24",
    )


def containerd_socket(node: NodePlan) -> Path:
    """Where the node's container runtime listens."""
    return node.folder / "containerd" / "c.sock"
