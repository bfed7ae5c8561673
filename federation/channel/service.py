"""The hub's end as one piece for the program: both doors, their certificates, and the prober for flows."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Final

import msgspec
from aiohttp import web

from apis import kinds
from controllers.channel.settings import HubChannel
from controllers.channel.tls import BadCertificates, ServerTls
from federation.channel import identity
from federation.channel.agents import AgentsDoor
from federation.channel.people import PeopleDoor
from federation.channel.prober import ChannelProber
from federation.channel.switchboard import Switchboard
from machinery import errors
from machinery.clock import Clock
from machinery.http import Check
from machinery.metrics import Metrics
from machinery.port import Port

log = logging.getLogger(__name__)

CONNECTED: Final = "volcano_federation_channel_members"
FLOWING: Final = "volcano_federation_channel_answers"


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    deletion_timestamp: str | None = None


class _Cluster(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()


_cluster = msgspec.json.Decoder(_Cluster).decode


class Channel:
    """`run` in every replica; `prober` for the one that leads."""

    def __init__(self, port: Port, *, clock: Clock, settings: HubChannel, metrics: Metrics | None = None) -> None:
        self._port = port
        self._clock = clock
        self._settings = settings
        self._metrics = metrics
        self.switchboard = Switchboard(settings.limits)
        self._agents = AgentsDoor(
            self.switchboard,
            known=self._known,
            clock=clock,
            organization=settings.agents.organization,
            look=settings.look,
        )
        self._people: PeopleDoor | None = None
        if settings.people is not None:
            self._people = PeopleDoor(
                port,
                switchboard=self.switchboard,
                limits=settings.limits,
                tokens=settings.people.tokens,
                metrics=metrics,
            )
        self._started = asyncio.Event()
        self.ports: tuple[int, ...] = ()
        """Ports served on once started: the agents', and the people's where there is one."""

    @property
    def checks(self) -> Mapping[str, Check]:
        """For `/readyz`: a replica that nobody can dial is not ready."""
        return {"channel": self._started.is_set}

    async def wait_started(self) -> None:
        """Return once both doors are open."""
        await self._started.wait()

    def prober(self) -> ChannelProber:
        """Asks pods over this replica's connections."""
        return ChannelProber(self._port, switchboard=self.switchboard)

    async def run(self) -> None:
        """Serve until cancelled, from when there are certificates; OSError when an address cannot be had."""
        settings = self._settings
        doors = settings.agents
        inner = ServerTls(certificate=doors.certificate, key=doors.key, demand=True)
        outer: ServerTls | None = None
        await self._until_there(inner)
        async with contextlib.AsyncExitStack() as stack:
            serve = self._serving(self._agents.app(), inner.context, doors.host, doors.port)
            ports = [await stack.enter_async_context(serve)]
            if settings.people is not None and self._people is not None:
                outer = ServerTls(certificate=settings.people.certificate, key=settings.people.key, demand=False)
                await self._look_at_front_proxy(outer)
                served = self._serving(self._people.app(), outer.context, settings.people.host, settings.people.port)
                ports.append(await stack.enter_async_context(served))
            self.ports = tuple(ports)
            self._started.set()
            stack.callback(self._started.clear)
            log.info("the channel is served on ports %s", ", ".join(map(str, ports)))
            await self._keep(inner, outer)

    async def _until_there(self, inner: ServerTls) -> None:
        """Wait for certificates that can be shown; the program does without the channel meanwhile."""
        people = self._settings.people
        while True:
            try:
                inner.load(self._trusted_agents())
                if people is not None:
                    ServerTls(certificate=people.certificate, key=people.key, demand=False).load("")
                return
            except BadCertificates as error:
                log.error("the channel waits for certificates: %s", error)
                await self._clock.sleep(self._settings.look)

    @staticmethod
    @contextlib.asynccontextmanager
    async def _serving(app: web.Application, context: ssl.SSLContext, host: str, port: int) -> AsyncIterator[int]:
        """Serve while the block runs; the port that is served on. A request ends with its connection, at once."""
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0, handler_cancellation=True, lingering_time=0)
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port, ssl_context=context, reuse_address=True).start()
            yield int(runner.addresses[0][1])
        finally:
            await runner.cleanup()

    async def _keep(self, inner: ServerTls, outer: ServerTls | None) -> None:
        """Follow certificates and the front proxy, and tell metrics, for ever."""
        while True:
            self._measure()
            await self._clock.sleep(self._settings.look)
            try:
                if inner.load(self._trusted_agents()):
                    log.info("the channel shows new certificates to agents")
                if outer is not None:
                    await self._look_at_front_proxy(outer)
            except BadCertificates as error:
                log.error("certificates of the channel stay as they were: %s", error)

    def _trusted_agents(self) -> str:
        path = self._settings.agents.client_ca
        try:
            return path.read_text()
        except (OSError, ValueError) as error:
            raise BadCertificates(f"{path}: {error}") from error

    async def _look_at_front_proxy(self, tls: ServerTls) -> None:
        """Trust whom the API server says its front proxy's authority is; what was trusted stays while it does not answer."""
        people, door = self._settings.people, self._people
        assert people is not None and door is not None
        if people.front_proxy:
            try:
                door.proxy = await identity.front_proxy(self._port)
            except errors.ApiError as error:
                log.warning("%s cannot be read, so nobody new is believed: %s", identity.CONFIGURATION, error)
        try:
            tls.load(door.proxy.ca if door.proxy is not None else "")
        except BadCertificates:
            if door.proxy is None:
                raise
            door.proxy = None
            tls.load("")
            log.error("the authority in %s cannot be read, so no front proxy is believed", identity.CONFIGURATION)

    def _measure(self) -> None:
        if self._metrics is not None:
            self._metrics.gauge(CONNECTED, "Members connected to this replica.", value=len(self.switchboard.clusters))
            self._metrics.gauge(FLOWING, "Long answers on their way to this replica.", value=self.switchboard.answers)

    async def _known(self, cluster: str) -> bool:
        """Whether the member is registered and stays so."""
        try:
            return _cluster(await self._port.get(kinds.CLUSTER, cluster)).metadata.deletion_timestamp is None
        except (errors.NotFound, errors.Invalid):
            return False
