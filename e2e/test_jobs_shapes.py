"""What pods of Jobs find on real nodes: host files, environment, keys, services, volumes; and pods of other owners.

The manifests are those of examples/jobs, applied at a member as they are; the stories of one test are told side by side.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from apis import keys, kinds, naming
from e2e.apply import Doc, phase, wait_ready
from e2e.controlplane.fleet import Federation
from e2e.jobs import Place, ended, environment, in_phase, place, tell
from machinery.kube import KubePort

pytestmark = [pytest.mark.issue(4), pytest.mark.usefixtures("real_nodes", "running")]


@pytest.fixture
async def west(
    federation: Federation, hub_port: KubePort, member_ports: dict[str, KubePort], namespace: str
) -> AsyncIterator[Place]:
    """The test's namespace in a member with real nodes, its agent at work."""
    await wait_ready(hub_port, kinds.CLUSTER, names=["west"])
    async with place(federation.members["west"], member_ports["west"], namespace=namespace) as found:
        yield found


async def completed(west: Place, name: str) -> tuple[Doc, dict[str, Doc]]:
    """The Job when it is Completed, and its pods."""
    job = await west.reach(name, "Completed", "Failed", "Terminated", "Aborted")
    assert phase(job) == "Completed", job["status"]
    return job, await west.pods(name)


def owned_by(doc: Doc, job: Doc) -> bool:
    """The Job is its controller, so that it goes with the Job."""
    (owner,) = doc["metadata"]["ownerReferences"]
    return bool(owner["uid"] == job["metadata"]["uid"] and owner["controller"])


# --- plugins ---------------------------------------------------------------------------------------------------------
async def pods_find_each_other(west: Place) -> None:
    name = "plugin-svc"
    await west.apply(name)
    hosts = {
        "ps": ["plugin-svc-ps-0.plugin-svc"],
        "worker-pool": ["plugin-svc-worker-pool-0.plugin-svc", "plugin-svc-worker-pool-1.plugin-svc"],
    }
    job = await west.started(name, pods=3)
    service, config, policy = (
        await west.get(kinds.SERVICE, name),
        await west.get(kinds.CONFIGMAP, f"{name}-svc"),
        await west.get(kinds.NETWORK_POLICY, name),
    )
    await west.reach(name, "Running")
    await addresses_are_published(west, name, pods={"plugin-svc-ps-0", "plugin-svc-worker-pool-0", "plugin-svc-worker-pool-1"})
    _, pods = await completed(west, name)
    for pod in pods.values():
        assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == (pod["metadata"]["name"], name)
        said = (await west.log(pod["metadata"]["name"])).splitlines()
        for task, names in hosts.items():
            upper = task.upper().replace("-", "_")
            assert f"{task}.host={' '.join(names)}" in [line.replace(",", " ").strip() for line in said]
            assert f"env VC_{upper}_HOSTS={','.join(names)}" in said
            assert f"env VC_{upper}_NUM={len(names)}" in said
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {keys.JOB_NAME: name, keys.JOB_NAMESPACE: west.namespace}
    assert config["data"]["ps.host"].split() == hosts["ps"]
    assert config["data"]["worker-pool.host"].split() == hosts["worker-pool"]
    mine = {"matchLabels": {keys.JOB_NAME: name, keys.JOB_NAMESPACE: west.namespace}}
    assert policy["spec"]["podSelector"] == mine
    assert policy["spec"]["ingress"] == [{"from": [{"podSelector": mine}]}]
    assert all(owned_by(each, job) for each in (service, config, policy))


async def addresses_are_published(west: Place, name: str, *, pods: set[str]) -> None:
    """The Service leads to the pods by their host names: what a name server would answer from."""
    path = (
        f"/apis/discovery.k8s.io/v1/namespaces/{west.namespace}/endpointslices?labelSelector=kubernetes.io/service-name={name}"
    )
    slices = (await west.api.get(path))["items"]
    found = {each.get("hostname") for part in slices for each in part.get("endpoints") or []}
    assert found <= pods
    assert found, "no pod is published"


async def options_of_svc_are_followed(west: Place) -> None:
    name = "plugin-svc-options"
    await west.apply(name)
    await west.started(name, pods=2)
    assert (await west.get(kinds.SERVICE, name))["spec"]["publishNotReadyAddresses"] is True
    assert name not in [each["metadata"]["name"] for each in await west.all(kinds.NETWORK_POLICY)]
    await completed(west, name)
    said = await west.log(f"{name}-worker-0")
    assert "worker.host=" in said
    assert "env VC_WORKER_HOSTS" not in said


