"""Jobs that leave the instant they end: what has been recorded of them is all that remains, and it is enough."""

from __future__ import annotations

import pytest

from apis import kinds
from simulator.world import World
from tests.support.stage import play
from tests.support.stories import flow, phase, starts, template

STEPS = {"first": (), "left": ("first",), "right": ("first",), "last": ("left", "right")}


def templates() -> list[dict[str, object]]:
    """Every step's Job may leave at once."""
    return [template(name, pods=2, runs_for=2, ttlSecondsAfterFinished=0) for name in STEPS]


@pytest.mark.parametrize("killed", [False, True], ids=["in peace", "while the hub is killed again and again"])
def test_a_flow_succeeds_although_the_job_of_every_step_leaves_at_once(killed: bool) -> None:
    async def story(world: World) -> None:
        deletions: list[tuple[str, bool]] = []

        def recorded(name: str) -> bool:
            status = (world.get(kinds.JOB_FLOW, "flow") or {}).get("status") or {}
            return any(each["name"] == name and each.get("endTimestamp") for each in status.get("jobStatusList") or ())

        def look() -> bool:
            for name in STEPS:
                job = world.get(kinds.JOB, f"flow-{name}")
                if job is not None and job["metadata"].get("deletionTimestamp"):
                    deletions.append((name, recorded(f"flow-{name}")))
            return phase(world, "flow", kind=kinds.JOB_FLOW) == "Succeed" and not world.all(kinds.JOB)

        await world.apply([*templates(), flow("flow", STEPS)])
        if killed:
            for _ in range(12):
                await world.advance(1.7)
                look()
                world.kill("hub")
        await world.until(look, timeout=300, what="the flow succeeds and nothing of its Jobs is left")
        assert all(known for _, known in deletions), deletions
        assert {name: starts(world, f"flow-{name}") for name in STEPS} == dict.fromkeys(STEPS, 2)

    play(story, pods={f"default/flow-{name}": 2 for name in STEPS})
