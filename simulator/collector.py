"""The parts of kube-controller-manager that our programs rely on: garbage collection by owner, and namespace deletion.

Both act after a small delay, as the real ones do: between a deletion and its consequences others may act.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import orjson

from apis import kinds
from machinery.port import Preconditions, Propagation
from simulator.store import Change, Stored

if TYPE_CHECKING:
    from simulator.server import ApiServer

DELAY = 0.2
"""Seconds until a deletion has consequences."""
AGAIN = 1.0
"""Seconds until something that still waits is looked at again."""

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"


class Collector:
    """Watches all changes of one server and deletes what lost its owners or its namespace."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._dependents: dict[str, dict[tuple[kinds.Kind, str, str], None]] = {}
        self._uids: set[str] = set()
        self.enabled = True
        server.listeners.append(self._seen)

    def _seen(self, change: Change) -> None:
        old, new = change.old, change.new
        if old is not None:
            self._unlink(old)
        if new is not None:
            self._uids.add(new.uid)
            self._link(new)
            self._look_at(new)
        elif old is not None:
            self._uids.discard(old.uid)
            if old.uid in self._dependents:
                self._later(DELAY, lambda: self._owner_gone(old.uid))
            self._owners_of_gone(old)

    def _look_at(self, new: Stored) -> None:
        metadata = new.doc["metadata"]
        if metadata.get("deletionTimestamp"):
            if new.kind == kinds.NAMESPACE:
                self._later(DELAY, lambda: self._empty_namespace(new.name, new.uid))
            elif any(name in (ORPHAN, FOREGROUND) for name in metadata.get("finalizers") or ()):
                self._later(DELAY, lambda: self._finish_owner(new.kind, new.namespace, new.name, new.uid))
        elif metadata.get("ownerReferences") and not self._has_live_owner(new):
            self._later(DELAY, lambda: self._collect(new.kind, new.namespace, new.name))

    def _later(self, seconds: float, action: object) -> None:
        if self.enabled:
            asyncio.get_running_loop().call_later(seconds, action)  # type: ignore[arg-type]

    # --- the index ---------------------------------------------------------------------------------------------------

    @staticmethod
    def _owner_uids(stored: Stored) -> list[str]:
        return [owner["uid"] for owner in stored.doc["metadata"].get("ownerReferences") or ()]

    def _link(self, stored: Stored) -> None:
        for uid in self._owner_uids(stored):
            self._dependents.setdefault(uid, {})[(stored.kind, stored.namespace, stored.name)] = None

    def _unlink(self, stored: Stored) -> None:
        for uid in self._owner_uids(stored):
            there = self._dependents.get(uid)
            if there is not None:
                there.pop((stored.kind, stored.namespace, stored.name), None)
                if not there:
                    del self._dependents[uid]

    def _has_live_owner(self, stored: Stored) -> bool:
        return any(uid in self._uids for uid in self._owner_uids(stored))

    def _dependents_of(self, uid: str) -> list[Stored]:
        found = (self._server.collection(kind).get(namespace, name) for kind, namespace, name in self._dependents.get(uid, ()))
        return [stored for stored in found if stored is not None]

    # --- owners that are gone ----------------------------------------------------------------------------------------

    def _owner_gone(self, uid: str) -> None:
        for dependent in self._dependents_of(uid):
            self._collect(dependent.kind, dependent.namespace, dependent.name)

    def _collect(self, kind: kinds.Kind, namespace: str, name: str) -> None:
        stored = self._server.collection(kind).get(namespace, name)
        if stored is None or not self._owner_uids(stored) or self._has_live_owner(stored):
            return
        if not stored.doc["metadata"].get("deletionTimestamp"):
            self._server.delete(kind, name, namespace=namespace or None, preconditions=Preconditions(uid=stored.uid))

    # --- owners that wait for their dependents -----------------------------------------------------------------------

    def _owners_of_gone(self, gone: Stored) -> None:
        for owner in gone.doc["metadata"].get("ownerReferences") or ():
            if owner["uid"] in self._uids and owner.get("blockOwnerDeletion"):
                self._later(DELAY, lambda uid=owner["uid"]: self._finish_by_uid(uid))

    def _finish_by_uid(self, uid: str) -> None:
        for collection in self._server.collections():
            for stored in collection.objects.values():
                if stored.uid == uid:
                    self._finish_owner(stored.kind, stored.namespace, stored.name, uid)
                    return

    def _finish_owner(self, kind: kinds.Kind, namespace: str, name: str, uid: str) -> None:
        owner = self._server.collection(kind).get(namespace, name)
        if owner is None or owner.uid != uid or not owner.doc["metadata"].get("deletionTimestamp"):
            return
        finalizers = owner.doc["metadata"].get("finalizers") or ()
        if ORPHAN in finalizers:
            for dependent in self._dependents_of(uid):
                self._release(dependent, uid)
            self._drop_finalizer(owner, ORPHAN)
        elif FOREGROUND in finalizers:
            self._delete_dependents(uid)
            if not any(self._blocks(dependent, uid) for dependent in self._dependents_of(uid)):
                self._drop_finalizer(owner, FOREGROUND)

    def _delete_dependents(self, uid: str) -> None:
        for dependent in self._dependents_of(uid):
            others = [other for other in self._owner_uids(dependent) if other != uid and other in self._uids]
            if others or dependent.doc["metadata"].get("deletionTimestamp"):
                continue
            self._server.delete(
                dependent.kind,
                dependent.name,
                namespace=dependent.namespace or None,
                propagation=Propagation.FOREGROUND if dependent.uid in self._dependents else None,
                preconditions=Preconditions(uid=dependent.uid),
            )

    @staticmethod
    def _blocks(dependent: Stored, uid: str) -> bool:
        owners = dependent.doc["metadata"].get("ownerReferences") or ()
        return any(owner["uid"] == uid and owner.get("blockOwnerDeletion") for owner in owners)

    def _release(self, dependent: Stored, uid: str) -> None:
        doc = orjson.loads(dependent.raw)
        owners = [owner for owner in doc["metadata"]["ownerReferences"] if owner["uid"] != uid]
        doc["metadata"]["ownerReferences"] = owners
        self._server.update(dependent, doc)

    def _drop_finalizer(self, owner: Stored, finalizer: str) -> None:
        doc = orjson.loads(owner.raw)
        doc["metadata"]["finalizers"] = [name for name in doc["metadata"]["finalizers"] if name != finalizer]
        self._server.update(owner, doc)

    # --- namespaces --------------------------------------------------------------------------------------------------

    def _empty_namespace(self, name: str, uid: str) -> None:
        namespace = self._server.collection(kinds.NAMESPACE).get("", name)
        if namespace is None or namespace.uid != uid:
            return
        left = 0
        for collection in self._server.collections():
            if not collection.kind.namespaced:
                continue
            for stored in collection.scan(name):
                if not stored.doc["metadata"].get("deletionTimestamp"):
                    self._server.delete(collection.kind, stored.name, namespace=name)
                left += collection.get(name, stored.name) is not None
        if left or namespace.doc["metadata"].get("finalizers"):
            self._later(AGAIN, lambda: self._empty_namespace(name, uid))
        else:
            self._server.finish_namespace(namespace)
