"""Which configuration holds: the first source that has a good one, kept through bad ones, and followed live.

Sources are a file and ConfigMaps, in the order of their rank. A source that goes away gives way to the next; one that turns
bad keeps what it last said well, and the trouble is reported once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from apis import keys, kinds
from machinery.clock import Clock
from machinery.informer import Change, Informers
from machinery.port import Document
from machinery.runner import WorkMetrics
from member_agent.scheduling.configuration import DEFAULT, BadConfiguration, Configuration, Known, parse
from member_agent.views.meta import Meta, Wire

log = logging.getLogger(__name__)

FILE_EVERY: Final = 2.0
"""Seconds between looks at the file: mounted ConfigMaps change by a new link, which no cheap watch tells."""


@dataclass(frozen=True, slots=True)
class Place:
    """A key of a ConfigMap."""

    namespace: str
    name: str
    key: str

    def __str__(self) -> str:
        return f"ConfigMap {self.namespace}/{self.name} key {self.key}"


PLACES: Final = (
    Place(keys.SYSTEM_NAMESPACE, "scheduler-configuration", "volcano-scheduler.conf"),
    Place("volcano-system", "integration-scheduler-configmap", "volcano-scheduler-ci.conf"),
)
"""Ours, and where upstream's own tests put theirs (reference/volcano.md 8.1)."""


class Profile:
    """The configuration that holds now. `source` says whose it is, `troubles` what is wrong with others, by source."""

    def __init__(self, sources: Sequence[str], *, known: Known, default: str = DEFAULT) -> None:
        """Raises BadConfiguration for a bad default."""
        self._known = known
        self._order = tuple(sources)
        self._good: dict[str, Configuration] = {}
        self._default = parse(default, known=known)
        self.troubles: dict[str, str] = {}

    @property
    def source(self) -> str:
        """Where the present configuration is from; "" for the built-in default."""
        return next((source for source in self._order if source in self._good), "")

    @property
    def current(self) -> Configuration:
        """What holds."""
        return self._good.get(self.source, self._default)

    def offer(self, source: str, text: str | None) -> bool:
        """A source says this now, None: nothing any more. Whether another configuration holds since."""
        before = self.current
        self.troubles.pop(source, None)
        if text is None:
            self._good.pop(source, None)
        else:
            try:
                self._good[source] = parse(text, known=self._known)
            except BadConfiguration as error:
                self.troubles[source] = str(error)
        return self.current != before


class _Map(Wire, frozen=True):
    metadata: Meta
    data: dict[str, str] | None = None


@dataclass(frozen=True, slots=True)
class MapView:
    """A ConfigMap."""

    namespace: str
    name: str
    uid: str
    version: str
    data: Mapping[str, str] = field(default_factory=dict)


_map = msgspec.json.Decoder(_Map).decode


def project_map(document: Document) -> MapView:
    """A ConfigMap with its text."""
    found = _map(document)
    meta = found.metadata
    return MapView(meta.namespace, meta.name, meta.uid, meta.resource_version, found.data or {})


class ProfileKeeper:
    """Feeds a Profile from a file and from ConfigMaps, and says when another configuration holds."""

    def __init__(
        self,
        *,
        known: Known,
        informers: Informers,
        clock: Clock,
        changed: Callable[[], None],
        file: Path | None = None,
        places: Sequence[Place] = PLACES,
    ) -> None:
        self._clock = clock
        self._changed = changed
        self._file = file
        self._seen: tuple[int, int, int] | None = None
        self._texts: dict[str, str | None] = {}
        self.profile = Profile([*([str(file)] if file else []), *map(str, places)], known=known)
        for place in places:
            self._follow(informers, place)

    def _follow(self, informers: Informers, place: Place) -> None:
        informer = informers.add(kinds.CONFIGMAP, project_map, namespace=place.namespace, fields=f"metadata.name={place.name}")

        def offered(change: Change[MapView]) -> None:
            self._offer(str(place), change.new.data.get(place.key) if change.new is not None else None)

        informer.subscribe(offered)

    async def run(self, metrics: WorkMetrics | None = None) -> None:
        """Follow the file until cancelled; ConfigMaps are followed by their informers."""
        while self._file is not None:
            self._look(self._file)
            await self._clock.sleep(FILE_EVERY)

    def _look(self, file: Path) -> None:
        """Read the file where it is another than before."""
        try:
            about = file.stat()
            stamp = (about.st_mtime_ns, about.st_size, about.st_ino)
            text = file.read_text() if stamp != self._seen else self._texts[str(file)]
            self._seen = stamp
        except FileNotFoundError:
            self._seen, text = None, None
        except (OSError, UnicodeDecodeError) as error:
            self._seen = None
            self._trouble(str(file), f"it cannot be read: {error}")
            return
        self._offer(str(file), text)

    def _offer(self, source: str, text: str | None) -> None:
        if source in self._texts and self._texts[source] == text:
            return
        self._texts[source] = text
        changed = self.profile.offer(source, text)
        if source in self.profile.troubles:
            self._log(source)
        if changed:
            log.info("scheduler configuration from %s", self.profile.source or "the built-in default")
            for note in self.profile.current.notes:
                log.warning("scheduler configuration: %s", note)
            self._changed()

    def _trouble(self, source: str, trouble: str) -> None:
        """Something is wrong with the source itself; said once."""
        if self.profile.troubles.get(source) != trouble:
            self.profile.troubles[source] = trouble
            self._log(source)

    def _log(self, source: str) -> None:
        trouble = self.profile.troubles[source]
        log.error("scheduler configuration from %s is not used, the last good one is: %s", source, trouble)
