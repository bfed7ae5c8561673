from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
import yaml

from e2e.controlplane import kwok, render
from e2e.controlplane.plan import Member, NodeShape
from tests.controlplane.builders import plan

MACHINE = render.Machine(cpu_millis=2000, memory_bytes=24 << 30)


def test_what_is_reserved_leaves_exactly_the_shape() -> None:
    reserved = render.system_reserved(NodeShape(cpu_millis=500, memory_mib=1024), machine=MACHINE)
    assert reserved == {"cpu": "1500m", "memory": str((24 << 30) - (1024 + render.EVICTION_MIB) * render.MIB)}


@pytest.mark.parametrize("shape", [NodeShape(cpu_millis=2001), NodeShape(memory_mib=24 << 10)])
def test_a_node_larger_than_the_machine_is_refused(shape: NodeShape) -> None:
    with pytest.raises(ValueError, match="does not fit this machine"):
        render.system_reserved(shape, machine=MACHINE)


def test_a_kubelet_keeps_to_its_folder_cgroup_and_address() -> None:
    east = plan({"east": Member()}).members[0]
    text = render.kubelet(east.nodes[1], client_ca=Path("/ca.crt"), shape=NodeShape(), machine=MACHINE)
    config = yaml.safe_load(text)
    assert config["cgroupRoot"] == "/vf-abcde-east-2"
    assert config["address"] == "10.65.255.2"
    assert config["authentication"]["anonymous"]["enabled"] is False
    paths = [config["podLogsDir"], config["volumePluginDir"], config["containerRuntimeEndpoint"].removeprefix("unix://")]
    assert all(path.startswith("/tmp/work/east/n2/") for path in paths)


def test_containerd_keeps_to_its_folder_and_can_start_sandboxes() -> None:
    node = plan({"east": Member()}).members[0].nodes[0]
    config = tomllib.loads(render.containerd(node, cni_plugins=Path("/usr/lib/cni")))
    assert config["root"] == "/tmp/work/east/n1/containerd/root"
    cri = config["plugins"]["io.containerd.grpc.v1.cri"]
    assert cri["restrict_oom_score_adj"] is True
    assert cri["sandbox_image"] == render.PAUSE_IMAGE


def test_pods_get_addresses_of_their_node() -> None:
    node = plan({"east": Member()}).members[0].nodes[1]
    [bridge] = json.loads(render.cni(node))["plugins"]
    assert bridge["ipam"]["ranges"] == [[{"subnet": "10.65.2.0/24"}]]
    assert bridge["ipMasq"] is False


def test_a_kubeconfig_reads_back() -> None:
    identity = render.Identity(b"ca", b"crt", b"key")
    config = yaml.safe_load(render.kubeconfig(server="https://127.0.0.1:1", name="east", identity=identity))
    assert config["current-context"] == "east"
    assert config["users"][0]["user"]["client-key-data"] == "a2V5"


def test_a_simulated_node_offers_its_shape() -> None:
    node = render.node_object("east-1", shape=NodeShape(extended={"example.com/gpu": 2}), labels={"zone": "a"})
    assert node["status"]["capacity"] == node["status"]["allocatable"]
    assert node["status"]["capacity"]["example.com/gpu"] == "2"
    assert node["metadata"]["labels"]["zone"] == "a"


def test_a_simulated_pod_ends_by_its_annotations_and_keeps_its_finalizers() -> None:
    stages = {stage["metadata"]["name"]: stage["spec"] for stage in yaml.safe_load_all(kwok.configuration())}
    assert list(stages) == ["pod-run", "pod-end", "pod-stop", "pod-delete"]
    assert kwok.DURATION in stages["pod-end"]["delay"]["durationFrom"]["expressionFrom"]
    assert kwok.EXIT_CODE in stages["pod-end"]["next"]["statusTemplate"]
    assert not [name for name, spec in stages.items() if "finalizers" in spec["next"]]
