"""Rounds: in queue order from one to the next, nobody starves, and none holds the loop or the others up."""

from __future__ import annotations

import asyncio
import datetime

from hypothesis import given
from hypothesis import strategies as st

from federation.dispatch.backlog import Backlog
from federation.dispatch.rounds import Pace, planned
from federation.dispatch.snapshot import Key
from tests.federation.test_planner import RULES, case, member, snapshot
from tests.federation.world import World, job, story


def key(number: int) -> Key:
    return ("default", f"j{number:02}")


@given(st.lists(st.one_of(st.integers(1, 4), st.sets(st.integers(0, 20))), max_size=40))
def test_everybody_is_taken_once_before_anybody_is_taken_twice_and_the_important_first(steps: list[int | set[int]]) -> None:
    backlog, waiting_since = Backlog(), dict[Key, int]()
    taken_since: dict[Key, list[Key]] = {}
    for number, step in enumerate(steps):
        if isinstance(step, set):
            backlog.add(key(each) for each in step)
            for each in step:
                if waiting_since.setdefault(key(each), number) == number:
                    taken_since[key(each)] = []
            continue
        taken = backlog.take(step, order=lambda each: -int(each[1][1:]))
        assert len(taken) <= step
        for one in taken:
            del waiting_since[one]
            del taken_since[one]
        for others in taken_since.values():
            others += taken
            assert max((others.count(other) for other in others), default=0) <= 2
    assert len(backlog) == len(waiting_since)


def test_what_waits_is_placed_by_age_however_few_cases_a_round_looks_at() -> None:
    async def tell(world: World) -> None:
        names = [f"train-{letter}" for letter in "zyxwvutsr"]
        uids = []
        for name in names:
            uids.append(await world.submit(job(name)))
            await world.clock.sleep(1.0)
        world.hub(round_cases=2)
        world.member("east", cpus=2, seconds=3.0)
        for name in names:
            await world.until_phase(name, "Completed", within=400.0)
        assert [stint.job for stint in sorted(world.journal.stints, key=lambda each: each.began)] == uids

    story(tell)


class SlowThinking:
    """A clock by which every look at it takes 20 ms of work."""

    def __init__(self) -> None:
        self.time = 0.0

    def boot(self) -> float:
        self.time += 0.02
        return self.time

    def now(self) -> datetime.datetime:
        return datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


def test_a_round_ends_after_its_time_names_the_rest_and_lets_others_run_every_tenth_of_a_second() -> None:
    clock, turns = SlowThinking(), list[float]()

    async def other() -> None:
        while True:
            turns.append(clock.time)
            await asyncio.sleep(0)

    async def main() -> None:
        beside = asyncio.create_task(other())
        await asyncio.sleep(0)
        cases = tuple(case(f"j{index:03}") for index in range(40))
        made = await planned(snapshot(*cases, members=(member("east", (9, "64")),)), rules=RULES, clock=clock, pace=Pace())
        beside.cancel()
        assert 1.0 <= clock.time <= 1.2
        assert made.items
        assert {item.key for item in made.items}.isdisjoint(made.rest)
        assert len(made.items) + len(made.rest) == len(cases)
        assert max(after - before for before, after in zip(turns, turns[1:], strict=False)) <= 0.1

    asyncio.run(main())
