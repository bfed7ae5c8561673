"""One connection to the API server: requests, and answers that stream. Whatever goes wrong becomes an error of ours."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

import aiohttp

from volcano_federation.errors import ApiError, FederationError, Unreachable, from_status
from volcano_federation.kubeconfig import Place

Sleep = Callable[[float], Awaitable[None]]
"""How to let so many seconds pass."""

PATIENCE: Final = 30.0
"""Seconds for one answer; what streams may be silent for as long as it likes."""
TRIES: Final = 4
"""How often a request is sent that a busy API server turns away (429): after pauses of 1, 2 and 4 seconds."""
MAX_LINE: Final = 64 << 20
"""Bytes of one line of a stream; etcd keeps far smaller objects, so more is not Kubernetes talking."""
JSON: Final = "application/json"
MERGE: Final = "application/merge-patch+json"


class Door:
    """To the API server of one hub; an async context."""

    def __init__(self, place: Place, *, sleep: Sleep = asyncio.sleep) -> None:
        self._place = place
        self._sleep = sleep
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        """Once, before the first request."""
        connector = aiohttp.TCPConnector(ssl=self._place.tls if self._place.tls is not None else True, limit=0)
        headers = {"Accept": JSON, "User-Agent": "volcano-federation-client"}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=PATIENCE)
        self._session = aiohttp.ClientSession(connector=connector, headers=headers, timeout=timeout)

    async def close(self) -> None:
        """Once, after the last."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def ask(
        self,
        method: str,
        path: str,
        *,
        about: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content: str = JSON,
    ) -> dict[str, Any]:
        """The object that is answered. `about`: what errors name."""
        for left in reversed(range(TRIES)):
            try:
                async with asyncio.timeout(PATIENCE), self._sent(method, path, about, query, body, content) as answer:
                    found: dict[str, Any] = json.loads(await answer.read())
                    return found
            except ApiError as error:
                if error.code != 429 or not left:
                    raise
            except (aiohttp.ClientError, OSError) as error:
                raise self._unreachable(error) from error
            except ValueError as error:
                raise FederationError(f"the answer is no JSON: {error}", about=about) from error
            await self._sleep(2.0 ** (TRIES - 1 - left))
        raise AssertionError("the last try returns or raises")

    async def lines(self, path: str, *, about: str, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """Lines of an answer as they come, without their ends; returns when the answer is over, also when it breaks off."""
        rest = bytearray()
        async with contextlib.AsyncExitStack() as stack:
            try:
                answer = await stack.enter_async_context(self._sent("GET", path, about, query, None, JSON))
            except (aiohttp.ClientError, OSError) as error:
                raise self._unreachable(error) from error
            async for chunk in _chunks(answer):
                start = len(rest)
                rest += chunk
                if rest.find(b"\n", start) >= 0:
                    *whole, last = rest.split(b"\n")
                    rest = last
                    for line in whole:
                        yield bytes(line)
                elif len(rest) > MAX_LINE:
                    raise FederationError("the answer is no stream of lines", about=about)

    @contextlib.asynccontextmanager
    async def _sent(
        self,
        method: str,
        path: str,
        about: str,
        query: Mapping[str, str] | None,
        body: Mapping[str, Any] | None,
        content: str,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        if self._session is None:
            raise FederationError("use it in `async with`: it is not open", about=self._place.server)
        headers = {"Content-Type": content} if body is not None else {}
        authorization = await self._place.authorization()
        if authorization:
            headers["Authorization"] = authorization
        data = json.dumps(body).encode() if body is not None else None
        url = self._place.server + path
        async with self._session.request(
            method, url, params=query, data=data, headers=headers, allow_redirects=False
        ) as answer:
            if answer.status >= 300:
                raise from_status(_status(await answer.read()), code=answer.status, about=about)
            yield answer

    def _unreachable(self, error: Exception) -> Unreachable:
        text = "no answer in time" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
        return Unreachable(text, about=self._place.server)


async def _chunks(answer: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
    """What comes; a connection that breaks off is the end."""
    with contextlib.suppress(aiohttp.ClientError, OSError):
        async for chunk in answer.content.iter_any():
            yield chunk


def _status(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except ValueError:
        text = data[:500].decode(errors="replace").strip()
        return {"message": text} if text else {}
    return found if isinstance(found, dict) else {}
