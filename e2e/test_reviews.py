"""PlacementReviews on a real hub: stamped and guarded by its API server, answered under its rights, and true."""

from __future__ import annotations

import asyncio
from pathlib import Path

import orjson
import pytest

from apis import kinds
from e2e.apply import Doc, phase, wait_for, wait_ready
from e2e.controlplane.fleet import Federation
from e2e.programs import executable
from fedctl.reviewing import Status, ask
from machinery import errors
from machinery.clock import SystemClock
from machinery.kube import KubePort
from machinery.port import PatchType

pytestmark = pytest.mark.issue(6)

FLOWS = Path(__file__).parent.parent / "examples" / "flows"
RBAC = "rbac.authorization.k8s.io/v1"


def job(*, cpu: str, name: str = "train") -> Doc:
    """One pod."""
    resources = {"requests": {"cpu": cpu, "memory": "8Mi"}}
    container = {"name": "main", "image": "busybox:1.36", "command": ["sh", "-c", "sleep 1"], "resources": resources}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"minAvailable": 1, "queue": "default", "tasks": [{"name": "worker", "replicas": 1, "template": template}]}
    return {"apiVersion": kinds.JOB.api_version, "kind": kinds.JOB.kind, "metadata": {"name": name}, "spec": spec}


def policy(*, clusters: list[str]) -> Doc:
    """For the Job of that name."""
    kind = kinds.PROPAGATION_POLICY
    selector = {"apiVersion": kinds.JOB.api_version, "kind": kinds.JOB.kind, "name": "train"}
    placement = {"clusterAffinity": {"clusterNames": clusters}}
    spec = {"resourceSelectors": [selector], "placement": placement}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "narrow"}, "spec": spec}


async def asked(port: KubePort, namespace: str, **spec: object) -> Status:
    return await ask(port, spec, namespace=namespace, clock=SystemClock())


async def allow(port: KubePort, user: str, *resources: tuple[str, str], namespace: str, verbs: list[str]) -> None:
    """Give somebody rights in a namespace."""
    rules = [{"apiGroups": [group], "resources": [resource], "verbs": verbs} for group, resource in resources]
    base = f"/apis/{RBAC}/namespaces/{namespace}"
    name = f"{user}-{resources[0][1]}"
    role: Doc = {"apiVersion": RBAC, "kind": "Role", "metadata": {"name": name}, "rules": rules}
    subject = {"kind": "User", "name": user, "apiGroup": RBAC.partition("/")[0]}
    ref = {"kind": "Role", "name": name, "apiGroup": RBAC.partition("/")[0]}
    binding: Doc = {"apiVersion": RBAC, "kind": "RoleBinding", "metadata": {"name": name}, "subjects": [subject]}
    await port.request("POST", f"{base}/roles", body=role)
    await port.request("POST", f"{base}/rolebindings", body={**binding, "roleRef": ref})


async def test_the_named_change_starts_a_waiting_job(running: Federation, hub_port: KubePort, namespace: str) -> None:
    await wait_ready(hub_port, kinds.CLUSTER, names=sorted(running.members))
    small = await asked(hub_port, namespace, manifest=job(cpu="10m"))
    assert (small["outcome"], len(small["placements"])) == ("Starts", 1), small
    await hub_port.create(kinds.PROPAGATION_POLICY, policy(clusters=["east"]), namespace=namespace)
    await hub_port.create(kinds.JOB, job(cpu="8"), namespace=namespace)  # no node of east is that large
    await wait_for(hub_port, kinds.JOB, "train", namespace=namespace, until=lambda doc: phase(doc) == "Pending")
    waits = await asked(hub_port, namespace, job="train")
    assert (waits["outcome"], waits["policy"]) == ("Waits", f"PropagationPolicy {namespace}/narrow"), waits
    assert [each["change"] for each in waits["cheapest"]["changes"]] == ["AnyCluster"], waits
    wide = {"spec": {"placement": {"clusterAffinity": None}}}
    await hub_port.patch(kinds.PROPAGATION_POLICY, "narrow", wide, type=PatchType.MERGE, namespace=namespace)
    done = ("Running", "Completed")
    await wait_for(hub_port, kinds.JOB, "train", namespace=namespace, until=lambda doc: phase(doc) in done, timeout=60)
    placed = await asked(hub_port, namespace, job="train")
    assert placed["outcome"] in ("Runs", "Ended"), placed


async def test_a_tenant_asks_in_his_own_name_and_learns_what_he_may(
    running: Federation, hub_port: KubePort, namespace: str
) -> None:
    reviews = (kinds.PLACEMENT_REVIEW.group, kinds.PLACEMENT_REVIEW.plural)
    await allow(hub_port, "ann", reviews, namespace=namespace, verbs=["create", "get", "delete"])
    ann = await KubePort.from_kubeconfig(str(running.hub.kubeconfig_for("ann", groups=("tenants",))))
    try:
        refused = await asked(ann, namespace, manifest=job(cpu="10m"), creator={"username": "kubernetes-admin"})
        assert (refused["reason"], "ann may not create" in refused["message"]) == ("Denied", True), refused
        await allow(hub_port, "ann", (kinds.JOB.group, kinds.JOB.plural), namespace=namespace, verbs=["create"])
        told = await asked(ann, namespace, manifest=job(cpu="10m"))
        assert (told["outcome"], "clusters" in told) == ("Starts", False), told
        with pytest.raises(errors.Forbidden):
            await asked(ann, "default", manifest=job(cpu="10m"))
        kind = kinds.PLACEMENT_REVIEW
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "mine"}, "spec": {"job": "nobody"}}
        made = orjson.loads(await ann.create(kind, body, namespace=namespace))
        assert made["spec"]["creator"]["username"] == "ann"
        with pytest.raises(errors.Invalid, match="asked once"):
            change = {"spec": {"job": "other"}}
            await hub_port.patch(kind, "mine", change, type=PatchType.MERGE, namespace=namespace)
    finally:
        await ann.close()


async def test_fedctl_plans_an_example_and_makes_nothing(running: Federation, hub_port: KubePort, namespace: str) -> None:
    command = [executable("fedctl"), "plan", str(FLOWS / "training.yaml"), "-n", namespace]
    command += ["--kubeconfig", str(running.hub.kubeconfig)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT)
    out, _ = await process.communicate()
    said = out.decode()
    assert process.returncode == 0, said
    assert "JobFlow training" in said
    assert "train" in said
    assert (await hub_port.list(kinds.JOB_FLOW, namespace=namespace)).items == []
    assert (await hub_port.list(kinds.PLACEMENT_REVIEW, namespace=namespace)).items == []
