"""The books of one session: what queues, namespaces and gangs hold, were promised and want, given away in it included.

Amounts are milli units by resource. Whatever is tried is entered and taken out again; `changes` tells who works something out
of the books when to do it anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from apis import keys
from apis.vectors import ResourceVector
from machinery.informer import Key
from member_agent.room import Room, Spot, runs, sums
from member_agent.scheduling.namespaces import Namespaces
from member_agent.scheduling.quantities import plain
from member_agent.scheduling.snapshot import Snapshot, Waiting
from member_agent.scheduling.usage import NOTHING, Amounts, add, add_to_all
from member_agent.views import PodView, QueueView
from policies.shapes import PodShape
from policies.shares import QueueShare, lineage


class Books:
    """What plugins may look at and actions enter; a session has them."""

    room: Room
    queues: Mapping[str, QueueView]
    waiting: tuple[Waiting, ...]

    def _open_books(self, snapshot: Snapshot) -> None:
        """As the session begins."""
        layout = self.room.layout
        size, free, off = self.room.size, sums(self.room.free), ~layout.usable
        away, left = sums(self.room.allocatable[off]), sums(self.room.free[off])
        names = layout.columns.items()
        self._used: Amounts = {name: used for name, at in names if (used := size[at] - free[at])}
        # Nodes that take no pods count with what they hold: it is held, and nobody may have more of it.
        self.total = ResourceVector({name: size[at] - left[at] for name, at in names if at < len(size) and (size[at] or away)})
        self._shares = {name: QueueShare(name, parent=view.parent or keys.ROOT_QUEUE) for name, view in self.queues.items()}
        self._paths: dict[str, tuple[str, ...]] = {}
        self._held_alone: dict[str, Amounts] = {name: dict(held) for name, held in snapshot.held.items()}
        self._held: dict[str, Amounts] = self._raised(self._held_alone)
        self._promised_alone: dict[str, Amounts] = {}
        self._wanted: dict[str, Amounts] = {}
        with_pods = {gang.key for gang in self.waiting}
        for group in snapshot.expected:
            asked = plain(group.min_resources)
            add(self._promised_alone.setdefault(group.queue, {}), asked, times=1)
            if (group.namespace, group.name) not in with_pods:
                add(self._wanted.setdefault(group.queue, {}), asked, times=1)
        self._promised = self._raised(self._promised_alone)
        for gang in self.waiting:
            for shape, pods in by_shape(gang.pods):
                add(self._wanted.setdefault(gang.group.queue, {}), shape.requests, times=len(pods))
        self._holds = snapshot.holds
        self.namespaces = Namespaces(snapshot)
        self.promises_count = False
        self.changes = 0
        self._given: dict[Key, Amounts] = {}
        self._entered_in: dict[str, tuple[Amounts, ...]] = {}

    def _raised(self, alone: Mapping[str, Amounts]) -> dict[str, Amounts]:
        """With what queues under each hold."""
        found: dict[str, Amounts] = {}
        for name, amounts in alone.items():
            for each in self.lineage(name):
                add(found.setdefault(each, {}), amounts, times=1)
        return found

    # --- reading -----------------------------------------------------------------------------------------------------

    @property
    def used(self) -> ResourceVector:
        """What pods of anybody hold."""
        return ResourceVector(self._used)

    def lineage(self, queue: str) -> tuple[str, ...]:
        """The queue and its ancestors, root last."""
        found = self._paths.get(queue)
        if found is None:
            path = lineage(queue, self._shares)
            found = self._paths[queue] = path
        return found

    def held(self, queue: str, *, alone: bool = False) -> Mapping[str, int]:
        """What pods of a queue hold."""
        held = (self._held_alone if alone else self._held).get(queue, NOTHING)
        if not self.promises_count:
            return held
        both = dict(held)
        add(both, self.promised(queue, alone=alone), times=1)
        return both

    def promised(self, queue: str, *, alone: bool = False) -> Mapping[str, int]:
        """What was promised to groups of a queue."""
        return (self._promised_alone if alone else self._promised).get(queue, NOTHING)

    def wanted(self, queue: str) -> Mapping[str, int]:
        """What pods of one queue without nodes ask for, as the session began."""
        return self._wanted.get(queue, NOTHING)

    def holds(self, gang: Key) -> Mapping[str, int]:
        """What pods of a gang hold."""
        given = self._given.get(gang)
        return given if given is not None else self._holds(gang)

    # --- entering ----------------------------------------------------------------------------------------------------

    def promise(self, queue: str, amounts: Mapping[str, int], *, times: int, of_all: bool = True) -> None:
        """Enter what groups of a queue were promised, or take it out again; in the cluster's book only if `of_all`."""
        self.changes += 1
        add(self._promised_alone.setdefault(queue, {}), amounts, times=times)
        for name in self.lineage(queue):
            if of_all or name != keys.ROOT_QUEUE:
                add(self._promised.setdefault(name, {}), amounts, times=times)

    def keep(self, queue: str, amounts: Mapping[str, int], *, times: int) -> None:
        """Enter what a queue keeps for pods without nodes, or take it out again."""
        self.changes += 1
        books = [self._used, self._held_alone.setdefault(queue, {})]
        for book in (*books, *(self._held.setdefault(each, {}) for each in self.lineage(queue))):
            add(book, amounts, times=times)

    def want(self, queue: str, amounts: Mapping[str, int], *, times: int) -> None:
        """Enter what pods of a queue ask for, or take it out again; before the plugins look."""
        add(self._wanted.setdefault(queue, {}), amounts, times=times)

    def charge(self, gang: Waiting, spots: Sequence[Spot], *, times: int) -> None:
        """Enter what was given to a gang, or take it out again."""
        self.account(gang.key, gang.group.queue, spots, times=times)

    def account(self, gang: Key, queue: str, spots: Sequence[Spot], *, times: int) -> None:
        """The same for a gang that is known by name and queue only: one that has all its nodes, for one."""
        self.changes += 1
        given = self._given.get(gang)
        if given is None:
            given = self._given[gang] = dict(self._holds(gang))
        books = (given, *self._books_of(queue), self.namespaces.book(queue, gang[0]))
        if len(spots) == 1:
            add_to_all(books, spots[0].shape.requests, times=times * spots[0].count)
            return
        for shape, listed in runs(spots):
            add_to_all(books, shape.requests, times=times * sum(spot.count for spot in listed))

    def _books_of(self, queue: str) -> tuple[Amounts, ...]:
        """Where what a queue holds is entered."""
        known = self._entered_in.get(queue)
        if known is None:
            above = [self._held.setdefault(name, {}) for name in self.lineage(queue)]
            known = self._entered_in[queue] = (self._used, self._held_alone.setdefault(queue, {}), *above)
        return known

    @contextmanager
    def entered(self, gang: Waiting, spots: Sequence[Spot]) -> Iterator[None]:
        """With this in the books, whatever room there is: to ask what a queue would say."""
        self.charge(gang, spots, times=1)
        try:
            yield
        finally:
            self.charge(gang, spots, times=-1)

    @contextmanager
    def emptied(self, queue: str) -> Iterator[None]:
        """As if the queue held nothing: to ask what it could hold at all."""
        held = dict(self._held_alone.get(queue, NOTHING))
        books = [self._held_alone.setdefault(queue, {}), *(self._held.setdefault(each, {}) for each in self.lineage(queue))]
        self.changes += 1
        for book in books:
            add(book, held, times=-1)
        try:
            yield
        finally:
            self.changes += 1
            for book in books:
                add(book, held, times=1)


def by_shape(pods: Sequence[PodView]) -> list[tuple[PodShape, list[PodView]]]:
    """Equal pods together, in the order of their first pod."""
    if len(pods) == 1:
        return [(pods[0].shape, [pods[0]])]
    grouped: dict[PodShape, list[PodView]] = {}
    last: PodShape | None = None
    for pod in pods:
        if pod.shape is not last:  # equal shapes mostly are one object
            last = pod.shape
            listed = grouped.setdefault(last, [])
        listed.append(pod)
    return list(grouped.items())
