"""The real port against a server on loopback that misbehaves in every way the network offers.

How it gets on with a real API server is the contract suite's story.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import yaml
from aiohttp import web

from apis.kinds import CONFIGMAP, NODE, POD
from machinery import kube
from machinery.errors import Invalid, NotFound, ServerFailed, Unreachable
from machinery.kube import BadConfiguration, KubePort, proxy_of_environment
from machinery.port import EventType, PatchType

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def kubeconfig(folder: Path, *, server: str, **user: str) -> str:
    path = folder / "kubeconfig"
    path.write_text(
        yaml.safe_dump(
            {
                "current-context": "x",
                "clusters": [{"name": "c", "cluster": {"server": server}}],
                "users": [{"name": "u", "user": user or {"token": "sesame"}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            }
        )
    )
    return str(path)


@contextlib.asynccontextmanager
async def serving(handler: Handler, folder: Path, *, timeout: float = 5.0, **user: str) -> AsyncIterator[KubePort]:
    runner = web.ServerRunner(web.Server(handler), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = await KubePort.from_kubeconfig(
        kubeconfig(folder, server=f"http://127.0.0.1:{runner.addresses[0][1]}", **user), timeout=timeout
    )
    try:
        yield port
    finally:
        await port.close()
        await runner.cleanup()


async def test_requests_carry_path_selectors_and_credentials(tmp_path: Path) -> None:
    seen: list[str] = []

    async def handler(request: web.BaseRequest) -> web.Response:
        seen.append(f"{request.method} {request.path_qs} {request.headers['Authorization']}")
        return web.Response(body=b'{"metadata":{"resourceVersion":"1"},"items":[]}')

    async with serving(handler, tmp_path) as port:
        await port.list(POD, namespace="n", labels="a=b,c", fields="spec.nodeName=", limit=0)
        await port.list(NODE, continue_token="t", resource_version="5")
        await port.patch(CONFIGMAP, "x", {}, type=PatchType.APPLY, namespace="n", field_manager="m", force=True)
        await port.get(NODE, "we%ird")
    assert seen == [
        "GET /api/v1/namespaces/n/pods?labelSelector=a%3Db%2Cc&fieldSelector=spec.nodeName%3D Bearer sesame",
        "GET /api/v1/nodes?limit=500&continue=t Bearer sesame",
        "PATCH /api/v1/namespaces/n/configmaps/x?fieldManager=m&force=true Bearer sesame",
        "GET /api/v1/nodes/we%25ird Bearer sesame",
    ]


async def test_a_rotated_token_file_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kube, "TOKEN_REFRESH", 0.0)
    token = tmp_path / "token"
    token.write_text("first")

    async def handler(request: web.BaseRequest) -> web.Response:
        return web.Response(text=request.headers["Authorization"])

    async with serving(handler, tmp_path, tokenFile=str(token)) as port:
        assert await port.request("GET", "/x") == b"Bearer first"
        token.write_text("second")
        assert await port.request("GET", "/x") == b"Bearer second"
        token.unlink()
        assert await port.request("GET", "/x") == b"Bearer second"


async def test_a_server_that_does_not_answer_in_time_is_unreachable(tmp_path: Path) -> None:
    released = asyncio.Event()

    async def handler(request: web.BaseRequest) -> web.Response:
        await released.wait()
        return web.Response()

    async with serving(handler, tmp_path, timeout=0.05) as port:
        with pytest.raises(Unreachable) as caught:
            await port.create(CONFIGMAP, {"metadata": {"name": "x"}}, namespace="n")
        assert isinstance(caught.value.__cause__, TimeoutError)
        assert caught.value.outcome_unknown
        released.set()


async def test_a_connection_that_breaks_is_unreachable(tmp_path: Path) -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Length": "1000"})
        await answer.prepare(request)
        await answer.write(b"half")
        assert request.transport is not None
        request.transport.abort()
        return answer

    async with serving(handler, tmp_path) as port:
        with pytest.raises(Unreachable):
            await port.get(CONFIGMAP, "x", namespace="n")
        with pytest.raises(Unreachable):
            async for _ in port.watch(CONFIGMAP):
                pass


async def test_nobody_there_is_unreachable(tmp_path: Path) -> None:
    port = await KubePort.from_kubeconfig(kubeconfig(tmp_path, server="http://127.0.0.1:1"))
    with pytest.raises(Unreachable):
        await port.get(NODE, "x")
    with pytest.raises(Unreachable):
        async for _ in port.watch(NODE):
            pass
    await port.close()
    with pytest.raises(Unreachable, match="closed"):
        await port.get(NODE, "x")


async def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        return web.Response(status=302, headers={"Location": "/elsewhere"})

    async with serving(handler, tmp_path) as port:
        with pytest.raises(Exception, match="HTTP 302"):
            await port.get(NODE, "x")


async def test_a_proxy_page_is_the_servers_failure(tmp_path: Path) -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        return web.Response(text="<html>\nhello</html>")

    async with serving(handler, tmp_path) as port:
        with pytest.raises(ServerFailed, match="not a list"):
            await port.list(NODE)
        with pytest.raises(ServerFailed, match="not a watch event"):
            async for _ in port.watch(NODE):
                pass


async def test_a_watch_brings_objects_of_any_size_until_the_server_ends_it(tmp_path: Path) -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        assert request.query["allowWatchBookmarks"] == "true"
        assert request.query["timeoutSeconds"] == "7"
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b'{"type":"ADDED","object":{"x":"' + b"y" * (1 << 20) + b'"}}\n{"type":"MODI')
        await answer.write(b'FIED","object":{}}\n{"type":"DELETED","object":{"cut')
        return answer

    async with serving(handler, tmp_path) as port:
        events = [event async for event in port.watch(CONFIGMAP, timeout=7)]
    assert [event.type for event in events] == [EventType.ADDED, EventType.MODIFIED]
    assert len(events[0].document) > 1 << 20


async def quiet(request: web.BaseRequest) -> web.StreamResponse:
    answer = web.StreamResponse()
    await answer.prepare(request)
    await answer.write(b'{"type":"ADDED","object":{}}\n')
    await asyncio.sleep(30)
    return answer


async def test_a_silent_watch_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kube, "WATCH_SILENCE", 0.05)
    async with serving(quiet, tmp_path) as port:
        assert len([event async for event in port.watch(CONFIGMAP)]) == 1


async def test_closing_the_port_ends_its_watches(tmp_path: Path) -> None:
    async with serving(quiet, tmp_path) as port:
        seen = 0
        async for _ in port.watch(CONFIGMAP):
            seen += 1
            asyncio.get_running_loop().call_soon(lambda: asyncio.ensure_future(port.close()))
        assert seen == 1


async def test_a_log_is_read_as_it_comes_and_a_refusal_or_a_break_is_an_error(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def serve(request: web.BaseRequest) -> web.StreamResponse:
        if request.query.get("container") == "none":
            return web.json_response({"kind": "Status", "code": 400, "message": "no such container"}, status=400)
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"one\n")
        await go_on.wait()
        assert request.transport is not None
        request.transport.abort()
        return answer

    path = POD.path(namespace="team", name="p", subresource="log")
    async with serving(serve, tmp_path) as port:
        with pytest.raises(Invalid, match="no such container"):
            await anext(port.stream(path, query={"container": "none"}))
        stream = port.stream(path, query={"follow": "true"})
        assert await anext(stream) == b"one\n"
        go_on.set()
        with pytest.raises(Unreachable):
            await anext(stream)


async def test_a_refused_watch_is_an_error(tmp_path: Path) -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        return web.json_response({"message": "no such kind", "code": 404}, status=404)

    async with serving(handler, tmp_path) as port:
        with pytest.raises(NotFound, match="no such kind"):
            async for _ in port.watch(CONFIGMAP):
                pass


@pytest.mark.parametrize("name", ["", "..", "a/b"])
async def test_a_name_cannot_change_which_path_is_asked(tmp_path: Path, name: str) -> None:
    port = await KubePort.from_kubeconfig(kubeconfig(tmp_path, server="http://127.0.0.1:1"))
    with pytest.raises(Invalid):
        await port.delete(CONFIGMAP, name, namespace="n")
    await port.close()


async def test_a_configuration_that_cannot_be_used_says_why(tmp_path: Path) -> None:
    with pytest.raises(BadConfiguration, match="no such file"):
        await KubePort.from_kubeconfig(str(tmp_path / "missing"))
    broken = tmp_path / "broken"
    broken.write_text("current-context: nowhere\ncontexts: []\n")
    with pytest.raises(BadConfiguration, match="nowhere"):
        await KubePort.from_kubeconfig(str(broken))
    with pytest.raises(BadConfiguration, match="in-cluster"):
        await KubePort.in_cluster()


def test_the_library_is_not_loaded_before_a_port_is_opened() -> None:
    program = "import sys, machinery.kube, machinery.informer; print('kubernetes_asyncio' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("environment", "proxy"),
    [
        ({}, None),
        ({"https_proxy": "http://door:3128"}, "http://door:3128"),
        ({"http_proxy": "http://door:3128"}, None),
        ({"https_proxy": "http://door:3128", "no_proxy": "api.example.com"}, None),
    ],
)
def test_a_proxy_is_the_one_that_the_environment_names(
    environment: dict[str, str], proxy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert proxy_of_environment("https://api.example.com:6443") == proxy
