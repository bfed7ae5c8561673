"""Every story in this folder turns out as it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from machinery.clock import Chance, Ids
from simulator.loop import SimClock, run_virtual
from simulator.scenario import Scenario, play

STORIES = sorted(Path(__file__).parent.glob("*.yaml"), key=lambda path: path.name)


@pytest.mark.parametrize("path", STORIES, ids=[path.stem for path in STORIES])
def test_the_story_turns_out_as_told(path: Path) -> None:
    scenario = Scenario.read(path)

    async def main(clock: SimClock, chance: Chance, ids: Ids) -> None:
        await play(scenario, seed=1)

    run_virtual(main, seed=1)
