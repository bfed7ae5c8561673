"""Volumes: claims that bind at once, and what a pod mounts.

The binder plays the provisioner and the claim protection of kube-controller-manager: a claim is Bound as soon as it is seen,
unless its storage class is named `missing`, or waits for the first consumer: then it is bound when a volume names it, or when
it names a node and its class makes volumes. One that is deleted stays until no pod that has not finished uses it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing
from typing import Any

import orjson

from apis import kinds
from apis.kinds import Kind
from machinery import errors
from machinery.clock import Clock
from machinery.port import EventType, PatchType, Port

Doc = Mapping[str, Any]

PROTECTION = "kubernetes.io/pvc-protection"
"""Finalizer of every claim: it goes only when no pod uses it any more."""
NO_CLASS = "missing"
"""A storage class that nobody provisions for."""
SELECTED_NODE = "volume.kubernetes.io/selected-node"
"""Annotation of a claim: where its first consumer goes."""
AGAIN = 1.0
"""Seconds until a watch that broke, or a claim that is still in use, is looked at again."""
_FINISHED = frozenset({"Succeeded", "Failed"})


# --- what a pod mounts ---------------------------------------------------------------------------------------------------


def claims_of(pod: Doc) -> frozenset[str]:
    """Names of the claims that a pod mounts."""
    found = (volume.get("persistentVolumeClaim") for volume in pod["spec"].get("volumes") or ())
    return frozenset(source["claimName"] for source in found if source)


async def missing_of(port: Port, *, pod: Doc) -> list[str]:
    """What the pod mounts or reads and cannot have yet, as `<plural>/<name>`: claims that are not bound, ConfigMaps and Secrets
    that are not there."""
    missing = []
    for kind, name in dict.fromkeys((*_mounted(pod["spec"]), *_read(pod["spec"]))):
        try:
            found = orjson.loads(await port.get(kind, name, namespace=pod["metadata"]["namespace"]))
        except errors.NotFound:
            found = None
        if found is None or (kind == kinds.CLAIM and (found.get("status") or {}).get("phase") != "Bound"):
            missing.append(f"{kind.plural}/{name}")
    return missing


def _mounted(spec: Doc) -> Iterator[tuple[Kind, str]]:
    for volume in spec.get("volumes") or ():
        if claim := volume.get("persistentVolumeClaim"):
            yield kinds.CLAIM, claim["claimName"]
        for source in (volume, *((volume.get("projected") or {}).get("sources") or ())):
            yield from _named(source.get("configMap"), source.get("secret"))


def _read(spec: Doc) -> Iterator[tuple[Kind, str]]:
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        for source in container.get("envFrom") or ():
            yield from _named(source.get("configMapRef"), source.get("secretRef"))
        for variable in container.get("env") or ():
            source = variable.get("valueFrom") or {}
            yield from _named(source.get("configMapKeyRef"), source.get("secretKeyRef"))


def _named(config_map: Doc | None, secret: Doc | None) -> Iterator[tuple[Kind, str]]:
    for kind, source in ((kinds.CONFIGMAP, config_map or {}), (kinds.SECRET, secret or {})):
        name = source.get("name") or source.get("secretName")
        if name and not source.get("optional"):
            yield kind, name


# --- the binder ----------------------------------------------------------------------------------------------------------


class ClaimBinder:
    """Binds the claims of one cluster, and protects those that are in use."""

    def __init__(self, port: Port, *, clock: Clock) -> None:
        self._port = port
        self._clock = clock
        self._leaving: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow(kinds.VOLUME, self._see_volume), name="volumes")
            await self._follow(kinds.CLAIM, lambda claim: self._see(claim, group))

    async def _follow(self, kind: Kind, see: Callable[[Doc], Awaitable[None]]) -> None:
        while True:
            watch: Any = self._port.watch(kind, send_initial=True)
            try:
                async with aclosing(watch):
                    async for event in watch:
                        if event.type in (EventType.ADDED, EventType.MODIFIED):
                            await see(orjson.loads(event.document))
            except errors.ApiError:
                await self._clock.sleep(AGAIN)

    async def _see_volume(self, volume: Doc) -> None:
        """A volume that names a claim which has none yet goes to it."""
        name, reference = volume["metadata"]["name"], volume["spec"].get("claimRef")
        phase = "Bound" if reference else "Available"
        if (volume.get("status") or {}).get("phase") != phase:
            await self._patch_volume(name, {"status": {"phase": phase}})
        if not reference:
            return
        try:
            claim = orjson.loads(await self._port.get(kinds.CLAIM, reference["name"], namespace=reference["namespace"]))
        except errors.NotFound:
            return
        if not claim["spec"].get("volumeName") and claim["metadata"]["uid"] == reference.get("uid", claim["metadata"]["uid"]):
            await self._give(claim, name)

    async def _see(self, claim: Doc, group: asyncio.TaskGroup) -> None:
        metadata = claim["metadata"]
        key = (metadata["namespace"], metadata["name"])
        if metadata.get("deletionTimestamp"):
            if PROTECTION in (metadata.get("finalizers") or ()) and key not in self._leaving:
                self._leaving[key] = group.create_task(self._let_go(*key), name=f"claim {key[0]}/{key[1]}")
            return
        finalizers = metadata.get("finalizers") or []
        if PROTECTION not in finalizers:
            await self._patch(*key, {"metadata": {"uid": metadata["uid"], "finalizers": [*finalizers, PROTECTION]}})
        if claim["spec"].get("volumeName"):
            await self._give(claim, claim["spec"]["volumeName"])
        elif await self._waits(claim):
            await self._status(*key, claim, {"phase": "Pending"})
        else:
            await self._make(claim)

    async def _waits(self, claim: Doc) -> bool:
        """Whether nobody makes a volume for it, or not yet."""
        name = claim["spec"].get("storageClassName")
        if not name or name == NO_CLASS:
            return bool(name)
        try:
            found = orjson.loads(await self._port.get(kinds.STORAGE_CLASS, name))
        except errors.NotFound:
            return False
        chosen = SELECTED_NODE in (claim["metadata"].get("annotations") or {})
        return found.get("volumeBindingMode") == "WaitForFirstConsumer" and (
            not chosen or found.get("provisioner") == "kubernetes.io/no-provisioner"
        )

    async def _make(self, claim: Doc) -> None:
        """Make a volume; where the claim names a node, one that only this node reaches."""
        metadata, spec = claim["metadata"], claim["spec"]
        name, node = f"pvc-{metadata['uid']}", (metadata.get("annotations") or {}).get(SELECTED_NODE)
        term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
        body = {
            "metadata": {"name": name},
            "spec": {
                "capacity": (spec.get("resources") or {}).get("requests") or {},
                "accessModes": spec.get("accessModes") or [],
                "storageClassName": spec.get("storageClassName") or "",
                "claimRef": {"namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"]},
                **({"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}} if node else {}),
            },
            "status": {"phase": "Bound"},
        }
        with contextlib.suppress(errors.AlreadyExists):
            await self._port.create(kinds.VOLUME, body)
        await self._give(claim, name)

    async def _give(self, claim: Doc, volume: str) -> None:
        key = (claim["metadata"]["namespace"], claim["metadata"]["name"])
        if not claim["spec"].get("volumeName"):
            await self._patch(*key, {"spec": {"volumeName": volume}})
        capacity = ((claim["spec"].get("resources") or {}).get("requests")) or {}
        modes = claim["spec"].get("accessModes") or []
        await self._status(*key, claim, {"phase": "Bound", "capacity": capacity, "accessModes": modes})

    async def _patch_volume(self, name: str, patch: Doc) -> None:
        with contextlib.suppress(errors.NotFound, errors.Conflict):
            await self._port.patch(kinds.VOLUME, name, patch, type=PatchType.MERGE, subresource="status")

    async def _status(self, namespace: str, name: str, claim: Doc, status: dict[str, Any]) -> None:
        if (claim.get("status") or {}).get("phase") != status["phase"]:
            await self._patch(namespace, name, {"status": status}, subresource="status")

    async def _let_go(self, namespace: str, name: str) -> None:
        """Take the protection away once nobody uses the claim."""
        while await self._used(namespace, name):
            await self._clock.sleep(AGAIN)
        del self._leaving[(namespace, name)]
        try:
            claim = orjson.loads(await self._port.get(kinds.CLAIM, name, namespace=namespace))
        except errors.NotFound:
            return
        kept = [each for each in claim["metadata"].get("finalizers") or () if each != PROTECTION]
        if claim["metadata"].get("deletionTimestamp"):
            await self._patch(namespace, name, {"metadata": {"uid": claim["metadata"]["uid"], "finalizers": kept}})

    async def _used(self, namespace: str, name: str) -> bool:
        pods = map(orjson.loads, (await self._port.list(kinds.POD, namespace=namespace, limit=0)).items)
        return any(name in claims_of(pod) for pod in pods if (pod.get("status") or {}).get("phase") not in _FINISHED)

    async def _patch(self, namespace: str, name: str, patch: Doc, *, subresource: str | None = None) -> None:
        try:
            await self._port.patch(kinds.CLAIM, name, patch, type=PatchType.MERGE, namespace=namespace, subresource=subresource)
        except (errors.NotFound, errors.Conflict):
            return  # it is gone, or another one of that name: the watch tells
