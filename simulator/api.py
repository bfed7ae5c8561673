"""The Kubernetes port in memory: one actor's connection to an `ApiServer`.

Every call gives the loop a turn before it acts, so that actors interleave; with a `latency` it takes that long, half on the
way there and half on the way back, so that a caller who is cancelled in between may have written all the same.
"""

from __future__ import annotations

import asyncio
import base64
import copy
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Self

import orjson

from apis.kinds import Kind
from machinery import errors
from machinery.port import (
    WATCH_TIMEOUT,
    Body,
    Document,
    EventType,
    Page,
    PatchType,
    Preconditions,
    Propagation,
    WatchEvent,
)
from simulator import patches, schemas, selectors
from simulator.admission import User
from simulator.applying import apply
from simulator.discovery import answer
from simulator.server import ApiServer
from simulator.store import Collection, Doc, Filter, Stored, Watcher

__all__ = ["ApiServer", "MemoryPort"]

BOOKMARK_PERIOD = 60.0
"""Seconds between bookmarks of a watch, about as the real API server sends them."""

SNAPSHOTS = 64
"""Paged lists that can be continued at the same time; older tokens expire."""


class MemoryPort:
    """`machinery.port.Port` on an in-memory API server.

    `latency` gives the seconds one request takes; None: no time, but one turn of the loop. `agent` is the field manager of
    plain writes and the name of the user, `groups` are the groups that admission policies may ask about.
    """

    def __init__(
        self,
        server: ApiServer,
        *,
        latency: Callable[[], float] | None = None,
        agent: str = "memory",
        groups: tuple[str, ...] = (),
    ) -> None:
        self.server = server
        self._latency = latency
        self._agent = agent
        self._user = User(agent, groups)
        self._watchers: dict[Watcher, None] = {}

    def acting_as(self, user: str) -> Self:
        """See `machinery.port.Impersonator`."""
        other = copy.copy(self)
        other._user = User(user)
        return other

    # --- reads -------------------------------------------------------------------------------------------------------

    async def get(self, kind: Kind, name: str, *, namespace: str | None = None) -> Document:
        async with self._way():
            return self.server.read(kind, name, namespace=namespace).raw

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
        async with self._way():
            wants = self._filter(kind, labels=labels, fields=fields)
            if continue_token:
                version, start = self._read_token(continue_token)
                everything = self.server.snapshots.get((kind, namespace, version))
                if everything is None:
                    raise self.server.failure(410, "Expired", "The provided continue parameter is too old")
            else:
                version, start = self._list_version(resource_version), ""
                everything = list(self.server.collection(kind).scan(namespace))
            found = [stored for stored in everything if stored.key > start and wants(stored)]
            if not limit or len(found) <= limit:
                return Page([stored.listed for stored in found], str(version))
            self._keep_snapshot((kind, namespace, version), everything)
            token = base64.urlsafe_b64encode(orjson.dumps({"rv": version, "start": found[limit - 1].key})).decode()
            return Page([stored.listed for stored in found[:limit]], str(version), token)

    def _list_version(self, asked: str) -> int:
        if asked and self._version(asked) > self.server.version:
            raise self.server.failure(504, "Timeout", f"Too large resource version: {asked}, current: {self.server.version}")
        return self.server.version

    def _version(self, text: str) -> int:
        if not text.isdecimal():
            raise self.server.failure(400, "BadRequest", f'resourceVersion: Invalid value: "{text}"')
        return int(text)

    def _read_token(self, token: str) -> tuple[int, str]:
        try:
            content = orjson.loads(base64.urlsafe_b64decode(token))
            return int(content["rv"]), str(content["start"])
        except (ValueError, KeyError, TypeError) as error:
            raise self.server.failure(400, "BadRequest", "continue key is not valid") from error

    def _keep_snapshot(self, key: tuple[Kind, str | None, int], everything: Sequence[Stored]) -> None:
        snapshots = self.server.snapshots
        snapshots.pop(key, None)
        snapshots[key] = [*everything]
        while len(snapshots) > SNAPSHOTS:
            del snapshots[next(iter(snapshots))]

    def _filter(self, kind: Kind, *, labels: str, fields: str, namespace: str | None = None) -> Filter:
        try:
            return selectors.compile_filter(kind, namespace=namespace, labels=labels, fields=fields)
        except errors.Invalid as error:
            raise self.server.failure(400, "BadRequest", error.message) from error

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
        async with self._way():
            wants = self._filter(kind, labels=labels, fields=fields, namespace=namespace)
            version = self._version(resource_version or "0")
            collection = self.server.collection(kind)
            watcher = self._open(collection, wants, namespace, version, initial=send_initial or version == 0)
        initial_end = send_initial
        loop = asyncio.get_running_loop()
        end, next_bookmark = loop.time() + timeout, loop.time() + BOOKMARK_PERIOD
        try:
            while True:
                while watcher.pending:
                    type_, stored = watcher.pending.popleft()
                    assert isinstance(stored, Stored)
                    yield WatchEvent(type_, stored.raw)
                if initial_end:
                    yield self._bookmark(kind, initial_end=True)
                    initial_end = False
                    continue
                if watcher.closed or loop.time() >= end:
                    return
                if loop.time() >= next_bookmark:
                    next_bookmark = loop.time() + BOOKMARK_PERIOD
                    yield self._bookmark(kind)
                    continue
                await self._wait(watcher, until=min(end, next_bookmark))
        finally:
            collection.watchers.pop(watcher, None)
            self._watchers.pop(watcher, None)

    def _open(self, collection: Collection, wants: Filter, namespace: str | None, version: int, *, initial: bool) -> Watcher:
        watcher = Watcher(wants)
        if initial:
            watcher.pending.extend((EventType.ADDED, stored) for stored in collection.scan(namespace) if wants(stored))
        elif version < collection.floor:
            message = f"too old resource version: {version} ({collection.floor})"
            raise self.server.failure(410, "Expired", message)
        else:
            for change in collection.since(version):
                watcher.offer(change)
        collection.watchers[watcher] = None
        self._watchers[watcher] = None
        return watcher

    @staticmethod
    async def _wait(watcher: Watcher, *, until: float) -> None:
        loop = asyncio.get_running_loop()
        watcher.waiter = loop.create_future()
        timer = loop.call_at(until, watcher.wake)
        try:
            await watcher.waiter
        finally:
            timer.cancel()

    def _bookmark(self, kind: Kind, *, initial_end: bool = False) -> WatchEvent:
        metadata: Doc = {"resourceVersion": str(self.server.version), "creationTimestamp": None}
        if initial_end:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        document = orjson.dumps({"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata})
        return WatchEvent(EventType.BOOKMARK, document, initial_end)

    # --- writes ------------------------------------------------------------------------------------------------------

    async def create(self, kind: Kind, body: Body, *, namespace: str | None = None, dry_run: bool = False) -> Document:
        async with self._way():
            with self.server.acting(self._user):
                doc = self.server.decode(body)
                return self.server.create(kind, doc, namespace=namespace, dry_run=dry_run).raw

    async def replace(
        self, kind: Kind, name: str, body: Body, *, namespace: str | None = None, subresource: str | None = None
    ) -> Document:
        async with self._way():
            with self.server.acting(self._user):
                doc = self.server.decode(body)
                if subresource is None and schemas.traits(kind).create_on_put and not self._exists(kind, name, namespace):
                    doc.setdefault("metadata", {}).pop("resourceVersion", None)
                    return self.server.create(kind, doc, namespace=namespace).raw
                old = self.server.read(kind, name, namespace=namespace)
                return self.server.update(old, doc, subresource=subresource, writer=self._agent).raw

    def _exists(self, kind: Kind, name: str, namespace: str | None) -> bool:
        return self.server.collection(kind).get(namespace or "", name) is not None

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
        async with self._way():
            with self.server.acting(self._user):
                patch = self.server.decode(body if isinstance(body, bytes) else orjson.dumps(body))
                if type is PatchType.APPLY:
                    return apply(
                        self.server,
                        kind=kind,
                        name=name,
                        applied=patch,
                        namespace=namespace,
                        subresource=subresource,
                        manager=field_manager,
                        force=force,
                    ).raw
                old = self.server.read(kind, name, namespace=namespace)
                doc = self._patched(old, patch, type)
                writer = field_manager or self._agent
                return self.server.update(old, doc, subresource=subresource, writer=writer, conditional=False).raw

    def _patched(self, old: Stored, patch: Any, type: PatchType) -> Doc:
        current: Doc = orjson.loads(old.raw)
        if type is PatchType.MERGE:
            merged: Doc = patches.merge_patch(current, patch)
            return merged
        if not isinstance(patch, list):
            raise self.server.failure(400, "BadRequest", "a JSON patch is a list of operations")
        return patches.json_patch(current, patch)

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
        async with self._way():
            self.server.delete(
                kind,
                name,
                namespace=namespace,
                preconditions=preconditions,
                propagation=propagation,
                grace_seconds=grace_seconds,
            )

    async def bind(self, pod: str, *, namespace: str, node: str, uid: str | None = None) -> None:
        async with self._way():
            self.server.bind(pod, namespace=namespace, node=node, uid=uid)

    async def request(self, method: str, path: str, *, body: Body | None = None) -> Document:
        async with self._way():
            with self.server.acting(self._user):
                return answer(self.server, method, path, body=body)

    async def close(self) -> None:
        for watcher in list(self._watchers):
            watcher.close()
        await asyncio.sleep(0)

    def _way(self) -> _Way:
        return _Way(self._latency)


class _Way:
    """The way to the server and back."""

    __slots__ = ("_seconds",)

    def __init__(self, latency: Callable[[], float] | None) -> None:
        self._seconds = 0.0 if latency is None else latency() / 2

    async def __aenter__(self) -> None:
        await asyncio.sleep(self._seconds)

    async def __aexit__(self, *failure: object) -> None:
        if self._seconds:
            await asyncio.sleep(self._seconds)
