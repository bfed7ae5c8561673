"""Preempt: less important pods of a queue make room for more important gangs (reference/volcano.md 8.5, preempt)."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from member_agent.scheduling.earmarks import Earmark, Place
from member_agent.scheduling.planner import plan
from member_agent.scheduling.turnover import CLEARING
from member_agent.views.pods import Manner
from policies.neighbours import HostPort, Neighbours
from tests.member_agent.scheduling.around import ZONE, apart, crew, machine, spread
from tests.member_agent.scheduling.build import Made, code, configuration, decide, gang, nodes, queue, started, why
from tests.member_agent.scheduling.rounds import Rounds, of, victims
from tests.member_agent.test_room import shape

ACTIONS = "enqueue, allocate, backfill, preempt"
BY = configuration("priority", "gang", "conformance", "predicates", "nodeorder", actions=ACTIONS)
LOOSE = configuration(
    "priority", "{name: gang, enablePreemptable: false}", "conformance", "predicates", "nodeorder", actions=ACTIONS
)


def low(pods: int = 4, *, name: str = "low", minimum: int = 1, **more: object) -> Made:
    """Runs on n0 and n1, two pods each."""
    on = ["n0", "n0", "n1", "n1"][:pods]
    return gang(name, pods=pods, minimum=minimum, on=on, priority=10, phase="Running", **more)  # type: ignore[arg-type]


def high(pods: int = 2, *, priority: int = 100, name: str = "high", **more: object) -> Made:
    return gang(name, pods=pods, priority=priority, **more)  # type: ignore[arg-type]


def test_nobody_is_evicted_where_there_is_room() -> None:
    found = decide(nodes(2, 2, 2), low(), high(), by=BY)
    assert started(found) == {"high": 2}
    assert not found.evictions


def test_a_more_important_gang_gets_half_of_a_less_important_one() -> None:
    world = Rounds(nodes(2, 2), low(), high(), by=BY)
    first = world.round()
    assert len(first.evictions) == 2
    assert not first.bindings, "the room is not free yet"
    assert code(first, "high") == CLEARING
    assert "room for 2 is being cleared on" in why(first, "high")
    assert {each.action for each in first.evictions} == {"preempt"}
    assert {each.beneficiary for each in first.evictions} == {("ns", "high")}
    world.until_quiet()
    assert world.standing() == {"low": 2, "high": 2}
    assert len(world.evictions) == 2


def test_a_gang_is_never_evicted_below_its_minimum() -> None:
    assert not decide(nodes(2, 2), low(minimum=3), high(2), by=BY).evictions
    assert len(decide(nodes(2, 2), low(minimum=3), high(1), by=BY).evictions) == 1
    assert len(decide(nodes(2, 2), low(minimum=3), high(2), by=LOOSE).evictions) == 2


def test_a_gang_that_was_not_let_in_evicts_nobody() -> None:
    by = configuration("priority", "gang", "overcommit", actions=ACTIONS)
    found = decide(nodes(2, 2), low(), high(phase="Pending", asks=30), by=by)
    assert not found.evictions


def test_preemption_stays_in_its_queue() -> None:
    queues = [queue("default"), queue("other")]
    assert not decide(nodes(2, 2), low(queue="other"), high(), queues=queues, by=BY).evictions
    assert decide(nodes(2, 2), low(), high(), queues=queues, by=BY).evictions


def test_where_all_victims_together_are_not_enough_nobody_goes() -> None:
    """The other queue holds half: five pods would not fit even if all of `low` went."""
    assert not decide(nodes(2, 2), low(), high(5), by=BY).evictions
    assert not decide(nodes(2, 2), low(2), gang("other", pods=2, on=["n1", "n1"], priority=100), high(3), by=BY).evictions


def test_a_gated_gang_evicts_nobody() -> None:
    assert not decide(nodes(2, 2), low(), of(high(), gated=True), by=BY).evictions


def test_equals_do_not_evict_each_other() -> None:
    assert not decide(nodes(2, 2), low(), high(priority=10), by=BY).evictions


def test_most_important_gangs_come_first() -> None:
    """As far as one set of victims goes: the middle one waits while the high one is served."""
    world = Rounds(nodes(2, 2), low(), high(2, name="middle", priority=50), high(4), by=LOOSE)
    found = world.round()
    assert {each.beneficiary for each in found.evictions} == {("ns", "high")}
    world.until_quiet()
    assert world.standing() == {"high": 4}


def test_the_least_important_go_first_and_of_equals_those_whose_gang_stands_without_them() -> None:
    least = gang("least", pods=1, on=["n0"], priority=5, phase="Running")
    mid = gang("mid", pods=1, on=["n1"], priority=7, phase="Running")
    assert victims(decide(nodes(1, 1), mid, least, high(1), by=BY)) == ["least-0"]
    whole = gang("whole", pods=2, on=["n0", "n0"], priority=5, phase="Running")
    spare = gang("spare", pods=2, minimum=1, on=["n1", "n1"], priority=5, phase="Running")
    assert victims(decide(nodes(2, 2), whole, spare, high(1), by=LOOSE))[0].startswith("spare")


def test_the_latest_start_goes_first() -> None:
    young = of(gang("young", on=["n0"], priority=5, phase="Running"), created="2026-01-02T00:00:00Z")
    old = of(gang("old", on=["n1"], priority=5, phase="Running"), created="2026-01-01T00:00:00Z")
    assert victims(decide(nodes(1, 1), old, young, high(1), by=BY)) == ["young-0"]


@pytest.mark.parametrize(
    "protected",
    [
        {"hub": True},
        {"preemptable": False},
    ],
)
def test_hub_run_and_protected_gangs_are_no_victims(protected: dict[str, Any]) -> None:
    assert not decide(nodes(2, 2), low(**protected), high(), by=BY).evictions


def test_protected_and_leaving_pods_are_no_victims() -> None:
    assert not decide(nodes(2, 2), of(low(), manner=Manner(preemptable=False)), high(), by=BY).evictions
    leaving = of(low(), deleting=True)
    found = decide(nodes(2, 2), leaving, high(), by=BY)
    assert not found.evictions, "they make room by themselves"


def test_no_more_go_than_are_needed() -> None:
    """One large victim is enough: the small one on the other node, which would go first, stays."""
    small = gang("small", on=["n0"], priority=1, phase="Running")
    large = gang("large", cpu=4, on=["n1"], priority=2, phase="Running")
    assert victims(decide(nodes(4, 4), small, gang("fill", cpu=3, on=["n0"], priority=100), large, high(1, cpu=4), by=BY)) == [
        "large-0"
    ]


def test_what_is_kept_for_a_gang_is_nobody_elses() -> None:
    """Neither the victim's successor nor a newcomer gets it, although the newcomer would be served first."""
    world = Rounds(nodes(2, 2), low(), high(4), by=LOOSE)
    world.round()
    assert len(world.evictions) == 4
    world.add(gang("newcomer", pods=1, priority=100, created="2025-01-01T00:00:00Z"))
    world.round(seconds=40)
    assert started(world.plan) == {"high": 4}
    world.until_quiet()
    assert world.standing() == {"high": 4}
    assert len(world.evictions) == 4


