"""What rules ask about other objects: Queues and namespaces, from caches that are asked again before anybody is refused by
them. A cache may be a moment late; a user who makes a Queue and a Job at once shall not notice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import orjson

from apis import kinds
from apis.keys import DEFAULT_QUEUE, ROOT_QUEUE
from apis.scheduling import OPEN, Queue
from controllers.admission.jobs import QueueFacts, QueueLookup
from controllers.admission.podgroups import NAMESPACE_QUEUE
from controllers.admission.queues import is_leaf, parent_of
from machinery.informer import Informers
from machinery.port import Document, Port
from policies.queue_doors import NAME_LABEL, door_of


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of other objects at one moment. `namespace_queues`: by namespace, the queue it names; `labels`: its
    labels, where namespaces are read."""

    queues: Mapping[str, Queue]
    namespace_queues: Mapping[str, str]
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def queue(self, name: str, namespace: str = "") -> QueueFacts | None:
        """What Job admission asks of a Queue. Our own programs make the first two: those are there before they are written.
        A namespace that is not known is kept out of nothing: the controller judges again."""
        found = self.queues.get(name)
        if found is None:
            return {DEFAULT_QUEUE: QueueFacts(), ROOT_QUEUE: QueueFacts(leaf=False)}.get(name)
        labels = self.labels.get(namespace)
        shut = self._shut(found, namespace=namespace, labels=labels) if labels is not None else ""
        return QueueFacts(state=self._state(found), leaf=is_leaf(name, queues=self.queues), shut=shut)

    def queue_for(self, namespace: str) -> QueueLookup:
        """The same as a lookup for the Jobs of one namespace."""
        return lambda name: self.queue(name, namespace)

    def _chain(self, queue: Queue) -> Iterator[Queue]:
        """It and the queues above it."""
        seen: set[str] = set()
        above: Queue | None = queue
        while above is not None and above.metadata.name not in seen:
            seen.add(above.metadata.name)
            yield above
            above = self.queues.get(parent_of(above))

    def _state(self, queue: Queue) -> str:
        """Its own, or that of the nearest queue above it that is not open: closing one closes those below it."""
        states = ((each.status.state if each.status else "") or OPEN for each in self._chain(queue))
        return next((state for state in states if state != OPEN), OPEN)

    def _shut(self, queue: Queue, *, namespace: str, labels: Mapping[str, str]) -> str:
        """Why a namespace may not use it: the queue, or one above it, is for others."""
        for each in self._chain(queue):
            door = door_of(each.metadata.annotations or {})
            if door is not None and not door.admits(labels):
                return door.why_not(each.metadata.name, namespace=namespace)
        return ""

    def holds_pods(self, name: str) -> bool:
        """Whether room is taken in the name of a Queue, as its status says."""
        found = self.queues.get(name)
        allocated = (found.status.allocated if found is not None and found.status else None) or {}
        return any(str(amount) not in ("0", "0.0", "") for amount in allocated.values())


class Source(Protocol):
    """Where facts come from."""

    @property
    def synced(self) -> bool:
        """Whether caches have read what there is."""
        ...

    def cached(self) -> Facts:
        """As far as caches have come."""
        ...

    async def fresh(self) -> Facts:
        """As it is; raises ApiError."""
        ...


@dataclass(frozen=True, slots=True)
class _Record:
    """One object of a cache."""

    namespace: str
    name: str
    uid: str
    version: str


@dataclass(frozen=True, slots=True)
class QueueRecord(_Record):
    """A Queue, read as a whole: the rules of the tree look at all of it."""

    queue: Queue


@dataclass(frozen=True, slots=True)
class NamespaceRecord(_Record):
    """A namespace: the queue it names, "" for none, and its labels."""

    queue: str
    labels: Mapping[str, str]


def read_queue(document: Document) -> QueueRecord:
    """A Queue; raises ValueError for one that cannot be read."""
    queue = Queue.read(document)
    meta = queue.metadata
    return QueueRecord("", meta.name, meta.uid, meta.resource_version, queue)


def read_namespace(document: Document) -> NamespaceRecord:
    """A namespace."""
    meta = orjson.loads(document)["metadata"]
    queue = (meta.get("annotations") or {}).get(NAMESPACE_QUEUE, "")
    return NamespaceRecord(
        "", meta["name"], meta["uid"], meta["resourceVersion"], queue, {NAME_LABEL: meta["name"], **(meta.get("labels") or {})}
    )


class InformedFacts:
    """Facts from informers on one API server. `namespaces`: whether namespaces are asked about at all."""

    def __init__(self, port: Port, *, informers: Informers, namespaces: bool) -> None:
        self._port = port
        self._queues = informers.add(kinds.QUEUE, read_queue)
        self._namespaces = informers.add(kinds.NAMESPACE, read_namespace) if namespaces else None

    @property
    def synced(self) -> bool:
        return self._queues.synced and (self._namespaces is None or self._namespaces.synced)

    def cached(self) -> Facts:
        return Facts({each.name: each.queue for each in self._queues.values()}, self._named_queues(), self._labels())

    async def fresh(self) -> Facts:
        """Queues are listed again: they are few, and this happens before a refusal only."""
        found: dict[str, Queue] = {}
        token = ""
        while True:
            page = await self._port.list(kinds.QUEUE, continue_token=token)
            for document in page.items:
                try:
                    record = read_queue(document)
                except ValueError:
                    continue  # unreadable: the informer has told
                found[record.name] = record.queue
            token = page.continue_token
            if not token:
                return Facts(found, self._named_queues(), self._labels())

    def _named_queues(self) -> dict[str, str]:
        return {each.name: each.queue for each in self._namespaces.values() if each.queue} if self._namespaces else {}

    def _labels(self) -> Mapping[str, Mapping[str, str]]:
        return {each.name: each.labels for each in self._namespaces.values()} if self._namespaces else {}
