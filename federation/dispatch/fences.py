"""Fence numbers: raised by a new leader before it looks at anything (protocol.md 2, H0), and after a write whose outcome is
unknown. Every write is a PUT with resourceVersion; a conflict means that the member renewed meanwhile, and is tried again."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

import msgspec

from apis import keys, kinds
from machinery.clock import Clock
from machinery.errors import ApiError, Conflict, NotFound
from machinery.port import Port

log = logging.getLogger(__name__)

PAUSE: Final = 1.0
"""Seconds before a failed write of a Lease is tried again."""


class _Meta(msgspec.Struct, rename="camel"):
    namespace: str = ""
    name: str = ""


class _Named(msgspec.Struct):
    metadata: _Meta


async def take_over(port: Port, *, clock: Clock) -> None:
    """H0: raise F on every member's Lease. Returns only when all are raised; until then an absent Work proves nothing."""
    clusters = await _until_listed(port, clock=clock)
    async with asyncio.TaskGroup() as group:
        for cluster in clusters:
            group.create_task(_until_raised(port, cluster=cluster, clock=clock), name=f"fence-{cluster}")
    log.info("raised the fence number of %d members", len(clusters))


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


async def _until_raised(port: Port, *, cluster: str, clock: Clock) -> None:
    while True:
        try:
            await raise_fence(port, cluster=cluster)
            return
        except NotFound:
            return  # the member left meanwhile, and with its namespace every Work
        except ApiError as error:
            log.warning("cannot raise the fence number of %s, trying again: %s", cluster, error)
            await clock.sleep(PAUSE)


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
