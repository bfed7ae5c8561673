"""Bindings of other objects than Volcano Jobs, as every role of the hub reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from apis import keys
from policies import claims
from policies.dependencies import Reference
from policies.views import Meta

SELECTOR = f"{keys.OBJECT}=true"


@dataclass(frozen=True, slots=True)
class BoundObject:
    """The binding of an object: where it is, by which policy (namespace, name), and what travels with it."""

    namespace: str
    name: str
    uid: str
    version: str
    reference: Reference
    clusters: frozenset[str] = frozenset()
    policy: tuple[str, str] = ("", "")
    refers_to: tuple[Reference, ...] = ()


class _Wire(msgspec.Struct, frozen=True, rename="camel"):
    pass


class _Object(_Wire, frozen=True):
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""


class _Target(_Wire, frozen=True):
    name: str = ""


class _Spec(_Wire, frozen=True):
    resource: _Object = _Object()
    clusters: list[_Target] | None = None


class _Binding(_Wire, frozen=True):
    metadata: Meta = Meta()
    spec: _Spec = _Spec()


_binding = msgspec.json.Decoder(_Binding)
_named = msgspec.json.Decoder(list[_Object])


def project_bound_object(document: bytes) -> BoundObject:
    """A ResourceBinding or ClusterResourceBinding; one that is being deleted needs nothing anywhere."""
    read = _binding.decode(document)
    meta, notes = read.metadata, read.metadata.annotations or {}
    live = meta.deletion_timestamp is None
    return BoundObject(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        reference=_reference(read.spec.resource),
        clusters=frozenset(each.name for each in read.spec.clusters or []) if live else frozenset(),
        policy=(notes.get(keys.POLICY_NAMESPACE, ""), notes.get(keys.POLICY_NAME) or notes.get(claims.CLUSTER_POLICY_NAME, "")),
        refers_to=tuple(_reference(each) for each in _read_named(notes)),
    )


def _reference(read: _Object) -> Reference:
    return Reference(read.api_version, read.kind, read.namespace, read.name)


def _read_named(notes: Mapping[str, str]) -> list[_Object]:
    try:
        return _named.decode(notes.get(keys.DEPENDENCIES, "[]"))
    except msgspec.MsgspecError:
        return []
