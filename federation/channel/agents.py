"""The door for agents: mutual TLS, one WebSocket per agent, long answers as bodies of requests of their own.

Who somebody is, the certificate says and nothing else: its one common name is the member, its organization that of agents, and
the member must be registered. A connection ends with its certificate, or with its member.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import WSMsgType, web

from controllers.channel import messages
from controllers.channel.messages import BadMessage
from controllers.channel.tls import Peer, peer_of
from federation.channel.switchboard import Leg, Line, Switchboard
from machinery.clock import Clock
from machinery.errors import ApiError, ServerFailed
from machinery.wire import Frames

log = logging.getLogger(__name__)

POLICY: Final = 1008
"""Close code: something was said that is against the rules."""

Known = Callable[[str], Awaitable[bool]]
"""Whether there is a member of this name; ApiError when the API server does not say."""


class AgentsDoor:
    """The handlers; `app` is served on the agents' port."""

    def __init__(self, switchboard: Switchboard, *, known: Known, clock: Clock, organization: str, look: float) -> None:
        self._switchboard = switchboard
        self._known = known
        self._clock = clock
        self._organization = organization
        self._look = look

    def app(self) -> web.Application:
        """A new application."""
        made = web.Application(client_max_size=messages.MAX_RECORD)
        made.router.add_get(messages.CONTROL, self._control)
        made.router.add_post(messages.ANSWERS + "{number:[0-9]{1,18}}", self._answer)
        return made

    def _peer(self, request: web.Request) -> Peer:
        """Whose certificate it is; 403 for one that is not an agent's."""
        transport = request.transport
        peer = peer_of(transport.get_extra_info("peercert")) if transport is not None else None
        if peer is None or (self._organization and self._organization not in peer.organizations):
            raise web.HTTPForbidden(text="the certificate is not that of an agent\n")
        if peer.until <= self._clock.now().timestamp():
            raise web.HTTPForbidden(text="the certificate has expired\n")
        return peer

    # --- the connection ----------------------------------------------------------------------------------------------

    async def _control(self, request: web.Request) -> web.StreamResponse:
        peer = self._peer(request)
        try:
            known = await self._known(peer.name)
        except ApiError as error:
            raise web.HTTPServiceUnavailable(text=f"members cannot be read: {error.message}\n") from error
        if not known:
            raise web.HTTPForbidden(text=f"there is no member {peer.name}\n")
        if self._switchboard.full(peer.name):
            raise web.HTTPTooManyRequests(text=f"member {peer.name} has too many connections\n")
        socket = web.WebSocketResponse(heartbeat=messages.BEAT, max_msg_size=messages.MAX_MESSAGE, compress=False)
        await socket.prepare(request)
        log.info("member %s is connected", peer.name)
        try:
            with self._switchboard.connected(peer.name) as line:
                async with asyncio.TaskGroup() as group:
                    others = [
                        group.create_task(self._tell(socket, line), name=f"tell-{peer.name}"),
                        group.create_task(self._until_invalid(socket, peer), name=f"valid-{peer.name}"),
                    ]
                    await self._hear(socket, line)
                    for task in others:
                        task.cancel()
        finally:
            log.info("member %s is no longer connected", peer.name)
        return socket

    async def _hear(self, socket: web.WebSocketResponse, line: Line) -> None:
        async for message in socket:
            if message.type is not WSMsgType.TEXT:
                continue
            try:
                line.heard(messages.read_said(message.data))
            except BadMessage as error:
                log.warning("member %s said something that is no message: %s", line.cluster, error)
                await socket.close(code=POLICY, message=b"no message")
                return

    async def _tell(self, socket: web.WebSocketResponse, line: Line) -> None:
        while not socket.closed:
            ask = await line.outgoing.get()
            try:
                await socket.send_str(messages.encode(ask).decode())
            except ConnectionError:  # whoever hears notices too
                return

    async def _until_invalid(self, socket: web.WebSocketResponse, peer: Peer) -> None:
        """Ends a connection whose certificate has expired, or whose member is no more."""
        valid = True
        while valid:
            await self._clock.sleep(self._look)
            valid = peer.until > self._clock.now().timestamp()
            with contextlib.suppress(ApiError):
                valid = valid and await self._known(peer.name)
        await socket.close(code=POLICY, message=b"no longer valid")

    # --- long answers ------------------------------------------------------------------------------------------------

    async def _answer(self, request: web.Request) -> web.Response:
        peer = self._peer(request)
        leg = self._switchboard.leg(int(request.match_info["number"]), cluster=peer.name)
        transport = request.transport
        if leg is None or transport is None or not leg.claim(transport.abort):
            return web.Response(status=410, text="nobody waits for this answer\n")
        try:
            return await self._receive(request, leg)
        finally:
            leg.end("its agent ended the answer before it was complete")

    async def _receive(self, request: web.Request, leg: Leg) -> web.Response:
        frames = Frames(messages.MAX_RECORD)
        try:
            async for chunk in request.content.iter_any():
                for line in frames.feed(chunk):
                    await leg.put(messages.read_record(line))
        except (BadMessage, ServerFailed) as error:
            log.warning("member %s sent something that is no record: %s", leg.cluster, error)
            leg.end("its agent sent something that cannot be read")
            return web.Response(status=400, text="no record\n")
        leg.end()
        return web.Response(status=204)
