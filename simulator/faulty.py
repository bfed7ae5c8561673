"""A port with faults in it: one actor's connection to one API server."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Self, TypeVar

import orjson

from apis import kinds
from apis.kinds import Kind
from machinery import errors
from machinery.port import (
    WATCH_TIMEOUT,
    Body,
    Document,
    EventType,
    Impersonator,
    Page,
    PatchType,
    Port,
    Preconditions,
    Propagation,
    WatchEvent,
)
from simulator.faults import (
    REQUEST_TIMEOUT,
    WATCH_SILENCE,
    Action,
    ActorKilled,
    Delay,
    Fail,
    Hang,
    Kill,
    Late,
    Life,
    Moment,
    Way,
)

T = TypeVar("T")
TOUCHED = "simulator.volcano-federation.io/touched"
"""Annotation that the simulator writes to make somebody's version old."""


class FaultyPort:
    """`machinery.port.Port` of one life of an actor; `server` is the name cuts and logs know the API server by."""

    def __init__(self, port: Port, *, life: Life, server: str) -> None:
        self._port = port
        self._life = life
        self._faults = life.faults
        self._server = server

    def acting_as(self, user: str) -> Self:
        """See `machinery.port.Impersonator`; with the same faults."""
        if not isinstance(self._port, Impersonator):
            raise TypeError(f"{type(self._port).__name__} cannot ask in somebody else's name")
        other = copy.copy(self)
        other._port = self._port.acting_as(user)
        return other

    # --- reads -------------------------------------------------------------------------------------------------------

    async def get(self, kind: Kind, name: str, *, namespace: str | None = None) -> Document:
        return await self._asked(lambda: self._port.get(kind, name, namespace=namespace))

    async def list(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        limit: int = 500,
        continue_token: str = "",
        resource_version: str = "",
    ) -> Page:
        return await self._asked(
            lambda: self._port.list(
                kind,
                namespace=namespace,
                labels=labels,
                fields=fields,
                limit=limit,
                continue_token=continue_token,
                resource_version=resource_version,
            )
        )

    async def request(self, method: str, path: str, *, body: Body | None = None) -> Document:
        return await self._asked(lambda: self._port.request(method, path, body=body))

    async def close(self) -> None:
        await self._port.close()

    # --- watching ----------------------------------------------------------------------------------------------------

    async def watch(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        resource_version: str = "",
        send_initial: bool = False,
        timeout: float = WATCH_TIMEOUT,
    ) -> AsyncIterator[WatchEvent]:
        self._life.check()
        await self._arrive()
        inner: Any = self._port.watch(
            kind,
            namespace=namespace,
            labels=labels,
            fields=fields,
            resource_version=resource_version,
            send_initial=send_initial,
            timeout=timeout,
        )
        async with aclosing(inner):
            async for event in inner:
                self._life.check()
                await self._hear()
                for told in await self._told(event):
                    yield told

    async def _told(self, event: WatchEvent) -> tuple[WatchEvent, ...]:
        """The event as it comes out of the wire: once, twice, late, or not at all."""
        plan, chance = self._faults.watches, self._faults.chance
        if plan.lag:
            await asyncio.sleep(chance.uniform(0.0, plan.lag))
            self._life.check()
        if plan.drop and chance.uniform(0.0, 1.0) < plan.drop:
            raise errors.Unreachable("watch dropped by the simulator")
        if plan.expire and chance.uniform(0.0, 1.0) < plan.expire:
            raise errors.Expired("watch expired by the simulator", code=410)
        twice = plan.duplicate and event.type is not EventType.BOOKMARK and chance.uniform(0.0, 1.0) < plan.duplicate
        return (event, event) if twice else (event,)

    # --- writes ------------------------------------------------------------------------------------------------------

    async def create(self, kind: Kind, body: Body, *, namespace: str | None = None, dry_run: bool = False) -> Document:
        def call() -> Awaitable[Document]:
            return self._port.create(kind, body, namespace=namespace, dry_run=dry_run)

        if dry_run:
            return await self._asked(call)
        return await self._write("create", kind, _named(body), namespace, call)

    async def replace(
        self, kind: Kind, name: str, body: Body, *, namespace: str | None = None, subresource: str | None = None
    ) -> Document:
        await self._touch_first(kind, name, namespace, subresource)
        return await self._write(
            "replace",
            kind,
            name,
            namespace,
            lambda: self._port.replace(kind, name, body, namespace=namespace, subresource=subresource),
            subresource=subresource,
        )

    async def patch(
        self,
        kind: Kind,
        name: str,
        body: Body | Sequence[Mapping[str, Any]],
        *,
        type: PatchType,
        namespace: str | None = None,
        subresource: str | None = None,
        field_manager: str = "",
        force: bool = False,
    ) -> Document:
        raw = body if isinstance(body, bytes) else orjson.dumps(body)
        if b'"resourceVersion"' in raw or b"/metadata/resourceVersion" in raw:
            await self._touch_first(kind, name, namespace, subresource)
        return await self._write(
            "patch",
            kind,
            name,
            namespace,
            lambda: self._port.patch(
                kind,
                name,
                raw,
                type=type,
                namespace=namespace,
                subresource=subresource,
                field_manager=field_manager,
                force=force,
            ),
            subresource=subresource,
        )

    async def delete(
        self,
        kind: Kind,
        name: str,
        *,
        namespace: str | None = None,
        preconditions: Preconditions | None = None,
        propagation: Propagation | None = None,
        grace_seconds: int | None = None,
    ) -> None:
        await self._write(
            "delete",
            kind,
            name,
            namespace,
            lambda: self._port.delete(
                kind,
                name,
                namespace=namespace,
                preconditions=preconditions,
                propagation=propagation,
                grace_seconds=grace_seconds,
            ),
        )

    async def bind(self, pod: str, *, namespace: str, node: str, uid: str | None = None) -> None:
        await self._write(
            "bind",
            kinds.POD,
            pod,
            namespace,
            lambda: self._port.bind(pod, namespace=namespace, node=node, uid=uid),
            subresource="binding",
        )

    async def _write(
        self,
        verb: str,
        kind: Kind,
        name: str,
        namespace: str | None,
        call: Callable[[], Awaitable[T]],
        *,
        subresource: str | None = None,
    ) -> T:
        self._life.check()
        number = self._faults.note(
            self._life.actor,
            server=self._server,
            verb=verb,
            kind=kind,
            namespace=namespace or "",
            name=name,
            subresource=subresource or "",
            time=asyncio.get_running_loop().time(),
        )
        action = self._faults.planned(self._life.actor, number, Moment.BEFORE)
        if isinstance(action, Late):
            self._faults.post(call, what=str(self._faults.log[-1]), seconds=action.seconds)
            raise errors.Unreachable(f"connection to {self._server} lost by the simulator")
        await self._strike(action)
        try:
            answer = await self._asked(call)
        except errors.ApiError:
            await self._strike(self._faults.planned(self._life.actor, number, Moment.AFTER))  # a refusal is an answer too
            raise
        await self._strike(self._faults.planned(self._life.actor, number, Moment.AFTER))
        return answer

    async def _strike(self, action: Action | None) -> None:
        match action:
            case None:
                return
            case Kill():
                self._life.kill()
                raise ActorKilled(self._life.actor)
            case Fail(error):
                raise error()
            case Delay(seconds):
                await asyncio.sleep(seconds)
            case Hang() | Late():  # an answer that is late after its time-out is no answer
                await asyncio.sleep(REQUEST_TIMEOUT)
                raise errors.Unreachable(f"no answer within {REQUEST_TIMEOUT:.0f} s")
        self._life.check()

    async def _touch_first(self, kind: Kind, name: str, namespace: str | None, subresource: str | None) -> None:
        """Make the caller's version old, every other time; a Lease's as often as the plan says."""
        key = (self._server, kind.name, namespace or "", name, subresource or "")
        if not self._faults.conflict_once:
            return
        self._life.check()
        self._faults.touched[key] = times = self._faults.touched.get(key, 0) + 1
        if times % (self._faults.leases_conflict if kind == kinds.LEASE else 2) == 1:
            note = {"metadata": {"annotations": {TOUCHED: self._faults.chance.token(8)}}}
            try:
                await self._port.patch(kind, name, note, type=PatchType.MERGE, namespace=namespace)
            except errors.NotFound:
                return

    # --- the way to the server ---------------------------------------------------------------------------------------

    async def _asked(self, call: Callable[[], Awaitable[T]]) -> T:
        """One request: it may not arrive, it may act and its answer not arrive, and its sender may be dead by then."""
        self._life.check()
        await self._arrive()
        answer = await call()
        self._life.check()
        if self._faults.is_cut(self._life.actor, self._server, Way.ANSWERS):
            await self._give_up()
        return answer

    async def _arrive(self) -> None:
        if self._faults.is_cut(self._life.actor, self._server, Way.REQUESTS):
            await self._give_up()

    async def _give_up(self) -> None:
        await asyncio.sleep(REQUEST_TIMEOUT)
        self._life.check()
        raise errors.Unreachable(f"{self._server} does not answer {self._life.actor} within {REQUEST_TIMEOUT:.0f} s")

    async def _hear(self) -> None:
        """Hold a watch event back while answers are cut; a silence that lasts ends the watch."""
        if not self._faults.is_cut(self._life.actor, self._server, Way.ANSWERS):
            return
        try:
            async with asyncio.timeout(WATCH_SILENCE):
                while self._faults.is_cut(self._life.actor, self._server, Way.ANSWERS):
                    await self._faults.wait_healed()
        except TimeoutError as silence:
            raise errors.Unreachable(f"nothing from {self._server} for {WATCH_SILENCE:.0f} s") from silence
        self._life.check()


def _named(body: Body) -> str:
    metadata = (orjson.loads(body) if isinstance(body, bytes) else body).get("metadata") or {}
    return str(metadata.get("name") or metadata.get("generateName", "") + "*")
