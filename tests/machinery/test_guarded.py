"""Who reads metrics over TLS: whoever the API server knows and lets."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from prometheus_client import CollectorRegistry

from controllers.admission import certificates
from controllers.admission.settings import DAY, Lifetimes
from machinery.authorization import PATH as ACCESS_REVIEWS
from machinery.clock import SystemClock
from machinery.errors import Unreachable
from machinery.guarded import LONGEST_TOKEN, TOKEN_REVIEWS, GuardedMetrics, MetricsSettings, Readers
from machinery.metrics import Metrics
from tests.machinery.fakes import LoopClock

Doc = dict[str, Any]
LIVES = Lifetimes(authority=10 * DAY, serving=2 * DAY, settle=3600)
USERS = {"good": "prometheus", "other": "ann"}


class Server:
    """An API server that knows two tokens, of whose users one may read metrics."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.away = False

    async def request(self, method: str, path: str, *, body: Doc | None = None) -> bytes:
        assert body is not None
        self.asked.append(path)
        if self.away:
            raise Unreachable("no answer", request=path)
        spec = body["spec"]
        if path == TOKEN_REVIEWS:
            user = USERS.get(spec["token"])
            return orjson.dumps({"status": {"authenticated": user is not None, "user": {"username": user or ""}}})
        assert path == ACCESS_REVIEWS
        assert spec["nonResourceAttributes"] == {"path": "/metrics", "verb": "get"}
        return orjson.dumps({"status": {"allowed": spec["user"] == "prometheus"}})


@contextlib.asynccontextmanager
async def served(server: Server, folder: Path) -> AsyncIterator[tuple[GuardedMetrics, str]]:
    """The metrics and the authority that signed their certificate."""
    ring = certificates.take(certificates.Step.MAKE, ring=None, now=SystemClock().now(), names=("127.0.0.1",), lives=LIVES)
    settings = MetricsSettings(port=0, host="127.0.0.1", certificate=folder / "tls.crt", key=folder / "tls.key")
    settings.certificate.write_bytes(ring.serving.certificate)
    settings.key.write_bytes(ring.serving.key)
    registry = CollectorRegistry()
    Metrics(registry).leading("hub", leads=True)
    readers = Readers(server, clock=SystemClock())  # type: ignore[arg-type]
    metrics = GuardedMetrics(registry, settings=settings, readers=readers, clock=SystemClock())
    task = asyncio.create_task(metrics.run())
    try:
        await metrics.wait_started()
        yield metrics, ring.bundle.decode()
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_whoever_may_reads_the_numbers_over_tls_and_nobody_else_does(tmp_path: Path) -> None:
    async with served(Server(), tmp_path) as (metrics, authority):
        trust = ssl.create_default_context(cadata=authority)
        async with aiohttp.ClientSession(f"https://127.0.0.1:{metrics.port}") as client:

            async def ask(path: str, token: str) -> tuple[int, str]:
                headers = {"Authorization": f"Bearer {token}"} if token else {}
                async with client.get(path, headers=headers, ssl=trust) as answer:
                    return answer.status, await answer.text()

            status, text = await ask("/metrics", "good")
            assert status == 200
            assert "volcano_federation_leading" in text
            assert [(await ask("/metrics", token))[0] for token in ("", "forged", "other")] == [401, 401, 403]
            assert (await ask("/readyz", "good"))[0] == 404


@pytest.mark.looptime
async def test_a_yes_is_remembered_for_a_minute_and_a_no_is_not() -> None:
    server = Server()
    readers = Readers(server, clock=LoopClock())  # type: ignore[arg-type]
    assert [await readers.refusal("Bearer good") for _ in range(3)] == [0, 0, 0]
    assert len(server.asked) == 2
    assert [await readers.refusal("Bearer other") for _ in range(2)] == [403, 403]
    assert len(server.asked) == 6
    await asyncio.sleep(61)
    await readers.refusal("Bearer good")
    assert len(server.asked) == 8


@pytest.mark.looptime
async def test_nobody_is_let_in_whom_the_api_server_cannot_be_asked_about() -> None:
    server = Server()
    server.away = True
    assert await Readers(server, clock=LoopClock()).refusal("Bearer good") == 503  # type: ignore[arg-type]


@pytest.mark.looptime
@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic good", "Bearer " + "x" * (LONGEST_TOKEN + 1)])
async def test_what_is_no_token_is_not_looked_up(header: str) -> None:
    server = Server()
    assert await Readers(server, clock=LoopClock()).refusal(header) == 401  # type: ignore[arg-type]
    assert server.asked == []
