"""The one writer of flows: commits a FlowPlan against the version it was made from."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import orjson

from apis import keys, kinds
from controllers.flows.bodies import flow_body, job_body
from controllers.flows.plans import FlowPlan, StepJob
from controllers.flows.snapshot import FlowStatus, FlowView
from machinery import errors
from machinery.port import Port, Preconditions, Propagation
from machinery.retry import update
from policies.flows.expressions import ExpressionError

CREATIONS_AT_ONCE = 32
"""Jobs of one flow created in parallel: enough to keep a connection pool busy, few enough to leave room for other flows."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a plan. `stale`: the flow has changed, look again at the next event; `refused`: names and messages."""

    stale: bool = False
    refused: tuple[tuple[str, str], ...] = ()


class FlowApplier:
    """Writes statuses of JobFlows and the Jobs of their steps; `made` is told the flow and the name of each Job it makes."""

    def __init__(self, port: Port, *, made: Callable[[FlowView, str], None]) -> None:
        self._port = port
        self._made = made

    async def commit(self, flow: FlowView, plan: FlowPlan, *, nested: Mapping[str, kinds.Kind]) -> Outcome:
        """Status first, so that recorded ends precede what depends on them, where the plan is not sure of them; then Jobs, then
        removals. `nested`: the kind of those names that are no Jobs."""
        refused = await self.create(flow, plan.create) if plan.sure else []
        if plan.status is not None and not await self._write_status(flow, plan.status):
            return Outcome(stale=True, refused=tuple(refused))
        for name in plan.release:
            await self.release(name, namespace=flow.namespace, kind=nested.get(name, kinds.JOB))
        if not plan.sure:
            refused = await self.create(flow, plan.create)
        for name, uid in plan.delete:
            await self._delete(flow, name, uid, kind=nested.get(name, kinds.JOB))
        if plan.remove:
            await self.remove(flow)
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

    async def create(self, flow: FlowView, steps: Sequence[StepJob]) -> list[tuple[str, str]]:
        """Make Jobs and nested flows side by side; names of those that the API server refused, with what it said."""
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
        """Make one; its name and what the API server said where it was refused."""
        try:
            if step.spec.flow is not None:
                await self._port.create(kinds.JOB_FLOW, await self._flow(flow, step), namespace=flow.namespace)
            else:
                document = await self._port.get(kinds.JOB_TEMPLATE, step.template, namespace=flow.namespace)
                body = job_body(flow, step, template=orjson.loads(document))
                await self._port.create(kinds.JOB, body, namespace=flow.namespace)
        except (errors.AlreadyExists, errors.NotFound):
            return None  # made by an earlier try, or the template went: the next event shows which
        except (errors.Invalid, errors.Forbidden, errors.TooLarge) as error:
            return step.job, error.message
        except ExpressionError as error:
            return step.job, str(error)
        self._made(flow, step.job)
        return None

    async def _flow(self, flow: FlowView, step: StepJob) -> dict[str, Any]:
        if not step.template:
            return flow_body(flow, step, source=None)
        document = await self._port.get(kinds.JOB_FLOW, step.template, namespace=flow.namespace)
        return flow_body(flow, step, source=orjson.loads(document))

    async def release(self, name: str, *, namespace: str, kind: kinds.Kind = kinds.JOB) -> None:
        """Take the flow's finalizer off a Job or nested flow under deletion."""

        def without(job: dict[str, Any]) -> dict[str, Any] | None:
            held = job["metadata"].get("finalizers") or []
            if "deletionTimestamp" not in job["metadata"] or keys.FLOW_FINALIZER not in held:
                return None
            job["metadata"]["finalizers"] = [each for each in held if each != keys.FLOW_FINALIZER]
            return job

        with contextlib.suppress(errors.NotFound):
            await update(self._port, kind, name, namespace, without)

    async def remove(self, flow: FlowView) -> None:
        """Delete a flow that has outlived its ttl; its Jobs go with it."""
        await self._delete(flow, flow.name, flow.uid, kind=kinds.JOB_FLOW)

    async def _delete(self, flow: FlowView, name: str, uid: str, *, kind: kinds.Kind) -> None:
        try:
            await self._port.delete(
                kind,
                name,
                namespace=flow.namespace,
                preconditions=Preconditions(uid=uid),
                propagation=Propagation.BACKGROUND,
            )
        except (errors.NotFound, errors.Conflict):
            return
