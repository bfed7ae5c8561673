"""The scheduler of a member on real API servers and kubelets, with its built-in configuration: gangs, queues, places, volumes.

All stories are told side by side, each on a stage of its own (e2e/stage.py). Evictions: e2e/test_evictions.py.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from apis import keys, kinds
from e2e.apply import Doc, apply, phase, wait_for, wait_ready
from e2e.controlplane.fleet import Federation
from e2e.flows import on, text
from e2e.jobs import counted, tell
from e2e.stage import Stage, Story, Theatre, condition, unschedulable, until
from machinery.kube import KubePort
from machinery.port import PatchType

pytestmark = [pytest.mark.issue(5), pytest.mark.usefixtures("real_nodes", "running")]

HOST = "kubernetes.io/hostname"


@pytest.fixture
async def theatre(federation: Federation, hub_port: KubePort, member_ports: dict[str, KubePort]) -> Theatre:
    await wait_ready(hub_port, kinds.CLUSTER, names=sorted(federation.members))
    return Theatre(federation, member_ports, run=str(int(time.time()) % 1_000_000))


@pytest.fixture
def folder(federation: Federation) -> Path:
    """A folder of this machine, which all real nodes share."""
    return federation.work / "volumes" / "scheduling"


# --- gangs -----------------------------------------------------------------------------------------------------------
async def gang(here: Stage) -> None:
    """All or nothing on a cluster that is full, beside a pod that somebody else bound; what waits says with numbers why."""
    await here.offer({"east-1": 5, "east-2": 5})
    filler = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "filler"}, "spec": here.pod(slots=1, nodeName="east-1")}
    await here.add(filler)
    await here.submit("first", here.task("worker", 7, slots=1), minimum=7)
    await here.runs("first", pods=7)
    first = await here.group("first", lambda doc: doc["status"].get("phase") == "Running")
    assert condition(first, "Scheduled")["status"] == "True"

    await here.submit("second", here.task("worker", 3, slots=1), minimum=3)
    group = await here.waits("second", "0 of 3 pods of the gang have nodes", "room for 2 of 3", here.resource)
    assert group["status"]["phase"] == "Inqueue"
    assert condition(group, "Unschedulable")["reason"] == "NotEnoughResources"
    assert await here.placed("second") == []
    await here.place.told("second-worker-0", reason="FailedScheduling", says="of 3 pods")
    job = await here.place.until(lambda doc: "of 3 pods" in str(doc["status"]["state"].get("message")), "second")
    assert phase(job) == "Pending"

    await here.submit("third", here.task("worker", 4, slots=1), minimum=4)
    outside = await here.waits("third", "of the cluster times 1.2", here.resource)
    assert outside["status"].get("phase", "Pending") == "Pending"
    assert await here.place.pods("third") == {}, "pods of a group that was not let in are not made"

    await here.place.delete("first")
    await here.runs("second", pods=3)
    await here.runs("third", pods=4)
    group = await here.group("second", lambda doc: doc["status"].get("phase") == "Running")
    assert unschedulable(group) == "" and condition(group, "Scheduled")["status"] == "True"


async def too_big(here: Stage) -> None:
    """What no cluster of this size could hold is not let in, evicts nobody, and says so; small Jobs go past it."""
    await here.offer({"east-1": 1, "east-2": 1})
    await here.submit("impossible", here.task("worker", 1, slots=100), minimum=1)
    await here.waits("impossible", here.resource)
    await here.submit("small", here.task("worker", 2, slots=1), minimum=2)
    await here.runs("small", pods=2)
    assert await here.placed("impossible") == []


async def mixed(here: Stage) -> None:
    """Pods that ask for nothing and pods that ask for something are one gang; the former also run where all is full."""
    await here.offer({"east-1": 1, "east-2": 1})
    await here.submit("both", here.task("asks", 2, slots=1), here.task("modest", 2), minimum=4)
    await here.runs("both", pods=4)
    await here.submit("nothing", here.task("modest", 2), minimum=2)
    await here.runs("nothing", pods=2)


async def queue_limit(here: Stage) -> None:
    """A queue lets in what it may hold; another queue goes on beside it."""
    await here.offer({"east-1": 2, "east-2": 2})
    narrow = await here.queue("narrow", weight=1, capability={here.resource: "2"})
    wide = await here.queue("wide", weight=1)
    await here.submit("first", here.task("worker", 2, slots=1), minimum=2, queue=narrow)
    await here.runs("first", pods=2)
    await here.submit("second", here.task("worker", 1, slots=1), minimum=1, queue=narrow)
    await here.waits("second", "QueueFull", narrow)
    await here.submit("beside", here.task("worker", 2, slots=1), minimum=2, queue=wide)
    await here.runs("beside", pods=2)
    assert await here.placed("second") == []
    await here.place.until(lambda doc: doc["status"].get("allocated", {}).get(here.resource) == "2", narrow, kind=kinds.QUEUE)
    await here.place.delete("first")
    await here.runs("second", pods=1)


async def gates(here: Stage) -> None:
    """A pod waits at the gate of its queue until the queue has room; who has passed holds its room until it is gone."""
    await here.offer({"east-1": 2, "east-2": 2})
    queue = await here.queue("narrow", weight=1, capability={here.resource: "1"})
    note = {keys.QUEUE_GATE: "true", "scheduling.volcano.sh/queue-name": queue}

    def gated(name: str) -> Doc:
        spec = here.pod(slots=1, schedulerName="volcano", schedulingGates=[{"name": keys.QUEUE_GATE}])
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": note}, "spec": spec}

    def running(doc: Doc) -> bool:
        return str(doc["status"].get("phase")) == "Running" and not doc["spec"].get("schedulingGates")

    await here.add(gated("first"))
    await here.place.until(running, "first", kind=kinds.POD)
    await here.add(gated("second"))
    group = f"podgroup-{(await here.place.get(kinds.POD, 'second'))['metadata']['uid']}"
    await here.place.until(lambda doc: bool(doc.get("status")), group, kind=kinds.POD_GROUP)
    assert (await here.place.get(kinds.POD, "second"))["spec"]["schedulingGates"] == [{"name": keys.QUEUE_GATE}]
    await here.place.delete("first", kind=kinds.POD)
    await here.place.until(running, "second", kind=kinds.POD)


# --- places ----------------------------------------------------------------------------------------------------------
def near(story: str, word: str, **labels: str) -> Doc:
    """Affinity (`podAffinity`) or anti-affinity (`podAntiAffinity`) to pods with these labels, node by node."""
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"story": story, **labels}}}
    return {"affinity": {word: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


async def affinity(here: Stage) -> None:
    """Pods go where the pod they want to be near is; there they wait for room although there is room elsewhere."""
    await here.offer({"east-1": 3, "east-2": 3})
    await here.submit("anchor", here.task("anchor", 1, slots=1), minimum=1)
    at = (await here.runs("anchor", pods=1))["anchor-0"]
    wish = near(here.name, "podAffinity", **{keys.JOB_NAME: "anchor"})
    await here.submit("near", here.task("worker", 2, slots=1, **wish), minimum=2)
    assert set((await here.runs("near", pods=2)).values()) == {at}
    await here.submit("late", here.task("worker", 1, slots=1, **wish), minimum=1)
    await here.waits("late", here.resource)
    assert await here.placed("late") == []


async def apart(here: Stage) -> None:
    """Pods that bear no other of their kind share no node: on two nodes there are two, and the third says why it waits."""
    wish = near(here.name, "podAntiAffinity", **{keys.JOB_NAME: "apart"})
    await here.offer({"east-1": 3, "east-2": 3})
    await here.submit("apart", here.task("worker", 3, slots=1, **wish), minimum=2)
    assert set((await here.runs("apart", pods=2)).values()) == {"east-1", "east-2"}
    pods = await here.place.pods_until("apart", lambda seen: len(seen) == 3)
    (left,) = [name for name, pod in pods.items() if not pod["spec"].get("nodeName")]
    await here.place.told(f"apart-{left}", reason="FailedScheduling")
    assert len(await here.placed("apart")) == 2


async def spread(here: Stage) -> None:
    """Four pods over two nodes with a skew of one are two and two, although one node alone would hold them."""
    await here.offer({"east-1": 4, "east-2": 2})
    rule = {
        "maxSkew": 1,
        "topologyKey": HOST,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"story": here.name}},
    }
    await here.submit("even", here.task("worker", 4, slots=1, topologySpreadConstraints=[rule]), minimum=4)
    nodes = sorted((await here.runs("even", pods=4)).values())
    assert nodes == ["east-1", "east-1", "east-2", "east-2"]


async def host_ports(here: Stage) -> None:
    """A port of a node is one pod's."""
    await here.offer({"east-1": 3, "east-2": 3})
    ports = [{"containerPort": 28_080, "hostPort": 28_080}]
    await here.submit("server", here.task("worker", 3, slots=1, ports=ports), minimum=2)
    assert set((await here.runs("server", pods=2)).values()) == {"east-1", "east-2"}
    await here.submit("whole", here.task("worker", 1, slots=1, ports=ports), minimum=1)
    await here.waits("whole", "port")
    await here.place.delete("server")
    await here.runs("whole", pods=1)


