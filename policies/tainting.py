"""Taints that follow conditions of clusters: ClusterTaintPolicy (reference/karmada.md 4.4).

Policies are looked at from the oldest to the newest, each on what the ones before left. Taints stay when their policy goes or
the cluster is not meant any more: only a policy's own `removeOnConditions` takes them off.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from apis import keys
from policies.matching import affinity_refusal
from policies.members import ClusterView
from policies.placements import Affinity, AffinityWire, affinity_of
from policies.shapes import Taint
from policies.views import Meta, Problem

RESERVED: Final = frozenset({keys.TAINT_NOT_READY, keys.TAINT_UNREACHABLE})
"""Keys of taints that follow the health of a member: the hub keeps those itself, and two writers would never agree."""


@dataclass(frozen=True, slots=True)
class Match:
    """A condition of the cluster whose status is (In) or is not (NotIn) one of the values; one that is absent never matches."""

    type: str
    operator: str
    values: tuple[str, ...]

    def holds(self, conditions: Mapping[str, tuple[str, str]]) -> bool:
        """Whether it does; conditions are (status, reason) by type."""
        if self.type not in conditions:
            return False
        among = conditions[self.type][0] in self.values
        return among if self.operator == "In" else not among if self.operator == "NotIn" else False


@dataclass(frozen=True, slots=True)
class TaintPolicyView:
    """A ClusterTaintPolicy. `clusters` None: all."""

    namespace: str
    name: str
    uid: str = ""
    version: str = ""
    created: str = ""
    clusters: Affinity | None = None
    add: tuple[Match, ...] = ()
    remove: tuple[Match, ...] = ()
    taints: tuple[Taint, ...] = ()
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class Retainted:
    """The taints a cluster should have; `added` are new, the writer stamps the time of those with NoExecute."""

    taints: tuple[Taint, ...]
    added: tuple[Taint, ...] = ()
    removed: tuple[Taint, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether anything must be written."""
        return bool(self.added or self.removed)


def retainted(cluster: ClusterView, *, policies: Iterable[TaintPolicyView], no_execute: bool = False) -> Retainted:
    """What taints a cluster should have.

    A taint is told apart by key and effect; another value replaces it. RESERVED keys are passed over. Within one policy the
    removal has the last word.
    `no_execute`: whether policies may evict, which is a setting of the hub; otherwise their NoExecute taints are passed over.
    """
    wanted = {(each.key, each.effect): each for each in cluster.taints}
    for policy in sorted(policies, key=lambda each: (each.created, each.name)):
        meant = policy.clusters is None or not affinity_refusal(policy.clusters, cluster)
        if policy.deleting or not meant:
            continue
        taints = {
            (each.key, each.effect): each
            for each in policy.taints
            if each.key not in RESERVED and (no_execute or each.effect != "NoExecute")
        }
        if _all(policy.add, cluster):
            wanted |= taints
        if _all(policy.remove, cluster):
            wanted = {key: taint for key, taint in wanted.items() if key not in taints}
    before = set(cluster.taints)
    taints_now = tuple(wanted.values())
    return Retainted(
        taints=taints_now,
        added=tuple(each for each in taints_now if each not in before),
        removed=tuple(each for each in cluster.taints if each not in set(taints_now)),
    )


def _all(matches: Sequence[Match], cluster: ClusterView) -> bool:
    """An empty list never fires."""
    return bool(matches) and all(each.holds(cluster.conditions) for each in matches)


def problems(policy: TaintPolicyView, *, no_execute: bool = False) -> list[Problem]:
    """Everything wrong with a policy."""
    found = []
    if not policy.taints:
        found.append(Problem("spec.taints", "at least one is needed"))
    if not policy.add and not policy.remove:
        found.append(Problem("spec", "without addOnConditions and removeOnConditions it never does anything"))
    seen: set[tuple[str, str]] = set()
    for at, taint in enumerate(policy.taints):
        if (taint.key, taint.effect) in seen:
            found.append(Problem(f"spec.taints[{at}]", f"{taint.key}:{taint.effect} is given twice"))
        seen.add((taint.key, taint.effect))
        if taint.key in RESERVED:
            found.append(Problem(f"spec.taints[{at}].key", f"{taint.key} is kept by the hub itself"))
        if taint.effect == "NoExecute" and not no_execute:
            found.append(Problem(f"spec.taints[{at}].effect", "NoExecute is not allowed to policies by the hub's settings"))
    for name, matches in (("addOnConditions", policy.add), ("removeOnConditions", policy.remove)):
        for at, match in enumerate(matches):
            if match.operator not in ("In", "NotIn"):
                found.append(Problem(f"spec.{name}[{at}].operator", f"{match.operator!r} is not one of In, NotIn"))
    return found


# --- reading ---------------------------------------------------------------------------------------------------------
class _Wire(msgspec.Struct, frozen=True, rename="camel"):
    """Declared fields only."""


class _Match(_Wire, frozen=True):
    condition_type: str = ""
    operator: str = ""
    status_values: list[str] | None = None


class _Taint(_Wire, frozen=True):
    key: str = ""
    effect: str = ""
    value: str | None = None


class _Spec(_Wire, frozen=True):
    target_clusters: AffinityWire | None = None
    add_on_conditions: list[_Match] | None = None
    remove_on_conditions: list[_Match] | None = None
    taints: list[_Taint] | None = None


class _Policy(_Wire, frozen=True):
    metadata: Meta = Meta()
    spec: _Spec = _Spec()


_decoder = msgspec.json.Decoder(_Policy)


def project_taint_policy(document: bytes) -> TaintPolicyView:
    """A ClusterTaintPolicy."""
    read = _decoder.decode(document)
    meta, spec = read.metadata, read.spec
    return TaintPolicyView(
        namespace="",
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        created=meta.creation_timestamp,
        clusters=affinity_of(spec.target_clusters) if spec.target_clusters is not None else None,
        add=_matches(spec.add_on_conditions),
        remove=_matches(spec.remove_on_conditions),
        taints=tuple(Taint(each.key, each.value or "", each.effect) for each in spec.taints or []),
        deleting=meta.deletion_timestamp is not None,
    )


def _matches(read: list[_Match] | None) -> tuple[Match, ...]:
    return tuple(Match(each.condition_type, each.operator, tuple(each.status_values or ())) for each in read or [])
