"""Works that bring the ResourceQuotas of static assignments (reference/karmada.md 3.9). Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from apis import keys, kinds, naming
from policies import federated_quotas
from policies.federated_quotas import FederatedQuotaView
from policies.views import Meta

Tree = dict[str, Any]
SELECTOR: Final = f"{keys.ASSIGNMENT}=true"


@dataclass(frozen=True, slots=True)
class AssignedWork:
    """A Work that brings one; `quota` by namespace and name."""

    namespace: str
    name: str
    uid: str
    version: str
    cluster: str
    quota: tuple[str, str]
    digest: str = ""
    deleting: bool = False


class _Head(msgspec.Struct, frozen=True):
    metadata: Meta = Meta()


_head = msgspec.json.Decoder(_Head)


def project_assigned(document: bytes) -> AssignedWork:
    """Of such a Work whose it is."""
    meta = _head.decode(document).metadata
    notes = meta.annotations or {}
    namespace, _, name = notes.get(keys.ASSIGNMENT, "").partition("/")
    return AssignedWork(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        cluster=keys.cluster_of(meta.namespace) or "",
        quota=(namespace, name),
        digest=notes.get(keys.SOURCE_DIGEST, ""),
        deleting=meta.deletion_timestamp is not None,
    )


@dataclass(frozen=True, slots=True)
class Plan:
    """What to write."""

    create: tuple[Tree, ...] = ()
    update: tuple[tuple[AssignedWork, Tree], ...] = ()
    delete: tuple[AssignedWork, ...] = ()


def plan(quota: FederatedQuotaView | None, *, works: Mapping[str, AssignedWork], clusters: Collection[str]) -> Plan:
    """Works by cluster, as a quota assigns them; none for one that is gone. A cluster that is not registered gets nothing."""
    wanted: dict[str, Tree] = {}
    if quota is not None and not quota.deleting:
        for name in sorted(set(quota.assigned) & set(clusters)):
            made = federated_quotas.resource_quota(quota, name)
            if made is not None:
                wanted[name] = _work(quota, name, made)
    create = tuple(body for name, body in wanted.items() if name not in works)
    update = tuple(
        (works[name], _changes(works[name], body))
        for name, body in wanted.items()
        if name in works and not works[name].deleting and works[name].digest != _digest_of(body)
    )
    spare = tuple(each for name, each in sorted(works.items()) if name not in wanted and not each.deleting)
    return Plan(create, update, spare)


def _work(quota: FederatedQuotaView, cluster: str, made: Tree) -> Tree:
    spec = {"workload": {"manifests": [made]}}
    digest = hashlib.blake2b(msgspec.json.encode(spec, order="deterministic"), digest_size=8).hexdigest()
    return {
        "apiVersion": kinds.WORK.api_version,
        "kind": kinds.WORK.kind,
        "metadata": {
            "name": naming.work_name(quota.name, namespace=quota.namespace, kind=kinds.RESOURCE_QUOTA),
            "namespace": keys.execution_namespace(cluster),
            "labels": {keys.ASSIGNMENT: "true"},
            "annotations": {keys.ASSIGNMENT: f"{quota.namespace}/{quota.name}", keys.SOURCE_DIGEST: digest},
            "finalizers": [keys.WORK_FINALIZER],
        },
        "spec": spec,
    }


def _digest_of(body: Tree) -> str:
    found: str = body["metadata"]["annotations"][keys.SOURCE_DIGEST]
    return found


def _changes(work: AssignedWork, body: Tree) -> Tree:
    notes = {keys.SOURCE_DIGEST: _digest_of(body)}
    return {"metadata": {"resourceVersion": work.version, "annotations": notes}, "spec": body["spec"]}
