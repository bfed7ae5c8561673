"""Steps of flows are probed from the hub: the pods of the step, wherever they run, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from aiohttp import web

from controllers.channel import messages
from controllers.channel.messages import ProbeAsked, Probed
from controllers.channel.settings import Limits
from controllers.flows.plans import ProbeWanted
from machinery import errors
from policies.flows.spec import HttpGet, HttpHeader, Probe, TcpSocket
from tests.federation.channel.house import TEAM, House, house, until
from tests.federation.channel.test_agents import stranger


class Pod:
    """What listens in a pod: on loopback here."""

    def __init__(self) -> None:
        self.port = 0
        self.seen: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.status = 200

    async def answer(self, request: web.Request) -> web.Response:
        self.seen.append({name.lower(): value for name, value in request.headers.items()})
        self.paths.append(request.path_qs)
        headers = {"Location": f"http://127.0.0.1:{self.port}/elsewhere"} if self.status == 302 else {}
        return web.Response(status=self.status, headers=headers)


@contextlib.asynccontextmanager
async def listening() -> AsyncIterator[Pod]:
    pod = Pod()
    app = web.Application()
    app.router.add_get("/{path:.*}", pod.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    pod.port = runner.addresses[0][1]
    try:
        yield pod
    finally:
        await runner.cleanup()


def get(port: int, *, task: str = "", path: str = "/ready", header: tuple[str, str] = ("X-Probe", "yes")) -> Probe:
    return Probe(http_get_list=[HttpGet(task_name=task, port=port, path=path, http_header=HttpHeader(*header))])


async def ask(built: House, probe: Probe, *jobs: str) -> str:
    """What the hub's prober hears."""
    return await built.channel.prober().ask(TEAM, ProbeWanted("next", jobs or ("server",), probe))


async def test_the_pods_of_the_step_are_asked_at_their_member(tmp_path: Path) -> None:
    async with house(tmp_path) as built, listening() as pod:
        east = await built.member("east")
        await built.job("server", "east")
        assert await ask(built, get(pod.port)) == "cluster east: Job server has no pod"
        await east.pod("server-main-0", job="server")
        assert await ask(built, get(pod.port)) == ""
        assert pod.seen[0]["x-probe"] == "yes"
        assert await ask(built, Probe(tcp_socket_list=[TcpSocket(port=pod.port)])) == ""
        pod.status = 503
        said = f"cluster east: pod server-main-0: /ready on port {pod.port} answers 503"
        assert await ask(built, get(pod.port)) == said


async def test_redirects_are_not_followed_and_headers_of_identity_and_connection_are_not_sent(tmp_path: Path) -> None:
    async with house(tmp_path) as built, listening() as pod:
        east = await built.member("east")
        await built.job("server", "east")
        await east.pod("server-main-0", job="server")
        pod.status = 302
        for name in ("Authorization", "Cookie", "X-Remote-User", "Impersonate-User", "Proxy-Connection", "Upgrade", "Host"):
            assert await ask(built, get(pod.port, header=(name, "root"))) == ""
        assert pod.paths == ["/ready"] * 7
        assert not any(value == "root" for seen in pod.seen for value in seen.values())


async def test_no_path_leads_to_another_host(tmp_path: Path) -> None:
    async with house(tmp_path) as built, listening() as pod, listening() as victim:
        east = await built.member("east")
        await built.job("server", "east")
        await east.pod("server-main-0", job="server")
        for path in (f"@127.0.0.1:{victim.port}/", f"//127.0.0.1:{victim.port}/", f"/\\127.0.0.1:{victim.port}", "x?y=1"):
            await ask(built, get(pod.port, path=path))
        assert victim.paths == []
        assert len(pod.paths) == 4 and pod.paths[-1] == "/x?y=1"


async def test_ports_that_are_not_the_pods_own_are_not_tried(tmp_path: Path) -> None:
    async with house(tmp_path) as built, listening() as pod:
        east = await built.member("east")
        await built.job("server", "east")
        node = {"hostNetwork": True, "containers": [{"name": "main", "image": "i", "ports": [{"containerPort": 1}]}]}
        await east.pod("server-main-0", job="server", spec=node)
        for number in (pod.port, 0, 65536, -1):
            assert await ask(built, get(number)) == f"cluster east: pod server-main-0: port {number} is not one of its own"
        assert pod.paths == []


async def test_pods_of_others_are_not_asked(tmp_path: Path) -> None:
    async with house(tmp_path) as built, listening() as pod:
        east = await built.member("east")
        await built.job("server", "east")
        await east.pod("server-main-0", job="server", owner="somebody")
        assert await ask(built, get(pod.port)) == "cluster east: Job server has no pod"
        assert pod.paths == []


async def test_only_the_members_that_have_pods_of_the_task_are_asked(tmp_path: Path) -> None:
    shares = {"east": {"main": 2, "web": 0}, "west": {"main": 1, "web": 1}}
    async with house(tmp_path) as built, listening() as pod:
        await built.member("east", dial=False)
        west = await built.member("west")
        await built.job("server", "east", "west", shares=shares)
        await west.pod("server-web-0", job="server", task="web")
        assert await ask(built, get(pod.port, task="web")) == ""
        away = "cluster east: its agent is not connected to this hub"
        assert await ask(built, get(pod.port, task="main")) == away
        assert await ask(built, get(pod.port, task="none")) == "Job server has no pod of the tasks that the probe names"


async def test_a_member_that_is_away_a_job_that_waits_and_a_hub_that_is_silent_are_named(tmp_path: Path) -> None:
    async with house(tmp_path) as built:
        await built.member("east", dial=False)
        await built.job("server", "east")
        await built.job("later")
        assert await ask(built, get(80)) == "cluster east: its agent is not connected to this hub"
        assert await ask(built, get(80), "later") == f"Job {TEAM}/later waits and has no pods yet"
        assert await ask(built, get(80), "gone") == 'jobs.batch.volcano.sh "gone" not found'


async def test_a_member_that_is_slow_is_asked_no_more_than_so_much_at_once(tmp_path: Path) -> None:
    async with house(tmp_path, limits=Limits(questions=2, answer=0.2)) as built:
        await built.member("east", dial=False)
        await built.job("server", "east")
        async with stranger(built, built.agents_ca.client("east")) as session, session.ws_connect(messages.CONTROL) as socket:
            await until(lambda: built.channel.switchboard.clusters == ["east"])
            slow = [asyncio.create_task(ask(built, get(80))) for _ in range(2)]
            asked = [messages.read_ask((await socket.receive()).data) for _ in range(2)]
            assert await ask(built, get(80)) == "cluster east: its agent has 2 other questions to answer"
            first = asked[0]
            assert isinstance(first, ProbeAsked)
            await socket.send_str(messages.encode(Probed(first.number, "not \x1b[1myet")).decode())
            answers = sorted(await asyncio.gather(*slow))
            assert answers == ["cluster east: its agent has not answered within 0 s", "cluster east: not yet"]


async def test_an_api_server_that_fails_is_a_reason_and_no_crash(tmp_path: Path) -> None:
    async with house(tmp_path) as built:

        async def fails(*args: object, **kwargs: object) -> bytes:
            raise errors.Unreachable("no answer")

        built.hub.get = fails  # type: ignore[method-assign]
        assert await ask(built, get(80)) == "Job server: no answer"
