"""The hub's end of the channel without an API server in between, for hubs that cannot be given an APIService: with a token."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final

import aiohttp

from machinery import errors
from machinery.wire import read_error

CONNECT: Final = 10.0
"""Seconds for a connection."""


class Direct:
    """See `machinery.port.Streams`. Opened by `opened`."""

    def __init__(self, session: aiohttp.ClientSession, *, token: str) -> None:
        self._session = session
        self._headers = {"Authorization": f"Bearer {token}"}

    async def stream(self, path: str, *, query: Mapping[str, str] | None = None) -> AsyncIterator[bytes]:
        request = f"GET {path}"
        try:
            async with self._session.get(path, params=query, headers=self._headers, allow_redirects=False) as answer:
                if answer.status != 200:
                    raise read_error(await answer.read(), code=answer.status, request=request)
                async for chunk in answer.content.iter_any():
                    yield chunk
        except (aiohttp.ClientError, OSError) as error:
            raise errors.Unreachable(f"no answer: {error!r}", request=request) from error


@contextlib.asynccontextmanager
async def opened(url: str, *, ca: Path | None, token: str) -> AsyncIterator[Direct]:
    """The channel at `url` (https://host:port), whose certificate `ca` signs (None: an authority of this system). ValueError
    when what is given cannot be used."""
    if not url.startswith("https://"):
        raise ValueError(f"{url!r} is not https://host:port")
    if not token:
        raise ValueError("the channel wants a token: kubectl create token, or that of your kubeconfig")
    try:
        context = ssl.create_default_context(cafile=str(ca) if ca is not None else None)
    except OSError as error:
        raise ValueError(f"{ca}: {error}") from error
    limits = aiohttp.ClientTimeout(total=None, connect=CONNECT)
    connector = aiohttp.TCPConnector(ssl=context, limit=0)
    async with aiohttp.ClientSession(url, connector=connector, timeout=limits) as session:
        yield Direct(session, token=token)
