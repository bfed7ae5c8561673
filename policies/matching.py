"""Which propagation policy governs a Job (reference/karmada.md 1.3), and what follows for its placement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from apis import kinds
from policies.members import ClusterView
from policies.placements import Affinity, PolicyView, Selector
from policies.views import JobView

DEFAULT: Final = PolicyView(namespace="", name="the federation's default")
"""Shipped default: one cluster, any cluster, profile balanced."""

EXACT, LABELS, KIND_ONLY = 3, 2, 1
"""Implicit priority of a selector: exact name, label selector, kind alone."""


def matching_policy(job: JobView, *, policies: Iterable[PolicyView]) -> PolicyView:
    """The governing policy.

    A policy that selects the Job itself comes first; else one that selects the JobFlow, JobTemplate or CronJob it was made
    from; else DEFAULT. Among those, a PropagationPolicy of the namespace beats every ClusterPropagationPolicy; then the higher
    priority, the more exact selector, the smaller name.
    """
    known = [each for each in policies if not each.deleting and each.namespace in ("", job.namespace)]
    for rank in (_selects_job, _selects_maker):
        ranked = [(_order(each, found), each) for each in known if (found := _best(each, job=job, rank=rank))]
        if ranked:
            return min(ranked, key=lambda pair: pair[0])[1]
    return DEFAULT


def _order(policy: PolicyView, implicit: int) -> tuple[int, int, int, str]:
    return (0 if policy.namespace else 1, -policy.priority, -implicit, policy.name)


def _best(policy: PolicyView, *, job: JobView, rank: Callable[[Selector, JobView], int]) -> int:
    found = (rank(each, job) for each in policy.selectors if each.namespace in ("", job.namespace))
    return max(found, default=0)


def _selects_job(selector: Selector, job: JobView) -> int:
    if (selector.api_version, selector.kind) != (kinds.JOB.api_version, kinds.JOB.kind):
        return 0
    if selector.name:
        return EXACT if selector.name == job.name else 0
    if selector.labels is not None:
        return LABELS if selector.labels.matches(job.labels) else 0
    return KIND_ONLY


def _selects_maker(selector: Selector, job: JobView) -> int:
    """By name or kind: labels of the maker are not known here, so a label selector on a JobFlow selects nothing."""
    makers = {
        (kinds.JOB_FLOW.api_version, kinds.JOB_FLOW.kind): job.created_by_flow,
        (kinds.JOB_TEMPLATE.api_version, kinds.JOB_TEMPLATE.kind): job.created_by_template,
        (kinds.CRON_JOB.api_version, kinds.CRON_JOB.kind): job.created_by_cron,
    }
    made_by = makers.get((selector.api_version, selector.kind), "")
    if not made_by:
        return 0
    if selector.name:
        return EXACT if made_by == f"{job.namespace}.{selector.name}" else 0
    return KIND_ONLY if selector.labels is None else 0


def affinity_refusal(affinity: Affinity, cluster: ClusterView) -> str:
    """Why a cluster is not meant by an affinity; "" when it is."""
    if cluster.name in affinity.exclude:
        return "the policy excludes it"
    if affinity.names and cluster.name not in affinity.names:
        return "the policy names other clusters"
    if affinity.labels is not None and not affinity.labels.matches(cluster.labels):
        return "its labels do not match the policy"
    if not all(_field_holds(each.key, each.operator, each.values, cluster=cluster) for each in affinity.fields):
        return "its provider, region or zones do not match the policy"
    return ""


def _field_holds(key: str, operator: str, values: tuple[str, ...], *, cluster: ClusterView) -> bool:
    """Field selectors see sets: In is any overlap (false for an empty set), NotIn is none."""
    have = {value for value in cluster.properties.get(key, ()) if value}
    match operator:
        case "In":
            return bool(have & set(values))
        case "NotIn":
            return not have & set(values)
        case "Exists":
            return bool(have)
        case "DoesNotExist":
            return not have
        case _:
            return False


def setting(name: str, *, job: JobView, policy: PolicyView, namespace: Mapping[str, str]) -> str:
    """A user key (design.md 3): the Job's own, else the policy's, else the namespace's, else ""."""
    for source in (job.settings, policy.settings, namespace):
        if name in source:
            return source[name]
    return ""
