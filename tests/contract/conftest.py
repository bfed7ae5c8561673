"""One contract suite, two API servers.

Every test runs on the in-memory API server with virtual time. Where `VF_CONTRACT_KUBECONFIG` names the kubeconfig of a
disposable real API server (with kube-controller-manager, and our CRDs applied), every test runs against that as well, marked
`real`. A test asserts only what is true of both, and keeps to a namespace of its own.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from apis import kinds
from machinery.clock import Chance, Ids
from machinery.port import Port
from simulator.api import ApiServer, MemoryPort
from simulator.loop import SimClock, VirtualLoop
from tests.contract.story import Story

KUBECONFIG = "VF_CONTRACT_KUBECONFIG"
HERE = Path(__file__).parent


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> Mapping[str, Callable[[], Any]]:
    """One run of each test per API server; the loop tells which."""
    factories: dict[str, Callable[[], Any]] = {"memory": VirtualLoop}
    if os.environ.get(KUBECONFIG):
        factories["real"] = asyncio.new_event_loop
    return factories


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what runs against a real API server."""
    for item in items:
        if HERE in item.path.parents and "[real" in item.nodeid:
            item.add_marker(pytest.mark.real)


@pytest.fixture
async def port() -> AsyncIterator[Port]:
    """The API server under test."""
    loop = asyncio.get_running_loop()
    if isinstance(loop, VirtualLoop):
        chance = Chance(1)
        memory = MemoryPort(ApiServer(SimClock(loop), ids=Ids(chance), chance=chance))
        yield memory
        await memory.close()
        return
    from machinery.kube import KubePort

    real = await KubePort.from_kubeconfig(os.environ[KUBECONFIG])
    yield real
    await real.close()


@pytest.fixture
async def story(port: Port) -> AsyncIterator[Story]:
    """A namespace of the test's own."""
    fresh = await port.create(kinds.NAMESPACE, {"metadata": {"generateName": "contract-"}})
    story = Story.of(port, namespace=fresh)
    yield story
    await port.delete(kinds.NAMESPACE, story.namespace)
