"""A signal ends the program in order, or after its grace period without."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

import pytest

from machinery import shutdown
from machinery.shutdown import INTERRUPTED, until_signalled


async def test_a_signal_cancels_the_root_and_lets_it_clean_up() -> None:
    cleaned: list[str] = []

    async def main() -> None:
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGTERM)
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            cleaned.append("lease released")

    assert await until_signalled(main) == 0
    assert cleaned == ["lease released"]


async def test_a_program_that_ends_by_itself_ends_well() -> None:
    async def main() -> None:
        return

    assert await until_signalled(main) == 0


async def test_a_bug_reaches_the_caller() -> None:
    async def main() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await until_signalled(main)


@pytest.mark.parametrize("grace", [0.02, 60.0])
async def test_a_program_that_will_not_end_is_left_after_its_grace_or_a_second_signal(grace: float) -> None:
    release = asyncio.Event()

    async def main() -> None:
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGTERM)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        if grace > 1:
            os.kill(os.getpid(), signal.SIGINT)
        await release.wait()

    assert await until_signalled(main, grace=grace) == INTERRUPTED
    release.set()
    await asyncio.sleep(0)


def test_a_program_runs_from_start_to_end() -> None:
    seen: list[str] = []

    async def main() -> None:
        seen.append(type(asyncio.get_running_loop()).__module__)

    assert shutdown.run(main) == 0
    assert seen == ["uvloop"]
