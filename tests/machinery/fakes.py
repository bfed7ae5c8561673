"""A tiny API server for the tests of the plumbing: one store, resource versions, watches that the test feeds and breaks.

It knows nothing of selectors, finalizers or schemas; `simulator` has the API server that behaves like a real one.
"""

from __future__ import annotations

import asyncio
import datetime
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import msgspec
import orjson

from apis.kinds import Kind
from machinery.errors import AlreadyExists, ApiError, Conflict, Expired, NotFound
from machinery.port import WATCH_TIMEOUT, Body, Document, EventType, Page, PatchType, Preconditions, Propagation, WatchEvent

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


class LoopClock:
    """Boot and wall time of the event loop, which is virtual under looptime."""

    def boot(self) -> float:
        return asyncio.get_running_loop().time()

    def now(self) -> datetime.datetime:
        return START + datetime.timedelta(seconds=self.boot())

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Thing(msgspec.Struct, frozen=True):
    """The projection the tests use."""

    namespace: str
    name: str
    uid: str
    version: str
    size: int


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    uid: str
    resource_version: str
    namespace: str = ""


class _Raw(msgspec.Struct):
    metadata: _Meta
    size: int = 0


_decoder = msgspec.json.Decoder(_Raw)


def project(document: Document) -> Thing:
    raw = _decoder.decode(document)
    meta = raw.metadata
    return Thing(meta.namespace, meta.name, meta.uid, meta.resource_version, raw.size)


END = object()


