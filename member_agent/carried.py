"""Which kinds of objects a Work may bring without a run (protocol.md 8)."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Final

from apis import kinds
from apis.kinds import Kind

CARRIED: Final = {
    (kind.api_version, kind.kind): kind
    for kind in (
        kinds.NAMESPACE,
        kinds.QUEUE,
        kinds.PRIORITY_CLASS,
        kinds.CONFIGMAP,
        kinds.SECRET,
        kinds.CLAIM,
        kinds.SERVICE_ACCOUNT,
        kinds.RESOURCE_QUOTA,
        kinds.SERVICE,
        kinds.NETWORK_POLICY,
        kinds.POD_DISRUPTION_BUDGET,
    )
}
"""Kinds that a Work may bring without a run (protocol.md 8): never rights, webhooks or definitions of kinds."""

ENDING: Final = frozenset(
    {
        kinds.BATCH_JOB,
        kinds.POD,
        kinds.SPARK_APPLICATION,
        kinds.PYTORCH_JOB,
        kinds.TF_JOB,
        kinds.MPI_JOB,
        kinds.RAY_JOB,
        kinds.WORKFLOW,
    }
)
"""Workloads that come to an end: one that somebody deletes here is not run a second time."""

WORKLOADS: Final = {
    (kind.api_version, kind.kind): kind
    for kind in (
        *sorted(ENDING),
        kinds.BATCH_CRON_JOB,
        kinds.DEPLOYMENT,
        kinds.STATEFUL_SET,
        kinds.DAEMON_SET,
        kinds.REPLICA_SET,
        kinds.FLINK_DEPLOYMENT,
        kinds.RAY_CLUSTER,
    )
}
"""Kinds that a Work may bring and whose status is reported."""

FORBIDDEN_GROUPS: Final = (
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "certificates.k8s.io",
    "rbac.authorization.k8s.io",
    "volcano-federation.io",
    "work.karmada.io",
)
"""Groups that no setting lets in."""

_KIND: Final = re.compile(r"(?P<plural>[a-z0-9]+)\.(?P<version>v[a-z0-9]+)\.(?P<group>[a-z0-9.-]+)/(?P<kind>[A-Za-z0-9]+)")


def find(api_version: str, kind: str, *, more: Sequence[str] = ()) -> Kind | None:
    """The kind, or None for one that is not taken; `more` as `read_kind` takes them."""
    wanted = (api_version, kind)
    return CARRIED.get(wanted) or WORKLOADS.get(wanted) or _more(tuple(more)).get(wanted)


def reports(kind: Kind) -> bool:
    """Whether the status of objects of this kind is told."""
    return (kind.api_version, kind.kind) not in CARRIED


@functools.lru_cache(maxsize=8)
def _more(listed: tuple[str, ...]) -> Mapping[tuple[str, str], Kind]:
    found = [read_kind(each) for each in listed]
    return {(kind.api_version, kind.kind): kind for kind in found}


def read_kind(text: str) -> Kind:
    """A namespaced kind as settings name it, `plural.version.group/Kind`; raises ValueError."""
    match = _KIND.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no kind: write plural.version.group/Kind, as things.v1.example.com/Thing")
    if match["group"] in FORBIDDEN_GROUPS:
        raise ValueError(f"{text!r}: nothing of group {match['group']} is taken from the hub")
    return Kind(match["group"], match["version"], match["kind"], match["plural"])
