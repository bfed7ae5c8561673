"""The reservation of one session: in everybody's way but that of the gang for which it is made, and of gangs that have ended
before it matters.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Final

import numpy as np

from apis.vectors import ResourceVector, total
from member_agent.aspects import plain
from member_agent.room import Mask, Room, Spot
from member_agent.scheduling.gates import NOBODY
from member_agent.scheduling.reservations import Reservation, kept_of, shadow_of
from member_agent.scheduling.tenants import Limits, Tenant, There
from policies.shapes import PodShape

if TYPE_CHECKING:
    from member_agent.scheduling.session import OpenSession
    from member_agent.scheduling.snapshot import Waiting

MOST_NODES: Final = 512
"""Nodes of a reservation that are looked at one by one; a larger one keeps them whole."""

NOBODYS: Final = -math.inf
"""Less than any priority."""

Needs = Sequence[tuple[PodShape, int]]


class Reserved:
    """What is kept since it was made in this session. `remembered`: of the round before."""

    def __init__(self, session: OpenSession, *, remembered: Reservation | None, there: There, limits: Limits) -> None:
        self._session = session
        self._remembered = remembered
        self._there = there
        self._limits = limits
        self.made: Reservation | None = None
        self._rows: Mask | None = None
        self._spots: list[Spot] = []
        """What is taken off the room: of the free room, what nobody else gets."""
        self._away = False
        self._owner: float | None = None
        """Priority of the gang that had it before, once somebody asked."""

    # --- reading -----------------------------------------------------------------------------------------------------

    @property
    def told(self) -> str:
        """`, 3 kept for <gang>`, or nothing."""
        return "" if self.made is None else f", {len(self.made.nodes)} kept for {self.made.name}"

    def within(self, domain: Mask | None) -> Mask | None:
        """Rows of a domain where others may be placed at all."""
        if self.made is None or not self.made.whole or self._away or self._rows is None:
            return domain
        return ~self._rows if domain is None else domain & ~self._rows

    def open_to(self, gang: Waiting) -> Mask | None:
        """Rows on which pods may be evicted for a gang; None for all."""
        return None if self.made is None or self.made.gang == gang.key or self._rows is None else ~self._rows

    # --- making it ---------------------------------------------------------------------------------------------------

    def again(self, gang: Waiting, needs: Needs) -> Reservation | None:
        """What was kept before, where it still holds: for this gang, or for one that is as important and waits too."""
        found = self._remembered
        if found is None:
            return None
        if found.gang != gang.key:
            if self._owner is None:  # asked once: a thousand gangs may find no room behind it
                self._owner = next((each.priority for each in self._session.unserved() if each.key == found.gang), NOBODYS)
            mine = self._owner >= gang.priority
        else:
            mine = self._is_for(found, needs) and self._admitted(found, needs)
        placed = self._placed() if mine else {}
        return found if mine and all(self._holds(node, wanted, placed) for node, wanted in found.wants().items()) else None

    @staticmethod
    def _is_for(found: Reservation, needs: Needs) -> bool:
        """Whether the gang still needs what it needed."""
        there, wanted = Counter[PodShape](), Counter[PodShape]()
        for place in found.places:
            there[plain(place.shape)] += place.count
        for shape, count in needs:
            wanted[plain(shape)] += count
        return there == wanted

    def _admitted(self, found: Reservation, needs: Needs) -> bool:
        session = self._session
        shapes = {plain(shape): shape for shape, _ in needs}
        rows = ((session.turnover.row_of(place.node), shapes[plain(place.shape)]) for place in found.places)
        return all(row is not None and bool(session.room.admitted(shape)[row]) for row, shape in rows)

    def seats(self, gang: Waiting, needs: Needs) -> tuple[Spot, ...]:
        """Where the gang starts, taken, once all that it waits for is free there, however else its pods might be packed; else
        nothing."""
        found = self._remembered
        if found is None or found.gang != gang.key or found.whole or not self._is_for(found, needs):
            return ()
        session, shapes = self._session, {plain(shape): shape for shape, _ in needs}
        room, columns = session.room, session.room.layout.columns
        for node, wanted in found.wants().items():
            row = session.turnover.row_of(node)
            if row is None or any(name not in columns or room.free[row, columns[name]] < wanted[name] for name in wanted):
                return ()
        if not self._admitted(found, needs):
            return ()
        places = ((session.turnover.row_of(each.node), shapes[plain(each.shape)], each.count) for each in found.places)
        spots = tuple(Spot(row, shape, count) for row, shape, count in places if row is not None)
        for spot in spots:
            room.take(spot)
        return spots

    def _holds(self, node: str, wanted: ResourceVector, placed: Mapping[str, Sequence[Tenant]]) -> bool:
        """Whether so much would be free on a node once the gangs there have ended, those placed a moment ago too."""
        room, row = self._session.room, self._session.turnover.row_of(node)
        if row is None or room.ending is None or not room.layout.usable[row]:
            return False
        back = total(each.requests for each in placed.get(node, ()))
        at = room.layout.columns
        return all(
            name in at and amount <= room.free[row, at[name]] + room.ending[row, at[name]] + back.get(name)
            for name, amount in wanted.items()
        )

    def _placed(self) -> Mapping[str, Sequence[Tenant]]:
        """What this session placed, by node."""
        found: dict[str, list[Tenant]] = {}
        for each in self._session.bindings:
            found.setdefault(each.node, []).append(Tenant(each.pod.shape.requests))
        return found

    def make(self, reservation: Reservation) -> None:
        """From now on nobody else gets what it wants."""
        wants = sorted(reservation.wants().items())
        if len(wants) > MOST_NODES:
            self.foresee(dataclasses.replace(reservation, whole=True, kept=(), shadow=math.inf))
            return
        placed, kept, shadow = self._placed(), [], 0.0
        room, columns = self._session.room, self._session.room.layout.columns
        for node, wanted in wants:
            row = self._session.turnover.row_of(node)
            if row is not None:
                free = {name: int(room.free[row, columns[name]]) for name in wanted}
                tenants = (*self._there(node), *placed.get(node, ()))
                kept.append((node, kept_of(wanted, free, tenants)))
                shadow = max(shadow, shadow_of(wanted, free, tenants))
        self.foresee(dataclasses.replace(reservation, kept=() if reservation.whole else tuple(kept), shadow=shadow))

    def foresee(self, reservation: Reservation) -> None:
        """Keep exactly what was kept in another session."""
        rows = [row for node in reservation.nodes if (row := self._session.turnover.row_of(node)) is not None]
        self._rows = np.zeros(len(self._session.room.layout.names), dtype=np.bool_)
        self._rows[rows] = True
        found = ((self._session.turnover.row_of(node), amounts) for node, amounts in reservation.kept)
        self._spots = [Spot(row, PodShape(amounts), 1) for row, amounts in found if row is not None and amounts]
        self.made = reservation
        self._change(self._session.room, 1)

    def drop(self, *rooms: Room) -> None:
        """Keep nothing any more; `rooms`: from which it was taken off."""
        for room in rooms:
            self._change(room, -1)
        self.made, self._rows, self._spots = None, None, []

    # --- out of the way ----------------------------------------------------------------------------------------------

    def aside(self, gang: Waiting) -> AbstractContextManager[None]:
        """For a gang that it is kept for, or that has ended before it can start there."""
        made = self.made
        if made is None or not (made.gang == gang.key or self._ends_before(gang, made)):
            return NOBODY
        return self._aside(gang, lambda: self._session.decided)

    @contextmanager
    def _aside(self, gang: Waiting, decided: Callable[[], int]) -> Iterator[None]:
        before, self._away = decided(), True
        self._change(self._session.room, -1)
        try:
            yield
        finally:
            self._away = False
            if self.made is not None and self.made.gang == gang.key and decided() > before:
                self.made, self._rows, self._spots = None, None, []
            else:
                self._change(self._session.room, 1)

    def lend(self, room: Room, *, times: int) -> None:
        """Give what is kept back to a room of later, for the gang that it is kept for; -1 takes it off again."""
        self._change(room, -times)

    def _ends_before(self, gang: Waiting, made: Reservation) -> bool:
        if math.isinf(made.shadow):
            return False
        ends = self._limits.would_end(gang.pods, hub=gang.group.admitted, now=self._session.now)
        return ends <= made.shadow

    def _change(self, room: Room, sign: int) -> None:
        """Without a word to the plugins: no pod comes or goes."""
        told, room.told = room.told, None
        for spot in self._spots:
            room.take(spot) if sign > 0 else room.give_back([spot])
        room.told = told