async def pods_hold_the_keys_of_their_job(west: Place) -> None:
    name = "plugin-ssh"
    await west.apply(name)
    job = await west.started(name, pods=2)
    secret = await west.get(kinds.SECRET, f"{name}-ssh")
    assert owned_by(secret, job)
    data = {file: base64.b64decode(text) for file, text in secret["data"].items()}
    assert set(data) == {"id_rsa", "id_rsa.pub", "authorized_keys", "config"}
    words = re.findall(rb"-----BEGIN ([A-Z ]*)PRIVATE KEY-----", data["id_rsa"])
    load = serialization.load_ssh_private_key if words == [b"OPENSSH "] else serialization.load_pem_private_key
    public = load(data["id_rsa"], password=None).public_key()
    text = public.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    assert data["id_rsa.pub"].split()[:2] == text.split()[:2]
    _, pods = await completed(west, name)
    for pod in pods:
        said = await west.log(f"{name}-{pod}")
        assert re.search(r"^-rw------- .* id_rsa$", said, flags=re.MULTILINE)
        assert text.decode() in said
        assert "\nsame\n" in said
        assert all(f"{name}-node-{index}" in said for index in range(2))


async def containers_know_their_index(west: Place) -> None:
    await west.apply("plugin-env")
    await completed(west, "plugin-env")
    for index in range(3):
        assert await west.log(f"plugin-env-worker-{index}") == f"index {index} and {index}\n"


async def pods_are_ranked(west: Place) -> None:
    await west.apply("plugin-hcclrank")
    _, pods = await completed(west, "plugin-hcclrank")
    ranks = {name: pod["metadata"]["annotations"]["hccl/rankIndex"] for name, pod in pods.items()}
    assert ranks == {"master-0": "0", "worker-0": "1", "worker-1": "2"}


async def mpi_starts_ranks_on_its_workers(west: Place) -> None:
    await west.apply("mpi")
    _, pods = await completed(west, "mpi")
    workers = [f"mpi-mpiworker-{index}.mpi" for index in range(2)]
    assert environment(pods["mpimaster-0"])["MPI_HOST"] == ",".join(workers)
    said = (await west.log("mpi-mpimaster-0")).splitlines()
    assert said == [f"Hello world from processor {host}, rank {rank} out of 2 processors" for rank, host in enumerate(workers)]
    assert set(pods) == {"mpimaster-0"}, "workers are stopped when the master is done"


async def pytorch_knows_ranks_and_master(west: Place) -> None:
    await west.apply("pytorch")
    _, pods = await completed(west, "pytorch")
    ranks = {"master-0": 0, "worker-0": 1, "worker-1": 2}
    master = "pytorch-master-0.pytorch"
    for pod in pods:
        said = await west.log(f"pytorch-{pod}")
        assert said == f"MASTER_ADDR={master}\nMASTER_PORT=23456\nWORLD_SIZE=3\nRANK={ranks[pod]}\n"
    ports = pods["master-0"]["spec"]["containers"][0]["ports"]
    assert {"name": "pytorchjob-port", "containerPort": 23456, "protocol": "TCP"} in ports


async def tensorflow_knows_its_cluster(west: Place) -> None:
    await west.apply("tensorflow")
    await west.pods_until("tensorflow", lambda pods: len(pods) == 3)
    _, pods = await completed(west, "tensorflow")
    for index in range(2):
        config = json.loads(await west.log(f"tensorflow-worker-{index}"))
        assert config["cluster"]["ps"] == ["tensorflow-ps-0.tensorflow:2222"]
        assert config["cluster"]["worker"] == [f"tensorflow-worker-{each}.tensorflow:2222" for each in range(2)]
        assert config["task"] == {"type": "worker", "index": index}
    assert set(pods) == {"worker-0", "worker-1"}, "the parameter server is stopped when the workers are done"


async def ray_has_a_head_and_workers(west: Place) -> None:
    await west.apply("ray")
    job = await west.reach("ray", "Running")
    service = await west.get(kinds.SERVICE, "ray-head-svc")
    assert owned_by(service, job)
    assert {each["name"]: each["port"] for each in service["spec"]["ports"]} == {
        "gcs": 6379,
        "dashboard": 8265,
        "client-server": 10001,
    }
    head, *workers = [await west.log(f"ray-{pod}") for pod in ("head-0", "worker-0", "worker-1")]
    assert head.startswith("ray start")
    assert "--head" in head
    assert "--port=6379" in head
    for said in workers:
        assert said.startswith("ray start")
        assert "--head" not in said
        assert re.search(r"--address=\S*ray\S*:6379", said), said
    await west.delete("ray")
    await west.gone("ray-head-svc", kind=kinds.SERVICE)


