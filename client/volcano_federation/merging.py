"""Streams that come and go, read as one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from typing import Final, TypeVar

T = TypeVar("T")
S = TypeVar("S")

WAITING: Final = 1000
"""Items that wait for a slow reader; then the streams wait."""


async def merged(sources: AsyncGenerator[S, None], read: Callable[[S], AsyncGenerator[T, None]]) -> AsyncGenerator[T, None]:
    """The items of all streams, as they come, to the end of the last. What one fails with ends all, and is raised here."""
    queue: asyncio.Queue[T | None] = asyncio.Queue(WAITING)
    tasks: set[asyncio.Task[None]] = set()

    async def pour(source: S) -> None:
        async with contextlib.aclosing(read(source)) as items:
            async for item in items:
                await queue.put(item)

    async def run() -> None:
        try:
            async with asyncio.TaskGroup() as group, contextlib.aclosing(sources):
                async for source in sources:
                    group.create_task(pour(source))
        except BaseExceptionGroup as error:
            raise _first(error) from None
        finally:
            # After everything else; where the queue is full, the reader wakes us by reading.
            tasks.add(asyncio.ensure_future(queue.put(None)))

    running = asyncio.ensure_future(run())
    try:
        while (item := await queue.get()) is not None:
            yield item
        await running
    finally:
        for task in (running, *tasks):
            task.cancel()
        await asyncio.gather(running, *tasks, return_exceptions=True)


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
