"""Hub, agents and fencers are killed before and after every write of the quickstart flow, one run each.

A clean run says which writes there are. Each case then kills the actor of one write at that write; it restarts after five
seconds, and the flow must end `Succeed`, every container started exactly once by the nodes' own records.
"""

from __future__ import annotations

import pytest

from simulator.faults import Kill, Moment, Write
from simulator.world import World
from tests.support.quickstart import SEED, clean, run, told, writes

WITHIN = 60.0
"""Seconds from the flow's submission to its end, with one kill: a clean run takes 17, a restart 5, an election up to 12, and
the quiet time of a new local leader (protocol.md 2, A5) 13."""


CASES = [(write, moment) for write in writes() for moment in Moment]


def named(case: tuple[Write, Moment]) -> str:
    """The name of a case."""
    return f"{case[1]}-{told(case[0])}"


@pytest.mark.parametrize("case", CASES, ids=named)
def test_a_kill_changes_nothing_in_the_end(case: tuple[Write, Moment]) -> None:
    write, moment = case

    def strike(world: World) -> tuple[()]:
        world.faults.at(write.actor, write.number, moment, Kill())
        return ()

    world = run(SEED, strike=strike, patience=WITHIN)
    assert world.faults.fired == [f"Kill {moment} write {write.number} of {write.actor}"]
    assert {name: it.lives for name, it in world.supervisors.items() if it.lives > 1} == {write.actor: 2}


def test_the_kills_hit_everything_that_matters() -> None:
    """Every actor, and the writes on which a Job's life turns."""
    assert {write.actor for write in writes()} == set(clean().supervisors)
    assert {
        ("hub", "replace", "jobflows.flow.volcano.sh"),
        ("hub", "create", "jobs.batch.volcano.sh"),
        ("hub", "create", "resourcebindings.work.karmada.io"),
        ("hub", "create", "works.work.karmada.io"),
        ("hub", "patch", "resourcebindings.work.karmada.io"),
        ("hub", "patch", "jobs.batch.volcano.sh"),
        ("agent", "create", "jobs.batch.volcano.sh"),
        ("agent", "create", "podgroups.scheduling.volcano.sh"),
        ("agent", "create", "pods"),
        ("agent", "bind", "pods"),
        ("agent", "patch", "works.work.karmada.io"),
        ("fencer", "replace", "leases.coordination.k8s.io"),
    } <= {(write.actor.split("-")[0], write.verb, write.kind) for write in writes()}


def test_one_seed_is_one_run() -> None:
    assert [str(write) for write in run(SEED).faults.log] == [str(write) for write in clean().faults.log]
