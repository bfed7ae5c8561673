"""Jobs of the hub and lost nodes: a withdrawal is confirmed when the pods are really gone, and nothing runs twice."""

from __future__ import annotations

import asyncio
import time

import orjson
import pytest

from apis import keys, kinds, naming
from e2e.apply import Doc, apply, phase, wait_for, wait_ready
from e2e.controlplane.fleet import Federation
from e2e.flows import on, text
from e2e.jobs import Place, counted, ended, example, in_phase, place, tell, uids
from machinery.kube import KubePort

pytestmark = [pytest.mark.issue(4), pytest.mark.usefixtures("real_nodes", "running")]

TERMINATION = 5.0
"""Seconds the pods of examples/jobs/slow-termination.yaml need to end."""
WATCHES_DIFFER = 0.3
"""Seconds by which two watches may tell what happened in the other order on two busy cores."""


async def a_withdrawal_is_confirmed_after_the_last_pod(hub: KubePort, east: Place) -> None:
    """The hub's Job is deleted: its Work, the order to stop, stays as long as a container of it runs."""
    name, namespace = "slow-termination", east.namespace
    await apply(hub, example(name), namespace=namespace)
    await wait_for(hub, kinds.JOB, name, namespace=namespace, until=lambda doc: phase(doc) == "Running")
    pods = sorted(await east.pods(name))
    assert pods == ["worker-0", "worker-1"]
    over: dict[str, float] = {}

    async def note(what: str, port: KubePort, kind: kinds.Kind, called: str, where: str) -> None:
        await wait_for(port, kind, called, namespace=where, until=lambda doc: doc is None or stopped(doc, kind=kind))
        over[what] = time.monotonic()

    asked = time.monotonic()
    await hub.delete(kinds.JOB, name, namespace=namespace)
    work = naming.work_name(name, namespace=namespace)
    await asyncio.gather(
        *(note(pod, east.port, kinds.POD, f"{name}-{pod}", namespace) for pod in pods),
        note("Work", hub, kinds.WORK, work, keys.execution_namespace("east")),
    )
    last = max(over[pod] for pod in pods)
    assert last - asked >= TERMINATION
    assert over["Work"] >= last - WATCHES_DIFFER, over
    for port, kind in ((hub, kinds.JOB), (east.port, kinds.JOB)):
        await wait_for(port, kind, name, namespace=namespace, until=lambda doc: doc is None)


def stopped(doc: Doc, *, kind: kinds.Kind) -> bool:
    """A pod whose node says that its containers have ended; its removal may still be under way."""
    return kind is kinds.POD and (doc.get("status") or {}).get("phase") in ("Succeeded", "Failed")


async def the_hub_sees_how_a_policy_ended_a_job(hub: KubePort, east: Place) -> None:
    """A Job of the hub is acted on by its policies in the member, and the hub's Job tells the result."""
    name = "exit-code"
    await apply(hub, example(name), namespace=east.namespace)
    job = await wait_for(
        hub,
        kinds.JOB,
        name,
        namespace=east.namespace,
        until=lambda doc: phase(doc) in ("Terminated", "Failed", "Completed", "Aborted"),
    )
    assert phase(job) == "Terminated"
    assert ended((await east.pods(name))["main-0"]) == {"main": 3}


async def pods_carry_their_run(hub: KubePort, east: Place) -> None:
    """Index and epoch are in the environment of a Job that the hub runs."""
    name = "plugin-env"
    await apply(hub, example(name), namespace=east.namespace)
    await wait_for(hub, kinds.JOB, name, namespace=east.namespace, until=lambda doc: phase(doc) == "Completed")
    pods = await east.pods(name)
    assert sorted(pods) == ["worker-0", "worker-1", "worker-2"]
    for index in range(3):
        env = pods[f"worker-{index}"]["spec"]["containers"][0]["env"]
        assert {"name": keys.EPOCH_ENV, "value": "1"} in env
        assert await east.log(f"{name}-worker-{index}") == f"index {index} and {index}\n"


async def a_pod_on_a_lost_node_is_replaced_when_it_is_known_to_be_gone(federation: Federation, west: Place) -> None:
    """Its node does not answer: the pod is terminating, nothing runs in its place; the node is back: it is, as an eviction."""
    name = "lost-node"
    cluster = federation.members["west"]
    await west.apply(name)
    await west.reach(name, "Running")
    (pod,) = (await west.pods(name)).values()
    node, first = pod["spec"]["nodeName"], pod["metadata"]["uid"]
    cluster.kill_kubelet(node)
    try:
        lost = await west.until(lambda doc: counted(doc, "terminating") == 1, name)
        assert phase(lost) in ("Running", "Restarting")
        await asyncio.sleep(3)
        assert list(uids(await west.pods(name)).values()) == [first], "nothing is started while the pod may still run"
    finally:
        cluster.start_kubelet(node)
    again = await west.until(lambda doc: phase(doc) == "Running" and counted(doc, "version") > 0, name)
    assert list(uids(await west.pods_until(name, lambda pods: bool(in_phase(pods, "Running")))).values()) != [first]
    assert counted(again, "retryCount") == 0
    assert again["status"]["memory"]["evictions"] == 1


async def a_cron_job_makes_a_job_at_the_next_minute(east: Place) -> None:
    await east.apply("cronjob")
    cron = await east.until(lambda doc: bool((doc.get("status") or {}).get("lastScheduleTime")), "cronjob", kind=kinds.CRON_JOB)
    minute = int(time.time() // 60)
    made = [job for job in await east.all(kinds.JOB) if job["metadata"]["name"].startswith("cronjob-")]
    assert [job["metadata"]["name"] for job in made] in ([f"cronjob-{minute}"], [f"cronjob-{minute - 1}"])
    (owner,) = made[0]["metadata"]["ownerReferences"]
    assert owner["uid"] == cron["metadata"]["uid"]
    assert made[0]["metadata"]["labels"]["team"] == "vision"
    await east.change("cronjob", {"spec": {"suspend": True}}, kind=kinds.CRON_JOB)
    await east.reach(made[0]["metadata"]["name"], "Completed")


async def test_runs_end_when_their_pods_do(
    federation: Federation, hub_port: KubePort, member_ports: dict[str, KubePort], namespace: str
) -> None:
    await wait_ready(hub_port, kinds.CLUSTER, names=["east", "west"])
    await apply(hub_port, text(on("east")), namespace=namespace)
    async with (
        place(federation.members["east"], member_ports["east"], namespace=namespace) as east,
        place(federation.members["west"], member_ports["west"], namespace=namespace) as west,
    ):
        await tell(
            a_pod_on_a_lost_node_is_replaced_when_it_is_known_to_be_gone(federation, west),
            a_withdrawal_is_confirmed_after_the_last_pod(hub_port, east),
            the_hub_sees_how_a_policy_ended_a_job(hub_port, east),
            pods_carry_their_run(hub_port, east),
            a_cron_job_makes_a_job_at_the_next_minute(east),
        )
        found = [orjson.loads(item) for item in (await hub_port.list(kinds.JOB, namespace=namespace)).items]
        assert {job["metadata"]["name"] for job in found} == {"exit-code", "plugin-env"}