async def taints(here: Stage) -> None:
    """A tainted node is for those who tolerate it; a selector that no node matches is waited for."""
    taint = {"key": f"{here.name}/only", "value": "us", "effect": "NoSchedule"}
    node = "north-19"
    await here.port.patch(kinds.NODE, node, {"spec": {"taints": [taint]}}, type=PatchType.MERGE)
    try:
        await here.offer({node: 2})
        await here.submit("stranger", here.task("worker", 1, slots=1), minimum=1)
        await here.waits("stranger", "taint")
        tolerations = [{**taint, "operator": "Equal"}]
        await here.submit("guest", here.task("worker", 1, slots=1, tolerations=tolerations), minimum=1)
        assert set((await here.runs("guest", pods=1)).values()) == {node}
        await here.submit("picky", here.task("worker", 1, nodeSelector={"color": "none"}), minimum=1)
        await here.waits("picky", "selector")
        await here.submit("choosy", here.task("worker", 1, nodeSelector={HOST: "north-7"}), minimum=1)
        assert set((await here.runs("choosy", pods=1)).values()) == {"north-7"}
    finally:
        await here.port.patch(kinds.NODE, node, {"spec": {"taints": None}}, type=PatchType.MERGE)
    await here.runs("stranger", pods=1)


# --- volumes ---------------------------------------------------------------------------------------------------------
def local_volume(name: str, *, folder: Path, node: str, storage_class: str, claim: Doc | None = None) -> Doc:
    """A folder of one node as a volume; `claim` is whose it is already."""
    folder.mkdir(parents=True, exist_ok=True)
    terms = [{"matchExpressions": [{"key": HOST, "operator": "In", "values": [node]}]}]
    spec: Doc = {
        "capacity": {"storage": "1Mi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": storage_class,
        "local": {"path": str(folder)},
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
    }
    if claim is not None:
        spec["claimRef"] = claim
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def claim_of(name: str, *, storage_class: str, volume: str = "") -> Doc:
    spec: Doc = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": "1Mi"}},
    }
    if volume:
        spec["volumeName"] = volume
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def mounting(claim: str) -> Doc:
    """What a pod needs to see the claim under /data."""
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    return {"volumes": volumes, "mounts": [{"name": "data", "mountPath": "/data"}]}


