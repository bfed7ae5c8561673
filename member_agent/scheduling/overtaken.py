"""What of a plan does not fit any more when it is carried out: the cluster goes on while a long round pauses. Pure."""

from __future__ import annotations

import dataclasses

import numpy as np

from member_agent.room import Amounts, Mask, Room
from member_agent.scheduling.decisions import Plan


def still(plan: Plan, *, room: Room, before: Amounts, now: Room) -> Plan:
    """The plan without gangs, and without room held, on nodes which somebody else filled or which take no pods any more; they
    are tried again at once. `room`: as the plan leaves it; `before`: what was free by row when it was begun; `now`: the
    cluster's."""
    lost = overtaken(room, before=before, now=now)
    if not lost.any():
        return plan
    nodes = {room.layout.names[row] for row in np.flatnonzero(lost).tolist()}
    gangs = {(each.pod.namespace, each.pod.group) for each in plan.bindings if each.node in nodes}
    prepared = tuple(each for each in plan.prepared if nodes.isdisjoint(node for _, node, _ in each.places))
    if not gangs and prepared == plan.prepared:
        return plan
    return dataclasses.replace(
        plan,
        bindings=tuple(each for each in plan.bindings if (each.pod.namespace, each.pod.group) not in gangs),
        prepared=prepared,
        ended={key: reason for key, reason in plan.ended.items() if reason is not None or key not in gangs},
        more=True,
    )


def overtaken(room: Room, *, before: Amounts, now: Room) -> Mask:
    """Rows on which others took so much since that what is planned there goes beyond the node."""
    free, usable = _now(room, before=before, now=now)
    change = free - before
    return np.asarray(((change < 0) & (room.free + change < 0)).any(axis=1) | (room.layout.usable & ~usable))


def _now(room: Room, *, before: Amounts, now: Room) -> tuple[Amounts, Mask]:
    """What is free in the rows and columns of the plan's room, and which nodes take pods; a node that went takes none."""
    columns = before.shape[1]
    if now.layout.names == room.layout.names:
        return now.free[:, :columns], now.layout.usable
    known = now.layout.rows
    rows = np.array([known.get(name, -1) for name in room.layout.names], dtype=np.intp)
    there = rows >= 0
    free, usable = before.copy(), np.zeros(len(rows), dtype=np.bool_)
    free[there], usable[there] = now.free[rows[there], :columns], now.layout.usable[rows[there]]
    return free, usable
