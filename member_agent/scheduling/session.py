"""One session: the snapshot, the plugins that are asked about it, the books of what is given away, and what was decided.

Actions work on a session one after the other. Whatever they try for a gang is a Statement: it is committed as a whole or
rolled back, and then nothing is left of it, neither in the room nor in the books.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from machinery.informer import Key
from member_agent.room import Mask, Room, Spot, runs
from member_agent.scheduling.books import Books
from member_agent.scheduling.books import by_shape as by_shape
from member_agent.scheduling.claims import Claims
from member_agent.scheduling.configuration import Configuration
from member_agent.scheduling.decisions import Binding, Plan
from member_agent.scheduling.gates import Gates
from member_agent.scheduling.lanes import Lanes
from member_agent.scheduling.plugins.registry import Registry
from member_agent.scheduling.plugins.tiers import Tiers
from member_agent.scheduling.quantities import plain
from member_agent.scheduling.reasons import Reason
from member_agent.scheduling.reserved import Reserved
from member_agent.scheduling.seeing import Sight
from member_agent.scheduling.snapshot import Snapshot, Tally, Waiting
from member_agent.scheduling.storage import Stock
from member_agent.scheduling.surroundings import Surroundings
from member_agent.scheduling.turnover import Turnover
from member_agent.scheduling.usage import Amounts, add
from member_agent.views import PodView, QueueView
from policies.shapes import PodShape


class OpenSession(Books):
    """The session that plugins see (`plugins.protocol.Session`) and actions work on."""

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        configuration: Configuration,
        registry: Registry,
        most: int | None = None,
        timer: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`most`: so many pods are placed before the session ends and leaves the rest to another one; `timer` in seconds."""
        self.configuration = configuration
        self.most = most
        self.cut_short = False
        self.room: Room = snapshot.room
        self.now = snapshot.now
        self.preparing = snapshot.preparing
        self.queues: Mapping[str, QueueView] = snapshot.queues
        self.waiting = snapshot.waiting
        known = {gang.key: gang for gang in snapshot.waiting}
        self.candidates = tuple(
            known.get((group.namespace, group.name)) or Waiting((group.namespace, group.name), group, (), Tally(), priority)
            for group, priority in snapshot.candidates
        )
        self.gangs: Sequence[Waiting] = (*self.waiting, *(each for each in self.candidates if each.key not in known))
        self.stopped: dict[str, Waiting] = {}
        """By queue that is first in, first out: the gang that nobody behind it passes."""
        self.reasons: dict[Key, Reason] = {}
        self._bindings: list[Binding] = []
        self._admitted: dict[Key, None] = {}
        self._open_books(snapshot)
        self.sites, self.quotas, self.budgets = snapshot.sites, snapshot.quotas, snapshot.budgets
        self.unmade = [
            (group, missing)
            for group in snapshot.expected
            if (missing := group.min_member - snapshot.made((group.namespace, group.name))) > 0
        ]
        self.let_in_now: list[Waiting] = []
        self.surroundings = Surroundings(self.room.layout, snapshot.around)
        self.stock = Stock(self.room.layout, snapshot.storage)
        mounts = any(pod.claims for gang in snapshot.waiting for pod in gang.pods)
        self.gates = Gates(self, shut=snapshot.shut, passed=snapshot.passed)
        self.claims = Claims(self, held=snapshot.berths, nominated=snapshot.nominated)
        self.turnover = Turnover(self, snapshot)
        self.reserved = Reserved(self, remembered=snapshot.reservation, there=snapshot.there, limits=snapshot.limits)
        self.tiers: Tiers = registry.open(configuration, session=self, timer=timer)
        self.room.rules = self.tiers
        self._sight = Sight(self.tiers)
        if self.tiers.sees_more:
            self._look()
        self.room.near = self.tiers
        self.room.told = self._told if self.tiers.keeps_books or mounts or snapshot.around.members else None
        self.turnover.occupy()
        self.room.keep(rules=(configuration, registry), local=self.tiers.local, measured=self.tiers.measured)

    def _look(self) -> None:
        """See gangs as plugins see them."""
        self.waiting = self._sight.of(self.waiting)
        known = {gang.key: gang for gang in self.waiting}
        self.candidates = tuple(known.get(gang.key, gang) for gang in self.candidates)
        self.gangs = tuple(known.get(gang.key, gang) for gang in self.gangs)

    def _told(self, spot: Spot, sign: int) -> None:
        """The room was changed."""
        if spot.shape.minds_others:
            self.surroundings.told(spot, sign)
            self.stock.told(spot, sign)
        self.tiers.told(spot, sign)

    # --- what actions do ---------------------------------------------------------------------------------------------

    def closed(self, gang: Waiting) -> Reason | None:
        """Why its queue takes nothing new."""
        name = gang.group.queue
        queue = self.queues.get(name)
        if queue is None:
            return Reason("QueueMissing", f"queue {name} does not exist")
        return None if queue.open else Reason("QueueClosed", f"queue {name} is {queue.state}")

    def admit(self, gang: Waiting) -> None:
        """Let a group in: its minimum is promised from now on."""
        self._admitted[gang.key] = None
        self.let_in_now.append(gang)
        self.reasons.pop(gang.key, None)
        asked = plain(gang.group.min_resources)
        self.namespaces.promise(gang.group.queue, gang.group.namespace, asked)
        self.promise(gang.group.queue, asked, times=1)

    def order_at_the_door(self, queue: str) -> Any:
        """The key of a queue when groups are let in: what was promised counts like what is held."""
        self.promises_count = True
        try:
            return self.tiers.queue_order(queue)
        finally:
            self.promises_count = False

    def lanes(self, queue: str, *, promised: bool) -> Lanes:
        """A queue's line of gangs, none in it yet. `promised`: what namespaces were promised counts like what they hold."""
        view = self.queues.get(queue)
        if not self.tiers.tells_namespaces or (view is not None and view.fifo):
            return Lanes(None)
        return Lanes(lambda namespace: self.tiers.namespace_order(queue, namespace=namespace, promised=promised))

    def let_in(self, gang: Waiting) -> bool:
        """Whether its pods may be placed: the hub or a session let it in."""
        return gang.group.admitted or gang.group.phase != "Pending" or gang.key in self._admitted

    def refuse(self, gang: Waiting, reason: Reason) -> None:
        """Say why it waits; the last word counts."""
        self.reasons[gang.key] = reason

    def bind(self, pods: Sequence[PodView], spots: Sequence[Spot]) -> None:
        """Decide bindings: the spots of each shape go to its pods, in order."""
        self.gates.placed(pods)
        names = self.room.layout.names
        if len(spots) == 1 and spots[0].count == 1:
            self._bindings.append(Binding(pods[0], names[spots[0].row]))
            return
        ahead = {shape: iter(listed) for shape, listed in by_shape(pods)}
        for shape, listed in runs(spots):
            nodes = [names[spot.row] for spot in listed for _ in range(spot.count)]
            self._bindings += map(Binding, islice(ahead[shape], len(nodes)), nodes)

    def start(self, gang: Waiting, pods: Sequence[PodView], spots: Sequence[Spot]) -> bool:
        """Bind pods to room that was taken for them; unless a plugin wants more before any is bound: then it is given back."""
        statement = Statement(self, gang)
        statement.take(pods, spots)
        if not self.tiers.job_ready(gang, placed=statement.placed):
            statement.roll_back()
            return False
        statement.commit()
        self.reasons.pop(gang.key, None)
        return True

    @property
    def going(self) -> Sequence[PodView]:
        """Pods whose eviction this session decided or looks at, and those decided before that nobody has seen leave yet."""
        return [*self.turnover.holders.going.values(), *(victim.pod for victim in self.turnover.out.values())]

    def elastic(self, queue: str, *, alone: bool = False) -> Mapping[str, int]:
        """What gangs of a queue (and, unless `alone`, of queues under it) hold beyond their minima, as the session began."""
        if alone:
            return self.turnover.elastic(queue)
        found: Amounts = {}
        for name in self.turnover.holders.queues():
            if queue in self.lineage(name):
                add(found, self.turnover.elastic(name), times=1)
        return found

    def standing(self, gang: Key) -> Mapping[str, int]:
        """Pods of a gang that hold nodes or succeeded, by task, less those that this session evicts."""
        return self.turnover.standing(gang)

    def open_to(self, gang: Waiting) -> Mask | None:
        """Nodes whose room waits for nobody else; None for all."""
        return self.reserved.open_to(gang)

    def unserved(self) -> list[Waiting]:
        """Gangs that were let in and still want nodes, with the pods for which this session found none."""
        served = Counter((binding.pod.namespace, binding.pod.group) for binding in self._bindings)
        bound = {binding.pod.uid: binding.pod for binding in self._bindings}
        found = []
        for gang in self.waiting:
            if gang.key in served:
                placed = Counter(gang.tally.placed)
                placed.update(pod.task for pod in gang.pods if pod.uid in bound)
                left = tuple(pod for pod in gang.pods if pod.uid not in bound)
                gang = replace(gang, pods=left, tally=replace(gang.tally, placed=dict(placed)))
            if gang.pods and self.let_in(gang):
                found.append(gang)
        return found

    @property
    def bindings(self) -> Sequence[Binding]:
        """Those decided so far."""
        return self._bindings

    @property
    def decided(self) -> int:
        """Bindings so far."""
        return len(self._bindings)

    @property
    def spent(self) -> bool:
        """Whether as many pods were placed as one session may place."""
        return self.most is not None and len(self._bindings) >= self.most

    def plan(self) -> Plan:
        """What was decided."""
        return Plan(
            self._sight.bared(self._bindings),
            tuple(self._admitted),
            self.reasons,
            wakes=self.tiers.wakes(),
            reservation=self.reserved.made,
            more=self.cut_short,
            opened=tuple(self.gates.opened),
            evictions=tuple(self.turnover.evictions),
            earmarks=tuple(self.turnover.changed.values()),
            ended=self.turnover.ended,
            nominated=self._sight.bared(self.turnover.nominated),
        )


