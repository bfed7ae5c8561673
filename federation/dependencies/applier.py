"""The one writer of Works that bring what Jobs refer to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from apis import keys, kinds
from federation.dependencies import documents
from federation.dependencies.documents import CompanionWork
from federation.dependencies.planner import Plan
from machinery import errors
from machinery.port import PatchType, Port, Preconditions
from policies.dependencies import Reference


class DependenciesApplier:
    """Reads objects by quorum, writes their Works against the versions that were decided on. Conflicts are raised."""

    def __init__(self, port: Port) -> None:
        self._port = port

    async def source(self, reference: Reference) -> documents.Tree | None:
        """The object, or None when there certainly is none, or none that travels."""
        kind = documents.kind_of(reference)
        tree = await self.read(kind, reference.name, namespace=reference.namespace or None)
        if tree is None or tree["metadata"].get("deletionTimestamp") or not documents.travels(tree):
            return None
        return {**tree, "apiVersion": kind.api_version, "kind": kind.kind}

    async def read(self, kind: kinds.Kind, name: str, *, namespace: str | None) -> documents.Tree | None:
        """Any object."""
        try:
            tree: documents.Tree = msgspec.json.decode(await self._port.get(kind, name, namespace=namespace))
        except errors.NotFound:
            return None
        return tree

    async def commit(self, plan: Plan, *, reference: Reference) -> None:
        """Everything of a plan; what is done already is done."""
        for cluster in plan.create:
            assert plan.spec is not None
            await self._create(documents.work(reference, cluster=cluster, spec=plan.spec))
        for work in plan.update:
            assert plan.spec is not None
            await self._update(work, spec=plan.spec)
        for work in plan.delete:
            await self._delete(work)
        for work in plan.forsaken:
            await self._forsake(work)

    async def _create(self, body: documents.Tree) -> None:
        """A cluster whose namespace is not there yet or no more is no trouble of the others."""
        try:
            await self._port.create(kinds.WORK, body, namespace=body["metadata"]["namespace"])
        except (errors.AlreadyExists, errors.NotFound):
            return

    async def _update(self, work: CompanionWork, *, spec: Mapping[str, Any]) -> None:
        preserved = spec.get("preserveResourcesOnDeletion")
        body = {
            "metadata": {"resourceVersion": work.version, "annotations": {keys.SOURCE_DIGEST: documents.digest(spec)}},
            "spec": {**spec, "preserveResourcesOnDeletion": preserved},
        }
        try:
            await self._port.patch(kinds.WORK, work.name, body, type=PatchType.MERGE, namespace=work.namespace)
        except errors.NotFound:
            return

    async def _delete(self, work: CompanionWork) -> None:
        try:
            await self._port.delete(kinds.WORK, work.name, namespace=work.namespace, preconditions=Preconditions(uid=work.uid))
        except errors.NotFound:
            return

    async def _forsake(self, work: CompanionWork) -> None:
        """No run is at stake: nobody waits for a word of a cluster that has left."""
        body = {"metadata": {"resourceVersion": work.version, "finalizers": None}}
        try:
            await self._port.patch(kinds.WORK, work.name, body, type=PatchType.MERGE, namespace=work.namespace)
        except errors.NotFound:
            return
