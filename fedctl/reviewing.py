"""Asking the hub's planner: a PlacementReview is made, its answer waited for, and the review taken away again."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Final

import orjson

from apis import kinds
from machinery import errors
from machinery.clock import Clock
from machinery.port import Port

PATIENCE: Final = 30.0
"""Seconds that an answer is waited for: a hub that is alive takes a fraction of one."""
FIRST: Final = 0.05
LONGEST: Final = 0.5
"""Seconds between two looks: the first pause, doubled up to the longest."""
MYSELF: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
UNSTAMPED: Final = "Unstamped"

Status = dict[str, Any]


class NoAnswer(Exception):
    """The hub did not answer in time: nothing runs there, or it is busy with something else."""


async def ask(port: Port, spec: Mapping[str, Any], *, namespace: str, clock: Clock, patience: float = PATIENCE) -> Status:
    """The status of the answered review. Where no webhook writes who asks, it is asked once more with the name that the API
    server knows us by. Raises NoAnswer, and what the API server says."""
    status = await _once(port, spec, namespace=namespace, clock=clock, patience=patience)
    if status.get("reason") != UNSTAMPED:
        return status
    stamped = {**spec, "creator": await _myself(port)}
    return await _once(port, stamped, namespace=namespace, clock=clock, patience=patience)


async def _once(port: Port, spec: Mapping[str, Any], *, namespace: str, clock: Clock, patience: float) -> Status:
    kind = kinds.PLACEMENT_REVIEW
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"generateName": "fedctl-"}, "spec": dict(spec)}
    made = orjson.loads(await port.create(kind, body, namespace=namespace))
    name = made["metadata"]["name"]
    try:
        return await _answer(port, name, namespace=namespace, clock=clock, patience=patience)
    finally:
        # Who may not delete it leaves it to the hub, which removes it soon.
        with contextlib.suppress(errors.ApiError):
            await port.delete(kind, name, namespace=namespace)


async def _answer(port: Port, name: str, *, namespace: str, clock: Clock, patience: float) -> Status:
    end, pause = clock.boot() + patience, FIRST
    while clock.boot() < end:
        await clock.sleep(pause)
        pause = min(2 * pause, LONGEST)
        found = orjson.loads(await port.get(kinds.PLACEMENT_REVIEW, name, namespace=namespace))
        status: Status = found.get("status") or {}
        if status.get("answeredAt"):
            return status
    raise NoAnswer(f"the hub did not answer within {patience:g} s: is federation-hub running?")


async def _myself(port: Port) -> dict[str, Any]:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    found = orjson.loads(await port.request("POST", MYSELF, body=body))
    user = (found.get("status") or {}).get("userInfo") or {}
    groups = user.get("groups")
    return {"username": user.get("username", ""), **({"groups": groups} if groups else {})}
