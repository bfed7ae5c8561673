"""What really started in the members, read from the containers that their nodes report, and from nothing of ours."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

import orjson

from apis import keys, kinds
from machinery import errors
from machinery.port import EventType, Port


@dataclass(frozen=True, slots=True, order=True)
class Start:
    """One container that a node started: `container` is the runtime's own id."""

    job: str
    pod: str
    cluster: str
    uid: str
    container: str


@dataclass
class Starts:
    """All starts seen in one namespace of every member; a pod that came and went is remembered."""

    seen: set[Start] = field(default_factory=set)

    def by_pod(self) -> dict[tuple[str, str], list[Start]]:
        """Starts by Job and pod name."""
        found: dict[tuple[str, str], list[Start]] = {}
        for start in sorted(self.seen):
            found.setdefault((start.job, start.pod), []).append(start)
        return found

    def twice(self) -> list[list[Start]]:
        """Pods of a Job that started more than once, in whatever cluster."""
        return [starts for starts in self.by_pod().values() if len(starts) > 1]

    def read(self, cluster: str, document: bytes) -> None:
        """Fold in one pod."""
        pod = orjson.loads(document)
        meta = pod["metadata"]
        job = (meta.get("labels") or {}).get(keys.JOB_NAME)
        for status in (pod.get("status") or {}).get("containerStatuses") or []:
            states = [status.get("state") or {}, status.get("lastState") or {}]
            for state in states:
                live = state.get("running") or state.get("terminated")
                if job and live and live.get("startedAt"):
                    identity = live.get("containerID") or status.get("containerID") or live["startedAt"]
                    self.seen.add(Start(job, meta["name"], cluster, meta["uid"], identity))


@contextlib.asynccontextmanager
async def recording(ports: Mapping[str, Port], *, namespace: str) -> AsyncIterator[Starts]:
    """Watch the pods of a namespace in every member from now on."""
    starts = Starts()
    tasks = [asyncio.create_task(_record(starts, name, port, namespace)) for name, port in ports.items()]
    try:
        yield starts
        for name, port in ports.items():
            for item in (await port.list(kinds.POD, namespace=namespace)).items:
                starts.read(name, item)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _record(starts: Starts, cluster: str, port: Port, namespace: str) -> None:
    version = ""
    while True:
        with contextlib.suppress(errors.Expired, errors.Unreachable):
            if not version:
                page = await port.list(kinds.POD, namespace=namespace)
                version = page.resource_version
                for item in page.items:
                    starts.read(cluster, item)
            async for event in port.watch(kinds.POD, namespace=namespace, resource_version=version):
                version = orjson.loads(event.document)["metadata"]["resourceVersion"]
                if event.type is not EventType.BOOKMARK:
                    starts.read(cluster, event.document)
            continue
        version = ""
