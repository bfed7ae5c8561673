"""Health, readiness and metrics over HTTP, for kubelets and Prometheus.

`/healthz` answers while the event loop turns; `/readyz` names the checks that fail; `/metrics` is the program's registry.
Nothing here shows an object or a setting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

Check = Callable[[], bool]
"""Whether something is as it should be; must not wait."""


class HealthServer:
    """Serves on `host`:`port` (0: any free port, see `port` once started). `ready` and `healthy` are named checks;
    `metrics`: whether the numbers are shown here."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        ready: Mapping[str, Check],
        healthy: Mapping[str, Check] | None = None,
        host: str = "0.0.0.0",
        port: int = 8080,
        metrics: bool = True,
    ) -> None:
        self._registry = registry
        self._ready = ready
        self._healthy = healthy or {}
        self._host = host
        self._port = port
        self._shows = metrics
        self._started = asyncio.Event()

    @property
    def port(self) -> int:
        """The port served on."""
        return self._port

    async def wait_started(self) -> None:
        """Return once requests are answered."""
        await self._started.wait()

    async def run(self) -> None:
        """Serve until cancelled; OSError when the address cannot be had."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        if self._shows:
            app.router.add_get("/metrics", self._metrics)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self._port).start()
            self._port = runner.addresses[0][1]
            self._started.set()
            await asyncio.Event().wait()
        finally:
            self._started.clear()
            await runner.cleanup()

    async def _healthz(self, request: web.Request) -> web.Response:
        return _answer(self._healthy)

    async def _readyz(self, request: web.Request) -> web.Response:
        return _answer(self._ready)

    async def _metrics(self, request: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})


def _answer(checks: Mapping[str, Check]) -> web.Response:
    """200 when every check holds, else 503; one line per check either way, as Kubernetes components answer."""
    results = {name: check() for name, check in checks.items()}
    lines = [f"[{'+' if holds else '-'}]{name} {'ok' if holds else 'failed'}" for name, holds in results.items()]
    holds = all(results.values())
    return web.Response(text="\n".join([*lines, "ok" if holds else "failed", ""]), status=200 if holds else 503)
