"""The one writer of CronJobs: commits a CronPlan against the version it was made from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec
import orjson

from apis import keys, kinds
from controllers.cron.planner import CronPlan, Mark, Run
from controllers.cron.snapshot import CronStatus, CronView
from machinery import errors
from machinery.port import Port, Preconditions, Propagation

SCHEDULED: Final = "volcano.sh/cronjob-scheduled-timestamp"
"""Annotation of a Job or flow: the time it was scheduled for, RFC 3339 in the zone of its CronJob."""

_REFUSALS = (errors.Invalid, errors.Forbidden, errors.TooLarge)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a plan. `told`: the status was taken; `moved`: the CronJob is another one since, so that the rest waits
    for the next look; `refused`: reason and message of what stands in the way of the run; `undeleted`: with what the API server
    said."""

    told: bool = False
    moved: bool = False
    created: str = ""
    deleted: tuple[Mark, ...] = ()
    undeleted: tuple[tuple[Mark, str], ...] = ()
    refused: tuple[str, str] | None = None


class CronApplier:
    """Writes statuses of CronJobs, makes their Jobs or flows and removes them."""

    def __init__(self, port: Port) -> None:
        self._port = port

    async def commit(self, cron: CronView, plan: CronPlan) -> Outcome:
        """The status first: what is done next relies on it being recorded. Only where the API server keeps nothing of it (a CRD
        without our fields) does the rest follow at once."""
        told = plan.status is not None
        if plan.status is not None and await self._write_status(cron, plan.status) != cron.version:
            return Outcome(told=True, moved=True)
        deleted, undeleted = await self._delete(cron, plan.replace)
        if undeleted:
            mark, message = undeleted[0]
            refused = ("FailedDelete", f"{mark.kind.kind} {mark.name} is in the way and cannot be deleted: {message}")
            return Outcome(told=told, deleted=deleted, undeleted=undeleted, refused=refused)
        outcome = await self._create(cron, plan.create) if plan.create is not None else Outcome()
        cleaned, left = await self._delete(cron, plan.clean)
        return Outcome(told, outcome.moved, outcome.created, deleted + cleaned, left, outcome.refused)

    async def _write_status(self, cron: CronView, status: CronStatus) -> str:
        """The version that holds it; "" where the CronJob is another one by now."""
        try:
            document = orjson.loads(await self._port.get(kinds.CRON_JOB, cron.name, namespace=cron.namespace))
            if document["metadata"]["resourceVersion"] != cron.version:
                return ""
            document["status"] = {**_unknown(document.get("status") or {}), **msgspec.to_builtins(status)}
            written = await self._port.replace(
                kinds.CRON_JOB, cron.name, document, namespace=cron.namespace, subresource="status"
            )
        except (errors.Conflict, errors.NotFound):
            return ""
        return str(orjson.loads(written)["metadata"]["resourceVersion"])

    async def _create(self, cron: CronView, run: Run) -> Outcome:
        try:
            document = orjson.loads(await self._port.get(kinds.CRON_JOB, cron.name, namespace=cron.namespace))
            if document["metadata"]["resourceVersion"] != cron.version:
                return Outcome(moved=True)
            await self._port.create(run.kind, body_of(document, run), namespace=cron.namespace)
        except errors.NotFound:
            return Outcome(moved=True)
        except errors.AlreadyExists:
            return await self._taken(cron, run)
        except _REFUSALS as error:
            return Outcome(refused=("FailedCreate", f"{run.kind.kind} {run.job} was refused: {error.message}"))
        return Outcome(created=run.job)

    async def _taken(self, cron: CronView, run: Run) -> Outcome:
        """The name is taken: by the run itself, made by an earlier try, or by a Job that is not ours."""
        try:
            job = orjson.loads(await self._port.get(run.kind, run.job, namespace=cron.namespace))
        except errors.NotFound:
            return Outcome(moved=True)
        owners = job["metadata"].get("ownerReferences") or []
        if any(each.get("controller") and each.get("uid") == cron.uid for each in owners):
            return Outcome()
        return Outcome(refused=("ForeignJob", f"{run.kind.kind} {run.job} exists and is not of this CronJob"))

    async def _delete(self, cron: CronView, marks: tuple[Mark, ...]) -> tuple[tuple[Mark, ...], tuple[tuple[Mark, str], ...]]:
        """What was deleted, and what the API server would not delete with what it said."""
        deleted: list[Mark] = []
        refused: list[tuple[Mark, str]] = []
        for mark in marks:
            try:
                await self._port.delete(
                    mark.kind,
                    mark.name,
                    namespace=cron.namespace,
                    preconditions=Preconditions(uid=mark.uid),
                    propagation=Propagation.BACKGROUND,
                )
                deleted.append(mark)
            except (errors.NotFound, errors.Conflict):
                continue  # gone already
            except _REFUSALS as error:
                refused.append((mark, error.message))
        return tuple(deleted), tuple(refused)


def _unknown(status: dict[str, Any]) -> dict[str, Any]:
    """Fields of a status that we do not know: they stay."""
    known = {"active", "lastScheduleTime", "lastSuccessfulTime", "conditions"}
    return {name: value for name, value in status.items() if name not in known}


def body_of(cron: dict[str, Any], run: Run) -> dict[str, Any]:
    """The Job or flow of a run: the template with its labels and annotations, owned by the CronJob, stamped with its time. What
    a flow makes is known by its annotation to come from the CronJob."""
    meta, flow = cron["metadata"], run.kind == kinds.JOB_FLOW
    template = cron["spec"].get("flowTemplate" if flow else "jobTemplate") or {}
    given = template.get("metadata") or {}
    marks = {keys.CREATED_BY_CRON: f"{meta['namespace']}.{meta['name']}"} if flow else {}
    return {
        "apiVersion": run.kind.api_version,
        "kind": run.kind.kind,
        "metadata": {
            "name": run.job,
            "namespace": meta["namespace"],
            "labels": dict(given.get("labels") or {}),
            "annotations": {**(given.get("annotations") or {}), **marks, SCHEDULED: run.stamp},
            "ownerReferences": [
                {
                    "apiVersion": kinds.CRON_JOB.api_version,
                    "kind": kinds.CRON_JOB.kind,
                    "name": meta["name"],
                    "uid": meta["uid"],
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": template.get("spec") or {},
    }
