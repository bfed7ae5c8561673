"""The one writer of Jobs' status, PodGroups' spec and Jobs' pods in a member."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import orjson

from apis import kinds, naming
from machinery import errors
from machinery.port import PatchType, Port, Preconditions
from member_agent.jobs import children
from member_agent.jobs.orders import PodOrder
from member_agent.views import JobStatus, JobView, PodView

CACHED = 64
"""Manifests of Jobs kept while their pods are made; the oldest is dropped first."""


class JobApplier:
    """Writes through one port; reads a Job's manifest only while something is made from it."""

    def __init__(self, port: Port, *, scheduler: str, at_once: int) -> None:
        self._port = port
        self._scheduler = scheduler
        self._at_once = at_once
        self._manifests: dict[tuple[str, int], dict[str, Any]] = {}

    async def manifest(self, job: JobView) -> dict[str, Any] | None:
        """The Job as served; None when it has changed hands, changed or gone meanwhile."""
        key = (job.uid, job.generation)
        if key not in self._manifests:
            try:
                document = orjson.loads(await self._port.get(kinds.JOB, job.name, namespace=job.namespace))
            except errors.NotFound:
                return None
            metadata = document["metadata"]
            if metadata["uid"] != job.uid or metadata.get("deletionTimestamp"):
                return None
            if metadata.get("generation", 0) != job.generation:
                return None
            if len(self._manifests) >= CACHED:
                del self._manifests[next(iter(self._manifests))]
            self._manifests[key] = document
        return self._manifests[key]

    def drop(self, job: JobView) -> None:
        """Everything is made: the manifest is not needed any more."""
        self._manifests.pop((job.uid, job.generation), None)

    async def create_group(self, job: JobView, manifest: dict[str, Any]) -> None:
        """Make the PodGroup; one that is there already is right."""
        try:
            await self._port.create(kinds.POD_GROUP, children.pod_group(job, manifest), namespace=job.namespace)
        except errors.AlreadyExists:
            return

    async def update_group(self, job: JobView, manifest: dict[str, Any]) -> None:
        """Bring the PodGroup's spec in line with a changed Job."""
        name = naming.pod_group_name(job.name, uid=job.uid)
        body = {"spec": children.pod_group_spec(job, manifest)}
        await self._port.patch(kinds.POD_GROUP, name, body, type=PatchType.MERGE, namespace=job.namespace)

    async def create_pods(
        self, job: JobView, manifest: dict[str, Any], orders: Sequence[PodOrder]
    ) -> tuple[list[str], list[errors.ApiError]]:
        """Make pods in parallel; names of those that are there now, and what went wrong with the others."""
        gate = asyncio.Semaphore(self._at_once)

        async def one(order: PodOrder) -> errors.ApiError | None:
            async with gate:
                return await self._create(job, manifest, order)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(order)) for order in orders]
        failed = [error for task in tasks if (error := task.result()) is not None]
        made = [order.name for order, task in zip(orders, tasks, strict=True) if task.result() is None]
        return made, failed

    async def _create(self, job: JobView, manifest: dict[str, Any], order: PodOrder) -> errors.ApiError | None:
        body = children.pod(job, manifest, order, scheduler=self._scheduler)
        try:
            await self._port.create(kinds.POD, body, namespace=job.namespace)
        except errors.AlreadyExists as error:
            return await self._foreign(job, order, error)
        except errors.ApiError as error:
            return error
        return None

    async def _foreign(self, job: JobView, order: PodOrder, error: errors.ApiError) -> errors.ApiError | None:
        """A pod of that name is there: made by an earlier try, or somebody else's."""
        try:
            found = orjson.loads(await self._port.get(kinds.POD, order.name, namespace=job.namespace))
        except errors.ApiError as unread:
            return unread
        owners = found["metadata"].get("ownerReferences") or []
        return None if any(each.get("uid") == job.uid for each in owners) else error

    async def delete_pods(self, pods: Sequence[PodView]) -> None:
        """Ask for pods to end, with their own grace."""
        for pod in pods:
            try:
                await self._port.delete(kinds.POD, pod.name, namespace=pod.namespace, preconditions=Preconditions(uid=pod.uid))
            except (errors.NotFound, errors.Conflict):
                continue

    async def write_status(self, job: JobView, status: JobStatus) -> bool:
        """Write the status against the version it was made from; False when the Job has changed or gone."""
        body = [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": job.version},
            {"op": "add", "path": "/status", "value": msgspec.to_builtins(status)},
        ]
        try:
            await self._port.patch(
                kinds.JOB, job.name, body, type=PatchType.JSON, namespace=job.namespace, subresource="status"
            )
        except (errors.Conflict, errors.NotFound):
            return False
        return True
