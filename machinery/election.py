"""Leader election by a Lease (protocol.md 2, I3).

A candidate takes a Lease that is free, or whose record has not changed for its whole duration *as this process watched it on
its own boot clock*; times written in the Lease are for people and never compared. Every write is a PUT against the version
read. A leader counts its deadline from before its last successful renewal was sent, so that it stops before anybody else
can start: renew deadline + request time-out < lease duration.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from apis.kinds import LEASE
from machinery.clock import Chance, Clock, micro_stamp
from machinery.errors import ApiError, Conflict, NotFound, Unreachable
from machinery.port import Port

Doc = dict[str, Any]

log = logging.getLogger(__name__)


class ElectionMetrics(Protocol):
    """What an elector tells about itself; see `machinery.metrics`."""

    def leading(self, lease: str, *, leads: bool) -> None:
        """Whether this process leads now."""
        ...


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of an election; ValueError unless they keep two leaders apart (I3) and let one renew at all."""

    lease_duration: float = 10.0
    """How long a record must stand still before another takes over."""
    renew_deadline: float = 6.0
    """How long a leader goes on after its last successful renewal was sent."""
    request_timeout: float = 3.0
    """How long one request may take; a write may reach the server that much after it was sent."""
    retry: float = 2.0
    """Between renewals, and between looks of a candidate; jittered down to three quarters."""

    def __post_init__(self) -> None:
        if not self.renew_deadline + self.request_timeout < self.lease_duration:
            raise ValueError(
                f"renew deadline {self.renew_deadline} s + request time-out {self.request_timeout} s must be less than "
                f"the lease duration {self.lease_duration} s"
            )
        if not 0 < self.retry < self.renew_deadline:
            raise ValueError(f"retry {self.retry} s must be more than 0 and less than {self.renew_deadline} s")


@dataclass(frozen=True, slots=True)
class Sighting:
    """A Lease record and the boot time since which this process has seen exactly it."""

    version: str
    since: float


def may_take(lease: Doc, *, identity: str, sighting: Sighting, now: float, least: float) -> bool:
    """Whether a candidate may write itself into this Lease at boot time `now`; `least` is its own lease duration in seconds,
    and a longer one in the record counts."""
    if _holder(lease) in ("", identity):
        return True
    duration = max(least, float(lease["spec"].get("leaseDurationSeconds") or 0))
    return now - sighting.since >= duration


class LeadershipLost(Exception):
    """Ends the leader's tasks from inside; never leaves `Elector.run`."""


