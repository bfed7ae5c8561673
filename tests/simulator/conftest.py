"""Everything here runs on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest

from machinery.clock import Chance, Ids
from simulator.api import ApiServer, MemoryPort
from simulator.loop import SimClock, VirtualLoop
from simulator.nodes import NodePool, uniform
from simulator.records import StartRecords
from tests.simulator.pool import Stage


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> Mapping[str, Callable[[], Any]]:
    """One loop whose time is virtual."""
    return {"virtual": VirtualLoop}


@pytest.fixture
async def clock() -> SimClock:
    return SimClock(asyncio.get_running_loop())


@pytest.fixture
async def server(clock: SimClock) -> ApiServer:
    chance = Chance(1)
    return ApiServer(clock, ids=Ids(chance), chance=chance)


@pytest.fixture
async def port(server: ApiServer) -> MemoryPort:
    return MemoryPort(server)


@pytest.fixture
async def stage(server: ApiServer, clock: SimClock) -> AsyncIterator[Stage]:
    port = MemoryPort(server)
    pool = NodePool(
        MemoryPort(server),
        nodes=uniform("n", 2, cpu=2),
        clock=clock,
        chance=Chance(5),
        ids=Ids(Chance(6)),
        cluster="east",
        records=StartRecords(),
    )
    running = asyncio.create_task(pool.run())
    await clock.sleep(0.1)
    yield Stage(port, pool, clock)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
