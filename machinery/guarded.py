"""Metrics over TLS for those who may read them: the API server says who shows a token and whether they may get `/metrics`.

Health and readiness stay where kubelets ask for them, without; they say nothing that is worth hiding.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import ssl
from collections import OrderedDict
from pathlib import Path
from typing import Annotated, Final

import orjson
from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from pydantic import BaseModel, ConfigDict, Field

from machinery.authorization import PATH as ACCESS_REVIEWS
from machinery.clock import Clock
from machinery.errors import ApiError
from machinery.port import Port

log = logging.getLogger(__name__)

TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
METRICS: Final = "/metrics"
LONGEST_TOKEN: Final = 16 << 10
REMEMBERED: Final = 64
"""Readers that are remembered: Prometheus comes every half minute, with few tokens."""
HOLDS: Final = 60.0
"""Seconds that a yes is remembered; who loses the right reads a minute longer at most."""
LOOKS: Final = 60.0
"""Seconds between two looks at the files of the certificate."""
ASKING: Final = 4
"""Tokens that are looked up at once: forged ones cost the API server no more."""


class MetricsSettings(BaseModel):
    """Where metrics are served over TLS, and from which files."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    port: Annotated[int, Field(ge=0, lt=65536)] = 8444
    """Port to listen on; 0: any."""
    host: str = "0.0.0.0"
    """Address to listen on: Prometheus comes from elsewhere."""
    certificate: Path
    """PEM with the certificate, and those between it and its authority. Read again when it changes."""
    key: Path
    """PEM with its private key."""


class Readers:
    """Who may read: by TokenReview, and SubjectAccessReview for `get` of `/metrics`. Only a yes is remembered, by the token's
    digest."""

    def __init__(self, port: Port, *, clock: Clock) -> None:
        self._port = port
        self._clock = clock
        self._known: OrderedDict[bytes, float] = OrderedDict()
        self._gate = asyncio.Semaphore(ASKING)

    async def refusal(self, header: str) -> int:
        """The status that this `Authorization` header is answered with; 0 when it may read."""
        scheme, _, token = header.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token or len(token) > LONGEST_TOKEN:
            return 401
        digest, now = hashlib.sha256(token.encode()).digest(), self._clock.boot()
        if now - self._known.get(digest, float("-inf")) <= HOLDS:
            return 0
        try:
            async with self._gate:
                status = await self._asked(token)
        except ApiError as error:
            log.warning("who reads metrics could not be found out: %s", error)
            return 503
        if status == 0:
            self._known[digest] = now
            self._known.move_to_end(digest)
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return status

    async def _asked(self, token: str) -> int:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        found = orjson.loads(await self._port.request("POST", TOKEN_REVIEWS, body=body)).get("status") or {}
        user = found.get("user") or {}
        if not found.get("authenticated") or not user.get("username"):
            return 401
        spec = {
            "user": user["username"],
            "groups": user.get("groups") or [],
            "nonResourceAttributes": {"path": METRICS, "verb": "get"},
        }
        asks = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        answer = orjson.loads(await self._port.request("POST", ACCESS_REVIEWS, body=asks)).get("status") or {}
        return 0 if answer.get("allowed") and not answer.get("denied") else 403


class GuardedMetrics:
    """Serves `registry` at https://host:port/metrics (`port` once started) and nothing else."""

    def __init__(self, registry: CollectorRegistry, *, settings: MetricsSettings, readers: Readers, clock: Clock) -> None:
        self._registry = registry
        self._settings = settings
        self._readers = readers
        self._clock = clock
        self._started = asyncio.Event()
        self._port = settings.port
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._shown = b""

    @property
    def port(self) -> int:
        """The port served on."""
        return self._port

    async def wait_started(self) -> None:
        """Return once requests are answered."""
        await self._started.wait()

    async def run(self) -> None:
        """Serve until cancelled; OSError when there is no certificate at first, or the address cannot be had."""
        self.show()
        app = web.Application(client_max_size=1024)
        app.router.add_get(METRICS, self._answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._settings.host, self._settings.port, ssl_context=self._context).start()
            self._port = runner.addresses[0][1]
            self._started.set()
            while True:
                await self._clock.sleep(LOOKS)
                try:
                    self.show()
                except OSError as error:  # ssl.SSLError is one: half of a pair may be written so far
                    log.warning("the certificate of the metrics could not be read anew: %s", error)
        finally:
            self._started.clear()
            await runner.cleanup()

    def show(self) -> None:
        """Show what the files hold now to new connections. Raises OSError."""
        held = self._settings.certificate.read_bytes() + self._settings.key.read_bytes()
        if held != self._shown:
            self._context.load_cert_chain(self._settings.certificate, self._settings.key)
            self._shown = held

    async def _answer(self, request: web.Request) -> web.Response:
        status = await self._readers.refusal(request.headers.get("Authorization", ""))
        if status:
            return web.Response(status=status, headers={"WWW-Authenticate": "Bearer"} if status == 401 else None)
        return web.Response(body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})
