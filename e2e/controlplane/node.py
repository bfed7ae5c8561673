"""Real nodes: the member's network, and in each sandbox a containerd and a kubelet."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from e2e.controlplane import build, commands, render, system
from e2e.controlplane.certs import Authority
from e2e.controlplane.plan import ClusterPlan, NodePlan, containerd_socket
from e2e.controlplane.process import ProcessFailed, Programs, tail

START_TIMEOUT = 60.0
"""Seconds within which a sandbox, a relay or a container runtime must answer."""
CHECKOUT = Path(__file__).resolve().parents[2]


async def appear(path: Path, *, programs: Programs, name: str) -> None:
    """Waits for a file or socket that program `name` makes when it is ready."""
    try:
        async with asyncio.timeout(START_TIMEOUT):
            while not path.exists():
                programs.record(name)
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise ProcessFailed(f"{name} did not get ready within {START_TIMEOUT:.0f} s:\n{tail(programs.log(name))}") from None


def make_cgroup(node: NodePlan) -> None:
    """The node's own cgroup in every hierarchy: a kubelet insists that its root exists in each."""
    for root in system.cgroup_roots():
        folder = root / node.cgroup
        folder.mkdir(exist_ok=True)
        if (root / "cgroup.controllers").exists() and root.name != "unified":
            available = (root / "cgroup.controllers").read_text().split()
            (root / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in available))
            (folder / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in available))


def write_node_files(cluster: ClusterPlan, node: NodePlan, *, authority: Authority, machine: render.Machine) -> None:
    """Everything a node reads, in its folder."""
    for part in ("containerd/opt", "root", "certs", "cni", "podlogs", "volumeplugins"):
        (node.folder / part).mkdir(parents=True, exist_ok=True)
    for registry in ("_default", "docker.io"):
        hosts = node.folder / "registries" / registry
        hosts.mkdir(parents=True, exist_ok=True)
        (hosts / "hosts.toml").write_text(render.registry_hosts(cluster))
    identity = authority.client(f"system:node:{node.name}", groups=("system:nodes",))
    kubeconfig = render.kubeconfig(server=cluster.server_for_nodes, name=node.name, identity=identity)
    (node.folder / "kubeconfig").write_text(kubeconfig)
    (node.folder / "cni" / "10-pods.conflist").write_text(render.cni(node))
    (node.folder / "containerd" / "config.toml").write_text(render.containerd(node, cni_plugins=system.CNI_PLUGINS))
    config = render.kubelet(node, client_ca=cluster.certs / "ca.crt", shape=cluster.shape, machine=machine)
    (node.folder / "kubelet.yaml").write_text(config)


async def _ip(lines: Sequence[str], *, pid: int) -> None:
    """Runs `ip -batch` in the network namespace of `pid` (0: here)."""
    prefix = ["nsenter", f"--target={pid}", "--net", "--"] if pid else []
    process = await asyncio.create_subprocess_exec(
        *prefix, "ip", "-batch", "-", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    output, _ = await process.communicate("\n".join(lines).encode() + b"\n")
    if process.returncode:
        raise ProcessFailed(f"ip failed with status {process.returncode}: {output.decode(errors='replace')}")


async def start_sandboxes(cluster: ClusterPlan, *, programs: Programs) -> None:
    """The switch and every node's namespaces, cabled."""
    switch = programs.start("switch", command=commands.switch())
    sandboxes = {}
    for node in cluster.nodes:
        (node.folder / "sandbox-ready").unlink(missing_ok=True)
        sandboxes[node.number] = programs.start(f"sandbox-{node.number}", command=commands.sandbox(node), inner=True).pid
    for node in cluster.nodes:
        await appear(node.folder / "sandbox-ready", programs=programs, name=f"sandbox-{node.number}")
    for pid, lines in commands.ip_batch(cluster, switch_pid=switch.pid, sandbox_pids=sandboxes).items():
        await _ip(lines, pid=pid)


async def start_relay(cluster: ClusterPlan, *, programs: Programs, busybox: Path, images: Sequence[Mapping[str, Any]]) -> None:
    """The member's door to the host's loopback; returns when it listens."""
    config = cluster.folder / "relay.json"
    config.with_suffix(".ready").unlink(missing_ok=True)
    orders = render.relay(cluster, switch_pid=programs.record("switch").pid, busybox=busybox, images=images)
    config.write_text(json.dumps(orders))
    environment = {"PYTHONPATH": str(CHECKOUT)}
    programs.start("relay", command=commands.relay(sys.executable, config=config), environment=environment)
    await appear(config.with_suffix(".ready"), programs=programs, name="relay")


async def start_runtime(node: NodePlan, *, programs: Programs) -> None:
    """containerd inside the sandbox; returns when its socket is there."""
    containerd_socket(node).unlink(missing_ok=True)
    prefix = commands.inside(programs.record(f"sandbox-{node.number}").pid)
    name = f"containerd-{node.number}"
    programs.start(name, command=[*prefix, *commands.containerd(node)], inner=True)
    await appear(containerd_socket(node), programs=programs, name=name)


def start_kubelet(node: NodePlan, *, programs: Programs, built: build.Programs) -> None:
    """The kubelet inside the sandbox; the node registers a second later."""
    prefix = commands.inside(programs.record(f"sandbox-{node.number}").pid)
    programs.start(f"kubelet-{node.number}", command=[*prefix, *commands.kubelet(built, node=node)], inner=True)
