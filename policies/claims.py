"""Claims: the marks by which an object says which policy governs it, and when that changes (reference/karmada.md 1.3).

A claim stays until its policy goes, stops selecting the object, or loses it to one that preempts. A default policy claims
nothing: whatever selects the object later may have it.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from apis import keys
from policies.matching import DEFAULT, Makers, makers_of, order_of, template
from policies.placements import PolicyView
from policies.selecting import Template
from policies.views import JobView

POLICY_ID: Final = "propagationpolicy.karmada.io/permanent-id"
CLUSTER_POLICY_ID: Final = "clusterpropagationpolicy.karmada.io/permanent-id"
CLUSTER_POLICY_NAME: Final = "clusterpropagationpolicy.karmada.io/name"
CONFLICT: Final = "work.karmada.io/conflict-resolution"
CLAIMED_BY: Final = "resourcetemplate.karmada.io/claimed-by"
"""Label of an object that another controller takes care of: no policy is looked for."""

_LABELS: Final = (POLICY_ID, CLUSTER_POLICY_ID)
_ANNOTATIONS: Final = (keys.POLICY_NAMESPACE, keys.POLICY_NAME, CLUSTER_POLICY_NAME)


@dataclass(frozen=True, slots=True)
class Claim:
    """Who claimed an object: `namespace` "" is a ClusterPropagationPolicy. `id` is "" where only the name is written."""

    namespace: str
    name: str
    id: str = ""

    def by(self, policy: PolicyView) -> bool:
        """Whether it is this policy's: one of the same name that was made anew is another one."""
        same = (policy.namespace, policy.name) == (self.namespace, self.name)
        return same and self.id in ("", policy.uid)


def claim_of(labels: Mapping[str, str], annotations: Mapping[str, str]) -> Claim | None:
    """Read the marks of an object; a namespaced policy's come first where both are there."""
    if keys.POLICY_NAME in annotations:
        return Claim(annotations.get(keys.POLICY_NAMESPACE, ""), annotations[keys.POLICY_NAME], labels.get(POLICY_ID, ""))
    if CLUSTER_POLICY_NAME in annotations:
        return Claim("", annotations[CLUSTER_POLICY_NAME], labels.get(CLUSTER_POLICY_ID, ""))
    return None


def claim_on(job: JobView) -> Claim | None:
    """Who claimed a Job."""
    return Claim(*job.claimed) if job.claimed is not None else None


def claim_marks(claim: Claim | None) -> tuple[dict[str, str], dict[str, str]]:
    """Labels and annotations that say it."""
    if claim is None:
        return {}, {}
    if claim.namespace:
        notes = {keys.POLICY_NAMESPACE: claim.namespace, keys.POLICY_NAME: claim.name}
        return ({POLICY_ID: claim.id} if claim.id else {}), notes
    return ({CLUSTER_POLICY_ID: claim.id} if claim.id else {}), {CLUSTER_POLICY_NAME: claim.name}


def marks(policy: PolicyView) -> tuple[dict[str, str], dict[str, str]]:
    """Labels and annotations by which an object says that a policy governs it; none for a default."""
    if not policy.uid or policy.default:
        return {}, {}
    if policy.namespace:
        return {POLICY_ID: policy.uid}, {keys.POLICY_NAMESPACE: policy.namespace, keys.POLICY_NAME: policy.name}
    return {CLUSTER_POLICY_ID: policy.uid}, {CLUSTER_POLICY_NAME: policy.name}


def remarked(
    labels: Mapping[str, str], annotations: Mapping[str, str], *, policy: PolicyView
) -> dict[str, dict[str, str | None]]:
    """The merge patch of `metadata` that makes the marks say `policy`; empty when they do."""
    wanted_labels, wanted_annotations = marks(policy)
    patch: dict[str, dict[str, str | None]] = {}
    for name, there, wanted, known in (
        ("labels", labels, wanted_labels, _LABELS),
        ("annotations", annotations, wanted_annotations, _ANNOTATIONS),
    ):
        changed = {key: wanted.get(key) for key in known if there.get(key) != wanted.get(key)}
        if changed:
            patch[name] = changed
    return patch


class Change(enum.StrEnum):
    """What became of a claim."""

    KEPT = "Kept"
    CLAIMED = "Claimed"
    PREEMPTED = "Preempted"
    LOST = "Lost"
    """Its policy went or selects it no longer, and no other does: what runs stays, and nothing places it again."""
    UNCLAIMED = "Unclaimed"


