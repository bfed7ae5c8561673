"""Faults strike where they are planned, and a killed actor does nothing any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import orjson
import pytest

from apis import kinds
from machinery import errors
from machinery.clock import Chance
from machinery.port import EventType, PatchType
from simulator.api import ApiServer, MemoryPort
from simulator.faults import Action, ActorKilled, Delay, Faults, Hang, Kill, Late, Life, Moment, WatchFaults, Way, answer
from simulator.faulty import FaultyPort
from simulator.loop import SimClock
from simulator.supervisor import Supervisor

CONFIGMAP, LEASE = kinds.CONFIGMAP, kinds.LEASE
Start = Callable[[FaultyPort], Coroutine[Any, Any, None]]


class Stage:
    """Actors on one server, and what they left there."""

    def __init__(self, server: ApiServer, clock: SimClock) -> None:
        self.server, self.clock = server, clock
        self.faults = Faults(Chance(3))
        self.running: list[asyncio.Task[None]] = []

    def port(self, actor: str = "a") -> FaultyPort:
        return FaultyPort(MemoryPort(self.server), life=Life(actor, self.faults), server="hub")

    def supervise(self, start: Start, *, actor: str = "a") -> Supervisor:
        def live(life: Life) -> Coroutine[Any, Any, None]:
            return start(FaultyPort(MemoryPort(self.server), life=life, server="hub"))

        supervisor = Supervisor(actor, live, self.faults, self.clock)
        self.running.append(asyncio.create_task(supervisor.run()))
        return supervisor

    def names(self) -> list[str]:
        return [stored.name for stored in self.server.collection(CONFIGMAP).scan("default")]


@pytest.fixture
async def stage(server: ApiServer, clock: SimClock) -> AsyncIterator[Stage]:
    stage = Stage(server, clock)
    yield stage
    for task in stage.running:
        task.cancel()
    await asyncio.gather(*stage.running, return_exceptions=True)


async def make(port: FaultyPort, name: str) -> None:
    await port.create(CONFIGMAP, {"metadata": {"name": name}}, namespace="default")


async def two_writes(port: FaultyPort) -> None:
    """Makes what is missing of a and b, then waits."""
    for name in ("a", "b"):
        try:
            await port.get(CONFIGMAP, name, namespace="default")
        except errors.NotFound:
            await make(port, name)
    await asyncio.sleep(1e6)


async def test_writes_are_numbered_over_restarts(stage: Stage) -> None:
    supervisor = stage.supervise(two_writes)
    await stage.clock.sleep(1)
    supervisor.kill()
    stage.server.delete(CONFIGMAP, "a", namespace="default")
    await stage.clock.sleep(10)
    assert [(w.number, w.verb, w.kind, w.name) for w in stage.faults.writes_of("a")] == [
        (1, "create", "configmaps", "a"),
        (2, "create", "configmaps", "b"),
        (3, "create", "configmaps", "a"),
    ]
    assert supervisor.lives == 2


@pytest.mark.parametrize(("moment", "left"), [(Moment.BEFORE, ["a"]), (Moment.AFTER, ["a", "b"])])
async def test_a_kill_strikes_before_or_after_the_write(stage: Stage, moment: Moment, left: list[str]) -> None:
    stage.faults.at("a", 2, moment, Kill())
    supervisor = stage.supervise(two_writes)
    await stage.clock.sleep(1)
    assert stage.names() == left
    await stage.clock.sleep(10)
    assert stage.names() == ["a", "b"]
    assert supervisor.lives == 2
    assert supervisor.crashes == []
    assert stage.faults.fired == [f"Kill {moment} write 2 of a"]


async def test_a_kill_strikes_after_a_refusal_too(stage: Stage) -> None:
    stage.server.create(CONFIGMAP, {"metadata": {"name": "a"}}, namespace="default")
    stage.faults.at("a", 1, Moment.AFTER, Kill())
    with pytest.raises(ActorKilled):
        await make(stage.port(), "a")


async def test_nothing_of_a_killed_actor_runs_on(stage: Stage) -> None:
    after: list[str] = []

    async def stubborn(port: FaultyPort) -> None:
        async def neighbour() -> None:
            await asyncio.sleep(0.5)
            await make(port, "late")

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(neighbour())
                try:
                    await make(port, "first")
                except Exception:  # noqa: BLE001 - a program's own catch-all must not survive a kill
                    after.append("caught")
        finally:
            try:
                await make(port, "last-words")
            except BaseException:
                after.append("silenced")
                raise

    stage.faults.at("a", 1, Moment.AFTER, Kill())
    supervisor = stage.supervise(stubborn)
    await stage.clock.sleep(3)
    assert stage.names() == ["first"]
    assert after == ["silenced"]
    supervisor.stop()
    await stage.clock.sleep(20)
    assert supervisor.lives == 1


async def test_a_crash_is_kept_and_restarted(stage: Stage) -> None:
    async def broken(port: FaultyPort) -> None:
        raise ValueError("broken")

    supervisor = stage.supervise(broken)
    await stage.clock.sleep(8)
    assert supervisor.lives == 2
    assert [str(crash) for crash in supervisor.crashes] == ["broken", "broken"]


@pytest.mark.parametrize(
    ("action", "error"),
    [
        (answer(409, reason="Conflict"), errors.Conflict),
        (answer(410, reason="Expired"), errors.Expired),
        (answer(429, retry_after=2.0), errors.Throttled),
        (answer(503), errors.ServerFailed),
        (answer(0), errors.Unreachable),
        (Hang(), errors.Unreachable),
    ],
)
async def test_an_answer_can_be_replaced_before_and_after_the_effect(
    stage: Stage, action: Action, error: type[errors.ApiError]
) -> None:
    stage.faults.at("a", 1, Moment.BEFORE, action).at("a", 2, Moment.AFTER, action)
    port = stage.port()
    with pytest.raises(error):
        await make(port, "never")
    with pytest.raises(error):
        await make(port, "made")
    await make(port, "fine")
    assert stage.names() == ["fine", "made"]


async def test_a_delay_takes_its_time(stage: Stage) -> None:
    stage.faults.at("a", 1, Moment.BEFORE, Delay(7))
    await make(stage.port(), "x")
    assert stage.clock.boot() == pytest.approx(7)


async def test_every_conditional_write_conflicts_once(stage: Stage) -> None:
    stage.faults.conflict_once = True
    port = stage.port()
    made = orjson.loads(await port.create(LEASE, {"metadata": {"name": "l"}, "spec": {}}, namespace="default"))
    for holder in ("x", "y"):
        with pytest.raises(errors.Conflict):
            await port.replace(LEASE, "l", {**made, "spec": {"holderIdentity": holder}}, namespace="default")
        made = orjson.loads(await port.get(LEASE, "l", namespace="default"))
        made["spec"] = {"holderIdentity": holder}
        made = orjson.loads(await port.replace(LEASE, "l", made, namespace="default"))
        assert made["spec"]["holderIdentity"] == holder
    await port.patch(LEASE, "l", {"spec": {"holderIdentity": "z"}}, type=PatchType.MERGE, namespace="default")


async def collect(port: FaultyPort, into: list[str], **scope: Any) -> None:
    async for event in port.watch(CONFIGMAP, namespace="default", send_initial=True, **scope):
        if event.type is not EventType.BOOKMARK:
            into.append(f"{event.type} {orjson.loads(event.document)['metadata']['name']}")


async def test_watch_events_can_come_twice(stage: Stage) -> None:
    stage.faults.watches = WatchFaults(duplicate=1.0)
    await make(stage.port(), "x")
    seen: list[str] = []
    await collect(stage.port(), seen, timeout=1)
    assert seen == ["ADDED x", "ADDED x"]


@pytest.mark.parametrize(
    ("watches", "error"),
    [(WatchFaults(drop=1.0), errors.Unreachable), (WatchFaults(expire=1.0), errors.Expired)],
)
async def test_watches_can_break(stage: Stage, watches: WatchFaults, error: type[errors.ApiError]) -> None:
    stage.faults.watches = watches
    with pytest.raises(error):
        await collect(stage.port(), [], timeout=1)


async def test_streams_of_two_kinds_overtake_each_other(stage: Stage) -> None:
    stage.faults.watches = WatchFaults(lag=2.0)
    order: list[str] = []

    async def follow(kind: kinds.Kind) -> None:
        async for event in stage.port().watch(kind, namespace="default", resource_version=str(start), timeout=30):
            order.append(orjson.loads(event.document)["metadata"]["name"])

    start = stage.server.version
    async with asyncio.TaskGroup() as group:
        group.create_task(follow(CONFIGMAP))
        group.create_task(follow(LEASE))
        for index in range(10):
            await make(stage.port(), f"c{index}")
            await stage.port().create(LEASE, {"metadata": {"name": f"l{index}"}}, namespace="default")
    assert [name for name in order if name[0] == "c"] == [f"c{index}" for index in range(10)]
    assert [name for name in order if name[0] == "l"] == [f"l{index}" for index in range(10)]
    assert order != [f"{kind}{index}" for index in range(10) for kind in "cl"]


@pytest.mark.parametrize(("way", "left"), [(Way.BOTH, []), (Way.REQUESTS, []), (Way.ANSWERS, ["x"])])
async def test_a_partition_loses_requests_or_answers(stage: Stage, way: Way, left: list[str]) -> None:
    stage.faults.cut("a", "hub", way=way)
    with pytest.raises(errors.Unreachable):
        await make(stage.port("a"), "x")
    assert stage.names() == left
    await make(stage.port("b"), "y")
    stage.faults.heal("a", "hub")
    await make(stage.port("a"), "z")


async def test_a_watch_over_a_partition_is_silent_then_catches_up_or_breaks(stage: Stage) -> None:
    seen: list[str] = []
    watching = asyncio.create_task(collect(stage.port("a"), seen, timeout=1000))
    await stage.clock.sleep(1)
    stage.faults.cut("a", "hub")
    await make(stage.port("b"), "x")
    await stage.clock.sleep(30)
    assert seen == []
    stage.faults.heal("a", "hub")
    await stage.clock.sleep(1)
    assert seen == ["ADDED x"]
    stage.faults.cut("a", "hub")
    await make(stage.port("b"), "y")
    with pytest.raises(errors.Unreachable):
        await watching
    assert stage.clock.boot() == pytest.approx(32 + 90, abs=1)


async def test_a_late_write_fails_at_once_and_lands_later(stage: Stage, clock: SimClock) -> None:
    stage.faults.at("a", 1, Moment.BEFORE, Late(15))
    with pytest.raises(errors.Unreachable):
        await make(stage.port(), "late")
    assert clock.boot() < 0.01
    await clock.sleep(14)
    assert stage.names() == []
    await clock.sleep(2)
    assert stage.names() == ["late"]
    assert [each.split(": ")[1] for each in stage.faults.landed] == ["done"]


async def test_a_late_write_outlives_its_sender_and_what_it_meets_is_known(stage: Stage, clock: SimClock) -> None:
    async def write(port: FaultyPort) -> None:
        try:
            await make(port, "late")
        except errors.Unreachable:
            await make(port, "other")
        await asyncio.Event().wait()

    stage.faults.at("a", 1, Moment.BEFORE, Late(15)).at("a", 2, Moment.AFTER, Kill())
    stage.supervise(write)
    await clock.sleep(4)
    assert stage.names() == ["other"]
    await stage.port("b").create(CONFIGMAP, {"metadata": {"name": "late"}}, namespace="default")
    await clock.sleep(16)
    assert [each.split(": ")[1] for each in stage.faults.landed] == ["AlreadyExists"]


async def test_what_is_still_on_its_way_is_called_off_with_the_world(stage: Stage, clock: SimClock) -> None:
    stage.faults.at("a", 1, Moment.BEFORE, Late(15))
    with pytest.raises(errors.Unreachable):
        await make(stage.port(), "late")
    stage.faults.call_off()
    await clock.sleep(20)
    assert stage.names() == [] and stage.faults.landed == []
