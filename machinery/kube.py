"""The Kubernetes port over a real API server.

Configuration (kubeconfig, in-cluster account, certificates, exec plug-ins, proxies) and the authenticated HTTP session are
kubernetes_asyncio's; requests go through that session as raw bytes, because building its model objects costs more than the
request. Importing the library takes more than a second, so it happens when the first port is opened and not before.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import io
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlencode
from urllib.request import getproxies, proxy_bypass

import aiohttp
from yarl import URL

from apis.kinds import POD, Kind
from machinery import wire
from machinery.errors import Invalid, Unreachable
from machinery.port import WATCH_TIMEOUT, Body, Document, Page, PatchType, Preconditions, Propagation, WatchEvent

REQUEST_TIMEOUT = 10.0
"""Seconds for one request from queueing for a connection to the last byte. Lists of 500 objects take well under one."""

POOL_SIZE = 100
"""Connections to one API server, watches included: more gain no throughput (reference measurements), fewer lose it."""

WATCH_SILENCE = 90.0
"""Seconds without a byte after which a watch is ended. API servers send a bookmark about once a minute; longer silence is a
quiet kind, for which a new watch is cheap, or a dead connection."""

USER_AGENT = "volcano-federation"
"""What stands before a slash in it becomes the field manager of writes that name none."""

TOKEN_REFRESH = 60.0
"""Seconds after which a token file or exec plug-in is asked again; plug-ins keep tokens themselves while these are good."""

READ_BUFFER = 1 << 21
"""Bytes of an answer that may wait to be read: a watch event can be as large as etcd takes an object."""

STREAM_BUFFER = 1 << 16
"""The same of a log, of which many may be open."""

LARGE_BODY = 1 << 20
"""Bytes from which the HTTP library wants a body as a file, so that sending it does not hold up the event loop."""

log = logging.getLogger(__name__)

_SAFE = "/:@!$&'()*+,;=~"
"""Characters of a path that stay as they are."""

_FAILURES = (aiohttp.ClientError, TimeoutError, OSError)
"""How the way to the server fails."""


def proxy_of_environment(host: str) -> str | None:
    """The proxy that `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` set for this URL when the port is opened."""
    url = URL(host)
    if url.host is None or proxy_bypass(url.host):
        return None
    return getproxies().get(url.scheme)


class BadConfiguration(ValueError):
    """A kubeconfig or in-cluster account that cannot be used; says which and why."""


class KubePort:
    """A real API server; see `machinery.port.Port`. Opened by `from_kubeconfig` or `in_cluster` inside the running event loop;
    `timeout` in seconds."""

    def __init__(self, client: Any, *, timeout: float = REQUEST_TIMEOUT, user_agent: str = USER_AGENT) -> None:
        """`client` is a kubernetes_asyncio ApiClient."""
        self._client = client
        self._configuration = client.configuration
        self._host = str(client.configuration.host).rstrip("/")
        # The library's own session asks the environment for a proxy at every request, in a thread; here it is asked once.
        connector = client.rest_client.pool_manager.connector
        self._session = aiohttp.ClientSession(
            connector=connector, connector_owner=False, trust_env=False, read_bufsize=READ_BUFFER
        )
        self._timeout = timeout
        self._once = aiohttp.ClientTimeout(total=timeout)
        self._headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": user_agent}
        self._options: dict[str, Any] = {"allow_redirects": False}
        for name in ("proxy", "proxy_headers", "server_hostname"):
            if getattr(client.rest_client, name):
                self._options[name] = getattr(client.rest_client, name)
        proxy = proxy_of_environment(self._host)
        if proxy is not None:
            self._options.setdefault("proxy", proxy)
        self._watching: set[aiohttp.ClientResponse] = set()
        self._closed = False

    @classmethod
    async def from_kubeconfig(
        cls,
        path: str | None = None,
        *,
        context: str | None = None,
        timeout: float = REQUEST_TIMEOUT,
        pool_size: int = POOL_SIZE,
        user_agent: str = USER_AGENT,
    ) -> Self:
        """Open the cluster of a kubeconfig file (None: `KUBECONFIG` or the usual place). BadConfiguration when it cannot be."""
        from kubernetes_asyncio import client, config

        if path is not None and not Path(path).is_file():  # noqa: ASYNC240  once, at start
            raise BadConfiguration(f"kubeconfig {path}: no such file")
        configuration = client.Configuration()
        configuration.connection_pool_maxsize = pool_size
        with _readable(f"kubeconfig {path or 'of the user'}", config.ConfigException):
            loader = await config.load_kube_config(
                config_file=path, context=context, client_configuration=configuration, persist_config=False
            )
            if any(source in (loader._user or ()) for source in ("exec", "tokenFile")):
                configuration.refresh_api_key_hook = _token_refresh(loader, config.ConfigException)
            return cls(client.ApiClient(configuration), timeout=timeout, user_agent=user_agent)

    @classmethod
    async def in_cluster(
        cls, *, timeout: float = REQUEST_TIMEOUT, pool_size: int = POOL_SIZE, user_agent: str = USER_AGENT
    ) -> Self:
        """Open the cluster this pod runs in with its service account; the token is read again as it is rotated."""
        from kubernetes_asyncio import client, config

        configuration = client.Configuration()
        configuration.connection_pool_maxsize = pool_size
        with _readable("in-cluster account", config.ConfigException):
            load: Callable[..., None] = config.load_incluster_config
            load(client_configuration=configuration)
            return cls(client.ApiClient(configuration), timeout=timeout, user_agent=user_agent)

    def acting_as(self, user: str) -> Self:
        """See `machinery.port.Impersonator`. It is no port of its own: this one is closed, and both are."""
        other = copy.copy(self)
        other._headers = {**self._headers, "Impersonate-User": user}
        return other

    # --- reading -----------------------------------------------------------------------------------------------------

    async def get(self, kind: Kind, name: str, *, namespace: str | None = None) -> Document:
        return await self._send("GET", _path(kind, namespace=namespace, name=name))

    async def list(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        limit: int = 500,
        continue_token: str = "",
        resource_version: str = "",
    ) -> Page:
        query = {
            "labelSelector": labels,
            "fieldSelector": fields,
            "limit": str(limit) if limit else "",
            "continue": continue_token,
            "resourceVersion": "" if continue_token else resource_version,
        }
        path = _path(kind, namespace=namespace)
        return wire.read_page(await self._send("GET", path, query=query), request=f"GET {path}")

    async def watch(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        resource_version: str = "",
        send_initial: bool = False,
        timeout: float = WATCH_TIMEOUT,
    ) -> AsyncIterator[WatchEvent]:
        path = _path(kind, namespace=namespace)
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "labelSelector": labels,
            "fieldSelector": fields,
            "resourceVersion": resource_version,
            "timeoutSeconds": str(max(1, round(timeout))),
        }
        if send_initial:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        request = f"WATCH {path}"
        async with contextlib.aclosing(self._frames(path, query=query, request=request)) as frames:
            async for frame in frames:
                yield wire.read_event(frame, request=request)

    async def _frames(self, path: str, *, query: Mapping[str, str], request: str) -> AsyncGenerator[bytes, None]:
        """The lines of a watch until it ends, falls silent or the port is closed."""
        frames = wire.Frames()
        limits = aiohttp.ClientTimeout(total=None, connect=self._timeout, sock_read=WATCH_SILENCE)
        with self._reaching(request):
            answer = await self._open("GET", path, query=query, timeout=limits)
        async with answer:
            await self._check(answer, request=request)
            self._watching.add(answer)
            try:
                async for chunk in self._chunks(answer, request=request):
                    for frame in frames.feed(chunk):
                        yield frame
            finally:
                self._watching.discard(answer)

    async def _chunks(self, answer: aiohttp.ClientResponse, *, request: str) -> AsyncIterator[bytes]:
        """What a watch brings, as it comes."""
        chunks = answer.content.iter_any()
        while True:
            try:
                chunk = await anext(chunks)
            except (StopAsyncIteration, TimeoutError):
                return
            except _FAILURES as error:
                if self._closed:
                    return
                raise Unreachable(f"the watch broke: {error!r}", request=request) from error
            yield chunk

    async def stream(self, path: str, *, query: Mapping[str, str] | None = None) -> AsyncIterator[bytes]:
        """See `machinery.port.Streams`. Silence is no failure: who follows a quiet log waits."""
        request = f"GET {path}"
        limits = aiohttp.ClientTimeout(total=None, connect=self._timeout)
        with self._reaching(request):
            answer = await self._open("GET", quote(path, safe=_SAFE), query=query, timeout=limits, buffer=STREAM_BUFFER)
        async with answer:
            await self._check(answer, request=request)
            with self._reaching(request):
                async for chunk in answer.content.iter_any():
                    yield chunk

    # --- writing -----------------------------------------------------------------------------------------------------

    async def create(self, kind: Kind, body: Body, *, namespace: str | None = None, dry_run: bool = False) -> Document:
        query = {"dryRun": "All" if dry_run else ""}
        return await self._send("POST", _path(kind, namespace=namespace), query=query, body=body)

    async def replace(
        self, kind: Kind, name: str, body: Body, *, namespace: str | None = None, subresource: str | None = None
    ) -> Document:
        return await self._send("PUT", _path(kind, namespace=namespace, name=name, subresource=subresource), body=body)

    async def patch(
        self,
        kind: Kind,
        name: str,
        body: Body | Sequence[Mapping[str, Any]],
        *,
        type: PatchType,
        namespace: str | None = None,
        subresource: str | None = None,
        field_manager: str = "",
        force: bool = False,
    ) -> Document:
        return await self._send(
            "PATCH",
            _path(kind, namespace=namespace, name=name, subresource=subresource),
            query={"fieldManager": field_manager, "force": "true" if force else ""},
            body=body,
            content_type=type.value,
        )

    async def delete(
        self,
        kind: Kind,
        name: str,
        *,
        namespace: str | None = None,
        preconditions: Preconditions | None = None,
        propagation: Propagation | None = None,
        grace_seconds: int | None = None,
    ) -> None:
        options = wire.delete_options(preconditions=preconditions, propagation=propagation, grace_seconds=grace_seconds)
        await self._send("DELETE", _path(kind, namespace=namespace, name=name), body=options)

    async def bind(self, pod: str, *, namespace: str, node: str, uid: str | None = None) -> None:
        metadata = {"name": pod, "namespace": namespace} | ({"uid": uid} if uid is not None else {})
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        await self._send("POST", _path(POD, namespace=namespace, name=pod, subresource="binding"), body=body)

    async def request(self, method: str, path: str, *, body: Body | None = None) -> Document:
        return await self._send(method, path, body=body)

    async def close(self) -> None:
        self._closed = True
        for answer in self._watching:  # the session closes connections without waking who reads from them
            answer.content.set_exception(aiohttp.ClientConnectionError("the port is closed"))
        await self._session.close()
        await self._client.close()

    # --- the one request ---------------------------------------------------------------------------------------------

    async def _send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Body | Sequence[Mapping[str, Any]] | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        request = f"{method} {path}"
        data = None if body is None else wire.encode(body)
        with self._reaching(request):
            async with await self._open(
                method, path, query=query, data=data, content_type=content_type, timeout=self._once
            ) as answer:
                await self._check(answer, request=request)
                return await answer.read()

    async def _open(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None,
        timeout: aiohttp.ClientTimeout,
        data: bytes | None = None,
        content_type: str = "",
        buffer: int = READ_BUFFER,
    ) -> aiohttp.ClientResponse:
        if self._closed:
            raise Unreachable("the port is closed", request=f"{method} {path}")
        asked = urlencode({key: value for key, value in (query or {}).items() if value})
        headers = dict(self._headers)
        if data is not None:
            headers["Content-Type"] = content_type
        for setting in (await self._configuration.auth_settings()).values():
            headers[setting["key"]] = setting["value"]
        url = URL(f"{self._host}{path}{'?' + asked if asked else ''}", encoded=True)
        sent = io.BytesIO(data) if data is not None and len(data) >= LARGE_BODY else data
        options = {**self._options, "read_bufsize": buffer}
        return await self._session.request(method, url, data=sent, headers=headers, timeout=timeout, **options)

    async def _check(self, answer: aiohttp.ClientResponse, *, request: str) -> None:
        if 200 <= answer.status < 300:
            return
        with self._reaching(request):
            body = await answer.read()
        raise wire.read_error(body, code=answer.status, request=request, retry_after=answer.headers.get("Retry-After"))

    @contextlib.contextmanager
    def _reaching(self, request: str) -> Any:
        """Failures of the way to the server as Unreachable, with their cause."""
        try:
            yield
        except _FAILURES as error:
            raise Unreachable(f"no answer: {error!r}", request=request) from error


def _path(kind: Kind, *, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
    """The quoted URL path. A name that would make it another path (empty, with a slash, dots) is Invalid: an empty name would
    turn the GET of one object into a list of all."""
    for part in (namespace, name):
        if part is not None and (part in ("", ".", "..") or "/" in part):
            raise Invalid(f"{part!r} is no name of {kind.name}", request=kind.name, code=400, reason="BadRequest")
    return quote(kind.path(namespace=namespace, name=name, subresource=subresource), safe=_SAFE)


@contextlib.contextmanager
def _readable(what: str, error: type[Exception]) -> Any:
    try:
        yield
    except (error, OSError, ValueError) as cause:
        raise BadConfiguration(f"{what}: {cause}") from cause


def _token_refresh(loader: Any, unreadable: type[Exception]) -> Callable[[Any], Awaitable[None]]:
    """A hook that reads the token file, or asks the exec plug-in, again when the last token has some age. When that fails the
    last token stays: whether it is still good is for the server to say."""
    asked = asyncio.get_running_loop().time()

    async def refresh(configuration: Any) -> None:
        nonlocal asked
        now = asyncio.get_running_loop().time()
        if now - asked < TOKEN_REFRESH:
            return
        asked = now
        try:
            await loader._load_authentication()
        except (unreadable, OSError, ValueError) as error:
            log.warning("the token could not be renewed: %s", type(error).__name__)
            return
        if hasattr(loader, "token"):
            configuration.api_key["BearerToken"] = loader.token

    return refresh