def test_a_gang_starts_elsewhere_when_room_gets_free_there_first() -> None:
    world = Rounds(nodes(2, 2), low(), high(2), by=BY)
    world.round()
    world.machines += nodes(2, 2, 2)[2:]
    found = world.round()
    assert started(found) == {"high": 2}
    assert found.ended == {("ns", "high"): None}
    assert not world.earmarks.told()


def test_a_gang_that_does_not_start_gives_up_and_evicts_nobody_again() -> None:
    """A foreign pod takes the room in between: the eviction was in vain, is counted, and not repeated."""
    world = Rounds(nodes(2), gang("low", pods=2, minimum=1, on=["n0", "n0"], priority=10, phase="Running"), high(1), by=BY)
    world.round()
    assert len(world.evictions) == 1
    foreign = dataclasses.replace(gang("x", on=["n0"]).pods[0], scheduler="other", group="")
    world.pods[foreign.uid] = foreign
    for _ in range(12):
        world.round(seconds=31)
    assert [(each.gang, each.evicted) for each in world.ended] == [(("ns", "high"), 1)]
    assert len(world.evictions) == 1
    assert not world.earmarks.told()


def test_a_lost_node_ends_what_was_kept_there_with_the_reason() -> None:
    world = Rounds(nodes(2, 2), low(), high(2), by=BY)
    cleared = {place.node for earmark in world.round().earmarks for place in earmark.places}
    world.machines = [node for node in world.machines if node.name not in cleared]
    world.pods = {uid: pod for uid, pod in world.pods.items() if pod.node not in cleared}
    world._leave.clear()
    world.round()
    assert "takes no pods any more" in world.ended[0].reason.sentence


