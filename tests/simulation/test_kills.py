"""Hub, agents and fencers are killed before and after every write of the quickstart flow, one run each.

`make unit` takes every n-th of the kills, another part each time the writes change; `VF_KILLS=all` takes all of them.
"""

from __future__ import annotations

import os

import pytest

from simulator.faults import Kill, Moment
from simulator.world import World
from tests.simulation.quickstart import run, worth_a_kill

SEED = 1
SHARES = 12
"""How many tests the kills are dealt to, so that they run beside each other."""
SAMPLE = 8
"""One kill of so many is tried, unless all are asked for."""


@pytest.fixture(scope="module")
def clean() -> World:
    """A run without faults: it says which writes there are."""
    return run(SEED)


def test_a_clean_run_writes_what_matters(clean: World) -> None:
    """Among the kills are those that matter most."""
    kinds = {(write.actor.split("-")[0], write.verb, write.kind) for write in worth_a_kill(clean.faults.log)}
    assert {
        ("hub", "create", "works.work.karmada.io"),
        ("hub", "patch", "jobs.batch.volcano.sh"),
        ("agent", "create", "pods"),
        ("agent", "bind", "pods"),
    } <= kinds


def test_one_seed_is_one_run(clean: World) -> None:
    assert [str(write) for write in run(SEED).faults.log] == [str(write) for write in clean.faults.log]


@pytest.mark.parametrize("share", range(SHARES))
def test_a_kill_at_any_write_changes_nothing_in_the_end(clean: World, share: int) -> None:
    kills = [(write, moment) for write in worth_a_kill(clean.faults.log) for moment in Moment]
    step = 1 if os.environ.get("VF_KILLS") == "all" else SAMPLE
    for write, moment in kills[share * step :: SHARES * step]:
        world = run(SEED, strike=lambda it, at=(write, moment): it.faults.at(at[0].actor, at[0].number, at[1], Kill()))  # type: ignore[misc]
        assert world.faults.fired == [f"Kill {moment} write {write.number} of {write.actor}"], f"{write}"
