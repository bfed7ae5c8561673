"""The fencer's loop: read the member Lease, renew it when it is ours to renew, wait."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import orjson

from apis import keys, kinds
from machinery import errors
from machinery.clock import Clock, micro_stamp
from machinery.port import Port
from machinery.readiness import Heartbeat
from member_agent.fencing.lease import Holder, Identity, Sighting, may_take, renewed, sight
from member_agent.settings import FencerSettings

log = logging.getLogger(__name__)

VERSION = "0.1.0"

CONFLICT_PAUSE = 0.1
"""Seconds before a Lease that changed under our hands is read again."""


class Fencer:
    """Renews the member Lease every `renew` seconds; takes over from a fencer whose counter stands still. `heartbeat` beats
    whenever the Lease was read, and renewed if it was ours to renew; `mode` tells who runs Jobs here."""

    def __init__(
        self,
        *,
        hub: Port,
        identity: Identity,
        clock: Clock,
        settings: FencerSettings,
        heartbeat: Heartbeat,
        mode: Callable[[], str],
    ) -> None:
        self._hub = hub
        self._heartbeat = heartbeat
        self._identity = identity
        self._clock = clock
        self._settings = settings
        self._mode = mode
        self._namespace = keys.execution_namespace(settings.cluster)
        self._sighting: Sighting | None = None
        self._told = ""

    async def run(self) -> None:
        """Until cancelled. An unknown outcome counts as a failure; a conflict is looked at again at once."""
        times = self._settings.times
        while True:
            started = self._clock.boot()
            wait = times.renew
            try:
                async with asyncio.timeout(times.request):
                    held = await self.once()
                self._heartbeat.beat(now=self._clock.boot())
                if not held:
                    wait = times.renew / 2
            except errors.NotFound:
                self._tell("the hub has not made the member Lease yet")
                wait = min(times.renew, max(times.request / 3, 0.1))
            except errors.Conflict:
                wait = CONFLICT_PAUSE  # somebody wrote between our read and our write: read again
            except (errors.ApiError, TimeoutError) as error:
                log.warning("renewal of the member Lease failed: %s", error or type(error).__name__)
                wait = min(times.renew, times.request)
            await self._clock.sleep(max(started + wait - self._clock.boot(), 0.0))

    async def once(self) -> bool:
        """One look and, if the Lease is ours to renew, one renewal; whether it was. Raises ApiError."""
        sent = self._clock.boot()
        lease = orjson.loads(await self._hub.get(kinds.LEASE, keys.MEMBER_LEASE, namespace=self._namespace))
        seen = self._identity.sees(lease)
        self._sighting = sight(lease, self._sighting, sent=sent)
        if not may_take(seen, self._sighting, now=self._clock.boot(), handover=self._settings.times.handover):
            self._tell(f"the member Lease is held by {seen.value}")
            return seen is not Holder.PEER
        if seen is not Holder.ME and not await self._is_ours():
            self._tell("this name is registered for another cluster: its Lease is left alone")
            return False
        times = self._settings.times
        body = renewed(
            lease,
            self._identity,
            now=micro_stamp(self._clock.now()),
            version=VERSION,
            mode=self._mode(),
            duration=max(round(times.renew + times.request), 1),
        )
        await self._hub.replace(kinds.LEASE, keys.MEMBER_LEASE, body, namespace=self._namespace)
        self._tell("renewing the member Lease")
        return True

    async def _is_ours(self) -> bool:
        """Asked before a Lease is taken that somebody else held, or nobody: the Cluster says whose name it is."""
        try:
            cluster = orjson.loads(await self._hub.get(kinds.CLUSTER, self._settings.cluster))
        except errors.NotFound:
            return True
        owner = (cluster.get("spec") or {}).get("id") or ""
        return owner in ("", self._identity.cluster_uid)

    def _tell(self, news: str) -> None:
        if news != self._told:
            self._told = news
            log.info("%s: %s", self._settings.cluster, news)
