"""Pods that may have to make room, the one that should go first in front, as arrays by row.

The order (protocol.md 6): lower priority, then pods whose gang stands without them, then the queue that is furthest over what
it deserves, then the latest start.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from member_agent.room import Amounts, Mask, Room
from member_agent.scheduling.plugins.gang import floors_of
from member_agent.scheduling.plugins.protocol import Victim
from member_agent.scheduling.session import OpenSession
from member_agent.scheduling.standing import Standing
from member_agent.views import PodView
from policies.shapes import PodShape

Price = tuple[int, int, int, int]
"""Of one more place on a row: level and number of the victims, the rank of the last of them, and the row."""


class Candidates:
    """Victims in their order; of pods that this session evicted already there are none."""

    def __init__(self, victims: Sequence[Victim], *, columns: Mapping[str, int], queues: Sequence[str] = ()) -> None:
        """`queues`: those of the victims, the one furthest over what it deserves first."""
        over = {name: index for index, name in enumerate(queues)}
        latest = sorted(sorted(victims, key=lambda each: each.pod.uid), key=lambda each: each.pod.created, reverse=True)
        self._victims = sorted(latest, key=lambda each: (*level_key(each), over.get(each.queue, 0)))
        self._rank = {victim.pod.uid: index for index, victim in enumerate(self._victims)}
        self._rows = np.array([victim.row for victim in self._victims], dtype=np.intp)
        self._requests = _table([victim.pod.shape for victim in self._victims], columns)
        self._on: dict[int, list[Victim]] = {}
        for victim in self._victims:
            self._on.setdefault(victim.row, []).append(victim)

    def __iter__(self) -> Iterator[Victim]:
        return iter(self._victims)

    def __len__(self) -> int:
        return len(self._victims)

    def rank(self, victim: Victim) -> int:
        """Its place in the order."""
        return self._rank[victim.pod.uid]

    def on(self, row: int) -> Sequence[Victim]:
        """Those on one node, in their order."""
        return self._on.get(row, ())

    def freed(self, free: Amounts, *, out: Collection[str]) -> Amounts:
        """What would be free if all of them went that are not `out`."""
        found = free.copy()
        there = self._there(out)
        np.add.at(found, self._rows[there], self._requests[there])
        return found

    def _there(self, out: Collection[str]) -> Mask:
        return np.array([victim.pod.uid not in out for victim in self._victims], dtype=np.bool_)

    def prices(self, room: Room, shape: PodShape, *, within: Mask, out: Collection[str]) -> list[Price]:
        """A heap of what a place for one more pod of the shape costs on each row where the candidates there, in their order,
        could free enough. `out`: UIDs of those that go already."""
        ranks = np.flatnonzero(within[self._rows] & self._there(out))
        if not len(ranks):
            return []
        ranks = ranks[np.argsort(self._rows[ranks], kind="stable")]
        rows = self._rows[ranks]
        columns = np.array([room.layout.columns[name] for name in shape.requests], dtype=np.intp)
        asked = np.array(list(shape.requests.values()), dtype=np.int64)
        freed = np.cumsum(self._requests[np.ix_(ranks, columns)], axis=0)
        start = np.searchsorted(rows, rows)  # of each entry, where the entries of its row begin
        before = np.where(start[:, None] > 0, freed[start - 1], 0)
        enough = np.flatnonzero((room.free[np.ix_(rows, columns)] + freed - before >= asked).all(axis=1))
        _, first = np.unique(rows[enough], return_index=True)
        heap = []
        for at in enough[first].tolist():
            rank = int(ranks[at])
            heap.append((level_of(self._victims[rank]), int(at - start[at]) + 1, rank, int(rows[at])))
        heapq.heapify(heap)
        return heap


def _table(shapes: Sequence[PodShape], columns: Mapping[str, int]) -> Amounts:
    vectors: dict[PodShape, Amounts] = {}
    for shape in shapes:
        if shape not in vectors:
            vectors[shape] = np.zeros(len(columns), dtype=np.int64)
            for name, amount in shape.requests.items():
                vectors[shape][columns[name]] = amount
    return np.array([vectors[shape] for shape in shapes], dtype=np.int64).reshape(len(shapes), len(columns))


def level_key(victim: Victim) -> tuple[int, bool]:
    """What weighs most: its priority, and whether its gang falls below its minimum without it."""
    return victim.priority, victim.breaks


def level_of(victim: Victim) -> int:
    """The same as one number."""
    return victim.priority * 2 + victim.breaks


def candidates_of(session: OpenSession, stands: Sequence[Standing], *, queues: Sequence[str] = ()) -> Candidates:
    """Pods of these gangs that may go at all: on nodes that are known, not protected, not on their way already."""
    holders = session.turnover.holders
    gone = holders.stuck | holders.going.keys() | {each.pod.uid for each in session.turnover.evictions}
    victims = [victim for each in stands for victim in victims_of(session, each) if victim.pod.uid not in gone]
    return Candidates(victims, columns=session.room.layout.columns, queues=queues)


def victims_of(session: OpenSession, stands: Standing) -> list[Victim]:
    """The pods of a gang as victims; the last started are those without which it stands."""
    surplus = _surplus(stands, session.turnover.know(stands))
    found = []
    for pod in stands.pods:
        row = session.turnover.row_of(pod.node)
        if row is not None and pod.manner.preemptable:
            group, key = stands.group, stands.key
            found.append(Victim(pod, row, key, group.queue, stands.priority, group=group, breaks=pod.uid not in surplus))
    return found


def _surplus(stands: Standing, placed: Mapping[str, int]) -> set[str]:
    """UIDs of the pods that can all go together and leave the gang its minimum, the latest first."""
    left, lowest = dict(placed), floors_of(stands.group)
    total, found = sum(left.values()), set[str]()
    order: list[PodView] = sorted(stands.pods, key=lambda pod: pod.uid)
    for pod in sorted(order, key=lambda pod: pod.created, reverse=True):
        if total - 1 >= stands.group.min_member and left.get(pod.task, 0) - 1 >= lowest.get(pod.task, 0):
            total -= 1
            left[pod.task] -= 1
            found.add(pod.uid)
    return found
