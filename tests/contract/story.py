"""What contract tests say: write this, read that, in a namespace of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import orjson

from apis import kinds
from apis.kinds import Kind
from machinery import errors
from machinery.port import EventType, Port, WatchEvent

Doc = dict[str, Any]


def read(document: bytes) -> Doc:
    """A document as a dict."""
    doc: Doc = orjson.loads(document)
    return doc


def version(doc: Mapping[str, Any]) -> str:
    """Its resourceVersion."""
    return str(doc["metadata"]["resourceVersion"])


def pod_spec(**more: Any) -> Doc:
    """The least a pod needs."""
    return {"containers": [{"name": "main", "image": "busybox:1", "command": ["true"]}], **more}


def job_spec(**more: Any) -> Doc:
    """A Volcano Job of one task."""
    template = {"spec": pod_spec(restartPolicy="Never")}
    return {"minAvailable": 1, "tasks": [{"name": "main", "replicas": 1, "template": template}], **more}


@dataclass(frozen=True, slots=True)
class Story:
    """A port and a namespace."""

    port: Port
    namespace: str

    @staticmethod
    def of(port: Port, *, namespace: bytes) -> Story:
        return Story(port, read(namespace)["metadata"]["name"])

    async def create(self, kind: Kind, name: str, /, *, metadata: Doc | None = None, **body: Any) -> Doc:
        full = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name, **(metadata or {})}, **body}
        return read(await self.port.create(kind, full, namespace=self.namespace))

    async def get(self, kind: Kind, name: str) -> Doc:
        return read(await self.port.get(kind, name, namespace=self.namespace))

    async def put(self, kind: Kind, doc: Doc, *, subresource: str | None = None) -> Doc:
        name = doc["metadata"]["name"]
        return read(await self.port.replace(kind, name, doc, namespace=self.namespace, subresource=subresource))

    async def names(self, kind: Kind, **scope: Any) -> list[str]:
        page = await self.port.list(kind, namespace=self.namespace, **scope)
        return [read(item)["metadata"]["name"] for item in page.items]

    async def exists(self, kind: Kind, name: str) -> bool:
        try:
            await self.get(kind, name)
        except errors.NotFound:
            return False
        return True

    async def eventually(self, holds: Callable[[], Awaitable[bool]], *, seconds: float = 30.0) -> None:
        """Wait until it holds; the loop's time is virtual in memory."""
        async with asyncio.timeout(seconds):
            while not await holds():  # noqa: ASYNC110 - the state of the world has no event
                await asyncio.sleep(0.05)

    async def events(self, kind: Kind, count: int, **scope: Any) -> list[WatchEvent]:
        """The next events of a watch, bookmarks apart."""
        found: list[WatchEvent] = []
        async with asyncio.timeout(30.0), aclosing(self.port.watch(kind, namespace=self.namespace, **scope)) as watch:  # type: ignore[type-var]
            async for event in watch:
                if event.type is not EventType.BOOKMARK:
                    found.append(event)
                if len(found) == count:
                    break
        return found


def told(events: list[WatchEvent]) -> list[tuple[str, str]]:
    """Type and name of each event."""
    return [(event.type.value, read(event.document)["metadata"]["name"]) for event in events]


CONFIGMAP, POD, LEASE, NAMESPACE = kinds.CONFIGMAP, kinds.POD, kinds.LEASE, kinds.NAMESPACE
