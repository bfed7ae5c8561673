"""A kubelet asks whether the program lives and is ready; Prometheus asks for its numbers."""

from __future__ import annotations

import asyncio
import contextlib

import aiohttp
from prometheus_client import CollectorRegistry

from machinery.http import HealthServer
from machinery.metrics import Metrics


async def test_health_readiness_and_metrics_are_served() -> None:
    registry = CollectorRegistry()
    Metrics(registry).leading("hub", leads=False)
    synced = False
    server = HealthServer(registry, ready={"informers": lambda: synced, "port": lambda: True}, host="127.0.0.1", port=0)
    task = asyncio.create_task(server.run())
    await server.wait_started()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as client:

        async def ask(path: str) -> tuple[int, str]:
            async with client.get(path) as answer:
                return answer.status, await answer.text()

        assert await ask("/healthz") == (200, "ok\n")
        assert await ask("/readyz") == (503, "[-]informers failed\n[+]port ok\nfailed\n")
        synced = True
        assert await ask("/readyz") == (200, "[+]informers ok\n[+]port ok\nok\n")
        status, text = await ask("/metrics")
        assert status == 200
        assert 'volcano_federation_leading{lease="hub"} 0.0' in text
        assert (await ask("/"))[0] == 404
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_numbers_that_are_shown_elsewhere_are_not_shown_here() -> None:
    server = HealthServer(CollectorRegistry(), ready={}, host="127.0.0.1", port=0, metrics=False)
    task = asyncio.create_task(server.run())
    await server.wait_started()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as client, client.get("/metrics") as answer:
        assert answer.status == 404
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