def volumes(folder: Path) -> Story:
    """Stories about volumes whose folders are in `folder`."""

    async def local_volumes(here: Stage) -> None:
        await tell(prebound(here, folder / here.name), first_consumer(here, folder / here.name))

    return local_volumes


async def prebound(here: Stage, folder: Path) -> None:
    """Pods of a bound volume go to its node, two of them share it, and a pod that must be elsewhere waits."""
    reference = {"namespace": here.name, "name": "bound"}
    body = local_volume("bound", folder=folder / "bound", node="east-2", storage_class="", claim=reference)
    volume = await here.add_wide(body, kind=kinds.VOLUME)
    await here.add(claim_of("bound", storage_class="", volume=volume))
    await here.place.until(lambda doc: doc["status"].get("phase") == "Bound", "bound", kind=kinds.CLAIM)
    writer = here.task("writer", 1, command="echo written > /data/result; sleep 2", **mounting("bound"))
    reader = here.task("reader", 1, command="until cat /data/result; do sleep 1; done", **mounting("bound"))
    await here.submit("shared", writer, reader, minimum=2)
    await here.place.reach("shared", "Completed")
    pods = await here.place.pods("shared")
    assert {pod["spec"]["nodeName"] for pod in pods.values()} == {"east-2"}
    assert (await here.place.log("shared-reader-0")).endswith("written\n")
    elsewhere = here.task("worker", 1, nodeSelector={HOST: "east-1"}, **mounting("bound"))
    await here.submit("elsewhere", elsewhere, minimum=1)
    await here.waits("elsewhere", "volume")
    assert await here.placed("elsewhere") == []


async def first_consumer(here: Stage, folder: Path) -> None:
    """A claim that waits for its consumer gets the volume of the node that is chosen; one without a volume is waited for."""
    name = await here.add_wide(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "later"},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
        kind=kinds.STORAGE_CLASS,
    )
    volume = await here.add_wide(
        local_volume("free", folder=folder / "free", node="east-1", storage_class=name), kind=kinds.VOLUME
    )
    await here.add(claim_of("later", storage_class=name), claim_of("none-left", storage_class=name))
    await here.submit("consumer", here.task("worker", 1, command="echo kept > /data/kept", **mounting("later")), minimum=1)
    await here.place.reach("consumer", "Completed")
    assert (await here.place.pods("consumer"))["worker-0"]["spec"]["nodeName"] == "east-1"
    claim = await here.place.get(kinds.CLAIM, "later")
    assert (claim["spec"]["volumeName"], claim["status"]["phase"]) == (volume, "Bound")
    assert (folder / "free" / "kept").read_text() == "kept\n"
    await here.submit("unserved", here.task("worker", 1, **mounting("none-left")), minimum=1)
    await here.waits("unserved", "volume")


