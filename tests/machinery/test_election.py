"""Two candidates, one Lease: never two leaders, and never long without one."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from apis.kinds import LEASE
from machinery.clock import Chance
from machinery.election import Elector, Sighting, Timing, may_take
from machinery.errors import Conflict, ServerFailed, Unreachable
from tests.machinery.fakes import FakePort, LoopClock

pytestmark = pytest.mark.looptime


class Cut:
    """A port that can be cut off: requests then hang, as in a partition; with `lossy` writes arrive and answers do not."""

    def __init__(self, port: FakePort) -> None:
        self.port = port
        self.cut = False
        self.lossy = False

    def __getattr__(self, name: str) -> Any:
        async def call(*args: Any, **kwargs: Any) -> Any:
            if self.cut:
                await asyncio.sleep(1e6)
            answer = await getattr(self.port, name)(*args, **kwargs)
            if self.lossy and name != "get":
                await asyncio.sleep(1e6)
            return answer

        return call


class WrongClock(LoopClock):
    """Wall time a year off."""

    def now(self) -> datetime.datetime:
        return super().now() + datetime.timedelta(days=365)


class Leader:
    """One process with an elector."""

    def __init__(self, name: str, server: FakePort, leaders: list[str], *, clock: LoopClock | None = None) -> None:
        self.name = name
        self.port = Cut(server)
        self.leaders = leaders
        self.elector = Elector(
            self.port,
            namespace="n",
            name="hub",
            identity=name,
            clock=clock or LoopClock(),
            chance=Chance(3),
        )
        self.terms = 0

    async def lead(self) -> None:
        assert not self.leaders, "two leaders"
        assert self.elector.leading
        self.leaders.append(self.name)
        self.terms += 1
        try:
            await asyncio.sleep(1e6)
        finally:
            self.leaders.remove(self.name)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Task[None]]:
        task = asyncio.create_task(self.elector.run(self.lead))
        try:
            yield task
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def spec(server: FakePort) -> dict[str, Any]:
    found: dict[str, Any] = server.objects[LEASE.name, "n", "hub"]["spec"]
    return found


async def test_one_of_two_leads_and_goes_on_leading() -> None:
    server, leaders = FakePort(), list[str]()
    a, b = Leader("a", server, leaders), Leader("b", server, leaders)
    async with a.running():
        await asyncio.sleep(0.1)
        async with b.running():
            await asyncio.sleep(300)
            assert leaders == ["a"]
            assert (a.terms, b.terms) == (1, 0)
            assert spec(server)["leaseTransitions"] == 0


async def test_a_leader_that_leaves_makes_room_at_once() -> None:
    server, leaders = FakePort(), list[str]()
    a, b = Leader("a", server, leaders), Leader("b", server, leaders)
    async with a.running() as leading:
        await asyncio.sleep(1)
        async with b.running():
            await asyncio.sleep(100)
            assert leaders == ["a"]
            leading.cancel()
            await asyncio.sleep(2.1)
            assert leaders == ["b"]
    assert spec(server)["holderIdentity"] == ""


async def test_a_leader_that_vanishes_is_replaced_within_twelve_seconds() -> None:
    server, leaders = FakePort(), list[str]()
    a, b = Leader("a", server, leaders), Leader("b", server, leaders, clock=WrongClock())
    async with a.running(), b.running():
        await asyncio.sleep(50.1)
        first, second = (a, b) if leaders == ["a"] else (b, a)
        first.port.cut = True
        cut = asyncio.get_running_loop().time()
        while leaders != [second.name]:
            await asyncio.sleep(0.05)
            assert first.elector.leading == (leaders == [first.name])
        assert asyncio.get_running_loop().time() - cut < 12.5
        await asyncio.sleep(100)
        first.port.cut = False
        await asyncio.sleep(100)
        assert leaders == [second.name]
        assert spec(server)["leaseTransitions"] == 1


async def test_a_leader_stops_before_anybody_else_may_start_although_its_writes_arrive() -> None:
    server, leaders = FakePort(), list[str]()
    a, b = Leader("a", server, leaders), Leader("b", server, leaders)
    async with a.running():
        await asyncio.sleep(20)
        async with b.running():
            a.port.lossy = True
            await asyncio.sleep(6.1)
            assert "a" not in leaders
            await asyncio.sleep(10)
            assert leaders == ["b"]


async def test_a_short_trouble_costs_no_leadership() -> None:
    server, leaders = FakePort(), list[str]()
    a = Leader("a", server, leaders)
    async with a.running():
        await asyncio.sleep(20)
        server.fail("replace", Unreachable("reset"), ServerFailed("no", code=500))
        await asyncio.sleep(20)
        server.fail("replace", ServerFailed("timeout", code=504), after=True)
        await asyncio.sleep(20)
        server.fail("replace", Conflict("faster", code=409))
        await asyncio.sleep(20)
        server.put(LEASE, "hub", namespace="n", spec=spec(server))  # somebody annotated it
        await asyncio.sleep(20)
        assert a.terms == 1
        assert leaders == ["a"]


async def test_a_lease_taken_by_somebody_else_ends_leadership_at_the_next_renewal() -> None:
    server, leaders = FakePort(), list[str]()
    a = Leader("a", server, leaders)
    async with a.running():
        await asyncio.sleep(20)
        server.put(LEASE, "hub", namespace="n", spec={**spec(server), "holderIdentity": "x"})
        await asyncio.sleep(2.1)
        assert leaders == []
        await asyncio.sleep(12)  # x never renews
        assert leaders == ["a"]
        assert a.terms == 2


async def test_a_deleted_lease_is_campaigned_for_again() -> None:
    server, leaders = FakePort(), list[str]()
    a = Leader("a", server, leaders)
    async with a.running():
        await asyncio.sleep(20)
        server.drop(LEASE, "hub", namespace="n")
        await asyncio.sleep(5)
        assert a.terms == 2
        assert leaders == ["a"]


async def test_the_lease_is_released_when_the_work_ends_and_when_it_fails() -> None:
    server = FakePort()
    elector = Leader("a", server, []).elector

    async def work() -> None:
        await asyncio.sleep(30)

    await elector.run(work)
    assert spec(server)["holderIdentity"] == ""
    assert not elector.leading

    async def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ExceptionGroup) as caught:
        await elector.run(fail)
    assert caught.group_contains(ZeroDivisionError)
    assert spec(server)["holderIdentity"] == ""
    assert spec(server)["leaseTransitions"] == 1


async def test_every_write_names_the_version_it_replaces() -> None:
    server, leaders = FakePort(), list[str]()
    async with Leader("a", server, leaders).running():
        await asyncio.sleep(100)
    assert {verb for verb, _, _ in server.calls} == {"get", "create", "replace"}
    stored = orjson.dumps(server.objects[LEASE.name, "n", "hub"])
    assert b'"resourceVersion"' in stored


def test_times_written_in_a_lease_are_not_believed() -> None:
    lease = {"spec": {"holderIdentity": "x", "renewTime": "1999-01-01T00:00:00.000000Z", "leaseDurationSeconds": 10}}
    seen = Sighting("7", since=100.0)
    assert not may_take(lease, identity="a", sighting=seen, now=109.9, least=10)
    assert may_take(lease, identity="a", sighting=seen, now=110.0, least=10)


def test_a_longer_duration_in_the_record_counts() -> None:
    lease = {"spec": {"holderIdentity": "x", "leaseDurationSeconds": 60}}
    assert not may_take(lease, identity="a", sighting=Sighting("7", since=0.0), now=59.0, least=10)


def test_a_timing_that_allows_two_leaders_is_refused() -> None:
    with pytest.raises(ValueError, match="must be less than the lease duration"):
        Timing(lease_duration=10, renew_deadline=8, request_timeout=3)
    with pytest.raises(ValueError, match="retry"):
        Timing(retry=6)
