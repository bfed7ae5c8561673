"""Runs whose containers cannot start: withdrawn soon, with the reason where people look, and placed again (protocol.md 3)."""

from __future__ import annotations

from apis import kinds
from apis.runs import Ground
from simulator.world import Doc, World
from tests.support.stage import play
from tests.support.stories import binding_run, clusters, home, job, phase, replaced, starts, state

IMAGE = "spec.tasks.0.template.spec.containers.0.image"


def with_image(image: str, doc: Doc) -> Doc:
    return replaced(doc, IMAGE, image)


def warnings(world: World, name: str) -> list[str]:
    """Warning Events about a Job."""
    events = [each for each in world.all(kinds.EVENT) if each["involvedObject"]["name"] == name]
    return [each["message"] for each in events if each["type"] == "Warning"]


def test_a_run_whose_image_is_missing_in_its_cluster_moves_after_a_minute_and_the_job_says_why() -> None:
    async def story(world: World) -> None:
        await world.apply(with_image("registry/app:missing-in-east", job("train", pods=2, runs_for=5)))
        await world.until(lambda: home(world, "train") == "east", timeout=10)
        await world.until(lambda: state(world, "train").get("reason") == "ImagePullBackOff", timeout=20)
        said = state(world, "train")["message"]
        assert "east" in said and "2 of 2 pods cannot start" in said and "registry/app:missing-in-east" in said
        begin = world.clock.boot()
        await world.until(lambda: phase(world, "train") == "Completed", timeout=120)
        assert world.clock.boot() - begin < 90
        assert clusters(world, "train") == ["west"]
        run = binding_run(world, "train")
        assert run is not None and (run.epoch, run.start_timeouts) == (2, {"east": 1})
        (told,) = [each for each in warnings(world, "train") if "ImagePullBackOff" in each]
        assert "withdrawn after 60 s" in told

    play(story, pods={"default/train": 2})


def test_a_gang_that_is_half_there_is_stuck_as_well_and_its_running_half_is_stopped_first() -> None:
    async def story(world: World) -> None:
        gang = job("train", pods=1, runs_for=None)
        (task,) = gang["spec"]["tasks"]
        other = replaced({"spec": {"tasks": [task]}}, IMAGE, "registry/other:missing-in-east")["spec"]["tasks"][0]
        gang["spec"] |= {"tasks": [task, {**other, "name": "other"}], "minAvailable": 2}
        await world.apply(gang)
        await world.until(lambda: clusters(world, "train") == ["east"], timeout=20)
        await world.until(lambda: clusters(world, "train") == ["east", "west"], timeout=120)
        await world.until(lambda: phase(world, "train") == "Running", timeout=20)
        first, *later = world.records.of_job("default/train")
        assert first.end is not None and all(first.end <= each.start for each in later)

    play(story, pods={"default/train": 2}, gang_patience=300.0)


def test_a_job_that_can_start_nowhere_is_moved_less_and_less_often_and_stands_in_nobodys_way() -> None:
    async def story(world: World) -> None:
        await world.apply(with_image("registry/typo:missing", job("typo")))
        await world.advance(1800)
        run = binding_run(world, "typo")
        assert run is not None
        assert 6 <= run.epoch <= 12, run
        assert set(run.start_timeouts) == {"east", "west"}
        assert all(part.ground in (None, Ground.CONFIRMED) for part in run.parts.values())
        assert (starts(world, "typo"), phase(world, "typo")) == (0, "Pending")
        # The penalty of both clusters is high, and it never keeps anybody from being placed.
        await world.apply([job(f"fine-{number}", runs_for=2) for number in range(4)])
        await world.until(lambda: all(phase(world, f"fine-{number}") == "Completed" for number in range(4)), timeout=30)

    play(story)


def test_a_start_that_merely_takes_long_is_left_alone() -> None:
    async def story(world: World) -> None:
        await world.apply(with_image("registry/app:missing-in-east", job("train", annotations={})))
        await world.until(lambda: home(world, "train") == "east", timeout=10)
        world.stop("agent-east")  # nobody says why it does not start
        await world.advance(120)
        run = binding_run(world, "train")
        assert run is not None and (run.epoch, run.start_timeouts) == (1, {})

    play(story)
