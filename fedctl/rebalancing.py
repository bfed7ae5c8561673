"""`fedctl rebalance`: asks the hub to place Jobs again, by a WorkloadRebalancer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import orjson

from apis import kinds
from fedctl import exits, tables
from fedctl.desk import Desk
from fedctl.getting import one
from fedctl.refs import Ref

KEPT: Final = 3600
"""Seconds after which the hub takes an answered request away."""
LOOK: Final = 1.0


async def rebalance(desk: Desk, refs: Sequence[Ref], *, seconds: float) -> int:
    """Ask, and tell what became of each workload; `seconds` to stay at most."""
    workloads = []
    for each in refs:
        await one(desk, each.kind, each.name)
        where = {"apiVersion": each.kind.api_version, "kind": each.kind.kind, "name": each.name}
        workloads.append({**where, "namespace": desk.namespace})
    body: dict[str, Any] = {
        "apiVersion": kinds.WORKLOAD_REBALANCER.api_version,
        "kind": kinds.WORKLOAD_REBALANCER.kind,
        "metadata": {"generateName": "fedctl-"},
        "spec": {"workloads": workloads, "ttlSecondsAfterFinished": KEPT},
    }
    name = orjson.loads(await desk.port.create(kinds.WORKLOAD_REBALANCER, body))["metadata"]["name"]
    waited = 0.0
    while True:
        status = orjson.loads(await desk.port.get(kinds.WORKLOAD_REBALANCER, name)).get("status") or {}
        told = status.get("observedWorkloads") or []
        if status.get("finishTime"):
            rows = [(each["workload"]["name"], each.get("result") or "-", each.get("reason") or "-") for each in told]
            desk.out(tables.text(("NAME", "RESULT", "REASON"), rows))
            return exits.OK if all(each.get("result") == "Successful" for each in told) else exits.FAILED
        if waited >= seconds:
            desk.err(f"{name} is not finished after {seconds:.0f} s, and goes on")
            return exits.TIMED_OUT
        await asyncio.sleep(LOOK)
        waited += LOOK
