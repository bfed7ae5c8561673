"""The examples of flows over a simulated federation: training where GPUs are cheapest, a report every night, a nested flow."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

from apis import kinds
from machinery.clock import Chance, Ids
from simulator.loop import SimClock, run_virtual
from simulator.nodes import uniform
from simulator.world import Member, World
from tests.support.stage import play
from tests.support.stories import phase

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "flows"
NIGHT = datetime.datetime(2026, 1, 1, 1, 30, tzinfo=datetime.UTC)
"""Half past two in Berlin; the simulation begins at midnight UTC."""

Doc = dict[str, Any]


def text(name: str) -> str:
    return (EXAMPLES / name).read_text()


def status(world: World, flow: str) -> Doc:
    return dict((world.get(kinds.JOB_FLOW, flow) or {}).get("status") or {})


def over(world: World, flow: str) -> bool:
    return phase(world, flow, kind=kinds.JOB_FLOW) in ("Succeed", "Failed")


def test_training_goes_where_gpus_are_cheapest_and_the_evaluation_to_its_models() -> None:
    async def main(clock: SimClock, chance: Chance, ids: Ids) -> None:
        gpus = {"nvidia.com/gpu": "8"}
        members = {name: Member(nodes=uniform(name, 2, cpu=4, extended=gpus)) for name in ("east", "west")}
        async with World(5, members=members) as world:
            await world.advance(15)
            await world.apply(text("offers.yaml"))
            await world.apply(text("training.yaml"))
            await world.until(lambda: over(world, "training"), timeout=300)
            assert phase(world, "training", kind=kinds.JOB_FLOW) == "Succeed", world.story()
            records = {each["name"]: each for each in status(world, "training")["jobStatusList"]}
            trained = [each["clusters"] for name, each in records.items() if name.startswith("training-train-")]
            assert trained == [["west"]] * 3
            assert records["training-evaluate"]["placement"] == "of 200Mi that it reads 200Mi are in west (train)"
            assert (records["training-publish"]["state"], records["training-rework"]["state"]) == ("Completed", "Skipped")

    run_virtual(main, seed=5)


def test_the_report_is_made_at_night_and_not_before() -> None:
    async def story(world: World) -> None:
        await world.apply(text("report.yaml"))
        run = f"report-{int(NIGHT.timestamp()) // 60}"
        until_night = (NIGHT - world.clock.now()).total_seconds()
        await world.advance(until_night - 5)
        assert world.all(kinds.JOB_FLOW) == []
        await world.until(lambda: over(world, run), timeout=120)
        assert phase(world, run, kind=kinds.JOB_FLOW) == "Succeed", world.story()
        assert status(world, run)["failedJobs"] == [f"{run}-weather"]
        states = {each["step"]: each["state"] for each in status(world, run)["jobStatusList"]}
        assert states == {
            "sales": "Completed",
            "stock": "Completed",
            "weather": "Failed",
            "archive": "Skipped",
            "write": "Completed",
        }

    play(story)


def test_a_pattern_is_copied_for_each_region() -> None:
    async def story(world: World) -> None:
        await world.apply(text("nested.yaml"))
        await world.until(lambda: over(world, "nested"), timeout=300)
        assert phase(world, "nested", kind=kinds.JOB_FLOW) == "Succeed", world.story()
        made = sorted(job["metadata"]["name"] for job in world.all(kinds.JOB))
        regions = [f"nested-region-{region}-{step}" for region in range(2) for step in ("check", "load")]
        assert made == ["nested-merge", *regions]

    play(story)
