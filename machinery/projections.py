"""The store of an informer, as a pure value machine: lists and events go in, differences come out.

Nothing here waits. What an object is known by is its projection; what its bytes were is forgotten. Events that are repeated
or late change nothing, because an object's resourceVersion only grows; objects that cannot be projected are remembered with
the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import msgspec

from machinery.port import Document, EventType, WatchEvent

Key = tuple[str, str]
"""Namespace ("" for cluster-scoped objects) and name."""

TOMBSTONES = 1024
"""Deletions remembered, so that a repeated older event does not bring an object back."""


class Projected(Protocol):
    """What every projection carries."""

    @property
    def namespace(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def uid(self) -> str: ...

    @property
    def version(self) -> str: ...


P = TypeVar("P", bound=Projected)


@dataclass(frozen=True, slots=True)
class Change(Generic[P]):
    """One difference: `old` None for an object that appeared, `new` None for one that is gone."""

    key: Key
    old: P | None
    new: P | None


@dataclass(slots=True)
class Listing(Generic[P]):
    """What one list has brought so far."""

    objects: dict[Key, P] = field(default_factory=dict)
    broken: dict[Key, str] = field(default_factory=dict)


class Unidentified(ValueError):
    """A watch event that names no object: whatever it was about, the store may now be wrong."""


class _Meta(msgspec.Struct, rename="camel"):
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""

    @property
    def key(self) -> Key:
        return (self.namespace, self.name)


class _Object(msgspec.Struct):
    metadata: _Meta


_decoder = msgspec.json.Decoder(_Object)

_UNREADABLE = (msgspec.MsgspecError, ValueError, LookupError, TypeError)
"""What a projection may raise for an object it cannot read; anything else is a bug and surfaces."""


def is_newer(version: str, than: str) -> bool:
    """Whether one resourceVersion is later than another of the same kind; unknown forms count as newer, "" never."""
    if not version:
        return False
    if not (version.isdigit() and than.isdigit()):
        return version != than
    return int(version) > int(than)


class Store(Generic[P]):
    """Projections by key. `reached` is the resourceVersion up to which they are complete ("" before the first list), `broken`
    has the objects that exist and cannot be projected; their last readable projection, if any, stays. `unreadable` is told
    of each such object."""

    def __init__(self, project: Callable[[Document], P], *, unreadable: Callable[[Key, str], None]) -> None:
        self.objects: dict[Key, P] = {}
        self.broken: dict[Key, str] = {}
        self.reached = ""
        self._project = project
        self._unreadable = unreadable
        self._gone: dict[Key, str] = {}

    # --- lists -------------------------------------------------------------------------------------------------------

    def keep(self, listing: Listing[P], document: Document) -> None:
        """Put one document into a listing, readable or not."""
        projection, key = self._read(document, broken=listing.broken)
        if projection is not None:
            listing.objects[key] = projection

    def collect(self, listing: Listing[P], event: WatchEvent) -> None:
        """Put one event of a streaming list, before its end, into a listing."""
        if event.type is EventType.DELETED:
            key = _key_of(event.document)
            listing.objects.pop(key, None)
            listing.broken.pop(key, None)
        elif event.type is not EventType.BOOKMARK:
            self.keep(listing, event.document)

    def replace(self, listing: Listing[P], *, version: str) -> list[Change[P]]:
        """Take over a complete list that stood at `version`; returns how it differs from what was known. Unchanged objects
        keep their identity."""
        before, after = self.objects, listing.objects
        for key in listing.broken:  # it exists: what was last readable of it stays
            if key in before:
                after[key] = before[key]
        changes = list(_differences(before, after))
        for key, known in before.items():
            if key in after and after[key].version == known.version:
                after[key] = known
        self.objects, self.broken, self.reached = after, listing.broken, version
        self._gone.clear()
        return changes

    # --- events ------------------------------------------------------------------------------------------------------

    def apply(self, event: WatchEvent) -> list[Change[P]]:
        """Take over one event; returns what it changed. Unidentified for one that names no object."""
        changes: list[Change[P]] = []
        if event.type in (EventType.DELETED, EventType.BOOKMARK):
            meta = _identified(event.document)
            version = meta.resource_version
            if event.type is EventType.DELETED:
                changes = self._remove(meta)
        else:
            changes, version = self._upsert(event.document)
        if is_newer(version, self.reached):
            self.reached = version
        return changes

    def _remove(self, meta: _Meta) -> list[Change[P]]:
        self.broken.pop(meta.key, None)
        known = self.objects.get(meta.key)
        if known is None or (known.uid != meta.uid and is_newer(known.version, meta.resource_version)):
            return []  # gone already, or a late word about the object that had the name before
        del self.objects[meta.key]
        self._gone[meta.key] = meta.resource_version
        if len(self._gone) > TOMBSTONES:
            del self._gone[next(iter(self._gone))]
        return [Change(meta.key, known, None)]

    def _upsert(self, document: Document) -> tuple[list[Change[P]], str]:
        """What it changed, and the version it stands at. What the projection says of itself is not read a second time."""
        try:
            projection = self._project(document)
        except _UNREADABLE as error:
            meta = _identified(document)
            self._broke(meta.key, str(error), broken=self.broken)
            return [], meta.resource_version
        key, version = (projection.namespace, projection.name), projection.version
        self.broken.pop(key, None)
        known = self.objects.get(key)
        least = known.version if known is not None else self._gone.get(key, "")
        if least and not is_newer(version, least):
            return [], version  # repeated or out of order: what is known is at least as new
        self.objects[key] = projection
        self._gone.pop(key, None)
        return list(_between(key, known, projection)), version

    def _read(self, document: Document, *, broken: dict[Key, str]) -> tuple[P | None, Key]:
        """The projection and its key; None and an entry in `broken` for a document that cannot be read."""
        try:
            projection = self._project(document)
        except _UNREADABLE as error:
            key = _key_of(document)
            self._broke(key, str(error), broken=broken)
            return None, key
        return projection, (projection.namespace, projection.name)

    def _broke(self, key: Key, reason: str, *, broken: dict[Key, str]) -> None:
        broken[key] = reason
        self._unreadable(key, reason)


def _identified(document: Document) -> _Meta:
    """Which object an event is about; raises Unidentified."""
    try:
        return _decoder.decode(document).metadata
    except msgspec.MsgspecError as error:
        raise Unidentified(f"an event names no object: {error}") from error


def version_of(event: WatchEvent) -> str:
    """The resourceVersion an event stands at; "" when it has none."""
    try:
        return _decoder.decode(event.document).metadata.resource_version
    except msgspec.MsgspecError:
        return ""


def _key_of(document: Document) -> Key:
    """The key of a document whose projection failed; ("", "") when not even that can be read."""
    try:
        return _decoder.decode(document).metadata.key
    except msgspec.MsgspecError:
        return ("", "")


def _between(key: Key, old: P | None, new: P) -> Iterator[Change[P]]:
    """An update, or for a name taken over by a new object its end and its beginning."""
    if old is not None and old.uid != new.uid:
        yield Change(key, old, None)
        old = None
    yield Change(key, old, new)


def _differences(before: Mapping[Key, P], after: Mapping[Key, P]) -> Iterator[Change[P]]:
    """Ends first, then what is new or changed, each by key."""
    for key in sorted(before.keys() - after.keys()):
        yield Change(key, before[key], None)
    for key in sorted(after):
        known = before.get(key)
        if known is None or known.version != after[key].version:
            yield from _between(key, known, after[key])
