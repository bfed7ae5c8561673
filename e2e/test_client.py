"""The Python client on real control planes: its example, as a person runs it, with logs that come over the channel."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from apis import kinds
from controllers.channel.messages import API, GROUP, VERSION
from e2e import channel, charts
from e2e.apply import Doc, apply, wait_ready
from e2e.controlplane.fleet import Federation
from e2e.flows import text
from machinery import errors
from machinery.kube import KubePort
from volcano_federation import Federation as Client
from volcano_federation import Invalid, NotFound

pytestmark = pytest.mark.issue(8)

CLIENT = Path(__file__).parent.parent / "client"


@pytest.fixture
async def logs_served(running: Federation, namespace: str, hub_port: KubePort) -> AsyncIterator[str]:
    """The namespace, while the hub's end of the channel stands behind its API server; what is submitted runs where pods are
    processes."""
    await wait_ready(hub_port, kinds.CLUSTER, names=sorted(running.members))
    await charts.put(running.hub, channel.registration(running))
    only: Doc = {
        "apiVersion": kinds.PROPAGATION_POLICY.api_version,
        "kind": kinds.PROPAGATION_POLICY.kind,
        "metadata": {"name": "real"},
        "spec": {
            "resourceSelectors": [{"apiVersion": kinds.JOB.api_version, "kind": kinds.JOB.kind}],
            "placement": {"clusterAffinity": {"clusterNames": ["east", "west"]}},
        },
    }
    await apply(hub_port, text(only), namespace=namespace)
    for _ in range(60):
        try:
            await hub_port.request("GET", API)
            break
        except errors.ApiError:
            await asyncio.sleep(1)
    yield namespace
    # As long as it is there, an API that nobody answers holds up the deletion of namespaces.
    await hub_port.delete(kinds.API_SERVICE, f"{VERSION}.{GROUP}")


@pytest.mark.usefixtures("real_nodes")
async def test_the_example_runs_a_flow_and_reads_what_it_printed(running: Federation, logs_served: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(CLIENT), "KUBECONFIG": str(running.hub.kubeconfig)}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(CLIENT / "examples" / "first_flow.py"),
        logs_served,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=environment,
    )
    said = (await process.communicate())[0].decode()
    assert process.returncode == 0, said
    assert "JobFlow first: Starts" in said and f"JobFlow {logs_served}/first Succeed" in said
    assert said.count("] training\n") == 2 and said.count("] preparing\n") == 1 and said.endswith("Completed\n")
    async with Client.from_kubeconfig(running.hub.kubeconfig, namespace=logs_served) as fed:
        assert await fed.list("jobs") == [] and await fed.list("flows") == []
        with pytest.raises(NotFound, match=f"Job {logs_served}/hello"):
            await fed.get("hello")
        wrong: Doc = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "wrong"}}
        with pytest.raises(Invalid, match="tasksss"):
            await fed.submit({**wrong, "spec": {"tasksss": []}})