class Statement:
    """What is tried for one gang. Nothing of it is seen by others before `commit`, nothing is left of it after `roll_back`."""

    def __init__(self, session: OpenSession, gang: Waiting) -> None:
        self._session = session
        self._gang = gang
        self._pods: list[PodView] = []
        self.spots: list[Spot] = []
        self.placed: dict[str, int] = dict(gang.tally.placed)
        """Pods with nodes by task, those of this statement included."""

    def take(self, pods: Sequence[PodView], spots: Sequence[Spot]) -> None:
        """Room was taken for these pods, in their order within each shape; some of them may be left without a spot."""
        self._session.charge(self._gang, spots, times=1)
        self.spots += spots
        if len(pods) == 1:
            if spots:
                self._pods += pods
                self.placed[pods[0].task] = self.placed.get(pods[0].task, 0) + 1
            return
        got: dict[PodShape, int] = {}
        for shape, taken in runs(spots):
            got[shape] = got.get(shape, 0) + sum(spot.count for spot in taken)
        for shape, listed in by_shape(pods):
            chosen = listed[: got.get(shape, 0)]
            self._pods += chosen
            for pod in chosen:
                self.placed[pod.task] = self.placed.get(pod.task, 0) + 1

    def commit(self) -> None:
        """All of it happens."""
        self._session.bind(self._pods, self.spots)

    def roll_back(self) -> None:
        """None of it happened."""
        self._session.room.give_back(self.spots)
        self._session.charge(self._gang, self.spots, times=-1)
        self.placed = dict(self._gang.tally.placed)
        self.spots, self._pods = [], []


def ordered(queues: Mapping[str, Lanes], *, order: Callable[[str], Any]) -> Iterator[Waiting]:
    """Gangs in the order in which they are tried: the best queue's best gang, one after the other. What was given away in
    between counts for the queue that is asked next."""
    ahead = [(order(name), name) for name, lanes in queues.items() if lanes]
    heapq.heapify(ahead)
    while ahead:
        key, name = heapq.heappop(ahead)
        current = order(name)
        if current > key and ahead and current > ahead[0][0]:
            heapq.heappush(ahead, (current, name))  # it was given something since: keys only grow
            continue
        yield queues[name].pop()[-1]
        if queues[name]:
            heapq.heappush(ahead, (order(name), name))
