"""Pods are asked at their own addresses and by the rules of the channel: here they listen on loopback."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import orjson
from aiohttp import web

from apis import kinds
from controllers.flows.plans import ProbeWanted
from machinery.clock import Chance, Ids, SystemClock
from member_agent.probes import PodProber
from policies.flows.spec import HttpGet, HttpHeader, Probe, TcpSocket
from simulator.api import ApiServer, MemoryPort


class House:
    """A cluster of pods that all live on loopback, and one server behind them."""

    def __init__(self) -> None:
        clock, chance = SystemClock(), Chance(1)
        self.port = MemoryPort(ApiServer(clock, ids=Ids(chance), chance=chance))
        self.prober = PodProber(self.port)
        self.seen: list[dict[str, str]] = []
        self.status = 200
        self.number = 0

    async def pod(self, name: str, *, job: str = "server", task: str = "main", running: bool = True) -> None:
        meta = {"name": name, "labels": {"volcano.sh/job-name": job}, "annotations": {"volcano.sh/task-spec": task}}
        body = {"metadata": meta, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        made = orjson.loads(await self.port.create(kinds.POD, body, namespace="team"))
        status: dict[str, Any] = {"podIP": "127.0.0.1", "phase": "Running" if running else "Pending"}
        await self.port.replace(kinds.POD, name, {**made, "status": status}, namespace="team", subresource="status")

    async def ask(self, probe: Probe) -> str:
        return await self.prober.ask("team", ProbeWanted("client", ("server",), probe))

    async def answer(self, request: web.Request) -> web.Response:
        self.seen.append({name.lower(): value for name, value in request.headers.items()})
        return web.Response(status=self.status, headers={"Location": "http://127.0.0.1:1/"} if self.status == 302 else {})


@contextlib.asynccontextmanager
async def house() -> AsyncIterator[House]:
    built = House()
    await built.port.create(kinds.NAMESPACE, {"metadata": {"name": "team"}})
    app = web.Application()
    app.router.add_get("/ready", built.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    built.number = runner.addresses[0][1]
    try:
        yield built
    finally:
        await runner.cleanup()


def get(number: int, *, task: str = "", path: str = "/ready", header: tuple[str, str] = ("X-Probe", "yes")) -> Probe:
    return Probe(http_get_list=[HttpGet(task_name=task, port=number, path=path, http_header=HttpHeader(*header))])


async def test_every_pod_of_the_task_is_asked_with_the_header_that_is_given() -> None:
    async with house() as built:
        await built.pod("server-main-0")
        await built.pod("server-main-1")
        await built.pod("server-side-0", task="side", running=False)
        assert await built.ask(get(built.number, task="main")) == ""
        assert [seen["x-probe"] for seen in built.seen] == ["yes", "yes"]


async def test_headers_that_carry_identity_are_not_sent() -> None:
    async with house() as built:
        await built.pod("server-main-0")
        assert await built.ask(get(built.number, header=("Authorization", "Bearer x"))) == ""
        assert "authorization" not in built.seen[0]


async def test_a_redirect_counts_as_an_answer_and_is_not_followed() -> None:
    async with house() as built:
        await built.pod("server-main-0")
        built.status = 302
        assert await built.ask(get(built.number)) == ""


async def test_a_bad_answer_names_pod_path_and_status() -> None:
    async with house() as built:
        await built.pod("server-main-0")
        built.status = 503
        assert await built.ask(get(built.number)) == f"pod server-main-0: /ready on port {built.number} answers 503"


async def test_pods_that_are_missing_or_do_not_run_are_named() -> None:
    async with house() as built:
        assert await built.ask(get(built.number)) == "Job server has no pod"
        await built.pod("server-main-0", running=False)
        assert await built.ask(get(built.number)) == "pod server-main-0 is not running"
        assert await built.ask(get(built.number, task="side")) == "Job server has no pod of task side"


async def test_a_port_where_somebody_listens_is_reached_and_another_is_not() -> None:
    async with house() as built:
        await built.pod("server-main-0")
        assert await built.ask(Probe(tcp_socket_list=[TcpSocket(port=built.number)])) == ""
        server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
        closed = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        said = await built.ask(Probe(tcp_socket_list=[TcpSocket(port=closed)]))
        assert said.startswith(f"pod server-main-0: port {closed}: ")
