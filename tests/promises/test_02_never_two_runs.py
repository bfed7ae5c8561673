"""Promise 2: never two running runs of an exclusive Job. Epoch n+1 waits until epoch n is known to have ended."""

from __future__ import annotations

from apis import keys, kinds
from machinery.port import PatchType
from simulator.world import World
from tests.support.stage import play
from tests.support.stories import binding_run, clusters, home, job, phase, running, starts, why

OTHER = {"east": "west", "west": "east"}


async def suspend(world: World, name: str, value: str) -> None:
    """What `kubectl annotate` does."""
    note = {"metadata": {"annotations": {keys.SUSPEND: value}}}
    await world.client().patch(kinds.JOB, name, note, type=PatchType.MERGE, namespace="default")


def test_a_job_whose_member_is_away_is_not_run_elsewhere() -> None:
    """Suspended and resumed while its cluster cannot be reached: its pods may still run there, and so they do."""

    async def story(world: World) -> None:
        await world.apply(job("train", runs_for=600))
        await world.until(lambda: running(world, "train") == 1, timeout=30)
        (away,) = clusters(world, "train")
        world.cut(away)
        await suspend(world, "train", "true")
        await world.until(lambda: f"waiting for {away} to confirm" in why(world, "train"), timeout=30)
        await suspend(world, "train", "false")
        await world.advance(300)
        assert (starts(world, "train"), running(world, "train")) == (1, 1)
        assert f"waiting for {away} to confirm" in why(world, "train")
        world.heal(away)
        await world.until(lambda: starts(world, "train") == 2, timeout=120, what="confirmed there, it is granted again")
        first, second = world.records.of_job("default/train")
        assert first.end is not None and first.end <= second.start
        run = binding_run(world, "train")
        assert run is not None and run.epoch == 2

    play(story)


def test_a_re_created_job_waits_for_the_old_one_of_its_name() -> None:
    """Identity is the UID: while the old pods may run, the new Job of that name enters no cluster."""

    async def story(world: World) -> None:
        await world.apply(job("train", runs_for=600))
        await world.until(lambda: running(world, "train") == 1, timeout=30)
        (away,) = clusters(world, "train")
        world.cut(away)
        await world.client().delete(kinds.JOB, "train", namespace="default")
        await world.apply(job("train", runs_for=5))
        await world.until(lambda: "NamesakeLeaving" in why(world, "train"), timeout=60)
        await world.advance(300)
        assert starts(world, "train") == 1
        world.heal(away)
        await world.until(lambda: phase(world, "train") == "Completed", timeout=180)
        first, second = world.records.of_job("default/train")
        assert first.end is not None and first.end <= second.start

    play(story)


def test_a_member_that_dies_for_good_keeps_its_job_from_running_elsewhere() -> None:
    """`Continue`: nobody has confirmed and nobody has declared anything, so the Job waits; what comes new runs elsewhere."""

    async def story(world: World) -> None:
        await world.apply(job("train", runs_for=60))
        await world.until(lambda: running(world, "train") == 1, timeout=30)
        away = home(world, "train")
        world.lose(away)
        await world.advance(1800)
        assert clusters(world, "train") == [away]
        await world.apply(job("later", runs_for=5))
        await world.until(lambda: phase(world, "later") == "Completed", timeout=60)
        assert clusters(world, "later") == [OTHER[away]]

    play(story)


def test_a_job_deleted_in_its_member_is_not_made_again() -> None:
    """Somebody deletes the Job in the member: it ends there, and waits at the hub until a person resumes it (A6)."""

    async def story(world: World) -> None:
        await world.apply(job("train", runs_for=600))
        await world.until(lambda: running(world, "train") == 1, timeout=30)
        (there,) = clusters(world, "train")
        await world.client(there).delete(kinds.JOB, "train", namespace="default")
        await world.until(lambda: phase(world, "train") == "Aborted", timeout=120)
        await world.advance(120)
        assert (starts(world, "train"), running(world, "train")) == (1, 0)
        assert "deleted in the member" in why(world, "train")

    play(story)
