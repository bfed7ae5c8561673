"""Stories of runs that start late, in part or never, and of clocks that do not agree."""

from __future__ import annotations

import datetime

import pytest

from machinery.clock import Clock
from tests.federation.world import World, job, story


class OtherWall:
    """A clock whose wall shows another time than the API server's; its boot clock runs as all do."""

    def __init__(self, clock: Clock, *, ahead: float) -> None:
        self._clock = clock
        self._ahead = datetime.timedelta(seconds=ahead)

    def boot(self) -> float:
        return self._clock.boot()

    def now(self) -> datetime.datetime:
        return self._clock.now() + self._ahead

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)


@pytest.mark.parametrize("ahead", [-86_400.0, -660.0, 660.0, 86_400.0])
def test_a_hub_whose_wall_clock_is_wrong_grants_once(ahead: float) -> None:
    async def tell(world: World) -> None:
        world.hub(clock=OtherWall(world.clock, ahead=ahead))
        world.member("east", startup=20.0)
        uid = await world.submit(job("train"))
        await world.until_phase("train", "Completed")
        run = await world.run_of("train")
        assert (run.epoch, run.start_timeouts, len(world.journal.of(uid))) == (1, {}, 1)

    story(tell)


@pytest.mark.parametrize("ahead", [-660.0, 0.0, 660.0])
def test_a_start_times_out_after_its_time_whatever_the_wall_clock_shows(ahead: float) -> None:
    async def tell(world: World) -> None:
        world.hub(clock=OtherWall(world.clock, ahead=ahead))
        world.member("stuck", cpus=32, startup=None)
        await world.submit(job("train", annotations={"volcano-federation.io/start-timeout": "60s"}))
        await world.clock.sleep(50.0)
        assert (await world.run_of("train")).start_timeouts == {}
        await world.clock.sleep(60.0)
        assert (await world.run_of("train")).start_timeouts == {"stuck": 1}

    story(tell)


def test_a_job_that_can_start_nowhere_is_granted_less_and_less_often() -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("stuck", startup=None)
        await world.submit(job("train", annotations={"volcano-federation.io/start-timeout": "30s"}))
        await world.clock.sleep(1800.0)
        assert 3 <= (await world.run_of("train")).epoch <= 7  # 30, 60, 120, 240, 480, 960 s

    story(tell)


@pytest.mark.parametrize("partial", [1, 3])
def test_a_gang_of_which_only_some_pods_run_has_not_started_and_goes_elsewhere(partial: int) -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("half", cpus=32, startup=None, partial=partial)
        world.member("whole", cpus=8)
        uid = await world.submit(job("train", pods=4, annotations={"volcano-federation.io/start-timeout": "60s"}))
        await world.until_phase("train", "Completed", within=400.0)
        assert [stint.cluster for stint in world.journal.of(uid)] == ["whole"]
        assert (await world.run_of("train")).start_timeouts == {"half": 1}

    story(tell)
