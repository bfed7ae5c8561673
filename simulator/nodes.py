"""The nodes of one cluster, as actors of their own: they live on when hub and agents die.

A pool registers its nodes, runs the pods bound to them, and plays the node lifecycle controller: a node that cannot report
turns NotReady after a grace, is tainted, and loses its pods after their toleration. Heartbeats are not written; what a
missing one would cause is timed instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import aclosing
from typing import Any

import orjson

from apis import kinds
from machinery import errors
from machinery.clock import Chance, Clock, Ids, stamp
from machinery.port import EventType, PatchType, Port, WatchEvent
from simulator.evictions import Cleaner
from simulator.kubelet import Kubelet, NodeSpec
from simulator.records import StartRecords
from simulator.volumes import ClaimBinder

__all__ = ["NodePool", "NodeSpec", "uniform"]

START_DELAY = (0.5, 1.5)
"""Seconds from binding to running containers."""
MONITOR_GRACE = 40.0
"""Seconds of silence after which a node is NotReady (node-monitor-grace-period)."""
ORPHAN_QUARANTINE = 40.0
"""Seconds after which pods of a deleted node are removed (pod garbage collector)."""
REBOOT = 60.0
"""Seconds a reboot takes."""

UNREACHABLE = "node.kubernetes.io/unreachable"


def uniform(prefix: str, count: int, **spec: Any) -> list[NodeSpec]:
    """`count` equal nodes `prefix-0`, `prefix-1`, …"""
    return [NodeSpec(f"{prefix}-{index}", **spec) for index in range(count)]


class NodePool:
    """All nodes of one cluster."""

    def __init__(
        self,
        port: Port,
        *,
        nodes: Iterable[NodeSpec],
        clock: Clock,
        chance: Chance,
        ids: Ids,
        cluster: str,
        records: StartRecords,
        default_duration: float = 5.0,
        monitor_grace: float = MONITOR_GRACE,
    ) -> None:
        self._port = port
        self._clock = clock
        self._chance = chance
        self._ids = ids
        self._cluster = cluster
        self.records = records
        self._default_duration = default_duration
        self._monitor_grace = monitor_grace
        self._cleaner = Cleaner(port, clock=clock)
        self._binder = ClaimBinder(port, clock=clock)
        self.kubelets = {spec.name: self._made(spec, number) for number, spec in enumerate(nodes)}
        self._where: dict[str, str] = {}
        """Pod UID to the node it is bound to."""
        self._group: asyncio.TaskGroup | None = None
        self._silences: dict[str, asyncio.Task[None]] = {}

    def _made(self, spec: NodeSpec, number: int) -> Kubelet:
        return Kubelet(
            self._port,
            spec,
            cluster=self._cluster,
            clock=self._clock,
            records=self.records,
            start_delay=lambda: self._chance.uniform(*START_DELAY),
            default_duration=self._default_duration,
            boot_id=self._ids.uuid(),
            number=number,
        )

    # --- running -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Register the nodes and run their pods until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            for kubelet in self.kubelets.values():
                await self._register(kubelet)
            group.create_task(self._binder.run(), name=f"{self._cluster}/claims")
            await self._follow_pods()

    async def add(self, spec: NodeSpec) -> None:
        """One more node."""
        kubelet = self.kubelets[spec.name] = self._made(spec, len(self.kubelets))
        await self._register(kubelet)

    async def _register(self, kubelet: Kubelet) -> None:
        labels = {"kubernetes.io/hostname": kubelet.name, "kubernetes.io/os": "linux", **kubelet.spec.labels}
        body = {"metadata": {"name": kubelet.name, "labels": labels}, "status": self._status(kubelet, ready="True")}
        try:
            await self._port.create(kinds.NODE, body)
        except errors.AlreadyExists:
            await self._patch_status(kubelet, ready="True")
        await self._set_taints(kubelet, [])

    def _status(self, kubelet: Kubelet, *, ready: str) -> dict[str, Any]:
        now = stamp(self._clock.now())
        reason = {"True": "KubeletReady", "False": "KubeletNotReady"}.get(ready, "NodeStatusUnknown")
        return {
            "capacity": kubelet.spec.capacity,
            "allocatable": kubelet.spec.capacity,
            "addresses": [{"type": "InternalIP", "address": kubelet.address}, {"type": "Hostname", "address": kubelet.name}],
            "conditions": [
                {"type": "Ready", "status": ready, "reason": reason, "lastHeartbeatTime": now, "lastTransitionTime": now}
            ],
            "nodeInfo": {"bootID": kubelet.boot_id, "kubeletVersion": "v1.36.3", "architecture": "amd64"},
        }

    async def _patch_status(self, kubelet: Kubelet, *, ready: str) -> None:
        await self._patch(kubelet.name, {"status": self._status(kubelet, ready=ready)}, subresource="status")

    async def _set_taints(self, kubelet: Kubelet, more: list[dict[str, str]]) -> None:
        await self._patch(kubelet.name, {"spec": {"taints": [*map(dict, kubelet.spec.taints), *more] or None}})

    async def _patch(self, node: str, patch: dict[str, Any], *, subresource: str | None = None) -> None:
        try:
            await self._port.patch(kinds.NODE, node, patch, type=PatchType.MERGE, subresource=subresource)
        except errors.NotFound:
            return  # somebody deleted the Node object; the machine does not care

    async def _follow_pods(self) -> None:
        version = ""
        while True:
            watch: Any = self._port.watch(kinds.POD, resource_version=version, send_initial=not version)
            listed: set[str] | None = None if version else set()
            try:
                async with aclosing(watch):
                    async for event in watch:
                        version = self._follow(event, listed)
                        if event.initial_end and listed is not None:
                            self._lost(listed)
                            listed = None
            except errors.ApiError:
                version = ""
                await self._clock.sleep(1.0)

    def _follow(self, event: WatchEvent, listed: set[str] | None) -> str:
        pod = orjson.loads(event.document)
        version: str = pod["metadata"]["resourceVersion"]
        if event.type is EventType.BOOKMARK:
            return version
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName", "")
        kubelet = self.kubelets.get(node)
        if listed is not None:
            listed.add(uid)
        if kubelet is None:
            return version
        if event.type is EventType.DELETED:
            self._where.pop(uid, None)
            kubelet.see_gone(uid)
        else:
            assert self._group is not None
            self._where[uid] = node
            kubelet.see(pod, group=self._group)
        return version

    def _lost(self, listed: set[str]) -> None:
        """Pods that went while nobody watched."""
        for uid in [uid for uid in self._where if uid not in listed]:
            self.kubelets[self._where.pop(uid)].see_gone(uid)

    # --- what happens to machines ------------------------------------------------------------------------------------

    def isolate(self, node: str) -> None:
        """Cut a node off from its API server: containers go on, nothing is reported, after a grace it is NotReady."""
        self.kubelets[node].cut_off()
        self._spawn(node, self._silence(self.kubelets[node]))

    def heal(self, node: str) -> None:
        """Undo `isolate`: the node catches up and is Ready again."""
        self._spawn(node, self._return(self.kubelets[node]))

    def lose(self, node: str) -> None:
        """The machine is gone for good, with everything that ran on it."""
        self.kubelets[node].power_off()
        self._spawn(node, self._silence(self.kubelets[node]))

    def evict(self, pod: str, *, namespace: str = "default", message: str = "The node was low on resource: memory.") -> None:
        """The node that runs this pod is short of something and ends it."""
        for kubelet in self.kubelets.values():
            kubelet.evict(pod, namespace=namespace, message=message)

    def reboot(self, node: str) -> None:
        """Everything that ran ends; the node comes back with another boot id."""
        self.kubelets[node].power_off()
        self._spawn(node, self._reboot(self.kubelets[node]))

    async def remove(self, node: str) -> None:
        """Delete the Node object of a lost machine; its pods are removed after a quarantine."""
        await self._port.delete(kinds.NODE, node)
        self._spawn(node, self._collect(node))

    def _spawn(self, node: str, work: Any) -> None:
        """One course of events per node at a time: the newest counts."""
        assert self._group is not None
        before = self._silences.pop(node, None)
        if before is not None:
            before.cancel()
        self._silences[node] = self._group.create_task(work, name=f"{self._cluster}/{node}/lifecycle")

    async def _silence(self, kubelet: Kubelet) -> None:
        await self._clock.sleep(self._monitor_grace)
        await self._patch_status(kubelet, ready="Unknown")
        taints = [{"key": UNREACHABLE, "effect": effect} for effect in ("NoSchedule", "NoExecute")]
        await self._set_taints(kubelet, taints)
        await self._cleaner.taint_manager(kubelet.name, taint=UNREACHABLE)

    async def _return(self, kubelet: Kubelet) -> None:
        await self._clock.sleep(self._chance.uniform(0.1, 1.0))
        await self._patch_status(kubelet, ready="True")
        await self._set_taints(kubelet, [])
        assert self._group is not None
        kubelet.reconnect(group=self._group)

    async def _reboot(self, kubelet: Kubelet) -> None:
        await self._clock.sleep(REBOOT)
        kubelet.boot_id = self._ids.uuid()
        kubelet.powered.set()
        await self._return(kubelet)

    async def _collect(self, node: str) -> None:
        await self._clock.sleep(ORPHAN_QUARANTINE)
        await self._cleaner.collect(node)
