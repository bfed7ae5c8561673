"""What every API object has: metadata and conditions, as far as the member's roles read them."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from apis import keys
from machinery.port import Document


class Wire(msgspec.Struct, frozen=True, rename="camel"):
    pass


class _Owner(Wire, frozen=True):
    kind: str = ""
    uid: str = ""
    controller: bool = False


class Meta(Wire, frozen=True):
    """The declared part of `metadata`."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    owner_references: list[_Owner] | None = None

    def label(self, key: str) -> str:
        """The label, or ""."""
        return (self.labels or {}).get(key, "")

    def annotation(self, key: str) -> str:
        """The annotation, or ""."""
        return (self.annotations or {}).get(key, "")

    @property
    def controller(self) -> str:
        """UID of the controlling owner, or ""."""
        return next((owner.uid for owner in self.owner_references or [] if owner.controller), "")

    @property
    def controller_kind(self) -> str:
        """Kind of the controlling owner, or ""."""
        return next((owner.kind for owner in self.owner_references or [] if owner.controller), "")


class _Bare(Wire, frozen=True):
    metadata: Meta


@dataclass(frozen=True, slots=True)
class Named:
    """An object of which only its being there matters."""

    namespace: str
    name: str
    uid: str
    version: str


_bare = msgspec.json.Decoder(_Bare).decode


def project_named(document: Document) -> Named:
    """Any object, by its name."""
    meta = _bare(document).metadata
    return Named(meta.namespace, meta.name, meta.uid, meta.resource_version)


class Condition(Wire, frozen=True, omit_defaults=True):
    """A condition as Kubernetes writes them."""

    type: str
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""


def condition(conditions: tuple[Condition, ...], type: str) -> Condition | None:
    """The condition of this type."""
    return next((each for each in conditions if each.type == type), None)


def may_be_evicted(meta: Meta) -> bool:
    """False where its annotation, or else its label, protects it from schedulers that look for room."""
    return (meta.annotation(keys.PREEMPTABLE) or meta.label(keys.PREEMPTABLE)).lower() != "false"


def number(text: str, *, otherwise: int) -> int:
    """A whole number as annotations carry it; anything else is `otherwise`."""
    return int(text) if text.isascii() and text.isdigit() else otherwise
