"""`fedctl queue`: open, close, make and delete queues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from apis import kinds
from fedctl import exits
from fedctl.desk import Desk, Stop
from fedctl.getting import one
from fedctl.orders import MANAGER
from machinery import errors
from machinery.port import PatchType


async def operate(desk: Desk, names: Sequence[str], *, action: str) -> int:
    """Open or close queues, by the Command that upstream's tools write."""
    for name in names:
        queue = orjson.loads(await one(desk, kinds.QUEUE, name))
        target = {
            "apiVersion": kinds.QUEUE.api_version,
            "kind": kinds.QUEUE.kind,
            "name": name,
            "uid": queue["metadata"]["uid"],
            "controller": True,
        }
        body: dict[str, Any] = {
            "apiVersion": kinds.COMMAND.api_version,
            "kind": kinds.COMMAND.kind,
            "metadata": {"generateName": f"{name[:40]}-{action.lower()}-", "namespace": "default", "ownerReferences": [target]},
            "action": action,
            "target": target,
        }
        await desk.port.create(kinds.COMMAND, body, namespace="default")
        desk.out(f"queue/{name} will be {'opened' if action == 'OpenQueue' else 'closed'}")
    return exits.OK


async def make(desk: Desk, name: str, *, weight: int, parent: str = "") -> int:
    """Make a queue."""
    spec: dict[str, Any] = {"weight": weight, "reclaimable": True, **({"parent": parent} if parent else {})}
    body = {"apiVersion": kinds.QUEUE.api_version, "kind": kinds.QUEUE.kind, "metadata": {"name": name}, "spec": spec}
    try:
        await desk.port.create(kinds.QUEUE, body)
    except errors.AlreadyExists:
        raise Stop(f"queue {name} is there already", code=exits.REFUSED) from None
    desk.out(f"queue/{name} made")
    return exits.OK


async def reweigh(desk: Desk, name: str, *, weight: int) -> int:
    """Change the weight of a queue."""
    await one(desk, kinds.QUEUE, name)
    body = {"spec": {"weight": weight}}
    await desk.port.patch(kinds.QUEUE, name, body, type=PatchType.MERGE, field_manager=MANAGER)
    desk.out(f"queue/{name} has weight {weight}")
    return exits.OK
