"""Recording an event costs its caller nothing, whatever becomes of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from apis.kinds import EVENT, JOB
from machinery.clock import Chance
from machinery.errors import Forbidden, NotFound
from machinery.events import COMBINED, About, EventRecorder
from tests.machinery.fakes import FakePort, LoopClock

pytestmark = pytest.mark.looptime

TRAIN = About(JOB, "team", "train", "uid-1", "7")


def recorder(port: FakePort, *, capacity: int = 100) -> EventRecorder:
    return EventRecorder(
        port, component="hub", instance="hub-0", clock=LoopClock(), chance=Chance(1), capacity=capacity, rate=10
    )


@contextlib.asynccontextmanager
async def writing(events: EventRecorder) -> AsyncIterator[None]:
    task = asyncio.create_task(events.run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def stored(port: FakePort) -> list[dict[str, Any]]:
    return [found for key, found in sorted(port.objects.items()) if key[0] == EVENT.name]


async def test_an_event_says_what_happened_to_which_object() -> None:
    port = FakePort()
    events = recorder(port)
    async with writing(events):
        events.warn(TRAIN, reason="Refused", message="no room on east")
        await asyncio.sleep(1)
    (event,) = stored(port)
    assert event["involvedObject"]["uid"] == "uid-1"
    assert event["involvedObject"]["apiVersion"] == "batch.volcano.sh/v1alpha1"
    assert (event["type"], event["reason"], event["message"]) == ("Warning", "Refused", "no room on east")
    assert event["metadata"]["name"].startswith("train.")
    assert event["metadata"]["namespace"] == "team"


async def test_equal_events_are_counted_and_not_written_again() -> None:
    port = FakePort()
    events = recorder(port)
    for _ in range(50):
        events.record(TRAIN, reason="Waiting", message="queue is full")
    async with writing(events):
        await asyncio.sleep(1)
        for _ in range(50):
            events.record(TRAIN, reason="Waiting", message="queue is full")
        await asyncio.sleep(1)
    (event,) = stored(port)
    assert event["count"] == 100
    assert (port.count("create"), port.count("patch")) == (1, 1)


async def test_a_flood_about_one_object_is_folded_into_one_event() -> None:
    port = FakePort()
    events = recorder(port)
    async with writing(events):
        for index in range(100):
            events.record(TRAIN, reason="Moved", message=f"attempt {index}")
        await asyncio.sleep(60)
    assert len(stored(port)) == 11
    (folded,) = [event for event in stored(port) if event["message"].startswith(COMBINED)]
    assert folded["count"] == 90
    assert folded["message"].endswith("attempt 99")


async def test_events_are_written_no_faster_than_allowed() -> None:
    port = FakePort()
    events = recorder(port)
    async with writing(events):
        for index in range(60):
            events.record(About(JOB, "team", f"j{index}", f"u{index}"), reason="Started", message="started")
        await asyncio.sleep(1)
        assert port.count("create") <= 11
        await asyncio.sleep(10)
        assert port.count("create") == 60


async def test_what_does_not_fit_or_cannot_be_written_is_dropped_and_counted() -> None:
    port = FakePort()
    events = recorder(port, capacity=5)
    for index in range(8):
        events.record(About(JOB, "team", f"j{index}", f"u{index}"), reason="Started", message="started")
    assert events.dropped == 3
    port.fail("create", Forbidden("namespace is terminating", code=403))
    async with writing(events):
        await asyncio.sleep(10)
    assert events.dropped == 4
    assert len(stored(port)) == 4


async def test_an_event_that_was_cleaned_up_is_written_anew() -> None:
    port = FakePort()
    events = recorder(port)
    async with writing(events):
        events.record(TRAIN, reason="Waiting", message="queue is full")
        await asyncio.sleep(1)
        port.fail("patch", NotFound("gone", code=404))
        events.record(TRAIN, reason="Waiting", message="queue is full")
        await asyncio.sleep(1)
    assert port.count("create") == 2


async def test_an_event_of_a_cluster_scoped_object_lives_in_default() -> None:
    port = FakePort()
    events = recorder(port)
    async with writing(events):
        events.record(About(JOB, "", "east", "u"), reason="Ready", message="x" * 3000)
        await asyncio.sleep(1)
    (event,) = stored(port)
    assert event["metadata"]["namespace"] == "default"
    assert len(event["message"]) == 1024
