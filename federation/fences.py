"""Fence numbers: raised by a new leader before it trusts anything of a member (protocol.md 2, H0), and after a write whose
outcome is unknown. Every write is a PUT with resourceVersion; a conflict means that the member renewed meanwhile, and is
tried again. H0 is a matter of each member: one whose Lease cannot be written holds up nobody else."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final

import msgspec

from apis import keys, kinds
from machinery.clock import Clock
from machinery.errors import ApiError, Conflict, NotFound
from machinery.port import Port

log = logging.getLogger(__name__)

PAUSE: Final = 1.0
"""Seconds before members are listed again after a failure, and that a new leader waits for the first answers: a Lease that is
not raised by then is raised beside everything else."""

PAUSE_LIMIT: Final = 30.0
"""The longest pause before one Lease is tried again; each failure doubles it."""


class _Meta(msgspec.Struct, rename="camel"):
    namespace: str = ""
    name: str = ""


class _Named(msgspec.Struct):
    metadata: _Meta


class Fences:
    """Whose fence number this leader has raised. Until then a member gets no grant, and an absent Work of it proves nothing."""

    def __init__(self, port: Port, *, clock: Clock) -> None:
        self._port = port
        self._clock = clock
        self._raised: set[str] = set()
        self._found: asyncio.Queue[str] = asyncio.Queue()
        self._handlers: list[Callable[[str], None]] = []
        self._first_round = asyncio.Event()

    def subscribe(self, handler: Callable[[str], None]) -> None:
        """Call with the name of each member whose number is raised from now on."""
        self._handlers.append(handler)

    def raised(self, cluster: str) -> bool:
        """Grants and proofs of absence may rely on this member's number."""
        return cluster in self._raised

    def noted(self, cluster: str) -> None:
        """Its Lease was made by this leader, with a number above all that were ever given: as good as raised."""
        if cluster not in self._raised:
            self._raised.add(cluster)
            for handler in self._handlers:
                handler(cluster)

    def found(self, cluster: str) -> None:
        """There is a Lease. One that this leader neither made nor saw when it began is raised, too."""
        if cluster not in self._raised:
            self._found.put_nowait(cluster)

    def lost(self, cluster: str) -> None:
        """Its Lease is gone; the next one counts anew."""
        self._raised.discard(cluster)

    async def ensure(self, cluster: str) -> None:
        """Return once the number is raised; errors of the API server surface. A member without a Lease has nobody to obey."""
        if cluster in self._raised:
            return
        try:
            await raise_fence(self._port, cluster=cluster)
        except NotFound:
            log.info("%s has no Lease, and so no number to raise", cluster)
            return
        self.noted(cluster)

    async def first_round(self) -> None:
        """Return when every member's Lease was tried, or after a moment: who is late is waited for by nobody."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PAUSE):
                await self._first_round.wait()

    async def run(self) -> None:
        """Raise all there are, then those that turn up; until cancelled."""
        clusters = await _until_listed(self._port, clock=self._clock)
        async with asyncio.TaskGroup() as group:
            first = [group.create_task(self._until_raised(each), name=f"fence-{each}") for each in clusters]
            group.create_task(self._tell_first(first), name="fences-first")
            while True:
                cluster = await self._found.get()
                group.create_task(self._raise_later(cluster), name=f"fence-{cluster}")

    async def _tell_first(self, first: list[asyncio.Task[None]]) -> None:
        if first:
            await asyncio.wait(first)
        log.info("raised the fence number of %d members", len(first))
        self._first_round.set()

    async def _raise_later(self, cluster: str) -> None:
        """The event of a Lease may come before the answer to its creation: wait for that."""
        await self._clock.sleep(PAUSE)
        await self._until_raised(cluster)

    async def _until_raised(self, cluster: str) -> None:
        pause = PAUSE
        while True:
            try:
                await self.ensure(cluster)
                return
            except ApiError as error:
                log.warning("cannot raise the fence number of %s, trying again: %s", cluster, error)
            await self._clock.sleep(pause)
            pause = min(2 * pause, PAUSE_LIMIT)


async def _until_listed(port: Port, *, clock: Clock) -> list[str]:
    while True:
        try:
            return await _members(port)
        except ApiError as error:
            log.warning("cannot list member Leases, trying again: %s", error)
            await clock.sleep(PAUSE)


async def _members(port: Port) -> list[str]:
    found: list[str] = []
    token = ""
    while True:
        page = await port.list(kinds.LEASE, fields=f"metadata.name={keys.MEMBER_LEASE}", continue_token=token)
        for document in page.items:
            cluster = keys.cluster_of(msgspec.json.decode(document, type=_Named).metadata.namespace)
            if cluster is not None:
                found.append(cluster)
        token = page.continue_token
        if not token:
            return sorted(found)


async def raise_fence(port: Port, *, cluster: str) -> int:
    """F := F + 1 on one Lease; answers the new F. A conflict is tried again at once, other errors surface."""
    namespace = keys.execution_namespace(cluster)
    while True:
        lease = msgspec.json.decode(await port.get(kinds.LEASE, keys.MEMBER_LEASE, namespace=namespace))
        fence = int(lease.setdefault("spec", {}).get("leaseTransitions") or 0) + 1
        lease["spec"]["leaseTransitions"] = fence
        try:
            await port.replace(kinds.LEASE, keys.MEMBER_LEASE, lease, namespace=namespace)
        except Conflict:
            continue
        return fence
