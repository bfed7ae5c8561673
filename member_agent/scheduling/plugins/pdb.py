"""Evictions respect PodDisruptionBudgets: no more pods go than these allow to be disrupted."""

from __future__ import annotations

from collections.abc import Sequence

from member_agent.scheduling.plugins.hooks import Hook
from member_agent.scheduling.plugins.protocol import Nothing, Plugin, Session, Victim
from member_agent.scheduling.snapshot import Waiting
from member_agent.views import PodView
from member_agent.views.budgets import BudgetView


class Pdb(Plugin):
    """What a budget allows is what its controller last said, less what goes since: by this session, or on its way out."""

    name = "pdb"

    def __init__(self, arguments: Nothing, *, session: Session, hooks: frozenset[Hook] = frozenset(Hook)) -> None:
        super().__init__(arguments, session=session, hooks=hooks)
        self._covering: dict[str, Sequence[BudgetView]] = {}

    def preemptable(self, gang: Waiting, *, victims: Sequence[Victim]) -> Sequence[Victim]:
        if not self.session.budgets:
            return victims
        spent: dict[str, int] = {}
        for pod in self.session.going:
            for budget in self._budgets(pod):
                spent[budget.uid] = spent.get(budget.uid, 0) + 1
        return [victim for victim in victims if self._allows(victim.pod, spent)]

    def reclaimable(self, gang: Waiting, *, victims: Sequence[Victim]) -> Sequence[Victim]:
        return self.preemptable(gang, victims=victims)

    def _allows(self, pod: PodView, spent: dict[str, int]) -> bool:
        """Whether all budgets allow it beside those before it; then it is counted."""
        budgets = self._budgets(pod)
        if any(spent.get(budget.uid, 0) >= budget.allowed for budget in budgets):
            return False
        for budget in budgets:
            spent[budget.uid] = spent.get(budget.uid, 0) + 1
        return True

    def _budgets(self, pod: PodView) -> Sequence[BudgetView]:
        found = self._covering.get(pod.uid)
        if found is None:
            labels = dict(pod.labels + pod.own_labels)
            there = self.session.budgets.get(pod.namespace, ())
            found = self._covering[pod.uid] = [budget for budget in there if budget.covers(labels)]
        return found
