"""The one writer of bindings and PodGroup status; takes nodes back from gangs that stay partial, and opens gates."""

from __future__ import annotations

import contextlib
import enum
from typing import Any

import msgspec

from apis import keys, kinds
from machinery import errors
from machinery.port import PatchType, Port, Preconditions
from member_agent.scheduling.decisions import Binding, Eviction
from member_agent.scheduling.reasons import Reason
from member_agent.views import GroupStatus, GroupView, HoldRecord, PodView, encode_hold
from member_agent.views.volumes import BOUND_BY_CONTROLLER, SELECTED_NODE
from member_agent.volumes import Assignment

MANAGER = "volcano-federation"
"""Who owns what is applied."""
EVICTION_REFUSED = "EvictionRefused"
"""Of the condition DisruptionTarget of a pod that stays."""


class Bound(enum.Enum):
    """What became of a binding; an unknown outcome is raised, to be tried again."""

    DONE = "done"
    REFUSED = "refused"


def _claimed(assignment: Assignment) -> dict[str, Any]:
    """The volume with its claim, as the controller of volumes would write it, against the version that was free."""
    claim = assignment.claim
    reference = {"kind": kinds.CLAIM.kind, "namespace": claim.namespace, "name": claim.name, "uid": claim.uid}
    meta = {"resourceVersion": assignment.version, "annotations": {BOUND_BY_CONTROLLER: "yes"}}
    return {"metadata": meta, "spec": {"claimRef": {"apiVersion": kinds.CLAIM.api_version, **reference}}}


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

    async def promise(self, assignment: Assignment, *, node: str) -> tuple[Bound, str]:
        """Write a volume's claim on it, or on the claim the node for which a volume is to be made. Raises as `bind`."""
        claim = assignment.claim
        try:
            if assignment.volume:
                await self._port.patch(kinds.VOLUME, assignment.volume, _claimed(assignment), type=PatchType.MERGE)
            else:
                body = {"metadata": {"uid": claim.uid, "annotations": {SELECTED_NODE: node}}}
                await self._port.patch(kinds.CLAIM, claim.name, body, type=PatchType.MERGE, namespace=claim.namespace)
        except errors.ApiError as error:
            if error.outcome_unknown or isinstance(error, errors.Throttled):
                raise
            return Bound.REFUSED, f"claim {claim.name}: {error.message}"
        return Bound.DONE, ""

    async def release(self, pod: PodView) -> None:
        """Delete a pod, so that its Job makes it anew without a node; one that has changed hands or gone is left alone."""
        try:
            await self._port.delete(kinds.POD, pod.name, namespace=pod.namespace, preconditions=Preconditions(uid=pod.uid))
        except (errors.NotFound, errors.Conflict):
            return

    async def evict(self, eviction: Eviction, *, now: str) -> tuple[Bound, str]:
        """Tell the pod why it goes, then delete it; one that has changed hands or gone is gone, one that must not be deleted is
        told that it stays. Raises when nobody knows whether it happened; the same eviction is then tried again."""
        pod, reason, told = eviction.pod, eviction.reason, False
        try:
            await self._disrupt(pod, reason, goes=True, now=now)
            told = True
            await self._port.delete(kinds.POD, pod.name, namespace=pod.namespace, preconditions=Preconditions(uid=pod.uid))
        except (errors.NotFound, errors.Conflict):
            return Bound.DONE, ""
        except errors.ApiError as error:
            if error.outcome_unknown or isinstance(error, errors.Throttled):
                raise
            if told:
                with contextlib.suppress(errors.NotFound, errors.Conflict):
                    await self._disrupt(pod, Reason(EVICTION_REFUSED, error.message), goes=False, now=now)
            return Bound.REFUSED, error.message
        return Bound.DONE, ""

    async def _disrupt(self, pod: PodView, reason: Reason, *, goes: bool, now: str) -> None:
        """Say on a pod that it goes; or that it stays after all, and is as ready as it was."""
        said = {"lastTransitionTime": now, "reason": reason.code, "message": reason.sentence}
        ready = pod.ready and not goes
        conditions = [
            {"type": "DisruptionTarget", "status": "True" if goes else "False", **said},
            {"type": "Ready", "status": "True" if ready else "False", **said},
        ]
        # By apply conditions are merged by type: whatever the kubelet wrote beside them stays.
        named = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
        await self._port.patch(
            kinds.POD,
            pod.name,
            {"apiVersion": "v1", "kind": "Pod", "metadata": named, "status": {"conditions": conditions}},
            type=PatchType.APPLY,
            namespace=pod.namespace,
            subresource="status",
            field_manager=MANAGER,
            force=True,
        )

    async def nominate(self, pod: PodView, node: str) -> None:
        """Say on a pod which node is being cleared for it; "" takes it back."""
        body = {"metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": node or None}}
        try:
            await self._port.patch(
                kinds.POD, pod.name, body, type=PatchType.MERGE, namespace=pod.namespace, subresource="status"
            )
        except (errors.NotFound, errors.Conflict):
            return

    async def open_gate(self, pod: PodView) -> None:
        """Take the last gate of a pod away, against the version that says it is the last; whoever changed it has an event."""
        body = [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": pod.version},
            {"op": "remove", "path": "/spec/schedulingGates"},
        ]
        try:
            await self._port.patch(kinds.POD, pod.name, body, type=PatchType.JSON, namespace=pod.namespace)
        except (errors.Conflict, errors.NotFound):
            return

    async def write_status(self, group: GroupView, status: GroupStatus, *, hold: HoldRecord | None = None) -> bool:
        """Write the status, and the answer about a hold with it, against the version it was made from; False when the group has
        changed or gone."""
        # PodGroup has no status subresource upstream: status is part of the object (reference/volcano.md 2.1).
        body = [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": group.version},
            {"op": "add", "path": "/status", "value": msgspec.to_builtins(status)},
            *([_answer(hold)] if hold is not None else []),
        ]
        return await self._patch(group, body)

    async def drop_hold(self, group: GroupView, record: HoldRecord) -> bool:
        """Store that a hold is given up, against the version that still wishes for it; False when the group has changed or
        gone."""
        return await self._patch(
            group, [{"op": "replace", "path": "/metadata/resourceVersion", "value": group.version}, _answer(record)]
        )

    async def _patch(self, group: GroupView, body: list[dict[str, Any]]) -> bool:
        try:
            await self._port.patch(kinds.POD_GROUP, group.name, body, type=PatchType.JSON, namespace=group.namespace)
        except (errors.Conflict, errors.NotFound):
            return False
        return True


def _answer(record: HoldRecord) -> dict[str, Any]:
    """The operation that writes it; a group that wants a hold has annotations."""
    return {"op": "add", "path": f"/metadata/annotations/{keys.HOLD.replace('/', '~1')}", "value": encode_hold(record)}