def test_more_important_tasks_of_a_gang_take_the_room_of_less_important_ones() -> None:
    made = gang("mixed", pods=3, minimum=1, on=["n0", "n0"], phase="Running")
    worker, other, master = made.pods
    pods = (worker, other, dataclasses.replace(master, priority=50))
    found = decide(nodes(2), dataclasses.replace(made, pods=pods), by=configuration("priority", "predicates", actions=ACTIONS))
    assert len(found.evictions) == 1
    assert found.nominated[0].pod.name == "mixed-2"


def test_a_queue_at_its_limit_makes_room_in_itself() -> None:
    """Nodes are free, the queue is not: less important pods of the queue go, wherever they are."""
    by = configuration("priority", "gang", "predicates", "capacity", actions=ACTIONS)
    limited = queue("default", capability=4)
    world = Rounds(nodes(2, 2, 4), low(), high(2), queues=[limited], by=by)
    assert len(world.round().evictions) == 2
    world.until_quiet()
    assert world.standing() == {"low": 2, "high": 2}


def test_a_fifo_queue_lets_only_its_first_gang_evict() -> None:
    first = gang("first", pods=9, priority=200)
    by = configuration("priority", "gang", "predicates", actions=ACTIONS)
    assert not decide(nodes(2, 2), low(), first, high(1), queues=[queue("default", fifo=True)], by=by).evictions
    assert decide(nodes(2, 2), low(), first, high(1), queues=[queue("default")], by=by).evictions


def test_host_ports_are_cleared_too() -> None:
    """There is room in amounts; the port is what the victim holds."""
    port = dataclasses.replace(shape(1), one_per_node=True, ports=(HostPort(8080),))
    holder = gang("holder", on=["n0"], shape=port, priority=1, phase="Running")
    bystander = gang("bystander", on=["n0"], priority=0, phase="Running")
    found = decide(nodes(8), holder, bystander, gang("high", shape=port, priority=9), by=BY)
    assert victims(found) == ["holder-0"]


def test_anti_affinity_is_cleared_too() -> None:
    """Whom the gang keeps away from goes, not whoever is least important (8.5, preempt 8)."""
    noisy = crew("noisy", on=["n0"], priority=5, phase="Running")
    bystander = gang("bystander", on=["n0"], priority=1, phase="Running")
    found = decide(nodes(8), noisy, bystander, crew("high", apart("noisy"), priority=9), by=BY)
    assert victims(found) == ["noisy-0"]
    world = Rounds(nodes(8), noisy, bystander, crew("high", apart("noisy"), priority=9), by=BY)
    world.until_quiet()
    assert world.standing() == {"bystander": 1, "high": 1}


def test_anti_affinity_is_cleared_over_a_whole_zone() -> None:
    """Nodes are free in the zone; who is in the way sits on another one of it, or keeps the newcomer away itself."""
    machines = [machine("n0", cpu=1, zone="a"), machine("n1", cpu=8, zone="a"), machine("n2", cpu=1, zone="b")]
    full = gang("full", on=["n2"], priority=99, phase="Running")
    bystander = gang("bystander", on=["n1"], priority=1, phase="Running")
    noisy = crew("noisy", on=["n0"], priority=5, phase="Running")
    high = crew("high", apart("noisy", by=ZONE), priority=9)
    assert victims(decide(machines, full, bystander, noisy, high, by=BY)) == ["noisy-0"]
    world = Rounds(machines, full, bystander, noisy, high, by=BY)
    world.until_quiet()
    assert world.standing() == {"full": 1, "bystander": 1, "high": 1}
    jealous = crew("jealous", apart("high", by=ZONE), on=["n0"], priority=5, phase="Running")
    assert victims(decide(machines, full, bystander, jealous, crew("high", priority=9), by=BY)) == ["jealous-0"]


def test_a_zone_is_not_cleared_where_who_is_in_the_way_is_more_important() -> None:
    machines = [machine("n0", cpu=1, zone="a"), machine("n1", cpu=8, zone="a")]
    noisy = crew("noisy", on=["n0"], priority=50, phase="Running")
    little = crew("little", of="noisy", on=["n1"], priority=1, phase="Running")
    found = decide(machines, noisy, little, crew("high", apart("noisy", by=ZONE), priority=9), by=BY)
    assert not found.evictions


