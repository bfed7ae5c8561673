"""`fedctl logs`: what the pods of a Job, or of all Jobs of a flow, print in whatever clusters they run, each line with its pod.

Everything comes from the hub's end of the channel, by the way of the kubeconfig (an aggregated API) or directly with a token.
What it sends is cleaned once more: nothing that a program prints does anything to this terminal.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from dataclasses import dataclass, replace
from typing import IO, Final

import msgspec

from apis import kinds
from controllers.channel import messages
from controllers.channel.messages import BadMessage, Lines, Notice, Record
from controllers.channel.plaintext import Interleaved, clean
from fedctl.flows import NOT_FOUND, OK, REFUSED, Place
from machinery import errors
from machinery.clock import Chance, Clock, stamp
from machinery.informer import Informer, Informers
from machinery.port import Port, Streams
from machinery.wire import Frames

NOT_SERVED: Final = "this hub serves no logs: its channel is not set, or not registered as an API (docs/operations/channel.md)"
COLOURS: Final = (36, 32, 33, 35, 34, 96, 92, 93, 95, 94)
"""ANSI foregrounds; a pod keeps its own."""
JOB_ENDS: Final = frozenset({"Completed", "Failed", "Terminated", "Aborted"})
FLOW_ENDS: Final = frozenset({"Succeed", "Failed"})
RETRY: Final = 2.0
"""Seconds before a hub or member that cannot be reached is asked again; doubled up to RETRY_LIMIT."""
RETRY_LIMIT: Final = 30.0
OVERLAP: Final = 1.0
"""Seconds that are read again after a break: better a line twice than not at all."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What somebody wants to read. `since` in seconds."""

    follow: bool = False
    tail: int | None = None
    since: int | None = None
    timestamps: bool = False
    previous: bool = False
    container: str = ""
    task: str = ""
    pod: str = ""
    since_time: str = ""

    def query(self) -> dict[str, str]:
        """As parameters of a request."""
        given: dict[str, str | int | None] = {
            "follow": "true" if self.follow else None,
            "timestamps": "true" if self.timestamps else None,
            "previous": "true" if self.previous else None,
            "tailLines": self.tail,
            "sinceSeconds": None if self.since_time else self.since,
            "sinceTime": self.since_time or None,
            "container": self.container or None,
            "task": self.task or None,
            "pod": self.pod or None,
        }
        return {"format": "json"} | {name: str(value) for name, value in given.items() if value is not None}


class _Owner(msgspec.Struct, frozen=True):
    uid: str = ""
    controller: bool = False


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    owner_references: list[_Owner] | None = None


class _State(msgspec.Struct, frozen=True):
    phase: str = ""
    message: str = ""


class _Status(msgspec.Struct, frozen=True):
    state: _State = _State()


class _Object(msgspec.Struct, frozen=True):
    metadata: _Meta
    status: _Status = _Status()


_decode = msgspec.json.Decoder(_Object).decode


@dataclass(frozen=True, slots=True)
class Subject:
    """A Job or a flow, as far as it matters here; `owner`: UID of its controller."""

    namespace: str
    name: str
    uid: str
    version: str
    owner: str
    phase: str
    message: str


def project(document: bytes) -> Subject:
    """From a Job or a JobFlow."""
    found = _decode(document)
    meta, state = found.metadata, found.status.state
    owner = next((each.uid for each in meta.owner_references or () if each.controller), "")
    return Subject(meta.namespace, meta.name, meta.uid, meta.resource_version, owner, state.phase, state.message)


class Writer:
    """Puts lines on a screen, each under the coloured name of its pod."""

    def __init__(self, out: IO[str], *, coloured: bool) -> None:
        self._out = out
        self._coloured = coloured
        self._lines = Interleaved()

    def add(self, record: Lines) -> None:
        """One piece of a log."""
        name = "/".join(filter(None, (record.cluster, record.pod, record.container if record.several else "")))
        label = f"[{clean(name)}] "
        if self._coloured:
            colour = COLOURS[zlib.crc32(f"{record.cluster}/{record.pod}".encode()) % len(COLOURS)]
            label = f"\x1b[{colour}m{label}\x1b[0m"
        self._out.write(self._lines.add(label, clean(record.text)))
        self._out.flush()

    def end(self) -> None:
        """Nothing more comes."""
        self._out.write(self._lines.end())
        self._out.flush()


