"""Seeded accidents: every seed is another mix of kills, refused writes, lost answers, bad watches and partitions.

A failing seed is run alone with `VF_SEED=<seed> pytest tests/simulation/test_seeds.py`; `VF_SEEDS=<n>` runs n of them.
"""

from __future__ import annotations

import os

import pytest

from machinery.clock import Chance
from simulator.faults import SEED_ANSWERS, Action, Delay, Hang, Kill, Moment, WatchFaults
from simulator.world import World
from tests.simulation.quickstart import run

SEEDS = int(os.environ.get("VF_SEEDS", "200"))
BLOCK = 10
"""Seeds per test, so that they can run beside each other."""
WRITES = 120
"""Accidents are planned at the first so many writes of each actor."""


def plan(world: World) -> None:
    """What goes wrong with this seed."""
    chance = Chance(world.seed)
    actors = ["hub", *(f"{role}-{member}" for member in world.members for role in ("agent", "fencer"))]
    for actor in actors:
        for _ in range(chance.below(4)):
            moment = Moment.BEFORE if chance.below(2) else Moment.AFTER
            world.faults.at(actor, 1 + chance.below(WRITES), moment, accident(chance))
    if chance.below(2):
        world.faults.watches = WatchFaults(
            duplicate=chance.uniform(0, 0.3),
            drop=chance.uniform(0, 0.01),
            expire=chance.uniform(0, 0.01),
            lag=chance.uniform(0, 2),
        )
    world.faults.conflict_once = chance.below(4) == 0


def accident(chance: Chance) -> Action:
    """One thing that can happen to a write."""
    kind = chance.below(6)
    if kind < 2:
        return Kill()
    if kind == 2:
        return Hang()
    if kind == 3:
        return Delay(chance.uniform(0.1, 20))
    return SEED_ANSWERS[chance.below(len(SEED_ANSWERS))]


ALONE = os.environ.get("VF_SEED")
BLOCKS = [[int(ALONE)]] if ALONE else [list(range(n, min(n + BLOCK, SEEDS))) for n in range(0, SEEDS, BLOCK)]


@pytest.mark.parametrize("seeds", BLOCKS, ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_the_flow_ends_right_whatever_the_seed(seeds: list[int]) -> None:
    for seed in seeds:
        run(seed, strike=plan)
