"""What the pods of a Job print, in whatever clusters they run: read through the hub's end of its channel to the members."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from volcano_federation.errors import ApiError, FederationError, NotAllowed, NotFound, Unreachable
from volcano_federation.nouns import Ref, Workload, workload
from volcano_federation.transport import Door, Sleep

API: Final = "/apis/channel.volcano-federation.io/v1alpha1"
NOT_SERVED: Final = "this hub serves no logs: its channel is not set up, or not registered as an API"
FIRST: Final = 2.0
LONGEST: Final = 30.0
"""Seconds between two looks at a Job that is followed and prints nothing: the first pause, doubled up to the longest."""
MAX_LINE: Final = 1 << 20
"""Characters after which a line without an end is given in pieces."""

_SEQUENCES: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]?|\x1b[\]PX^_][^\x07\x1b\n\x9c]*(?:\x07|\x1b\\|\x9c)?|\x1b[ -/]*[0-~]?")
_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


@dataclass(frozen=True, slots=True)
class Asked:
    """What somebody wants to read. `tail`: lines of each container; `since`: seconds back; "": all tasks, pods, containers."""

    follow: bool = False
    tail: int | None = None
    since: int | None = None
    task: str = ""
    pod: str = ""
    container: str = ""
    previous: bool = False

    def query(self, since_time: str) -> dict[str, str]:
        """As parameters of a request. `since_time`: where an earlier answer ended, "" at first. Times are always asked for: by
        them a line that was given is known when it comes again."""
        first = not since_time
        given: dict[str, object] = {
            "format": "json",
            "timestamps": "true",
            "follow": "true" if self.follow else None,
            "previous": "true" if self.previous else None,
            "tailLines": self.tail if first else None,
            "sinceSeconds": self.since if first else None,
            "sinceTime": since_time or None,
            "task": self.task or None,
            "pod": self.pod or None,
            "container": self.container or None,
        }
        return {name: str(value) for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Line:
    """One line, without its end and without anything that a terminal would obey. `time`: RFC 3339, as the member wrote it,
    "" where it gave none. `notice`: a sentence of the federation about the log, not of the pod."""

    job: str
    cluster: str
    pod: str
    container: str
    text: str
    time: str = ""
    notice: bool = False

    def __str__(self) -> str:
        where = "/".join(filter(None, (self.cluster, self.pod, self.container)))
        return f"[{where}] {self.text}"


@dataclass(slots=True)
class _Container:
    """How far one log is known. `rest`: a line that has not ended; `stale`: it is of an earlier answer, and comes again."""

    last: str = ""
    rest: str = ""
    shown: bool = True
    stale: bool = False


@dataclass(slots=True)
class Reading:
    """The logs of one Job, over as many answers of the hub as it takes; no line twice."""

    job: str
    _known: dict[tuple[str, str, str], _Container] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """Whether nothing has been read."""
        return not self._known

    def since(self) -> str:
        """Where to go on: the earliest of the last lines of all containers, "" when nothing has been read."""
        return min((each.last for each in self._known.values() if each.last), key=_moment, default="")

    def begin(self) -> None:
        """A new answer begins: what was left of the one before comes again."""
        for each in self._known.values():
            each.stale = True

    def feed(self, record: bytes) -> list[Line]:
        """The lines that are whole with this record of an answer. FederationError when it is none."""
        try:
            found = json.loads(record)
            kind, text = str(found["type"]), str(found.get("text") or "")
            cluster, pod, container = (str(found.get(name) or "") for name in ("cluster", "pod", "container"))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise FederationError(f"the hub sent something that is no log: {error}", about=f"Job {self.job}") from error
        if kind == "notice":
            return [Line(self.job, cluster, pod, container, clean(text), notice=True)]
        if kind != "lines":
            return []
        known = self._known.setdefault((cluster, pod, container), _Container())
        if known.stale:
            known.rest, known.shown, known.stale = "", True, False
        *whole, known.rest = (known.rest + text).split("\n")
        if len(known.rest) > MAX_LINE:
            whole, known.rest = [*whole, known.rest], ""
        lines = (self._line(known, cluster, pod, container, each) for each in whole)
        return [line for line in lines if line is not None]

    def end(self) -> list[Line]:
        """Last lines without an end, when nothing more comes."""
        lines = [self._line(known, *where, known.rest) for where, known in self._known.items() if known.rest]
        return [line for line in lines if line is not None]

    def _line(self, known: _Container, cluster: str, pod: str, container: str, text: str) -> Line | None:
        time, _, rest = text.partition(" ")
        if _is_time(time):
            known.shown = not known.last or (_moment(time), time) > (_moment(known.last), known.last)
            known.last = time if known.shown else known.last
        else:  # the rest of a long line goes the way of its beginning
            time, rest = "", text
        return Line(self.job, cluster, pod, container, clean(rest), time) if known.shown else None


def clean(text: str) -> str:
    """Without escape sequences, control characters and those that change the direction of text."""
    if _CONTROLS.search(text) is None:
        return text
    return _CONTROLS.sub("", _SEQUENCES.sub("", text))


def _is_time(text: str) -> bool:
    return len(text) >= 20 and text[4:5] == "-" and text[10:11] == "T" and _moment(text) is not _NEVER


_NEVER: Final = datetime.min.replace(tzinfo=UTC)


def _moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return _NEVER
    return found if found.tzinfo is not None else _NEVER


async def read(door: Door, ref: Ref, asked: Asked, *, sleep: Sleep) -> AsyncGenerator[Line, None]:
    """The logs of a Job. Followed, they are read to the end of the Job: it is asked again where it waits for a cluster, moves
    to another, or its member comes back."""
    reading, seen, pause = Reading(ref.name), await _look(door, ref), FIRST
    if seen is None:
        raise NotFound("it does not exist", about=str(ref), reason="NotFound", code=404)
    while True:
        reading.begin()
        try:
            async with contextlib.aclosing(_answer(door, ref, asked, reading)) as lines:
                async for line in lines:
                    pause = FIRST
                    yield line
        except (ApiError, Unreachable) as error:
            if isinstance(error, NotFound) and not await _served(door, ref):
                raise NotFound(NOT_SERVED, about=str(ref), reason="NotServed", code=404) from error
            if not asked.follow or isinstance(error, NotAllowed) or (seen.ended and reading.empty):
                raise
        now = await _look(door, ref)
        if not asked.follow or now is None or now.uid != seen.uid or now.ended and now.version == seen.version:
            for line in reading.end():
                yield line
            return
        if now.version == seen.version:
            await sleep(pause)
            pause = min(2 * pause, LONGEST)
        seen = now


async def _answer(door: Door, ref: Ref, asked: Asked, reading: Reading) -> AsyncGenerator[Line, None]:
    path = f"{API}/namespaces/{ref.namespace}/jobs/{ref.name}/log"
    async with contextlib.aclosing(door.lines(path, about=str(ref), query=asked.query(reading.since()))) as records:
        async for record in records:
            for line in reading.feed(record):
                yield line


async def _look(door: Door, ref: Ref) -> Workload | None:
    try:
        return workload(await door.ask("GET", ref.path, about=str(ref)), ref.kind)
    except NotFound:
        return None


async def _served(door: Door, ref: Ref) -> bool:
    """Whether the hub serves logs at all; a Job that it does not know yet is another matter."""
    try:
        await door.ask("GET", API, about=str(ref))
    except NotFound:
        return False
    return True
