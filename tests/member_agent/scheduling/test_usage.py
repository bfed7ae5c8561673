"""What is kept by deltas is what counting anew would find."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import given
from hypothesis import strategies as some

from machinery.informer import Change
from member_agent.inventory import Inventory
from member_agent.scheduling.usage import NOTHING, Usage
from member_agent.views import GroupView, PodView
from tests.member_agent import test_room
from tests.member_agent.test_room import node, shape

NODES = ("n0", "n1")
GROUPS = ("g", "h", "")

happenings = some.lists(
    some.one_of(
        some.tuples(some.just("pod"), some.integers(0, 5), some.sampled_from(NODES), some.sampled_from(GROUPS)),
        some.tuples(some.just("end"), some.integers(0, 5)),
        some.tuples(some.just("gone"), some.integers(0, 5)),
        some.tuples(some.just("group"), some.sampled_from(("g", "h")), some.sampled_from(("q", "r", None))),
    ),
    max_size=30,
)


def pod(number: int, on: str, group: str) -> PodView:
    made = test_room.pod(f"p{number}", shape(1 + number % 3), group=group, on=on)
    return dataclasses.replace(made, task="work")


class Told:
    """Feeds the books, and keeps the plain truth beside them."""

    def __init__(self) -> None:
        self.inventory, self.usage = Inventory(), Usage()
        self.inventory.listen(self.usage)
        self.pods: dict[int, PodView] = {}
        self.groups: dict[str, GroupView] = {}
        for name in NODES:
            self.inventory.node_changed(Change(("", name), None, node(name, cpu=64)))
        _ = self.inventory.room

    def tell(self, happening: tuple[object, ...]) -> None:
        match happening:
            case ("pod", int(number), str(on), str(group)) if number not in self.pods:
                self._pod(number, pod(number, on, group))
            case ("end", int(number)) if number in self.pods:
                self._pod(number, dataclasses.replace(self.pods[number], phase="Succeeded"))
            case ("gone", int(number)) if number in self.pods:
                self._pod(number, None)
            case ("group", str(name), str(queue)):
                self._group(name, dataclasses.replace(test_room.group(name, 1), queue=queue))
            case ("group", str(name), None):
                self._group(name, None)

    def _pod(self, number: int, new: PodView | None) -> None:
        old = self.pods.pop(number, None)
        self.inventory.pod_changed(Change(("ns", f"p{number}"), old, new))
        if new is not None:
            self.pods[number] = new

    def _group(self, name: str, new: GroupView | None) -> None:
        self.usage.group_changed(Change(("ns", name), self.groups.pop(name, None), new))
        if new is not None:
            self.groups[name] = new

    def cpu(self, *, queue: str = "", group: str = "", on: str = "") -> int:
        """Counted anew: what pods in gangs hold."""
        found = 0
        for each in self.pods.values():
            known = self.groups.get(each.group)
            if each.ended or not each.group or (queue and (known is None or known.queue != queue)):
                continue
            if each.group == (group or each.group) and each.node == (on or each.node):
                found += each.shape.requests.get("cpu")
        return found


@given(happenings)
def test_gangs_queues_and_nodes_are_kept_as_they_are(told: list[tuple[object, ...]]) -> None:
    kept = Told()
    for happening in told:
        kept.tell(happening)
    queues = kept.usage.of_queues()
    for queue in ("q", "r"):
        assert queues.get(queue, NOTHING).get("cpu", 0) == kept.cpu(queue=queue)
        assert kept.usage.of_namespace(queue, "ns") == queues.get(queue, NOTHING)
    for group in ("g", "h"):
        assert kept.usage.of_gang(("ns", group)).get("cpu", 0) == kept.cpu(group=group)
    room = kept.inventory.room
    assert room.ending is not None
    for row, name in enumerate(room.layout.names):
        assert room.ending[row, room.layout.columns["cpu"]] == kept.cpu(on=name)
    again = Inventory()
    for name in NODES:
        again.node_changed(Change(("", name), None, node(name, cpu=64)))
    for each in kept.pods.values():
        again.pod_changed(Change((each.namespace, each.name), None, each))
    assert again.room.ending is not None
    assert np.array_equal(again.room.ending, room.ending)
    assert np.array_equal(again.room.free, room.free)
