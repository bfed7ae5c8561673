"""The hub dies before and after every write of a Job's life, one story each; the Job runs once and ends."""

from __future__ import annotations

import functools

import pytest

from apis import kinds
from apis.runs import RefusalReason
from machinery.clock import Chance
from simulator.faults import Faults, Kill, Moment
from tests.federation.world import World, job, story

WRITES = 22
"""More than the hub writes in this life; a number beyond it kills nothing, and the test says so."""


async def _life(world: World, faults: Faults) -> None:
    """A refusal, a new epoch, the end, the deletion: every kind of write of bindings and Works."""
    world.supervised_hub(faults)
    world.member("east", cpus=32, refuses={"train": RefusalReason.NO_ROOM})
    world.member("west", cpus=8)
    uid = await world.submit(job("train"))
    await world.until_phase("train", "Completed", within=300.0)
    assert [stint.cluster for stint in world.journal.of(uid)] == ["west"]
    await world.port.delete(kinds.JOB, "train", namespace="default")

    async def nothing() -> bool:
        works = await world.port.list(kinds.WORK)
        return await world.gone(kinds.RESOURCE_BINDING, "train-job") and not works.items

    await world.until(nothing, within=300.0)
    assert len(world.journal.of(uid)) == 1


@functools.cache
def _writes() -> tuple[str, ...]:
    """The writes of an undisturbed life that concern the Job, as numbers and words."""
    faults = Faults(Chance(7))
    story(lambda world: _life(world, faults))
    named = {kinds.RESOURCE_BINDING.name, kinds.WORK.name, kinds.JOB.name}
    return tuple(f"{write.number}" for write in faults.log if write.actor == "hub" and write.kind in named | _plural(named))


def _plural(names: set[str]) -> set[str]:
    return {name.split(".")[0] for name in names} | {"ResourceBinding", "Work", "Job"}


@pytest.mark.parametrize("moment", list(Moment))
@pytest.mark.parametrize("index", range(WRITES))
def test_a_hub_that_dies_at_any_write_loses_nothing_and_repeats_nothing(index: int, moment: Moment) -> None:
    writes = _writes()
    if index >= len(writes):
        pytest.skip(f"this life has {len(writes)} writes of the hub")
    faults = Faults(Chance(7)).at("hub", int(writes[index]), moment, Kill())
    story(lambda world: _life(world, faults))
    assert faults.fired, f"no kill at write {writes[index]}"


def test_the_kills_reach_every_write_of_the_life() -> None:
    assert 8 <= len(_writes()) <= WRITES


def test_a_conflict_on_every_write_changes_nothing_but_the_time() -> None:
    faults = Faults(Chance(3), conflict_once=True)
    story(lambda world: _life(world, faults))
