"""The one writer of bindings and PodGroup status."""

from __future__ import annotations

import enum

import msgspec

from apis import kinds
from machinery import errors
from machinery.port import PatchType, Port
from member_agent.scheduling.planner import Binding
from member_agent.views import GroupStatus, GroupView


class Bound(enum.Enum):
    """What became of a binding; an unknown outcome is raised, to be tried again."""

    DONE = "done"
    REFUSED = "refused"


class SchedulingApplier:
    """Writes through one port."""

    def __init__(self, port: Port) -> None:
        self._port = port

    async def bind(self, binding: Binding) -> tuple[Bound, str]:
        """Give the pod its node. Raises when nobody knows whether it happened; the same binding is then tried again."""
        pod = binding.pod
        try:
            await self._port.bind(pod.name, namespace=pod.namespace, node=binding.node, uid=pod.uid)
        except errors.ApiError as error:
            if error.outcome_unknown or isinstance(error, errors.Throttled):
                raise
            return Bound.REFUSED, error.message
        return Bound.DONE, ""

    async def write_status(self, group: GroupView, status: GroupStatus) -> bool:
        """Write the status against the version it was made from; False when the group has changed or gone."""
        # PodGroup has no status subresource upstream: status is part of the object (reference/volcano.md 2.1).
        body = [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": group.version},
            {"op": "add", "path": "/status", "value": msgspec.to_builtins(status)},
        ]
        try:
            await self._port.patch(kinds.POD_GROUP, group.name, body, type=PatchType.JSON, namespace=group.namespace)
        except (errors.Conflict, errors.NotFound):
            return False
        return True
