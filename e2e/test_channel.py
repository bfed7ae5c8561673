"""Logs and probes over the channel: real kubelets, the hub behind a real aggregation layer, people under their own rights."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from apis import kinds
from controllers.channel.messages import GROUP
from e2e import channel, charts
from e2e.apply import Doc, apply, phase, wait_for, wait_ready
from e2e.controlplane.api import Api, ApiRefused
from e2e.controlplane.fleet import Federation
from e2e.flows import job, on, template, text
from e2e.programs import executable
from federation.settings import HubSettings
from machinery.kube import KubePort
from member_agent.settings import AgentSettings

pytestmark = pytest.mark.issue(8)

SAYS = r"printf 'epoch %s\033[31m of %s\033[0m\n' 1 $HOSTNAME; sleep 2; echo done"


@pytest.fixture
async def registered(running: Federation, hub_port: KubePort, real_nodes: None) -> AsyncIterator[None]:
    """All members are Ready, and the API server knows where the channel is: only here, because while an aggregated API does not
    answer no namespace can be deleted, and others kill the hub."""
    await wait_ready(hub_port, kinds.CLUSTER, names=sorted(running.members))
    await charts.put(running.hub, channel.registration(running))
    async with running.hub.api() as api:
        await _answering(api)
        yield
        await api.delete(f"/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.{GROUP}")
        await api.delete(f"/api/v1/namespaces/{channel.NAMESPACE}/services/{channel.SERVICE}")


async def _answering(api: Api) -> None:
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(ApiRefused):
                await api.get(f"/apis/{GROUP}/v1alpha1")
                return
            await asyncio.sleep(0.2)


def test_charts_give_both_programs_their_ends_of_the_channel() -> None:
    hub = charts.render("federation", values={"channel": {"enabled": True, "caBundle": "QUJD"}})
    settings = HubSettings(**_settings(hub)).channel
    assert settings is not None and settings.people is not None
    assert settings.agents.client_ca == Path("/etc/channel/agents-ca.crt")
    [deployment] = [doc for doc in hub if doc["kind"] == "Deployment"]
    ports = {port["name"] for port in deployment["spec"]["template"]["spec"]["containers"][0]["ports"]}
    assert {"agents", "people"} <= ports
    assert [doc["metadata"]["name"] for doc in hub if doc["kind"] == "APIService"] == [f"v1alpha1.{GROUP}"]

    given = {"hubs": ["https://hub.example:9443"], "caPins": ["sha256:" + "0" * 64]}
    member = charts.render("member-agent", values={"cluster": "east", "channel": given})
    agent = AgentSettings(cluster="east", **_settings(member)).channel
    assert agent is not None and agent.hubs == ("https://hub.example:9443",)
    with pytest.raises(charts.HelmFailed, match="caBundle"):
        charts.render("federation", values={"channel": {"enabled": True}})


def _settings(docs: list[Doc]) -> dict[str, Any]:
    [found] = [doc["data"]["settings.yaml"] for doc in docs if doc["kind"] == "ConfigMap" and "settings.yaml" in doc["data"]]
    read: dict[str, Any] = yaml.safe_load(found)
    return read


async def allow(federation: Federation, user: str, *, namespace: str) -> Path:
    """A person who may read Jobs and their logs in a namespace; the kubeconfig."""
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "reads-logs", "namespace": namespace},
        "rules": [
            {"apiGroups": ["batch.volcano.sh"], "resources": ["jobs"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": ["batch.volcano.sh", GROUP], "resources": ["jobs/log"], "verbs": ["get"]},
        ],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "reads-logs", "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reads-logs"},
        "subjects": [
            {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user},
            {"kind": "ServiceAccount", "name": "default", "namespace": namespace},
        ],
    }
    await charts.put(federation.hub, [role, binding])
    return federation.hub.kubeconfig_for(user)


async def fedctl(kubeconfig: Path, *arguments: str, **environment: str) -> tuple[int, list[str], str]:
    """Exit code, lines and complaints of `fedctl`."""
    process = await asyncio.create_subprocess_exec(
        executable("fedctl"),
        *arguments,
        "--kubeconfig",
        str(kubeconfig),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **environment},
    )
    out, err = await process.communicate()
    return process.returncode or 0, out.decode().splitlines(), err.decode()


@pytest.mark.usefixtures("registered")
async def test_people_read_the_logs_of_their_jobs_wherever_these_run(
    namespace: str, running: Federation, hub_port: KubePort
) -> None:
    ada = await allow(running, f"ada-{namespace}", namespace=namespace)
    bob = running.hub.kubeconfig_for(f"bob-{namespace}")
    await apply(hub_port, text(on("east"), job("talker", pods=2, command=SAYS)), namespace=namespace)
    code, lines, complaints = await fedctl(ada, "logs", "-f", "talker", "-n", namespace)
    assert code == 0, complaints
    pods = [f"talker-t-{index}" for index in range(2)]
    expected = [f"[east/{pod}] {said}" for pod in pods for said in (f"epoch 1 of {pod}", "done")]
    assert sorted(lines) == sorted(expected)

    await wait_for(hub_port, kinds.JOB, "talker", namespace=namespace, until=lambda doc: phase(doc) == "Completed")
    code, lines, _ = await fedctl(ada, "logs", "talker", "-n", namespace, "--tail", "1", "--pod", pods[0])
    assert (code, lines) == (0, [f"[east/{pods[0]}] done"])
    code, lines, complaints = await fedctl(bob, "logs", "talker", "-n", namespace)
    assert (code, lines) == (7, []) and "not allowed" in complaints

    # Past the API server, with a token; and the API server's own way, as any kubeconfig has it.
    token = await charts.token(running.hub, "default", namespace=namespace)
    ca = running.work / "channel" / "hub" / "ca.crt"
    past = ("--channel", channel.url(running), "--channel-ca", str(ca))
    code, lines, complaints = await fedctl(ada, "logs", "talker", "-n", namespace, *past, FEDCTL_TOKEN=token)
    assert code == 0 and sorted(lines) == sorted(expected), complaints
    code, lines, complaints = await fedctl(ada, "logs", "talker", "-n", namespace, *past, FEDCTL_TOKEN="forged")
    assert (code, lines) == (7, []) and "nobody vouches for you" in complaints


@pytest.mark.usefixtures("registered")
async def test_a_flow_at_the_hub_probes_the_pods_of_a_step_at_their_member(
    namespace: str, running: Federation, hub_port: KubePort
) -> None:
    """Pods here are out of reach of agents, which run outside of the nodes' networks: the probe says so, by member and pod, and
    the step starts when its target has completed."""
    probe = {"httpGetList": [{"taskName": "t", "path": "/", "port": 8080, "httpHeader": {"name": "X-Probe", "value": "yes"}}]}
    flow = {
        "apiVersion": "flow.volcano.sh/v1alpha1",
        "kind": "JobFlow",
        "metadata": {"name": "served"},
        "spec": {
            "flows": [{"name": "server"}, {"name": "client", "dependsOn": {"targets": ["server"], "probe": probe}}],
        },
    }
    serve = "mkdir -p /tmp/www; echo hello > /tmp/www/index.html; timeout 15 httpd -f -p 8080 -h /tmp/www; true"
    templates = [template("server", pods=1, command=serve), template("client", pods=1)]
    await apply(hub_port, text(on("east"), *templates, flow), namespace=namespace)

    def probed(doc: Doc | None) -> bool:
        state = ((doc or {}).get("status") or {}).get("state") or {}
        reached = any(each["name"] == "served-client" for each in ((doc or {}).get("status") or {}).get("jobStatusList") or ())
        named = "cluster east: pod served-server-t-0" in str(state.get("message", ""))
        return named or reached

    await wait_for(hub_port, kinds.JOB_FLOW, "served", namespace=namespace, until=probed)
    done = await wait_for(
        hub_port, kinds.JOB_FLOW, "served", namespace=namespace, until=lambda doc: phase(doc) in ("Succeed", "Failed")
    )
    assert phase(done) == "Succeed", yaml.safe_dump(done)
