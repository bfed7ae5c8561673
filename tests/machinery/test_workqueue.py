"""The queue hands out each key once, never to two workers, with delays and back-off per key."""

from __future__ import annotations

import asyncio

import pytest

from machinery.workqueue import WorkQueue
from tests.machinery.fakes import LoopClock

pytestmark = pytest.mark.looptime


def queue() -> WorkQueue[str]:
    return WorkQueue(LoopClock(), base=1.0, limit=10.0)


async def test_a_key_added_twice_is_handed_out_once() -> None:
    q = queue()
    q.add("a")
    q.add("a")
    q.add("b")
    assert [await q.get(), await q.get()] == ["a", "b"]
    assert len(q) == 0


async def test_a_key_added_while_it_is_processed_waits_for_done() -> None:
    q = queue()
    q.add("a")
    key = await q.get()
    q.add("a")
    assert len(q) == 0
    q.done(key)
    assert await q.get() == "a"


async def test_a_key_that_changed_nothing_is_not_handed_out_again() -> None:
    q = queue()
    q.add("a")
    q.done(await q.get())
    assert q.idle
    assert len(q) == 0


async def test_the_earliest_of_several_delays_wins() -> None:
    q = queue()
    loop = asyncio.get_running_loop()
    q.add_after("a", 30)
    q.add_after("a", 5)
    q.add_after("a", 60)
    assert await q.get() == "a"
    assert loop.time() == pytest.approx(5)
    q.done("a")
    await asyncio.sleep(100)
    assert len(q) == 0


async def test_failures_of_one_key_delay_only_that_key() -> None:
    q = queue()
    assert [q.retry("bad") for _ in range(5)] == [1, 2, 4, 8, 10]
    q.add("good")
    assert await q.get() == "good"


async def test_a_key_that_went_well_starts_its_back_off_anew() -> None:
    q = queue()
    q.retry("a")
    q.retry("a")
    q.forget("a")
    assert q.retry("a") == 1


async def test_a_server_may_ask_for_a_longer_delay() -> None:
    q = queue()
    assert q.retry("a", at_least=25) == 25


async def test_a_worker_that_is_cancelled_while_waiting_loses_no_key() -> None:
    q = queue()
    waiting = asyncio.create_task(q.get())
    await asyncio.sleep(1)
    q.add("a")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await asyncio.wait_for(q.get(), 1) == "a"
