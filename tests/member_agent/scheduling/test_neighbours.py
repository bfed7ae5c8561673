"""Pods and the pods around them: books kept by deltas, and plans that no pair of pods objects to."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from machinery.informer import Change
from member_agent.layout import HOSTNAME
from member_agent.neighbours import Around, Neighbourhood
from member_agent.room import Room
from member_agent.scheduling.planner import BUILT_IN
from member_agent.scheduling.session import OpenSession
from member_agent.views import NodeView, PodView
from member_agent.views.namespaces import NamespaceView
from policies.neighbours import Crowd, Neighbours, PodSelector, PodTerm, Spread
from policies.selectors import Requirement, Taint
from tests.member_agent.scheduling.around import (
    ZONE,
    apart,
    asking,
    beside,
    crew,
    crowd,
    faults,
    machine,
    prefers,
    seats,
    spread,
)
from tests.member_agent.scheduling.build import (
    USUAL,
    Made,
    configuration,
    decide,
    frozen,
    gang,
    places,
    started,
    why,
)
from tests.member_agent.test_room import inventory, node, pod, shape


def zones(*names: str, cpu: int = 8, **more: Any) -> list[NodeView]:
    """One node per name, named n0, n1, …; `-` has no zone."""
    return [machine(f"n{index}", cpu=cpu, zone=name, **more) for index, name in enumerate(names)]


def by_zone(machines: list[NodeView], found: Any) -> dict[str, int]:
    labels = {each.name: each.labels.get(ZONE, "-") for each in machines}
    return dict(Counter(labels[binding.node] for binding in found.bindings))


# --- required anti-affinity ------------------------------------------------------------------------------------------


def test_pods_that_keep_apart_by_host_get_a_node_each() -> None:
    machines = zones("a", "a", "b")
    assert places(decide(machines, crew("web", apart("web"), pods=3))) == {"n0": 1, "n1": 1, "n2": 1}
    found = decide(machines, crew("web", apart("web"), pods=4))
    assert started(found) == {}
    assert "room for 3 of 4 pods" in why(found, "web")
    assert "one per node" in why(found, "web")


def test_pods_that_keep_apart_by_zone_get_a_zone_each() -> None:
    machines = zones("a", "a", "b", "b", "c")
    assert by_zone(machines, decide(machines, crew("web", apart("web", by=ZONE), pods=3))) == {"a": 1, "b": 1, "c": 1}
    found = decide(machines, crew("web", apart("web", by=ZONE), pods=4))
    assert started(found) == {}
    assert "room for 3 of 4 pods" in why(found, "web")
    assert "one per zone (3 of them)" in why(found, "web")


def test_a_node_without_the_label_is_no_domain_and_takes_any_number() -> None:
    machines = zones("a", "-")
    assert places(decide(machines, crew("web", apart("web", by=ZONE), pods=4))) == {"n0": 1, "n1": 3}


def test_a_pod_keeps_away_from_others_and_they_from_it() -> None:
    machines = zones("a", "b")
    db = crew("db", on=["n0"])
    assert places(decide(machines, db, crew("web", apart("db", by=ZONE), pods=2))) == {"n1": 2}
    shy = crew("db", apart("web", by=ZONE), on=["n0"])
    found = decide(machines, shy, crew("web", pods=2))
    assert places(found) == {"n1": 2}
    full = decide(machines[:1], shy, crew("web", pods=2))
    assert "1 kept away by anti-affinity of pods there" in why(full, "web")


def test_a_pod_that_was_placed_in_this_session_keeps_others_away_too() -> None:
    machines = zones("a", "b")
    first = crew("first", apart("second", by=ZONE))
    second = crew("second", pods=2, created="2026-01-02T00:00:00Z")
    found = decide(machines, first, second)
    assert started(found) == {"first": 1, "second": 2}
    assert faults(machines, seats(machines, [first, second], found), newcomers=uids(first, second)) == []


def test_two_tasks_of_one_gang_keep_apart() -> None:
    """The second shape of a gang hears of the first before the gang is committed."""
    made = gang("g", pods=4)
    ps = dataclasses.replace(asking(apart("work")), requests=shape(2).requests)
    pods = [
        dataclasses.replace(one, shape=ps if index < 1 else one.shape, labels=(("app", "ps" if index < 1 else "work"),))
        for index, one in enumerate(made.pods)
    ]
    both = dataclasses.replace(made, pods=tuple(pods))
    machines = zones("a", "a")
    found = decide(machines, both)
    assert started(found) == {"g": 4}
    assert faults(machines, seats(machines, [both], found), newcomers=uids(both)) == []


def test_a_rolled_back_gang_leaves_nobody_behind() -> None:
    """The first gang finds room for one shape only; the second is placed as if it had never been tried."""
    machines = zones("a")
    made = gang("a-first", pods=2, priority=5)
    pods = tuple(
        dataclasses.replace(one, labels=(("app", "first"),), shape=asking(apart("second", by=ZONE)) if index else shape(9))
        for index, one in enumerate(made.pods)
    )
    first = dataclasses.replace(made, pods=pods)
    without_reservation = configuration("gang", "predicates", "priority", actions="allocate")
    assert started(decide(machines, first, crew("second", pods=2), by=without_reservation)) == {"second": 2}


# --- required affinity -----------------------------------------------------------------------------------------------


def test_pods_sit_beside_those_they_ask_for_and_wait_while_there_are_none() -> None:
    machines = zones("a", "b", "b")
    db = crew("db", on=["n1"])
    assert by_zone(machines, decide(machines, db, crew("web", beside("db"), pods=3))) == {"b": 3}
    alone = decide(machines, crew("web", beside("db"), pods=3))
    assert started(alone) == {}
    assert "3 ruled out by pod affinity" in why(alone, "web")


def test_the_first_of_its_own_kind_may_start_anywhere_and_the_others_follow() -> None:
    machines = zones("a", "a", "b", "b", "b", cpu=2)
    found = decide(machines, crew("web", beside("web"), pods=6))
    assert by_zone(machines, found) == {"b": 6}
    assert started(decide(machines, crew("web", beside("web"), pods=7))) == {}
    assert "all in one zone" in why(decide(machines, crew("web", beside("web"), pods=7)), "web")


def test_what_runs_decides_where_a_kind_that_sticks_together_goes_on() -> None:
    machines = zones("a", "b", "b")
    assert by_zone(machines, decide(machines, crew("old", on=["n0"], of="web"), crew("web", beside("web"), pods=3))) == {"a": 3}


def test_a_node_without_the_label_never_satisfies_affinity() -> None:
    machines = zones("-", "-")
    assert started(decide(machines, crew("web", beside("web")))) == {}


def test_workers_that_must_sit_beside_the_master_of_their_gang_are_placed_after_it() -> None:
    made = gang("g", pods=3)
    pods = [
        dataclasses.replace(
            one,
            shape=asking(beside("master")) if index < 2 else shape(3),
            labels=(("app", "worker" if index < 2 else "master"),),
        )
        for index, one in enumerate(made.pods)
    ]
    machines = zones("a", "b", cpu=8)
    found = decide(machines, dataclasses.replace(made, pods=tuple(pods)))
    assert len(by_zone(machines, found)) == 1
    assert started(found) == {"g": 3}


def test_who_waits_for_others_to_sit_beside_keeps_no_node_from_the_rest() -> None:
    found = decide(zones("a"), crew("web", beside("db"), priority=5), crew("other", pods=8))
    assert started(found) == {"other": 8}


def test_who_waits_for_others_to_end_keeps_the_nodes_it_needs() -> None:
    """Both nodes, one pod on each: the pods that are there keep it out, and will end."""
    machines = zones("a", "b")
    old = crew("old", pods=2, on=["n0", "n1"], of="web")
    found = decide(machines, old, crew("web", apart("web"), pods=2, priority=5), crew("small", pods=1))
    assert started(found) == {}
    assert "2 kept for web" in why(found, "small")


# --- spread ----------------------------------------------------------------------------------------------------------


def test_pods_spread_over_zones() -> None:
    machines = zones("a", "a", "b", "c")
    assert by_zone(machines, decide(machines, crew("web", spread("web"), pods=7))) in (
        {"a": 3, "b": 2, "c": 2},
        {"a": 2, "b": 3, "c": 2},
        {"a": 2, "b": 2, "c": 3},
    )


def test_a_full_zone_holds_the_others_back() -> None:
    machines = [*zones("a", "b"), node("n2", cpu=1, zone="c")]
    found = decide(machines, crew("web", spread("web"), pods=6))
    assert started(found) == {}
    assert "room for 5 of 6 pods" in why(found, "web")
    assert "no zone may have 1 more than the emptiest of 3" in why(found, "web")
    assert started(decide(machines, crew("web", spread("web", skew=2), pods=6))) == {"web": 6}


def test_what_is_there_already_counts_and_others_do_not() -> None:
    machines = zones("a", "b")
    old = crew("old", pods=2, on=["n0", "n0"], of="web")
    other = crew("other", pods=3, on=["n1", "n1", "n1"])
    assert by_zone(machines, decide(machines, old, other, crew("web", spread("web"), pods=2))) == {"b": 2}


def test_with_fewer_domains_than_asked_for_none_may_have_more_than_the_skew() -> None:
    machines = zones("a", "b")
    found = decide(machines, crew("web", spread("web", least_domains=3), pods=3, minimum=1))
    assert by_zone(machines, found) == {"a": 1, "b": 1}


@pytest.mark.parametrize(("honours", "pods"), [(True, 4), (False, 1)])
def test_zones_in_which_the_pod_cannot_run_count_only_if_the_constraint_says_so(honours: bool, pods: int) -> None:
    machines = [node("n0", cpu=8, zone="a", disk="ssd"), node("n1", cpu=8, zone="b")]
    web = crew("web", spread("web", honours_selector=honours), pods=4, minimum=1)
    ssd = dataclasses.replace(web.pods[0].shape, node_selector=(("disk", "ssd"),))
    picky = dataclasses.replace(web, pods=tuple(dataclasses.replace(one, shape=ssd) for one in web.pods))
    assert started(decide(machines, picky)) == {"web": pods}


@pytest.mark.parametrize(("honours", "pods"), [(True, 4), (False, 1)])
def test_tainted_zones_count_unless_the_constraint_leaves_them_out(honours: bool, pods: int) -> None:
    machines = [node("n0", cpu=8, zone="a"), node("n1", cpu=8, zone="b", taints=(Taint("x", "", "NoSchedule"),))]
    web = crew("web", spread("web", honours_taints=honours), pods=4, minimum=1)
    assert started(decide(machines, web)) == {"web": pods}


def test_nodes_without_the_label_take_no_pod_that_spreads_over_it() -> None:
    machines = zones("a", "-")
    assert places(decide(machines, crew("web", spread("web"), pods=3))) == {"n0": 3}


# --- namespaces and numbers ------------------------------------------------------------------------------------------


def selector(*, of_spaces: tuple[Requirement, ...] | None = None, spaces: tuple[str, ...] = (), key: str = "app") -> Crowd:
    return Crowd((PodSelector(spaces, of_spaces, (Requirement(key, "In", ("web", "0")),)),))


def test_labels_of_namespaces_decide_who_belongs_as_they_are_now() -> None:
    found = inventory([])
    kept = Neighbourhood(lambda: found.held().values())
    found.listen(kept)
    red = selector(of_spaces=(Requirement("team", "In", ("red",)),))
    kept.waits(pod("w", asking(Neighbours(apart=(PodTerm(red, ZONE),)))))
    one = dataclasses.replace(pod("p", shape(1), on="n0"), labels=(("app", "web"),))
    found.pod_changed(Change(("ns", "p"), None, one))
    assert kept.freeze().members[red] == {}
    assert kept.namespace_changed(Change(("", "ns"), None, NamespaceView("ns", "u", "1", {"team": "red"})))
    assert kept.freeze().members[red] == {"n0": 1}
    assert kept.counted_as(one).seen == (red,)
    assert kept.namespace_changed(Change(("", "ns"), None, NamespaceView("ns", "u", "2", {"team": "blue"})))
    assert kept.freeze().members[red] == {}
    assert kept.counted_as(one).seen == ()


def test_labels_that_number_pods_are_looked_at_as_soon_as_somebody_asks_for_them() -> None:
    found = inventory([])
    kept = Neighbourhood(lambda: found.held().values())
    found.listen(kept)
    for index in range(2):
        numbered = dataclasses.replace(pod(f"p{index}", shape(1), on="n0"), own_labels=(("volcano.sh/task-index", str(index)),))
        found.pod_changed(Change(("ns", numbered.name), None, numbered))
    first = selector(spaces=("ns",), key="volcano.sh/task-index")
    kept.waits(pod("w", asking(Neighbours(apart=(PodTerm(first, ZONE),)))))
    assert kept.freeze().members[first] == {"n0": 1}


def test_pods_are_marked_once_and_anew_when_somebody_speaks_of_them() -> None:
    found = inventory([])
    kept = Neighbourhood(lambda: found.held().values())
    one, two = (dataclasses.replace(pod(name, shape(1)), labels=(("app", "web"),)) for name in ("p", "q"))
    assert kept.marked((one, two)) == (one, two)
    kept.waits(pod("w", asking(apart("web"))))
    first = kept.marked((one, two))
    assert first[0].shape is first[1].shape
    assert first[0].shape.seen == (crowd("web"),)
    assert [each is other for each, other in zip(first, kept.marked((one, two)), strict=True)] == [True, True]
    kept.waits(pod("x", asking(apart("web", by=ZONE))))
    kept.waits(pod("y", asking(Neighbours(apart=(PodTerm(selector(spaces=("ns",)), ZONE),)))))
    assert len(kept.marked((one,))[0].shape.seen) == 2


# --- laws ------------------------------------------------------------------------------------------------------------

APPS = ("a", "b")
asks_of = some.sampled_from(
    [
        None,
        *(apart(name, by=by) for name in APPS for by in (HOSTNAME, ZONE)),
        *(beside(name) for name in APPS),
        *(prefers(name, weight) for name in APPS for weight in (5, -5)),
    ]
)
crews = some.lists(
    some.tuples(some.sampled_from(APPS), asks_of, some.integers(1, 5), some.integers(0, 2), some.booleans()),
    min_size=1,
    max_size=5,
)
layouts = some.lists(some.tuples(some.sampled_from("xyz-"), some.integers(1, 6)), min_size=1, max_size=6)


def uids(*gangs: Made) -> frozenset[str]:
    return frozenset(one.uid for each in gangs for one in each.pods if not one.node)


def machines_of(described: list[tuple[str, int]]) -> list[NodeView]:
    return [machine(f"n{index}", cpu=cpu, zone=zone) for index, (zone, cpu) in enumerate(described)]


def gangs_of(described: list[tuple[str, Neighbours | None, int, int, bool]], machines: list[NodeView]) -> list[Made]:
    made = []
    for index, (name, asks, pods, seat, sits) in enumerate(described):
        # Those that sit already ask nothing that they could be breaking: where they sit was not decided here.
        on = [machines[(index + seat + number) % len(machines)].name for number in range(pods)] if sits else []
        made.append(crew(f"g{index}", asks, pods=pods, minimum=1, of=name, on=on))
    return made


@given(layouts, crews)
@settings(deadline=None, max_examples=80)
def test_no_pair_of_pods_objects_to_a_plan(layout: list[tuple[str, int]], described: Any) -> None:
    machines = machines_of(layout)
    gangs = gangs_of(described, machines)
    found = decide(machines, *gangs)
    # Affinity is a promise about the moment of placing: whoever is placed later only adds to it.
    assert faults(machines, seats(machines, gangs, found), newcomers=uids(*gangs)) == []


@given(
    layouts,
    some.integers(1, 12),
    some.integers(1, 3),
    some.sampled_from([ZONE, HOSTNAME]),
    some.lists(some.integers(0, 5), max_size=4),
)
@settings(deadline=None, max_examples=80)
def test_spreading_is_even_and_as_full_as_one_pod_after_the_other(
    layout: list[tuple[str, int]], pods: int, skew: int, by: str, there: list[int]
) -> None:
    machines = machines_of(layout)
    old = crew("old", pods=len(there), on=[machines[index % len(machines)].name for index in there], of="web", cpu=0)
    web = crew("web", spread("web", by=by, skew=skew), pods=pods, minimum=1)
    gangs = [old, web] if there else [web]
    found = decide(machines, *gangs, by=configuration("gang", "predicates", actions="allocate"))
    assert faults(machines, seats(machines, gangs, found), newcomers=uids(web)) == []
    assert len(found.bindings) == greedy(machines, there, pods, skew=skew, by=by)


def greedy(machines: list[NodeView], there: list[int], pods: int, *, skew: int, by: str) -> int:
    """How many pods find a place, each put where the fewest are."""
    room = {each.name: each.allocatable["cpu"] // 1000 for each in machines if by in each.labels}
    counts = Counter({each.labels[by]: 0 for each in machines if by in each.labels})
    counts.update(machines[index % len(machines)].labels.get(by, "") for index in there)
    del counts[""]
    labels = {each.name: each.labels.get(by) for each in machines}
    placed = 0
    while placed < pods:
        able = [name for name in room if room[name] and counts[labels[name]] + 1 - min(counts.values()) <= skew]  # type: ignore[index]
        if not able:
            return placed
        best = min(able, key=lambda name: counts[labels[name]])  # type: ignore[index]
        room[best] -= 1
        counts[labels[best]] += 1  # type: ignore[index]
        placed += 1
    return placed


@given(layouts, some.integers(2, 10), some.integers(1, 2))
@settings(deadline=None, max_examples=60)
def test_spreading_over_two_labels_and_keeping_apart_at_once_breaks_neither(
    layout: list[tuple[str, int]], pods: int, skew: int
) -> None:
    machines = machines_of(layout)
    both = Neighbours(spreads=(Spread(crowd("web"), ZONE, skew), Spread(crowd("web"), HOSTNAME, skew)))
    web = crew("web", both, pods=pods, minimum=1)
    other = crew(
        "other",
        dataclasses.replace(both, spreads=(Spread(crowd("other"), ZONE),), apart=apart("other").apart),
        pods=pods,
        minimum=1,
    )
    found = decide(machines, web, other)
    assert faults(machines, seats(machines, [web, other], found), newcomers=uids(web, other)) == []


events = some.lists(
    some.tuples(some.sampled_from(("come", "go", "wait", "stop")), some.integers(0, 7), some.sampled_from(APPS), asks_of),
    max_size=25,
)


@given(events)
@settings(deadline=None, max_examples=80)
def test_books_kept_by_deltas_are_books_counted_anew(told: Any) -> None:
    kept_inventory = inventory([])
    kept = Neighbourhood(lambda: kept_inventory.held().values())
    kept_inventory.listen(kept)
    sitting: dict[int, PodView] = {}
    waiting: list[PodView] = []
    frozen_before = (kept.freeze(), copied(kept.freeze()))
    for what, number, name, asks in told:
        if what == "come":
            one = dataclasses.replace(pod(f"p{number}", asking(asks), on=f"n{number % 3}"), labels=(("app", name),))
            kept_inventory.pod_changed(Change(("ns", one.name), sitting.get(number), one))
            sitting[number] = one
        elif what == "go" and number in sitting:
            gone = sitting.pop(number)
            kept_inventory.pod_changed(Change(("ns", gone.name), gone, None))
        elif what == "wait":
            waiting.append(pod(f"w{len(waiting)}", asking(asks)))
            kept.waits(waiting[-1])
        elif waiting:
            kept.waits_no_more(waiting.pop())
        assert copied(frozen_before[0]) == frozen_before[1], "a look that was taken changed afterwards"
        frozen_before = (kept.freeze(), copied(kept.freeze()))
    fresh_inventory = inventory([])
    fresh = Neighbourhood(lambda: fresh_inventory.held().values())
    fresh_inventory.listen(fresh)
    for each in waiting:
        fresh.waits(each)
    for one in sitting.values():
        fresh_inventory.pod_changed(Change(("ns", one.name), None, one))
    assert copied(kept.freeze()) == copied(fresh.freeze())


def copied(around: Around) -> tuple[Any, Any, Any]:
    return (
        {each: dict(place) for each, place in around.members.items()},
        {each: {by: dict(place) for by, place in books.items()} for each, books in around.keeping_away.items()},
        {each: {by: dict(place) for by, place in books.items()} for each, books in around.liking.items()},
    )


def room_of(machines: list[NodeView], *gangs: Made) -> Room:
    return OpenSession(frozen(machines, gangs), configuration=USUAL, registry=BUILT_IN).room


def test_giving_everything_back_leaves_the_surroundings_as_they_were() -> None:
    machines = zones("a", "b", "c")
    session = OpenSession(
        frozen(machines, [crew("web", apart("web", by=ZONE), pods=3)]), configuration=USUAL, registry=BUILT_IN
    )
    (web,) = session.waiting
    for _ in range(2):
        spots = session.room.place_some(web.pods[0].shape, 3)
        assert len(spots) == 3
        assert session.room.place_some(web.pods[0].shape, 1) == ()
        session.room.give_back(spots)


def test_capacity_knows_of_pods_around() -> None:
    machines = zones("a", "b")
    made = crew("web", apart("db", by=ZONE), pods=1)
    room = room_of(machines, crew("db", on=["n0"]), made)
    marked = OpenSession(frozen(machines, [crew("db", on=["n0"]), made]), configuration=USUAL, registry=BUILT_IN).waiting[0]
    assert room.capacity(marked.pods[0].shape).tolist() == [0, 8]
