"""One node: what it takes, what it refuses, and whether it can reach its API server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from apis.vectors import ResourceVector, total
from machinery.clock import Clock
from machinery.port import Port
from simulator.pods import FINISHED, PodRun, Verdict, remove
from simulator.records import StartRecords

Doc = Mapping[str, Any]

EVICTION_GRACE = 0.0
"""Seconds a pod has that its node evicts (hard thresholds give none)."""


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A node to simulate. Amounts are Kubernetes quantities; `extended` holds further resources (GPUs and the like)."""

    name: str
    cpu: str | int = "8"
    memory: str = "32Gi"
    pods: int = 110
    labels: Mapping[str, str] = field(default_factory=dict)
    extended: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()

    @property
    def capacity(self) -> dict[str, str]:
        """As `status.capacity` has it."""
        return {"cpu": str(self.cpu), "memory": self.memory, "pods": str(self.pods), **self.extended}


class Kubelet:
    """The pods of one node. It goes on when everything of ours is dead."""

    def __init__(
        self,
        port: Port,
        spec: NodeSpec,
        *,
        cluster: str,
        clock: Clock,
        records: StartRecords,
        start_delay: Callable[[], float],
        default_duration: float,
        boot_id: str,
        number: int,
    ) -> None:
        self.port = port
        self.spec = spec
        self.cluster = cluster
        self.clock = clock
        self.records = records
        self.start_delay = start_delay
        self.boot_id = boot_id
        self.address = f"10.0.{number // 250}.{number % 250 + 1}"
        self.powered = asyncio.Event()
        self.powered.set()
        self.connected = asyncio.Event()
        self.connected.set()
        self._default = default_duration
        self._number = number
        self._addresses = 0
        self._runs: dict[str, PodRun] = {}
        self._seen: dict[str, Doc] = {}
        """The last word of the API server on each pod, kept while it cannot be acted on."""

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def allocatable(self) -> ResourceVector:
        return ResourceVector.from_quantities(self.spec.capacity)

    def pod_address(self, uid: str) -> str:
        """An address of the pod's own, stable per node and order of starts."""
        self._addresses += 1
        return f"10.{64 + self._number // 250}.{self._number % 250}.{self._addresses % 250 + 1}"

    def holds(self, uid: str) -> bool:
        """Whether it knows of this pod."""
        return uid in self._runs

    # --- what the API server says ------------------------------------------------------------------------------------

    def see(self, pod: Doc, *, group: asyncio.TaskGroup) -> None:
        """A pod of this node exists like this."""
        self._seen[pod["metadata"]["uid"]] = pod
        if self.connected.is_set():
            self._act(pod, group)

    def see_gone(self, uid: str) -> None:
        """A pod of this node is no more."""
        self._seen.pop(uid, None)
        if self.connected.is_set():
            self._forget(uid)

    def reconnect(self, *, group: asyncio.TaskGroup) -> None:
        """The API server can be reached again: act on what it said meanwhile."""
        self.connected.set()
        for uid in [uid for uid in self._runs if uid not in self._seen]:
            self._forget(uid)
        for pod in list(self._seen.values()):
            self._act(pod, group)

    def _forget(self, uid: str) -> None:
        run = self._runs.get(uid)
        if run is not None:
            run.forget()

    def _act(self, pod: Doc, group: asyncio.TaskGroup) -> None:
        metadata = pod["metadata"]
        run = self._runs.get(metadata["uid"])
        if run is None:
            if (pod.get("status") or {}).get("phase") in FINISHED:
                if metadata.get("deletionTimestamp") and metadata.get("deletionGracePeriodSeconds"):
                    group.create_task(remove(self, pod), name=f"{self.cluster}/{self.name}/remove {metadata['name']}")
                return
            run = self._runs[metadata["uid"]] = PodRun(self, pod, default=self._default)
            group.create_task(self._take(run), name=f"{self.cluster}/{self.name}/{metadata['name']}")
        run.pod = pod
        if metadata.get("deletionTimestamp"):
            run.stop(grace=metadata.get("deletionGracePeriodSeconds") or 0)

    # --- taking and refusing -----------------------------------------------------------------------------------------

    async def _take(self, run: PodRun) -> None:
        try:
            lacking = self._lacking(run)
            if lacking:
                await self._refuse(run, lacking)
            else:
                await run.live()
        finally:
            self._runs.pop(run.uid, None)

    def _lacking(self, run: PodRun) -> str:
        """The first resource that this pod would over-commit, "" when it fits."""
        taken = total(
            other.requests for other in self._runs.values() if not other.finished and other.admitted and other is not run
        )
        room = self.allocatable - taken
        lacking = next((name for name in run.requests if run.requests[name] > room.get(name)), "")
        run.admitted = not lacking
        return lacking

    async def _refuse(self, run: PodRun, resource: str) -> None:
        run.finished = True
        await self.connected.wait()
        message = f"Pod was rejected: Node didn't have enough resource: {resource}"
        await run.write_status({"phase": "Failed", "reason": f"OutOf{resource}", "message": message})

    # --- what happens to machines ------------------------------------------------------------------------------------

    def evict(self, pod: str, *, namespace: str, message: str) -> None:
        """The node is short of something: it ends a pod by itself, and the pod stays behind Failed."""
        verdict = Verdict("Evicted", message, disrupts=True)
        for run in self._runs.values():
            if (run.pod["metadata"]["namespace"], run.name) == (namespace, pod):
                run.condemn(verdict, grace=EVICTION_GRACE)

    def cut_off(self) -> None:
        """Lose the API server; containers go on."""
        self.connected.clear()

    def power_off(self) -> None:
        """Lose everything that runs."""
        self.connected.clear()
        self.powered.clear()
        for run in list(self._runs.values()):
            run.kill()
