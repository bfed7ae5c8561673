"""Queues share the cluster by weight: who asks for less leaves the rest to the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from apis.vectors import EMPTY, ResourceVector, total
from member_agent.scheduling.plugins.hooks import Hook
from member_agent.scheduling.plugins.lending import beyond_deserved, lent
from member_agent.scheduling.plugins.protocol import Allowance, Ballot, Figures, Nothing, Order, Plugin, Session, Victim, Vote
from member_agent.scheduling.plugins.sentences import at_limit, over_limit
from member_agent.scheduling.quantities import plain
from member_agent.scheduling.reasons import Reason
from member_agent.scheduling.snapshot import Waiting
from policies.shares import Claim, QueueShare, dominant, fill, limits, share


class Proportion(Plugin):
    """What each queue deserves is filled in by weight up to what it asks for; guarantees are floors, capabilities ceilings.
    Queues are flat here: each shares with all others, whatever its parent."""

    name = "proportion"

    def __init__(self, arguments: Nothing, *, session: Session, hooks: frozenset[Hook] = frozenset(Hook)) -> None:
        super().__init__(arguments, session=session, hooks=hooks)
        flat = {
            queue.name: QueueShare(queue.name, weight=queue.weight, guarantee=queue.guarantee, capability=queue.ceiling)
            for queue in session.queues.values()
        }
        self._most = {name: limit.most for name, limit in limits(session.total, flat).items()}
        claims = [
            Claim(queue.name, queue.weight, self._wanted(queue.name), queue.guarantee, self._ceiling(queue.name))
            for queue in session.queues.values()
        ]
        self._deserved = fill(session.total, claims)

    def _wanted(self, queue: str) -> ResourceVector:
        return ResourceVector(self.session.held(queue, alone=True)) + ResourceVector(self.session.wanted(queue))

    def _ceiling(self, queue: str) -> Mapping[str, int]:
        """By every resource of the cluster, nothing included."""
        most = self._most[queue]
        return {name: most.get(name) for name in self.session.total}

    def deserved(self, queue: str) -> ResourceVector:
        """What a queue deserves now; nothing for one that is not there."""
        return self._deserved.get(queue, EMPTY)

    def figures(self, queue: str) -> Figures:
        deserved = self.deserved(queue)
        return Figures(deserved, self._most.get(queue, EMPTY), share(self.session.held(queue, alone=True), deserved))

    def queue_order(self, queue: str) -> Order:
        held = self.session.held(queue, alone=True)
        if self.session.promises_count:
            # Groups that are not let in ask for nothing yet: what their queues will deserve goes by weight.
            view = self.session.queues.get(queue)
            return dominant(held, self.session.total) / max(view.weight if view is not None else 1, 1)
        return share(held, self.deserved(queue))

    def overused(self, queue: str) -> Reason | None:
        held, deserved = self.session.held(queue, alone=True), self.deserved(queue)
        if deserved and all(held.get(name, 0) >= amount for name, amount in deserved.items()):
            return Reason("QueueOverused", f"queue {queue} has its share: {at_limit(held, deserved)}")
        return None

    def allocatable(self, queue: str, *, request: ResourceVector, pods: int) -> Allowance:
        held: Mapping[str, int] = self.session.held(queue, alone=True)
        return over_limit(queue, held, self.deserved(queue), request=request, pods=pods, of="its share")

    def entitled(self, gang: Waiting, *, request: ResourceVector) -> Ballot:
        queue = gang.group.queue
        found = beyond_deserved(queue, self.session.held(queue, alone=True), self._shares(queue), request)
        return found or Vote.PERMIT

    def lends(self, gang: Waiting, *, victims: Sequence[Victim]) -> Sequence[Victim]:
        return lent(
            victims,
            request=total(pod.shape.requests for pod in gang.pods),
            held=lambda name: self.session.held(name, alone=True),
            deserved=self._shares,
            guarantee=lambda name: self.session.queues[name].guarantee if name in self.session.queues else EMPTY,
            path=lambda name: (name,),
        )

    def _shares(self, queue: str) -> Mapping[str, int]:
        """What it deserves of every resource of the cluster, nothing included."""
        deserved = self.deserved(queue)
        return {name: deserved.get(name) for name in self.session.total}

    def job_enqueueable(self, gang: Waiting) -> Ballot:
        queue, wanted = gang.group.queue, plain(gang.group.min_resources)
        session = self.session
        spoken = ResourceVector(session.held(queue, alone=True)) + ResourceVector(session.promised(queue, alone=True))
        most, of = self._most.get(queue, EMPTY), "what it may have"
        found = over_limit(queue, spoken, most, request=wanted, pods=1, of=of)
        if found.reason is not None and (elastic := session.elastic(queue, alone=True)):
            found = over_limit(queue, spoken - ResourceVector(elastic), most, request=wanted, pods=1, of=of)
        return found.reason or Vote.PERMIT
