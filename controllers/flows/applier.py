"""The one writer of flows: commits a FlowPlan against the version it was made from."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any

import msgspec
import orjson

from apis import keys, kinds
from controllers.flows.planner import FlowPlan, StepJob
from controllers.flows.snapshot import FlowStatus, FlowView, creator
from machinery import errors
from machinery.port import Port, Preconditions, Propagation
from machinery.retry import update

CREATIONS_AT_ONCE = 32
"""Jobs of one flow created in parallel: enough to keep a connection pool busy, few enough to leave room for other flows."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a plan. `stale`: the flow has changed, look again at the next event; `refused`: step to message."""

    stale: bool = False
    refused: tuple[tuple[str, str], ...] = ()


class FlowApplier:
    """Writes statuses of JobFlows and the Jobs of their steps."""

    def __init__(self, port: Port) -> None:
        self._port = port

    async def commit(self, flow: FlowView, plan: FlowPlan) -> Outcome:
        """Status first, so that recorded ends precede what depends on them; then Jobs, then removals."""
        if plan.status is not None and not await self._write_status(flow, plan.status):
            return Outcome(stale=True)
        for name in plan.release:
            await self.release(name, namespace=flow.namespace)
        refused = await self._create_all(flow, plan.create)
        for name, uid in plan.delete:
            await self._delete(flow, name, uid)
        return Outcome(refused=tuple(refused))

    async def _write_status(self, flow: FlowView, status: FlowStatus) -> bool:
        body = {
            "apiVersion": kinds.JOB_FLOW.api_version,
            "kind": kinds.JOB_FLOW.kind,
            "metadata": {"name": flow.name, "namespace": flow.namespace, "uid": flow.uid, "resourceVersion": flow.version},
            "spec": {},
            "status": msgspec.to_builtins(status),
        }
        try:
            await self._port.replace(kinds.JOB_FLOW, flow.name, body, namespace=flow.namespace, subresource="status")
        except (errors.Conflict, errors.NotFound):
            return False
        return True

    async def _create_all(self, flow: FlowView, steps: tuple[StepJob, ...]) -> list[tuple[str, str]]:
        gate = asyncio.Semaphore(CREATIONS_AT_ONCE)

        async def one(step: StepJob) -> tuple[str, str] | errors.ApiError | None:
            async with gate:
                try:
                    return await self._create(flow, step)
                except errors.ApiError as error:
                    return error

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(step)) for step in steps]
        results = [task.result() for task in tasks]
        for result in results:
            if isinstance(result, errors.ApiError):
                raise result  # all others were tried; the runner backs off as the server asked
        return [result for result in results if isinstance(result, tuple)]

    async def _create(self, flow: FlowView, step: StepJob) -> tuple[str, str] | None:
        try:
            document = await self._port.get(kinds.JOB_TEMPLATE, step.template, namespace=flow.namespace)
            body = job_body(flow, step, template=orjson.loads(document))
            await self._port.create(kinds.JOB, body, namespace=flow.namespace)
        except (errors.AlreadyExists, errors.NotFound):
            return None  # made by an earlier try, or the template went: the next event shows which
        except (errors.Invalid, errors.Forbidden, errors.TooLarge) as error:
            return step.step, error.message
        return None

    async def release(self, name: str, *, namespace: str) -> None:
        """Take the flow's finalizer off a Job under deletion."""

        def without(job: dict[str, Any]) -> dict[str, Any] | None:
            held = job["metadata"].get("finalizers") or []
            if "deletionTimestamp" not in job["metadata"] or keys.FLOW_FINALIZER not in held:
                return None
            job["metadata"]["finalizers"] = [each for each in held if each != keys.FLOW_FINALIZER]
            return job

        with contextlib.suppress(errors.NotFound):
            await update(self._port, kinds.JOB, name, namespace, without)

    async def _delete(self, flow: FlowView, name: str, uid: str) -> None:
        try:
            await self._port.delete(
                kinds.JOB,
                name,
                namespace=flow.namespace,
                preconditions=Preconditions(uid=uid),
                propagation=Propagation.BACKGROUND,
            )
        except (errors.NotFound, errors.Conflict):
            return


def job_body(flow: FlowView, step: StepJob, *, template: dict[str, Any]) -> dict[str, Any]:
    """The Job of a step: the template's spec, owned by the flow, marked with flow and template."""
    marks = {
        keys.CREATED_BY_TEMPLATE: creator(flow.namespace, step.template),
        keys.CREATED_BY_FLOW: creator(flow.namespace, flow.name),
    }
    metadata = template.get("metadata", {})
    kept = {k: v for k, v in (metadata.get("annotations") or {}).items() if k.startswith(f"{keys.GROUP}/")}
    return {
        "apiVersion": kinds.JOB.api_version,
        "kind": kinds.JOB.kind,
        "metadata": {
            "name": step.job,
            "namespace": flow.namespace,
            "finalizers": [keys.FLOW_FINALIZER],
            # A label value holds 63 characters; the annotation is what is read, the label serves selectors.
            "labels": {key: value for key, value in marks.items() if len(value) <= 63},
            "annotations": {**kept, **marks},
            "ownerReferences": [
                {
                    "apiVersion": kinds.JOB_FLOW.api_version,
                    "kind": kinds.JOB_FLOW.kind,
                    "name": flow.name,
                    "uid": flow.uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": template.get("spec", {}),
    }
