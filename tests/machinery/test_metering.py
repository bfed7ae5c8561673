"""A metered port is the port, counted; metrics land in the registry they were given."""

from __future__ import annotations

import contextlib

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from apis.kinds import CONFIGMAP, POD
from machinery.errors import NotFound
from machinery.metering import MeteredPort, Write
from machinery.metrics import Metrics
from machinery.port import PatchType
from machinery.workqueue import WorkQueue
from tests.machinery.fakes import FakePort, LoopClock

pytestmark = pytest.mark.looptime


async def test_every_write_is_kept_and_every_request_counted() -> None:
    port = MeteredPort(FakePort())
    await port.create(CONFIGMAP, {"metadata": {"name": "x"}}, namespace="n")
    await port.create(CONFIGMAP, {"metadata": {"name": "y"}}, namespace="n", dry_run=True)
    await port.patch(CONFIGMAP, "x", {"a": 1}, type=PatchType.MERGE, namespace="n", subresource="status")
    await port.bind("p", namespace="n", node="m")
    await port.delete(CONFIGMAP, "x", namespace="n")
    with contextlib.suppress(NotFound):
        await port.get(CONFIGMAP, "x", namespace="n")
    await port.list(CONFIGMAP)
    assert port.writes == [
        Write("create", CONFIGMAP, "n", "x"),
        Write("patch", CONFIGMAP, "n", "x", "status"),
        Write("bind", POD, "n", "p", "binding"),
        Write("delete", CONFIGMAP, "n", "x"),
    ]
    assert port.requests["get", "configmaps"] == 1
    assert port.requests["dry-run", "configmaps"] == 1


async def test_metrics_are_in_the_registry_they_were_given() -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    port = MeteredPort(FakePort(), metrics=metrics.server("hub"), clock=LoopClock(), keep_writes=False)
    await port.create(CONFIGMAP, {"metadata": {"name": "x"}}, namespace="n")
    with contextlib.suppress(NotFound):
        await port.get(CONFIGMAP, "missing", namespace="n")
    queue: WorkQueue[str] = WorkQueue(LoopClock(), metrics=metrics.queue("jobs"))
    queue.add("a")
    queue.retry(await queue.get())
    metrics.reconciled("jobs", seconds=0.1, outcome="bug")
    metrics.leading("hub", leads=True)
    text = generate_latest(registry).decode()
    for line in (
        'volcano_federation_api_requests_total{kind="configmaps",outcome="ok",server="hub",verb="create"} 1.0',
        'volcano_federation_api_requests_total{kind="configmaps",outcome="NotFound",server="hub",verb="get"} 1.0',
        'volcano_federation_workqueue_retries_total{queue="jobs"} 1.0',
        'volcano_federation_workqueue_depth{queue="jobs"} 0.0',
        'volcano_federation_reconciliations_total{outcome="bug",worker="jobs"} 1.0',
        'volcano_federation_leading{lease="hub"} 1.0',
    ):
        assert line in text
    assert port.writes == []


async def test_each_server_has_its_own_series_and_repeats_are_counted_in_them() -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    for name, times in (("hub", 1), ("member", 3)):
        server = metrics.server(name)
        port = MeteredPort(FakePort(), metrics=server, clock=LoopClock(), keep_writes=False)
        for number in range(times):
            await port.create(CONFIGMAP, {"metadata": {"name": f"x{number}"}}, namespace="n")
            server.event("configmaps", type="ADDED")
            server.event("configmaps", type="DELETED")
    for name, times in (("hub", 1), ("member", 3)):
        asked = {"server": name, "verb": "create"}
        assert registry.get_sample_value(
            "volcano_federation_api_requests_total", {**asked, "kind": "configmaps", "outcome": "ok"}
        ) == float(times)
        assert registry.get_sample_value("volcano_federation_api_request_seconds_count", asked) == float(times)
        for type in ("ADDED", "DELETED"):
            labels = {"server": name, "kind": "configmaps", "type": type}
            assert registry.get_sample_value("volcano_federation_informer_events_total", labels) == float(times)


async def test_what_is_no_error_of_a_server_is_not_counted_as_one() -> None:
    registry = CollectorRegistry()
    port = MeteredPort(FakePort(), metrics=Metrics(registry).server("hub"), clock=LoopClock())
    with pytest.raises(TypeError):
        await port.create(CONFIGMAP, {"metadata": {"name": object()}}, namespace="n")
    labels = {"server": "hub", "verb": "create", "kind": "configmaps", "outcome": "ok"}
    assert registry.get_sample_value("volcano_federation_api_requests_total", labels) == 1.0


def test_what_is_counted_has_exactly_the_name_that_dashboards_ask_for() -> None:
    metrics = Metrics(CollectorRegistry())
    for _ in range(2):
        metrics.count("volcano_job_failed_phase_count", "Jobs that failed.", queue_name="research")
        metrics.count("volcano_total_preemption_attempts", "Gangs for which pods were evicted.", by=3)
        metrics.count("volcano_schedule_attempts_total", "Attempts.", result="error")
    lines = [line for line in generate_latest(metrics.registry).decode().splitlines() if not line.startswith("#")]
    assert 'volcano_job_failed_phase_count{queue_name="research"} 2.0' in lines
    assert "volcano_total_preemption_attempts 6.0" in lines
    assert 'volcano_schedule_attempts_total{result="error"} 2.0' in lines
