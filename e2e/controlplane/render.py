"""Configuration files of the programs, as text. Pure; the facts behind each key are in the comments."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from e2e.controlplane.plan import SWITCH_REGISTRY_PORT, ClusterPlan, NodePlan, NodeShape, containerd_socket

PAUSE_IMAGE = "sandbox.local/pause:1"
"""Pulled from the stub registry like every other image."""
EVICTION_MIB = 10
"""Memory below which a kubelet evicts, MiB; it is taken off what pods get."""
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Machine:
    """What a kubelet sees of the machine."""

    cpu_millis: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Identity:
    """A client certificate with its authority, PEM."""

    authority: bytes
    certificate: bytes
    key: bytes


def kubeconfig(*, server: str, name: str, identity: Identity) -> str:
    """A self-contained kubeconfig; context and cluster are called `name`."""

    def inline(data: bytes) -> str:
        return base64.b64encode(data).decode()

    cluster = {"server": server, "certificate-authority-data": inline(identity.authority)}
    user = {"client-certificate-data": inline(identity.certificate), "client-key-data": inline(identity.key)}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
        },
        sort_keys=False,
    )


def egress_selector(cluster: ClusterPlan) -> str:
    """Makes the API server reach nodes and pods through the member's relay: they live in namespaces of their own."""
    transport = {"uds": {"udsName": str(cluster.egress_socket)}}
    connection = {"proxyProtocol": "HTTPConnect", "transport": transport}
    return yaml.safe_dump(
        {
            "apiVersion": "apiserver.k8s.io/v1beta1",
            "kind": "EgressSelectorConfiguration",
            "egressSelections": [{"name": "cluster", "connection": connection}],
        }
    )


RIGHTS_OF_CHARTS = ["system:serviceaccounts:federation-system", "volcano-federation:agents"]
"""Groups of programs whose rights come from the charts."""


def audit_policy() -> str:
    """Every finished write, by whom, without bodies; of programs under the rights of the charts every request."""
    rules = [
        {"level": "Metadata", "omitStages": ["RequestReceived"], "userGroups": RIGHTS_OF_CHARTS},
        {"level": "None", "verbs": ["get", "list", "watch"]},
        {"level": "Metadata", "omitStages": ["RequestReceived"]},
    ]
    return yaml.safe_dump({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules})


def containerd(node: NodePlan, *, cni_plugins: Path) -> str:
    """containerd 1.6. `restrict_oom_score_adj`: without CAP_SYS_RESOURCE no sandbox starts otherwise."""
    home = node.folder / "containerd"
    disabled = [
        *(f"io.containerd.snapshotter.v1.{name}" for name in ("btrfs", "zfs", "devmapper", "aufs")),
        "io.containerd.internal.v1.tracing",
        "io.containerd.tracing.processor.v1.otlp",
    ]
    cri = "io.containerd.grpc.v1.cri"
    return f"""version = 2
root = "{home}/root"
state = "{home}/state"
oom_score = 0
disabled_plugins = {json.dumps(disabled)}
[grpc]
  address = "{containerd_socket(node)}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{home}/opt"
[plugins."{cri}"]
  sandbox_image = "{PAUSE_IMAGE}"
  disable_apparmor = true
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  [plugins."{cri}".cni]
    bin_dir = "{cni_plugins}"
    conf_dir = "{node.folder}/cni"
  [plugins."{cri}".registry]
    config_path = "{node.folder}/registries"
  [plugins."{cri}".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."{cri}".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."{cri}".containerd.runtimes.runc.options]
        SystemdCgroup = false
"""


def registry_hosts(cluster: ClusterPlan) -> str:
    """hosts.toml for `_default` and docker.io: every registry name is answered by the stub on the switch."""
    stub = f"http://{cluster.switch_address}:{SWITCH_REGISTRY_PORT}"
    return f'server = "{stub}"\n[host."{stub}"]\n  capabilities = ["pull", "resolve"]\n'


def cni(node: NodePlan) -> str:
    """One bridge per node; containerd brings loopback itself."""
    ipam = {
        "type": "host-local",
        "dataDir": str(node.folder / "ipam"),
        "ranges": [[{"subnet": node.pod_subnet}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": False, "hairpinMode": True, "ipam": ipam}
    return json.dumps({"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]})


def system_reserved(shape: NodeShape, *, machine: Machine) -> dict[str, str]:
    """What to hold back so that a node's allocatable is exactly `shape`; ValueError when the machine is smaller."""
    cpu = machine.cpu_millis - shape.cpu_millis
    memory = machine.memory_bytes - (shape.memory_mib + EVICTION_MIB) * MIB
    if cpu < 0 or memory < 0:
        raise ValueError(
            f"a real node of {shape.cpu_millis}m CPU and {shape.memory_mib} MiB does not fit this machine of "
            f"{machine.cpu_millis}m and {machine.memory_bytes // MIB} MiB"
        )
    return {"cpu": f"{cpu}m", "memory": str(memory)}


def kubelet(node: NodePlan, *, client_ca: Path, shape: NodeShape, machine: Machine) -> str:
    """A kubelet that tolerates cgroup v1 and swap and stays inside its folder.

    resolvConf "": pods get loopback as name server, so no query leaves. AlwaysAllow is acceptable because the port exists
    only in the member's namespaces and x509 is required. Image GC is off: a full disk must not delete images under a test.
    """
    config: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": node.address,
        "port": 10250,
        "healthzBindAddress": "127.0.0.1",
        "healthzPort": 10248,
        "readOnlyPort": 0,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": False},
            "x509": {"clientCAFile": str(client_ca)},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": "/" + node.cgroup,
        "failCgroupV1": False,
        "failSwapOn": False,
        "containerRuntimeEndpoint": f"unix://{containerd_socket(node)}",
        "podLogsDir": str(node.folder / "podlogs"),
        "volumePluginDir": str(node.folder / "volumeplugins"),
        "resolvConf": "",
        "serializeImagePulls": False,
        "registryPullQPS": 0,
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {
            "memory.available": f"{EVICTION_MIB}Mi",
            "nodefs.available": "1%",
            "nodefs.inodesFree": "1%",
            "imagefs.available": "1%",
        },
        "maxPods": shape.pods,
        "systemReserved": system_reserved(shape, machine=machine),
    }
    return yaml.safe_dump(config)


def node_object(name: str, *, shape: NodeShape, labels: Mapping[str, str]) -> dict[str, Any]:
    """A Node for kwok to keep alive."""
    fixed = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "type": "kwok"}
    capacity = shape.quantities()
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**fixed, **labels}, "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "status": {"capacity": capacity, "allocatable": capacity},
    }


def relay(cluster: ClusterPlan, *, switch_pid: int, busybox: Path, images: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """The relay's orders, JSON; `images` maps name patterns to root file systems (see images.Table)."""
    return {
        "switch_pid": switch_pid,
        "address": cluster.switch_address,
        "api": {"listen": 6443, "connect": cluster.ports.apiserver},
        "registry": {"listen": SWITCH_REGISTRY_PORT, "busybox": str(busybox), "images": [dict(image) for image in images]},
        "egress": str(cluster.egress_socket),
    }
