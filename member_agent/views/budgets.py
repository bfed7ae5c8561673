"""PodDisruptionBudgets as the agent keeps them: how many more of some pods may be disrupted now, as their controller says."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from machinery.port import Document
from member_agent.views.meta import Meta, Wire
from policies.neighbours import LabelSelector, requirements
from policies.selectors import Requirement


class _Spec(Wire, frozen=True):
    selector: LabelSelector | None = None


class _Status(Wire, frozen=True):
    disruptions_allowed: int = 0


class _Budget(Wire, frozen=True):
    metadata: Meta
    spec: _Spec = _Spec()
    status: _Status = _Status()


@dataclass(frozen=True, slots=True)
class BudgetView:
    """A PodDisruptionBudget: of the pods of its namespace that match (None: none does) so many more may go."""

    namespace: str
    name: str
    uid: str
    version: str
    matches: tuple[Requirement, ...] | None
    allowed: int

    def covers(self, labels: Mapping[str, str]) -> bool:
        """Whether a pod of these labels, in its namespace, is meant; an empty selector means all."""
        return self.matches is not None and all(each.holds(labels) for each in self.matches)


_budget = msgspec.json.Decoder(_Budget).decode


def project_budget(document: Document) -> BudgetView:
    """A PodDisruptionBudget as the agent keeps it; one without status allows nothing."""
    found = _budget(document)
    meta = found.metadata
    return BudgetView(
        namespace=sys.intern(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        matches=requirements(found.spec.selector),
        allowed=max(found.status.disruptions_allowed, 0),
    )
