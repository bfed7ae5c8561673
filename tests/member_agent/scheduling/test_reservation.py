"""What is kept for the first gang that finds no room: it starts no later for who passes it, and who harms it not does pass."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from apis.vectors import ResourceVector
from member_agent.scheduling.reservations import Reservation, kept_of, shadow_of
from member_agent.scheduling.tenants import START, Limits, Tenant
from member_agent.views.pods import Manner
from policies.neighbours import HostPort
from tests.member_agent.scheduling.around import apart, crew
from tests.member_agent.scheduling.build import Made, configuration, decide, gang, nodes, queue, started, why
from tests.member_agent.scheduling.rounds import Rounds, of
from tests.member_agent.test_room import shape

BY = configuration("gang", "predicates", "nodeorder", actions="allocate, backfill")
LATER = "2026-01-02T00:00:00Z"


def kept(made: Reservation | None) -> dict[str, int]:
    """Cores by node that nobody else gets."""
    assert made is not None
    return {node: amounts.get("cpu") // 1000 for node, amounts in made.kept}


# --- who passes ------------------------------------------------------------------------------------------------------


def test_what_is_free_beyond_what_the_gang_wants_is_anybodys() -> None:
    """It waits for n1; of n0 it wants five cores of eight."""
    machines, full = nodes(8, 8), gang("full", cpu=8, on=["n1"], phase="Running")
    found = decide(machines, full, gang("big", pods=2, cpu=5), gang("passes", pods=3, created=LATER), by=BY)
    assert started(found) == {"passes": 3}
    assert kept(found.reservation) == {"n0": 5, "n1": 0}
    four = decide(machines, full, gang("big", pods=2, cpu=5), gang("passes", pods=4, created=LATER), by=BY)
    assert started(four) == {}
    assert "2 kept for big" in why(four, "passes")


def test_what_will_be_left_over_whoever_ends_first_is_anybodys() -> None:
    """Two of eight cores are free. Whether the pod of six ends, or there is none but pods of three, six are free with some left
    over, or not: of three and three both have to go, and no core is left over until they have."""
    big = gang("big", cpu=6)
    one = gang("one", cpu=6, on=["n0"], phase="Running")
    assert started(decide(nodes(8), one, big, gang("passes", pods=2, created=LATER), by=BY)) == {"passes": 2}
    threes = gang("threes", pods=2, cpu=3, on=["n0", "n0"], minimum=1, phase="Running")
    assert started(decide(nodes(8), threes, big, gang("passes", pods=2, created=LATER), by=BY)) == {"passes": 2}
    fives = [gang("a", cpu=5, on=["n0"], phase="Running"), gang("b", cpu=1, on=["n0"], phase="Running")]
    assert started(decide(nodes(8), *fives, big, gang("passes", created=LATER), by=BY)) == {}


def test_a_node_where_more_than_amounts_decides_is_kept_whole() -> None:
    port = dataclasses.replace(shape(1), one_per_node=True, ports=(HostPort(8080),))
    holds = gang("holds", shape=port, on=["n0"], phase="Running")
    found = decide(nodes(8), holds, gang("big", shape=port), gang("passes", created=LATER), by=BY)
    assert started(found) == {}
    noisy = crew("noisy", on=["n0"], phase="Running")
    assert started(decide(nodes(8), noisy, crew("big", apart("noisy")), gang("passes", created=LATER), by=BY)) == {}


def test_what_daemons_and_other_schedulers_hold_is_not_waited_for() -> None:
    daemon = of(gang("daemon", cpu=3, on=["n0"], phase="Running"), group="")
    full = gang("full", cpu=4, on=["n0"], phase="Running")
    found = decide(nodes(8), daemon, full, gang("big", cpu=5), gang("passes", created=LATER), by=BY)
    assert started(found) == {}, "when the four have gone all five are needed"


# --- enforced ends ---------------------------------------------------------------------------------------------------

NOW = 1_000_000.0


def limited(made: Made, seconds: int, *, since: float = 0.0) -> Made:
    return of(made, manner=Manner(limit=seconds), since=since)


@pytest.mark.parametrize(("seconds", "passes"), [(3000, True), (3600, False)])
def test_who_has_ended_before_the_gang_can_start_passes(seconds: int, passes: bool) -> None:
    """The pods it waits for are ended by their kubelets in an hour at the latest; so is the one that passes, sooner."""
    runs = limited(gang("runs", cpu=6, on=["n0"], phase="Running"), 7200, since=NOW - 3600)
    newcomer = limited(gang("passes", cpu=2, created=LATER), seconds)
    found = decide(nodes(8), runs, gang("big", cpu=8), newcomer, by=BY, now=NOW)
    assert started(found) == ({"passes": 1} if passes else {})
    assert found.reservation is not None
    assert found.reservation.shadow == NOW + 3600 + 30


def test_estimates_and_unknown_ends_let_nobody_pass() -> None:
    """One pod without a limit, and nobody knows when the gang starts."""
    runs = limited(gang("runs", cpu=3, on=["n0"], phase="Running"), 7200, since=NOW)
    endless = gang("endless", cpu=3, on=["n0"], phase="Running")
    newcomer = limited(gang("passes", cpu=2, created=LATER), 60)
    found = decide(nodes(8), runs, endless, gang("big", cpu=8), newcomer, by=BY, now=NOW)
    assert started(found) == {}
    assert found.reservation is not None and math.isinf(found.reservation.shadow)
    unlimited = gang("passes", cpu=2, created=LATER)
    sure = limited(gang("runs", cpu=6, on=["n0"], phase="Running"), 7200, since=NOW)
    assert started(decide(nodes(8), sure, gang("big", cpu=8), unlimited, by=BY, now=NOW)) == {}


def test_a_pod_that_has_not_started_ends_nobody_knows_when() -> None:
    (pod,) = limited(gang("runs", on=["n0"]), 60).pods
    assert math.isinf(Limits().ends(pod))
    assert Limits().ends(dataclasses.replace(pod, since=NOW)) == NOW + 60 + 30
    assert Limits().would_end([pod], hub=False, now=NOW) == NOW + START + 60 + 30
    assert math.isinf(Limits().would_end(gang("other").pods, hub=True, now=NOW))


# --- remembered ------------------------------------------------------------------------------------------------------


def test_the_same_nodes_are_kept_although_others_are_emptier_by_now() -> None:
    """What passed beside it must not send it elsewhere, round after round."""
    runs = [gang("a", cpu=4, on=["n0"], phase="Running"), gang("b", cpu=6, on=["n1"], phase="Running")]
    world = Rounds(nodes(8, 8), *runs, gang("big", cpu=8), by=BY)
    assert world.round().reservation is not None
    assert kept(world.plan.reservation) == {"n0": 4}
    world.pods = {uid: pod for uid, pod in world.pods.items() if pod.group != "b"}
    world.pods["late"] = dataclasses.replace(gang("late", on=["n1"]).pods[0], uid="late")
    world.add(gang("late", on=["n1"], phase="Running"))
    assert kept(world.round().reservation) == {"n0": 4}


def test_a_lost_node_is_kept_no_longer() -> None:
    runs = [gang("a", cpu=4, on=["n0"], phase="Running"), gang("b", cpu=6, on=["n1"], phase="Running")]
    world = Rounds(nodes(8, 8), *runs, gang("big", cpu=8), by=BY)
    world.round()
    world.machines = world.machines[1:]
    assert set(kept(world.round().reservation)) == {"n1"}


def test_two_large_gangs_do_not_take_the_reservation_from_each_other_in_turns() -> None:
    """Whichever queue is first changes with every pod that ends; who has it keeps it until a more important gang needs it."""
    runs = [gang(f"r{index}", cpu=6, on=[f"n{index}"], queue=f"q{index}", phase="Running") for index in range(2)]
    large = [
        gang(f"big{index}", pods=2, cpu=7, queue=f"q{index}", created=f"2026-01-0{index + 1}T00:00:00Z") for index in range(2)
    ]
    world = Rounds(nodes(8, 8), *runs, *large, by=BY, queues=[queue("q0"), queue("q1")])
    made = world.round().reservation
    assert made is not None and made.gang == ("ns", "big0")
    world.gangs["ns", "big0"] = dataclasses.replace(
        world.gangs["ns", "big0"],
        group=dataclasses.replace(world.gangs["ns", "big0"].group, created="2026-01-05T00:00:00Z"),
    )
    made = world.round().reservation
    assert made is not None and made.gang == ("ns", "big0")
    by = configuration("priority", "gang", "predicates", actions="allocate, backfill")
    world.by = by
    world.add(gang("more", pods=2, cpu=8, priority=100, queue="q0"))
    made = world.round().reservation
    assert made is not None and made.gang == ("ns", "more")


def test_a_gang_starts_as_it_was_reserved_although_its_pods_might_be_packed_otherwise() -> None:
    """Three, two, two and two cores on nodes of five and four: who puts the three on the fuller node is left with two."""
    three, twos = gang("big", cpu=3), gang("big", pods=4, cpu=2)
    big = dataclasses.replace(twos, pods=(*three.pods, *twos.pods[1:]))
    packed = configuration("gang", "predicates", "binpack", actions="allocate, backfill")
    world = Rounds(nodes(5, 4), gang("runs", cpu=4, on=["n1"], phase="Running"), big, by=packed)
    assert world.round().reservation is not None
    world.pods = {uid: pod for uid, pod in world.pods.items() if pod.group != "runs"}
    assert not started(decide(nodes(5, 4), big, by=packed))
    assert started(world.round()) == {"big": 4}


# --- laws ------------------------------------------------------------------------------------------------------------

AMOUNTS = some.lists(some.integers(1, 6), max_size=5)


@given(some.integers(0, 6), AMOUNTS, some.integers(1, 12))
@settings(deadline=None, max_examples=300)
def test_whatever_ends_the_gang_does_not_miss_what_others_were_given(free: int, amounts: list[int], wanted: int) -> None:
    """By all subsets of pods that may have ended: where they were enough for it, they are beside what others have."""
    tenants = [Tenant(ResourceVector({"cpu": amount})) for amount in amounts]
    held = kept_of(ResourceVector({"cpu": wanted}), {"cpu": free}, tenants).get("cpu")
    given_away = free - held
    assert 0 <= given_away <= free
    for count in range(len(amounts) + 1):
        for ended in itertools.combinations(amounts, count):
            if free + sum(ended) >= wanted:
                assert free + sum(ended) - given_away >= wanted


@given(some.integers(0, 6), some.lists(some.tuples(some.integers(1, 6), some.integers(1, 9)), max_size=5), some.integers(1, 12))
@settings(deadline=None, max_examples=200)
def test_the_shadow_is_when_enough_has_ended(free: int, ends: list[tuple[int, int]], wanted: int) -> None:
    tenants = [Tenant(ResourceVector({"cpu": amount}), float(at)) for amount, at in ends]
    at = shadow_of(ResourceVector({"cpu": wanted}), {"cpu": free}, tenants)
    enough = [time for time in [0, *(at for _, at in ends)] if free + sum(a for a, t in ends if t <= time) >= wanted]
    assert at == (min(enough) if enough else math.inf)


@dataclasses.dataclass
class Machines:
    """A cluster over time: pods of `runs` end one after the other; those that pass never do."""

    size: int
    runs: list[tuple[int, int]]
    """Cores and node of each pod that runs, in the order in which they end."""
    large: int
    count: int


WORLDS = some.integers(1, 3).flatmap(
    lambda count: some.builds(
        Machines,
        size=some.just(8),
        runs=some.lists(some.tuples(some.integers(1, 8), some.integers(0, count - 1)), min_size=1, max_size=9),
        large=some.integers(5, 8),
        count=some.just(count),
    )
)


def start_of(world: Machines, passers: list[tuple[int, int]]) -> int | None:
    """The round in which the large gang starts, one pod of it on every node."""
    left, runs = Counter(dict.fromkeys(range(world.count), world.size)), []
    for index, (cpu, node) in enumerate(world.runs):
        if left[node] >= cpu:
            left[node] -= cpu
            runs.append(gang(f"r{index}", cpu=cpu, on=[f"n{node}"], phase="Running"))
    played = Rounds(nodes(*[world.size] * world.count), *runs, gang("large", pods=world.count, cpu=world.large), by=BY)
    for number in range(len(runs) + 2):
        for index, (at, cpu) in enumerate(passers):
            if at == number:
                played.add(gang(f"p{index}", cpu=cpu, created=LATER))
        played.round()
        if played.standing().get("large"):
            return number
        if runs:
            ended = runs.pop(0)
            del played.gangs["ns", ended.group.name]
            played.pods = {uid: pod for uid, pod in played.pods.items() if pod.group != ended.group.name}
    return None


@given(WORLDS, some.lists(some.tuples(some.integers(0, 6), some.integers(1, 6)), max_size=6))
@settings(deadline=None, max_examples=60)
def test_a_large_gang_starts_no_later_for_who_passes_it(world: Machines, passers: list[tuple[int, int]]) -> None:
    """It wants more than half of every node, so that all of them are kept for it; whoever passes stays for ever."""
    assert start_of(world, passers) == start_of(world, [])


@given(some.lists(some.tuples(some.integers(1, 6), some.integers(1, 6)), min_size=1, max_size=6), some.integers(5, 8))
@settings(deadline=None, max_examples=60)
def test_with_enforced_ends_a_gang_starts_no_later_than_they_say(passers: list[tuple[int, int]], large: int) -> None:
    """Everybody runs until the kubelet ends it. Passers of a limit come in every round."""
    made = limited(gang("runs", cpu=6, on=["n0"], phase="Running"), 600, since=1000.0)
    played = Rounds(nodes(8), made, gang("large", cpu=large), by=BY)
    ends = {made.pods[0].uid: 1000.0 + 600 + 30}
    for number in range(40):
        for index, (cpu, limit) in enumerate(passers):
            if number == index:
                played.add(limited(gang(f"p{index}", cpu=cpu, created=LATER), limit * 100))
        for uid in [uid for uid, at in ends.items() if at <= played.now + 30]:
            del ends[uid]
            ended = played.pods.pop(uid)
            del played.gangs["ns", ended.group]
        played.round(seconds=30)
        for pod in list(played.pods.values()):
            if pod.node and pod.uid not in ends and pod.manner.limit is not None:
                played.pods[pod.uid] = dataclasses.replace(pod, since=played.now)
                ends[pod.uid] = played.now + pod.manner.limit + 30
        if played.standing().get("large"):
            assert played.now <= 1000 + 600 + 30 + 30
            return
    raise AssertionError("it never started")
