"""Earmarks: what is kept for whom, over the rounds of one scheduler and for its successor."""

from __future__ import annotations

import dataclasses

from member_agent.scheduling.earmarks import Earmark, Earmarks, Ended, Place, remembered
from member_agent.scheduling.reasons import Reason
from member_agent.views.pods import Manner
from tests.member_agent.scheduling.build import gang
from tests.member_agent.scheduling.rounds import of
from tests.member_agent.test_room import shape

KEY = ("ns", "high")
ONE = shape(1)
KEPT = Earmark(KEY, "default", (Place("n0", ONE, 2), Place("n1", ONE, 1)))
VICTIMS = gang("low", pods=3, on=["n0", "n0", "n1"]).pods
LATE = Reason("GaveUp", "too late")


def kept(*, grace: int = 30) -> Earmarks:
    found = Earmarks(wait=120.0)
    slow = of(dataclasses.replace(gang("low"), pods=VICTIMS), manner=Manner(grace=grace)).pods
    found.keep(KEPT, victims=slow, now=1000.0)
    return found


def test_a_gang_has_the_grace_of_its_victims_and_the_wait_to_start() -> None:
    earmarks = kept(grace=300)
    assert earmarks.soonest() == 1420.0
    assert earmarks.overdue(now=1419.0) == []
    assert earmarks.overdue(now=1420.0) == [KEY]


def test_who_gives_up_may_evict_again_when_something_has_changed() -> None:
    earmarks = kept()
    assert earmarks.drop(KEY, reason=LATE, was="as it is") == Ended(KEY, 3, LATE)
    assert earmarks.told() == ()
    assert earmarks.spent({KEY: "as it is"}) == {KEY}
    assert earmarks.spent({KEY: "a new node"}) == frozenset()
    assert earmarks.spent({KEY: "as it is"}) == frozenset(), "it was forgotten"


def test_a_start_ends_it_without_waste() -> None:
    earmarks = kept()
    earmarks.started(KEY)
    assert earmarks.told() == ()
    assert earmarks.drop(KEY, reason=LATE) is None


def test_a_victim_that_stays_takes_its_node_out_of_it() -> None:
    earmarks = kept()
    assert earmarks.stays(VICTIMS[2].uid, why="denied") is None
    (left,) = earmarks.told()
    assert (left.places, left.sure) == (KEPT.places[:1], False)
    ended = earmarks.stays(VICTIMS[0].uid, why="denied")
    assert ended is not None
    assert (ended.evicted, ended.reason.sentence) == (1, "denied"), "one of three was evicted, for nothing"
    assert earmarks.stays("a stranger", why="denied") is None


def test_more_of_the_same_gang_is_waited_for_longer() -> None:
    earmarks = kept()
    more = dataclasses.replace(KEPT, places=(*KEPT.places, Place("n2", ONE, 1)))
    earmarks.keep(more, victims=of(gang("other", on=["n2"]), uid="u").pods, now=1100.0)
    assert earmarks.soonest() == 1250.0
    assert earmarks.of(KEY) == more
    assert earmarks.going() == {*(pod.uid for pod in VICTIMS), "u"}
    earmarks.gone("u")
    assert "u" not in earmarks.going()


def test_a_successor_reads_from_pods_what_is_kept() -> None:
    """Pods that have a node by now, and those of gangs that are gone, say nothing."""
    pods = gang("high", pods=3).pods
    waiting = [dataclasses.replace(pod, nominated=node) for pod, node in zip(pods, ("n0", "n1", "n0"), strict=True)]
    started = of(gang("high", on=["n5"]), uid="s", name="high-9", nominated="n5").pods
    orphan = of(gang("gone"), nominated="n7").pods
    (found,) = remembered([*waiting, *started, *orphan], queues={KEY: "default"})
    assert {(place.node, place.count) for place in found.places} == {("n0", 2), ("n1", 1)}
    assert not found.sure