async def spark_starts_executors_after_its_driver(west: Place) -> None:
    await west.apply("spark")
    pods = await west.pods_until("spark", lambda pods: {"driver-0", "executor-0", "executor-1"} <= set(pods))
    driver = pods["driver-0"]["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]
    assert all(pods[f"executor-{index}"]["metadata"]["creationTimestamp"] >= driver for index in range(2))
    running = await west.pods_until(
        "spark", lambda pods: bool(pods.get("executor-0")) and "executor-0" in in_phase(pods, "Running")
    )
    assert running["executor-0"]["metadata"]["labels"]["spark-role"] == "executor"
    assert "executor --driver-url spark-driver-0.spark" in await west.log("spark-executor-0")
    _, left = await completed(west, "spark")
    assert set(left) == {"driver-0"}
    assert (await west.log("spark-driver-0")).startswith("submitted --master spark://localhost:7077")


async def test_plugins_give_pods_what_frameworks_look_for(west: Place) -> None:
    await tell(
        pods_find_each_other(west),
        options_of_svc_are_followed(west),
        pods_hold_the_keys_of_their_job(west),
        containers_know_their_index(west),
        pods_are_ranked(west),
        mpi_starts_ranks_on_its_workers(west),
        pytorch_knows_ranks_and_master(west),
        tensorflow_knows_its_cluster(west),
        ray_has_a_head_and_workers(west),
        spark_starts_executors_after_its_driver(west),
    )


# --- volumes ---------------------------------------------------------------------------------------------------------
@pytest.fixture
def folder(federation: Federation, namespace: str) -> Iterator[Path]:
    """A folder of this machine, which all real nodes share."""
    path = federation.work / "volumes" / namespace
    path.mkdir(parents=True)
    yield path
    for file in path.rglob("*"):
        if file.is_file():
            file.unlink()


async def offer_volume(west: Place, name: str, *, folder: Path) -> None:
    """A volume that any claim of 1 MiB gets: what a storage provisioner would make."""
    folder.mkdir()
    spec = {
        "capacity": {"storage": "1Mi"},
        "accessModes": ["ReadWriteMany"],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": "",
        "hostPath": {"path": str(folder), "type": "Directory"},
    }
    body = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"{west.namespace}-{name}"}, "spec": spec}
    await west.api.post("/api/v1/persistentvolumes", body)


async def a_claim_is_made_mounted_and_deleted(west: Place) -> None:
    name = "volume-claim"
    await west.apply(name)
    job, pods = await completed(west, name)
    assert await west.log(f"{name}-reader-0") == "written\n"
    (claim,) = [each for each in await west.all(kinds.CLAIM) if each["metadata"]["name"].startswith(name)]
    made = claim["metadata"]["name"]
    assert re.fullmatch(rf"{name}-pvc-[a-z0-9]{{12}}", made)
    assert owned_by(claim, job)
    assert f"volume-pvc-{made}" in job["status"]["controlledResources"]
    for pod in pods.values():
        mounts = {each["mountPath"]: each["name"] for each in pod["spec"]["containers"][0]["volumeMounts"]}
        claims = {
            each["name"]: each["persistentVolumeClaim"]["claimName"]
            for each in pod["spec"]["volumes"]
            if "persistentVolumeClaim" in each
        }
        assert claims[mounts["/data"]] == made
    await west.delete(name)
    await west.gone(made, kind=kinds.CLAIM)


async def a_claim_of_somebody_else_is_waited_for_and_kept(west: Place, folder: Path) -> None:
    name = "volume-claim-name"
    await west.apply_only(name, kind=kinds.JOB)
    job = await west.until(lambda doc: "shared-data" in str(doc.get("status", {}).get("state")), name)
    assert phase(job) == "Pending"
    await west.told(name, reason="PVCError", says="shared-data")
    assert await west.pods(name) == {}
    await west.apply(name)
    await completed(west, name)
    assert [path.read_text() for path in folder.rglob("kept")] == ["kept\n"]
    await west.delete(name)
    await west.gone(name)
    assert phase_of(await west.get(kinds.CLAIM, "shared-data")) == "Bound"


def phase_of(doc: Doc) -> str:
    """`status.phase` of what Kubernetes itself has."""
    return str((doc.get("status") or {}).get("phase", ""))


