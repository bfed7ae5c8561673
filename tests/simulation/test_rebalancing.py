"""Jobs that are placed anew because somebody asks for it: once, by the planner that placed them, and where it is better."""

from __future__ import annotations

from typing import Any

from apis import kinds
from apis.runs import Ground
from simulator.world import Doc, World
from tests.support.members import taint
from tests.support.stage import play
from tests.support.stories import binding_run, home, job, running

FULL = {"key": "full", "effect": "NoSchedule"}


def rebalancer(name: str, *jobs: str, **spec: Any) -> Doc:
    """Jobs to be placed anew."""
    kind = kinds.WORKLOAD_REBALANCER
    listed = [{"apiVersion": kinds.JOB.api_version, "kind": "Job", "namespace": "default", "name": each} for each in jobs]
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name},
        "spec": {"workloads": listed, **spec},
    }


def answers(world: World, name: str) -> dict[str, str]:
    """Result by workload."""
    status = (world.get(kinds.WORKLOAD_REBALANCER, name) or {}).get("status") or {}
    return {each["workload"]["name"]: each.get("reason") or each["result"] for each in status.get("observedWorkloads") or ()}


def test_a_job_moves_to_a_cluster_that_has_become_better_and_another_stays() -> None:
    async def story(world: World) -> None:
        await taint(world, "east", FULL)  # nobody may go there at first
        await world.apply([job("moves", pods=2, runs_for=900), job("small", pods=1, runs_for=900)])
        await world.until(lambda: running(world, "moves") == 2 and running(world, "small") == 1, timeout=60, what="they run")
        assert (home(world, "moves"), home(world, "small")) == ("west", "west")
        await taint(world, "east")
        await world.advance(30.0)
        assert home(world, "moves") == "west", "nothing moves by itself"
        await world.apply(rebalancer("now", "moves", "nowhere"))
        await world.until(lambda: home(world, "moves") == "east" and running(world, "moves") == 2, timeout=90, what="it moved")
        assert answers(world, "now") == {"moves": "Successful", "nowhere": "ReferencedBindingNotFound"}
        record = binding_run(world, "moves")
        assert record is not None
        assert [(past.cluster, past.ground) for past in record.past] == [("west", Ground.CONFIRMED)]
        assert home(world, "small") == "west"
        await world.advance(60.0)
        assert (record := binding_run(world, "moves")) is not None
        assert record.epoch == 2, "one wish moves it once"
        await world.apply(rebalancer("again", "moves"))
        await world.until(lambda: answers(world, "again") == {"moves": "Successful"}, timeout=30, what="it is asked again")
        await world.advance(30.0)
        assert (record := binding_run(world, "moves")) is not None
        assert (record.epoch, home(world, "moves")) == (2, "east"), "it is best where it is"
        assert record.moved_for

    play(story, cpus={"east": 16, "west": 4}, pods={"default/moves": 2})


def test_a_job_that_fills_its_cluster_is_not_moved_for_the_room_that_it_takes_itself() -> None:
    async def story(world: World) -> None:
        await world.apply(job("large", pods=6, cpu=2, runs_for=900))
        await world.until(lambda: running(world, "large") == 6, timeout=60, what="it runs")
        assert home(world, "large") == "east"
        await world.apply(rebalancer("now", "large"))
        await world.until(lambda: answers(world, "now") == {"large": "Successful"}, timeout=30, what="it is asked")
        await world.advance(60.0)
        assert (record := binding_run(world, "large")) is not None
        assert (record.epoch, running(world, "large")) == (1, 6)

    play(story, cpus={"east": 8, "west": 7}, pods={"default/large": 6})


def test_a_rebalancer_goes_when_its_time_is_over_whoever_dies_meanwhile() -> None:
    async def story(world: World) -> None:
        await world.apply(job("one", pods=1, runs_for=900))
        await world.until(lambda: running(world, "one") == 1, timeout=60, what="it runs")
        await world.apply(rebalancer("short", "one", ttlSecondsAfterFinished=40))
        await world.until(lambda: bool(answers(world, "short")), timeout=30, what="it is answered")
        world.kill("hub")
        await world.advance(20.0)
        assert world.get(kinds.WORKLOAD_REBALANCER, "short") is not None
        await world.until(lambda: world.get(kinds.WORKLOAD_REBALANCER, "short") is None, timeout=90, what="it goes")
        assert running(world, "one") == 1

    play(story)
