"""What only an API server in memory can be told to do: forget its history, be slow, say what it likes of access."""

from __future__ import annotations

import asyncio

import orjson
import pytest

from apis import kinds
from machinery import errors
from machinery.port import EventType
from simulator import store
from simulator.api import BOOKMARK_PERIOD, ApiServer, MemoryPort
from simulator.loop import SimClock
from simulator.schemas import traits
from simulator.structural import definitions

LEASE = kinds.LEASE


async def make(port: MemoryPort, *names: str) -> list[str]:
    made = [await port.create(LEASE, {"metadata": {"name": name}}, namespace="default") for name in names]
    return [orjson.loads(document)["metadata"]["resourceVersion"] for document in made]


async def test_a_watch_from_a_compacted_version_is_expired(server: ApiServer, port: MemoryPort) -> None:
    old, new = await make(port, "a", "b")
    server.compact()
    with pytest.raises(errors.Expired):
        async for _ in port.watch(LEASE, resource_version=old):
            pass
    async for event in port.watch(LEASE, resource_version=new, timeout=1):
        assert event.type is EventType.BOOKMARK


async def test_a_token_from_before_a_compaction_is_expired(server: ApiServer, port: MemoryPort) -> None:
    await make(port, "a", "b", "c")
    page = await port.list(LEASE, namespace="default", limit=2)
    server.compact()
    with pytest.raises(errors.Expired):
        await port.list(LEASE, namespace="default", limit=2, continue_token=page.continue_token)


async def test_history_is_bounded(server: ApiServer, port: MemoryPort, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "HISTORY", 10)
    first, *_ = await make(port, *(f"l{index}" for index in range(30)))
    with pytest.raises(errors.Expired):
        async for _ in port.watch(LEASE, resource_version=first):
            pass


async def test_an_open_watch_survives_a_compaction(server: ApiServer, port: MemoryPort) -> None:
    seen: list[str] = []

    async def follow() -> None:
        async for event in port.watch(LEASE, send_initial=True, timeout=10):
            seen.append(event.type.value)

    async with asyncio.TaskGroup() as group:
        group.create_task(follow())
        await make(port, "a")
        server.compact()
        await make(port, "b")
    assert sorted(seen) == ["ADDED", "ADDED", "BOOKMARK"]


async def test_bookmarks_carry_the_version_of_the_whole_server(server: ApiServer, port: MemoryPort, clock: SimClock) -> None:
    versions: list[int] = []

    async def follow() -> None:
        async for event in port.watch(LEASE, resource_version=str(server.version), timeout=2.5 * BOOKMARK_PERIOD):
            assert event.type is EventType.BOOKMARK
            versions.append(int(orjson.loads(event.document)["metadata"]["resourceVersion"]))

    async with asyncio.TaskGroup() as group:
        group.create_task(follow())
        await clock.sleep(1)
        await port.create(kinds.CONFIGMAP, {"metadata": {"name": "other"}}, namespace="default")
    assert versions == [server.version] * 2


async def test_closing_a_port_ends_its_watches(server: ApiServer, port: MemoryPort, clock: SimClock) -> None:
    async def follow() -> None:
        async for _ in port.watch(LEASE, send_initial=True):
            pass

    following = asyncio.create_task(follow())
    await clock.sleep(1)
    await port.close()
    await following
    assert clock.boot() == pytest.approx(1)


async def test_a_caller_who_gives_up_may_have_written(server: ApiServer, clock: SimClock) -> None:
    slow = MemoryPort(server, latency=lambda: 4.0)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3):
            await make(slow, "a")
    assert server.collection(LEASE).get("default", "a") is not None
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await make(slow, "b")
    assert server.collection(LEASE).get("default", "b") is None


async def test_access_reviews_are_answered_as_told(server: ApiServer, port: MemoryPort) -> None:
    server.access = lambda spec: spec["user"] == "ann"
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    answers = [orjson.loads(await port.request("POST", path, body={"spec": {"user": user}})) for user in ("ann", "bob")]
    assert [answer["status"]["allowed"] for answer in answers] == [True, False]


async def test_no_caller_can_change_what_is_stored(server: ApiServer, port: MemoryPort) -> None:
    body = {"metadata": {"name": "a", "labels": {"l": "v"}}}
    document = await port.create(LEASE, body, namespace="default")
    body["metadata"]["labels"]["l"] = "other"  # type: ignore[index]
    assert await port.get(LEASE, "a", namespace="default") == document


def test_the_table_of_status_subresources_is_that_of_the_definitions() -> None:
    served = {
        kind: "status" in (definition["spec"]["versions"][0].get("subresources") or {})
        for kind, definition in definitions().items()
    }
    assert {kind: traits(kind).status for kind in served} == served
