"""The hub dies before and after every write of a Job's life, one story each; the Job runs once and ends."""

from __future__ import annotations

import functools

import pytest

from apis import kinds
from apis.runs import RefusalReason
from federation.app import LEADER
from machinery.clock import Chance
from simulator.faults import Faults, Kill, Moment, answer
from tests.federation.world import World, job, story

SHARDS = 4


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
def _writes() -> tuple[int, ...]:
    """Numbers of the hub's writes in an undisturbed life, those of its own Lease apart."""
    faults = Faults(Chance(7))
    story(lambda world: _life(world, faults))
    return tuple(write.number for write in faults.log if write.name != LEADER)


@pytest.mark.parametrize("moment", list(Moment))
@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_hub_that_dies_at_any_write_loses_nothing_and_repeats_nothing(shard: int, moment: Moment) -> None:
    writes = _writes()
    assert len(writes) >= 8
    for number in writes[shard::SHARDS]:
        faults = Faults(Chance(7)).at("hub", number, moment, Kill())
        story(lambda world, faults=faults: _life(world, faults))  # type: ignore[misc]
        assert faults.fired, f"no kill at write {number}"


@pytest.mark.parametrize(("code", "moment"), [(0, Moment.BEFORE), (0, Moment.AFTER), (500, Moment.AFTER), (429, Moment.BEFORE)])
def test_an_answer_that_is_lost_or_refused_at_any_write_changes_nothing_but_the_time(code: int, moment: Moment) -> None:
    for number in _writes():
        faults = Faults(Chance(7)).at("hub", number, moment, answer(code))
        story(lambda world, faults=faults: _life(world, faults))  # type: ignore[misc]
        assert faults.fired, f"no fault at write {number}"


def test_a_conflict_on_every_write_changes_nothing_but_the_time() -> None:
    faults = Faults(Chance(3), conflict_once=True)
    story(lambda world: _life(world, faults))
