"""Wall clocks that are wrong move nothing: what is waited for is counted on boot clocks alone (protocol.md 1)."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from apis import keys, kinds
from simulator.world import World
from tests.support.quickstart import FLOW, documents
from tests.support.stage import play
from tests.support.stories import binding_run, clusters, job, phase, running, starts

AHEAD = 11 * 60.0
"""Seconds: more than any time-out that is counted in minutes."""
MEMBERS = {f"{place}east": AHEAD for place in ("server ", "agent-", "fencer-")}
CLOCKS: Mapping[str, Mapping[str, float]] = {
    "the hub's program is ahead of everybody": {"hub": AHEAD},
    "the hub is ahead of its members": {"hub": AHEAD, "server hub": AHEAD},
    "the hub is behind its members": {"hub": -AHEAD, "server hub": -AHEAD},
    "one member is ahead": MEMBERS,
    "one member is behind": {place: -ahead for place, ahead in MEMBERS.items()},
}
clocks = pytest.mark.parametrize("skews", CLOCKS.values(), ids=CLOCKS)


@clocks
def test_nothing_is_granted_twice_or_withdrawn(skews: Mapping[str, float]) -> None:
    """A Job that takes its time to start, a long one, and a hub that is restarted in the middle of both."""

    async def story(world: World) -> None:
        patient = {keys.START_TIMEOUT: "10m"}
        await world.apply([job("long", pods=3, runs_for=200), job("crowd", pods=16, cpu=1, runs_for=20, annotations=patient)])
        await world.until(lambda: running(world, "long") == 3, timeout=30)
        world.kill("hub")
        await world.until(lambda: all(phase(world, name) == "Completed" for name in ("long", "crowd")), timeout=400)
        for name, pods in (("long", 3), ("crowd", 16)):
            run = binding_run(world, name)
            assert run is not None and (run.epoch, run.start_timeouts) == (1, {}), run
            assert (starts(world, name), len(clusters(world, name))) == (pods, 1)

    play(story, cpus={"east": 8, "west": 8}, pods={"default/long": 3, "default/crowd": 16}, skews=skews)


@clocks
def test_a_flow_ends_as_soon_as_with_right_clocks(skews: Mapping[str, float]) -> None:
    async def story(world: World) -> None:
        begin = world.clock.boot()
        await world.apply(documents())
        await world.until(lambda: phase(world, FLOW, kind=kinds.JOB_FLOW) == "Succeed", timeout=60)
        assert world.clock.boot() - begin < 25

    play(story, skews=skews)
