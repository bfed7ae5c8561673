"""A member that does not keep what its own profile says takes no new work for a while (protocol.md 3)."""

from __future__ import annotations

from typing import Any

import pytest

from apis.runs import RefusalReason
from federation.dispatch.trust import LAST, LEAST, REST, Trust
from policies.views import WorkView
from tests.federation.world import World, job, story


def work(name: str, *, applied: bool | None = None, reason: str = "", cluster: str = "east") -> WorkView:
    return WorkView(
        namespace=f"karmada-es-{cluster}", name=name, uid=name, version="1", cluster=cluster, applied=applied, reason=reason
    )


def tell(trust: Trust, outcomes: list[Any], *, now: float = 0.0) -> list[str]:
    said = []
    for index, outcome in enumerate(outcomes):
        name = f"w{now}-{index}"
        trust.granted(work(name))
        reason = "" if outcome is True else str(outcome)
        said.append(trust.saw_work(work(name, applied=outcome is True, reason=reason), now=now))
    return said


NO = RefusalReason.NO_ROOM


def test_more_than_a_fifth_of_refusals_costs_the_trust_for_a_while() -> None:
    trust = Trust()
    said = tell(trust, [True] * 8 + [NO, NO, NO])
    assert said[:-1] == [""] * 10
    assert said[-1] == "it refused 3 of the last 11 runs that its own profile called Fits"
    assert trust.distrusted("east", now=REST - 1) == said[-1]
    assert trust.distrusted("west", now=1) == ""
    assert trust.next(now=1) == REST
    assert trust.distrusted("east", now=REST) == ""
    assert tell(trust, [True, NO], now=REST) == ["", ""]  # it begins anew


def test_a_fifth_is_still_kept_and_few_outcomes_prove_nothing() -> None:
    assert tell(Trust(), [NO] * (LEAST - 1)) == [""] * (LEAST - 1)
    assert not any(tell(Trust(), ([True] * 4 + [NO]) * 10))


def test_what_was_long_ago_is_forgotten() -> None:
    assert not any(tell(Trust(), [True] * 3 * LAST + [NO] * 10))


@pytest.mark.parametrize("reason", [RefusalReason.STALE_FENCE, RefusalReason.NAME_TAKEN, RefusalReason.INVALID])
def test_refusals_that_no_profile_tells_of_do_not_count(reason: RefusalReason) -> None:
    assert not any(tell(Trust(), [reason] * 30))


def test_only_what_was_sent_on_the_word_of_the_profile_counts() -> None:
    trust = Trust()
    assert not any(trust.saw_work(work(f"w{index}", applied=False, reason=NO), now=0.0) for index in range(30))
    trust.granted(work("gone"))
    trust.lost_work("gone")
    assert trust.saw_work(work("gone", applied=False, reason=NO), now=0.0) == ""


def test_a_member_that_refuses_what_it_published_gets_nothing_more_and_people_are_told() -> None:
    async def told(world: World) -> None:
        world.hub()
        east = world.member("east", cpus=1000)
        await world.clock.sleep(5)
        for index in range(LEAST):
            east.refuses[f"train-{index}"] = RefusalReason.NO_ROOM
            await world.submit(job(f"train-{index}", cpu=1 + index))
        await world.clock.sleep(20)
        await world.submit(job("late", cpu=50))
        await world.clock.sleep(20)
        assert not (await world.binding("late"))["spec"].get("clusters")
        assert "ProfileUntrusted" in (await world.binding("late"))["metadata"]["annotations"]["volcano-federation.io/verdicts"]
        await world.until_phase("late", "Running", within=REST + 60)

    story(told)
