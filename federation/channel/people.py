"""The door for people: `GET …/namespaces/<namespace>/jobs/<job>/log` as an aggregated API, by the way of every kubeconfig.

In the order in which it is decided: who it is, whether they may, what they ask, whether there is room, where the pods are. So
nobody learns of a Job whose logs they may not read whether it exists.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Final

from aiohttp import web

from controllers.channel import messages
from controllers.channel.messages import GROUP, VERSION, Lines, LogOptions, Notice, Record
from controllers.channel.plaintext import Interleaved, page
from controllers.channel.settings import Limits
from controllers.channel.tls import peer_of
from federation.channel import identity
from federation.channel.identity import FrontProxy, User
from federation.channel.reading import Missing, Reading, find, options_of, reading
from federation.channel.switchboard import Switchboard
from machinery import errors
from machinery.metrics import Metrics
from machinery.port import Port

log = logging.getLogger(__name__)

MEDIA: Final = {"text": "text/plain", "json": messages.RECORDS, "html": "text/html"}
SAFE: Final = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; sandbox",
}
HEAD: Final = '<!doctype html><meta charset="utf-8"><title>logs</title><pre>\n'
TAIL: Final = "</pre>\n"
REQUESTS: Final = "volcano_federation_channel_requests_total"
BYTES: Final = "volcano_federation_channel_log_bytes_total"


class Refusal(Exception):
    """A request that is answered by a Status."""

    def __init__(self, code: int, reason: str, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.reason = reason
        self.text = text


class Gate:
    """How many answers are on their way, in all and to whom."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._users: Counter[str] = Counter()

    @contextlib.contextmanager
    def through(self, user: User) -> Iterator[None]:
        """One more; Refusal where there is no room."""
        if self._users.total() >= self._limits.at_once:
            raise Refusal(429, "TooManyRequests", f"this hub sends {self._limits.at_once} logs at once already")
        if self._users[user.name] >= self._limits.per_user:
            raise Refusal(429, "TooManyRequests", f"you read {self._limits.per_user} logs at once already")
        self._users[user.name] += 1
        try:
            yield
        finally:
            self._users[user.name] -= 1
            if not self._users[user.name]:
                del self._users[user.name]


