"""What people ask of members in stories, as kubectl would write it, and what the Cluster says about it."""

from __future__ import annotations

from typing import Any

from apis import cluster_orders, keys, kinds
from apis.cluster_orders import DRAIN, ORDERED_BY, Order
from machinery.port import PatchType
from simulator.world import Doc, World

BY = '{{"{order}":{{"at":"2026-01-01T00:00:00Z","by":"{by}"}}}}'


async def annotate(world: World, cluster: str, notes: dict[str, str | None]) -> None:
    """Annotations of a Cluster; None takes one off."""
    body = {"metadata": {"annotations": notes}}
    await world.client().patch(kinds.CLUSTER, cluster, body, type=PatchType.MERGE)


async def drain(world: World, cluster: str, *, by: str = "alice", why: str = "true") -> None:
    """`kubectl annotate cluster`, with the stamp that admission leaves."""
    await annotate(world, cluster, {DRAIN: why, ORDERED_BY: BY.format(order=Order.DRAIN.value, by=by)})


async def undrain(world: World, cluster: str) -> None:
    """The end of it."""
    await annotate(world, cluster, {DRAIN: None, ORDERED_BY: None})


async def declare_lost(world: World, cluster: str, *, by: str = "alice", why: str = "the rack burned down") -> None:
    """A person's word."""
    notes: dict[str, str | None] = {cluster_orders.DECLARE_LOST: why}
    await annotate(world, cluster, {**notes, ORDERED_BY: BY.format(order=Order.DECLARE_LOST.value, by=by)})


async def taint(world: World, cluster: str, *taints: Doc) -> None:
    """These taints beside those that the hub keeps."""
    spec = (world.get(kinds.CLUSTER, cluster) or {})["spec"]
    kept = [each for each in spec.get("taints") or [] if each["key"] == keys.TAINT_UNREACHABLE]
    await world.client().patch(kinds.CLUSTER, cluster, {"spec": {"taints": [*kept, *taints]}}, type=PatchType.MERGE)


def condition(world: World, cluster: str, name: str) -> tuple[str, str, str]:
    """Status, reason and message; empty where it is not told."""
    conditions: list[Any] = ((world.get(kinds.CLUSTER, cluster) or {}).get("status") or {}).get("conditions") or []
    found: Doc = next((each for each in conditions if each["type"] == name), {})
    return (found.get("status", ""), found.get("reason", ""), found.get("message", ""))


def notes_of(world: World, cluster: str) -> dict[str, str]:
    """Annotations of a Cluster."""
    found: dict[str, str] = ((world.get(kinds.CLUSTER, cluster) or {}).get("metadata") or {}).get("annotations") or {}
    return found
