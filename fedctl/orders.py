"""Orders of people: suspend, resume, restart, abort, delete. They are written where kubectl would write them, and the hub
carries them out, also on Jobs that wait, are divided, or run on members that are away."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import orjson

from apis import keys, kinds
from fedctl import exits, views
from fedctl.desk import Desk, Stop
from fedctl.getting import one
from fedctl.refs import Ref
from machinery import errors
from machinery.port import PatchType, Propagation

MANAGER: Final = "fedctl"
STOPPED: Final = frozenset({"Aborted", "Aborting"})
ENDED: Final = frozenset({"Completed", "Failed", "Terminated", "Aborted"})
FLOW_ENDED: Final = frozenset({"Succeed", "Failed", "Terminating"})
LOOK: Final = 1.0
"""Seconds between looks while something is waited for."""


async def suspend(desk: Desk, ref: Ref) -> int:
    """Stop and hold: a Job's pods end and it waits, a flow begins no more steps."""
    await _hold(desk, ref, value=True)
    desk.out(f"{ref} suspended")
    return exits.OK


async def resume(desk: Desk, ref: Ref) -> int:
    """Let what was suspended or aborted go on."""
    await _hold(desk, ref, value=False)
    if ref.kind == kinds.JOB:
        job = views.read_job(await one(desk, kinds.JOB, ref.name))
        if job.phase in STOPPED:
            await command(desk, ref, "ResumeJob")
    desk.out(f"{ref} resumed")
    return exits.OK


async def restart(desk: Desk, ref: Ref) -> int:
    """Begin a Job anew."""
    _only_jobs(ref, "restarted; fedctl flow retry runs failed steps again")
    await command(desk, ref, "RestartJob")
    desk.out(f"{ref} will restart")
    return exits.OK


async def abort(desk: Desk, ref: Ref) -> int:
    """Stop a Job; it can be resumed."""
    _only_jobs(ref, "aborted; fedctl suspend holds its next steps")
    await command(desk, ref, "AbortJob")
    desk.out(f"{ref} will be aborted; fedctl resume lets it go on")
    return exits.OK


async def delete(desk: Desk, ref: Ref, *, wait: bool = True) -> int:
    """Delete; with `wait`, return once it is gone everywhere: the hub keeps it until its members have confirmed."""
    namespace = desk.namespace if ref.kind.namespaced else None
    try:
        await desk.port.delete(ref.kind, ref.name, namespace=namespace, propagation=Propagation.BACKGROUND)
        desk.out(f"{ref} deleted")
        while wait:
            await desk.port.get(ref.kind, ref.name, namespace=namespace)
            await asyncio.sleep(LOOK)
    except errors.NotFound:
        if not wait:
            raise Stop(f"there is no {ref}", code=exits.NOT_FOUND) from None
    return exits.OK


async def wait(desk: Desk, ref: Ref, *, seconds: float) -> int:
    """Return when it has ended: 0 only if well."""
    waited = 0.0
    while True:
        document = await one(desk, ref.kind, ref.name)
        phase = views.read_job(document).phase
        if phase in (ENDED if ref.kind == kinds.JOB else FLOW_ENDED):
            desk.out(f"{ref} {phase}")
            return exits.OK if phase in ("Completed", "Succeed") else exits.FAILED
        if waited >= seconds:
            desk.err(f"{ref} is {phase} after {seconds:.0f} s, and goes on")
            return exits.TIMED_OUT
        await asyncio.sleep(LOOK)
        waited += LOOK


async def _hold(desk: Desk, ref: Ref, *, value: bool) -> None:
    document = orjson.loads(await one(desk, ref.kind, ref.name))
    said: dict[str, Any]
    if ref.kind == kinds.JOB_FLOW:
        said = {"spec": {"suspend": value}}
    else:
        said = {"metadata": {"annotations": {keys.SUSPEND: "true" if value else None}}}
        if not value and (document.get("spec") or {}).get("suspend"):
            said["spec"] = {"suspend": False}
    kept = orjson.loads(
        await desk.port.patch(ref.kind, ref.name, said, type=PatchType.MERGE, namespace=desk.namespace, field_manager=MANAGER)
    )
    if ref.kind == kinds.JOB_FLOW and (kept["spec"].get("suspend") or False) is not value:
        raise Stop("this hub's JobFlow has no spec.suspend: its CRD is not ours", code=exits.NOT_SERVED)


async def command(desk: Desk, ref: Ref, action: str) -> None:
    """A Command for a Job, as upstream's tools write it."""
    job = orjson.loads(await one(desk, kinds.JOB, ref.name))
    target = {
        "apiVersion": kinds.JOB.api_version,
        "kind": kinds.JOB.kind,
        "name": ref.name,
        "uid": job["metadata"]["uid"],
        "controller": True,
    }
    body: dict[str, Any] = {
        "apiVersion": kinds.COMMAND.api_version,
        "kind": kinds.COMMAND.kind,
        "metadata": {
            "generateName": f"{ref.name[:40]}-{action.lower()}-",
            "namespace": desk.namespace,
            "ownerReferences": [target],
        },
        "action": action,
        "target": target,
    }
    await desk.port.create(kinds.COMMAND, body, namespace=desk.namespace)


def _only_jobs(ref: Ref, otherwise: str) -> None:
    if ref.kind != kinds.JOB:
        raise Stop(f"{ref}: a flow cannot be {otherwise}", code=exits.USAGE)
