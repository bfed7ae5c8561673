"""What is wrong with a propagation policy by itself (reference/karmada.md 1.1, 1.2): for admission, and for a condition where
nobody answered there. Schema and CEL say some of it already."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from policies.division import Strategy
from policies.placements import Affinity, PolicyView, SpreadRule
from policies.views import Problem

PLACEMENT: Final = "spec.placement"
_NAME: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
LONGEST_TERM: Final = 32
_FIELDS: Final = ("cluster", "region", "zone", "provider")


def problems(policy: PolicyView) -> list[Problem]:
    """Everything wrong with it."""
    return [
        *_selector_problems(policy),
        *_term_problems(policy),
        *_overflow_problems(policy),
        *_toleration_problems(policy),
        *_spread_problems(policy.spread),
        *_weight_problems(policy),
        *_other_problems(policy),
    ]


def _selector_problems(policy: PolicyView) -> Iterator[Problem]:
    if not policy.selectors:
        yield Problem("spec.resourceSelectors", "at least one is needed")
    for at, selector in enumerate(policy.selectors):
        place = f"spec.resourceSelectors[{at}]"
        if not selector.api_version or not selector.kind:
            yield Problem(place, "apiVersion and kind are needed")
        if policy.namespace and selector.namespace not in ("", policy.namespace):
            yield Problem(f"{place}.namespace", f"must be {policy.namespace}, the policy's own")
        if policy.preempts and not selector.name:
            yield Problem(f"{place}.name", "preemption Always needs a name in every resource selector")


def _term_problems(policy: PolicyView) -> Iterator[Problem]:
    seen: set[str] = set()
    for at, affinity in enumerate(policy.affinities):
        place = f"{PLACEMENT}.clusterAffinities[{at}]" if affinity.name else f"{PLACEMENT}.clusterAffinity"
        yield from _affinity_problems(affinity, field=place)
        if affinity.name:
            yield from _name_problems(affinity.name, seen=seen, field=f"{place}.affinityName")
        elif len(policy.affinities) > 1:
            yield Problem(f"{PLACEMENT}.clusterAffinities[{at}].affinityName", "a term needs a name")


def _name_problems(name: str, *, seen: set[str], field: str) -> Iterator[Problem]:
    if len(name) > LONGEST_TERM or _NAME.fullmatch(name) is None:
        yield Problem(field, f"{name!r} should be a name of 1 to {LONGEST_TERM} characters")
    if name in seen:
        yield Problem(field, f"{name!r} is the name of an earlier term")
    seen.add(name)


def _affinity_problems(affinity: Affinity, *, field: str) -> Iterator[Problem]:
    for each in affinity.fields:
        if each.key not in _FIELDS[1:] or each.operator not in ("In", "NotIn"):
            yield Problem(
                f"{field}.fieldSelector", f"{each.key} {each.operator} is not known: want provider, region or zone, In or NotIn"
            )


def _twice(names: Sequence[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})


def _overflow_problems(policy: PolicyView) -> Iterator[Problem]:
    for at, affinity in enumerate(policy.affinities):
        if not affinity.overflow:
            continue
        place = f"{PLACEMENT}.clusterAffinities[{at}]"
        if policy.replicas.strategy not in (Strategy.AGGREGATED, Strategy.DYNAMIC):
            yield Problem(f"{place}.overflowAffinities", "needs replicas Divided, Aggregated or by dynamicWeight")
        if affinity.empty:
            yield Problem(place, "overflowAffinities need an affinity that does not mean every cluster")
        seen: set[str] = set()
        for number, overflow in enumerate(affinity.overflow):
            field = f"{place}.overflowAffinities[{number}]"
            yield from _name_problems(overflow.name, seen=seen, field=f"{field}.affinityName")
            yield from _affinity_problems(overflow, field=field)


def _toleration_problems(policy: PolicyView) -> Iterator[Problem]:
    for at, each in enumerate(policy.tolerations):
        if each.operator not in ("Equal", "Exists"):
            yield Problem(f"{PLACEMENT}.clusterTolerations[{at}].operator", f"{each.operator!r} is not one of Equal, Exists")


def _spread_problems(rules: Sequence[SpreadRule]) -> Iterator[Problem]:
    place = f"{PLACEMENT}.spreadConstraints"
    fields = [each.by for each in rules if not each.label]
    for name in _twice(fields):
        yield Problem(place, f"spreadByField {name} is given twice")
    if fields and "cluster" not in fields:
        yield Problem(place, "constraints by field must include one by cluster")
    for at, each in enumerate(rules):
        if not each.label and each.by not in _FIELDS:
            yield Problem(f"{place}[{at}].spreadByField", f"{each.by!r} is not one of {', '.join(_FIELDS)}")
        if each.most and each.most < each.least:
            yield Problem(f"{place}[{at}].maxGroups", f"{each.most} is less than minGroups {each.least}")


def _weight_problems(policy: PolicyView) -> Iterator[Problem]:
    place = f"{PLACEMENT}.replicaScheduling.weightPreference.staticWeightList"
    for at, (affinity, weight) in enumerate(policy.replicas.weights):
        if weight < 1:
            yield Problem(f"{place}[{at}].weight", f"{weight} is less than 1")
        yield from _affinity_problems(affinity, field=f"{place}[{at}].targetCluster")


def _other_problems(policy: PolicyView) -> Iterator[Problem]:
    if policy.suspended and policy.suspended_on:
        yield Problem("spec.suspension.dispatchingOnClusters", "can not stand beside dispatching: true")
    if policy.together_by and policy.together_by == policy.apart_by:
        yield Problem(f"{PLACEMENT}.workloadAffinity", "affinity and antiAffinity must group by different labels")
    if policy.places_again and not policy.carries:
        yield Problem("spec.propagateDeps", "failover of applications needs it")
