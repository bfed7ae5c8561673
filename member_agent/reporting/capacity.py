"""What is published of this member (protocol.md 4), and whether it differs enough from what was published. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np

from apis.capacity import (
    Backlog,
    CapacityCondition,
    CapacityStatus,
    Growable,
    Orphan,
    Reclaimable,
    ShapeAnswer,
    write_status,
)
from apis.vectors import ResourceVector, total
from member_agent.reporting import nodes, queues
from member_agent.reporting.nodes import STEPS, Sorts, Table, changed
from member_agent.room import Amounts, Room, sums
from member_agent.views import QueueView

HARD_BYTES: Final = 256 << 10
"""What the whole status may take: beyond it rows with the fewest nodes are left out, and the condition says so."""
SHARES: Final = (
    ("queues", 64 << 10),
    ("backlog", 32 << 10),
    ("orphans", 16 << 10),
    ("growable", 16 << 10),
    ("shapes", 48 << 10),
)
"""What each list beside the nodes may take of it: at least 80 KiB are left for the nodes."""
TRUNCATED: Final = "ProfileTruncated"


@dataclass(frozen=True, slots=True)
class Demand:
    """Pods of one gang, hub-run or local, that wait for nodes: what they ask for together, each one `pods` among it."""

    queue: str
    priority: int
    demand: ResourceVector


@dataclass(frozen=True, slots=True)
class Look:
    """Everything a capacity status is made from, as of one instant."""

    room: Room
    left: Amounts
    """By row of the room, what is free and spoken for by nobody."""
    sorts: Sorts
    queues: tuple[QueueView, ...]
    admitted: Mapping[str, ResourceVector]
    """By queue: accepted and not bound."""
    waiting: tuple[Demand, ...]
    """What is ahead of whoever comes next."""
    orphans: tuple[Orphan, ...]
    through: str
    held: Mapping[str, Mapping[str, int]] | None = None
    """By queue, what its own pods hold; None: what its status says."""
    kept: Collection[str] = ()
    """Nodes on which whatever is free waits for a gang that is here."""
    reclaimable: tuple[Reclaimable, ...] = ()
    growable: tuple[Growable, ...] = ()
    conditions: tuple[CapacityCondition, ...] = field(default=())
    """Those that were published last: a condition keeps the time since when it holds."""


def status(look: Look, *, answers: Sequence[ShapeAnswer] | None = None, generation: int, now: str) -> CapacityStatus:
    """The status to publish. `answers`: about the shapes that the hub asks about; None: nobody here answers."""
    rest, cut = _trimmed(
        CapacityStatus(
            works_through=look.through,
            generation=generation,
            queues=queues.tree(look.queues, held=look.held, admitted=look.admitted, available=available(look.room)),
            backlog=_backlog(look.waiting),
            reclaimable=look.reclaimable,
            growable=look.growable,
            shapes=None if answers is None else tuple(answers),
            orphans=look.orphans,
            observed_at=now,
        )
    )
    told = 4096  # conditions, and the names of the fields of the table
    table = nodes.publish(look.sorts, _free(look), limit=HARD_BYTES - len(write_status(rest)) - told)
    conditions = tuple(_dated(look.conditions, _conditions(look, table, cut), now=now))
    return msgspec.structs.replace(rest, nodes=table.nodes, domains=table.domains, conditions=conditions)


def available(room: Room) -> ResourceVector:
    """What nodes that take pods can allocate, and what pods hold on the others: nobody may have more of that."""
    off = ~room.layout.usable
    size, left = sums(room.allocatable), sums(room.free[off])
    return ResourceVector({name: size[at] - left[at] for name, at in room.layout.columns.items() if at < len(size)})


def _free(look: Look) -> Amounts:
    if not look.kept:
        return look.left
    free = look.left.copy()
    free[np.isin(np.array(look.room.layout.names), list(look.kept))] = 0
    return free


def _trimmed(status: CapacityStatus) -> tuple[CapacityStatus, tuple[str, ...]]:
    """With what is first of each list, and the lists that lost something."""
    cut: list[str] = []
    for name, limit in SHARES:
        listed: tuple[object, ...] = getattr(status, name) or ()
        kept, left = 0, limit
        for each in listed:
            left -= len(msgspec.json.encode(each)) + 1
            if left < 0:
                break
            kept += 1
        if kept < len(listed):
            cut.append(name)
            status = msgspec.structs.replace(status, **{name: listed[:kept]})
    return status, tuple(cut)


def _backlog(waiting: Iterable[Demand]) -> tuple[Backlog, ...]:
    """By queue, and in it the highest priority first."""
    demands: dict[tuple[str, int], list[ResourceVector]] = {}
    for each in waiting:
        demands.setdefault((each.queue, each.priority), []).append(each.demand)
    summed = {key: total(demands[key]) for key in sorted(demands, key=lambda key: (key[0], -key[1]))}
    return tuple(
        Backlog(queue=queue, priority=priority, demand=dict(demand), pods=demand.get("pods") // 1000)
        for (queue, priority), demand in summed.items()
    )


def _conditions(look: Look, table: Table, cut: Sequence[str]) -> Iterable[CapacityCondition]:
    if look.orphans:
        names = ", ".join(f"{each.namespace}/{each.name}" for each in look.orphans[:5])
        message = f"{len(look.orphans)} Jobs run here without a Work: {names}; they are kept running"
        yield CapacityCondition("Orphans", "True", reason="WorkMissing", message=message)
    if table.left_out:
        message = (
            f"{table.left_out} nodes of the rarest kinds are left out to keep the profile small; what fits on them alone is not"
            " offered"
        )
        yield CapacityCondition(TRUNCATED, "True", reason="RowsLeftOut", message=message)
    elif cut:
        message = f"the ends of these lists are left out to keep the profile small: {', '.join(cut)}"
        yield CapacityCondition(TRUNCATED, "True", reason="ListsLeftOut", message=message)
    elif table.coarse > 1:
        message = f"free amounts are rounded down to 1/{STEPS // table.coarse} to keep the profile small"
        yield CapacityCondition(TRUNCATED, "True", reason="TooManyRows", message=message)


def _dated(
    before: Sequence[CapacityCondition], conditions: Iterable[CapacityCondition], *, now: str
) -> Iterable[CapacityCondition]:
    known = {each.type: each for each in before}
    for each in conditions:
        old = known.get(each.type)
        since = old.last_transition_time if old is not None and old.status == each.status else ""
        yield msgspec.structs.replace(each, last_transition_time=since or now)


# --- what is worth a write -------------------------------------------------------------------------------------------


def material(old: CapacityStatus | None, new: CapacityStatus, *, share: float) -> bool:
    """Whether the hub could decide otherwise with the new status, small differences apart."""
    if old is None:
        return True
    if (old.orphans, old.growable) != (new.orphans, new.growable) or _said(old) != _said(new):
        return True
    return (
        answers_differ(old, new)
        or queues.moved(old, new, share=share)
        or _amounts_moved(_waits(old), _waits(new), share=share)
        or _amounts_moved(_bands(old), _bands(new), share=share)
        or nodes.moved(old, new, share=share)
    )


def differs(old: CapacityStatus, new: CapacityStatus) -> bool:
    """Whether anything at all is told anew; when it was looked at and how long things last do not count."""
    return _plain(old) != _plain(new)


def better(old: CapacityStatus | None, new: CapacityStatus) -> bool:
    """A shape that did not fit, or was not answered before, fits now."""
    before = {each.hash: each.fits for each in (old.shapes if old is not None else None) or ()}
    return any(each.fits and not before.get(each.hash, 0) for each in new.shapes or ())


def worse(old: CapacityStatus | None, new: CapacityStatus) -> bool:
    """Nodes are lost."""
    return old is not None and nodes.many(new.nodes) < nodes.many(old.nodes)


def answers_differ(old: CapacityStatus, new: CapacityStatus) -> bool:
    """Whether a shape came, went, or is answered otherwise, reasons and expected waits apart."""
    return _answers(old) != _answers(new)


def _answers(status: CapacityStatus) -> object:
    if status.shapes is None:
        return None
    return {each.hash: (each.fits, each.after_eviction, each.wait is None) for each in status.shapes}


def _said(status: CapacityStatus) -> list[tuple[str, str, str]]:
    return [(each.type, each.status, each.reason) for each in status.conditions]


def _plain(status: CapacityStatus) -> CapacityStatus:
    shapes = status.shapes
    if shapes is not None:
        shapes = tuple(msgspec.structs.replace(each, wait=None, reason="") for each in shapes)
    return msgspec.structs.replace(status, generation=0, observed_at="", works_through="", shapes=shapes, conditions=())


def _waits(status: CapacityStatus) -> dict[object, dict[str, int]]:
    return {(each.queue, each.priority): each.demand for each in status.backlog}


def _bands(status: CapacityStatus) -> dict[object, dict[str, int]]:
    return {each.below: each.room for each in status.reclaimable}


def _amounts_moved(
    before: Mapping[object, Mapping[str, int]], after: Mapping[object, Mapping[str, int]], *, share: float
) -> bool:
    if before.keys() != after.keys():
        return True
    return any(
        changed(before[key].get(name, 0), after[key].get(name, 0), share=share)
        for key in before
        for name in {*before[key], *after[key]}
    )
