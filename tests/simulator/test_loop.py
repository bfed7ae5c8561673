"""Virtual time: waiting costs nothing, nothing waits forever, one seed is one trace."""

from __future__ import annotations

import asyncio
import datetime
import subprocess
import sys

import pytest

from machinery.clock import Chance, Ids, SystemClock
from simulator.loop import EPOCH, Deadlock, SimClock, VirtualLoop, run_virtual

TRACE = """
import asyncio
from simulator.loop import run_virtual

async def main(clock, chance, ids):
    trace = []
    async def walk(name):
        for _ in range(4):
            await clock.sleep(chance.uniform(0, 5))
            trace.append(f"{name} {clock.boot():.6f} {ids.uuid()}")
    async def fail():
        await clock.sleep(7)
        raise ValueError
    async def end(name):
        try:
            await clock.sleep(100)
        finally:
            trace.append(f"cancelled {name}")
    try:
        async with asyncio.TaskGroup() as group:
            for n in range(5):
                group.create_task(walk(n))
            for n in range(20):
                group.create_task(end(n))
            group.create_task(fail())
    except* ValueError:
        pass
    return trace
"""


def test_an_hour_passes_at_once() -> None:
    async def main(clock: SimClock, chance: Chance, ids: Ids) -> float:
        before = SystemClock().boot()
        await clock.sleep(3600)
        assert SystemClock().boot() - before < 1
        return clock.boot()

    assert run_virtual(main, seed=1) == pytest.approx(3600)


def test_a_wait_that_is_smaller_than_the_rounding_of_a_clock_still_moves_time() -> None:
    """A worker that comes back after what is left until it is due comes back a last time, not for ever."""

    async def main(clock: SimClock, chance: Chance, ids: Ids) -> int:
        slow, rounds = SimClock(asyncio.get_running_loop(), drift=-0.0051), 0
        await clock.sleep(48.123456789)
        due = slow.boot() + 1e-15
        while slow.boot() <= due and rounds < 100:
            await slow.sleep(1e-16)
            rounds += 1
        return rounds

    assert run_virtual(main, seed=1) == 1


def test_wall_time_and_boot_time_go_together() -> None:
    async def main(clock: SimClock, chance: Chance, ids: Ids) -> datetime.datetime:
        await clock.sleep(90)
        return clock.now()

    assert run_virtual(main, seed=1) == EPOCH + datetime.timedelta(seconds=90)


def test_sleepers_wake_in_order_of_time() -> None:
    async def main(clock: SimClock, chance: Chance, ids: Ids) -> list[float]:
        woken: list[float] = []

        async def sleeper(seconds: float) -> None:
            await clock.sleep(seconds)
            woken.append(seconds)

        async with asyncio.TaskGroup() as group:
            for seconds in (3.0, 1.0, 2.0):
                group.create_task(sleeper(seconds))
        return woken

    assert run_virtual(main, seed=1) == [1.0, 2.0, 3.0]


def test_a_fast_clock_wakes_early_and_shows_the_time_it_was_told() -> None:
    async def main(clock: SimClock, chance: Chance, ids: Ids) -> tuple[float, float]:
        fast = SimClock(asyncio.get_running_loop(), drift=0.01)
        await fast.sleep(101)
        return clock.boot(), fast.boot()

    true, shown = run_virtual(main, seed=1)
    assert true == pytest.approx(100)
    assert shown == pytest.approx(101)


def test_waiting_for_nothing_is_a_deadlock() -> None:
    async def main(clock: SimClock, chance: Chance, ids: Ids) -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Deadlock, match="task-1"):
        run_virtual(main, seed=1)


def test_time_has_a_limit() -> None:
    loop = VirtualLoop(limit=10)

    async def forever() -> None:
        while True:  # noqa: ASYNC110 - nothing to wait for is the point
            await asyncio.sleep(1)

    with pytest.raises(Deadlock, match="limit"):
        loop.run_until_complete(forever())
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


def test_one_seed_is_one_trace_in_every_process() -> None:
    """Hash seeds and addresses differ between processes; the trace must not."""
    script = TRACE + "\nprint(run_virtual(main, seed=7))"
    traces = {
        subprocess.run(
            [sys.executable, "-c", script], env={"PYTHONHASHSEED": str(n)}, capture_output=True, text=True, check=True
        ).stdout
        for n in range(2)
    }
    assert len(traces) == 1
    other = subprocess.run(
        [sys.executable, "-c", script.replace("seed=7", "seed=8")], capture_output=True, text=True, check=True
    ).stdout
    assert {other} != traces
