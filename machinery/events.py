"""Kubernetes Events: what happened to an object, for people who run `kubectl describe`.

Recording never blocks and never fails its caller: events wait in a bounded buffer, equal ones are counted instead of written
again, a flood about one object is folded into one event, and what cannot be written is dropped and counted. Nothing may rely
on an event having arrived.
"""

from __future__ import annotations

import asyncio
import datetime
import enum
import logging
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, TypeVar

import orjson

from apis.kinds import EVENT, Kind
from machinery.clock import Chance, Clock, stamp
from machinery.errors import ApiError, NotFound
from machinery.port import PatchType, Port

CAPACITY = 1000
"""Different events that may wait to be written; more are dropped, newest first."""

KNOWN = 4096
"""Events written and remembered, so that repetitions are counted on them."""

SIMILAR = 10
"""Different messages of one type and reason about one object, after which further ones are folded into one event."""

SIMILAR_WINDOW = 600.0
"""Seconds after which counting similar messages starts anew."""

RATE = 10.0
"""Events written a second at most: an event is a write like any other, and the API server has better things to do."""

MESSAGE = 1024
"""Characters of a message that Kubernetes takes."""

COMBINED = "(combined from similar events): "

K = TypeVar("K")
V = TypeVar("V")

log = logging.getLogger(__name__)


class Severity(enum.StrEnum):
    """Types of events."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class About:
    """The object an event is about; `namespace` "" for cluster-scoped objects, whose events live in `default`."""

    kind: Kind
    namespace: str
    name: str
    uid: str
    version: str = ""

    def reference(self) -> dict[str, str]:
        """The ObjectReference."""
        reference = {
            "apiVersion": self.kind.api_version,
            "kind": self.kind.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            "resourceVersion": self.version,
        }
        return {key: value for key, value in reference.items() if value}


@dataclass(frozen=True, slots=True)
class _Key:
    """Events with the same key are one event."""

    namespace: str
    uid: str
    severity: Severity
    reason: str
    message: str
    """Empty for the event that similar ones are folded into."""


@dataclass(slots=True)
class _Pending:
    about: About
    message: str
    count: int
    first: datetime.datetime
    last: datetime.datetime


@dataclass(slots=True)
class _Written:
    name: str
    count: int


@dataclass(slots=True)
class _Family:
    """The different messages of one type and reason about one object since `since`, boot seconds."""

    since: float
    messages: set[str]


class EventRecorder:
    """Records events in the name of `component` on `instance` (the pod or process). `run` writes them until cancelled."""

    def __init__(
        self,
        port: Port,
        *,
        component: str,
        instance: str,
        clock: Clock,
        chance: Chance,
        capacity: int = CAPACITY,
        rate: float = RATE,
    ) -> None:
        self._port = port
        self._source = {"component": component, "host": instance}
        self._clock = clock
        self._chance = chance
        self._capacity = capacity
        self._pause = 1.0 / rate
        self._pending: OrderedDict[_Key, _Pending] = OrderedDict()
        self._written: OrderedDict[_Key, _Written] = OrderedDict()
        self._families: OrderedDict[tuple[str, Severity, str], _Family] = OrderedDict()
        self._wake = asyncio.Event()
        self.dropped = 0

    def record(self, about: About, *, reason: str, message: str, severity: Severity = Severity.NORMAL) -> None:
        """Note one event: `reason` in one CamelCase word, `message` for people."""
        message = message if len(message) <= MESSAGE else message[: MESSAGE - 1] + "…"
        key = self._key(about, severity=severity, reason=reason, message=message)
        if not key.message:
            message = (COMBINED + message)[:MESSAGE]
        now = self._clock.now()
        pending = self._pending.get(key)
        if pending is not None:
            pending.count += 1
            pending.last, pending.message, pending.about = now, message, about
            return
        if len(self._pending) >= self._capacity:
            self.dropped += 1
            return
        self._pending[key] = _Pending(about, message, 1, now, now)
        self._wake.set()

    def warn(self, about: About, *, reason: str, message: str) -> None:
        """`record` with severity Warning."""
        self.record(about, reason=reason, message=message, severity=Severity.WARNING)

    async def run(self) -> None:
        """Write what was recorded, at the set rate, until cancelled. What then waits is lost."""
        while True:
            await self._wake.wait()
            while self._pending:
                key, pending = self._pending.popitem(last=False)
                try:
                    await self._write(key, pending)
                except ApiError as error:
                    self.dropped += 1
                    log.debug("an event about %s was dropped: %s", pending.about.name, error)
                await self._clock.sleep(self._pause)
            self._wake.clear()

    def _key(self, about: About, *, severity: Severity, reason: str, message: str) -> _Key:
        """The key of an event, with an empty message once its object has had SIMILAR different ones of this reason."""
        family = (about.uid, severity, reason)
        now = self._clock.boot()
        similar = _remember(self._families, family, _Family(now, set()), limit=KNOWN)
        if now - similar.since > SIMILAR_WINDOW:
            similar.since = now
            similar.messages.clear()
        if message not in similar.messages:
            if len(similar.messages) >= SIMILAR:
                return _Key(about.namespace, about.uid, severity, reason, "")
            similar.messages.add(message)
        return _Key(about.namespace, about.uid, severity, reason, message)

    async def _write(self, key: _Key, pending: _Pending) -> None:
        """One write: a count on the event there is, else a new event."""
        written = self._written.get(key)
        if written is not None:
            written.count += pending.count
            patch = {"count": written.count, "lastTimestamp": stamp(pending.last), "message": pending.message}
            try:
                await self._port.patch(EVENT, written.name, patch, type=PatchType.MERGE, namespace=_namespace(pending.about))
            except NotFound:  # events live for an hour; a new one is due
                del self._written[key]
            else:
                self._written.move_to_end(key)
                return
        name = await self._create(key, pending)
        _remember(self._written, key, _Written(name, pending.count), limit=KNOWN)

    async def _create(self, key: _Key, pending: _Pending) -> str:
        about = pending.about
        body: dict[str, Any] = {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            "metadata": {"name": f"{about.name[:230]}.{self._chance.token(16)}", "namespace": _namespace(about)},
            "involvedObject": about.reference(),
            "type": key.severity.value,
            "reason": key.reason,
            "message": pending.message,
            "source": self._source,
            "reportingComponent": self._source["component"],
            "reportingInstance": self._source["host"],
            "count": pending.count,
            "firstTimestamp": stamp(pending.first),
            "lastTimestamp": stamp(pending.last),
        }
        created = orjson.loads(await self._port.create(EVENT, body, namespace=_namespace(about)))
        return str(created["metadata"]["name"])


def _namespace(about: About) -> str:
    return about.namespace or "default"


def _remember(store: OrderedDict[K, V], key: K, value: V, *, limit: int) -> V:
    """What `store` has for `key`, else `value`, now the youngest entry; the eldest goes when there are more than `limit`."""
    kept = store.setdefault(key, value)
    store.move_to_end(key)
    if len(store) > limit:
        store.popitem(last=False)
    return kept
