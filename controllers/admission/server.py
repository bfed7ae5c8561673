"""The webhook server: HTTPS, one path per kind and verb. It reads a review, judges it, answers; it writes nothing anywhere."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Iterable
from typing import Final

from aiohttp import web

from controllers.admission import reviews
from controllers.admission.door import Door
from controllers.admission.facts import Source
from controllers.admission.problems import summary
from controllers.admission.reviews import BadReview, Request, Rules, Verdict
from controllers.admission.webhooks import DELETE, Webhook
from machinery.errors import ApiError

log = logging.getLogger(__name__)

LARGEST: Final = 8 << 20
"""Bytes of a review: the object and the one before it, of at most 3 MiB each."""
MESSAGE: Final = 500
"""Characters of a refusal that the log keeps."""
MEDIA_TYPE: Final = "application/json"
MOST_AT_ONCE: Final = 256
"""Reviews that are answered at once."""


class WebhookServer:
    """Serves on `host`:`port` (0: any free port, see `port` once started) with the certificate of `context`, which may be
    changed while it runs. Without a `door` nobody's rights are asked and nothing is counted."""

    def __init__(
        self,
        webhooks: Iterable[Webhook],
        *,
        source: Source,
        rules: Rules,
        context: ssl.SSLContext,
        door: Door | None = None,
        most_at_once: int = MOST_AT_ONCE,
        host: str = "0.0.0.0",
        port: int = 8443,
    ) -> None:
        self._webhooks = {webhook.path: webhook for webhook in webhooks}
        self._source = source
        self._rules = rules
        self._context = context
        self._door = door
        self._free = most_at_once
        self._host = host
        self._port = port
        self._started = asyncio.Event()

    @property
    def port(self) -> int:
        """The port served on."""
        return self._port

    @property
    def started(self) -> bool:
        """Whether requests are answered."""
        return self._started.is_set()

    async def wait_started(self) -> None:
        """Return once requests are answered."""
        await self._started.wait()

    async def run(self) -> None:
        """Serve until cancelled; OSError when the address cannot be had."""
        app = web.Application(client_max_size=LARGEST)
        for path in self._webhooks:
            app.router.add_post(path, self._review)
        app.router.add_get("/healthz", _healthz)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self._port, ssl_context=self._context, reuse_address=True).start()
            self._port = runner.addresses[0][1]
            self._started.set()
            log.info("webhooks are served on port %d: %s", self._port, ", ".join(self._webhooks))
            await asyncio.Event().wait()
        finally:
            self._started.clear()
            await runner.cleanup()

    async def _review(self, request: web.Request) -> web.Response:
        if self._free <= 0:
            return _refused(429, "too many reviews at once: ask again in a second")
        self._free -= 1
        try:
            return await self._answered(request)
        finally:
            self._free += 1

    async def _answered(self, request: web.Request) -> web.Response:
        webhook = self._webhooks[request.path]
        if request.content_type != MEDIA_TYPE:
            return _refused(415, f"a review is {MEDIA_TYPE}, not {request.content_type}")
        try:
            asked = reviews.parse(await request.read(), webhook=webhook)
        except BadReview as error:
            log.warning("%s: %s", request.path, error)
            return _refused(400, str(error))
        if not self._source.synced or (self._door is not None and not self._door.synced):
            return _refused(503, "not ready: queues have not been read yet")
        verdict, warnings = await self._judge(asked, webhook=webhook)
        if self._door is not None and not verdict.problems and asked.operation != DELETE:
            passed = await self._door.judge(asked, webhook=webhook)
            verdict = passed if passed.problems else verdict
        if verdict.problems:
            why = summary(verdict.problems)[:MESSAGE]
            log.info("%s %s %s/%s refused: %s", webhook.path, asked.operation, asked.namespace, asked.name, why)
        return web.Response(body=reviews.answer(asked, verdict=verdict, warnings=warnings), content_type=MEDIA_TYPE)

    async def _judge(self, request: Request, *, webhook: Webhook) -> tuple[Verdict, tuple[str, ...]]:
        """By what is cached; nobody is refused because a cache is late. Where the API server does not tell, what is not
        ours alone to judge passes with a warning: controllers judge it again."""
        verdict = reviews.judge(request, webhook=webhook, facts=self._source.cached(), rules=self._rules)
        if not verdict.by_facts:
            return verdict, ()
        try:
            facts = await self._source.fresh()
        except ApiError as error:
            log.warning("%s: queues could not be read: %s", webhook.path, error)
            if webhook.fails:
                return verdict, ()
            own = tuple(problem for problem in verdict.problems if problem.field != "spec.queue")
            return Verdict(own), (f"the queue was not checked: {error.message}",)
        return reviews.judge(request, webhook=webhook, facts=facts, rules=self._rules), ()


async def _healthz(request: web.Request) -> web.Response:
    return web.Response(text="ok\n")


def _refused(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=f"{text}\n")
