"""A thin client of one API server: kubeconfig, aiohttp, orjson, and nothing of ours in between.

It serves the harness (readiness, nodes), tests that must not trust our own port, and the raw bounds of benchmarks.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import aiohttp
import orjson
import yaml

MERGE = "application/merge-patch+json"


class ApiRefused(Exception):
    """The API server answered something else than success."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text[:500]}")
        self.code = code
        self.text = text


def read_kubeconfig(path: Path) -> tuple[str, ssl.SSLContext]:
    """Server and TLS context of a kubeconfig as `render.kubeconfig` writes it."""
    config = yaml.safe_load(path.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    # The ssl module reads certificates from files only.
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = Path(folder) / "crt", Path(folder) / "key"
        certificate.write_bytes(base64.b64decode(user["client-certificate-data"]))
        key.touch(mode=0o600)
        key.write_bytes(base64.b64decode(user["client-key-data"]))
        context.load_cert_chain(certificate, key)
    return cluster["server"], context


class Api:
    """`async with Api(kubeconfig) as api`; at most `connections` requests are on the wire at once."""

    def __init__(self, kubeconfig: Path, *, connections: int = 100, user_agent: str = "raw") -> None:
        self._kubeconfig = kubeconfig
        self._connections = connections
        self._user_agent = user_agent
        self._session: aiohttp.ClientSession | None = None
        self._server = ""

    async def __aenter__(self) -> Api:
        self._server, context = read_kubeconfig(self._kubeconfig)
        connector = aiohttp.TCPConnector(limit=self._connections, ssl=context, keepalive_timeout=60)
        headers = {"User-Agent": self._user_agent}
        self._session = aiohttp.ClientSession(connector=connector, headers=headers, timeout=aiohttp.ClientTimeout(total=60))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()
            # TLS connections are let go in the next turns of the loop, which may be its last.
            await asyncio.sleep(0.01)

    @property
    def session(self) -> aiohttp.ClientSession:
        """For streaming requests; add `server` before the path."""
        if self._session is None:
            raise RuntimeError("Api is used outside `async with`")
        return self._session

    @property
    def server(self) -> str:
        return self._server

    async def raw(
        self, method: str, path: str, *, body: Mapping[str, Any] | bytes | None = None, content_type: str = "application/json"
    ) -> bytes:
        """The answer's bytes; ApiRefused for anything but 2xx, aiohttp.ClientError when there is no answer."""
        data = body if isinstance(body, bytes) or body is None else orjson.dumps(body)
        headers = {"Content-Type": content_type} if data is not None else {}
        async with self.session.request(method, self._server + path, data=data, headers=headers) as response:
            answer = await response.read()
            if response.status >= 300:
                raise ApiRefused(response.status, answer.decode(errors="replace"))
            return answer

    async def get(self, path: str) -> dict[str, Any]:
        answer: dict[str, Any] = orjson.loads(await self.raw("GET", path))
        return answer

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = orjson.loads(await self.raw("POST", path, body=body))
        return answer

    async def put(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = orjson.loads(await self.raw("PUT", path, body=body))
        return answer

    async def merge(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """A JSON merge patch."""
        answer: dict[str, Any] = orjson.loads(await self.raw("PATCH", path, body=body, content_type=MERGE))
        return answer

    async def delete(self, path: str) -> None:
        await self.raw("DELETE", path)
