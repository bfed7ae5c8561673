"""Members as objects at the hub, for benchmarks without member clusters: Cluster, Lease, ClusterCapacity, and Works that end.

One actor stands for all agents. It renews the Leases, publishes now and then how far it has read its Works, lets go of what is
deleted, and, where asked to, reports every Work as completed in one write, as an agent does with a Job that is over before
its report is due.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

import orjson

from apis import keys, kinds
from apis.capacity import CapacityStatus, NodeGroup, node_table, write_status
from apis.vectors import ResourceVector
from benchmarks.jobs import events, typed
from e2e.controlplane.api import MERGE, Api, ApiRefused
from policies.members import RENEWALS

RENEW, PUBLISH = 5.0, 2.0
"""Seconds between renewals of a Lease, and between two states of a capacity."""
NODES, CORES, MEMORY = 200, "64", "256Gi"
ENDS = 16
"""Works that are reported at the same time."""

Doc = dict[str, Any]


class Members:
    """So many members of equal size. `ends`: their Jobs complete as soon as they are there."""

    def __init__(self, api: Api, names: Sequence[str], *, ends: bool = False) -> None:
        self._api = api
        self._names = names
        self.ends = ends
        self._through = "0"
        self._turn = 0
        self._free = NODES
        self._gate = asyncio.Semaphore(ENDS)

    async def register(self) -> None:
        """Makes the Clusters, and returns once the hub calls all of them Ready."""
        for name in self._names:
            spec = {"id": f"uid-of-{name}", "syncMode": "Pull"}
            await self._api.post(kinds.CLUSTER.path(), {**typed(kinds.CLUSTER), "metadata": {"name": name}, "spec": spec})

    async def ready(self) -> None:
        """Returns once the hub calls all of them Ready and has taken their capacity."""
        while True:
            found = (await self._api.get(kinds.CLUSTER.path()))["items"]
            conditions = [each for item in found for each in (item.get("status") or {}).get("conditions") or []]
            if sum(each["type"] == "Ready" and each["status"] == "True" for each in conditions) >= len(self._names):
                return
            await asyncio.sleep(0.5)

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow(group))
            for name in self._names:
                group.create_task(self._keep(name))

    async def _keep(self, name: str) -> None:
        begun = asyncio.get_running_loop().time()
        turns = 0
        while True:
            with contextlib.suppress(ApiRefused):  # the hub makes Lease and capacity, and may be late
                if turns % round(RENEW / PUBLISH) == 0:
                    await self._renew(name, turns)
                await self._publish(name, turns + 1)
            turns += 1
            await asyncio.sleep(max(0.1, begun + turns * PUBLISH - asyncio.get_running_loop().time()))

    async def _renew(self, name: str, turn: int) -> None:
        path = kinds.LEASE.path(namespace=keys.execution_namespace(name), name=keys.MEMBER_LEASE)
        holder = {"spec": {"holderIdentity": f"uid-of-{name}/1"}, "metadata": {"annotations": {RENEWALS: str(turn + 1)}}}
        await self._api.merge(path, holder)

    async def _publish(self, name: str, generation: int) -> None:
        size = ResourceVector.from_quantities({"cpu": CORES, "memory": MEMORY, "pods": 1000})
        table, domains = node_table({NodeGroup((), (), size, "", size): self._free})
        through = self._through
        status = CapacityStatus(works_through=through, generation=generation, nodes=table, domains=domains)
        body = {"status": orjson.loads(write_status(status))}
        at = kinds.CLUSTER_CAPACITY.path(namespace=keys.execution_namespace(name), name=keys.MEMBER_LEASE, subresource="status")
        await self._api.raw("PATCH", at, body=body, content_type=MERGE)

    async def _follow(self, group: asyncio.TaskGroup) -> None:
        """Reads every Work, as the agents do together."""
        async for line in events(self._api, kinds.WORK):
            work = orjson.loads(line)["object"]
            self._through = work["metadata"]["resourceVersion"]
            if work["metadata"].get("deletionTimestamp") and work["metadata"].get("finalizers"):
                group.create_task(self._let_go(work["metadata"]))
            elif self.ends and line.startswith(b'{"type":"ADDED"') and keys.RUN in (work["metadata"].get("annotations") or {}):
                group.create_task(self._end(work))

    async def _let_go(self, meta: Doc) -> None:
        """Its pods are gone."""
        at = kinds.WORK.path(namespace=meta["namespace"], name=meta["name"])
        async with self._gate:
            with contextlib.suppress(ApiRefused):
                await self._api.merge(at, {"metadata": {"finalizers": None}})

    async def _end(self, work: Doc) -> None:
        meta, manifest = work["metadata"], work["spec"]["workload"]["manifests"][0]
        pods = sum(task["replicas"] for task in manifest["spec"]["tasks"])
        identifier = {"ordinal": 0, "group": kinds.JOB.group, "version": kinds.JOB.version, "kind": "Job", "resource": "jobs"}
        state = {"phase": "Completed", "lastTransitionTime": meta["creationTimestamp"]}
        job = {"state": state, "succeeded": pods, "minAvailable": pods, "runningDuration": "1s"}
        status = {
            "conditions": [{"type": "Applied", "status": "True", "reason": "AppliedSuccessful", "message": ""}],
            "manifestStatuses": [{"identifier": {**identifier, "name": manifest["metadata"]["name"]}, "status": job}],
        }
        at = kinds.WORK.path(namespace=meta["namespace"], name=meta["name"], subresource="status")
        async with self._gate:
            await self._api.raw("PATCH", at, body={"status": status}, content_type=MERGE)