def test_a_gang_apart_by_zone_has_every_zone_cleared_that_it_needs() -> None:
    machines = [machine(f"{zone}{index}", cpu=2, zone=zone) for zone in "abc" for index in range(2)]
    noisy = [crew(f"noisy-{zone}", of="noisy", on=[f"{zone}0"], priority=ord(zone), phase="Running") for zone in "abc"]
    both = Neighbours(apart=(*apart("noisy", by=ZONE).apart, *apart("high", by=ZONE).apart))
    found = decide(machines, *noisy, crew("high", both, pods=2, priority=200), by=BY)
    assert victims(found) == ["noisy-a-0", "noisy-b-0"]


def test_topology_spread_is_cleared_too() -> None:
    """The gang's own kind fills one zone; in the other one there is room only where somebody else's pod of the kind goes."""
    machines = [machine("n0", cpu=1, zone="a"), machine("n1", cpu=8, zone="a"), machine("n2", cpu=1, zone="b")]
    full = gang("full", on=["n2"], priority=99, phase="Running")
    same = crew("same", of="high", on=["n0"], priority=1, phase="Running")
    found = decide(machines, full, same, crew("high", spread("high", by=ZONE), priority=9), by=BY)
    assert victims(found) == ["same-0"]


def test_room_that_is_cleared_for_pods_that_went_is_kept_no_longer() -> None:
    world = Rounds(nodes(2, 2), low(), high(2), gang("next", pods=2, priority=5), by=BY)
    world.round()
    assert len(world.evictions) == 2
    world.pods = {uid: pod for uid, pod in world.pods.items() if pod.group != "high"}
    world.round(seconds=31)
    assert [each.reason.code for each in world.ended] == ["PodsGone"]
    world.until_quiet()
    assert world.standing() == {"low": 4} or world.standing() == {"low": 2, "next": 2}


def test_a_gang_of_which_pods_went_or_whose_queue_did_does_not_start_on_cleared_room() -> None:
    """The room is free by then; a gang that is not whole, or without a queue, gets none of it before it is whole again."""
    world = Rounds(nodes(2, 2), low(), high(2), by=BY)
    world.round()
    lost = world.pods.pop("uid-high-1")
    world.round(seconds=31)
    assert "high" not in world.standing()
    assert code(world.plan, "high") == "NotEnoughTasks"
    world.pods[lost.uid] = lost
    queues, world.queues = world.queues, {}
    world.round()
    assert code(world.plan, "high") == "QueueMissing"
    world.queues = queues
    world.round()
    assert world.standing()["high"] == 2


def test_the_same_snapshot_gives_the_same_victims() -> None:
    world = Rounds(nodes(2, 2), low(), high(2), by=BY)
    one, other = world.freeze(), world.freeze()
    assert plan(one, configuration=BY).evictions == plan(other, configuration=BY).evictions


def test_what_is_kept_and_does_not_come_is_looked_for_anew() -> None:
    """A scheduler before this one kept room and was killed before it evicted anybody: only what is missing is evicted."""
    world = Rounds(nodes(2, 2), low(), high(2), by=BY)
    places = (Place("n0", world.gangs["ns", "high"].pods[0].shape, 2),)
    world.earmarks.keep(Earmark(("ns", "high"), "default", places, sure=False), now=world.now)
    assert len(world.round().evictions) == 2
    world.until_quiet()
    assert world.standing() == {"low": 2, "high": 2}
    assert len(world.evictions) == 2


def test_a_pod_that_cannot_be_evicted_is_not_chosen_again() -> None:
    """The earmark shrinks by its node, and another pod goes instead."""
    world = Rounds(nodes(2, 2), low(), high(1), by=BY)
    (eviction,) = world.round().evictions
    world.pods[eviction.pod.uid] = eviction.pod
    world._leave.clear()
    world.earmarks.stays(eviction.pod.uid, why="denied")
    snapshot = world.freeze()
    told = dataclasses.replace(snapshot.holders, stuck=frozenset({eviction.pod.uid}))
    found = plan(dataclasses.replace(snapshot, holders=told), configuration=BY)
    assert len(found.evictions) == 1
    assert found.evictions[0].pod.uid != eviction.pod.uid
