"""The one writer of bindings, Works and marks of objects."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import msgspec

from apis import keys, kinds
from apis.kinds import Kind
from federation.objects import documents
from federation.objects.planner import Plan
from federation.objects.snapshot import Snapshot
from federation.objects.views import ObjectWork, Tree
from machinery import errors
from machinery.port import PatchType, Port, Preconditions

log = logging.getLogger(__name__)


class ObjectsApplier:
    """Reads by quorum, writes against the versions that were decided on. Conflicts are raised: the caller looks again."""

    def __init__(self, port: Port) -> None:
        self._port = port

    async def read(self, kind: Kind, name: str, *, namespace: str) -> Tree | None:
        """Any object, None when there certainly is none."""
        try:
            tree: Tree = msgspec.json.decode(await self._port.get(kind, name, namespace=namespace or None))
        except errors.NotFound:
            return None
        return {**tree, "apiVersion": kind.api_version, "kind": kind.kind}

    async def commit(self, plan: Plan, *, snapshot: Snapshot) -> None:
        """Everything of a plan, the binding first: it alone decides."""
        where = documents.binding_kind(snapshot.kind)
        namespace = snapshot.reference.namespace or None
        if plan.create_binding is not None:
            await self._port.create(where, plan.create_binding, namespace=namespace)
        if plan.binding is not None:
            name = documents.binding_name(snapshot.reference, snapshot.kind)
            await self._port.patch(where, name, plan.binding, type=PatchType.MERGE, namespace=namespace)
        if plan.marks:
            await self._mark(snapshot, plan.marks)
        for body in plan.create:
            await self._create(body)
        for work, body in plan.update:
            await self._update(work, body)
        for work in plan.delete:
            await self._delete(work)
        if plan.release or plan.discard:
            await self._let_go(where, snapshot, release=plan.release)
        if plan.binding_status is not None:
            await self._status(where, snapshot.binding or {}, plan.binding_status)
        if plan.object_status is not None:
            await self._object_status(snapshot, plan.object_status)

    async def _mark(self, snapshot: Snapshot, marks: Mapping[str, Mapping[str, str | None]]) -> None:
        assert snapshot.source is not None
        body = {"metadata": {**marks, "resourceVersion": snapshot.source["metadata"]["resourceVersion"]}}
        reference = snapshot.reference
        await self._port.patch(snapshot.kind, reference.name, body, type=PatchType.MERGE, namespace=reference.namespace or None)

    async def _create(self, body: Tree) -> None:
        """A cluster whose namespace is not there yet or no more is no trouble of the others."""
        try:
            await self._port.create(kinds.WORK, body, namespace=body["metadata"]["namespace"])
        except (errors.AlreadyExists, errors.NotFound):
            return

    async def _update(self, work: ObjectWork, body: Tree) -> None:
        """The whole spec, and the annotations that speak of it."""
        notes = body["metadata"]["annotations"]
        named = (keys.SOURCE_DIGEST, keys.DEMAND, *(name for name in notes if name.startswith("policy.karmada.io/")))
        changed = {
            "metadata": {"resourceVersion": work.version, "annotations": {name: notes.get(name) for name in named}},
            "spec": {"suspendDispatching": None, "preserveResourcesOnDeletion": None, **body["spec"]},
        }
        try:
            await self._port.patch(kinds.WORK, work.name, changed, type=PatchType.MERGE, namespace=work.namespace)
        except errors.NotFound:
            return

    async def _delete(self, work: ObjectWork) -> None:
        try:
            await self._port.delete(kinds.WORK, work.name, namespace=work.namespace, preconditions=Preconditions(uid=work.uid))
        except errors.NotFound:
            return

    async def _let_go(self, where: Kind, snapshot: Snapshot, *, release: bool) -> None:
        """Take the finalizer away, or delete the binding."""
        assert snapshot.binding is not None
        meta = snapshot.binding["metadata"]
        name, namespace = meta["name"], meta.get("namespace")
        try:
            if release:
                left = [each for each in meta.get("finalizers") or [] if each != keys.BINDING_FINALIZER]
                body = {"metadata": {"resourceVersion": meta["resourceVersion"], "finalizers": left or None}}
                await self._port.patch(where, name, body, type=PatchType.MERGE, namespace=namespace)
            else:
                await self._port.delete(where, name, namespace=namespace, preconditions=Preconditions(uid=meta["uid"]))
        except errors.NotFound:
            return

    async def _status(self, where: Kind, binding: Mapping[str, Any], status: Tree) -> None:
        meta = binding["metadata"]
        body = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "status": status}
        try:
            await self._port.patch(
                where, meta["name"], body, type=PatchType.MERGE, namespace=meta.get("namespace"), subresource="status"
            )
        except errors.NotFound:
            return

    async def _object_status(self, snapshot: Snapshot, status: Tree) -> None:
        """Kinds without a status of their own, and API servers that refuse what a member's took, are left as they are."""
        reference = snapshot.reference
        try:
            await self._port.patch(
                snapshot.kind,
                reference.name,
                {"status": status},
                type=PatchType.MERGE,
                namespace=reference.namespace or None,
                subresource="status",
            )
        except (errors.NotFound, errors.Invalid) as error:
            log.info("status of %s %s/%s: %s", reference.kind, reference.namespace, reference.name, error)
