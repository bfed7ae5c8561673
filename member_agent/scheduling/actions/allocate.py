"""Gives nodes to gangs that were let in: queue by queue, gang by gang, the minimum whole or not at all, then what is above it.

Gangs that the hub admitted pass the limits of local queues: these account for them and never refuse them (protocol.md 6).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, nullcontext
from typing import Final

from apis.vectors import total
from member_agent.room import Mask, Shortage, Spot
from member_agent.scheduling.actions.choosing import choose
from member_agent.scheduling.actions.enqueue import behind
from member_agent.scheduling.actions.reserving import reserve
from member_agent.scheduling.decisions import NO_ROOM
from member_agent.scheduling.lanes import Lanes
from member_agent.scheduling.plugins.gang import floors
from member_agent.scheduling.reasons import Reason
from member_agent.scheduling.session import OpenSession, Statement, by_shape
from member_agent.scheduling.snapshot import Waiting
from member_agent.views import PodView
from policies.shapes import PodShape

NOT_LET_IN: Final = Reason("NotInqueue", "the group waits for its queue")


def allocate(session: OpenSession) -> Iterator[None]:
    """Best-effort gangs are backfill's."""
    if "enqueue" not in session.configuration.actions:
        _let_all_in(session)
    session.turnover.redeem()
    yield from Allocation(session, [gang for gang in session.waiting if not best_effort(gang) and willing(session, gang)]).run()
    session.gates.open()


def _let_all_in(session: OpenSession) -> None:
    """Nobody else lets them in."""
    for gang in session.candidates:
        reason = session.closed(gang)
        if reason is None:
            session.admit(gang)
        else:
            session.refuse(gang, reason)


def willing(session: OpenSession, gang: Waiting) -> bool:
    """Whether the gang may be tried; else it is told why not. One for which room is being cleared has its nodes, or waits."""
    if gang.key in session.turnover.met:
        return False
    if not session.let_in(gang):
        session.reasons.setdefault(gang.key, NOT_LET_IN)
        return False
    invalid = session.tiers.job_valid(gang)
    if invalid is not None:
        session.refuse(gang, invalid)
    return invalid is None


def best_effort(gang: Waiting) -> bool:
    """No pod of it asks for anything but its own place."""
    for pod in gang.pods:
        for name in pod.shape.requests:
            if name != "pods":
                return False
    return True


