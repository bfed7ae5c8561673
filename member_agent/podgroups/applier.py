"""The one writer of groups of pods that come without one, and of the annotation by which a pod names its group."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import orjson

from apis import keys, kinds
from machinery import errors
from machinery.port import PatchType, Port, Preconditions
from member_agent.podgroups.sketch import difference
from member_agent.views import GroupView, PodView

Manifest = dict[str, Any]


class PodGroupApplier:
    """Writes through one port, so many pods at once. What has changed hands or gone meanwhile is left alone: its event brings
    the family back."""

    def __init__(self, port: Port, *, at_once: int) -> None:
        self._port = port
        self._limit = asyncio.Semaphore(at_once)

    async def pod(self, pod: PodView) -> Manifest | None:
        """The pod as it is now, None when it is another one or gone."""
        try:
            document: Manifest = orjson.loads(await self._port.get(kinds.POD, pod.name, namespace=pod.namespace))
        except errors.NotFound:
            return None
        return document if document["metadata"]["uid"] == pod.uid else None

    async def create(self, manifest: Manifest) -> None:
        """Make a group; one that is there already is as good: its name holds the UID of the owner."""
        try:
            await self._port.create(kinds.POD_GROUP, manifest, namespace=manifest["metadata"]["namespace"])
        except errors.AlreadyExists:
            return

    async def compare(self, wanted: Manifest) -> None:
        """Make a group that is there what it should be; nothing is written when it is."""
        meta = wanted["metadata"]
        try:
            present = orjson.loads(await self._port.get(kinds.POD_GROUP, meta["name"], namespace=meta["namespace"]))
            patch = difference(present, wanted)
            if patch is not None:
                await self._port.patch(kinds.POD_GROUP, meta["name"], patch, type=PatchType.MERGE, namespace=meta["namespace"])
        except (errors.NotFound, errors.Conflict):
            return

    async def delete(self, group: GroupView) -> None:
        """Remove a group that nothing belongs to any more."""
        try:
            await self._port.delete(
                kinds.POD_GROUP, group.name, namespace=group.namespace, preconditions=Preconditions(uid=group.uid)
            )
        except (errors.NotFound, errors.Conflict):
            return

    async def name(self, pods: Sequence[PodView], group: str) -> list[errors.ApiError]:
        """Tell pods their group; the errors of those that could not be told."""
        outcomes = await asyncio.gather(*(self._name(pod, group) for pod in pods))
        return [outcome for outcome in outcomes if outcome is not None]

    async def _name(self, pod: PodView, group: str) -> errors.ApiError | None:
        body = {"metadata": {"uid": pod.uid, "annotations": {keys.GROUP_NAME: group}}}
        async with self._limit:
            try:
                await self._port.patch(kinds.POD, pod.name, body, type=PatchType.MERGE, namespace=pod.namespace)
            except (errors.NotFound, errors.Conflict):
                return None
            except errors.ApiError as error:
                return error
        return None