@dataclass(frozen=True, slots=True)
class Governed:
    """The policy that governs an object now, and whether that is a change. LOST and UNCLAIMED come with a default."""

    policy: PolicyView
    change: Change


def govern(templates: Sequence[Template], *, claim: Claim | None, policies: Iterable[PolicyView]) -> Governed:
    """Who governs an object (the first template) that was made from others (the rest)."""
    ranked = sorted(
        ((order, policy) for policy in policies if (order := order_of(policy, templates=templates)) is not None),
        key=lambda each: each[0],
    )
    best = [policy for _, policy in ranked]
    current = next((each for each in best if claim is not None and claim.by(each) and not each.default), None)
    if current is not None:
        taker = next((each for each in best if takes(each, current)), None)
        return Governed(taker, Change.PREEMPTED) if taker is not None else Governed(current, Change.KEPT)
    chosen = best[0] if best else DEFAULT
    if chosen.default or not chosen.uid:
        return Governed(chosen, Change.UNCLAIMED if claim is None else Change.LOST)
    return Governed(chosen, Change.CLAIMED)


def governing(job: JobView, *, policies: Iterable[PolicyView], makers: Makers | None = None) -> PolicyView:
    """Who governs a Job: who claimed it, as long as that stands, else as `matching.matching_policy` has it."""
    templates = (template(job), *makers_of(job, makers=makers or {}))
    return govern(templates, claim=claim_on(job), policies=policies).policy


def takes(taker: PolicyView, holder: PolicyView) -> bool:
    """Whether a policy preempts another: of the namespace from cluster-scoped ones always, from its like only with a higher
    priority, and never the other way round."""
    if not taker.preempts or taker.default or taker is holder:
        return False
    if bool(taker.namespace) != bool(holder.namespace):
        return bool(taker.namespace)
    return taker.priority > holder.priority


def heirs(before: PolicyView, after: PolicyView, *, policies: Iterable[PolicyView]) -> list[PolicyView]:
    """Preempting policies that may take objects of one whose priority was lowered; the best first."""
    return sorted(
        (each for each in policies if takes(each, after) and not takes(each, before) and not each.deleting),
        key=lambda each: (0 if each.namespace else 1, -each.priority, each.name),
    )


# --- what a policy means for one object ------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Applied:
    """What a binding was last made from: policy by uid, its generation, and the generation of the object."""

    policy: str
    generation: int
    template: int


def acts(policy: PolicyView, *, applied: Applied | None, template: int) -> bool:
    """Whether the policy's present content must be brought to the binding. A lazy one waits for the next change of the object,
    also when it has just claimed it; `template` is the object's generation."""
    if applied is None:
        return True
    if applied.template != template:
        return True
    return not policy.lazy and (applied.policy, applied.generation) != (policy.uid, policy.generation)


def suspends(policy: PolicyView, cluster: str) -> bool:
    """Whether no updates go to a cluster; nothing is removed."""
    return policy.suspended or cluster in policy.suspended_on


class Conflict(enum.StrEnum):
    """What happens to an object that a member has already, and that nobody manages."""

    ABORT = "Abort"
    OVERWRITE = "Overwrite"


def conflict(policy: PolicyView, annotations: Mapping[str, str]) -> Conflict:
    """By the object's own annotation (`abort` or `overwrite`), else by the policy."""
    own = annotations.get(CONFLICT, "").lower()
    if own in ("abort", "overwrite"):
        return Conflict(own.capitalize())
    return Conflict.OVERWRITE if policy.overwrites else Conflict.ABORT


@dataclass(frozen=True, slots=True)
class Carried:
    """How an object goes that several others refer to: one that overwrites or preserves decides for all of them."""

    conflict: Conflict
    preserve: bool
    disagree: bool


def carried(policies: Sequence[PolicyView]) -> Carried:
    """The union over the policies of everything that refers to it."""
    overwrites = {each.overwrites for each in policies}
    preserves = {bool(each.preserves) for each in policies}
    return Carried(
        conflict=Conflict.OVERWRITE if True in overwrites else Conflict.ABORT,
        preserve=True in preserves,
        disagree=len(overwrites) > 1 or len(preserves) > 1,
    )


def missing_overrides(policy: PolicyView, *, known: Collection[tuple[str, str]]) -> tuple[str, ...]:
    """Override policies (of its own scope) that must exist before it acts; `known` are (namespace, name)."""
    return tuple(name for name in policy.waits_for if (policy.namespace, name) not in known)
