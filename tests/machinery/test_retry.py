"""What is safe to repeat is repeated, within bounds."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from apis.kinds import CONFIGMAP
from machinery.clock import Chance
from machinery.errors import ApiError, Conflict, Forbidden, NotFound, ServerFailed, Throttled, Unreachable
from machinery.retry import backoff, reading, update
from tests.machinery.fakes import FakePort, LoopClock

pytestmark = pytest.mark.looptime


def test_waiting_doubles_up_to_a_limit_and_is_jittered() -> None:
    chance = Chance(1)
    for attempt, full in [(1, 0.25), (2, 0.5), (5, 4.0), (8, 30.0), (1000, 30.0)]:
        assert full / 2 <= backoff(attempt, chance=chance) <= full
    assert backoff(1, chance=chance, error=Throttled("busy", retry_after=90)) == 90


async def test_a_read_outlives_a_restart_of_the_server() -> None:
    port = FakePort()
    port.put(CONFIGMAP, "x", namespace="n")
    port.fail("get", Unreachable("refused"), ServerFailed("no", code=503), Throttled("busy", retry_after=5))
    await reading(lambda: port.get(CONFIGMAP, "x", namespace="n"), clock=LoopClock(), chance=Chance(1))
    assert port.count("get") == 4
    assert 5 < asyncio.get_running_loop().time() < 7


@pytest.mark.parametrize(("error", "calls"), [(Unreachable("refused"), 3), (Forbidden("no"), 1), (NotFound("no"), 1)])
async def test_a_read_that_cannot_succeed_says_so(error: ApiError, calls: int) -> None:
    port = FakePort()
    port.fail("get", *[error] * 10)
    with pytest.raises(type(error)):
        await reading(lambda: port.get(CONFIGMAP, "x"), clock=LoopClock(), chance=Chance(1), attempts=3)
    assert port.count("get") == calls


def more(doc: dict[str, Any]) -> dict[str, Any]:
    doc["size"] += 1
    return doc


async def test_an_update_that_loses_a_race_reads_again() -> None:
    port = FakePort()
    port.put(CONFIGMAP, "x", namespace="n", size=1)

    def race(doc: dict[str, Any]) -> dict[str, Any]:
        if port.count("get") < 3:
            port.put(CONFIGMAP, "x", namespace="n", size=doc["size"] + 10)
        return more(doc)

    after = await update(port, CONFIGMAP, "x", "n", race)
    assert after["size"] == 22


async def test_a_fight_is_reported_and_not_fought_forever() -> None:
    port = FakePort()
    port.put(CONFIGMAP, "x", namespace="n", size=1)
    port.fail("replace", *[Conflict("faster", code=409)] * 10)
    with pytest.raises(Conflict):
        await update(port, CONFIGMAP, "x", "n", more)
    assert port.count("replace") == 5


async def test_an_update_that_changes_nothing_writes_nothing() -> None:
    port = FakePort()
    port.put(CONFIGMAP, "x", namespace="n", size=1)
    assert (await update(port, CONFIGMAP, "x", "n", lambda doc: None))["size"] == 1
    assert port.count("replace") == 0


async def test_a_write_whose_outcome_is_unknown_is_not_repeated() -> None:
    port = FakePort()
    port.put(CONFIGMAP, "x", namespace="n", size=1)
    port.fail("replace", Unreachable("reset"), after=True)
    with pytest.raises(Unreachable):
        await update(port, CONFIGMAP, "x", "n", more)
    assert port.objects[CONFIGMAP.name, "n", "x"]["size"] == 2
