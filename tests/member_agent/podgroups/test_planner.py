"""What is decided for one family, on values alone."""

from __future__ import annotations

import dataclasses

from machinery.informer import Change
from member_agent.podgroups.families import Families
from member_agent.podgroups.owners import OwnerView
from member_agent.podgroups.planner import Plan, Snapshot, plan
from member_agent.views import GroupStatus, GroupView, PodView
from tests.member_agent import test_room

OWNER = ("ns", "uid-o")


def pod(name: str, *, owner: str = "uid-o", group: str = "") -> PodView:
    made = test_room.pod(name, test_room.shape(1), group=group, task="", owner=owner)
    return dataclasses.replace(made, run=False)


def group(*, owner: str = "uid-o", deleting: bool = False) -> GroupView:
    found = test_room.waiting("g", [pod("any")], minimum=1).group
    assert isinstance(found, GroupView)
    return dataclasses.replace(found, name="podgroup-uid-o", owner=owner, deleting=deleting, status=GroupStatus())


def owner(*, replicas: int = 1, digest: str = "d") -> OwnerView:
    return OwnerView("ns", "o", "uid-o", "1", replicas, digest)


def families(*pods: PodView) -> Families:
    found = Families(scheduler="volcano")
    for each in pods:
        found.pod_changed(Change((each.namespace, each.name), None, each))
    return found


def snapshot(*pods: PodView, **given: object) -> Snapshot:
    made = Snapshot(family=families(*pods).freeze(OWNER), group=None)
    return dataclasses.replace(made, **given)  # type: ignore[arg-type]


def test_the_first_pod_brings_the_group_and_later_ones_only_name_it() -> None:
    first, second = pod("a"), pod("b")
    assert plan(snapshot(first)) == Plan(create=True, name=(first,))
    named = dataclasses.replace(first, group="podgroup-uid-o")
    assert plan(snapshot(named, second, group=group())) == Plan(name=(second,))


def test_what_was_written_and_is_not_seen_yet_is_not_written_again() -> None:
    one = pod("a")
    assert plan(snapshot(one, made=True, named=frozenset({one.uid}))) == Plan()


def test_a_group_on_its_way_out_is_waited_for() -> None:
    assert plan(snapshot(pod("a"), group=group(deleting=True))) == Plan()


def test_nothing_is_made_for_an_owner_without_pods() -> None:
    assert plan(snapshot()) == Plan()


def test_an_owner_scaled_to_nothing_loses_its_own_group_and_no_other() -> None:
    mine, others = group(), group(owner="uid-of-somebody")
    assert plan(snapshot(pod("a"), group=mine, owner=owner(replicas=0))) == Plan(delete=mine)
    assert plan(snapshot(pod("a"), group=others, owner=owner(replicas=0))) == Plan()
    assert plan(snapshot(pod("a"), owner=owner(replicas=0))) == Plan()


def test_a_group_is_compared_when_its_owner_has_changed_since() -> None:
    named = pod("a", group="podgroup-uid-o")
    assert plan(snapshot(named, group=group(), owner=owner(digest="new"), compared="old")) == Plan(compare=True)
    assert plan(snapshot(named, group=group(), owner=owner(digest="new"), compared="new")) == Plan()
    assert plan(snapshot(group=group(), owner=owner(digest="new"), compared="old")) == Plan()


def test_pods_of_a_pod_wait_until_it_has_its_group() -> None:
    driver, executor = pod("driver"), pod("executor", owner="uid-driver")
    waiting = Snapshot(family=families(driver, executor).freeze(("ns", "uid-driver")), group=None)
    assert plan(waiting) == Plan()
    known = families(executor)
    settled = dataclasses.replace(driver, group="podgroup-uid-o")
    assert known.pod_changed(Change(("ns", "driver"), None, settled)) == (("ns", "uid-driver"),)
    joined = known.freeze(("ns", "uid-driver"))
    assert joined.name == "podgroup-uid-o"
    assert plan(Snapshot(family=joined, group=None)) == Plan(name=(executor,))


def test_pods_that_own_each_other_in_a_circle_end_nobodys_patience() -> None:
    a, b = pod("a", owner="uid-b"), pod("b", owner="uid-a")
    assert families(a, b).freeze(("ns", "uid-a")).name.startswith("podgroup-")


def test_pods_of_runs_jobs_and_other_schedulers_are_no_family() -> None:
    one = pod("a")
    strangers = (
        dataclasses.replace(one, run=True),
        dataclasses.replace(one, task="work", group="train-uid-o"),
        dataclasses.replace(one, scheduler="default-scheduler"),
        dataclasses.replace(one, phase="Succeeded"),
        dataclasses.replace(one, deleting=True),
    )
    for each in strangers:
        assert families(each).freeze(OWNER).live == (), each


def test_what_has_gone_or_found_its_group_leaves_the_family() -> None:
    one = pod("a")
    known = families(one)
    known.pod_changed(Change(("ns", "a"), one, dataclasses.replace(one, group="podgroup-uid-o")))
    assert (known.freeze(OWNER).waiting, len(known.freeze(OWNER).live)) == ((), 1)
    known.pod_changed(Change(("ns", "a"), dataclasses.replace(one, group="podgroup-uid-o"), None))
    assert known.freeze(OWNER).live == ()
