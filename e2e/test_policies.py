"""The examples of policies on a hub and three members of different price, region and size; each goes where it says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from apis import kinds, naming
from apis.kinds import Kind
from e2e.apply import Doc, apply, phase, wait_for, wait_ready
from e2e.controlplane.fleet import Federation
from machinery import errors
from machinery.kube import KubePort
from machinery.port import PatchType

pytestmark = pytest.mark.issue(6)

FOLDER = Path(__file__).parent.parent / "examples" / "policies"
JOBS = {
    "affinity": {"west": 2},
    "affinity-terms": {"west": 2},
    "cost-first": {"west": 2},
    "default-policy": {"west": 2},
    "divided-by-weight": {"east": 1, "west": 3},
    "efficiency-first": {"east": 2},
    "federated-quota": {"west": 2},
    "override": {"west": 2},
    "priority": {"west": 2},
    "propagate-deps": {"west": 1},
    "spot": {"west": 2},
    "spread": {"east": 1, "west": 1},
    "suspension": {"west": 2},
}
PLACES = {
    "east": {"region": "eu", "provider": "own"},
    "west": {"region": "us", "provider": "own"},
    "north": {"region": "eu", "provider": "cloud"},
}
DEAR_AND_SLOW = {"currency": "EUR", "classes": [{"name": "all", "prices": {"cpu": "9", "memory": "0"}, "throughput": "0.5"}]}


@pytest.fixture(autouse=True)
async def different(running: Federation, hub_port: KubePort) -> AsyncIterator[None]:
    """East, west and north differ in region and size; the large one is dear and slow. Offers go again with the story."""
    await wait_ready(hub_port, kinds.CLUSTER, names=sorted(running.members))
    for name, place in PLACES.items():
        await hub_port.patch(kinds.CLUSTER, name, {"spec": place}, type=PatchType.MERGE)
    north: Doc = {"apiVersion": kinds.CLUSTER_OFFER.api_version, "kind": kinds.CLUSTER_OFFER.kind}
    north |= {"metadata": {"name": "north"}, "spec": DEAR_AND_SLOW}
    await hub_port.patch(kinds.CLUSTER_OFFER, "north", north, type=PatchType.APPLY, field_manager="kubectl")
    yield
    for name in PLACES:
        await gone(hub_port, kinds.CLUSTER_OFFER, name)


async def gone(port: KubePort, kind: Kind, name: str, *, namespace: str | None = None) -> None:
    """Delete it, and wait until it is gone."""
    try:
        await port.delete(kind, name, namespace=namespace)
    except errors.NotFound:
        return
    await wait_for(port, kind, name, namespace=namespace, until=lambda doc: doc is None)


def documents(name: str) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all((FOLDER / f"{name}.yaml").read_text()) if each]


async def clear(port: KubePort, name: str, *, namespace: str) -> None:
    """Everything of an example goes, the last first."""
    for each in reversed(documents(name)):
        kind = next(kind for kind in vars(kinds).values() if isinstance(kind, Kind) and _is(kind, each))
        await gone(port, kind, each["metadata"]["name"], namespace=namespace if kind.namespaced else None)
    binding = naming.binding_name("train")
    await wait_for(port, kinds.RESOURCE_BINDING, binding, namespace=namespace, until=lambda doc: doc is None)


def _is(kind: Kind, doc: Doc) -> bool:
    return (kind.api_version, kind.kind) == (doc["apiVersion"], doc["kind"])


@pytest.mark.timeout(900)  # one after the other: each has its pods, which take half a minute to be told to go
async def test_every_job_of_the_examples_goes_where_it_says(
    namespace: str, hub_port: KubePort, member_ports: dict[str, KubePort]
) -> None:
    for name, places in sorted(JOBS.items()):
        await apply(hub_port, (FOLDER / f"{name}.yaml").read_text(), namespace=namespace)
        binding = await wait_for(
            hub_port,
            kinds.RESOURCE_BINDING,
            naming.binding_name("train"),
            namespace=namespace,
            until=lambda doc: bool(doc and doc["spec"].get("clusters")),
        )
        assert binding is not None
        assert {each["name"]: each["replicas"] for each in binding["spec"]["clusters"]} == places, name
        if name == "override":  # nobody serves that registry here: what the member got is enough
            made = await wait_for(
                member_ports["west"], kinds.JOB, "train", namespace=namespace, until=lambda doc: doc is not None
            )
            container = (made or {})["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
            assert container["image"] == "mirror.example/busybox:1.36"
        else:
            await wait_for(hub_port, kinds.JOB, "train", namespace=namespace, until=lambda doc: phase(doc) == "Running")
        await clear(hub_port, name, namespace=namespace)


async def test_a_kubernetes_job_is_kept_by_the_hub_run_by_a_member_and_its_end_comes_home(
    namespace: str, hub_port: KubePort, member_ports: dict[str, KubePort], real_nodes: None
) -> None:
    await apply(hub_port, (FOLDER / "kubernetes-job.yaml").read_text(), namespace=namespace)

    def complete(doc: Doc | None) -> bool:
        listed = ((doc or {}).get("status") or {}).get("conditions") or []
        return any((each["type"], each["status"]) == ("Complete", "True") for each in listed)

    await wait_for(member_ports["west"], kinds.BATCH_JOB, "count", namespace=namespace, until=complete)
    done = await wait_for(hub_port, kinds.BATCH_JOB, "count", namespace=namespace, until=complete)
    assert done is not None and done["status"]["succeeded"] == 2
    assert not (await hub_port.list(kinds.POD, namespace=namespace)).items, "nothing runs at the hub"
    await hub_port.delete(kinds.BATCH_JOB, "count", namespace=namespace)
    await wait_for(member_ports["west"], kinds.BATCH_JOB, "count", namespace=namespace, until=lambda doc: doc is None)


async def test_plain_objects_are_in_all_clusters_and_differ_where_an_override_says(
    namespace: str, hub_port: KubePort, member_ports: dict[str, KubePort]
) -> None:
    await apply(hub_port, (FOLDER / "plain-objects.yaml").read_text(), namespace=namespace)
    for name, registry in (("east", "registry.example"), ("west", "mirror.west.example")):
        found = await wait_for(
            member_ports[name], kinds.CONFIGMAP, "endpoints", namespace=namespace, until=lambda doc: doc is not None
        )
        assert (found or {})["data"] == {"registry": registry}
    policy = {"spec": {"placement": {"clusterAffinity": {"clusterNames": ["east"]}}}}
    await hub_port.patch(kinds.PROPAGATION_POLICY, "endpoints", policy, type=PatchType.MERGE, namespace=namespace)
    await wait_for(member_ports["west"], kinds.CONFIGMAP, "endpoints", namespace=namespace, until=lambda doc: doc is None)
    marked = orjson.loads(await hub_port.get(kinds.CONFIGMAP, "endpoints", namespace=namespace))
    assert marked["metadata"]["annotations"]["propagationpolicy.karmada.io/name"] == "endpoints"
