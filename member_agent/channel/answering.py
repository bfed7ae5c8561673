"""Answers what one replica of the hub asks over one connection."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

import aiohttp

from apis import keys, kinds
from controllers.channel import messages
from controllers.channel.messages import BadMessage, Dropped, LogsAsked, ProbeAsked, Probed, Record, Refused, Said
from controllers.channel.settings import AgentChannel
from controllers.flows.plans import ProbeWanted
from machinery.clock import Clock
from machinery.informer import Informer
from machinery.port import Port, Streams
from member_agent.channel.logs import LogAnswer
from member_agent.channel.owned import Container, Owned, containers_of, owned
from member_agent.channel.watching import Watching
from member_agent.probes import PodProber
from member_agent.views.jobs import JobView
from member_agent.views.works import WorkView
from policies.flows.spec import Probe

log = logging.getLogger(__name__)

PROBES: Final = 16
"""Probes of one connection at once."""
PROBE_TIMEOUT: Final = 12.0
"""Seconds for all pods of one probe: less than the hub waits."""


@dataclass(frozen=True, slots=True)
class Ground:
    """What answers stand on."""

    port: Port
    streams: Streams
    works: Informer[WorkView]
    jobs: Informer[JobView]
    watching: Watching
    prober: PodProber
    clock: Clock
    settings: AgentChannel

    def owned(self, job: str, namespace: str) -> Owned | str:
        """The Job here that the hub may ask about, or why there is none."""
        return owned(self.works.values(), jobs=self.jobs.get, job=job, namespace=namespace)


class Answering:
    """One connection: `socket` is the hub's, `session` with `base` (https://host:port) is where long answers go."""

    def __init__(
        self, ground: Ground, *, session: aiohttp.ClientSession, base: str, socket: aiohttp.ClientWebSocketResponse
    ) -> None:
        self._ground = ground
        self._session = session
        self._base = base
        self._socket = socket
        self._logs: dict[int, asyncio.Task[None]] = {}
        self._probes: dict[int, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Until the connection ends; what is being answered ends with it. An answer that fails fails alone."""
        try:
            async for message in self._socket:
                if message.type is not aiohttp.WSMsgType.TEXT:
                    continue
                try:
                    ask = messages.read_ask(message.data)
                except BadMessage as error:
                    log.warning("the hub said something that is no message: %s", error)
                    continue
                if isinstance(ask, Dropped):
                    self._drop(ask.number)
                else:
                    await self._begin(ask)
        finally:
            left = [*self._logs.values(), *self._probes.values()]
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    def _drop(self, number: int) -> None:
        for tasks in (self._logs, self._probes):
            if number in tasks:
                tasks[number].cancel()

    async def _begin(self, ask: LogsAsked | ProbeAsked) -> None:
        """A task of its own for each question, as far as there is room."""
        asks_logs = isinstance(ask, LogsAsked)
        tasks, most = (self._logs, self._ground.settings.logs_at_once) if asks_logs else (self._probes, PROBES)
        if ask.number in self._logs or ask.number in self._probes:
            return
        if len(tasks) >= most:
            await self._say(Refused(ask.number, f"{most} others are being answered"))
            return
        work = self._answer_logs(ask) if isinstance(ask, LogsAsked) else self._answer_probe(ask)
        task = asyncio.create_task(work, name=f"answer-{ask.number}")
        tasks[ask.number] = task
        task.add_done_callback(lambda ended: self._ended(tasks, ask.number, ended))

    def _ended(self, tasks: dict[int, asyncio.Task[None]], number: int, task: asyncio.Task[None]) -> None:
        tasks.pop(number, None)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("answer %d failed", number, exc_info=error)

    async def _say(self, said: Said) -> None:
        with contextlib.suppress(ConnectionError):  # whoever reads the socket notices
            await self._socket.send_str(messages.encode(said).decode())

    # --- probes ------------------------------------------------------------------------------------------------------

    async def _answer_probe(self, ask: ProbeAsked) -> None:
        found = self._ground.owned(ask.job, ask.namespace)
        if isinstance(found, str):
            await self._say(Refused(ask.number, found))
            return
        probe = Probe(http_get_list=[*ask.http_get_list], tcp_socket_list=[*ask.tcp_socket_list])
        wanted = ProbeWanted("", (found.name,), probe)
        try:
            async with asyncio.timeout(PROBE_TIMEOUT):
                said = await self._ground.prober.ask(found.namespace, wanted, owner=found.uid)
        except TimeoutError:
            said = f"not every pod has answered within {PROBE_TIMEOUT:.0f} s"
        await self._say(Probed(ask.number, said[: messages.MAX_SAID]))

    # --- logs --------------------------------------------------------------------------------------------------------

    async def _answer_logs(self, ask: LogsAsked) -> None:
        found = self._ground.owned(ask.job, ask.namespace)
        if isinstance(found, str):
            await self._say(Refused(ask.number, found))
            return
        settings, options = self._ground.settings, ask.options
        with self._ground.watching.of(found, still=lambda: self._ground.owned(ask.job, ask.namespace)) as changes:
            answer = LogAnswer(
                options,
                namespace=found.namespace,
                look=lambda: self._containers(found, ask),
                changes=changes,
                streams=self._ground.streams,
                clock=self._ground.clock,
                at_once=settings.containers_at_once,
                followed=settings.followed_at_once,
            )
            async with asyncio.TaskGroup() as group:
                reading = group.create_task(answer.run(), name=f"logs-{ask.number}")
                await self._post(ask.number, answer.records())
                reading.cancel()

    async def _post(self, number: int, records: AsyncIterator[Record]) -> None:
        async def body() -> AsyncIterator[bytes]:
            yield b"\n"  # no record, but the head of the request goes out with it: the hub sees that an answer comes
            async for record in records:
                yield messages.encode_lines([record])

        url = f"{self._base}{messages.ANSWERS}{number}"
        headers = {"Content-Type": messages.RECORDS}
        try:
            async with self._session.post(url, data=body(), headers=headers, allow_redirects=False) as answer:
                log.debug("answer %d: %d", number, answer.status)
        except (aiohttp.ClientError, OSError) as error:
            log.debug("answer %d was not taken to its end: %r", number, error)

    async def _containers(self, found: Owned, ask: LogsAsked) -> list[Container]:
        """As they are now at the API server, by pod and container."""
        made: list[Container] = []
        token, options = "", ask.options
        while True:
            page = await self._ground.port.list(
                kinds.POD, namespace=found.namespace, labels=f"{keys.JOB_NAME}={found.name}", continue_token=token
            )
            for item in page.items:
                made += containers_of(item, owner=found.uid, task=options.task, pod=options.pod, container=options.container)
            token = page.continue_token
            if not token:
                return sorted(made, key=lambda each: each.pod)
