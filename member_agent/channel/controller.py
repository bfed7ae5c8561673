"""The channel as a role of the agent that leads: it alone holds the Works that answers stand on."""

from __future__ import annotations

import aiohttp

from controllers.channel.settings import AgentChannel
from machinery.clock import Chance, Clock
from machinery.informer import Informer
from machinery.metrics import Metrics
from machinery.port import Port, Streams
from member_agent.channel.answering import Answering, Ground
from member_agent.channel.dialing import Dialer
from member_agent.channel.watching import Watching
from member_agent.probes import PodProber
from member_agent.views.jobs import JobView
from member_agent.views.pods import PodView
from member_agent.views.works import WorkView


class ChannelController:
    """Dials the hub and answers. `streams` reads logs over connections of its own, so that many cannot hold up the agent."""

    def __init__(
        self,
        *,
        port: Port,
        streams: Streams,
        works: Informer[WorkView],
        jobs: Informer[JobView],
        pods: Informer[PodView],
        clock: Clock,
        chance: Chance,
        settings: AgentChannel,
    ) -> None:
        self._ground = Ground(
            port=port,
            streams=streams,
            works=works,
            jobs=jobs,
            watching=Watching(pods=pods, jobs=jobs),
            prober=PodProber(port),
            clock=clock,
            settings=settings,
        )
        self._dialer = Dialer(settings, clock=clock, chance=chance, serve=self._serve)

    async def run(self, metrics: Metrics | None = None) -> None:
        """Until cancelled, from when Works and Jobs have been read."""
        await self._ground.works.wait_synced()
        await self._ground.jobs.wait_synced()
        await self._dialer.run()

    async def _serve(self, session: aiohttp.ClientSession, base: str, socket: aiohttp.ClientWebSocketResponse) -> None:
        await Answering(self._ground, session=session, base=base, socket=socket).run()
