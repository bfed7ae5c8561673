"""The logs of one Job's pods as records, one after another or followed, and never more of them than are taken."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, Protocol

import msgspec

from apis import kinds
from controllers.channel.messages import CHUNK, MAX_SAID, Lines, LogOptions, Notice, Record
from controllers.channel.plaintext import Reader, clean
from machinery import errors
from machinery.clock import Clock, stamp
from machinery.port import Streams
from member_agent.channel.owned import Container

DEPTH: Final = 8
"""Records that wait to be sent: at most 16 KiB of text each."""
PAUSE: Final = 1.0
"""Seconds between two looks at the pods, and before a log that broke off is read on."""

Look = Callable[[], Awaitable[list[Container]]]
"""The containers that are asked for, as they are now; ApiError when the API server does not say."""


class Changes(Protocol):
    """What may have happened to a Job."""

    @property
    def over(self) -> bool:
        """No more pods will come."""
        ...

    async def wait(self) -> None:
        """Return when pods or Job changed since the last wait."""
        ...


class LogAnswer:
    """One answer. `changes` is asked only where logs are followed."""

    def __init__(
        self,
        options: LogOptions,
        *,
        namespace: str,
        look: Look,
        changes: Changes,
        streams: Streams,
        clock: Clock,
        at_once: int,
        followed: int,
    ) -> None:
        self._options = options
        self._namespace = namespace
        self._look = look
        self._changes = changes
        self._streams = streams
        self._clock = clock
        self._gate = asyncio.Semaphore(at_once)
        self._followed = followed
        self._queue: asyncio.Queue[Record | None] = asyncio.Queue(DEPTH)
        self._active = 0
        self._woken = asyncio.Event()

    async def records(self) -> AsyncIterator[Record]:
        """What `run` finds, in the order it comes."""
        while True:
            record = await self._queue.get()
            if record is None:
                return
            yield record

    async def run(self) -> None:
        """Read until everything that was asked for has been put; what cannot be read becomes a notice."""
        try:
            await (self._follow() if self._options.follow else self._once())
        except errors.ApiError as error:
            await self._tell(f"the pods cannot be read: {error.message}")
        except msgspec.MsgspecError as error:
            await self._tell(f"the pods cannot be read: {error}")
        await self._queue.put(None)

    async def _once(self) -> None:
        found = await self._look()
        if not found:
            await self._tell("there is no such pod or container here")
        async with asyncio.TaskGroup() as group:
            for container in found:
                group.create_task(self._gated(container))

    async def _gated(self, container: Container) -> None:
        async with self._gate:
            await self._read(container, self._options)

    # --- following ---------------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        """Those that are there, and those that come: restarted containers and new pods from their beginning."""
        begun: set[tuple[str, str, int]] = set()
        options, left_out = self._options, 0
        async with asyncio.TaskGroup() as group:
            while True:
                self._woken.clear()
                over = self._changes.over
                for container in await self._look():
                    key = (container.pod_uid, container.name, container.life)
                    if container.waits or key in begun:
                        continue
                    begun.add(key)
                    if self._active >= self._followed:
                        left_out += 1
                        if left_out == 1:
                            await self._tell(f"only {self._followed} containers are followed at once: choose a task or a pod")
                        continue
                    self._active += 1
                    group.create_task(self._followed_one(container, options))
                options = _from_the_beginning(self._options)
                if over and not self._active:
                    return
                await self._until_changed()

    async def _followed_one(self, container: Container, options: LogOptions) -> None:
        try:
            await self._read(container, options)
        finally:
            self._active -= 1
            self._woken.set()

    async def _until_changed(self) -> None:
        """Until something changed or a log ended, and not more often than PAUSE."""
        waiting = [asyncio.ensure_future(self._changes.wait()), asyncio.ensure_future(self._woken.wait())]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()
        await self._clock.sleep(PAUSE)

    # --- one log -----------------------------------------------------------------------------------------------------

    async def _read(self, container: Container, options: LogOptions) -> None:
        """To its end, with a notice where it cannot be read; one that is followed and breaks off is read on."""
        if container.waits:
            await self._tell(f"container {container.name} waits: {container.waits}", pod=container.pod)
            return
        query = query_of(options, container=container.name)
        while True:
            try:
                await self._pour(container, query)
                return
            except errors.ApiError as error:
                await self._tell(f"container {container.name}: {error.message}", pod=container.pod)
                if not options.follow or not isinstance(error, errors.Unreachable):
                    return
            query = query_of(_from_the_beginning(options), container=container.name)
            query["sinceTime"] = stamp(self._clock.now())
            await self._clock.sleep(PAUSE)

    async def _pour(self, container: Container, query: dict[str, str]) -> None:
        reader = Reader(limit=CHUNK)
        path = kinds.POD.path(namespace=self._namespace, name=container.pod, subresource="log")
        stream = self._streams.stream(path, query=query)
        try:
            async for chunk in stream:
                for piece in reader.feed(chunk):
                    await self._put(container, piece)
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                with contextlib.suppress(errors.ApiError):
                    await close()
        await self._put(container, reader.end())

    async def _put(self, container: Container, text: str) -> None:
        shown = clean(text)
        if shown:
            await self._queue.put(Lines(container.pod, container.name, shown, several=container.several))

    async def _tell(self, text: str, *, pod: str = "") -> None:
        await self._queue.put(Notice(clean(text)[:MAX_SAID], pod))


def query_of(options: LogOptions, *, container: str) -> dict[str, str]:
    """Parameters of `GET pods/log`."""
    asked: dict[str, str | int | None] = {
        "container": container,
        "follow": "true" if options.follow else None,
        "previous": "true" if options.previous else None,
        "timestamps": "true" if options.timestamps else None,
        "tailLines": options.tail_lines,
        "sinceSeconds": options.since_seconds,
        "sinceTime": options.since_time or None,
    }
    return {name: str(value) for name, value in asked.items() if value is not None}


def _from_the_beginning(options: LogOptions) -> LogOptions:
    """For what begins while others are followed."""
    return LogOptions(follow=options.follow, timestamps=options.timestamps)
