"""Why pods find no place, as a sentence with numbers: what each rule leaves out, of how many nodes."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from apis.vectors import spoken
from member_agent.grouping import Company
from member_agent.layout import Amounts, Layout, Mask, Rows
from policies.shapes import ONE_POD, PodShape


class Asked(Protocol):
    """The room that has no place."""

    layout: Layout
    free: Amounts

    def admitted(self, shape: PodShape) -> Mask: ...

    def alone(self, shape: PodShape, rows: Rows) -> Amounts: ...

    def company(self, shape: PodShape) -> Company | None: ...


def sentence(room: Asked, shape: PodShape, *, count: int, placed: int) -> str:
    """Why `count` pods do not fit, of which `placed` do."""
    layout = room.layout
    wanted = f"room for {placed} of {count} pods ({shape.requests - ONE_POD})"
    if shape.undecided:
        return f"{wanted}: {shape.undecided} are not decided by this scheduler yet"
    admitted = room.admitted(shape)
    usable, able = int(layout.usable.sum()), int(admitted.sum())
    away = (
        (layout.cordoned, "cordoned"),
        (len(layout.names) - usable - layout.cordoned, "not ready"),
        (usable - able, "ruled out by selector, affinity or taints"),
    )
    parts = [f"{len(layout.names)} nodes", *(f"{number} {what}" for number, what in away if number)]
    parts += [text for name, amount in shape.requests.items() if (text := _lacking(room, name, amount, admitted))]
    return f"{wanted}: {', '.join(parts + _unwelcome(room, shape, admitted))}"


def _lacking(room: Asked, name: str, amount: int, admitted: Mask) -> str:
    column = room.layout.columns.get(name)
    if column is None:
        return f"no node has {name}"
    free = room.free[admitted, column]
    short = int((free < amount).sum())
    most = spoken(name, milli=int(free.max())) if len(free) else 0
    return f"{short} with too little {name} (most free: {most})" if short else ""


def _unwelcome(room: Asked, shape: PodShape, admitted: Mask) -> list[str]:
    """How many nodes host ports, pods around and volumes rule out, and what pods of the shape set for one another."""
    parts = []
    if shape.one_per_node:
        taken = int((room.alone(shape, np.flatnonzero(admitted)) == 0).sum())
        parts += [f"{taken} with a host port taken"] if taken else []
    company = room.company(shape)
    if company is None:
        return parts
    counts: dict[str, Mask] = {}
    for text, closed in company.shut:
        counts[text] = counts[text] | closed if text in counts else closed
    parts += [f"{number} {text}" for text, rows in counts.items() if (number := int((rows & admitted).sum()))]
    parts += ["one per node"] if company.alone else []
    return parts + [group.sentence() for group in company.groups]
