"""The best place, proved by looking at all of them: money and time reckoned here by hand, with nothing of the planner's.

A gang of two pods of one core. Every cluster has nodes of one class with a price for a core-hour and a throughput, perhaps a
pool of more of them, which take a minute and may be had as spot nodes with a price of their own and interruptions; data of some
GiB is in one of them, and its offer says what it takes to bring it elsewhere.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from federation.dispatch.planner import plan
from policies.choosing import Chosen, Market, Wish, choose
from policies.estimates import Demand, Read
from policies.offers import OfferView
from policies.placements import PolicyView
from policies.profiles import BUILT_IN
from tests.federation.test_planner import RULES, case, decisions, member, snapshot
from tests.policies.build import gang, shape
from tests.policies.offering import by_cluster, offer
from tests.policies.test_choosing import asked, question

PODS = 2
WORK = gang(("work", PODS, shape()))
GIB = 1 << 30
HOME = "c0"
MINUTE = 60
ROUTE = {"pricePerGiB": "0.5", "bandwidth": str(GIB)}


@dataclass(frozen=True)
class Place:
    """A cluster, in the words of its offer."""

    name: str
    price: int
    speed: int
    spot: int = 0
    interruptions: float = 0.0

    def offered(self) -> OfferView:
        kind = {"name": "all", "prices": {"cpu": str(self.price)}, "throughput": str(self.speed)}
        if self.spot:
            kind["spot"] = {"prices": {"cpu": str(self.spot)}, "interruptionsPerHour": str(self.interruptions)}
        size = {"cpu": 8, "pods": 110}
        pool = {"name": "more", "nodeClass": "all", "size": size, "max": 9, "provisionTime": f"{MINUTE}s"}
        egress = [{"region": name, **ROUTE} for name in ("", *(f"c{at}" for at in range(5)))]
        return offer(self.name, classes=[kind], egress=egress, pools=[pool] if self.spot else [])


def ways(places: list[Place], *, hours: float, gib: int) -> list[tuple[float, float, str]]:
    """(money, seconds, cluster) of every way there is."""
    found = []
    for each in places:
        brought = 0 if each.name == HOME else gib
        alone = hours / each.speed
        found.append((PODS * each.price * alone + brought * 0.5, alone * 3600 + brought, each.name))
        if each.spot:
            rate = each.interruptions * PODS
            expected = (math.exp(rate * alone) - 1) / rate if rate else alone
            found.append((PODS * each.spot * expected + brought * 0.5, expected * 3600 + brought + MINUTE, each.name))
    return found


def chosen(places: list[Place], *, hours: float, gib: int, profile: str) -> Chosen:
    reads = (Read("data", gib * GIB, cluster=HOME, region=HOME),) if gib else ()
    wish = Wish(WORK, PolicyView("default", "p"), BUILT_IN[profile], Demand(WORK, hours * 3600, reads))
    questions = [question(each.name, 8, of=WORK, region=each.name) for each in places]
    return choose(questions, wish=wish, market=Market(by_cluster(*(each.offered() for each in places))), judge=asked)


worlds = some.lists(
    some.tuples(some.integers(1, 20), some.integers(1, 8), some.integers(0, 6), some.sampled_from([0.0, 0.05, 0.3])),
    min_size=2,
    max_size=5,
).map(lambda listed: [Place(f"c{at}", price, speed, spot, often) for at, (price, speed, spot, often) in enumerate(listed)])


@settings(max_examples=150, deadline=None)
@given(worlds, some.sampled_from([0.5, 1.0, 6.0]), some.integers(0, 30))
def test_cost_first_is_the_least_money_and_efficiency_first_the_earliest_end_of_all_ways(
    places: list[Place], hours: float, gib: int
) -> None:
    everything = ways(places, hours=hours, gib=gib)
    cheap = chosen(places, hours=hours, gib=gib, profile="cost-first")
    ((where, option),) = cheap.options.items()
    assert option.money == pytest.approx(min(money for money, _, _ in everything))
    assert any(name == where and money == pytest.approx(option.money) for money, _, name in everything)
    quick = chosen(places, hours=hours, gib=gib, profile="efficiency-first")
    ((where, option),) = quick.options.items()
    assert option.finish == pytest.approx(min(seconds for _, seconds, _ in everything))
    assert any(name == where and seconds == pytest.approx(option.finish) for _, seconds, name in everything)


def test_the_two_profiles_choose_differently_and_each_is_right() -> None:
    """Slow and cheap, fast and dear: by hand 4 against 6 units of money, and four hours against one."""
    places = [Place("slow", price=1, speed=1), Place("fast", price=6, speed=4)]
    everything = {name: (money, seconds) for money, seconds, name in ways(places, hours=2, gib=0)}
    assert everything == {"slow": (4.0, 7200.0), "fast": (6.0, 1800.0)}
    assert [part.cluster for part in chosen(places, hours=2, gib=0, profile="cost-first").parts] == ["slow"]
    assert [part.cluster for part in chosen(places, hours=2, gib=0, profile="efficiency-first").parts] == ["fast"]


def test_spot_is_taken_for_a_short_job_and_left_for_one_that_would_be_interrupted() -> None:
    places = [Place("steady", price=3, speed=1), Place("spot", price=9, speed=1, spot=1, interruptions=0.3)]
    for hours, best in ((1.0, "spot"), (6.0, "steady")):
        money = {name: least for least, _, name in sorted(ways(places, hours=hours, gib=0), reverse=True)}
        assert min(money, key=lambda name: money[name]) == best, "by hand"
        assert [part.cluster for part in chosen(places, hours=hours, gib=0, profile="cost-first").parts] == [best]


@settings(max_examples=40, deadline=None)
@given(worlds, some.sampled_from(["cost-first", "efficiency-first"]))
def test_a_whole_round_decides_as_the_enumeration_does(places: list[Place], profile: str) -> None:
    waiting = case("a", pods=PODS)
    assert waiting.job is not None
    waiting = dataclasses.replace(waiting, job=dataclasses.replace(waiting.job, settings={"profile": profile}))
    members = tuple(member(each.name, (8, "1")) for each in places)
    made = plan(snapshot(waiting, members=members, offers=tuple(each.offered() for each in places)), rules=RULES)
    (where,) = decisions(made)["a"].clusters
    by = 0 if profile == "cost-first" else 1
    everything = ways(places, hours=RULES.run_time / 3600, gib=0)
    assert min(way[by] for way in everything if way[2] == where) == pytest.approx(min(way[by] for way in everything))
