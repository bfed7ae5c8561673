"""Dominant resource fairness: who holds the smaller share of what they use most goes first."""

from __future__ import annotations

from member_agent.scheduling.plugins.hooks import Hook
from member_agent.scheduling.plugins.protocol import Nothing, Order, Plugin, Session
from member_agent.scheduling.snapshot import Waiting
from policies.shares import Leaf, dominant, hierarchical


class Drf(Plugin):
    """Gangs by their dominant share; with enableHierarchy also queues, by their place in the annotated hierarchy."""

    name = "drf"

    def __init__(self, arguments: Nothing, *, session: Session, hooks: frozenset[Hook] = frozenset(Hook)) -> None:
        super().__init__(arguments, session=session, hooks=hooks)
        self._total = session.total

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

    def queue_order(self, queue: str) -> Order:
        if Hook.HIERARCHY not in self.hooks:
            return 0
        wanting = {gang.group.queue for gang in self.session.gangs}
        leaves = {name: self._leaf(name, blocked=name not in wanting) for name in self.session.queues}
        steps = hierarchical(list(leaves.values()), available=self._total)
        return steps[leaves[queue].path] if queue in leaves else ()

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
