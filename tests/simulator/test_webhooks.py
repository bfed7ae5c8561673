"""Admission on virtual time: API servers in memory ask the webhooks that real ones ask."""

from __future__ import annotations

import pytest

from apis import keys, kinds
from machinery.clock import Chance, Ids
from machinery.errors import Invalid
from machinery.port import PatchType
from simulator.loop import SimClock, run_virtual
from simulator.nodes import uniform
from simulator.world import Member, World
from tests.support.stories import job, phase


def test_a_job_is_completed_and_judged_at_the_hub_and_runs_as_it_always_did() -> None:
    async def main(clock: SimClock, chance: Chance, ids: Ids) -> None:
        async with World(1, members={"east": Member(nodes=uniform("east", 2, cpu=8))}, admission=True) as world:
            await world.advance(15)
            good = job("good", pods=2, runs_for=5)
            del good["spec"]["minAvailable"]
            await world.apply(good)
            stored = world.get(kinds.JOB, "good") or {}
            assert (stored["spec"]["minAvailable"], stored["spec"]["schedulerName"]) == (2, "volcano")
            bad = job("bad", pods=1, runs_for=5, annotations={keys.MAX_RUN_TIME: "soon"})
            with pytest.raises(Invalid, match="'soon' is no duration"):
                await world.apply(bad)
            with pytest.raises(Invalid, match="`default` queue can not be deleted"):
                await world.client().delete(kinds.QUEUE, "default")
            with pytest.raises(Invalid, match="is not one of true, false"):
                note = {"metadata": {"annotations": {keys.SUSPEND: "maybe"}}}
                await world.client().patch(kinds.JOB, "good", note, type=PatchType.MERGE, namespace="default")
            await world.until(lambda: phase(world, "good") == "Completed", timeout=120)
            assert world.crashes == []

    run_virtual(main, seed=1)


def test_a_run_of_the_hub_is_between_hub_and_agent() -> None:
    """A queue that closes in the member after the hub has granted stops nothing at the member's door."""

    async def main(clock: SimClock, chance: Chance, ids: Ids) -> None:
        async with World(2, members={"east": Member(nodes=uniform("east", 2, cpu=8))}, admission=True) as world:
            await world.advance(15)
            run = job("train", pods=1, runs_for=5)
            run["metadata"].setdefault("annotations", {})[keys.RUN] = "{}"
            run["spec"]["queue"] = "nowhere"
            await world.client("east").create(kinds.JOB, run, namespace="default")
            stored = world.get(kinds.JOB, "train", server="east") or {}
            assert "schedulerName" not in stored["spec"]

    run_virtual(main, seed=2)
