"""Starting a program and ending it in time.

A signal cancels the root task; everything below it lives in task groups and ends with it. What does not end within the grace
period is left behind: everything durable is an API object, so a hard end loses nothing.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable

GRACE = 10.0
"""Seconds for a graceful end; less than the 30 s after which a kubelet kills, more than releasing a Lease takes (3 s)."""

INTERRUPTED = 130
"""Exit code when the program had to be left behind."""

log = logging.getLogger(__name__)


async def until_signalled(
    main: Callable[[], Awaitable[None]],
    *,
    grace: float = GRACE,
    signals: tuple[signal.Signals, ...] = (signal.SIGTERM, signal.SIGINT),
) -> int:
    """Run `main` until it ends or a signal comes, and return the exit code: 0 for either, INTERRUPTED when it did not end
    within `grace` seconds or a second signal came. What `main` raises is raised."""
    loop = asyncio.get_running_loop()
    asked: asyncio.Queue[signal.Signals] = asyncio.Queue()
    for number in signals:
        loop.add_signal_handler(number, asked.put_nowait, number)
    root = asyncio.ensure_future(main())
    waiting = asyncio.ensure_future(asked.get())
    try:
        await asyncio.wait({root, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if root.done():
            root.result()
            return 0
        log.info("%s: ending within %.0f s", waiting.result().name, grace)
        root.cancel()
        waiting = asyncio.ensure_future(asked.get())
        await asyncio.wait({root, waiting}, timeout=grace, return_when=asyncio.FIRST_COMPLETED)
        if not root.done():
            log.warning("the end did not come in time; leaving")
            return INTERRUPTED
        if not root.cancelled():
            root.result()
        return 0
    finally:
        waiting.cancel()
        root.cancel()
        for number in signals:
            loop.remove_signal_handler(number)


def run(main: Callable[[], Awaitable[None]], *, grace: float = GRACE) -> int:
    """Run a program on uvloop and return its exit code. A root task that will not end does not keep the process."""
    import uvloop

    loop = uvloop.new_event_loop()
    try:
        asyncio.set_event_loop(loop)
        code = loop.run_until_complete(until_signalled(main, grace=grace))
        if code == 0:
            loop.run_until_complete(loop.shutdown_asyncgens())
        return code
    finally:
        asyncio.set_event_loop(None)
        loop.close()
