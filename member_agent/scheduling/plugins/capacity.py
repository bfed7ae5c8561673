"""Queues have what they are said to deserve, lend what they do not use, and never go beyond what they may have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict, Field

from apis import keys
from apis.vectors import EMPTY, ResourceVector, total
from member_agent.scheduling.plugins.hooks import Hook
from member_agent.scheduling.plugins.lending import beyond_deserved, lent
from member_agent.scheduling.plugins.protocol import Allowance, Ballot, Figures, Order, Plugin, Session, Victim, Vote
from member_agent.scheduling.plugins.sentences import over_limit
from member_agent.scheduling.quantities import plain
from member_agent.scheduling.snapshot import Waiting
from policies.shares import Limit, QueueShare, limits, share

NO_LIMIT = Limit(EMPTY, EMPTY, EMPTY)


class Arguments(BaseModel):
    """Of capacity."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ancestor_reclaim_level: int = Field(
        default=0, ge=0, alias="ancestorReclaimLevel", description="subtrees within what they deserve are protected so far up"
    )


class Capacity(Plugin):
    """With enableHierarchy limits hold along the whole way up and only leaves hold gangs; without it queues are flat."""

    name = "capacity"
    arguments = Arguments

    def __init__(self, arguments: Arguments, *, session: Session, hooks: frozenset[Hook] = frozenset(Hook)) -> None:
        super().__init__(arguments, session=session, hooks=hooks)
        self._deep = Hook.HIERARCHY in hooks
        self._level = arguments.ancestor_reclaim_level
        self._limits = limits(session.total, {queue.name: self._share(queue.name) for queue in session.queues.values()})

    def _share(self, name: str) -> QueueShare:
        queue = self.session.queues[name]
        above = self.session.lineage(name)
        return QueueShare(
            name,
            parent=above[1] if self._deep and len(above) > 1 else keys.ROOT_QUEUE,
            weight=queue.weight,
            guarantee=queue.guarantee,
            deserved=queue.deserved,
            capability=queue.ceiling,
        )

    def _path(self, queue: str) -> Sequence[str]:
        return self.session.lineage(queue) if self._deep else (queue,)

    def _held(self, queue: str) -> Mapping[str, int]:
        return self.session.held(queue, alone=not self._deep)

    def limit(self, queue: str) -> Limit:
        """Nothing for a queue that is not there."""
        return self._limits.get(queue, NO_LIMIT)

    def figures(self, queue: str) -> Figures:
        limit = self.limit(queue)
        return Figures(limit.deserved, limit.most, share(self._held(queue), limit.deserved))

    def queue_order(self, queue: str) -> Order:
        """By how much of what it deserves each holds, from the top down; who deserves nothing counts as having all of it."""
        found = []
        for name in reversed(self._path(queue)):
            queued = self.session.queues.get(name)
            deserves = queued is not None and bool(queued.deserved)
            found.append(share(self._held(name), self.limit(name).deserved) if deserves else 1.0)
        return tuple(found[1:] if self._deep else found)

    def allocatable(self, queue: str, *, request: ResourceVector, pods: int) -> Allowance:
        return self._least(queue, {name: self._held(name) for name in self._path(queue)}, request=request, pods=pods)

    def _least(self, queue: str, held: Mapping[str, Mapping[str, int]], *, request: ResourceVector, pods: int) -> Allowance:
        """The smallest allowance on the way up."""
        least = Allowance(pods)
        for name in self._path(queue):
            of = "what it may have"
            found = over_limit(name, held[name], self.limit(name).most, request=request, pods=pods, of=of)
            least = found if found.pods < least.pods else least
        return least

    def entitled(self, gang: Waiting, *, request: ResourceVector) -> Ballot:
        """Its queue deserves it, and so does every queue above it that says what it deserves."""
        queue = gang.group.queue
        for name in self._path(queue):
            if name == queue or self._named(name):
                found = beyond_deserved(name, self._held(name), self._named(name), request)
                if found is not None:
                    return found
        return Vote.PERMIT

    def lends(self, gang: Waiting, *, victims: Sequence[Victim]) -> Sequence[Victim]:
        """With ancestorReclaimLevel N the queue and the N queues above it must be beyond what they deserve."""
        above = set(self._path(gang.group.queue))
        return lent(
            victims,
            request=total(pod.shape.requests for pod in gang.pods),
            held=self._held,
            deserved=self._named,
            guarantee=lambda name: self.limit(name).guarantee,
            path=lambda name: [each for each in self._path(name) if each not in above],
            levels=1 + (self._level if self._deep else 0),
        )

    def _named(self, queue: str) -> ResourceVector:
        """What a queue is said to deserve, within what it may have; nothing for one that only borrows."""
        found = self.session.queues.get(queue)
        deserved = self.limit(queue).deserved
        return ResourceVector({name: deserved.get(name) for name in found.deserved}) if found is not None else EMPTY

    def job_enqueueable(self, gang: Waiting) -> Ballot:
        queue, session = gang.group.queue, self.session
        spoken = {
            name: ResourceVector(self._held(name)) + ResourceVector(session.promised(name, alone=not self._deep))
            for name in self._path(queue)
        }
        found = self._least(queue, spoken, request=plain(gang.group.min_resources), pods=1)
        if found.reason is not None:
            for name in spoken:
                spoken[name] = spoken[name] - ResourceVector(session.elastic(name, alone=not self._deep))
            found = self._least(queue, spoken, request=plain(gang.group.min_resources), pods=1)
        return found.reason or Vote.PERMIT
