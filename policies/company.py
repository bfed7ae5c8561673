"""Where others of a group are: `workloadAffinity` of policies (reference/karmada.md 1.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from policies.placements import PolicyView
from policies.views import JobView


@dataclass(frozen=True, slots=True)
class Resident:
    """A Job that is placed, and where."""

    uid: str
    namespace: str
    labels: Mapping[str, str] = field(default_factory=dict)
    clusters: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Company:
    """The clusters of each other Job of the group: of those it wants to be with, and of those it wants to be away from."""

    together: tuple[frozenset[str], ...] = ()
    apart: tuple[frozenset[str], ...] = ()


ALONE = Company()


def asks(policy: PolicyView) -> bool:
    """Whether a policy cares where others are."""
    return bool(policy.together_by or policy.apart_by)


def of(job: JobView, *, policy: PolicyView, residents: Iterable[Resident]) -> Company:
    """The others of its groups: those of its namespace with the same value of the label. A Job without it has none."""
    wanted = [(policy.together_by, job.labels.get(policy.together_by)), (policy.apart_by, job.labels.get(policy.apart_by))]
    if all(value is None for _, value in wanted):
        return ALONE
    others = [each for each in residents if each.namespace == job.namespace and each.uid != job.uid and each.clusters]
    found = [
        tuple(each.clusters for each in others if key and value is not None and each.labels.get(key) == value)
        for key, value in wanted
    ]
    return Company(*found)
