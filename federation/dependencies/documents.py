"""Bodies of the Works that bring what Jobs refer to, and what is read back of them. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from apis import keys, kinds, naming
from policies import claims
from policies.claims import Conflict
from policies.dependencies import Companion, Reference
from policies.views import Meta

Tree = dict[str, Any]

TRAVELLING: Final = {
    (kind.api_version, kind.kind): kind
    for kind in (
        kinds.NAMESPACE,
        kinds.QUEUE,
        kinds.PRIORITY_CLASS,
        kinds.CONFIGMAP,
        kinds.SECRET,
        kinds.CLAIM,
        kinds.SERVICE_ACCOUNT,
    )
}

KEPT: Final = (kinds.NAMESPACE.kind, kinds.CLAIM.kind)
"""Kinds that stay in a member when nobody needs them any more: what else is in a namespace, and what a claim holds, is not the
hub's to delete."""

SELECTOR: Final = f"{keys.COMPANION}=true"
LONGEST_NAME: Final = 253
_TOKEN: Final = "kubernetes.io/service-account-token"
_OWN_METADATA: Final = ("name", "namespace", "labels", "annotations")
_OTHERS_NOTES: Final = ("kubectl.kubernetes.io/", "pv.kubernetes.io/", "volume.kubernetes.io/", "volume.beta.kubernetes.io/")
_NAME_LABEL: Final = "kubernetes.io/metadata.name"
_NOT_OF_A_MEMBER: Final = {
    kinds.QUEUE.kind: ("guarantee", "deserved"),
    kinds.CLAIM.kind: ("volumeName",),
    kinds.NAMESPACE.kind: ("finalizers",),
}
"""Fields of spec that are about the whole federation, or about the hub's own cluster."""


def kind_of(reference: Reference) -> kinds.Kind:
    """Where the object is served; KeyError for one that does not travel."""
    return TRAVELLING[(reference.api_version, reference.kind)]


def travels(source: Mapping[str, Any]) -> bool:
    """False for a token of the hub's own accounts: it means nothing elsewhere, and opens the hub."""
    return source.get("type") != _TOKEN


def manifest(source: Mapping[str, Any], *, conflict: Conflict) -> Tree:
    """What a member gets of an object: without what the hub's API server and controllers filled in. The object's own word about
    conflicts wins."""
    meta = {name: value for name, value in source["metadata"].items() if name in _OWN_METADATA}
    notes = {name: value for name, value in (meta.pop("annotations", None) or {}).items() if not name.startswith(_OTHERS_NOTES)}
    notes.setdefault(claims.CONFLICT, conflict.lower())
    labels = {name: value for name, value in (meta.pop("labels", None) or {}).items() if name != _NAME_LABEL}
    tree = {name: value for name, value in source.items() if name not in ("metadata", "status", "spec", "secrets")}
    tree["metadata"] = {**meta, "annotations": notes, **({"labels": labels} if labels else {})}
    dropped = _NOT_OF_A_MEMBER.get(str(source.get("kind")), ())
    spec = {name: value for name, value in (source.get("spec") or {}).items() if name not in dropped}
    if spec:
        tree["spec"] = spec
    return tree


def spec(source: Mapping[str, Any], *, reference: Reference, companion: Companion) -> Tree:
    """`spec` of the Works of an object."""
    body: Tree = {"workload": {"manifests": [manifest(source, conflict=companion.conflict)]}}
    if companion.preserve or reference.kind in KEPT:
        body["preserveResourcesOnDeletion"] = True
    return body


def digest(spec: Mapping[str, Any]) -> str:
    """A short name for a spec."""
    return hashlib.blake2b(msgspec.json.encode(spec, order="deterministic"), digest_size=8).hexdigest()


def work_name(reference: Reference) -> str:
    """The same in every execution namespace."""
    name = naming.work_name(reference.name, namespace=reference.namespace, kind=kind_of(reference))
    return name[-LONGEST_NAME:].lstrip("-.")


def work(reference: Reference, *, cluster: str, spec: Mapping[str, Any]) -> Tree:
    """A Work with the hub's finalizer and no run."""
    return {
        "apiVersion": kinds.WORK.api_version,
        "kind": kinds.WORK.kind,
        "metadata": {
            "name": work_name(reference),
            "namespace": keys.execution_namespace(cluster),
            "labels": {keys.COMPANION: "true"},
            "annotations": {keys.SOURCE_DIGEST: digest(spec)},
            "finalizers": [keys.WORK_FINALIZER],
        },
        "spec": dict(spec),
    }


# --- reading ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CompanionWork:
    """A Work that brings an object. `refused`: reason and message of Applied=False, both "" otherwise."""

    namespace: str
    name: str
    uid: str
    version: str
    cluster: str
    reference: Reference | None
    digest: str = ""
    deleting: bool = False
    finalized: bool = False
    refused: tuple[str, str] = ("", "")


class _Wire(msgspec.Struct, frozen=True, rename="camel"):
    pass


class _Head(_Wire, frozen=True):
    api_version: str = ""
    kind: str = ""
    metadata: Meta = Meta()


class _Workload(_Wire, frozen=True):
    manifests: list[_Head] | None = None


class _Spec(_Wire, frozen=True):
    workload: _Workload = _Workload()


class _Condition(_Wire, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class _Status(_Wire, frozen=True):
    conditions: list[_Condition] | None = None


class _Work(_Wire, frozen=True):
    metadata: Meta = Meta()
    spec: _Spec = _Spec()
    status: _Status = _Status()


_work = msgspec.json.Decoder(_Work)


def project_companion(document: bytes) -> CompanionWork:
    """Of a Work only what the hub decides on; not the object in it."""
    read = _work.decode(document)
    meta, heads = read.metadata, read.spec.workload.manifests or []
    head = heads[0] if heads else _Head()
    known = TRAVELLING.get((head.api_version, head.kind))
    where = head.metadata.namespace if known is not None and known.namespaced else ""
    refused = next((each for each in read.status.conditions or [] if (each.type, each.status) == ("Applied", "False")), None)
    return CompanionWork(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        cluster=keys.cluster_of(meta.namespace) or "",
        reference=Reference(head.api_version, head.kind, where, head.metadata.name) if known is not None else None,
        digest=(meta.annotations or {}).get(keys.SOURCE_DIGEST, ""),
        deleting=meta.deletion_timestamp is not None,
        finalized=keys.WORK_FINALIZER in (meta.finalizers or []),
        refused=(refused.reason, refused.message) if refused is not None else ("", ""),
    )
