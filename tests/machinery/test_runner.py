"""Workers survive whatever a reconciliation throws at them, and count it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

import pytest
from prometheus_client import CollectorRegistry

from machinery.errors import Conflict, FieldCause, Throttled, from_status
from machinery.metrics import Metrics
from machinery.runner import run_workers
from machinery.workqueue import QueueMetrics, WorkQueue
from tests.machinery.fakes import LoopClock

pytestmark = pytest.mark.looptime


class Outcomes:
    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    def queue(self, name: str) -> QueueMetrics:
        return Metrics(CollectorRegistry()).queue(name)

    def reconciled(self, name: str, *, seconds: float, outcome: str) -> None:
        self.seen.append((name, outcome))


async def run_for(
    seconds: float, queue: WorkQueue[str], reconcile: Callable[[str], Awaitable[float | None]], *, workers: int = 1
) -> list[str]:
    metrics = Outcomes()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await run_workers(queue, reconcile, workers=workers, name="test", metrics=metrics)
    return [outcome for _, outcome in metrics.seen]


async def test_a_bug_in_one_key_stops_neither_that_key_nor_another() -> None:
    queue: WorkQueue[str] = WorkQueue(LoopClock(), base=1.0)
    done: list[str] = []
    tries = 0

    async def reconcile(key: str) -> None:
        nonlocal tries
        if key == "bad":
            tries += 1
            if tries < 3:
                raise ZeroDivisionError("a bug")
        done.append(key)

    queue.add("bad")
    queue.add("good")
    assert await run_for(10, queue, reconcile) == ["bug", "done", "bug", "done"]
    assert done == ["good", "bad"]
    assert queue.failures("bad") == 0


async def test_that_a_namespace_on_its_way_out_takes_nothing_more_warns_nobody(caplog: pytest.LogCaptureFixture) -> None:
    queue: WorkQueue[str] = WorkQueue(LoopClock(), base=1.0)
    causes = [FieldCause("metadata.namespace", "namespace team is being terminated")]
    ends = from_status(code=403, reason="Forbidden", message="forbidden", request="create pods", causes=causes)
    denied = from_status(code=403, reason="Forbidden", message="not yours", request="create pods")
    answers = [ends, denied]

    async def reconcile(key: str) -> None:
        if answers:
            raise answers.pop(0)

    queue.add("team/train")
    with caplog.at_level(logging.INFO):
        assert await run_for(10, queue, reconcile) == ["refused", "refused", "done"]
    assert [record.getMessage() for record in caplog.records] == ["test: team/train: Forbidden: create pods: not yours"]


async def test_an_answer_of_the_server_is_retried_with_back_off(caplog: pytest.LogCaptureFixture) -> None:
    queue: WorkQueue[str] = WorkQueue(LoopClock(), base=1.0)
    times: list[float] = []

    async def reconcile(key: str) -> None:
        times.append(asyncio.get_running_loop().time())
        raise Conflict("somebody was faster") if len(times) < 3 else Throttled("slow down", retry_after=20)

    queue.add("a")
    assert await run_for(20, queue, reconcile) == ["refused"] * 3
    assert times == pytest.approx([0, 1, 3])
    assert "somebody was faster" in caplog.text
    assert "Traceback" not in caplog.text


async def test_a_returned_delay_brings_the_key_back() -> None:
    queue: WorkQueue[str] = WorkQueue(LoopClock())
    times: list[float] = []

    async def reconcile(key: str) -> float | None:
        times.append(asyncio.get_running_loop().time())
        return 30 if len(times) < 3 else None

    queue.add("a")
    assert await run_for(300, queue, reconcile) == ["again", "again", "done"]
    assert times == pytest.approx([0, 30, 60])


async def test_workers_run_side_by_side_and_never_on_one_key() -> None:
    queue: WorkQueue[str] = WorkQueue(LoopClock())
    running: set[str] = set()
    most = 0

    async def reconcile(key: str) -> None:
        nonlocal most
        assert key not in running
        running.add(key)
        most = max(most, len(running))
        queue.add("a")
        await asyncio.sleep(1)
        running.discard(key)

    for key in "abcd":
        queue.add(key)
    outcomes = await run_for(10.5, queue, reconcile, workers=3)
    assert set(outcomes) == {"done"}
    assert most == 3


async def test_cancellation_ends_the_workers_in_the_middle_of_a_key() -> None:
    queue: WorkQueue[str] = WorkQueue(LoopClock())
    cleaned = False

    async def reconcile(key: str) -> None:
        nonlocal cleaned
        try:
            await asyncio.sleep(1000)
        finally:
            cleaned = True

    queue.add("a")
    assert await run_for(5, queue, reconcile) == []
    assert cleaned
    assert queue.idle
