"""User stories on a real hub and real members, with the programs as processes."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from apis import keys, kinds, naming, runs
from e2e import programs
from e2e.apply import Doc, apply, is_ready, phase, wait_for, wait_ready
from e2e.controlplane.fleet import Federation
from e2e.flows import diamond, flow, job, on, template, text
from e2e.starts import recording
from fedctl.demo import QUICKSTART
from machinery import errors
from machinery.kube import KubePort
from machinery.port import PatchType

pytestmark = pytest.mark.issue(3)

ENDED = ("Succeed", "Failed")


@pytest.fixture(autouse=True)
async def all_there(running: Federation, hub_port: KubePort) -> None:
    """All members are Ready when a story begins."""
    await wait_ready(hub_port, kinds.CLUSTER, names=sorted(running.members))


async def ended(port: KubePort, name: str, *, namespace: str) -> Doc:
    """The flow when it has ended."""
    found = await wait_for(port, kinds.JOB_FLOW, name, namespace=namespace, until=lambda doc: phase(doc) in ENDED)
    assert found is not None
    return found


async def clusters_of(port: KubePort, *, namespace: str) -> dict[str, list[str]]:
    """Binding name to the clusters it chose."""
    page = await port.list(kinds.RESOURCE_BINDING, namespace=namespace)
    found = [orjson.loads(item) for item in page.items]
    return {each["metadata"]["name"]: [it["name"] for it in each["spec"].get("clusters") or []] for each in found}


async def test_the_quick_start_runs_unmodified_in_dependency_order_and_every_container_starts_once(
    namespace: str, hub_port: KubePort, member_ports: dict[str, KubePort]
) -> None:
    async with recording(member_ports, namespace=namespace) as starts:
        await apply(hub_port, text(on("east", "west")), namespace=namespace)
        await apply(hub_port, QUICKSTART.read_text(), namespace=namespace)
        done = await ended(hub_port, "quickstart", namespace=namespace)
    assert phase(done) == "Succeed"
    assert len(done["status"]["completedJobs"]) == 6
    assert starts.twice() == []
    assert len(starts.by_pod()) == 13
    chosen = await clusters_of(hub_port, namespace=namespace)
    assert len(chosen) == 6
    assert all(len(clusters) == 1 and clusters[0] in ("east", "west") for clusters in chosen.values())
    await check_order_and_runs(namespace, hub_port, member_ports)


async def check_order_and_runs(namespace: str, hub_port: KubePort, member_ports: dict[str, KubePort]) -> None:
    """By the containers' own times, steps follow each other; every pod carries the first run of its hub Job."""
    pages = [await member_ports[name].list(kinds.POD, namespace=namespace) for name in ("east", "west")]
    pods = [orjson.loads(item) for page in pages for item in page.items]
    times: dict[str, list[tuple[str, str]]] = {}
    for pod in pods:
        job = pod["metadata"]["labels"][keys.JOB_NAME]
        end = pod["status"]["containerStatuses"][0]["state"]["terminated"]
        times.setdefault(job.removeprefix("quickstart-"), []).append((end["startedAt"], end["finishedAt"]))
        record = runs.decode_record(pod["metadata"]["annotations"][keys.RUN], where="pod")
        hub_job = orjson.loads(await hub_port.get(kinds.JOB, job, namespace=namespace))
        assert (record.job, record.epoch) == (hub_job["metadata"]["uid"], 1)
        assert {"name": keys.EPOCH_ENV, "value": "1"} in pod["spec"]["containers"][0]["env"]
    trainings = ("train-small", "train-wide", "train-deep")
    for before, after in (
        [("prepare", step) for step in trainings] + [(step, "evaluate") for step in trainings] + [("evaluate", "publish")]
    ):
        assert max(end for _, end in times[before]) <= min(start for start, _ in times[after]), f"{before} before {after}"


async def test_bad_input_is_refused_or_failed_by_name_and_stops_nothing_else(namespace: str, hub_port: KubePort) -> None:
    await apply(hub_port, text(on("east", "west"), *diamond("good")), namespace=namespace)
    closed = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": f"closed-{namespace}"}}
    await apply(hub_port, text({**closed, "spec": {"weight": 1}, "status": {"state": "Closed"}}), namespace=namespace)
    status = [{"op": "add", "path": "/status", "value": {"state": "Closed"}}]
    await hub_port.patch(kinds.QUEUE, closed["metadata"]["name"], status, type=PatchType.JSON, subresource="status")  # type: ignore[index]

    # By schema, by CEL, and by the hub's webhook; what gets past a webhook that is down fails with the same words
    # (e2e/test_admission.py).
    refused: list[tuple[str, dict[str, Any]]] = [
        ("spec.minAvailable", job("too-many", minAvailable=3)),
        ("resources.requests", job("no-amount", cpu="12x")),
        ("spec.queue: unable to find job queue", job("missing-queue", queue="nowhere")),
        ("spec.queue: can only submit job to queue with state `Open`", job("closed-queue", queue=f"closed-{namespace}")),
        ("not DAG", flow("circle", {"a": ["b"], "b": ["a"]})),
        ("spec.flows[0].dependsOn.targets[0]", flow("ghost", {"a": ["nobody"]})),
    ]
    for words, body in refused:
        with pytest.raises(errors.Invalid) as caught:
            await apply(hub_port, text(body), namespace=namespace)
        assert words in str(caught.value), body["metadata"]["name"]

    assert phase(await ended(hub_port, "good", namespace=namespace)) == "Succeed"


