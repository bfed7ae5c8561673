"""The fit is advice, the refusal is law (protocol.md 4): what a member refuses runs elsewhere, once."""

from __future__ import annotations

from apis import keys, kinds
from machinery.port import PatchType
from simulator.world import World
from tests.support.stage import play
from tests.support.stories import binding_run, clusters, job, phase, policy, queue, starts, why


async def close_in(world: World, member: str, name: str) -> None:
    """Somebody closes a queue of that name in the member."""
    await world.apply(queue(name, weight=1), server=member)
    await world.advance(2)
    closed = {"status": {"state": "Closed"}}
    await world.client(member).patch(kinds.QUEUE, name, closed, type=PatchType.MERGE, subresource="status")


def test_a_queue_that_is_closed_in_one_member_sends_the_job_to_the_other() -> None:
    async def story(world: World) -> None:
        await world.apply(queue("research", weight=1))
        await close_in(world, "east", "research")
        await world.apply(job("train", pods=4, cpu=2, queue="research", runs_for=5))
        await world.until(lambda: phase(world, "train") == "Completed", timeout=60)
        assert (clusters(world, "train"), starts(world, "train")) == (["west"], 4)
        run = binding_run(world, "train")
        assert run is not None and (run.epoch, run.refusals) == (2, 1)

    play(story, cpus={"east": 8, "west": 4}, pods={"default/train": 4})


def test_a_name_that_is_taken_in_one_member_sends_the_job_to_the_other() -> None:
    """Somebody submitted a Job of that name in the member itself: it is never touched."""

    async def story(world: World) -> None:
        await world.apply(job("train", runs_for=None), server="east")
        await world.advance(5)
        before = world.get(kinds.JOB, "train", server="east")
        await world.apply(job("train", pods=4, cpu=2, runs_for=5))
        await world.until(lambda: phase(world, "train") == "Completed", timeout=60)
        after = world.get(kinds.JOB, "train", server="east")
        assert before is not None and after is not None and after["spec"] == before["spec"]
        run = binding_run(world, "train")
        assert run is not None and list(run.parts) == ["west"]
        assert keys.RUN not in (after["metadata"].get("annotations") or {})

    play(story, cpus={"east": 8, "west": 4}, pods={"default/train": 4})


def test_what_every_member_refuses_waits_with_their_reasons_and_is_not_tried_in_a_loop() -> None:
    async def story(world: World) -> None:
        await world.apply(queue("research", weight=1))
        for member in world.members:
            await close_in(world, member, "research")
        await world.apply(policy("both", jobs=["train"], clusters=world.members))
        await world.apply(job("train", queue="research", runs_for=5))
        await world.advance(300)
        assert (phase(world, "train"), starts(world, "train")) == ("Pending", 0)
        for member in world.members:
            assert f"{member}: its queue research is not open" in why(world, "train")
        run = binding_run(world, "train")
        assert run is not None and run.refusals <= 24, run
        print(f"refused {run.refusals} times in five minutes")

    play(story)
