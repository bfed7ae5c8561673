"""Dominant resource fairness: who holds the smaller share of what they use most goes first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from apis.vectors import ResourceVector
from machinery.informer import Key
from member_agent.scheduling.plugins.hooks import Hook
from member_agent.scheduling.plugins.protocol import Ballot, Nothing, Order, Plugin, Session, Victim, Vote
from member_agent.scheduling.snapshot import Waiting
from member_agent.scheduling.usage import add
from policies.shares import Leaf, Steps, dominant, hierarchical

SAME: Final = 1e-6
"""Shares that differ by no more than this are equal."""


class Drf(Plugin):
    """Gangs by their dominant share; with enableHierarchy also queues, by their place in the annotated hierarchy."""

    name = "drf"

    def __init__(self, arguments: Nothing, *, session: Session, hooks: frozenset[Hook] = frozenset(Hook)) -> None:
        deep = Hook.HIERARCHY in hooks
        super().__init__(arguments, session=session, hooks=hooks if deep else hooks - {Hook.QUEUE_ORDER})
        self._total = session.total
        self._wanting: frozenset[str] | None = None
        self._steps: tuple[tuple[int, bool], Mapping[str, Steps]] | None = None
        """By queue, and after which change of the books they were worked out."""

    def job_order(self, gang: Waiting) -> Order:
        return dominant(self.session.holds(gang.key), self._total)

    def namespace_order(self, queue: str, *, namespace: str, promised: bool) -> Order:
        """By the dominant share of what a namespace has in the queue, over its weight."""
        spaces = self.session.namespaces
        amounts = dict(spaces.held(queue, namespace))
        if promised:
            for name, amount in spaces.promised(queue, namespace).items():
                amounts[name] = amounts.get(name, 0) + amount
        return dominant(amounts, self._total) / spaces.weight(namespace)

    def preemptable(self, gang: Waiting, *, victims: Sequence[Victim]) -> Sequence[Victim]:
        """Pods of gangs that hold at least as large a share without them as the gang does with what it asks for."""
        share = self._with(self.session.holds(gang.key), gang)
        left: dict[Key, dict[str, int]] = {}
        found = []
        for victim in victims:
            held = left.setdefault(victim.gang, dict(self.session.holds(victim.gang)))
            add(held, victim.pod.shape.requests, times=-1)
            if share <= dominant(held, self._total) + SAME:
                found.append(victim)
            else:
                add(held, victim.pod.shape.requests, times=1)
        return found

    def entitled(self, gang: Waiting, *, request: ResourceVector) -> Ballot:
        """With enableHierarchy every queue that is behind by the tree; `lends` says behind whom."""
        return Vote.PERMIT if Hook.HIERARCHY in self.hooks else Vote.ABSTAIN

    def lends(self, gang: Waiting, *, victims: Sequence[Victim]) -> Sequence[Victim] | None:
        """With enableHierarchy pods of queues that are ahead by the tree even after the exchange."""
        if Hook.HIERARCHY not in self.hooks:
            return None
        held = {name: dict(self.session.held(name)) for name in self.session.queues}
        own = held.get(gang.group.queue)
        if own is None:
            return []
        for pod in gang.pods:
            add(own, pod.shape.requests, times=1)
        return [victim for victim in victims if victim.queue in held and self._ahead(gang.group.queue, victim, held)]

    def _ahead(self, queue: str, victim: Victim, held: dict[str, dict[str, int]]) -> bool:
        """Whether the victim's queue is served after the other one, all exchanged; then the victim is taken out."""
        add(held[victim.queue], victim.pod.shape.requests, times=-1)
        leaves = {name: replace(self._leaf(name, blocked=False), held=amounts) for name, amounts in held.items()}
        steps = hierarchical(list(leaves.values()), available=self._total)
        if steps[leaves[queue].path] < steps[leaves[victim.queue].path]:
            return True
        add(held[victim.queue], victim.pod.shape.requests, times=1)
        return False

    def _with(self, held: Mapping[str, int], gang: Waiting) -> float:
        amounts = dict(held)
        for pod in gang.pods:
            add(amounts, pod.shape.requests, times=1)
        return dominant(amounts, self._total)

    def queue_order(self, queue: str) -> Order:
        """By the tree; only with enableHierarchy."""
        state = (self.session.changes, self.session.promises_count)
        if self._steps is None or self._steps[0] != state:
            self._steps = state, self._worked_out()
        return self._steps[1].get(queue, ())

    def _worked_out(self) -> Mapping[str, Steps]:
        if self._wanting is None:
            self._wanting = frozenset(gang.group.queue for gang in self.session.gangs)
        leaves = {name: self._leaf(name, blocked=name not in self._wanting) for name in self.session.queues}
        steps = hierarchical(list(leaves.values()), available=self._total)
        return {name: steps[leaf.path] for name, leaf in leaves.items()}

    def _leaf(self, name: str, *, blocked: bool) -> Leaf:
        queue = self.session.queues[name]
        path = tuple(step for step in queue.hierarchy.split("/")[1:] if step) or (name,)
        weights = [_weight(text) for text in queue.hierarchy_weights.split("/")[1:]]
        return Leaf(path, tuple((weights + [1] * len(path))[: len(path)]), self.session.held(name), blocked)


def _weight(text: str) -> int:
    try:
        return max(int(float(text)), 1)
    except (ValueError, OverflowError):
        return 1