async def test_a_hub_that_restarts_in_the_middle_goes_on_where_it_was(
    namespace: str, running: Federation, hub_port: KubePort, member_ports: dict[str, KubePort]
) -> None:
    async with recording(member_ports, namespace=namespace) as starts:
        fan = {"a": [], "b": ["a"], "c": ["a"]}
        await apply(
            hub_port, text(on("east", "west"), *(template(step) for step in fan), flow("fan", fan)), namespace=namespace
        )
        await wait_for(hub_port, kinds.JOB, "fan-a", namespace=namespace, until=lambda doc: phase(doc) == "Running")
        running.programs.kill(programs.HUB)
        running.programs.restart(programs.HUB)
        done = await ended(hub_port, "fan", namespace=namespace)
    assert phase(done) == "Succeed"
    assert starts.twice() == []
    assert len(starts.by_pod()) == 2 * len(fan)


async def test_an_unreachable_member_gets_no_work_and_delays_nobody(
    namespace: str, running: Federation, hub_port: KubePort
) -> None:
    for name in programs.processes_of("west"):
        running.programs.kill(name)
    try:
        await wait_for(hub_port, kinds.CLUSTER, "west", until=lambda doc: not is_ready(doc))
        pair = (template("first"), template("second"), flow("pair", {"first": [], "second": ["first"]}))
        await apply(hub_port, text(on("east", "west"), *pair), namespace=namespace)
        assert phase(await ended(hub_port, "pair", namespace=namespace)) == "Succeed"
        chosen = await clusters_of(hub_port, namespace=namespace)
        assert {cluster for clusters in chosen.values() for cluster in clusters} == {"east"}
    finally:
        for name in programs.processes_of("west"):
            running.programs.restart(name)
    await wait_ready(hub_port, kinds.CLUSTER, names=["west"])


async def test_a_deleted_job_vanishes_from_its_member_and_a_suspended_one_comes_back_as_a_new_run(
    namespace: str, hub_port: KubePort, member_ports: dict[str, KubePort]
) -> None:
    long = job("long", command="trap 'exit 0' TERM; sleep 300 & wait $!")
    await apply(hub_port, text(on("east"), long), namespace=namespace)
    await wait_for(hub_port, kinds.JOB, "long", namespace=namespace, until=lambda doc: phase(doc) == "Running")

    suspend = {"metadata": {"annotations": {keys.SUSPEND: "true"}}}
    await hub_port.patch(kinds.JOB, "long", suspend, type=PatchType.MERGE, namespace=namespace)
    await wait_for(hub_port, kinds.JOB, "long", namespace=namespace, until=lambda doc: phase(doc) == "Aborted")
    pod = naming.pod_name("long", task="t", index=0)
    await wait_for(member_ports["east"], kinds.POD, pod, namespace=namespace, until=lambda doc: doc is None)

    await hub_port.patch(
        kinds.JOB, "long", {"metadata": {"annotations": {keys.SUSPEND: None}}}, type=PatchType.MERGE, namespace=namespace
    )
    again = await wait_for(
        member_ports["east"],
        kinds.POD,
        pod,
        namespace=namespace,
        until=lambda doc: doc is not None and doc["status"].get("phase") == "Running",
    )
    assert again is not None
    assert runs.decode_record(again["metadata"]["annotations"][keys.RUN], where="pod").epoch == 2

    await hub_port.delete(kinds.JOB, "long", namespace=namespace)
    for port, kind in ((member_ports["east"], kinds.JOB), (hub_port, kinds.JOB)):
        await wait_for(port, kind, "long", namespace=namespace, until=lambda doc: doc is None)
    work = naming.work_name("long", namespace=namespace)
    where = keys.execution_namespace("east")
    await wait_for(hub_port, kinds.WORK, work, namespace=where, until=lambda doc: doc is None)
    binding = naming.binding_name("long")
    await wait_for(hub_port, kinds.RESOURCE_BINDING, binding, namespace=namespace, until=lambda doc: doc is None)


async def test_an_agent_may_renew_its_lease_but_not_raise_its_fence_number(running: Federation) -> None:
    identity = running.hub.kubeconfig_for(programs.fencer_name("east"), groups=programs.AGENTS)
    port = await KubePort.from_kubeconfig(str(identity))
    where = {"namespace": keys.execution_namespace("east")}
    try:
        for raised, allowed in ((0, True), (1, False)):
            lease = orjson.loads(await port.get(kinds.LEASE, keys.MEMBER_LEASE, **where))
            lease["spec"]["leaseTransitions"] += raised
            try:
                await port.replace(kinds.LEASE, keys.MEMBER_LEASE, lease, **where)
                assert allowed
            except errors.Conflict:
                assert allowed, "somebody renewed in between"
            except (errors.Forbidden, errors.Invalid) as refusal:
                assert not allowed
                assert "leaseTransitions" in refusal.message
    finally:
        await port.close()