class PeopleDoor:
    """The handlers; `app` is served on the people's port. `proxy` is how the API server vouches now, as last read."""

    def __init__(
        self, port: Port, *, switchboard: Switchboard, limits: Limits, tokens: bool, metrics: Metrics | None = None
    ) -> None:
        self.proxy: FrontProxy | None = None
        self._port = port
        self._switchboard = switchboard
        self._limits = limits
        self._tokens = tokens
        self._metrics = metrics
        self._gate = Gate(limits)
        self._reviews = asyncio.Semaphore(limits.reviews)

    def app(self) -> web.Application:
        """A new application."""
        made = web.Application(client_max_size=1 << 10)
        made.router.add_get("/healthz", _healthz)
        made.router.add_get("/apis", _groups)
        made.router.add_get(f"/apis/{GROUP}", _group)
        made.router.add_get(messages.API, _resources)
        made.router.add_get(messages.log_path("{namespace}", "{name}"), self._log)
        return made

    async def _log(self, request: web.Request) -> web.StreamResponse:
        try:
            answer = await self._answer(request)
        except Refusal as refusal:
            self._counted(refusal.reason)
            return _status(refusal.code, refusal.reason, refusal.text)
        except errors.ApiError as error:
            self._counted("ServiceUnavailable")
            log.warning("logs: the API server does not answer: %s", error)
            return _status(503, "ServiceUnavailable", f"the hub's API server does not answer: {error.message}")
        self._counted("ok")
        return answer

    def _counted(self, outcome: str) -> None:
        if self._metrics is not None:
            self._metrics.count(REQUESTS, "Requests of people for logs, by outcome.", outcome=outcome)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        async with self._reviews:
            user = await self._user(request)
            why = await identity.refusal(self._port, user, namespace=namespace, name=name)
        if why:
            raise Refusal(403, "Forbidden", why)
        options = options_of(request.query)
        form = request.query.get("format", "html" if "text/html" in request.headers.get("Accept", "") else "text")
        if isinstance(options, str):
            raise Refusal(400, "BadRequest", options)
        if form not in MEDIA:
            raise Refusal(400, "BadRequest", f"format: {form[:50]!r} is none of {', '.join(MEDIA)}")
        with self._gate.through(user):
            found = await find(self._port, namespace=namespace, name=name)
            if isinstance(found, Missing):
                raise Refusal(found.code, found.reason, found.text)
            async with reading(
                self._switchboard, found, namespace=namespace, options=options, patience=self._limits.answer
            ) as read:
                if not read.came:
                    nothing = f"no pods of task {options.task}" if not read.legs else read.trouble
                    code, reason = (400, "BadRequest") if not read.legs else (503, "ServiceUnavailable")
                    raise Refusal(code, reason, f"Job {namespace}/{name}: {nothing}")
                return await self._send(request, read, options=options, form=form)

    async def _user(self, request: web.Request) -> User:
        transport = request.transport
        peer = peer_of(transport.get_extra_info("peercert")) if transport is not None else None
        user = identity.vouched(request.headers, peer=peer, proxy=self.proxy)
        if user is None and self._tokens:
            token = identity.bearer(request.headers)
            user = await identity.reviewed(self._port, token) if token else None
        if user is None:
            raise Refusal(401, "Unauthorized", "nobody vouches for you: come through the API server, or with a valid token")
        return user

    # --- sending -----------------------------------------------------------------------------------------------------

    async def _send(self, request: web.Request, read: Reading, *, options: LogOptions, form: str) -> web.StreamResponse:
        answer = web.StreamResponse(headers=SAFE)
        answer.content_type = MEDIA[form]
        if form != "json":
            answer.charset = "utf-8"
        await answer.prepare(request)
        limit = self._limits.follow_seconds if options.follow else self._limits.seconds
        sent, late = 0, False
        try:
            async with asyncio.timeout(limit):
                async with contextlib.aclosing(_rendered(read.reception.records(), form)) as pieces:
                    async for piece in pieces:
                        async with asyncio.timeout(self._limits.stalled):
                            await answer.write(piece)
                        sent += len(piece)
        except TimeoutError:
            late = True
        finally:
            if self._metrics is not None:
                self._metrics.count(BYTES, "Bytes of logs sent to people.", by=sent)
        if late and request.transport is not None:
            log.info("a log was cut: %.0f s were over, or nothing was taken for %.0f s", limit, self._limits.stalled)
            request.transport.abort()  # a chunked answer without its end is known to be incomplete
        else:
            await answer.write_eof()
        return answer


async def _rendered(records: AsyncIterator[Record], form: str) -> AsyncGenerator[bytes, None]:
    """Records as they are sent."""
    if form == "json":
        async for record in records:
            yield messages.encode_lines([record])
        return
    lines, html = Interleaved(), form == "html"
    if html:
        yield HEAD.encode()
    async for record in records:
        text = _labelled(record, lines)
        yield (page(text) if html else text).encode()
    text = lines.end() + (TAIL if html else "")
    if text:
        yield text.encode()


def _labelled(record: Record, lines: Interleaved) -> str:
    where = "/".join(filter(None, (record.cluster, record.pod)))
    if isinstance(record, Notice):
        return f"{lines.end()}-- [{where}] {record.text}\n"
    assert isinstance(record, Lines)
    return lines.add(f"[{where}/{record.container}] " if record.several else f"[{where}] ", record.text)


# --- what an aggregated API says of itself ---------------------------------------------------------------------------


async def _healthz(request: web.Request) -> web.Response:
    return web.Response(text="ok\n")


def _described() -> dict[str, object]:
    version = {"groupVersion": f"{GROUP}/{VERSION}", "version": VERSION}
    return {"kind": "APIGroup", "apiVersion": "v1", "name": GROUP, "versions": [version], "preferredVersion": version}


async def _groups(request: web.Request) -> web.Response:
    return web.json_response({"kind": "APIGroupList", "apiVersion": "v1", "groups": [_described()]})


async def _group(request: web.Request) -> web.Response:
    return web.json_response(_described())


async def _resources(request: web.Request) -> web.Response:
    resource = {"name": "jobs/log", "singularName": "", "namespaced": True, "kind": "Job", "verbs": ["get"]}
    body = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{GROUP}/{VERSION}", "resources": [resource]}
    return web.json_response(body)


def _status(code: int, reason: str, text: str) -> web.Response:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": text, "reason": reason, "code": code}
    return web.json_response(body, status=code, headers=SAFE)
