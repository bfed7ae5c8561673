"""No slice of work is longer than it may be: a round places a bounded number of pods and leaves the rest to the next one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import cast

from hypothesis import given as given_any
from hypothesis import settings
from hypothesis import strategies as some

from machinery.informer import Change
from member_agent.scheduling.decisions import Plan
from member_agent.scheduling.lanes import Lanes
from member_agent.scheduling.planner import BUILT_IN, decide, default
from member_agent.scheduling.session import OpenSession, ordered
from member_agent.scheduling.snapshot import Gangs
from tests.member_agent.scheduling.build import Made, gang, queue
from tests.member_agent.test_room import inventory, node

MOST = 10


class Backlog:
    """Gangs that wait; rounds of at most so many placements, each carried out before the next."""

    def __init__(self, *gangs: Made, cpu: int = 400) -> None:
        self.inventory = inventory([node("a", cpu=cpu, memory=1000)])
        self.gangs = Gangs(self.inventory, scheduler="volcano")
        self.groups = {(each.group.namespace, each.group.name): each.group for each in gangs}
        for key, group in self.groups.items():
            self.gangs.group_changed(Change(key, None, group))
        for each in gangs:
            for pod in each.pods:
                self.gangs.pod_changed(Change((pod.namespace, pod.name), None, pod))

    def round(self, *, most: int | None = MOST) -> Plan:
        frozen = self.gangs.freeze(
            groups=self.groups.get,
            pending={},
            priority=lambda name: int(name.removeprefix("p") or 0),
            queues={"default": queue("default")},
            held_back=lambda pod: False,
        )
        session = OpenSession(frozen, configuration=default(), registry=BUILT_IN, most=most)
        decided, _ = decide(session, registry=BUILT_IN)
        for binding in decided.bindings:
            self.inventory.assume(binding.pod, node=binding.node)
        return decided

    def rounds(self) -> list[Plan]:
        found = [self.round()]
        while found[-1].more:
            found.append(self.round())
        return found


def test_a_large_backlog_is_placed_in_rounds_of_bounded_length() -> None:
    backlog = Backlog(*(gang(f"g{index:02}", pods=4) for index in range(25)))
    plans = backlog.rounds()
    placed = [len(each.bindings) for each in plans]
    assert sum(placed) == 100
    assert max(placed) < MOST + 4, "the gang with which a round ends is placed whole"
    assert [each.more for each in plans] == [True] * (len(plans) - 1) + [False]


def test_rounds_place_the_same_gangs_in_the_same_order_as_one_would() -> None:
    gangs = [gang(f"g{index:02}", pods=4, priority=index % 3) for index in range(25)]
    together = Backlog(*gangs).round(most=None)
    sliced = [binding for each in Backlog(*gangs).rounds() for binding in each.bindings]
    assert [binding.pod.group for binding in sliced] == [binding.pod.group for binding in together.bindings]


def test_a_gang_larger_than_a_round_goes_whole() -> None:
    backlog = Backlog(gang("small", pods=2), gang("whole", pods=35), gang("last", pods=2))
    assert sorted(Counter(binding.pod.group for each in backlog.rounds() for binding in each.bindings).values()) == [2, 2, 35]


def test_what_looks_at_gangs_that_were_tried_waits_for_the_round_that_tries_the_last() -> None:
    backlog = Backlog(*(gang(f"g{index}", pods=8) for index in range(4)), gang("too-large", pods=2, cpu=500), cpu=33)
    plans = backlog.rounds()
    assert [("ns", "too-large") in each.waiting for each in plans] == [False, False, True], (
        "not said of a gang that was not tried"
    )
    assert sum(len(each.bindings) for each in plans) == 32


def test_nobody_is_cut_short_when_the_last_gang_just_fills_the_round() -> None:
    backlog = Backlog(gang("a", pods=5), gang("b", pods=5))
    decided = backlog.round()
    assert (len(decided.bindings), decided.more) == (MOST, False)


@given_any(some.lists(some.lists(some.integers(0, 3), min_size=1, max_size=4), min_size=1, max_size=4))
@settings(deadline=None, max_examples=50)
def test_queues_take_turns_as_if_all_were_asked_anew_before_every_gang(costs: list[list[int]]) -> None:
    """`costs` by queue: what each of its gangs is given."""

    def lines() -> dict[str, Lanes]:
        found = {}
        for number, listed in enumerate(costs):
            lanes = found[f"q{number}"] = Lanes(None)
            for at, cost in enumerate(listed):
                lanes.push((at, (f"q{number}", cost)), namespace="ns")
        return found

    given = dict.fromkeys(lines(), 0)
    served = []
    for name, cost in cast("Iterator[tuple[str, int]]", ordered(lines(), order=lambda name: (given[name], name))):
        served.append(name)
        given[name] += cost
    given, expected = dict.fromkeys(given, 0), []
    left = lines()
    while left:
        name = min(left, key=lambda name: (given[name], name))
        expected.append(name)
        given[name] += left[name].pop()[-1][1]
        left = {name: lanes for name, lanes in left.items() if lanes}
    assert served == expected
