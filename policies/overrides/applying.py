"""Which override policies apply to an object in a cluster, in which order, and what comes out (reference/karmada.md 2.2)."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from apis import kinds
from policies import selecting
from policies.matching import affinity_refusal
from policies.members import ClusterView
from policies.overrides import changes
from policies.overrides.checks import problems
from policies.overrides.views import Fault, OverrideRule, OverrideView
from policies.pod_places import Tree
from policies.selecting import Template
from policies.shapes import Pool, TaskSpec, UnreadableShape, read_gang

APPLIED: Final = "policy.karmada.io/applied-overrides"
APPLIED_CLUSTER: Final = "policy.karmada.io/applied-cluster-overrides"
"""Annotations of a Work: names of the policies that changed its manifest."""

MOST_NAMED: Final = 8
"""Policies named in each: a Work is its manifest and at most 1 KiB (protocol.md 7)."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an object cannot be made for a cluster: the policy by its title, the field in it, and the reason."""

    policy: str
    field: str
    reason: str

    def __str__(self) -> str:
        return f"{self.policy}: {self.field}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Overridden:
    """The manifest for one cluster, and the policies that changed it; with a `failure` it is the manifest as it came."""

    manifest: Mapping[str, Any]
    policies: tuple[str, ...] = ()
    cluster_policies: tuple[str, ...] = ()
    failure: Failure | None = None
    standing: str = ""
    """Digest of the policies that were looked at (`standing`)."""

    def annotations(self) -> dict[str, str]:
        """What a Work says about it."""
        named = ((APPLIED, self.policies), (APPLIED_CLUSTER, self.cluster_policies))
        return {
            key: msgspec.json.encode({"appliedItems": [{"policyName": name} for name in names[:MOST_NAMED]]}).decode()
            for key, names in named
            if names
        }


def applicable(template: Template, *, policies: Iterable[OverrideView]) -> list[OverrideView]:
    """Those that select an object: cluster-scoped ones first; then the least exact selector, then the smaller name, so that the
    most exact has the last word."""
    found = []
    for policy in policies:
        if policy.deleting or policy.namespace not in ("", template.namespace):
            continue
        exact = selecting.NOT_AT_ALL if policy.selectors is None else selecting.best(policy.selectors, template)
        if exact or policy.selectors is None:
            found.append((bool(policy.namespace), exact, policy.name, policy))
    return [each[-1] for each in sorted(found, key=lambda each: each[:3])]


def standing(template: Template, *, cluster: ClusterView, policies: Iterable[OverrideView]) -> str:
    """A short name for the policies that an object is made by for a cluster, in their versions; "" for none."""
    meant = [(each.uid, each.version) for each in applicable(template, policies=policies) if _rules_for(each, cluster)]
    return hashlib.blake2b(repr(meant).encode(), digest_size=6).hexdigest() if meant else ""


def _rules_for(policy: OverrideView, cluster: ClusterView) -> list[OverrideRule]:
    return [rule for rule in policy.rules if rule.clusters is None or not affinity_refusal(rule.clusters, cluster)]


def overridden(manifest: Mapping[str, Any], *, cluster: ClusterView, policies: Iterable[OverrideView]) -> Overridden:
    """The manifest as `cluster` gets it: replicas are divided already. The given one stays as it was.

    One overrider that cannot be carried out fails all of it: half a change would be a Job that nobody wrote.
    """
    tree: Tree | None = None
    names: tuple[list[str], list[str]] = ([], [])
    known = tuple(policies)
    template = selecting.template_of(manifest)
    for policy in applicable(template, policies=known):
        rules = _rules_for(policy, cluster)
        if not rules:
            continue
        wrong = next(iter(problems(policy)), None)
        if wrong is not None:
            return Overridden(manifest, failure=Failure(policy.title, wrong.field, wrong.message))
        before = manifest if tree is None else tree
        tree = copy.deepcopy(dict(before))
        for rule in rules:
            try:
                tree = changes.apply(tree, rule.overriders)
                _keep_decided(before, tree, tenant=bool(policy.namespace))
            except Fault as fault:
                field = f"{rule.field}.{fault.field}" if fault.field else rule.field
                return Overridden(manifest, failure=Failure(policy.title, field, fault.reason))
        names[0 if policy.namespace else 1].append(policy.name)
    made_by = standing(template, cluster=cluster, policies=known)
    return Overridden(tree if tree is not None else manifest, tuple(names[0]), tuple(names[1]), standing=made_by)


# --- what no override may change -------------------------------------------------------------------------------------
_IDENTITY: Final = (("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace"))
_ADMITTED: Final = (("spec", "queue"), ("spec", "priorityClassName"), ("spec", "schedulerName"))


def _keep_decided(before: Mapping[str, Any], after: Any, *, tenant: bool) -> None:
    """Raises Fault where an override would name another object, or get round what was decided about a Job.

    Replicas and minima are what the hub divided and charged. Queue and priority were granted to the Job's creator, so that a
    policy of a namespace (`tenant`) may not change them, nor make pods larger than what was charged; a cluster-scoped one may.
    """
    if not isinstance(after, dict):
        raise Fault("the object would be gone")
    _same(before, after, _IDENTITY, why="an override may not name another object")
    if (before.get("apiVersion"), before.get("kind")) != (kinds.JOB.api_version, kinds.JOB.kind):
        return
    if _counts(before) != _counts(after):
        raise Fault("tasks, replicas and minAvailable are what the hub decided, an override may not change them")
    if tenant:
        _same(before, after, _ADMITTED, why="only a ClusterOverridePolicy may change what the creator was granted")
        _keep_requests(before, after)


def _same(before: Mapping[str, Any], after: Mapping[str, Any], paths: Iterable[tuple[str, ...]], *, why: str) -> None:
    for path in paths:
        if _at(before, path) != _at(after, path):
            raise Fault(f"{'.'.join(path)} would change: {why}")


def _at(node: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        node = node.get(step) if isinstance(node, Mapping) else None
    return node or None


def _counts(job: Mapping[str, Any]) -> object:
    tasks = _at(job, ("spec", "tasks"))
    listed = tasks if isinstance(tasks, list) else []
    each = [tuple(_at(task, (name,)) for name in ("name", "replicas", "minAvailable", "partitionPolicy")) for task in listed]
    return each, _at(job, ("spec", "minAvailable"))


def _keep_requests(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    try:
        old, new = _requests(before), _requests(after)
    except (UnreadableShape, msgspec.ValidationError) as error:
        raise Fault(f"its pods could not be read any more: {error}") from error
    more = [name for name, amount in new.items() if amount > old.get(name)]
    if more:
        raise Fault(f"its pods would ask for more {', '.join(more)} than was charged for them")


def _requests(job: Mapping[str, Any]) -> Any:
    tasks = msgspec.convert(_at(job, ("spec", "tasks")) or [], list[TaskSpec])
    return read_gang(tasks, minimum=None, pool=Pool()).requests
