"""What a PodGroup carries about room that is held for it while a gang over several clusters prepares (protocol.md 5)."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from apis import keys
from member_agent.views.meta import Meta, Wire, number

HELD: Final = "Prepared"
HOLD_DROPPED: Final = "HoldDropped"
"""Reasons in the status of a Job, and in the condition Prepared of its Work."""


class HeldFor(Wire, frozen=True, omit_defaults=True):
    """Room for `count` pods of one task on each of these nodes; `amounts` are those of one pod."""

    task: str
    count: int
    nodes: tuple[str, ...]
    amounts: dict[str, str] = {}


class HoldRecord(Wire, frozen=True, omit_defaults=True):
    """The scheduler's answer to the wish for hold `n`: where room is held, or why it was given up."""

    n: int
    held: tuple[HeldFor, ...] = ()
    dropped: str = ""

    def places(self) -> Iterator[tuple[str, str]]:
        """Task and node of every pod that room is held for."""
        for each in self.held:
            for node in each.nodes:
                yield from [(each.task, node)] * each.count

    @property
    def pods(self) -> int:
        """For how many pods."""
        return sum(each.count * len(each.nodes) for each in self.held)

    @property
    def nodes(self) -> int:
        """On how many nodes."""
        return len({node for each in self.held for node in each.nodes})


def held_for(places: Iterable[tuple[str, str, int]], *, amounts: dict[str, dict[str, str]]) -> tuple[HeldFor, ...]:
    """From task, node and count of each place; nodes that hold the same are told together. `amounts` by task."""
    grouped: dict[tuple[str, int], list[str]] = {}
    for task, node, count in places:
        grouped.setdefault((task, count), []).append(node)
    return tuple(HeldFor(task, count, tuple(nodes), amounts.get(task, {})) for (task, count), nodes in grouped.items())


_record = msgspec.json.Decoder(HoldRecord).decode


def encode_hold(record: HoldRecord) -> str:
    """As the annotation."""
    return msgspec.json.encode(record).decode()


def hold_of(meta: Meta) -> dict[str, Any]:
    """Fields of a GroupView: the hold that is wished for (0: none), and the answer; one that cannot be read is none."""
    text, found = meta.annotation(keys.HOLD), None
    if text:
        try:
            found = _record(text)
        except msgspec.MsgspecError:
            found = None
    if found is not None:
        held = (msgspec.structs.replace(each, task=sys.intern(each.task)) for each in found.held)
        found = msgspec.structs.replace(found, held=tuple(held))
    return {"hold_wanted": number(meta.annotation(keys.HOLD_WANTED), otherwise=0), "hold": found}
