"""Which objects may be sent to members, and which only where nothing at the hub acts on them (design.md 1). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from apis import kinds
from apis.kinds import Kind
from policies.claims import CLAIMED_BY
from policies.selecting import reserved

NEVER: Final = frozenset(
    {
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "apps.karmada.io",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "batch.volcano.sh",
        "bus.volcano.sh",
        "certificates.k8s.io",
        "cluster.karmada.io",
        "config.karmada.io",
        "coordination.k8s.io",
        "events.k8s.io",
        "flow.volcano.sh",
        "flowcontrol.apiserver.k8s.io",
        "policy.karmada.io",
        "rbac.authorization.k8s.io",
        "training.volcano.sh",
        "volcano-federation.io",
        "work.karmada.io",
    }
)
"""Groups that do not travel: rights, definitions, webhooks, what the hub itself is made of, and Jobs, which have runs."""

_NEVER_KINDS: Final = (kinds.NODE, kinds.EVENT, kinds.POD_GROUP)
_ACTING: Final = frozenset({("", "Pod"), ("", "ReplicationController"), ("batch", "CronJob")})
_TOKEN: Final = "kubernetes.io/service-account-token"
KUBERNETES_JOBS: Final = "kubernetes.io/job-controller"
"""`spec.managedBy` of a batch/v1 Job that Kubernetes runs itself; so it does where nothing is said."""


def travels(kind: Kind) -> bool:
    """Whether objects of the kind are ever sent."""
    return kind.group not in NEVER and kind not in _NEVER_KINDS


def stays(source: Mapping[str, Any]) -> bool:
    """Whether this object is none of the hub's affair: of a reserved namespace, claimed by another controller, or a token of
    the hub's own accounts."""
    meta = source.get("metadata") or {}
    name = meta.get("name", "") if source.get("kind") == kinds.NAMESPACE.kind else meta.get("namespace", "")
    return reserved(name) or CLAIMED_BY in (meta.get("labels") or {}) or source.get("type") == _TOKEN


def acting(source: Mapping[str, Any], *, hub_runs: bool) -> str:
    """Why an object is not sent although it may be: something at the hub would run it, too; "" when nothing would."""
    group = str(source.get("apiVersion", "")).rpartition("/")[0]
    kind = str(source.get("kind", ""))
    if not hub_runs:
        return ""
    if (group, kind) == (kinds.BATCH_JOB.group, kinds.BATCH_JOB.kind):
        managed = (source.get("spec") or {}).get("managedBy", KUBERNETES_JOBS)
        if managed != KUBERNETES_JOBS:
            return ""
        return "the hub's own Job controller would run it: set spec.managedBy to volcano-federation.io/hub when it is made"
    if group == "apps" or (group, kind) in _ACTING:
        return (
            f"the hub's own controllers would run this {kind}: with a hub that only stores workloads set"
            " hub_runs_workloads: false"
        )
    return ""
