"""Which propagation policy governs a Job (reference/karmada.md 1.3), and what follows for its placement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from apis import kinds
from policies import selecting
from policies.members import ClusterView
from policies.placements import Affinity, PolicyView
from policies.selecting import Template
from policies.views import JobView

DEFAULT: Final = PolicyView(namespace="", name="the federation's default")
"""Shipped default: one cluster, any cluster, profile balanced."""

Labels = Mapping[str, str]
Makers = Mapping[tuple[str, str, str], Labels]
"""Labels of JobFlows, JobTemplates and CronJobs by (kind, namespace, name). One that is not in it is selected by name and kind
alone."""


def matching_policy(job: JobView, *, policies: Iterable[PolicyView], makers: Makers | None = None) -> PolicyView:
    """The governing policy.

    A policy that selects the Job itself comes first; else one that selects the JobFlow, JobTemplate or CronJob it was made
    from; else a default of its namespace, a default of the federation, and DEFAULT. Among those, a PropagationPolicy of the
    namespace beats every ClusterPropagationPolicy; then the higher priority, the more exact selector, the smaller name.
    """
    ranked = ranking(job, policies=policies, makers=makers)
    return ranked[0] if ranked else DEFAULT


def ranking(job: JobView, *, policies: Iterable[PolicyView], makers: Makers | None = None) -> list[PolicyView]:
    """Every policy that could govern a Job, the best first."""
    templates = (template(job), *makers_of(job, makers=makers or {}))
    found = []
    for policy in policies:
        order = order_of(policy, templates=templates)
        if order is not None:
            found.append((order, policy))
    return [policy for _, policy in sorted(found, key=lambda each: each[0])]


Order = tuple[int, int, int, int, int, str]


def order_of(policy: PolicyView, *, templates: Sequence[Template]) -> Order | None:
    """Where a policy stands for an object (the first) that was made from others (the rest); smaller is better, None: it has
    nothing to say about it. Defaults come after all others."""
    if policy.deleting or policy.namespace not in ("", templates[0].namespace):
        return None
    for made, template in enumerate(templates):
        exact = selecting.best(policy.selectors, template)
        if exact:
            scope = 0 if policy.namespace else 1
            # What an object was made from is one step away, whichever of them a policy selects.
            return (int(policy.default), min(made, 1), scope, -policy.priority, -exact, policy.name)
    return None


def template(job: JobView) -> Template:
    """A Job as selectors see it."""
    return Template(kinds.JOB.api_version, kinds.JOB.kind, job.name, job.namespace, job.labels)


def makers_of(job: JobView, *, makers: Makers) -> tuple[Template, ...]:
    """What a Job was made from, as selectors see it."""
    named = (
        (kinds.JOB_FLOW, job.created_by_flow),
        (kinds.JOB_TEMPLATE, job.created_by_template),
        (kinds.CRON_JOB, job.created_by_cron),
    )
    found = []
    for kind, made_by in named:
        if made_by:
            name = made_by.removeprefix(f"{job.namespace}.")
            labels = makers.get((kind.kind, job.namespace, name))
            found.append(Template(kind.api_version, kind.kind, name, job.namespace, labels))
    return tuple(found)


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
