"""Every write of a story once more, one run each: its sender is told that nobody answers, and it lands all the same.

Fifteen seconds are longer than any request is waited for, than a leader's lease and than the quiet time of a new one: whatever
the sender did meanwhile, what lands then must start nothing twice and lose nothing. Judged as the kills are: by the nodes' own
records.
"""

from __future__ import annotations

import functools

import pytest

from apis import keys, kinds
from machinery.clock import Chance, Ids
from machinery.port import PatchType
from simulator.faults import Late, Moment, Write
from simulator.loop import SimClock, run_virtual
from simulator.nodes import uniform
from simulator.world import Member, World
from tests.support.quickstart import AFTERWARDS, SEED, STARTED, is_renewal, run, told, worth_a_fault, writes
from tests.support.stories import binding_run, job, phase, policy
from tests.support.watching import Watch

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


# --- while the run is withdrawn and granted again ----------------------------------------------------------------------

JOB = "train"
STOPPED = (0.3, 3.0)
"""Seconds after which it is suspended: while its pods are being made, and when they run."""
RESUMED = 4.0
"""Seconds after that it is granted again, in the other cluster: what was posted for epoch 1 lands in epoch 2."""


def again(*, stopped: float, strike: Late | None = None, at: Write | None = None) -> World:
    """A gang that is suspended early and resumed elsewhere, to its end; `at` is the write that is struck."""

    async def main(clock: SimClock, chance: Chance, ids: Ids) -> World:
        members = {name: Member(nodes=uniform(name, 2, cpu=2, memory="4Gi")) for name in ("east", "west")}
        async with World(SEED, members=members) as world:
            if at is not None and strike is not None:
                world.faults.at(at.actor, at.number, Moment.BEFORE, strike)
            seen = Watch(world, pods={f"default/{JOB}": 3})
            await world.advance(STARTED)
            await world.apply(job(JOB, pods=3, runs_for=20))
            for seconds, value in ((stopped, "true"), (RESUMED, "false")):
                await world.advance(seconds)
                await world.apply(policy("elsewhere", jobs=[JOB], clusters=["west"]))
                note = {"metadata": {"annotations": {keys.SUSPEND: value}}}
                await world.client().patch(kinds.JOB, JOB, note, type=PatchType.MERGE, namespace="default")
            await world.until(lambda: phase(world, JOB) == "Completed", timeout=WITHIN, what="the Job completes")
            await world.advance(AFTERWARDS)
            seen.check()
            assert world.crashes == [], world.story()
            assert world.records.two_clusters_at_once() == [], world.story()
            assert [each for each in world.records.running() if each.job] == [], world.story()
            assert phase(world, JOB) == "Completed"
            return world

    return run_virtual(main, seed=SEED)


@functools.cache
def writes_again(stopped: float) -> tuple[Write, ...]:
    """The writes of that story, from the Job on."""
    log = worth_a_fault(again(stopped=stopped).faults.log)
    return tuple(write for write in log if write.time > STARTED and not is_renewal(write))


@pytest.mark.parametrize(
    ("stopped", "write"),
    [(stopped, write) for stopped in STOPPED for write in writes_again(stopped)],
    ids=lambda it: told(it) if isinstance(it, Write) else f"stopped after {it} s",
)
def test_a_late_write_of_an_epoch_that_was_withdrawn_starts_nothing(stopped: float, write: Write) -> None:
    world = again(stopped=stopped, strike=Late(LATE), at=write)
    assert world.faults.fired == [f"Late before write {write.number} of {write.actor}"]
    run = binding_run(world, JOB)
    assert run is not None and run.epoch in (1, 2, 3), run


def test_that_story_withdraws_what_was_just_granted() -> None:
    for stopped in STOPPED:
        assert {
            write.namespace for write in writes_again(stopped) if (write.verb, write.kind) == ("create", kinds.WORK.name)
        } == {
            "karmada-es-east",
            "karmada-es-west",
        }
        struck = {(write.actor.split("-")[0], write.verb, write.kind) for write in writes_again(stopped)}
        assert {
            ("hub", "delete", kinds.WORK.name),
            ("agent", "create", kinds.JOB.name),
            ("agent", "create", kinds.POD.name),
            ("agent", "bind", kinds.POD.name),
        } <= struck, struck
