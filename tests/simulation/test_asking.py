"""What no published row can tell, the member's own scheduler is asked (protocol.md 4): told on the whole federation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from apis import keys, kinds
from machinery.clock import Chance, Ids
from simulator.loop import SimClock, run_virtual
from simulator.nodes import uniform
from simulator.world import Doc, Member, World
from tests.support.stories import clusters, job, phase, starts, why
from tests.support.watching import Watch

pytestmark = pytest.mark.story


def apart(name: str, *, pods: int, cpu: int = 1, runs_for: float | None = 30) -> Doc:
    """A gang of which no two pods may share a node."""
    made = job(name, pods=pods, cpu=cpu, runs_for=runs_for)
    template = made["spec"]["tasks"][0]["template"]
    template.setdefault("metadata", {})["labels"] = {"app": name}
    term = {"labelSelector": {"matchLabels": {"app": name}}, "topologyKey": "kubernetes.io/hostname"}
    template["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return made


def play(story: Callable[[World], Awaitable[None]], **members: Member) -> None:
    """Tell it on these members."""

    async def main(clock: SimClock, chance: Chance, ids: Ids) -> None:
        async with World(7, members=members) as world:
            watch = Watch(world, pods={})
            await world.advance(10)
            await story(world)
            watch.check()
            assert world.crashes == [], world.story()

    run_virtual(main, seed=7)


def of(name: str, nodes: int, *, cpu: int, **settings: Any) -> Member:
    return Member(nodes=uniform(name, nodes, cpu=cpu), settings=settings)


def capacity(world: World, member: str) -> Doc:
    return world.get(kinds.CLUSTER_CAPACITY, keys.MEMBER_LEASE, namespace=keys.execution_namespace(member)) or {}


def asked(world: World, member: str) -> list[dict[str, Any]]:
    return list((capacity(world, member).get("spec") or {}).get("shapes") or [])


def test_a_gang_whose_pods_must_be_apart_goes_where_the_scheduler_says_that_it_fits() -> None:
    async def story(world: World) -> None:
        await world.apply(apart("train", pods=3))
        await world.until(lambda: phase(world, "train") == "Running", timeout=30)
        assert clusters(world, "train") == ["west"]  # east has more room, on two nodes
        assert starts(world, "train") == 3
        assert [each["queue"] for each in asked(world, "west")] == ["default"]

    play(story, east=of("east", 2, cpu=16), west=of("west", 3, cpu=4))


def test_who_waits_is_told_when_a_scheduler_expects_room_and_starts_as_soon_as_there_is() -> None:
    async def story(world: World) -> None:
        limited = job("first", pods=2, cpu=4, runs_for=100, annotations={keys.MAX_RUN_TIME: "10m"})
        await world.apply(limited)
        await world.until(lambda: phase(world, "first") == "Running", timeout=30)
        await world.apply(job("second", pods=2, cpu=3, runs_for=5))
        await world.until(lambda: "expected to fit in about" in why(world, "second"), timeout=40)
        assert [each["minimum"] for each in asked(world, "east")] == [2]
        await world.until(lambda: phase(world, "first") == "Completed", timeout=120)
        await world.until(lambda: phase(world, "second") == "Running", timeout=8)
        await world.until(lambda: phase(world, "second") == "Completed", timeout=30)
        await world.advance(120)
        assert asked(world, "east") == []
        written = capacity(world, "east")["metadata"]["resourceVersion"]
        await world.advance(1200)
        assert capacity(world, "east")["metadata"]["resourceVersion"] == written

    play(story, east=of("east", 2, cpu=4))


def test_until_a_scheduler_has_answered_it_waits_and_says_for_what() -> None:
    async def story(world: World) -> None:
        for actor in ("agent-east", "agent-west"):
            world.stop(actor)
        await world.apply(apart("train", pods=3))
        await world.until(lambda: "is being asked" in why(world, "train"), timeout=10)
        assert phase(world, "train") == "Pending"
        for actor in ("agent-east", "agent-west"):
            world.resume(actor)
        await world.until(lambda: phase(world, "train") == "Running", timeout=60)
        assert clusters(world, "train") == ["west"]

    play(story, east=of("east", 2, cpu=16), west=of("west", 3, cpu=4))
