"""What one API server keeps: objects by kind, their history, and who watches.

A stored object is never changed: every write makes a new one. Documents are kept decoded (for selectors and patches) and
encoded once (for readers), so that a read costs nothing. The history of a kind is bounded; what fell out of it is expired.
"""

from __future__ import annotations

import asyncio
import bisect
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from apis.kinds import Kind
from machinery.port import EventType
from simulator.fields import Ownership

Doc = dict[str, Any]
Filter = Callable[["Stored"], bool]

HISTORY = 50_000
"""Events kept per kind; a real API server keeps minutes of them."""


@dataclass(frozen=True, slots=True)
class Stored:
    """One version of one object. `doc` must not be changed by anybody."""

    kind: Kind
    namespace: str
    name: str
    uid: str
    version: int
    doc: Doc
    raw: bytes
    owned: Ownership | None = None
    """Who owns which field; None until somebody applied server-side."""

    @property
    def key(self) -> str:
        """Where the object lies in etcd's order: `namespace/name`, or the name alone."""
        return object_key(self.namespace, self.name)

    @property
    def labels(self) -> dict[str, str]:
        labels: dict[str, str] | None = self.doc["metadata"].get("labels")
        return labels or {}

    @property
    def listed(self) -> bytes:
        """As an item of a list: built-in kinds carry no apiVersion and kind there."""
        if not is_custom(self.kind):
            return b"{" + self.raw[len(_type_prefix(self.kind)) :]
        return self.raw

    def at(self, version: int) -> Stored:
        """The same state under another resourceVersion, as DELETED events carry it."""
        return seal(self.kind, {**self.doc, "metadata": {**self.doc["metadata"]}}, version=version, owned=self.owned)


def object_key(namespace: str, name: str) -> str:
    """The key within a kind; the order of keys is the order of lists."""
    return f"{namespace}/{name}" if namespace else name


def is_custom(kind: Kind) -> bool:
    """Served from a CustomResourceDefinition, not built in."""
    return bool(kind.group) and "." in kind.group and not kind.group.endswith(".k8s.io")


def _type_prefix(kind: Kind) -> bytes:
    return b'{"apiVersion":"%s","kind":"%s",' % (kind.api_version.encode(), kind.kind.encode())


def seal(kind: Kind, doc: Doc, *, version: int, owned: Ownership | None = None) -> Stored:
    """Stamp the version and the type on a document that nobody else holds, and encode it."""
    doc.pop("apiVersion", None)
    doc.pop("kind", None)
    metadata = doc.pop("metadata")
    metadata["resourceVersion"] = str(version)
    full = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **doc}
    return Stored(
        kind=kind,
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        uid=metadata["uid"],
        version=version,
        doc=full,
        raw=orjson.dumps(full),
        owned=owned,
    )


@dataclass(frozen=True, slots=True)
class Change:
    """One entry of the history: `new` is None for a deletion, whose final state `old` then carries the version."""

    version: int
    old: Stored | None
    new: Stored | None


Event = tuple[EventType, Stored | int]
"""An event for one watcher; a BOOKMARK carries the version alone."""


@dataclass(slots=True, eq=False)
class Watcher:
    """One open watch: what it wants and what it has not read yet."""

    wants: Filter
    pending: deque[Event] = field(default_factory=deque)
    waiter: asyncio.Future[None] | None = None
    closed: bool = False

    def offer(self, change: Change) -> None:
        """Queue what this change means for the selector: objects enter, change and leave it."""
        old = change.old if change.old is not None and self.wants(change.old) else None
        new = change.new if change.new is not None and self.wants(change.new) else None
        if new is not None:
            self.pending.append((EventType.MODIFIED if old is not None else EventType.ADDED, new))
        elif old is not None:
            self.pending.append((EventType.DELETED, old.at(change.version)))
        else:
            return
        self.wake()

    def wake(self) -> None:
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    def close(self) -> None:
        self.closed = True
        self.wake()


class Collection:
    """All objects of one kind, in the order of their keys."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.objects: dict[str, Stored] = {}
        self.history: list[Change] = []
        self.floor = 0
        """Versions below this are compacted: a watch from there is refused."""
        self.watchers: dict[Watcher, None] = {}
        self._keys: list[str] = []

    def get(self, namespace: str, name: str) -> Stored | None:
        return self.objects.get(object_key(namespace, name))

    def scan(self, namespace: str | None) -> Iterator[Stored]:
        """Objects in key order, of one namespace or of all."""
        keys = self._keys
        if namespace is not None and self.kind.namespaced:
            low = bisect.bisect_left(keys, namespace + "/")
            high = bisect.bisect_left(keys, namespace + "0")  # "0" follows "/"
            keys = keys[low:high]
        return (self.objects[key] for key in list(keys))

    def commit(self, change: Change) -> None:
        """Make the change the current state, keep it in the history, tell the watchers."""
        if change.new is not None:
            key = change.new.key
            if change.old is None:
                bisect.insort(self._keys, key)
            self.objects[key] = change.new
        elif change.old is not None:
            key = change.old.key
            del self.objects[key]
            del self._keys[bisect.bisect_left(self._keys, key)]
        self.history.append(change)
        if len(self.history) > 2 * HISTORY:
            self.compact(self.history[HISTORY].version)
        for watcher in list(self.watchers):
            watcher.offer(change)

    def compact(self, version: int) -> None:
        """Forget the history up to `version`."""
        self.floor = max(self.floor, version)
        self.history = self.history[self._after(version) :]

    def since(self, version: int) -> list[Change]:
        """Changes after `version`; the caller has checked `floor`."""
        return self.history[self._after(version) :]

    def _after(self, version: int) -> int:
        return bisect.bisect_right(self.history, version, key=lambda change: change.version)
