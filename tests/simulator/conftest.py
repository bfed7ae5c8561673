"""Everything here runs on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from machinery.clock import Chance, Ids
from simulator.api import ApiServer, MemoryPort
from simulator.loop import SimClock, VirtualLoop


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
