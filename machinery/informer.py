"""Informers: a local store of projections of one kind, kept current by list and watch.

One informer holds one watch; everybody who needs the kind shares it through `Informers`. Objects are projected to the few
fields a role declares at the moment they arrive, and the bytes are dropped. Invariants: a failed read never looks like an
empty list (the store stays as it was); after an expired watch the list is read again and handlers get the difference; an
object that cannot be projected is reported in `broken` and stops nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Generic, Protocol

from apis.kinds import Kind
from machinery.clock import Chance, Clock
from machinery.errors import ApiError, Expired, Invalid, Unreachable
from machinery.port import WATCH_TIMEOUT, Document, Port, WatchEvent
from machinery.projections import Change, Key, Listing, P, Projected, Store, Unidentified, is_newer, version_of
from machinery.retry import backoff

WATCH_SLACK = 30.0
"""Seconds a watch may outlive its time-out before it is given up as hung."""

SHORT_WATCH = 1.0
"""Seconds; a watch that ends sooner without an event counts as a failure, so that a broken server is not asked in a loop."""

AT_ONCE = 500
"""Changes of one list that are handed on before others get their turn: leases must be renewed meanwhile."""

log = logging.getLogger(__name__)

__all__ = ["Change", "Informer", "InformerMetrics", "Informers", "Key", "Projected", "is_newer"]


class InformerMetrics(Protocol):
    """What informers tell about themselves; see `machinery.metrics`."""

    def listed(self, kind: str, *, objects: int) -> None:
        """A list (or streaming list) was read to its end."""
        ...

    def event(self, kind: str, *, type: str) -> None:
        """A watch event arrived."""
        ...

    def failed(self, kind: str, *, reason: str) -> None:
        """A list or watch ended in an error."""
        ...

    def broken(self, kind: str) -> None:
        """An object could not be projected."""
        ...


class Informer(Generic[P]):
    """The store of one kind in one scope. `project` makes the projection of a document, or raises ValueError (or msgspec's
    errors) for one it cannot read. Documents of lists may lack apiVersion and kind.
    """

    def __init__(
        self,
        port: Port,
        kind: Kind,
        project: Callable[[Document], P],
        *,
        clock: Clock,
        chance: Chance,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        page_size: int = 500,
        streaming: bool = False,
        metrics: InformerMetrics | None = None,
    ) -> None:
        self.kind = kind
        self.project = project
        self._port = port
        self._clock = clock
        self._chance = chance
        self._scope: dict[str, Any] = {"namespace": namespace, "labels": labels, "fields": fields}
        self._page_size = page_size
        self._streaming = streaming
        self._metrics = metrics
        self._store = Store(project, unreadable=self._unreadable)
        self._handlers: list[Callable[[Change[P]], None]] = []
        self._listed = False
        self._failures = 0
        self._synced = asyncio.Event()

    # --- reading -----------------------------------------------------------------------------------------------------

    def get(self, namespace: str | None, name: str) -> P | None:
        """The projection, or None when there is no such object (or none that could be read)."""
        return self._store.objects.get((namespace or "", name))

    def values(self) -> Iterable[P]:
        """All projections in no promised order."""
        return self._store.objects.values()

    def sorted(self) -> list[P]:
        """All projections by namespace and name."""
        objects = self._store.objects
        return [objects[key] for key in sorted(objects)]

    def __len__(self) -> int:
        return len(self._store.objects)

    @property
    def reached(self) -> str:
        """The resourceVersion up to which the store is complete; "" before the first list."""
        return self._store.reached

    @property
    def synced(self) -> bool:
        """Whether the first list has been read and handed to all handlers."""
        return self._synced.is_set()

    @property
    def broken(self) -> Mapping[Key, str]:
        """Objects that exist and cannot be projected, with the reason. Their last readable projection, if any, stays."""
        return MappingProxyType(self._store.broken)

    async def wait_synced(self) -> None:
        """Return once the first list has been read."""
        await self._synced.wait()

    def subscribe(self, handler: Callable[[Change[P]], None]) -> None:
        """Call `handler` for everything there is, now, and for every change from here on. An exception it raises is a bug
        and ends the informer."""
        for projection in self.sorted():
            handler(Change((projection.namespace, projection.name), None, projection))
        self._handlers.append(handler)

    # --- list and watch ----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """List, then watch, until cancelled; errors of the API server are logged and tried again with back-off."""
        while True:
            try:
                await self._round()
            except Expired as error:
                self._listed = False
                await self._failed(error, wait=self._failures > 0)
            except ApiError as error:
                if self._streaming and isinstance(error, Invalid):
                    log.info("%s: no streaming list here, reading pages instead: %s", self.kind.name, error)
                    self._streaming = False
                await self._failed(error, wait=True)

    async def _round(self) -> None:
        """One watch with the list it needs before it; returns when the server ends the watch."""
        if not self._listed and not self._streaming:
            await self._list()
        started = self._clock.boot()
        listing = None if self._listed else Listing[P]()
        events = 0
        async with self._watching(initial=listing is not None) as stream:
            async for event in stream:
                events += 1
                if listing is not None and not event.initial_end:
                    self._store.collect(listing, event)
                elif listing is not None:
                    await self._replace(listing, version=version_of(event))
                    listing = None
                else:
                    self._apply(event)
        if listing is not None:
            raise Unreachable("the watch ended before its list was complete", request=f"watch {self.kind.name}")
        if events == 0 and self._clock.boot() - started < SHORT_WATCH:
            raise Unreachable("the watch ended at once", request=f"watch {self.kind.name}")
        self._failures = 0

    @contextlib.asynccontextmanager
    async def _watching(self, *, initial: bool) -> AsyncIterator[AsyncIterator[WatchEvent]]:
        """An open watch from where the store stands; closed on leaving, given up when it outlives its time-out."""
        stream = self._port.watch(
            self.kind,
            **self._scope,
            resource_version="" if initial else self._store.reached,
            send_initial=initial,
            timeout=WATCH_TIMEOUT,
        )
        try:
            async with asyncio.timeout(WATCH_TIMEOUT + WATCH_SLACK):
                yield stream
        except TimeoutError as error:
            raise Unreachable("the watch outlived its time-out", request=f"watch {self.kind.name}") from error
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()

    async def _list(self) -> None:
        listing = Listing[P]()
        token = ""
        while True:
            page = await self._port.list(self.kind, **self._scope, limit=self._page_size, continue_token=token)
            for document in page.items:
                self._store.keep(listing, document)
            token = page.continue_token
            if not token:
                break
        await self._replace(listing, version=page.resource_version)

    async def _failed(self, error: ApiError, *, wait: bool) -> None:
        self._failures += 1
        reason = type(error).__name__
        if self._metrics is not None:
            self._metrics.failed(self.kind.name, reason=reason)
        delay = backoff(self._failures, chance=self._chance, error=error) if wait else 0.0
        level = logging.INFO if isinstance(error, Expired) else logging.WARNING
        log.log(level, "%s: %s: %s; again in %.1f s", self.kind.name, reason, error, delay)
        if wait:
            await self._clock.sleep(delay)

    # --- handing on --------------------------------------------------------------------------------------------------

    async def _replace(self, listing: Listing[P], *, version: str) -> None:
        changes = list(self._store.replace(listing, version=version))
        self._listed = True
        if self._metrics is not None:
            self._metrics.listed(self.kind.name, objects=len(self))
        for start in range(0, len(changes), AT_ONCE):
            if start:
                await asyncio.sleep(0)
            self._emit(changes[start : start + AT_ONCE])
        self._synced.set()

    def _apply(self, event: WatchEvent) -> None:
        if self._metrics is not None:
            self._metrics.event(self.kind.name, type=event.type.value)
        try:
            changes = self._store.apply(event)
        except Unidentified as error:
            raise Expired(str(error), request=f"watch {self.kind.name}") from error
        self._failures = 0
        self._emit(changes)

    def _emit(self, changes: Iterable[Change[P]]) -> None:
        for change in changes:
            for handler in self._handlers:
                handler(change)

    def _unreadable(self, key: Key, reason: str) -> None:
        if self._metrics is not None:
            self._metrics.broken(self.kind.name)
        log.error("%s %s/%s cannot be read and is left out: %s", self.kind.name, *key, reason)


class Informers:
    """All informers of one program on one port: the same kind and scope is watched once."""

    def __init__(self, port: Port, clock: Clock, chance: Chance, *, metrics: InformerMetrics | None = None) -> None:
        self._port = port
        self._clock = clock
        self._chance = chance
        self._metrics = metrics
        self._informers: dict[tuple[Kind, str | None, str, str], Informer[Any]] = {}
        self._group: asyncio.TaskGroup | None = None

    def add(
        self,
        kind: Kind,
        project: Callable[[Document], P],
        *,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        page_size: int = 500,
        streaming: bool = False,
    ) -> Informer[P]:
        """The informer of this kind and scope; ValueError when it exists with another projection. May be called before and
        while `run` runs."""
        scope = (kind, namespace, labels, fields)
        known = self._informers.get(scope)
        if known is not None:
            if known.project != project:
                raise ValueError(f"{kind.name} is informed already with projection {known.project!r}, not {project!r}")
            return known
        informer = Informer(
            self._port,
            kind,
            project,
            clock=self._clock,
            chance=self._chance,
            namespace=namespace,
            labels=labels,
            fields=fields,
            page_size=page_size,
            streaming=streaming,
            metrics=self._metrics,
        )
        self._informers[scope] = informer
        if self._group is not None:
            self._group.create_task(informer.run(), name=f"informer {kind.name}")
        return informer

    async def run(self) -> None:
        """Run all informers until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for informer in list(self._informers.values()):
                    group.create_task(informer.run(), name=f"informer {informer.kind.name}")
                await asyncio.Event().wait()
        finally:
            self._group = None

    async def wait_synced(self) -> None:
        """Return once every informer added so far has read its first list."""
        for informer in list(self._informers.values()):
            await informer.wait_synced()

    @property
    def synced(self) -> bool:
        """Whether every informer has read its first list."""
        return all(informer.synced for informer in self._informers.values())

    def __iter__(self) -> Iterator[Informer[Any]]:
        return iter(self._informers.values())
