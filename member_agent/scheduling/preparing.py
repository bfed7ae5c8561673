"""Finds room to hold for gangs over clusters that prepare: the minimum whole, or nothing (protocol.md 5)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from member_agent.room import Shortage, Spot
from member_agent.scheduling.decisions import NO_ROOM
from member_agent.scheduling.holds import Hold, Preparing
from member_agent.scheduling.reasons import Reason
from member_agent.scheduling.session import OpenSession
from member_agent.scheduling.snapshot import Tally, Waiting
from policies.shapes import PodShape


def prepare(session: OpenSession, wanting: Sequence[Preparing]) -> tuple[Hold, ...]:
    """After the actions: what they left. Nobody else in the session gets what is held; who finds no room is told why."""
    found = []
    for each in wanting:
        gang = Waiting(each.key, each.group, (), Tally(), each.priority)
        needs = each.needs()
        placed = session.room.place(needs, within=session.reserved.within(None))
        if isinstance(placed, Shortage):
            session.refuse(gang, Reason(NO_ROOM, f"nothing is held for the gang yet; {placed.sentence}"))
            continue
        session.charge(gang, placed, times=1)
        session.reasons.pop(each.key, None)
        found.append(Hold(each.key, each.n, tuple(_places(each, placed, names=session.room.layout.names))))
    return tuple(found)


def _places(each: Preparing, spots: Sequence[Spot], *, names: Sequence[str]) -> Iterator[tuple[str, str, int]]:
    """Spots of one shape come task by task: two tasks may have the same one."""
    ahead: dict[PodShape, deque[Spot]] = {}
    for spot in spots:
        ahead.setdefault(spot.shape, deque()).append(spot)
    for (task, count), (shape, _) in zip(each.gang.minima(), each.needs(), strict=True):
        while count > 0:
            spot = ahead[shape].popleft()
            yield task.name, names[spot.row], spot.count
            count -= spot.count
