"""Promise 4, as far as Queues and nodes go: the hub's decisions never exceed a capability, no node is ever over-committed."""

from __future__ import annotations

from simulator.faults import Kill, Moment
from simulator.world import World
from tests.support.stage import play
from tests.support.stories import job, phase, queue

JOBS = [f"job-{number:02d}" for number in range(12)]
PODS = {f"default/{name}": 2 for name in JOBS}


def test_a_queue_never_runs_more_than_its_capability() -> None:
    """Twelve Jobs of two CPUs, a capability of five: two at a time, however often the hub forgets what it promised."""

    async def story(world: World) -> None:
        most = 0

        def look() -> bool:
            nonlocal most
            most = max(most, len(world.records.running()))
            return all(phase(world, name) == "Completed" for name in JOBS)

        for number in range(45, 200, 30):
            world.faults.at("hub", number, Moment.AFTER, Kill())
        await world.apply(queue("research", weight=1, capability={"cpu": "5"}))
        await world.apply([job(name, pods=2, runs_for=8, queue="research") for name in JOBS])
        await world.until(look, timeout=900)
        assert most == 4

    play(story, cpus={"east": 8, "west": 8}, pods=PODS)


def test_the_parent_of_two_queues_bounds_them_together() -> None:
    async def story(world: World) -> None:
        most = 0

        def look() -> bool:
            nonlocal most
            most = max(most, len(world.records.running()))
            return all(phase(world, name) == "Completed" for name in JOBS)

        await world.apply(queue("lab", weight=1, capability={"cpu": "6"}))
        await world.apply([queue(name, weight=1, parent="lab", capability={"cpu": "4"}) for name in ("left", "right")])
        halves = {name: ("left", "right")[number % 2] for number, name in enumerate(JOBS)}
        await world.apply([job(name, pods=2, runs_for=8, queue=half) for name, half in halves.items()])
        await world.until(look, timeout=300)
        assert most == 6

    play(story, cpus={"east": 8, "west": 8}, pods=PODS)


def test_nodes_are_filled_and_never_over_committed() -> None:
    """Requests that leave remainders, and agents that die: the watch adds up every node after every binding."""
    crowd = [job(f"job-{number:02d}", pods=2, cpu=f"{700 + 130 * (number % 5)}m", runs_for=6) for number in range(12)]

    async def story(world: World) -> None:
        for actor in ("agent-east", "agent-west"):
            for number in range(30, 120, 25):
                world.faults.at(actor, number, Moment.AFTER, Kill())
        await world.apply(crowd)
        await world.until(lambda: all(phase(world, name) == "Completed" for name in JOBS), timeout=900)

    play(story, cpus={"east": 3, "west": 2}, pods=PODS)
