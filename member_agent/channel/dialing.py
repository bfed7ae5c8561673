"""Keeps one connection to every replica of the hub: every address of every name that is given."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from controllers.channel import messages
from controllers.channel.settings import AgentChannel
from controllers.channel.tls import BadCertificates, client_context
from machinery.clock import Chance, Clock
from machinery.retry import backoff

log = logging.getLogger(__name__)

CONNECT: float = 10.0
"""Seconds for a connection with its handshakes."""

Serve = Callable[[aiohttp.ClientSession, str, aiohttp.ClientWebSocketResponse], Awaitable[None]]
"""Answers over a connection until it ends; session and `https://host:port` reach the same replica."""


class _Fixed(AbstractResolver):
    """One address, whatever the name: a session reaches one replica, and the name is still what its certificate must carry."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def resolve(self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET) -> list[ResolveResult]:
        kind = socket.AF_INET6 if ":" in self._address else socket.AF_INET
        found = ResolveResult(hostname=host, host=self._address, port=port, family=kind, proto=0, flags=socket.AI_NUMERICHOST)
        return [found]

    async def close(self) -> None:
        """Nothing is kept."""


class Dialer:
    """Dials, and dials again; `connected` counts connections that stand."""

    def __init__(self, settings: AgentChannel, *, clock: Clock, chance: Chance, serve: Serve) -> None:
        self._settings = settings
        self._clock = clock
        self._chance = chance
        self._serve = serve
        self.connected = 0

    async def run(self) -> None:
        """Until cancelled."""
        kept: dict[tuple[str, str], asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as group:
            while True:
                for base in self._settings.hubs:
                    addresses = await _addresses(base)
                    for address in addresses - {known for name, known in kept if name == base}:
                        kept[base, address] = group.create_task(self._keep(base, address), name=f"hub-{address}")
                    for name, known in [*kept]:
                        if addresses and name == base and known not in addresses:
                            kept.pop((name, known)).cancel()
                await self._clock.sleep(self._settings.look)

    async def _keep(self, base: str, address: str) -> None:
        """One replica, for as long as its name has this address."""
        failures, told = 0, ""
        while True:
            why = await self._once(base, address)
            failures = 0 if not why else failures + 1
            if why != told:
                log.warning("the hub at %s (%s): %s", base, address, why or "the connection ended")
                told = why
            wait = backoff(max(failures, 1), chance=self._chance, base=self._settings.retry, limit=self._settings.retry_limit)
            await self._clock.sleep(wait)

    async def _once(self, base: str, address: str) -> str:
        """One connection to its end; why it did not come about, "" when it did."""
        settings = self._settings
        try:
            context = client_context(ca=settings.ca, pins=settings.ca_pins, certificate=settings.certificate, key=settings.key)
        except BadCertificates as error:
            return str(error)
        connector = aiohttp.TCPConnector(ssl=context, resolver=_Fixed(address), limit=0)
        limits = aiohttp.ClientTimeout(total=None, connect=CONNECT)
        async with aiohttp.ClientSession(connector=connector, timeout=limits, trust_env=False) as session:
            try:
                async with asyncio.timeout(CONNECT):
                    opened = await session.ws_connect(
                        base + messages.CONTROL, heartbeat=messages.BEAT, max_msg_size=messages.MAX_MESSAGE
                    )
            except aiohttp.WSServerHandshakeError as error:
                return f"it does not let us in: {error.status} {error.message}"
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                return f"it cannot be reached: {error or type(error).__name__}"
            async with opened:
                log.info("connected to the hub at %s (%s)", base, address)
                self.connected += 1
                try:
                    await self._serve(session, base, opened)
                finally:
                    self.connected -= 1
        return ""


async def _addresses(base: str) -> set[str]:
    """What the name of a URL stands for now; empty while it cannot be found out."""
    parts = urlsplit(base)
    try:
        found = await asyncio.get_running_loop().getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_STREAM)
    except OSError as error:
        log.warning("the hub at %s: its name cannot be resolved: %s", base, error)
        return set()
    return {str(each[4][0]) for each in found}
