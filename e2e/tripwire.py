"""A reverse proxy with a tripwire: it kills a program right before or right after a chosen write reaches the API server.

It stands between one of our programs and a real API server, on loopback, and passes everything through, watches included.
The program under test is unchanged and knows nothing of it.
"""

from __future__ import annotations

import contextlib
import re
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web

WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "upgrade", "host", "content-length"})


@dataclass
class Wire:
    """Trips at the `nth` write (from 1) whose `METHOD path` matches `pattern`, before or after it takes effect."""

    name: str
    pattern: str
    nth: int
    after: bool
    seen: int = 0
    hit: str = ""

    def passes(self, request: str) -> bool:
        """Count a write; true when this is the one."""
        if self.hit or not re.search(self.pattern, request):
            return False
        self.seen += 1
        if self.seen != self.nth:
            return False
        self.hit = f"{'after' if self.after else 'before'} write {self.nth} of {self.name} ({request})"
        return True


@dataclass
class Tripwires:
    """A proxy to one API server. `kill` is called when a wire trips and must stop the program before it returns."""

    upstream: str
    upstream_ssl: ssl.SSLContext | bool
    headers: dict[str, str]
    kill: Callable[[Wire], None]
    wires: list[Wire] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)
    url: str = ""

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Serve on a free loopback port; yields the base URL."""
        connector = aiohttp.TCPConnector(limit=0, ssl=self.upstream_ssl)
        async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:

            async def answer(request: web.BaseRequest) -> web.StreamResponse:
                return await self._pass(request, session)

            runner = web.ServerRunner(web.Server(answer, access_log=None), shutdown_timeout=1.0)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            host, port = runner.addresses[0][:2]
            self.url = f"http://{host}:{port}"
            try:
                yield self.url
            finally:
                await runner.cleanup()

    async def _pass(self, request: web.BaseRequest, session: aiohttp.ClientSession) -> web.StreamResponse:
        line = f"{request.method} {request.path}"
        wire = None
        if request.method in WRITES:
            self.writes.append(line)
            wire = next((each for each in self.wires if each.passes(line)), None)
        body = await request.read()
        if wire is not None and not wire.after:
            self.kill(wire)
            return web.Response(status=503)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}
        headers.update(self.headers)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5)
        async with session.request(
            request.method, self.upstream + request.path_qs, data=body or None, headers=headers, timeout=timeout
        ) as answer:
            if wire is not None:
                await answer.read()
                self.kill(wire)
                return web.Response(status=503)
            return await _relay(request, answer)


async def _relay(request: web.BaseRequest, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    headers = {name: value for name, value in answer.headers.items() if name.lower() not in HOP_BY_HOP}
    response = web.StreamResponse(status=answer.status, reason=answer.reason, headers=headers)
    with contextlib.suppress(ConnectionError, aiohttp.ClientError):  # the program behind may be dead by now
        await response.prepare(request)
        async for chunk in answer.content.iter_any():
            await response.write(chunk)
        await response.write_eof()
    return response
