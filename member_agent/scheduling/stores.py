"""What the scheduler looks at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from machinery.informer import Informer
from member_agent.scheduling.mounting import StorageStores
from member_agent.views import GroupView, JobView, NodeView, PodView, PriorityView, QueueView
from member_agent.views.budgets import BudgetView
from member_agent.views.namespaces import NamespaceView
from member_agent.views.quotas import QuotaView


@dataclass(frozen=True, slots=True)
class Stores:
    """The informers this role reads."""

    pods: Informer[PodView]
    nodes: Informer[NodeView]
    groups: Informer[GroupView]
    queues: Informer[QueueView]
    priorities: Informer[PriorityView]
    jobs: Informer[JobView] | None = None
    """None: no gang over clusters prepares here."""
    quotas: Informer[QuotaView] | None = None
    """None: nobody's quota is looked at."""
    budgets: Informer[BudgetView] | None = None
    """None: nobody's disruption budget is looked at."""
    storage: StorageStores | None = None
    """None: volumes decide nothing."""
    namespaces: Informer[NamespaceView] | None = None
    """None: terms that select namespaces by their labels select those without any."""

    async def wait_synced(self) -> None:
        """Until all of them have seen what there is."""
        needed = (self.nodes, self.pods, self.groups, self.queues, self.priorities)
        optional = (self.quotas, self.budgets, self.jobs, self.namespaces, self.storage)
        for each in (*needed, *optional):
            if each is not None:
                await each.wait_synced()


T = TypeVar("T", BudgetView, QuotaView)


def by_namespace(stored: Informer[T] | None) -> Mapping[str, Sequence[T]]:
    """Objects by namespace, in the order of names; none where nobody looks at them."""
    found: dict[str, list[T]] = {}
    for each in sorted(stored.values() if stored is not None else (), key=lambda each: each.name):
        found.setdefault(each.namespace, []).append(each)
    return found
