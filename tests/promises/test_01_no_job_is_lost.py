"""Promise 1: no Job is lost. Every admitted Job ends in a terminal phase or has a current reason why not."""

from __future__ import annotations

from apis import keys, kinds
from simulator.faults import Kill, Moment
from simulator.world import HUB, World
from tests.support.stage import play
from tests.support.stories import ENDED, clusters, job, phase, running, starts, state, why


def test_every_job_of_a_crowd_ends_or_says_what_it_waits_for() -> None:
    """Twenty of them, more than there is room for at once, and four that cannot run; all programs die on the way."""
    fit = [f"fit-{number:02d}" for number in range(20)]
    odd = {
        "large": (job("large", cpu=64), "Pending", "NoClusterFits", "short of cpu"),
        "stray": (job("stray", queue="nowhere"), "Failed", "QueueNotFound", "spec.queue"),
        "held": (job("held", annotations={keys.SUSPEND: "true"}), "Pending", "Suspended", "annotation suspend"),
        "broken": (job("broken", code=3), "Failed", "", ""),
    }

    async def story(world: World) -> None:
        for actor, number in (("hub", 60), ("hub", 110), ("agent-east", 40), ("agent-west", 60), ("fencer-east", 3)):
            world.faults.at(actor, number, Moment.AFTER, Kill())
        await world.apply([job(name, pods=2, runs_for=10) for name in fit])
        await world.apply([manifest for manifest, *_ in odd.values()])
        await world.until(lambda: all(phase(world, name) == "Completed" for name in fit), timeout=300)
        await world.until(lambda: phase(world, "broken") == "Failed", timeout=60)
        for name, (_, expected, reason, text) in odd.items():
            found = state(world, name)
            assert found.get("phase") == expected, why(world, name)
            assert reason in found.get("reason", "") and text in found.get("message", ""), why(world, name)
        assert len(world.faults.fired) >= 3

    play(story, pods={f"default/{name}": 2 for name in fit})


def test_the_reason_is_of_now_and_not_of_then() -> None:
    """First the queue of the members is full, then a member is gone: the Job says first the one, then the other."""

    async def story(world: World) -> None:
        await world.apply(job("blocker", cpu=4, pods=4, runs_for=120))
        await world.until(lambda: phase(world, "blocker") == "Running", timeout=30)
        await world.apply(job("next", cpu=3, runs_for=5))
        await world.until(lambda: "short of cpu" in why(world, "next"), timeout=15)
        world.cut("west")
        await world.until(lambda: "west: Ready is Unknown" in why(world, "next"), timeout=90)
        world.heal("west")
        await world.until(lambda: "west: Ready is Unknown" not in why(world, "next"), timeout=90)
        await world.until(lambda: phase(world, "next") in ENDED, timeout=120)
        assert starts(world, "next") == 1

    play(story, cpus={"east": 8, "west": 2})


def test_a_job_on_a_member_that_is_not_heard_from_says_so_until_it_is() -> None:
    """It may well run on; what was said last is not passed off as what is. It is told once, not again and again."""

    async def story(world: World) -> None:
        await world.apply(job("train", runs_for=600))
        await world.until(lambda: phase(world, "train") == "Running", timeout=30)
        (there,) = clusters(world, "train")
        world.cut(there)
        await world.until(lambda: why(world, "train").startswith("ClusterUnreachable: not heard from"), timeout=90)
        writes = len([write for write in world.faults.log if write.kind == kinds.JOB.name and write.server == HUB])
        await world.advance(240)
        assert len([write for write in world.faults.log if write.kind == kinds.JOB.name and write.server == HUB]) == writes
        assert (phase(world, "train"), running(world, "train")) == ("Running", 1)
        world.heal(there)
        await world.until(lambda: "ClusterUnreachable" not in why(world, "train"), timeout=90)
        await world.until(lambda: phase(world, "train") == "Completed", timeout=600)
        assert starts(world, "train") == 1

    play(story)
