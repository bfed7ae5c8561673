"""Gangs for which others may be evicted: let in, valid, with pods that found no node, and starving as the plugins see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from member_agent.scheduling.actions.allocate import best_effort, split
from member_agent.scheduling.lanes import Lanes
from member_agent.scheduling.session import OpenSession
from member_agent.scheduling.snapshot import Waiting
from member_agent.views import PodView

Clear = Callable[[Sequence[PodView]], bool]
"""Clears room for some pods of a gang together."""


class Starving:
    """The starving gangs of one session as one action finds them."""

    def __init__(self, session: OpenSession) -> None:
        self._session = session
        self._gangs = [gang for gang in session.unserved() if self._starves(gang)]

    def __bool__(self) -> bool:
        return bool(self._gangs)

    def _starves(self, gang: Waiting) -> bool:
        session = self._session
        if gang.key in session.turnover.holders.spent or best_effort(gang) or self._provided(gang):
            return False
        if session.closed(gang) is not None and not gang.group.admitted:
            return False
        return session.tiers.job_valid(gang) is None and session.tiers.job_starving(gang, placed=gang.tally.placed)

    def _provided(self, gang: Waiting) -> bool:
        """Whether room is kept for it that is enough, or that it has beside its minimum."""
        session = self._session
        if gang.key not in session.turnover.kept:
            return False
        if session.tiers.job_ready(gang, placed=gang.tally.placed):
            return True
        first, _ = split(gang, session.tiers.tasks_in_order(gang.pods))
        return session.turnover.covered(gang.key, pods=len(first))

    def in_order(self) -> Iterator[Waiting]:
        """The best queue's best gang, one after the other; in a queue that is first in, first out only the first."""
        session = self._session
        queues: dict[str, Lanes] = {}
        for gang in self._gangs:
            name = gang.group.queue
            if gang.key in session.turnover.changed:
                continue  # it was served a moment ago
            if name not in queues:
                queues[name] = session.lanes(name, promised=False)
            queues[name].push((session.tiers.job_order(gang), gang), namespace=gang.group.namespace)
        while queues:
            name = min(queues, key=session.tiers.queue_order)
            gang = queues[name].pop()[-1]
            if not queues[name]:
                del queues[name]
            queue = session.queues.get(gang.group.queue)
            stopped = session.stopped.get(gang.group.queue)
            if queue is not None and queue.fifo and stopped is not None and stopped.key != gang.key:
                continue
            yield gang

    def serve(self, gang: Waiting, clear: Clear) -> None:
        """Clear room for its minimum together, then for one pod after the other for as long as it starves."""
        tiers = self._session.tiers
        placed = dict(gang.tally.placed)
        pods = list(tiers.tasks_in_order(gang.pods))
        if not tiers.job_ready(gang, placed=placed):
            first, pods = split(gang, pods)
            if not clear(first):
                return
            _count(placed, first)
        for pod in pods:
            if not tiers.job_starving(gang, placed=placed) or not clear([pod]):
                return
            _count(placed, [pod])


def _count(placed: dict[str, int], pods: Sequence[PodView]) -> None:
    for pod in pods:
        placed[pod.task] = placed.get(pod.task, 0) + 1
