"""Workers: take a key, reconcile it, put it back with back-off when that failed.

The one broad `except` of the project is here. A failure of one key is logged and counted and never stops another key; only
cancellation ends the workers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Protocol, TypeVar

from machinery.errors import ApiError, Forbidden
from machinery.workqueue import QueueMetrics, WorkQueue

K = TypeVar("K", bound=Hashable)

log = logging.getLogger(__name__)


class WorkMetrics(Protocol):
    """What workers tell about each reconciliation, and who is told about their queue; see `machinery.metrics`."""

    def queue(self, name: str) -> QueueMetrics:
        """For the queue of the workers of this name."""
        ...

    def reconciled(self, name: str, *, seconds: float, outcome: str) -> None:
        """`outcome` is "done", "again" (a delay was asked for), "refused" (the API server's error) or "bug"."""
        ...


async def run_workers(
    queue: WorkQueue[K],
    reconcile: Callable[[K], Awaitable[float | None]],
    *,
    workers: int,
    name: str,
    metrics: WorkMetrics | None = None,
) -> None:
    """Reconcile keys of `queue` with so many workers until cancelled.

    A number returned by `reconcile` brings the key back after so many seconds; None leaves it until somebody adds it. An
    exception brings it back after its back-off, or after the delay the API server asked for if that is longer.
    """
    if metrics is not None:
        queue.measure(metrics.queue(name))
    async with asyncio.TaskGroup() as group:
        for number in range(workers):
            group.create_task(_work(queue, reconcile, name=name, metrics=metrics), name=f"{name}-{number}")


async def _work(
    queue: WorkQueue[K],
    reconcile: Callable[[K], Awaitable[float | None]],
    *,
    name: str,
    metrics: WorkMetrics | None,
) -> None:
    loop = asyncio.get_running_loop()
    while True:
        key = await queue.get()
        started = loop.time()
        try:
            outcome = await _one(queue, reconcile, key, name=name)
        finally:
            queue.done(key)
        if metrics is not None:
            metrics.reconciled(name, seconds=loop.time() - started, outcome=outcome)


async def _one(queue: WorkQueue[K], reconcile: Callable[[K], Awaitable[float | None]], key: K, *, name: str) -> str:
    try:
        again = await reconcile(key)
    except Exception as error:  # noqa: BLE001  the one place: a key that fails must not stop the others
        asked = error.retry_after if isinstance(error, ApiError) else None
        delay = queue.retry(key, at_least=asked or 0.0)
        return _report(error, key, name=name, delay=delay, failures=queue.failures(key))
    queue.forget(key)
    if again is None:
        return "done"
    queue.add_after(key, again)
    return "again"


def _report(error: Exception, key: Hashable, *, name: str, delay: float, failures: int) -> str:
    """Log one failure: an answer of the API server in one line, anything else as the bug it is. That a namespace on its way out
    takes nothing more is no news to anybody."""
    extra = {"worker": name, "key": str(key), "failures": failures, "retry_seconds": round(delay, 3)}
    if isinstance(error, ApiError):
        level = logging.DEBUG if isinstance(error, Forbidden) and error.namespace_ends else logging.WARNING
        log.log(level, "%s: %s: %s: %s", name, key, type(error).__name__, error, extra=extra)
        return "refused"
    log.error("%s: %s: unexpected %s", name, key, type(error).__name__, exc_info=error, extra=extra)
    return "bug"
