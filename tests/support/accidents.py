"""What a seed lets go wrong: accidents at writes, on watches, on the way, to whole programs and to clocks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from apis import kinds
from machinery.clock import Chance
from simulator.faults import SEED_ANSWERS, Action, Delay, Hang, Kill, Late, Moment, WatchFaults, Way
from simulator.nodes import uniform
from simulator.world import HUB, Member, World

WRITES = {"hub": 90, "agent": 50, "fencer": 6}
"""At which of its first writes an accident may strike an actor of this role: about as many as it makes."""
SPAN = 45.0
"""Seconds in which timed accidents begin."""

Timed = Callable[[World], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Drawn:
    """The accidents of one seed; `words` is for the reader of a failed test."""

    members: Mapping[str, Member]
    writes: tuple[tuple[str, int, Moment, Action], ...]
    watches: WatchFaults
    conflicts: bool
    timed: tuple[tuple[float, Timed], ...]
    words: tuple[str, ...]

    def strike(self, world: World) -> list[asyncio.Task[None]]:
        """Plan it all; the tasks of the timed accidents, which the caller cancels at the end."""
        for actor, number, moment, action in self.writes:
            world.faults.at(actor, number, moment, action)
        world.faults.watches = self.watches
        world.faults.conflict_once = self.conflicts
        world.faults.leases_conflict = 8
        return [after(world, at, act) for at, act in self.timed]


async def _later(world: World, at: float, act: Timed) -> None:
    await world.clock.sleep(at)
    await act(world)


def draw(seed: int) -> Drawn:
    """The accidents of this seed, the same ones each time."""
    chance = Chance(seed)
    names = ("east", "west")
    members = {
        name: Member(nodes=uniform(name, 2, cpu=2, memory="4Gi"), drift=chance.uniform(-0.01, 0.01) if chance.below(2) else 0.0)
        for name in names
    }
    actors = [HUB, *(f"{role}-{name}" for name in names for role in ("agent", "fencer"))]
    writes = tuple(_at_a_write(chance, actor) for actor in actors for _ in range(chance.below(4)))
    timed, words = [], []
    for _ in range(chance.below(5)):
        at = chance.uniform(0.0, SPAN)
        what, act = _timed(chance, names, actors)
        timed.append((at, act))
        words.append(f"{what} at {at:.1f} s")
    watches = WatchFaults()
    if chance.below(2):
        watches = WatchFaults(
            duplicate=chance.uniform(0, 0.3),
            drop=chance.uniform(0, 0.02),
            expire=chance.uniform(0, 0.02),
            lag=chance.uniform(0, 1),
        )
    words += [f"{name} drifts by {it.drift:.4f}" for name, it in members.items() if it.drift]
    return Drawn(members, writes, watches, chance.below(4) == 0, tuple(timed), tuple(words))


def _at_a_write(chance: Chance, actor: str) -> tuple[str, int, Moment, Action]:
    number = 1 + chance.below(WRITES[actor.split("-")[0]])
    moment = Moment.BEFORE if chance.below(2) else Moment.AFTER
    kind = chance.below(7)
    if kind < 2:
        return actor, number, moment, Kill()
    if kind == 2:
        return actor, number, moment, Hang()
    if kind == 3:
        return actor, number, moment, Delay(chance.uniform(0.1, 20))
    if kind == 4:
        return actor, number, Moment.BEFORE, Late(chance.uniform(0.5, 30))
    return actor, number, moment, SEED_ANSWERS[chance.below(len(SEED_ANSWERS))]


def _timed(chance: Chance, names: tuple[str, ...], actors: list[str]) -> tuple[str, Timed]:
    member, actor = names[chance.below(len(names))], actors[chance.below(len(actors))]
    server = (HUB, *names)[chance.below(1 + len(names))]
    way = tuple(Way)[chance.below(len(Way))]
    seconds = chance.uniform(2.0, 60.0)
    kind = chance.below(5)
    if kind == 0:
        return f"{member} cut off from the hub ({way}) for {seconds:.1f} s", _cut_member(member, way, seconds)
    if kind == 1:
        target = HUB if actor == HUB else actor.split("-", 1)[1]
        return f"{actor} cut off from {target} ({way}) for {seconds:.1f} s", _cut(actor, target, way, seconds)
    if kind == 2:
        return f"{actor} killed", _kill(actor)
    if kind == 3:
        return f"{actor} stopped for {seconds:.1f} s", _stop(actor, seconds)
    return f"all watches of {server} expired", _expire(server)


def _cut_member(member: str, way: Way, seconds: float) -> Timed:
    async def act(world: World) -> None:
        for role in ("agent", "fencer"):
            world.faults.cut(f"{role}-{member}", HUB, way=way)
        await world.clock.sleep(seconds)
        for role in ("agent", "fencer"):
            world.faults.heal(f"{role}-{member}", HUB)

    return act


def _cut(actor: str, server: str, way: Way, seconds: float) -> Timed:
    async def act(world: World) -> None:
        world.faults.cut(actor, server, way=way)
        await world.clock.sleep(seconds)
        world.faults.heal(actor, server)

    return act


def _kill(actor: str) -> Timed:
    async def act(world: World) -> None:
        world.kill(actor)

    return act


def _stop(actor: str, seconds: float) -> Timed:
    async def act(world: World) -> None:
        world.stop(actor)
        await world.clock.sleep(seconds)
        world.resume(actor)

    return act


def _expire(server: str) -> Timed:
    async def act(world: World) -> None:
        expire(world, server)

    return act


def expire(world: World, server: str) -> None:
    """Every open watch of a server ends, and none can be resumed: its history begins after all that anybody has read."""
    api = world.servers[server]
    api.create(kinds.CONFIGMAP, {"metadata": {"name": f"tick-{api.version}"}}, namespace="default")
    api.compact()
    for collection in api.collections():
        for watcher in list(collection.watchers):
            watcher.close()


def after(world: World, seconds: float, act: Timed) -> asyncio.Task[None]:
    """Let it happen later."""
    return asyncio.create_task(_later(world, seconds, act))
