"""The one writer of Jobs' status, PodGroups' spec, Jobs' pods and the objects of their plugins in a member."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import orjson

from apis import keys, kinds
from apis.kinds import Kind
from machinery import errors
from machinery.port import PatchType, Port, Preconditions
from member_agent.jobs import children, groups
from member_agent.jobs.children import Child, KeyMaker, Moulds
from member_agent.jobs.orders import PodOrder
from member_agent.jobs.plugins import Registry
from member_agent.views import GroupView, JobStatus, JobView, PodView
from policies.members import CommandView

CACHED = 64
"""Manifests of Jobs kept while their pods are made; the oldest is dropped first."""

Manifest = Mapping[str, Any]


class NameTaken(errors.AlreadyExists):
    """Something that goes, or that is another's, has the name that an object of a Job must have."""

    def __init__(self, kind: Kind, name: str, *, owner: str, going: bool) -> None:
        why = "is still being deleted" if going else f"is there already and belongs to {owner or 'nobody'}, not to this Job"
        super().__init__(f"{kind.kind} {name} {why}")


@dataclass(frozen=True, slots=True)
class _Cached:
    manifest: dict[str, Any]
    moulds: dict[tuple[int, str], Moulds]
    """By version of the Job and name of its PodGroup."""


class JobApplier:
    """Writes through one port; reads a Job's manifest only while something is made from it."""

    def __init__(self, port: Port, *, scheduler: str, at_once: int, keys: KeyMaker, registry: Registry) -> None:
        self._port = port
        self._scheduler = scheduler
        self._at_once = at_once
        self._keys = keys
        self._registry = registry
        self._cached: dict[tuple[str, int], _Cached] = {}

    # --- the manifest ------------------------------------------------------------------------------------------------

    async def manifest(self, job: JobView) -> Manifest | None:
        """The Job as served; None when it has changed hands, changed or gone meanwhile."""
        key = (job.uid, job.generation)
        if key not in self._cached:
            try:
                document = orjson.loads(await self._port.get(kinds.JOB, job.name, namespace=job.namespace))
            except errors.NotFound:
                return None
            metadata = document["metadata"]
            if metadata["uid"] != job.uid or metadata.get("deletionTimestamp"):
                return None
            if metadata.get("generation", 0) != job.generation:
                return None
            if len(self._cached) >= CACHED:
                del self._cached[next(iter(self._cached))]
            self._cached[key] = _Cached(document, {})
        return self._cached[key].manifest

    def drop(self, job: JobView) -> None:
        """Everything is made: the manifest is not needed any more."""
        self._cached.pop((job.uid, job.generation), None)

    def _moulds(self, job: JobView, manifest: Manifest, *, group: str) -> Moulds:
        """Of the pods of the present version in this PodGroup. Raises BadArgument."""
        cached, key = self._cached.get((job.uid, job.generation)), (job.status.version, group)
        known = cached.moulds.get(key) if cached is not None else None
        if known is None:
            known = Moulds(job, manifest, scheduler=self._scheduler, registry=self._registry, group=group)
            if cached is not None:
                cached.moulds.clear()
                cached.moulds[key] = known
        return known

    async def mark_forwarded(self, job: JobView) -> None:
        """The Job's queue has `extendClusters`. One that has changed meanwhile is looked at again."""
        self.drop(job)  # the mark is in the manifest and changes no generation
        body = {"metadata": {"resourceVersion": job.version, "annotations": {keys.JOB_FORWARDING: "true"}}}
        with contextlib.suppress(errors.Conflict, errors.NotFound):
            await self._port.patch(kinds.JOB, job.name, body, type=PatchType.MERGE, namespace=job.namespace)

    # --- PodGroup ----------------------------------------------------------------------------------------------------

    async def create_group(self, job: JobView, manifest: Manifest, *, priorities: Mapping[str, int]) -> None:
        """Make the PodGroup; one that is there already is right, or is seen and replaced when it is of an older version."""
        body = groups.pod_group(job, manifest, priorities=priorities, version=job.status.version)
        try:
            await self._port.create(kinds.POD_GROUP, body, namespace=job.namespace)
        except errors.AlreadyExists:
            return

    async def update_group(self, job: JobView, manifest: Manifest, group: GroupView, *, priorities: Mapping[str, int]) -> None:
        """Bring the PodGroup's spec in line with a changed Job."""
        body = groups.pod_group_patch(job, manifest, group, priorities=priorities)
        try:
            await self._port.patch(kinds.POD_GROUP, group.name, body, type=PatchType.MERGE, namespace=job.namespace)
        except errors.NotFound:
            return

    async def delete_group(self, job: JobView, group: GroupView) -> None:
        """Remove the PodGroup of a Job that ended or starts anew."""
        await self._delete(kinds.POD_GROUP, group.name, namespace=job.namespace, uid=group.uid)

    # --- claims and objects of plugins -------------------------------------------------------------------------------

    async def ensure(self, job: JobView, manifest: Manifest) -> dict[str, str]:
        """All objects beside group and pods are there; what `controlledResources` then says. Raises BadArgument, NameTaken."""
        for child in children.objects(job, manifest, keys=self._keys, registry=self._registry):
            await self._ensure(job, child)
        if job.rules.made:
            await self._name_claims(job, manifest)
        return children.controlled(job, manifest, registry=self._registry)

    async def _ensure(self, job: JobView, child: Child) -> None:
        found = await self._found(job, child)
        if found is None:
            try:
                await self._port.create(child.kind, child.manifest, namespace=job.namespace)
            except errors.AlreadyExists:
                found = await self._found(job, child)
        if found is None:
            return
        owner = _controller(found)
        going = bool(found["metadata"].get("deletionTimestamp"))
        if owner.get("uid") != job.uid or going:
            of = " ".join(filter(None, (owner.get("kind"), owner.get("name"))))
            raise NameTaken(child.kind, child.name, owner=of, going=going)
        if child.follows:
            wanted = {name: value for name, value in child.manifest.items() if name not in ("apiVersion", "kind", "metadata")}
            if any(found.get(name) != value for name, value in wanted.items()):
                await self._follow(job, child, found=found, wanted=wanted)

    async def _follow(self, job: JobView, child: Child, *, found: Manifest, wanted: Manifest) -> None:
        """Content that follows scaling; keys that are too many are taken away."""
        body: dict[str, Any] = {}
        for name, value in wanted.items():
            there = found.get(name)
            extra = (
                {key: None for key in there if key not in value} if isinstance(there, dict) and isinstance(value, dict) else {}
            )
            body[name] = {**extra, **value} if isinstance(value, dict) else value
        await self._port.patch(child.kind, child.name, body, type=PatchType.MERGE, namespace=job.namespace)

    async def _found(self, job: JobView, child: Child) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = orjson.loads(await self._port.get(child.kind, child.name, namespace=job.namespace))
        except errors.NotFound:
            return None
        return found

    async def _name_claims(self, job: JobView, manifest: Manifest) -> None:
        """Write the names of made claims into the spec, as upstream does; a Job that changed meanwhile is looked at again."""
        names = children.volume_names(job, manifest)
        body: list[dict[str, Any]] = [
            {"op": "add", "path": f"/spec/volumes/{index}/volumeClaimName", "value": names[index]}
            for index in job.rules.made
            if (manifest["spec"]["volumes"][index].get("volumeClaimName") or "") != names[index]
        ]
        if not body:
            return
        version = {"op": "replace", "path": "/metadata/resourceVersion", "value": manifest["metadata"]["resourceVersion"]}
        try:
            await self._port.patch(kinds.JOB, job.name, [version, *body], type=PatchType.JSON, namespace=job.namespace)
        except errors.Conflict:
            self.drop(job)
            raise

    async def release_group(self, group: GroupView) -> None:
        """Take the wish for a hold away, against the version on which the hold was not given up. Raises Conflict."""
        body = [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": group.version},
            {"op": "remove", "path": f"/metadata/annotations/{keys.HOLD_WANTED.replace('/', '~1')}"},
        ]
        await self._port.patch(kinds.POD_GROUP, group.name, body, type=PatchType.JSON, namespace=group.namespace)

    async def remove_objects(self, job: JobView, manifest: Manifest) -> None:
        """Take away the objects of plugins; claims stay, and so does what belongs to somebody else. Raises BadArgument."""
        for child in children.objects(job, manifest, keys=self._keys, registry=self._registry):
            found = await self._found(job, child) if child.plugin else None
            if found is not None and _controller(found).get("uid") == job.uid:
                await self._delete(child.kind, child.name, namespace=job.namespace, uid=found["metadata"]["uid"])

    # --- pods --------------------------------------------------------------------------------------------------------

    async def create_pods(
        self, job: JobView, manifest: Manifest, orders: Sequence[PodOrder], *, group: str
    ) -> tuple[list[str], list[errors.ApiError]]:
        """Make pods of this PodGroup in parallel; names of those that are there now, and what went wrong with the others.

        Raises BadArgument."""
        moulds, gate = self._moulds(job, manifest, group=group), asyncio.Semaphore(self._at_once)
        bodies = [moulds.pod(order) for order in orders]

        async def one(order: PodOrder, body: Manifest) -> errors.ApiError | None:
            async with gate:
                return await self._create(job, order, body)

        async with asyncio.TaskGroup() as together:
            tasks = [together.create_task(one(order, body)) for order, body in zip(orders, bodies, strict=True)]
        failed = [error for task in tasks if (error := task.result()) is not None]
        made = [order.name for order, task in zip(orders, tasks, strict=True) if task.result() is None]
        return made, failed

    async def _create(self, job: JobView, order: PodOrder, body: Manifest) -> errors.ApiError | None:
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
        return None if _controller(found).get("uid") == job.uid else error

    async def delete_pods(self, pods: Iterable[PodView]) -> list[tuple[PodView, errors.ApiError]]:
        """Ask for pods to end, with their own grace; those that may not be asked, and why."""
        gate = asyncio.Semaphore(self._at_once)

        async def one(pod: PodView) -> tuple[PodView, errors.ApiError] | None:
            async with gate:
                try:
                    await self._delete(kinds.POD, pod.name, namespace=pod.namespace, uid=pod.uid)
                except errors.ApiError as error:
                    return pod, error
            return None

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(pod)) for pod in pods]
        return [refused for task in tasks if (refused := task.result()) is not None]

    # --- status and Commands -----------------------------------------------------------------------------------------

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

    async def uid_of(self, namespace: str, name: str) -> str | None:
        """UID of the Job of this name, by quorum; None when there is none."""
        try:
            found = orjson.loads(await self._port.get(kinds.JOB, name, namespace=namespace))
        except errors.NotFound:
            return None
        return str(found["metadata"]["uid"])

    async def dismiss(self, command: CommandView) -> None:
        """Delete a Command that was carried out or refused."""
        await self._delete(kinds.COMMAND, command.name, namespace=command.namespace, uid=command.uid)

    async def _delete(self, kind: Kind, name: str, *, namespace: str, uid: str) -> None:
        try:
            await self._port.delete(kind, name, namespace=namespace, preconditions=Preconditions(uid=uid))
        except (errors.NotFound, errors.Conflict):
            return


def _controller(document: Manifest) -> dict[str, Any]:
    owners: list[dict[str, Any]] = document["metadata"].get("ownerReferences") or []
    return next((each for each in owners if each.get("controller")), {})