class Reading:
    """One `fedctl logs`."""

    def __init__(self, place: Place, streams: Streams, asked: Asked, *, clock: Clock, writer: Writer) -> None:
        self._place = place
        self._streams = streams
        self._asked = asked
        self._clock = clock
        self._writer = writer
        self._told: dict[str, str] = {}
        self._changed: dict[str, asyncio.Event] = {}
        """Set when a Job that is followed changes, by its name."""

    # --- what there is -----------------------------------------------------------------------------------------------

    async def once(self, jobs: list[str]) -> int:
        """Read what has been printed so far; the worst exit code."""
        codes = []
        for job in jobs:
            try:
                await self._pour(job, self._asked)
                codes.append(OK)
            except errors.ApiError as error:
                codes.append(self._explain(job, error))
        self._writer.end()
        return max(codes, default=OK)

    def _explain(self, job: str, error: errors.ApiError) -> int:
        """Say why there are no logs, once for each reason; the exit code. What is nobody's fault here is raised."""
        if isinstance(error, errors.Unauthorized | errors.Forbidden):
            raise error
        text = f"Job {job}: {clean(error.message)}"
        if isinstance(error, errors.NotFound):
            text = clean(error.message) if f'"{job}"' in error.message else NOT_SERVED
        if self._told.get(job) != text:
            self._told[job] = text
            self._say(text, style="yellow" if self._asked.follow else "red")
        return NOT_FOUND if isinstance(error, errors.NotFound) else REFUSED

    def _say(self, text: str, *, style: str = "yellow") -> None:
        self._place.errors.print(text, style=style, markup=False, highlight=False, soft_wrap=True)

    async def _pour(self, job: str, asked: Asked) -> bool:
        """One answer of the hub, onto the screen; whether every member answered to the end."""
        whole = True
        path = messages.log_path(self._place.namespace, job)
        async with contextlib.aclosing(_records(self._streams.stream(path, query=asked.query()))) as records:
            async for record in records:
                if isinstance(record, Lines):
                    self._writer.add(record)
                else:
                    self._notice(record)
                    whole = whole and bool(record.pod)
        return whole

    def _notice(self, notice: Notice) -> None:
        self._say(clean(f"[{'/'.join(filter(None, (notice.cluster, notice.pod)))}] {notice.text}"))

    # --- what comes --------------------------------------------------------------------------------------------------

    async def follow(self, name: str, *, kind: kinds.Kind) -> int:
        """Until the Job, or the flow with all its Jobs, has ended."""
        informers = Informers(self._place.port, self._clock, Chance())
        fields = f"metadata.name={name}"
        single = kind == kinds.JOB
        # An informer would ask for ever; who may not watch Jobs hears it now.
        await self._place.port.list(kinds.JOB, namespace=self._place.namespace, fields=fields if single else "", limit=1)
        jobs = informers.add(kinds.JOB, project, namespace=self._place.namespace, fields=fields if single else "")
        flows = informers.add(kind, project, namespace=self._place.namespace, fields=fields) if not single else None
        changed = asyncio.Event()
        jobs.subscribe(lambda change: self._job_changed(change.key[1], changed))
        if flows is not None:
            flows.subscribe(lambda _: changed.set())
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(informers.run())
            await informers.wait_synced()
            try:
                await self._all(name, jobs, flows, changed)
            finally:
                watching.cancel()
        self._writer.end()
        return OK

    async def _all(self, name: str, jobs: Informer[Subject], flows: Informer[Subject] | None, changed: asyncio.Event) -> None:
        """A reader per Job, from when it is there."""
        readers: dict[str, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as group:
            while True:
                changed.clear()
                flow = flows.get(self._place.namespace, name) if flows is not None else None
                for job in jobs.sorted():
                    wanted = flows is None or (flow is not None and job.owner == flow.uid)
                    if wanted and job.uid not in readers:
                        reader = group.create_task(self._one(job.name, job.uid, jobs))
                        reader.add_done_callback(lambda _: changed.set())
                        readers[job.uid] = reader
                over = (flow is None or flow.phase in FLOW_ENDS) if flows is not None else True
                if over and all(reader.done() for reader in readers.values()):
                    return
                await changed.wait()

    def _job_changed(self, job: str, changed: asyncio.Event) -> None:
        changed.set()
        if job in self._changed:
            self._changed[job].set()

    async def _one(self, job: str, uid: str, jobs: Informer[Subject]) -> None:
        """One Job to its end: asked again where it waits for a cluster, moves to another, or its member comes back."""
        asked, wait, changed = self._asked, RETRY, self._changed.setdefault(job, asyncio.Event())
        while True:
            changed.clear()
            try:
                trouble = not await self._pour(job, asked)
                wait = wait if trouble else RETRY
            except errors.ApiError as error:
                self._explain(job, error)
                trouble = not isinstance(error, errors.Invalid)
            else:
                asked = replace(self._asked, tail=None, since_time=_before(self._clock.now()))
            found = jobs.get(self._place.namespace, job)
            if found is None or found.uid != uid or found.phase in JOB_ENDS:
                return
            if trouble:
                await self._clock.sleep(wait)
                wait = min(2 * wait, RETRY_LIMIT)
            else:
                await changed.wait()


def _before(moment: datetime.datetime) -> str:
    return stamp(moment - datetime.timedelta(seconds=OVERLAP))


async def _records(stream: AsyncIterator[bytes]) -> AsyncGenerator[Record, None]:
    frames = Frames(2 * messages.MAX_RECORD)
    async for chunk in stream:
        for line in frames.feed(chunk):
            try:
                yield messages.read_record(line)
            except BadMessage as error:
                raise errors.ServerFailed(f"the hub sent something that is no log: {error}") from error


# --- which Jobs ------------------------------------------------------------------------------------------------------


async def logs(
    place: Place, name: str, asked: Asked, *, clock: Clock, streams: Streams | None = None, writer: Writer | None = None
) -> int:
    """`fedctl logs NAME`: a Job, or `flow/NAME`: all Jobs of a flow. `streams`: how to reach the channel, where not by the
    kubeconfig."""
    form, _, plain = name.rpartition("/")
    if form not in ("", "job", "jobs", "flow", "jobflow", "jobflows") or not plain:
        place.errors.print(f"{name!r} is neither a Job, job/NAME nor flow/NAME", style="red", markup=False)
        return REFUSED
    kind = kinds.JOB_FLOW if "flow" in form else kinds.JOB
    try:
        found = project(await place.port.get(kind, plain, namespace=place.namespace))
    except errors.NotFound:
        place.errors.print(f"{kind.kind} {place.namespace}/{plain} does not exist", style="red", markup=False)
        return NOT_FOUND
    console = place.console
    screen = writer or Writer(console.file, coloured=console.is_terminal and not console.no_color)
    reading = Reading(place, streams or _by_kubeconfig(place.port), asked, clock=clock, writer=screen)
    try:
        if asked.follow:
            return await _alone(reading.follow(plain, kind=kind))
        jobs = [plain] if kind == kinds.JOB else await _jobs_of(place, found.uid)
        if not jobs:
            place.errors.print(f"JobFlow {place.namespace}/{plain} has no Jobs yet", style="red", markup=False)
            return NOT_FOUND
        return await reading.once(jobs)
    except BrokenPipeError:  # whoever reads has read enough
        return OK


async def _alone(work: Coroutine[None, None, int]) -> int:
    """What tasks of a group fail with, as itself."""
    try:
        return await work
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None


async def _jobs_of(place: Place, uid: str) -> list[str]:
    found, token = [], ""
    while True:
        page = await place.port.list(kinds.JOB, namespace=place.namespace, continue_token=token)
        found += [job.name for job in map(project, page.items) if job.owner == uid]
        token = page.continue_token
        if not token:
            return sorted(found)


def _by_kubeconfig(port: Port) -> Streams:
    if not isinstance(port, Streams):
        raise ValueError("this connection reads no logs")
    return port
