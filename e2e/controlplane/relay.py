"""The door between the host's loopback and a member's own network, as one small process per member.

It lends the member three things without giving its namespaces a route anywhere: the API server (listening on loopback of the
host) at the switch's address, a stub image registry there, and, for the API server, an HTTP CONNECT proxy on a Unix socket
that opens connections *inside* the member's network (logs, exec, webhooks in pods). A socket belongs to the namespace its
creator was in, so one thread enters the namespace and only makes sockets; everything else runs outside.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import ctypes
import json
import os
import socket
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from aiohttp import web

from e2e.controlplane import images

CHUNK = 1 << 16
CLONE_NEWNET = 0x40000000
CONNECT_TIMEOUT = 5.0
"""Seconds for a connection inside the member's network."""

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def _enter(namespace: str) -> None:
    """Moves the calling thread, and only it, into a network namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(namespace, os.O_RDONLY)
    try:
        if libc.setns(descriptor, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"setns {namespace}")
    finally:
        os.close(descriptor)


class Namespace:
    """Makes sockets in another network namespace."""

    def __init__(self, pid: int) -> None:
        path = f"/proc/{pid}/ns/net"
        self._thread = concurrent.futures.ThreadPoolExecutor(max_workers=1, initializer=_enter, initargs=(path,))

    async def listener(self, address: str, *, port: int) -> socket.socket:
        def make() -> socket.socket:
            listening = socket.create_server((address, port), backlog=512)
            listening.setblocking(False)
            return listening

        return await asyncio.get_running_loop().run_in_executor(self._thread, make)

    async def connect(self, host: str, *, port: int) -> socket.socket:
        def make() -> socket.socket:
            made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            made.setblocking(False)
            return made

        loop = asyncio.get_running_loop()
        made = await loop.run_in_executor(self._thread, make)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                await loop.sock_connect(made, (host, port))
        except BaseException:
            made.close()
            raise
        return made


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copies until the end, then closes that direction."""
    while data := await reader.read(CHUNK):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


async def _join(
    near: tuple[asyncio.StreamReader, asyncio.StreamWriter], far: tuple[asyncio.StreamReader, asyncio.StreamWriter]
) -> None:
    try:
        with contextlib.suppress(ConnectionError, TimeoutError, OSError):
            await asyncio.gather(_pump(near[0], far[1]), _pump(far[0], near[1]))
    finally:
        near[1].close()
        far[1].close()


def forward_to(port: int) -> Handler:
    """Serves connections of the member by the host's loopback port."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return
        await _join((reader, writer), far)

    return handle


def parse_connect(request: bytes) -> tuple[str, int]:
    """Host and port of `CONNECT host:port HTTP/1.1`; ValueError for anything else."""
    method, target, _ = request.decode("latin-1").split("\r\n", 1)[0].split(" ", 2)
    if method != "CONNECT":
        raise ValueError(f"{method} instead of CONNECT")
    host, port = target.rsplit(":", 1)
    return host.strip("[]"), int(port)


def connect_into(namespace: Namespace) -> Handler:
    """An HTTP CONNECT proxy into the namespace."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            host, port = parse_connect(await reader.readuntil(b"\r\n\r\n"))
            made = await namespace.connect(host, port=port)
        except (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError) as error:
            writer.write(f"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nX-Error: {type(error).__name__}\r\n\r\n".encode())
            writer.close()
            return
        far = await asyncio.open_connection(sock=made)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await _join((reader, writer), far)

    return handle


def registry(answers: images.Table) -> web.Application:
    """A read-only registry of OCI images."""

    async def manifest(request: web.Request) -> web.Response:
        name, reference = request.match_info["name"], request.match_info["reference"]
        body = answers.manifest(name, reference=reference, registry=request.query.get("ns", "docker.io"))
        if body is None:
            raise web.HTTPNotFound
        headers = {"Docker-Content-Digest": images.digest(body), "Content-Type": images.MANIFEST_TYPE}
        return web.Response(body=body, headers=headers)

    async def blob(request: web.Request) -> web.Response:
        body = answers.blob(request.match_info["digest"])
        if body is None:
            raise web.HTTPNotFound
        return web.Response(body=body, content_type="application/octet-stream")

    async def ping(_: web.Request) -> web.Response:
        return web.json_response({})

    app = web.Application()
    app.router.add_get("/v2/", ping)
    app.router.add_get("/v2/{name:.+}/manifests/{reference}", manifest)
    app.router.add_get("/v2/{name:.+}/blobs/{digest}", blob)
    return app


async def run(orders: dict[str, Any], *, ready: Path) -> None:
    """Serves until cancelled; `ready` appears when everything listens."""
    namespace = Namespace(orders["switch_pid"])
    address = orders["address"]
    Path(orders["egress"]).unlink(missing_ok=True)
    api_socket = await namespace.listener(address, port=orders["api"]["listen"])
    api = await asyncio.start_server(forward_to(orders["api"]["connect"]), sock=api_socket)
    egress = await asyncio.start_unix_server(connect_into(namespace), orders["egress"])
    answers = images.table(Path(orders["registry"]["busybox"]), images=orders["registry"]["images"])
    runner = web.AppRunner(registry(answers), access_log=None)
    await runner.setup()
    await web.SockSite(runner, await namespace.listener(address, port=orders["registry"]["listen"])).start()
    ready.touch()
    await asyncio.gather(api.serve_forever(), egress.serve_forever())


def main() -> int:
    config = Path(sys.argv[1])
    asyncio.run(run(json.loads(config.read_text()), ready=config.with_suffix(".ready")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
