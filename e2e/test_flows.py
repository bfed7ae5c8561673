"""The flows of `examples/flows` on a real hub and real kubelets: values in termination messages, conditions, nested flows, GPUs
where they are cheapest, a flow that a CronJob makes."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import orjson
import pytest

from apis import keys, kinds
from e2e.apply import Doc, apply, phase, wait_for, wait_ready
from e2e.controlplane.fleet import Federation
from e2e.flows import on, text
from machinery.kube import KubePort
from machinery.port import PatchType

pytestmark = pytest.mark.issue(7)

EXAMPLES = Path(__file__).parent.parent / "examples" / "flows"


async def begin(port: KubePort, name: str, *, namespace: str) -> None:
    """Apply an example in a namespace on real nodes."""
    await port.create(kinds.NAMESPACE, {"metadata": {"name": namespace}})
    await apply(port, text(on("east", "west")), namespace=namespace)
    await apply(port, (EXAMPLES / f"{name}.yaml").read_text(), namespace=namespace)


async def ended(port: KubePort, name: str, *, namespace: str) -> Doc:
    """The flow at its end."""
    done = await wait_for(
        port, kinds.JOB_FLOW, name, namespace=namespace, until=lambda doc: phase(doc) in ("Succeed", "Failed"), timeout=150
    )
    assert done is not None
    return done


async def run(port: KubePort, name: str, *, namespace: str) -> Doc:
    """Apply an example; its flow at its end."""
    await begin(port, name, namespace=namespace)
    return await ended(port, name, namespace=namespace)


async def night(port: KubePort, *, namespace: str) -> Doc:
    """Apply the nightly report and let it be night soon; its flow at its end."""
    await begin(port, "report", namespace=namespace)
    page = await port.list(kinds.JOB_FLOW, namespace=namespace)
    assert page.items == [], "it is not night yet"
    await port.patch(kinds.CRON_JOB, "report", {"spec": {"schedule": "* * * * *"}}, type=PatchType.MERGE, namespace=namespace)
    scheduled = await wait_for(
        port,
        kinds.CRON_JOB,
        "report",
        namespace=namespace,
        until=lambda doc: bool(((doc or {}).get("status") or {}).get("lastScheduleTime")),
    )
    await port.patch(kinds.CRON_JOB, "report", {"spec": {"suspend": True}}, type=PatchType.MERGE, namespace=namespace)
    assert scheduled is not None
    minute = int(datetime.datetime.fromisoformat(scheduled["status"]["lastScheduleTime"]).timestamp()) // 60
    return await ended(port, f"report-{minute}", namespace=namespace)


@contextlib.asynccontextmanager
async def gpus(hub: KubePort, members: Mapping[str, KubePort]) -> AsyncIterator[None]:
    """Both members have GPUs while the block runs, at the prices of the example."""
    for port in members.values():
        await _gpus(port, "8")
    await apply(hub, (EXAMPLES / "offers.yaml").read_text(), namespace="default")
    try:
        for name in sorted(members):
            await wait_for(
                hub,
                kinds.CLUSTER_CAPACITY,
                keys.MEMBER_LEASE,
                namespace=keys.execution_namespace(name),
                until=lambda doc: "nvidia.com/gpu" in orjson.dumps(doc).decode(),
            )
        yield
    finally:
        for name in sorted(members):
            await hub.delete(kinds.CLUSTER_OFFER, name)
        for port in members.values():
            await _gpus(port, None)


async def _gpus(port: KubePort, amount: str | None) -> None:
    """So many on every node."""
    own = {"nvidia.com/gpu": amount}
    body = {"status": {"capacity": own, "allocatable": own}}
    for item in (await port.list(kinds.NODE)).items:
        name = orjson.loads(item)["metadata"]["name"]
        await port.patch(kinds.NODE, name, body, type=PatchType.MERGE, subresource="status")


async def jobs(port: KubePort, *, namespace: str) -> dict[str, Doc]:
    page = await port.list(kinds.JOB, namespace=namespace)
    return {doc["metadata"]["name"]: doc for doc in map(orjson.loads, page.items)}


async def test_the_examples_run_to_their_ends_over_real_clusters(
    running: Federation, hub_port: KubePort, member_ports: dict[str, KubePort]
) -> None:
    port = hub_port
    await wait_ready(port, kinds.CLUSTER, names=sorted(running.members))
    async with gpus(port, {name: member_ports[name] for name in ("east", "west")}):
        training, report, nested = await asyncio.gather(
            run(port, "training", namespace="flows-training"),
            night(port, namespace="flows-report"),
            run(port, "nested", namespace="flows-nested"),
        )
    assert phase(training) == "Succeed", training["status"]
    ends = {each["name"]: each["state"] for each in training["status"]["jobStatusList"]}
    assert ends == {
        "training-prepare": "Completed",
        "training-train-0": "Completed",
        "training-train-1": "Completed",
        "training-train-2": "Completed",
        "training-evaluate": "Completed",
        "training-publish": "Completed",
        "training-rework": "Skipped",
        "training-clean-up": "Completed",
    }
    places = {each["name"]: each["clusters"] for each in training["status"]["jobStatusList"] if each.get("clusters")}
    assert [places[f"training-train-{shard}"] for shard in range(3)] == [["west"]] * 3, "GPUs are cheapest in the west"
    assert places["training-evaluate"] == ["west"], "which is where the models are"
    why = next(each["placement"] for each in training["status"]["jobStatusList"] if each["step"] == "evaluate")
    assert why == "of 200Mi that it reads 200Mi are in west (train)"
    made = await jobs(port, namespace="flows-training")
    variables = made["training-evaluate"]["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["env"]
    assert variables == [{"name": "PARAM_SCORES", "value": '["0.90","0.91","0.92"]'}]
    said = made["training-publish"]["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["command"][2]
    assert said == 'echo "publishing the model of east"'

    assert phase(report) == "Succeed", report["status"]
    name = report["metadata"]["name"]
    assert report["status"]["failedJobs"] == [f"{name}-weather"]
    assert [each["state"] for each in report["status"]["jobStatusList"] if each["step"] == "archive"] == ["Skipped"]
    env = (await jobs(port, namespace="flows-report"))[f"{name}-write"]["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    assert env["env"] == [{"name": "EDITION", "value": "morning"}]

    assert phase(nested) == "Succeed", nested["status"]
    assert set(await jobs(port, namespace="flows-nested")) == {
        "nested-region-0-load",
        "nested-region-0-check",
        "nested-region-1-load",
        "nested-region-1-check",
        "nested-merge",
    }
