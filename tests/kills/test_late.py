"""Every write of a story once more, one run each: its sender is told that nobody answers, and it lands all the same.

Fifteen seconds are longer than any request is waited for, than a leader's lease and than the quiet time of a new one: whatever
the sender did meanwhile, what lands then must start nothing twice and lose nothing. Judged as the kills are: by the nodes' own
records.
"""

from __future__ import annotations

import pytest

from apis import kinds
from simulator.faults import Late, Moment, Write
from simulator.world import World
from tests.support.quickstart import SEED, run, told, writes

LATE = 15.0
WITHIN = 75.0
"""Seconds from the flow's submission to its end: a clean run takes 17, and what waits for a late write waits for it alone."""


@pytest.mark.parametrize("write", writes(), ids=told)
def test_a_write_that_lands_late_changes_nothing_in_the_end(write: Write) -> None:
    def strike(world: World) -> tuple[()]:
        world.faults.at(write.actor, write.number, Moment.BEFORE, Late(LATE))
        return ()

    world = run(SEED, strike=strike, patience=WITHIN)
    assert world.faults.fired == [f"Late before write {write.number} of {write.actor}"]
    (landed,) = world.faults.landed
    assert landed.startswith(f"{write.actor}#{write.number} {write.verb} {write.kind}"), landed


@pytest.mark.parametrize(
    "write", [write for write in writes() if (write.verb, write.kind) == ("create", kinds.WORK.name)], ids=told
)
@pytest.mark.parametrize("role", ["hub", "agent"])
def test_a_late_grant_outlives_its_sender_and_starts_nothing_twice(write: Write, role: str) -> None:
    """The sender, or the agent that would obey it, is killed right after the grant was posted."""
    actor = "hub" if role == "hub" else f"agent-{write.namespace.removeprefix('karmada-es-')}"

    def strike(world: World) -> tuple[()]:
        world.faults.at(write.actor, write.number, Moment.BEFORE, Late(LATE))
        world.servers["hub"].listeners.append(lambda change: kill(world))
        return ()

    def kill(world: World) -> None:
        life = world.supervisors[actor].life
        if world.faults.fired and not world.faults.landed and life is not None and life.number == 1:
            world.kill(actor)

    world = run(SEED, strike=strike, patience=WITHIN)
    assert world.supervisors[actor].lives == 2
