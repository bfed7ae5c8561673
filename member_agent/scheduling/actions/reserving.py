"""Keeps room on nodes for the first gang that finds none, so that nothing that passes it delays it.

The gang gets nodes on which it would fit once the gangs there have ended, those that are emptiest now, and has them until it
starts: what becomes free there and what it wants of it stays free. What others may have there meanwhile `reservations` says.
What other pods hold (those of daemons, of other schedulers) is never expected to come back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from member_agent.aspects import plain
from member_agent.room import Amounts, Columns, Layout, Mask, Room, Scores
from member_agent.scheduling.companions import APART, AWAY, SPREAD
from member_agent.scheduling.earmarks import Place
from member_agent.scheduling.reservations import Reservation
from member_agent.scheduling.session import OpenSession
from member_agent.scheduling.snapshot import Waiting
from member_agent.scheduling.storage import FULL, HELD
from policies.shapes import PodShape

PASSING: Final = frozenset({APART, AWAY, SPREAD, FULL, HELD})
"""What pods rule out that are there, and no longer when they have ended."""


@dataclass(frozen=True, slots=True)
class _Emptiest:
    """The nodes that the session's rules accept, those with the largest free share now first."""

    now: Room
    scores_nodes: bool = True

    def predicate(self, layout: Layout, shape: PodShape) -> Mask:
        return self.now.admitted(shape)

    def limits(self, columns: Columns, shape: PodShape) -> Amounts:
        company = self.now.company(shape)
        alone = shape.one_per_node or (company is not None and company.alone)
        return np.full(len(columns.rows), 1 if alone else np.iinfo(np.int64).max, dtype=np.int64)

    def node_order(self, columns: Columns, shape: PodShape) -> Scores:
        least = np.ones(len(columns.rows))
        for name in shape.requests:
            column = columns.column(name)
            if column is not None:
                size = np.maximum(columns.allocatable[:, column], 1)
                np.minimum(least, self.now.free[columns.rows, column] / size, out=least)
        return least


def reserve(session: OpenSession, gang: Waiting, needs: Sequence[tuple[PodShape, int]]) -> None:
    """Reserve nodes for a gang's needs, if none are reserved yet and the cluster could hold it at all: the same ones as before
    where they still hold."""
    if session.reserved.made is None and session.room.ending is not None:
        found = session.reserved.again(gang, needs) or _chosen(session, gang, needs)
        if found is not None:
            session.reserved.make(found)


def _chosen(session: OpenSession, gang: Waiting, needs: Sequence[tuple[PodShape, int]]) -> Reservation | None:
    room = session.room
    assert room.ending is not None
    later = Room(room.layout, room.free + room.ending, room.allocatable, rules=_Emptiest(room))
    names, places = room.layout.names, []
    for shape, count in needs:
        spots = later.place_some(shape, count, within=_open_one_day(room, shape))
        if sum(spot.count for spot in spots) < count:
            return None
        places += [Place(names[spot.row], plain(shape), spot.count) for spot in spots]
    # Where ports or pods around decide too, room in amounts is not what it waits for alone.
    whole = any(shape.minds_others or shape.one_per_node for shape, _ in needs)
    return Reservation(gang.key, gang.group.name, tuple(places), whole=whole)


def _open_one_day(room: Room, shape: PodShape) -> Mask | None:
    """Rows that nothing shuts but pods that will end: who waits for a volume, or for pods to sit beside, waits for no room."""
    company = room.company(shape)
    if company is None:
        return None
    mask = np.ones(len(room.layout.names), dtype=np.bool_)
    for text, closed in company.shut:
        if text not in PASSING:
            mask &= ~closed
    return mask
