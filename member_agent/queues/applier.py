"""The one writer of local Queues: steps in their order, each at the version that the step before left."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import msgspec

from apis import kinds
from apis.vectors import ResourceVector
from machinery.errors import AlreadyExists, Conflict, NotFound
from machinery.port import Document, PatchType, Port, Preconditions
from member_agent.queues import planner
from member_agent.queues.planner import Hang, Mark, State, Step
from member_agent.views import CLOSED_BY_PARENT, GroupCounts, Meta, QueueView
from policies.members import CommandView

MANAGER = "queue-controller"
"""Field manager of states, the name that upstream's controller writes them under."""


class _Written(msgspec.Struct):
    metadata: Meta


class QueueApplier:
    """Writes what planner and accounts ask for."""

    def __init__(self, port: Port) -> None:
        self._port = port

    async def commit(self, name: str, steps: tuple[Step, ...], *, version: str) -> str | None:
        """Write the steps from `version` on; the version after them, or None where somebody else wrote meanwhile: what is
        newer is looked at when it arrives."""
        for step in steps:
            try:
                document = await self._write(name, step, version=version)
            except (Conflict, NotFound):
                return None
            version = msgspec.json.decode(document, type=_Written).metadata.resource_version
        return version

    async def _write(self, name: str, step: Step, *, version: str) -> Document:
        meta: dict[str, Any] = {"resourceVersion": version}
        match step:
            case State(state):
                return await self._state(name, state.value, version=version)
            case Mark(marked):
                notes = {CLOSED_BY_PARENT: "true" if marked else None}
                return await self._merge(name, {"metadata": {**meta, "annotations": notes}})
            case Hang(parent):
                return await self._merge(name, {"metadata": meta, "spec": {"parent": parent}})

    async def _state(self, name: str, state: str, *, version: str) -> Document:
        body = {
            "apiVersion": kinds.QUEUE.api_version,
            "kind": kinds.QUEUE.kind,
            "metadata": {"name": name, "resourceVersion": version},
            "status": {"state": state},
        }
        return await self._port.patch(
            kinds.QUEUE, name, body, type=PatchType.APPLY, subresource="status", field_manager=MANAGER, force=True
        )

    async def _merge(self, name: str, body: Mapping[str, Any], *, subresource: str | None = None) -> Document:
        return await self._port.patch(kinds.QUEUE, name, body, type=PatchType.MERGE, subresource=subresource)

    async def account(self, queue: QueueView, *, allocated: ResourceVector, counts: GroupCounts) -> None:
        """What is in a queue, at whatever version it has: nobody else writes these fields, and whoever writes late is put
        right by the look that follows every change."""
        gone = dict.fromkeys(queue.allocated)  # a merge patch drops what it names with null
        status = {"allocated": {**gone, **allocated.to_quantities()}, **msgspec.to_builtins(counts)}
        with contextlib.suppress(NotFound):
            await self._merge(queue.name, {"status": status}, subresource="status")

    async def make(self, name: str) -> None:
        """One of the two built-in queues."""
        with contextlib.suppress(AlreadyExists):
            await self._port.create(kinds.QUEUE, planner.body(name))

    async def exists(self, name: str) -> bool:
        """By a quorum read: a store that lags proves nothing."""
        try:
            await self._port.get(kinds.QUEUE, name)
        except NotFound:
            return False
        return True

    async def delete(self, command: CommandView) -> bool:
        """False for a Command that somebody else has deleted. A Conflict is raised, to be tried again: where the name is
        another Command's by now the watch says so, and nobody asks any more."""
        try:
            await self._port.delete(
                kinds.COMMAND, command.name, namespace=command.namespace, preconditions=Preconditions(uid=command.uid)
            )
        except NotFound:
            return False
        return True