class Elector:
    """One candidate. `identity` must be new for every start of a process (a UUID in it), because the holder of that name is
    taken to be this very process."""

    def __init__(
        self,
        port: Port,
        *,
        namespace: str,
        name: str,
        identity: str,
        clock: Clock,
        chance: Chance,
        timing: Timing | None = None,
        metrics: ElectionMetrics | None = None,
    ) -> None:
        self._port = port
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._clock = clock
        self._chance = chance
        self._timing = timing or Timing()
        self._metrics = metrics
        self._sighting: Sighting | None = None
        self._lease: Doc | None = None
        self._deadline = -math.inf

    @property
    def leading(self) -> bool:
        """Whether this process may act as the leader at this instant. Ask before a write that must not come from two."""
        return self._clock.boot() < self._deadline

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Campaign, call `lead` while leading and cancel it when leadership is lost, then campaign again.

        Returns when `lead` returns, raises what it raises (in an ExceptionGroup); either way, and when cancelled, the Lease is
        released at once, after `lead` has ended. `lead` must end promptly when cancelled.
        """
        while True:
            await self._campaign()
            self._tell(leads=True)
            try:
                if await self._lead(lead):
                    return
            finally:
                self._tell(leads=False)
                await self._release()

    # --- the candidate -----------------------------------------------------------------------------------------------

    async def _campaign(self) -> None:
        """Return when this process holds the Lease."""
        while True:
            started = self._clock.boot()
            try:
                async with self._in_time():
                    lease = await self._try_take()
            except ApiError as error:
                lease = None
                level = logging.DEBUG if isinstance(error, Conflict) else logging.WARNING
                log.log(level, "lease %s: no leadership yet: %s", self._name, error)
            if lease is not None:
                self._hold(lease, since=started)
                log.info("lease %s: %s leads", self._name, self._identity)
                return
            await self._pause()

    async def _try_take(self) -> Doc | None:
        """One look at the Lease: the record as written when it could be taken, else None."""
        try:
            lease = await self._read()
        except NotFound:
            fresh = self._record({"metadata": {"name": self._name, "namespace": self._namespace}}, acquire=True)
            return _load(await self._port.create(LEASE, fresh, namespace=self._namespace))
        now = self._clock.boot()
        version = lease["metadata"]["resourceVersion"]
        if self._sighting is None or self._sighting.version != version:
            self._sighting = Sighting(version, now)
        least = self._timing.lease_duration
        if not may_take(lease, identity=self._identity, sighting=self._sighting, now=now, least=least):
            return None
        return await self._put(self._record(lease, acquire=True))

    # --- the leader --------------------------------------------------------------------------------------------------

    async def _lead(self, lead: Callable[[], Awaitable[None]]) -> bool:
        """Run `lead` beside the renewal; True when it ended by itself, False when leadership was lost."""
        done = False

        async def leading() -> None:
            nonlocal done
            await lead()
            done = True
            renewal.cancel()

        try:
            async with asyncio.TaskGroup() as group:
                renewal = group.create_task(self._renew(), name=f"renew {self._name}")
                group.create_task(leading(), name=f"lead {self._name}")
        except* LeadershipLost as lost:
            log.warning("lease %s: %s", self._name, lost.exceptions[0])
            done = False
        return done

    async def _renew(self) -> None:
        """Renew until that fails for the renew deadline, or somebody else holds the Lease."""
        wait = True
        while True:
            if wait:
                await self._pause(until=self._deadline)
            started = self._clock.boot()
            if started >= self._deadline:
                raise LeadershipLost(f"not renewed for {self._timing.renew_deadline} s, {self._identity} stops leading")
            try:
                async with self._in_time(until=self._deadline):
                    lease = await self._renewed()
            except ApiError as error:
                log.warning("lease %s: renewal failed: %s", self._name, error)
                wait = not isinstance(error, Conflict)  # somebody wrote: look at once who
            else:
                self._hold(lease, since=started)
                wait = True

    async def _renewed(self) -> Doc:
        """One renewal; after a conflict or an unknown outcome against the Lease as it stands, if it is still ours."""
        lease = self._lease or await self._read()
        if _holder(lease) != self._identity:
            raise LeadershipLost(f"{_holder(lease) or 'nobody'} holds the lease, {self._identity} stops leading")
        self._lease = None  # unknown until the answer is there
        try:
            return await self._put(self._record(lease, acquire=False))
        except NotFound as gone:
            raise LeadershipLost("the lease was deleted") from gone

    async def _release(self) -> None:
        """Empty the Lease if it is ours, so that the next takes over at its next look. Best effort: it would expire anyway."""
        lease, self._lease = self._lease, None
        self._deadline = -math.inf
        self._sighting = None
        with contextlib.suppress(ApiError):
            async with self._in_time():
                lease = lease or await self._read()
                if _holder(lease) == self._identity:
                    spec = {**lease["spec"], "holderIdentity": "", "renewTime": micro_stamp(self._clock.now())}
                    await self._put({**lease, "spec": spec})

    # --- both --------------------------------------------------------------------------------------------------------

    def _record(self, lease: Doc, *, acquire: bool) -> Doc:
        """The Lease with this process as its holder, now."""
        spec = dict(lease.get("spec") or {})
        now = micro_stamp(self._clock.now())
        if acquire:
            spec["acquireTime"] = now
            spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + 1 if lease.get("spec") else 0
        spec |= {"holderIdentity": self._identity, "renewTime": now}
        spec["leaseDurationSeconds"] = max(1, math.ceil(self._timing.lease_duration))
        return {"apiVersion": LEASE.api_version, "kind": LEASE.kind, **lease, "spec": spec}

    def _hold(self, lease: Doc, *, since: float) -> None:
        self._lease = lease
        self._deadline = since + self._timing.renew_deadline

    async def _read(self) -> Doc:
        return _load(await self._port.get(LEASE, self._name, namespace=self._namespace))

    async def _put(self, lease: Doc) -> Doc:
        return _load(await self._port.replace(LEASE, self._name, lease, namespace=self._namespace))

    @contextlib.asynccontextmanager
    async def _in_time(self, *, until: float | None = None) -> AsyncIterator[None]:
        """A request: Unreachable when it takes longer than the request time-out, or than boot time `until`."""
        limit = self._timing.request_timeout
        if until is not None:
            limit = min(limit, until - self._clock.boot())
        try:
            async with asyncio.timeout(limit):
                yield
        except TimeoutError as error:
            raise Unreachable(f"no answer in {limit:.1f} s", request=f"lease {self._name}") from error

    async def _pause(self, *, until: float | None = None) -> None:
        seconds = self._chance.uniform(0.75 * self._timing.retry, self._timing.retry)
        if until is not None:
            seconds = max(0.0, min(seconds, until - self._clock.boot()))
        await self._clock.sleep(seconds)

    def _tell(self, *, leads: bool) -> None:
        if self._metrics is not None:
            self._metrics.leading(self._name, leads=leads)


def _load(document: bytes) -> Doc:
    loaded: Doc = orjson.loads(document)
    return loaded


def _holder(lease: Doc) -> str:
    return str((lease.get("spec") or {}).get("holderIdentity") or "")
