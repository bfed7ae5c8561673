"""What a namespace may use over all clusters: FederatedResourceQuota (reference/karmada.md 3.9).

Counted is what all pods of live Jobs ask for, not only their minima, in every cluster they were sent to. A Job that has ended
uses nothing, whether its objects are still there or not (design.md 2.8).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from apis.quantities import InvalidQuantity
from apis.vectors import ResourceVector, quantity, total
from policies.verdicts import PASS, Verdict, Wake
from policies.views import Meta, Problem

LONGEST_NAME: Final = 63


Amounts = Mapping[str, int]
"""Milli units by quota name; unlike in a ResourceVector, nothing of a resource is another thing than no word about it."""


@dataclass(frozen=True, slots=True)
class FederatedQuotaView:
    """A FederatedResourceQuota. `overall` is by quota name; a resource it does not name is not limited. `assigned` is what a
    cluster's own ResourceQuota gets."""

    namespace: str
    name: str
    uid: str = ""
    version: str = ""
    overall: Amounts = field(default_factory=dict)
    assigned: Mapping[str, Amounts] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class Holding:
    """What one live Job asks for in one cluster, pods included."""

    namespace: str
    cluster: str
    requests: ResourceVector


def counted(requests: ResourceVector, *, by: Amounts) -> dict[str, int]:
    """Requests under the names that a quota uses: plain, `requests.<name>`, `pods` and `count/pods`."""
    return {name: int(requests.get(_resource(name))) for name in by}


def _resource(name: str) -> str:
    return "pods" if name == "count/pods" else name.removeprefix("requests.")


def used(quota: FederatedQuotaView, holdings: Iterable[Holding]) -> dict[str, int]:
    """What the namespace uses of a quota."""
    there = (each.requests for each in holdings if each.namespace == quota.namespace)
    return counted(total(there), by=quota.overall)


def admits(
    requests: ResourceVector,
    *,
    namespace: str,
    quotas: Iterable[FederatedQuotaView],
    holdings: Sequence[Holding],
    wake: Wake = Wake.QUEUE,
) -> Verdict:
    """Whether one Job more stays within every quota of its namespace. It is judged only by what it asks for: others may have
    used up what it needs none of. `holdings` are all live Jobs' without this one."""
    for quota in sorted(quotas, key=lambda each: each.name):
        if quota.namespace != namespace or quota.deleting:
            continue
        asked, there = counted(requests, by=quota.overall), used(quota, holdings)
        over = {
            name: there[name] + asked[name] - limit
            for name, limit in quota.overall.items()
            if asked[name] > 0 and there[name] + asked[name] > limit
        }
        if over:
            text = f"FederatedResourceQuota {namespace}/{quota.name} would be exceeded by {ResourceVector(over)}"
            return Verdict("QuotaExceeded", text, (wake, Wake.JOB))
    return PASS


def status(quota: FederatedQuotaView, holdings: Sequence[Holding]) -> dict[str, Any]:
    """The status of a quota: what is used over all, and by every cluster with a static assignment."""
    clusters = []
    for name, hard in sorted(quota.assigned.items()):
        there = total(each.requests for each in holdings if (each.namespace, each.cluster) == (quota.namespace, name))
        clusters.append({"clusterName": name, "hard": _quantities(hard), "used": _quantities(counted(there, by=hard))})
    return {
        "overall": _quantities(quota.overall),
        "overallUsed": _quantities(used(quota, holdings)),
        **({"aggregatedStatus": clusters} if clusters else {}),
    }


def _quantities(amounts: Amounts) -> dict[str, str]:
    return {name: str(quantity(name, milli=amount)) for name, amount in amounts.items()}


def resource_quota(quota: FederatedQuotaView, cluster: str) -> dict[str, Any] | None:
    """The ResourceQuota that a cluster with a static assignment gets; None for any other."""
    hard = quota.assigned.get(cluster)
    if hard is None:
        return None
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": quota.name, "namespace": quota.namespace},
        "spec": {"hard": _quantities(hard)},
    }


# --- reading ---------------------------------------------------------------------------------------------------------
class _Wire(msgspec.Struct, frozen=True, rename="camel"):
    """Declared fields only."""


class _Assignment(_Wire, frozen=True):
    cluster_name: str = ""
    hard: dict[str, Any] | None = None


class _Spec(_Wire, frozen=True):
    overall: dict[str, Any] | None = None
    static_assignments: list[_Assignment] | None = None


class _Quota(_Wire, frozen=True):
    metadata: Meta = Meta()
    spec: _Spec = _Spec()


_decoder = msgspec.json.Decoder(_Quota)


def project_federated_quota(document: bytes) -> FederatedQuotaView:
    """A FederatedResourceQuota with everything that is wrong with it; an amount that cannot be read counts as nothing."""
    read = _decoder.decode(document)
    meta, spec = read.metadata, read.spec
    found: list[Problem] = []
    if len(meta.name) > LONGEST_NAME:
        found.append(Problem("metadata.name", f"longer than {LONGEST_NAME} characters"))
    overall = _amounts(spec.overall, field="spec.overall", found=found)
    found += [
        Problem(f"spec.overall.{name}", "limits are not counted over clusters, only requests are")
        for name in overall
        if name.startswith("limits.")
    ]
    assigned: dict[str, Amounts] = {}
    for at, each in enumerate(spec.static_assignments or []):
        place = f"spec.staticAssignments[{at}]"
        if each.cluster_name in assigned:
            found.append(Problem(f"{place}.clusterName", f"cluster {each.cluster_name} is named twice"))
            continue
        assigned[each.cluster_name] = hard = _amounts(each.hard, field=f"{place}.hard", found=found)
        found += [Problem(f"{place}.hard.{name}", "is not in spec.overall") for name in hard if name not in overall]
    for name, limit in overall.items():
        if sum(hard.get(name, 0) for hard in assigned.values()) > limit:
            found.append(Problem("spec.staticAssignments", f"{name} of all clusters together is more than spec.overall"))
    return FederatedQuotaView(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        overall=overall,
        assigned=assigned,
        problems=tuple(found),
        deleting=meta.deletion_timestamp is not None,
    )


def _amounts(listed: Mapping[str, Any] | None, *, field: str, found: list[Problem]) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for name, text in sorted((listed or {}).items()):
        amounts[name] = 0
        try:
            amount = ResourceVector.from_quantities({name: text}).get(name)
        except InvalidQuantity as error:
            found.append(Problem(f"{field}.{name}", str(error)))
            continue
        if amount < 0:
            found.append(Problem(f"{field}.{name}", f"{text} is less than nothing"))
        amounts[name] = max(int(amount), 0)
    return amounts
