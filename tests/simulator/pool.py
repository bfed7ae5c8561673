"""A pool of two small nodes, and what one says to it."""

from __future__ import annotations

from typing import Any

import orjson

from apis import kinds
from machinery import errors
from simulator.api import MemoryPort
from simulator.loop import SimClock
from simulator.nodes import NodePool

Doc = dict[str, Any]


def container(name: str, command: str, **more: Any) -> Doc:
    """A container that runs a script."""
    return {"name": name, "image": "busybox:1", "command": ["sh", "-c", command], **more}


class Stage:
    """A pool of two small nodes, and what one says to it."""

    def __init__(self, port: MemoryPort, pool: NodePool, clock: SimClock) -> None:
        self.port, self.pool, self.clock = port, pool, clock

    async def run(self, name: str, command: str, *, node: str = "n-0", cpu: str = "1", **spec: Any) -> None:
        annotations = spec.pop("annotations", {})
        main = {**container("main", command), "resources": {"requests": {"cpu": cpu}}}
        body = {
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"containers": [main], "restartPolicy": "Never", **spec},
        }
        await self.port.create(kinds.POD, body, namespace="default")
        await self.port.bind(name, namespace="default", node=node)

    async def pod(self, name: str) -> Doc | None:
        try:
            doc: Doc = orjson.loads(await self.port.get(kinds.POD, name, namespace="default"))
        except errors.NotFound:
            return None
        return doc

    async def statuses(self, name: str, *, init: bool = False) -> dict[str, Doc]:
        """Container statuses by name."""
        doc = await self.pod(name)
        assert doc is not None
        return {each["name"]: each for each in doc["status"]["initContainerStatuses" if init else "containerStatuses"]}

    async def condition(self, name: str, type: str) -> Doc:
        doc = await self.pod(name)
        assert doc is not None
        return next((each for each in doc["status"]["conditions"] if each["type"] == type), {})

    def started(self) -> list[str]:
        """Containers in the order of their starts."""
        return [record.container for record in self.pool.records]

    async def phase(self, name: str) -> str:
        doc = await self.pod(name)
        return "" if doc is None else str(doc["status"]["phase"])

    async def node(self, name: str) -> Doc:
        doc: Doc = orjson.loads(await self.port.get(kinds.NODE, name))
        return doc

    async def ready(self, name: str) -> str:
        return str((await self.node(name))["status"]["conditions"][0]["status"])