# --- other owners, and the hub ---------------------------------------------------------------------------------------
def template(here: Stage, **spec: Any) -> Doc:
    return {"metadata": {"labels": {"app": here.name}}, "spec": {**here.pod(slots=1, schedulerName="volcano", **spec)}}


async def deployment(here: Stage) -> None:
    """A Deployment with a minimum starts whole, once there is room for it."""
    await here.offer({"east-1": 1, "east-2": 1})
    await here.submit("before", here.task("worker", 1, slots=1), minimum=1)
    await here.runs("before", pods=1)
    pods = template(here)
    pods["spec"]["restartPolicy"] = "Always"
    note = {"scheduling.volcano.sh/group-min-member": "2"}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": here.name}}, "template": pods}
    await here.add(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "annotations": note}, "spec": spec}
    )
    (replicas,) = await until(lambda: here.place.all(kinds.REPLICA_SET), bool)
    group = f"podgroup-{replicas['metadata']['uid']}"
    await here.place.until(lambda doc: bool(unschedulable(doc)), group, kind=kinds.POD_GROUP)
    found = await here.place.all(kinds.POD, labels=f"app={here.name}")
    assert len(found) == 2 and not [pod for pod in found if pod["spec"].get("nodeName")]
    await here.place.delete("before")
    await here.place.until(lambda doc: doc["status"].get("readyReplicas") == 2, "web", kind=kinds.DEPLOYMENT)
    await here.place.until(lambda doc: doc["status"].get("phase") == "Running", group, kind=kinds.POD_GROUP)


async def kubernetes_job(here: Stage) -> None:
    """A Job of Kubernetes runs as a gang, and its PodGroup ends with it."""
    await here.offer({"east-1": 1, "east-2": 1})
    note = {"scheduling.volcano.sh/group-min-member": "2"}
    spec = {"parallelism": 2, "completions": 2, "template": template(here, command="sleep 2")}
    await here.add({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sums", "annotations": note}, "spec": spec})
    done = await here.place.until(lambda doc: doc["status"].get("succeeded") == 2, "sums", kind=kinds.BATCH_JOB)
    group = f"podgroup-{done['metadata']['uid']}"
    found = await here.place.until(lambda doc: doc["status"].get("phase") == "Completed", group, kind=kinds.POD_GROUP)
    assert found["spec"]["minMember"] == 2


def through(hub: KubePort, *, namespace: str) -> Story:
    """A story that begins at the hub."""

    async def from_hub(here: Stage) -> None:
        """A gang of the hub starts whole in a member where a Job of the member's own held its room, and not before."""
        await here.offer({"east-1": 2, "east-2": 2})
        await here.submit("own", here.task("worker", 2, slots=1), minimum=2)
        await here.runs("own", pods=2)
        spec = {"minAvailable": 3, "tasks": [here.task("worker", 3, slots=1)]}
        body = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "wide"}, "spec": spec}
        await apply(hub, text(on("east"), body), namespace=namespace)
        waiting = await wait_for(
            hub, kinds.JOB, "wide", namespace=namespace, until=lambda doc: bool(((doc or {}).get("status") or {}).get("state"))
        )
        assert phase(waiting) == "Pending"
        at_member = await here.port.list(kinds.POD, namespace=namespace)
        assert not [item for item in at_member.items if b'"nodeName"' in item]
        await here.place.delete("own")
        done = await wait_for(hub, kinds.JOB, "wide", namespace=namespace, until=lambda doc: phase(doc) == "Running")
        assert done is not None and counted(done, "running") == 3
        await hub.delete(kinds.JOB, "wide", namespace=namespace)

    return from_hub


async def test_gangs_queues_places_and_volumes(theatre: Theatre, folder: Path, hub_port: KubePort, namespace: str) -> None:
    east = (
        gang,
        too_big,
        mixed,
        queue_limit,
        gates,
        affinity,
        apart,
        spread,
        host_ports,
        volumes(folder),
        deployment,
        kubernetes_job,
        through(hub_port, namespace=namespace),
    )
    await tell(theatre.tell(*east, on="east"), theatre.tell(taints, on="north"))
