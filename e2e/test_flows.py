"""The flows of `examples/flows` on a real hub and real kubelets: values in termination messages, conditions, nested flows."""

from __future__ import annotations

import asyncio
from pathlib import Path

import orjson
import pytest

from apis import kinds
from e2e.apply import Doc, apply, phase, wait_for, wait_ready
from e2e.controlplane.fleet import Federation
from e2e.flows import on, text
from machinery.kube import KubePort

pytestmark = pytest.mark.issue(7)

EXAMPLES = Path(__file__).parent.parent / "examples" / "flows"


async def run(port: KubePort, name: str, *, namespace: str) -> Doc:
    """Apply an example in a namespace on real nodes; the flow at its end."""
    await port.create(kinds.NAMESPACE, {"metadata": {"name": namespace}})
    await apply(port, text(on("east", "west")), namespace=namespace)
    await apply(port, (EXAMPLES / f"{name}.yaml").read_text(), namespace=namespace)
    done = await wait_for(
        port, kinds.JOB_FLOW, name, namespace=namespace, until=lambda doc: phase(doc) in ("Succeed", "Failed"), timeout=150
    )
    assert done is not None
    return done


async def jobs(port: KubePort, *, namespace: str) -> dict[str, Doc]:
    page = await port.list(kinds.JOB, namespace=namespace)
    return {doc["metadata"]["name"]: doc for doc in map(orjson.loads, page.items)}


async def test_the_examples_run_to_their_ends_over_real_clusters(
    running: Federation, hub_port: KubePort, member_ports: dict[str, KubePort]
) -> None:
    port = hub_port
    await wait_ready(port, kinds.CLUSTER, names=sorted(running.members))
    training, report, nested = await asyncio.gather(
        *(run(port, name, namespace=f"flows-{name}") for name in ("training", "report", "nested"))
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
    made = await jobs(port, namespace="flows-training")
    variables = made["training-evaluate"]["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["env"]
    assert variables == [{"name": "PARAM_SCORES", "value": '["0.90","0.91","0.92"]'}]
    said = made["training-publish"]["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["command"][2]
    assert said == 'echo "publishing the model of east"'

    assert phase(report) == "Succeed", report["status"]
    assert report["status"]["failedJobs"] == ["report-weather"]
    assert [each["state"] for each in report["status"]["jobStatusList"] if each["step"] == "archive"] == ["Skipped"]
    env = (await jobs(port, namespace="flows-report"))["report-write"]["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    assert env["env"] == [{"name": "EDITION", "value": "morning"}]

    assert phase(nested) == "Succeed", nested["status"]
    assert set(await jobs(port, namespace="flows-nested")) == {
        "nested-region-0-load",
        "nested-region-0-check",
        "nested-region-1-load",
        "nested-region-1-check",
        "nested-merge",
    }
