"""What is kept of objects and their Works: enough to know what to look at again. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from apis import keys
from policies.views import Condition, Meta

Tree = dict[str, Any]
Key = tuple[str, str]

LARGEST_STATUS: Final = 64 << 10
"""Bytes of a member's status that are looked at; more tells nobody anything that a binding could hold."""


@dataclass(frozen=True, slots=True)
class Seen:
    """An object of any kind, in which version."""

    namespace: str
    name: str
    uid: str
    version: str


@dataclass(frozen=True, slots=True)
class ObjectWork:
    """A Work of an object in one cluster. `applied` is None until the agent has said something; `status` is the member's, as
    bytes, b"" when unknown. `demanding`: it is charged for pods."""

    namespace: str
    name: str
    uid: str
    version: str
    cluster: str
    binding: Key
    digest: str = ""
    deleting: bool = False
    suspended: bool = False
    applied: bool | None = None
    reason: str = ""
    message: str = ""
    status: bytes = b""
    demanding: bool = False

    @property
    def refused(self) -> bool:
        """The member takes it not at all."""
        return self.applied is False


class _Wire(msgspec.Struct, frozen=True, rename="camel"):
    pass


class _Head(_Wire, frozen=True):
    metadata: Meta = Meta()


class _WorkSpec(_Wire, frozen=True):
    suspend_dispatching: bool | None = None


class _Item(_Wire, frozen=True):
    status: msgspec.Raw = msgspec.Raw(b"")


class _WorkStatus(_Wire, frozen=True):
    conditions: list[Condition] | None = None
    manifest_statuses: list[_Item] | None = None


class _Work(_Wire, frozen=True):
    metadata: Meta = Meta()
    spec: _WorkSpec = _WorkSpec()
    status: _WorkStatus = _WorkStatus()


_head = msgspec.json.Decoder(_Head)
_work = msgspec.json.Decoder(_Work)


def project_seen(document: bytes) -> Seen:
    """Any object."""
    meta = _head.decode(document).metadata
    return Seen(meta.namespace, meta.name, meta.uid, meta.resource_version)


def project_object_work(document: bytes) -> ObjectWork:
    """A Work of an object; not the object in it."""
    read = _work.decode(document)
    meta, notes = read.metadata, read.metadata.annotations or {}
    applied = next((each for each in read.status.conditions or [] if each.type == "Applied"), None)
    items = read.status.manifest_statuses or []
    status = bytes(items[0].status) if items else b""
    return ObjectWork(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        cluster=keys.cluster_of(meta.namespace) or "",
        binding=(notes.get(keys.BINDING_NAMESPACE, ""), notes.get(keys.BINDING_NAME, "")),
        digest=notes.get(keys.SOURCE_DIGEST, ""),
        deleting=meta.deletion_timestamp is not None,
        suspended=bool(read.spec.suspend_dispatching),
        applied={"True": True, "False": False}.get(applied.status) if applied else None,
        reason=applied.reason if applied else "",
        message=applied.message if applied else "",
        status=status if status != b"null" and len(status) <= LARGEST_STATUS else b"",
        demanding=keys.DEMAND in notes,
    )


def digest(tree: Any) -> str:
    """A short name for a tree."""
    return hashlib.blake2b(msgspec.json.encode(tree, order="deterministic"), digest_size=8).hexdigest()
