"""Nodes run what is bound to them, whatever becomes of everybody else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import orjson
import pytest

from apis import kinds
from simulator.commands import IGNORES_TERM
from simulator.nodes import UNREACHABLE
from tests.simulator.pool import Stage


async def test_nodes_register_ready_and_without_taint(stage: Stage) -> None:
    node = await stage.node("n-1")
    assert node["status"]["allocatable"] == {"cpu": "2", "memory": "32Gi", "pods": "110"}
    assert await stage.ready("n-1") == "True"
    assert "taints" not in node["spec"]


async def test_a_pod_goes_from_pending_over_running_to_succeeded(stage: Stage) -> None:
    await stage.run("a", "sleep 10")
    assert await stage.phase("a") == "Pending"
    await stage.clock.sleep(3)
    running = await stage.pod("a")
    assert running is not None
    assert running["status"]["phase"] == "Running"
    assert running["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]
    assert {"type": "PodScheduled", "status": "True"}.items() <= running["status"]["conditions"][0].items()
    await stage.clock.sleep(10)
    assert await stage.phase("a") == "Succeeded"
    (record,) = stage.pool.records
    assert (record.cluster, record.node, record.pod, record.exit_code) == ("east", "n-0", "a", 0)
    assert record.end is not None and record.end - record.start == pytest.approx(10)


async def test_a_failing_command_fails_the_pod_with_its_code(stage: Stage) -> None:
    await stage.run("a", "sleep 1; exit 3")
    await stage.clock.sleep(5)
    pod = await stage.pod("a")
    assert pod is not None
    assert pod["status"]["phase"] == "Failed"
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3


async def test_on_failure_restarts_the_container_at_once_and_then_with_backoff(stage: Stage) -> None:
    await stage.run("a", "sleep 1; exit 3", restartPolicy="OnFailure")
    await stage.clock.sleep(40)
    pod = await stage.pod("a")
    assert pod is not None
    assert pod["status"]["phase"] == "Running"
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 3
    assert [
        round(later.start - sooner.start) for sooner, later in zip(stage.pool.records, [*stage.pool.records][1:], strict=False)
    ] == [2, 11, 21]


async def test_an_over_committed_node_refuses(stage: Stage) -> None:
    for name in ("a", "b", "c"):
        await stage.run(name, "sleep 60")
    await stage.clock.sleep(5)
    refused = await stage.pod("c")
    assert refused is not None
    assert (refused["status"]["phase"], refused["status"]["reason"]) == ("Failed", "OutOfcpu")
    assert [record.pod for record in stage.pool.records] == ["a", "b"]
    await stage.clock.sleep(60)
    await stage.run("d", "true")
    await stage.clock.sleep(5)
    assert await stage.phase("d") == "Succeeded"


async def test_a_deleted_pod_ends_first_and_goes_then(stage: Stage) -> None:
    await stage.run("a", "sleep 600")
    await stage.clock.sleep(3)
    seen: list[str] = []

    async def follow() -> None:
        async for event in stage.port.watch(kinds.POD, namespace="default", send_initial=True):
            seen.append(f"{event.type} {orjson.loads(event.document).get('status', {}).get('phase', '')}")

    following = asyncio.create_task(follow())
    await stage.clock.sleep(0.1)
    await stage.port.delete(kinds.POD, "a", namespace="default")
    assert await stage.phase("a") == "Running"
    await stage.clock.sleep(2)
    following.cancel()
    assert await stage.phase("a") == ""
    assert seen[-2:] == ["MODIFIED Failed", "DELETED Failed"]
    assert [record.exit_code for record in stage.pool.records] == [143]


async def test_a_pod_deaf_to_sigterm_uses_its_grace(stage: Stage) -> None:
    await stage.run("a", "sleep 600", annotations={IGNORES_TERM: "true"})
    await stage.clock.sleep(3)
    await stage.port.delete(kinds.POD, "a", namespace="default", grace_seconds=20)
    await stage.clock.sleep(19)
    assert await stage.phase("a") == "Running"
    await stage.clock.sleep(2)
    assert await stage.phase("a") == ""
    assert [record.exit_code for record in stage.pool.records] == [137]


async def test_a_pod_taken_away_by_force_ends_on_its_node(stage: Stage) -> None:
    await stage.run("a", "sleep 600")
    await stage.clock.sleep(3)
    await stage.port.delete(kinds.POD, "a", namespace="default", grace_seconds=0)
    await stage.clock.sleep(2)
    assert stage.pool.records.running() == []


async def test_an_isolated_node_keeps_running_and_reports_nothing(stage: Stage) -> None:
    await stage.run("a", "sleep 20")
    await stage.run("b", "sleep 2000")
    await stage.clock.sleep(3)
    stage.pool.isolate("n-0")
    await stage.clock.sleep(30)
    assert await stage.phase("a") == "Running"
    assert [record.pod for record in stage.pool.records.running()] == ["b"]
    assert await stage.ready("n-0") == "True"
    await stage.clock.sleep(15)
    assert await stage.ready("n-0") == "Unknown"
    assert [taint["key"] for taint in (await stage.node("n-0"))["spec"]["taints"]] == [UNREACHABLE] * 2
    await stage.clock.sleep(300)
    terminating = await stage.pod("b")
    assert terminating is not None and terminating["metadata"]["deletionTimestamp"]
    assert len(stage.pool.records.running()) == 1
    stage.pool.heal("n-0")
    await stage.clock.sleep(3)
    assert await stage.phase("b") == ""
    assert stage.pool.records.running() == []
    assert await stage.ready("n-0") == "True"
    assert "taints" not in (await stage.node("n-0"))["spec"]


async def test_a_short_isolation_changes_nothing(stage: Stage) -> None:
    await stage.run("a", "sleep 5")
    await stage.clock.sleep(3)
    stage.pool.isolate("n-0")
    await stage.clock.sleep(10)
    stage.pool.heal("n-0")
    await stage.clock.sleep(2)
    assert await stage.phase("a") == "Succeeded"
    await stage.clock.sleep(400)
    assert await stage.ready("n-0") == "True"


async def test_a_reboot_ends_what_ran_and_changes_the_boot_id(stage: Stage) -> None:
    before = (await stage.node("n-0"))["status"]["nodeInfo"]["bootID"]
    await stage.run("a", "sleep 2000")
    await stage.clock.sleep(3)
    stage.pool.reboot("n-0")
    await stage.clock.sleep(1)
    assert stage.pool.records.running() == []
    assert await stage.phase("a") == "Running"
    await stage.clock.sleep(65)
    assert await stage.phase("a") == "Failed"
    assert (await stage.node("n-0"))["status"]["nodeInfo"]["bootID"] != before


async def test_a_lost_node_takes_its_pods_along_and_stays_not_ready(stage: Stage) -> None:
    await stage.run("a", "sleep 2000")
    await stage.clock.sleep(3)
    stage.pool.lose("n-0")
    await stage.clock.sleep(400)
    assert stage.pool.records.running() == []
    assert await stage.ready("n-0") == "Unknown"
    stuck = await stage.pod("a")
    assert stuck is not None and stuck["metadata"]["deletionTimestamp"]
    await stage.pool.remove("n-0")
    await stage.clock.sleep(45)
    assert await stage.phase("a") == ""


async def test_an_image_that_is_missing_keeps_its_pod_waiting(stage: Stage) -> None:
    container = {"name": "main", "image": "nobody/has:missing"}
    await stage.port.create(kinds.POD, {"metadata": {"name": "a"}, "spec": {"containers": [container]}}, namespace="default")
    await stage.port.bind("a", namespace="default", node="n-1")
    await stage.clock.sleep(30)
    pod = await stage.pod("a")
    assert pod is not None
    assert pod["status"]["phase"] == "Pending"
    assert pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "ImagePullBackOff"
    await stage.port.delete(kinds.POD, "a", namespace="default")
    await stage.clock.sleep(3)
    assert await stage.phase("a") == ""
    assert len(stage.pool.records) == 0


async def test_records_tell_two_runs_apart(stage: Stage) -> None:
    overlaps: Callable[[], int] = lambda: len(stage.pool.records.two_clusters_at_once())  # noqa: E731
    await stage.run("a", "sleep 5")
    await stage.clock.sleep(10)
    assert overlaps() == 0
    assert stage.pool.records.repeated() == {}
