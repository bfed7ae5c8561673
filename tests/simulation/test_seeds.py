"""Seeded accidents: every seed is another mix of kills, refused and lost answers, bad watches, partitions, drift and restarts.

After every change of any API server the promises of `tests.support.watching` are checked; in the end the flow is `Succeed` and
every container was started exactly once. A failing seed runs alone with `VF_SEED=<seed>`; `VF_SEEDS=<n>` (and `make long`)
runs more of them.
"""

from __future__ import annotations

import os

import pytest

from machinery.clock import Chance, Ids
from simulator.loop import SimClock, run_virtual
from simulator.world import World
from tests.support.accidents import draw
from tests.support.quickstart import to_the_end
from tests.support.stories import flow, template

SEEDS = 200
"""As `make unit` runs them."""
MORE = int(os.environ.get("VF_SEEDS", "5000"))
"""As `make long` runs them."""
BLOCK = 5
"""Seeds per test: they run beside each other, and a failure names its seed."""
PATIENCE = 900.0
"""Seconds of virtual time after which a flow is stuck. The longest accidents take a minute, several may follow each other."""
ALONE = os.environ.get("VF_SEED", "")

STEPS = {"split": (), "left": ("split",), "right": ("split",), "join": ("left", "right")}
DOCS = (
    template("split", pods=1, cpu="500m", runs_for=1),
    template("left", pods=3, cpu=1, runs_for=2),
    template("right", pods=2, cpu="1500m", runs_for=3),
    template("join", pods=1, cpu="500m", runs_for=1),
    flow("diamond", STEPS),
)


def live(seed: int) -> None:
    """One seed, from nothing to the judgement."""
    drawn = draw(seed)

    async def main(clock: SimClock, chance: Chance, ids: Ids) -> None:
        async with World(seed, members=drawn.members) as world:
            tasks = drawn.strike(world)
            try:
                await to_the_end(world, DOCS, name="diamond", patience=PATIENCE, started=3.0, afterwards=15.0)
            finally:
                for task in tasks:
                    task.cancel()

    try:
        run_virtual(main, seed=seed)
    except AssertionError as broken:
        planned = [f"{type(it[3]).__name__} {it[2]} write {it[1]} of {it[0]}" for it in drawn.writes]
        raise AssertionError(f"seed {seed}: {'; '.join([*drawn.words, *planned])}\n{broken}") from broken


def blocks(first: int, count: int) -> list[range]:
    return [range(n, min(n + BLOCK, first + count)) for n in range(first, first + count, BLOCK)]


@pytest.mark.parametrize(
    "seeds", [range(int(ALONE), int(ALONE) + 1)] if ALONE else blocks(0, SEEDS), ids=lambda it: f"{it[0]}-{it[-1]}"
)
def test_the_flow_ends_right_whatever_the_seed(seeds: range) -> None:
    for seed in seeds:
        live(seed)


@pytest.mark.long
@pytest.mark.parametrize("seeds", blocks(SEEDS, MORE), ids=lambda it: f"{it[0]}-{it[-1]}")
def test_more_seeds(seeds: range) -> None:
    for seed in seeds:
        live(seed)