class Allocation:
    """One pass over gangs; `shared`: the shares and limits of queues count."""

    def __init__(self, session: OpenSession, gangs: Iterable[Waiting], *, shared: bool = True) -> None:
        self._session = session
        self._shared = shared
        self._tiers = session.tiers
        self._queues: dict[str, Lanes] = {}
        self._stopped = session.stopped
        self._kept: dict[str, tuple[Waiting, list[Spot]]] = {}
        """By queue, the first gang that the queue's limit keeps out, and what it needs: nobody else of the queue gets that."""
        self._reserves = "backfill" in session.configuration.actions
        for gang in gangs:
            self._push(gang, gang.pods, again=False)

    def _push(self, gang: Waiting, pods: Sequence[PodView], *, again: bool) -> None:
        entry = (self._tiers.job_order(gang), again, gang, pods)  # keys end in the gang's own: no two are equal
        name = gang.group.queue
        lanes = self._queues.get(name)
        if lanes is None:
            lanes = self._queues[name] = self._session.lanes(name, promised=False)
        lanes.push(entry, namespace=gang.key[0])

    def run(self) -> Iterator[None]:
        """Until every gang was tried, or the session has placed as much as one may; pauses after each."""
        ahead = [(self._tiers.queue_order(name), name) for name in self._queues]
        heapq.heapify(ahead)
        while ahead:
            if self._session.spent:
                self._session.cut_short = True
                return
            key, name = heapq.heappop(ahead)
            current = self._tiers.queue_order(name)
            if current > key and ahead and current > ahead[0][0]:
                heapq.heappush(ahead, (current, name))  # it was given something since
                continue
            _, again, gang, pods = self._queues[name].pop()
            self._try(gang, pods, again=again)
            if self._queues[name]:
                heapq.heappush(ahead, (self._tiers.queue_order(name), name))
            yield

    def _try(self, gang: Waiting, pods: Sequence[PodView], *, again: bool) -> None:
        ready = again or self._tiers.job_ready(gang, placed=gang.tally.placed)
        with self._session.claims.aside(gang), self._session.reserved.aside(gang):
            reason = self._barred(gang)
            if reason is None and not ready and self._alone(gang, pods):
                return
            if reason is None:
                reason = self._more(gang, pods, again=again) if ready else self._minimum(gang)
        if reason is None:
            return
        if not again:
            self._session.refuse(gang, reason)
        queue = self._session.queues.get(gang.group.queue)
        if queue is not None and queue.fifo and not (ready or gang.group.admitted):
            self._stopped.setdefault(queue.name, gang)  # who has its minimum has had its turn

    def _barred(self, gang: Waiting) -> Reason | None:
        """What keeps local gangs of the queue from being tried."""
        if gang.group.admitted:
            return None
        if gang.group.queue not in self._session.queues:
            return self._session.closed(gang)
        first = behind(gang, self._stopped.get(gang.group.queue))
        with self._session.gates.aside(gang.key):
            return first or (self._tiers.overused(gang.group.queue) if self._shared else None)

    def _alone(self, gang: Waiting, pods: Sequence[PodView]) -> bool:
        """Place a gang of one pod for which nothing is special; False, and nothing done, where it is not one, or finds no place
        so simply. It gets what `_minimum` would give it; most gangs of a busy cluster are such."""
        session, tiers, pod = self._session, self._tiers, pods[0]
        group = gang.group
        if len(pods) > 1 or gang.tally.placed or group.min_member != 1 or group.min_task_member or group.queue in self._kept:
            return False
        if tiers.tells_domains or pod.nominated or not session.claims.none or not session.gates.none:
            return False
        limited = self._shared and not group.admitted
        if limited and tiers.allocatable(group.queue, request=pod.shape.requests, pods=1).pods < 1:
            return False
        spots = session.room.place_some(pod.shape, 1, within=self._open(None))
        if not spots:
            return False
        session.charge(gang, spots, times=1)
        if not tiers.job_ready(gang, placed={pod.task: 1}):
            session.room.give_back(spots)
            session.charge(gang, spots, times=-1)
            return False
        session.bind(pods, spots)
        session.reasons.pop(gang.key, None)
        return True

    # --- the minimum -------------------------------------------------------------------------------------------------

    def _minimum(self, gang: Waiting) -> Reason | None:
        pods = self._tiers.tasks_in_order(gang.pods)
        first, rest = split(gang, pods)
        full = self._full(gang, first)
        needs = [(shape, len(pods)) for shape, pods in by_shape(first)]
        short: Shortage | None = None
        for domain in self._session.claims.places(first, self._tiers.domains(gang)):
            within = self._open(domain)
            placed = self._session.room.place(needs, within=within)
            if not isinstance(placed, Shortage):
                if full is None:
                    return self._commit(gang, first, placed, rest)
                self._session.room.give_back(placed)
            other = choose(
                self._session, gang, pods, within=within, allowed=lambda shape, count: self._allowed(gang, shape, count)[0]
            )
            if other is not None:
                return self._commit(gang, other.pods, other.spots, other.rest)
            if not isinstance(placed, Shortage):
                short = None
                break
            short = short or placed
        seats = self._session.reserved.seats(gang, needs) if short is not None and full is None else ()
        if seats:
            return self._commit(gang, first, seats, rest)
        return self._waits(gang, needs, full=full, short=short)

    def _waits(
        self, gang: Waiting, needs: Sequence[tuple[PodShape, int]], *, full: Reason | None, short: Shortage | None
    ) -> Reason | None:
        """Why it waits, and what is kept for it meanwhile: nothing where its queue could not hold it even if it were empty."""
        kept = self._session.reserved.told
        if self._reserves and (full is None or self._possible(gang, needs)):
            if full is not None:
                self._kept.setdefault(gang.group.queue, (gang, [Spot(0, shape, count) for shape, count in needs]))
            if short is not None:
                reserve(self._session, gang, needs)
        if short is None:
            return full
        text = f"{gang.tally.total_placed} of {gang.group.min_member} pods of the gang have nodes; {short.sentence}{kept}"
        return Reason(NO_ROOM, text if full is None else f"{text}; {full.sentence}")

    def _possible(self, gang: Waiting, needs: Sequence[tuple[PodShape, int]]) -> bool:
        """Whether its queue could hold it if it held nothing else."""
        with self._session.emptied(gang.group.queue):
            return self._over(gang, needs) is None

    def _commit(
        self, gang: Waiting, first: Sequence[PodView], placed: Sequence[Spot], rest: Sequence[PodView]
    ) -> Reason | None:
        statement = Statement(self._session, gang)
        statement.take(first, placed)
        if not self._tiers.job_ready(gang, placed=statement.placed):
            statement.roll_back()
            return Reason("NotReady", f"{len(first)} pods found nodes, but a plugin asks for more before any is bound")
        statement.commit()
        self._session.reasons.pop(gang.key, None)
        if rest:
            self._push(gang, rest, again=True)
        return None

    def _full(self, gang: Waiting, pods: Sequence[PodView]) -> Reason | None:
        """Which limit of its queue keeps these pods out together."""
        if gang.group.admitted or not self._shared:
            return None
        needs = [(shape, len(listed)) for shape, listed in by_shape(pods)]
        with self._session.gates.aside(gang.key):
            return self._beyond(gang, needs)

    def _beyond(self, gang: Waiting, needs: Sequence[tuple[PodShape, int]]) -> Reason | None:
        """The limit that is passed, by these pods or by them beside what the queue keeps."""
        full = self._over(gang, needs)
        kept = self._kept.get(gang.group.queue)
        if full is not None or kept is None:
            return full
        with self._session.entered(*kept):
            return None if self._over(gang, needs) is None else self._behind(kept)

    @staticmethod
    def _behind(kept: tuple[Waiting, list[Spot]]) -> Reason:
        first, spots = kept
        amount = total(spot.shape.requests * spot.count for spot in spots)
        return Reason("QueueKept", f"queue {first.group.queue} keeps {amount} for {first.group.name}, which waits before it")

    def _over(self, gang: Waiting, needs: Sequence[tuple[PodShape, int]]) -> Reason | None:
        """The limit that is passed; in the books alone, so that one shape counts beside the other. No row is touched."""
        if len(needs) == 1:
            ((shape, count),) = needs
            found = self._tiers.allocatable(gang.group.queue, request=shape.requests, pods=count)
            return found.reason if found.pods < count else None
        with ExitStack() as books:
            for index, (shape, count) in enumerate(needs, start=1):
                found = self._tiers.allocatable(gang.group.queue, request=shape.requests, pods=count)
                if found.pods < count:
                    return found.reason
                if index < len(needs):
                    books.enter_context(self._session.entered(gang, [Spot(0, shape, count)]))
        return None

    # --- above it ----------------------------------------------------------------------------------------------------

    def _more(self, gang: Waiting, pods: Sequence[PodView], *, again: bool) -> Reason | None:
        """As many as the queue and the nodes take; a reason only where none was placed."""
        statement = Statement(self._session, gang)
        reason: Reason | None = None
        for shape, listed in by_shape(self._tiers.tasks_in_order(pods)):
            allowed, full = self._allowed(gang, shape, len(listed))
            reason = reason or full
            spots = self._session.room.place_some(shape, allowed, within=self._open(None)) if allowed else ()
            statement.take(listed, spots)
        statement.commit()
        if statement.spots:
            return None
        return reason or Reason(NO_ROOM, self._surplus(pods))

    def _allowed(self, gang: Waiting, shape: PodShape, pods: int) -> tuple[int, Reason | None]:
        """How many of the pods its queue takes, and what stops the rest."""
        if gang.group.admitted or not self._shared:
            return pods, None
        kept = self._kept.get(gang.group.queue)
        with self._session.gates.aside(gang.key), self._session.entered(*kept) if kept is not None else nullcontext():
            found = self._tiers.allocatable(gang.group.queue, request=shape.requests, pods=pods)
        return found.pods, found.reason if kept is None or found.reason is None else self._behind(kept)

    # --- inside ------------------------------------------------------------------------------------------------------

    def _open(self, domain: Mask | None) -> Mask | None:
        """Nodes of the domain that wait for nobody else."""
        return domain if self._session.claims.owns(domain) else self._session.reserved.within(domain)

    def _surplus(self, pods: Sequence[PodView]) -> str:
        shape, listed = by_shape(pods)[0]
        short = self._session.room.explain(shape, count=len(listed), placed=0)
        return f"the gang has its minimum; {short}{self._session.reserved.told}"


def split(gang: Waiting, pods: Sequence[PodView]) -> tuple[list[PodView], list[PodView]]:
    """The pods that complete the minimum of each task and of the gang, and the rest; the first of them first."""
    lowest = floors(gang)
    if not lowest:
        lacking = max(gang.group.min_member - gang.tally.total_placed, 0)
        return list(pods[:lacking]), list(pods[lacking:])
    missing = {task: max(floor - gang.tally.placed.get(task, 0), 0) for task, floor in lowest.items()}
    first: list[PodView] = []
    rest: list[PodView] = []
    for pod in pods:
        chosen = missing.get(pod.task, 0) > 0
        (first if chosen else rest).append(pod)
        if chosen:
            missing[pod.task] -= 1
    lacking = max(gang.group.min_member - gang.tally.total_placed - len(first), 0)
    return first + rest[:lacking], rest[lacking:]
