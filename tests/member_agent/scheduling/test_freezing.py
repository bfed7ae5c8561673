"""Laws of a snapshot: what is kept from round to round is what counting anew finds."""

from __future__ import annotations

import dataclasses

from hypothesis import given, settings
from hypothesis import strategies as some

from machinery.informer import Change, Key
from member_agent.inventory import Inventory
from member_agent.scheduling.snapshot import Gangs, Snapshot, Tally, Waiting
from member_agent.views import PodView
from tests.member_agent.scheduling.build import gang, queue
from tests.member_agent.test_room import inventory, node

GROUPS = {("ns", name): gang(name, pods=3).group for name in ("g0", "g1")}


class Member:
    """A cluster with two gangs whose pods come and go."""

    def __init__(self) -> None:
        self.inventory: Inventory = inventory([node("a", cpu=64), node("b", cpu=64)])
        self.gangs = Gangs(self.inventory, scheduler="volcano")
        self.pods: dict[Key, PodView] = {}
        self.assumed: dict[str, tuple[PodView, str]] = {}
        for key, group in GROUPS.items():
            self.gangs.group_changed(Change(key, None, group))

    def put(self, pod: PodView | None, *, key: Key) -> None:
        change = Change(key, self.pods.get(key), pod)
        if change.old is None and change.new is None:
            return
        self.inventory.pod_changed(change)
        self.gangs.pod_changed(change)
        if pod is None:
            self.assumed.pop(self.pods.pop(key).uid, None)
            return
        self.pods[key] = pod
        if pod.node or pod.ended:
            self.assumed.pop(pod.uid, None)

    def act(self, what: str, which: int) -> None:
        name, at = f"g{which % 2}", which // 2
        fresh = gang(name, pods=3).pods[at]
        key = (fresh.namespace, fresh.name)
        there = self.pods.get(key)
        match what:
            case "comes":
                self.put(there or fresh, key=key)
            case "goes":
                self.put(None, key=key)
            case "is assumed" if there is not None and not there.node and not there.ended:
                self.inventory.assume(there, node="a")
                self.assumed[there.uid] = (there, "a")
            case "is refused" if there is not None:
                self.inventory.forget(there.uid)
                self.assumed.pop(there.uid, None)
            case "is bound" if there is not None:
                self.put(dataclasses.replace(there, node="b", phase="Running"), key=key)
            case "ends" if there is not None:
                self.put(dataclasses.replace(there, phase="Succeeded"), key=key)
            case "is deleted" if there is not None:
                self.put(dataclasses.replace(there, deleting=True), key=key)

    def counted_anew(self) -> Member:
        other = Member()
        for key, pod in self.pods.items():
            other.put(pod, key=key)
        for pod, where in self.assumed.values():
            other.inventory.assume(pod, node=where)
        return other

    def freeze(self) -> Snapshot:
        return self.gangs.freeze(
            groups=GROUPS.get,
            pending=GROUPS,
            priority=lambda name: int(name or 0),
            queues={"default": queue("default")},
            held_back=lambda pod: pod.name.endswith("-2"),
        )


def told(frozen: Snapshot) -> tuple[list[Waiting], list[str], dict[Key, Tally]]:
    return list(frozen.waiting), [group.name for group in frozen.expected], {each.key: each.tally for each in frozen.waiting}


events = ["comes", "goes", "is assumed", "is refused", "is bound", "ends", "is deleted"]


@given(some.lists(some.tuples(some.sampled_from(["comes", "comes", *events]), some.integers(0, 5)), max_size=25))
@settings(deadline=None, max_examples=40)
def test_a_snapshot_after_any_events_is_the_snapshot_of_a_scheduler_that_sees_their_outcome_only(
    happened: list[tuple[str, int]],
) -> None:
    member = Member()
    for what, which in happened:
        member.act(what, which)
        found, anew = member.freeze(), member.counted_anew()
        assert told(found) == told(anew.freeze())
        assert [member.gangs.tally(key) for key in GROUPS] == [anew.gangs.tally(key) for key in GROUPS]


def test_a_gang_of_which_nothing_changed_is_not_sorted_and_counted_again() -> None:
    member = Member()
    for which in range(6):
        member.act("comes", which)
    first = {each.key: each for each in member.freeze().waiting}
    member.act("is bound", 1)
    again = {each.key: each for each in member.freeze().waiting}
    assert again["ns", "g0"].tally is first["ns", "g0"].tally
    assert again["ns", "g1"].tally != first["ns", "g1"].tally
