"""Room on nodes that is spoken for although no pod is there: holds of gangs over clusters, and nodes nominated for pods.

The inventory counts holds already; a gang that comes for its own finds that room free, and is tried there first. A node that
another scheduler nominated for a pod keeps room for it against gangs of equal or lower priority, as in kube-scheduler.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

import numpy as np

from machinery.informer import Key
from member_agent.inventory import Held
from member_agent.room import Mask, Spot
from member_agent.scheduling.gates import NOBODY
from member_agent.views import PodView

if TYPE_CHECKING:
    from member_agent.scheduling.session import OpenSession
    from member_agent.scheduling.snapshot import Waiting


class Claims:
    """The claims of one session."""

    def __init__(self, session: OpenSession, *, held: Mapping[Key, Sequence[Held]], nominated: Sequence[PodView]) -> None:
        self._session = session
        self._held = {key: self._spots((each.node, each) for each in entries) for key, entries in held.items()}
        self._nominated = [(pod.priority, spot) for pod in nominated for spot in self._spots([(pod.nominated, pod)])]
        self._own: Mask | None = None
        self._change([spot for _, spot in self._nominated], 1)

    def _spots(self, places: Iterable[tuple[str, Held | PodView]]) -> list[Spot]:
        found = ((self.row(node), each.shape) for node, each in places)
        columns = self._session.room.layout.columns
        return [Spot(row, shape, 1) for row, shape in found if row is not None and shape.requests.keys() <= columns.keys()]

    @property
    def none(self) -> bool:
        """Nothing is spoken for."""
        return not self._held and not self._nominated

    def row(self, node: str) -> int | None:
        """The row of a node; None for one that is not there."""
        names = self._session.room.layout.names
        at = bisect_left(names, node)
        return at if at < len(names) and names[at] == node else None

    def _count(self, spots: Sequence[Spot], sign: int) -> None:
        """What is held for a gang itself: pods around are counted with it, and its own must not keep one another away."""
        self._change(spots, sign)
        for spot in spots:
            if spot.shape.minds_others:
                self._session.surroundings.told(spot, sign)

    def _change(self, spots: Sequence[Spot], sign: int) -> None:
        """Without a word to the plugins: no pod comes or goes."""
        room = self._session.room
        told, room.told = room.told, None
        for spot in spots:
            room.take(spot) if sign > 0 else room.give_back([spot])
        room.told = told

    def aside(self, gang: Waiting) -> AbstractContextManager[None]:
        """For one gang: its own hold is free to it, and so is what pods of lower priority are nominated for."""
        return self._aside(gang) if self._nominated or gang.key in self._held else NOBODY

    @contextmanager
    def _aside(self, gang: Waiting) -> Iterator[None]:
        own = self._held.get(gang.key, [])
        lower = [spot for priority, spot in self._nominated if priority < gang.priority]
        self._change(lower, -1)
        self._count(own, -1)
        self._session.charge(gang, own, times=-1)
        self._own = self._mask(spot.row for spot in own) if own else None
        before = self._session.decided
        try:
            yield
        finally:
            self._own = None
            self._change(lower, 1)
            if own and self._session.decided > before:
                del self._held[gang.key]
            else:
                self._count(own, 1)
                self._session.charge(gang, own, times=1)

    def places(self, pods: Sequence[PodView], domains: Iterable[Mask | None]) -> Iterator[Mask | None]:
        """Where to try the gang that others are `aside` for: where room is held for it, on nodes nominated for its pods, then
        anywhere."""
        if self._own is not None:
            yield self._own
        rows = [row for pod in pods if pod.nominated and (row := self.row(pod.nominated)) is not None]
        if rows:
            yield self._mask(rows)
        yield from domains

    def owns(self, domain: Mask | None) -> bool:
        """Whether these nodes are tried because room is held on them: nobody else's reservation counts there."""
        return domain is not None and domain is self._own

    def _mask(self, rows: Iterable[int]) -> Mask:
        mask = np.zeros(len(self._session.room.layout.names), dtype=np.bool_)
        mask[list(rows)] = True
        return mask