class FakePort:
    """One API server.

    A watch begins with what happened after its version; what is written `silent` is compacted at once, so that a watch from
    before it is expired. `failures[verb]` is raised, first in first out, by the next calls of that verb; None lets one call
    pass, and what was put there with `after=True` is raised after the write took place.
    """

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.version = 100
        self.failures: dict[str, list[tuple[ApiError | None, bool]]] = defaultdict(list)
        self.calls: list[tuple[str, str, str]] = []
        self.watchers: list[asyncio.Queue[Any]] = []
        self.history: list[tuple[int, WatchEvent]] = []
        self.compacted = 0
        self.requests: list[tuple[str, str]] = []
        self.patches: list[tuple[PatchType, str, bool, Any]] = []
        self.answers: dict[tuple[str, str], Document] = {}

    # --- what a test does ---------------------------------------------------------------------------------------------

    def fail(self, verb: str, *errors: ApiError | None, after: bool = False) -> None:
        self.failures[verb] += [(error, after) for error in errors]

    def put(self, kind: Kind, name: str, /, *, namespace: str = "", uid: str = "", silent: bool = False, **fields: Any) -> None:
        """Write an object as some other client would."""
        key = (kind.name, namespace, name)
        known = self.objects.get(key)
        self.version += 1
        uid = uid or (known["metadata"]["uid"] if known else f"uid-{self.version}")
        metadata = {"name": name, "namespace": namespace, "uid": uid, "resourceVersion": str(self.version)}
        self.objects[key] = {"metadata": metadata, **fields}
        if silent:
            self.compacted = self.version
        else:
            self.emit(EventType.MODIFIED if known else EventType.ADDED, self.objects[key])

    def drop(self, kind: Kind, name: str, *, namespace: str = "", silent: bool = False) -> None:
        gone = self.objects.pop((kind.name, namespace, name))
        self.version += 1
        gone["metadata"]["resourceVersion"] = str(self.version)
        if silent:
            self.compacted = self.version
        else:
            self.emit(EventType.DELETED, gone)

    def emit(self, type: EventType, document: Mapping[str, Any] | bytes, *, initial_end: bool = False) -> None:
        raw = document if isinstance(document, bytes) else orjson.dumps(document)
        event = WatchEvent(type, raw, initial_end)
        self.history.append((self.version, event))
        for watcher in self.watchers:
            watcher.put_nowait(event)

    def bookmark(self) -> None:
        self.version += 1
        self.emit(EventType.BOOKMARK, {"metadata": {"resourceVersion": str(self.version)}})

    def break_watches(self, error: ApiError | None = None) -> None:
        for watcher in self.watchers:
            watcher.put_nowait(error or END)

    def count(self, verb: str) -> int:
        return sum(1 for call in self.calls if call[0] == verb)

    # --- the port -----------------------------------------------------------------------------------------------------

    def _enter(self, verb: str, kind: Kind, name: str = "") -> ApiError | None:
        """Raise what was ordered before the call, return what was ordered for after it."""
        self.calls.append((verb, kind.kind, name))
        if not self.failures[verb]:
            return None
        error, after = self.failures[verb].pop(0)
        if error is not None and not after:
            raise error
        return error

    async def get(self, kind: Kind, name: str, *, namespace: str | None = None) -> Document:
        self._enter("get", kind, name)
        return orjson.dumps(self._find(kind, name, namespace))

    def _find(self, kind: Kind, name: str, namespace: str | None) -> dict[str, Any]:
        try:
            return self.objects[kind.name, namespace or "", name]
        except KeyError:
            raise NotFound(f"no {kind.kind} {name}", code=404) from None

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
        self._enter("list", kind)
        keys = sorted(key for key in self.objects if key[0] == kind.name)
        start = int(continue_token or 0)
        chosen = keys[start : start + limit]
        token = str(start + limit) if start + limit < len(keys) else ""
        return Page([orjson.dumps(self.objects[key]) for key in chosen], str(self.version), token)

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
        self._enter("watch", kind, resource_version)
        queue: asyncio.Queue[Any] = asyncio.Queue()
        if send_initial:
            for key in sorted(self.objects):
                queue.put_nowait(WatchEvent(EventType.ADDED, orjson.dumps(self.objects[key])))
            end = orjson.dumps({"metadata": {"resourceVersion": str(self.version)}})
            queue.put_nowait(WatchEvent(EventType.BOOKMARK, end, initial_end=True))
        else:
            if int(resource_version or 0) < self.compacted:
                raise expired()
            for version, event in self.history:
                if version > int(resource_version or 0):
                    queue.put_nowait(event)
        self.watchers.append(queue)
        try:
            while True:
                event = await queue.get()
                if event is END:
                    return
                if isinstance(event, ApiError):
                    raise event
                yield event
        finally:
            self.watchers.remove(queue)

    async def create(self, kind: Kind, body: Body, *, namespace: str | None = None, dry_run: bool = False) -> Document:
        document = _load(body)
        name = document["metadata"].get("name") or f"{document['metadata']['generateName']}{self.version}"
        late = self._enter("create", kind, name)
        if (kind.name, namespace or "", name) in self.objects:
            raise AlreadyExists(f"{name} exists", code=409, reason="AlreadyExists")
        return self._write(kind, name, namespace, document, late)

    async def replace(
        self, kind: Kind, name: str, body: Body, *, namespace: str | None = None, subresource: str | None = None
    ) -> Document:
        late = self._enter("replace", kind, name)
        document = _load(body)
        known = self._find(kind, name, namespace)
        if document["metadata"].get("resourceVersion", "") != known["metadata"]["resourceVersion"]:
            raise Conflict("somebody was faster", code=409, reason="Conflict")
        return self._write(kind, name, namespace, document, late)

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
        """Merges one level deep, which is all the plumbing needs."""
        late = self._enter("patch", kind, name)
        changes: Any = orjson.loads(body) if isinstance(body, bytes) else body
        self.patches.append((type, field_manager, force, changes))
        known = self.objects.get((kind.name, namespace or "", name))
        if known is None and type is not PatchType.APPLY:
            raise NotFound(f"no {kind.kind} {name}", code=404)
        merged = {**(known or {}), **changes}
        merged["metadata"] = {**(known or {}).get("metadata", {}), **changes.get("metadata", {})}
        return self._write(kind, name, namespace, merged, late)

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
        late = self._enter("delete", kind, name)
        self._find(kind, name, namespace)
        self.drop(kind, name, namespace=namespace or "")
        if late is not None:
            raise late

    async def bind(self, pod: str, *, namespace: str, node: str, uid: str | None = None) -> None:
        self.calls.append(("bind", "Pod", pod))

    async def request(self, method: str, path: str, *, body: Body | None = None) -> Document:
        self.requests.append((method, path))
        return self.answers.get((method, path), b"{}")

    async def close(self) -> None:
        self.break_watches()

    def _write(self, kind: Kind, name: str, namespace: str | None, document: dict[str, Any], late: ApiError | None) -> Document:
        metadata = document.pop("metadata", {})
        self.put(kind, name, namespace=namespace or "", **document)
        stored = self.objects[kind.name, namespace or "", name]
        stored["metadata"] = {**metadata, **stored["metadata"]}
        if late is not None:
            raise late
        return orjson.dumps(stored)


def _load(body: Body) -> dict[str, Any]:
    loaded: dict[str, Any] = orjson.loads(body if isinstance(body, bytes) else orjson.dumps(body))
    return loaded


def expired() -> Expired:
    return Expired("too old", code=410, reason="Expired")