# --- what schedulers read --------------------------------------------------------------------------------------------
async def priorities_reach_group_and_pods(west: Place) -> None:
    await west.apply("priority")
    job = await west.started("priority", pods=2)
    group = await west.get(kinds.POD_GROUP, naming.pod_group_name("priority", uid=job["metadata"]["uid"]))
    _, pods = await completed(west, "priority")
    assert group["spec"]["priorityClassName"] == "example-high"
    given = {name: (pod["spec"]["priorityClassName"], pod["spec"]["priority"]) for name, pod in pods.items()}
    assert given == {"worker-0": ("example-high", 1000), "own-0": ("example-low", 10)}


async def hints_reach_group_and_pods(west: Place) -> None:
    await west.apply("hints")
    job = await west.started("hints", pods=1)
    group = await west.get(kinds.POD_GROUP, naming.pod_group_name("hints", uid=job["metadata"]["uid"]))
    _, pods = await completed(west, "hints")
    annotations = pods["worker-0"]["metadata"]["annotations"]
    for name in ("preemptable", "cooldown-time", "revocable-zone", "jdb-min-available"):
        assert annotations[f"volcano.sh/{name}"] == job["metadata"]["annotations"][f"volcano.sh/{name}"]
    assert annotations[keys.NUMA_POLICY] == "single-numa-node"
    assert group["metadata"]["labels"] == {"team": "vision"}
    assert group["spec"]["networkTopology"] == {"mode": "soft", "highestTierAllowed": 2}
    assert group["spec"]["minResources"]["requests.cpu"] == "1"


# --- pods of other owners --------------------------------------------------------------------------------------------
async def a_bare_pod_is_a_gang_of_its_own(west: Place) -> None:
    await west.apply("bare-pod")
    pod = await west.until(lambda doc: phase_of(doc) == "Succeeded", "bare-pod", kind=kinds.POD)
    group = f"podgroup-{pod['metadata']['uid']}"
    assert pod["metadata"]["annotations"][keys.GROUP_NAME] == group
    assert (await west.get(kinds.POD_GROUP, group))["spec"]["minMember"] == 1


async def a_deployment_starts_as_a_gang(west: Place) -> None:
    await west.apply("deployment")
    await west.until(lambda doc: doc["status"].get("readyReplicas") == 2, "deployment", kind=kinds.DEPLOYMENT)
    (replicas,) = await west.all(kinds.REPLICA_SET, labels="app=deployment")
    group = f"podgroup-{replicas['metadata']['uid']}"
    found = await west.get(kinds.POD_GROUP, group)
    assert found["spec"]["minMember"] == 2
    pods = await west.all(kinds.POD, labels="app=deployment")
    assert {pod["metadata"]["annotations"][keys.GROUP_NAME] for pod in pods} == {group}
    await west.change("deployment", {"spec": {"replicas": 0}}, kind=kinds.DEPLOYMENT)
    await west.gone(group, kind=kinds.POD_GROUP)


async def a_job_of_kubernetes_is_a_gang(west: Place) -> None:
    await west.apply("kubernetes-job")
    done = await west.until(lambda doc: doc["status"].get("succeeded") == 2, "kubernetes-job", kind=kinds.BATCH_JOB)
    group = await west.get(kinds.POD_GROUP, f"podgroup-{done['metadata']['uid']}")
    assert group["spec"]["minMember"] == 2


async def pods_of_spark_share_a_group_of_their_own(west: Place) -> None:
    await west.apply("spark-pods")
    driver = await west.until(lambda doc: phase_of(doc) == "Succeeded", "spark-pods-driver", kind=kinds.POD)
    assert ended(driver) == {"driver": 0}
    for index in (1, 2):
        executor = await west.until(lambda doc: phase_of(doc) == "Running", f"spark-pods-exec-{index}", kind=kinds.POD)
        assert executor["metadata"]["annotations"][keys.GROUP_NAME] == "spark-pods"
        assert not [
            each for each in await west.all(kinds.POD_GROUP) if executor["metadata"]["uid"] in each["metadata"]["name"]
        ], "a pod that has a group gets no other"


async def test_volumes_hints_and_other_owners(west: Place, folder: Path) -> None:
    for name in ("first", "second"):
        await offer_volume(west, name, folder=folder / name)
    try:
        await tell(
            a_claim_is_made_mounted_and_deleted(west),
            a_claim_of_somebody_else_is_waited_for_and_kept(west, folder),
            priorities_reach_group_and_pods(west),
            hints_reach_group_and_pods(west),
            a_bare_pod_is_a_gang_of_its_own(west),
            a_deployment_starts_as_a_gang(west),
            a_job_of_kubernetes_is_a_gang(west),
            pods_of_spark_share_a_group_of_their_own(west),
        )
    finally:
        for name in ("first", "second"):
            await west.api.delete(f"/api/v1/persistentvolumes/{west.namespace}-{name}")
