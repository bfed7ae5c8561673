"""What a member publishes and what it accepts are one truth: for all states, by hypothesis."""

from __future__ import annotations

import dataclasses

from hypothesis import given, settings
from hypothesis import strategies as some

from apis.capacity import CapacityStatus
from apis.vectors import ResourceVector
from machinery.informer import Change
from member_agent.inventory import Inventory
from member_agent.ledger import Ledger
from member_agent.reporting import capacity, nodes
from policies import fit
from policies.capacities import rows_of
from policies.fit import Answer
from policies.shapes import Gang, PodShape, Task
from tests.member_agent.test_room import node, pod, shape

GIB = 1 << 30
CARD = "nvidia.com/gpu"

sizes = some.lists(some.tuples(some.integers(1, 9), some.integers(1, 9)), min_size=1, max_size=5)
loads = some.lists(some.tuples(some.integers(0, 4), some.integers(1, 5), some.integers(1, 5)), max_size=6)
gangs = some.tuples(some.integers(1, 6), some.integers(1, 5), some.integers(1, 5))


def place(machines: list[tuple[int, int]], held: list[tuple[int, int, int]]) -> tuple[Inventory, Ledger]:
    inventory = Inventory()
    ledger = Ledger(inventory)
    for index, (cpu, memory) in enumerate(machines):
        one = node(f"n{index}", cpu=cpu, memory=memory * GIB)
        inventory.node_changed(Change(("", one.name), None, one))
    for index, (at, cpu, memory) in enumerate(held):
        busy = pod(f"p{index}", shape(cpu, memory=memory * GIB), on=f"n{at % len(machines)}")
        inventory.pod_changed(Change(("ns", busy.name), None, busy))
    return inventory, ledger


def gang(pods: int, cpu: int, memory: int) -> Gang:
    return Gang((Task("work", pods, pods, shape(cpu, memory=memory * GIB)),), pods)


def published(inventory: Inventory, ledger: Ledger) -> CapacityStatus:
    room = inventory.room
    look = capacity.Look(
        room=room,
        left=ledger.shadow().free,
        sorts=nodes.sort(room, label_keys=()),
        queues=(),
        admitted={},
        waiting=(),
        orphans=(),
        through="1",
    )
    return capacity.status(look, generation=1, now="now")


def answer(status: CapacityStatus, asked: Gang) -> Answer:
    return fit.pack(fit.Room(rows_of(status.nodes)), asked).answer


@settings(max_examples=60, deadline=None)
@given(sizes, loads, some.lists(gangs, min_size=1, max_size=4))
def test_what_the_rows_call_fits_is_accepted_and_is_no_room_for_the_next(
    machines: list[tuple[int, int]], held: list[tuple[int, int, int]], asked: list[tuple[int, int, int]]
) -> None:
    inventory, ledger = place(machines, held)
    for index, each in enumerate(asked):
        wanted = gang(*each)
        if answer(published(inventory, ledger), wanted) is Answer.FITS:
            assert ledger.accept(f"work-{index}", wanted) is None


@settings(max_examples=60, deadline=None)
@given(sizes, gangs)
def test_on_idle_nodes_the_rows_say_exactly_what_the_member_would(
    machines: list[tuple[int, int]], asked: tuple[int, int, int]
) -> None:
    inventory, ledger = place(machines, [])
    wanted = gang(*asked)
    assert (answer(published(inventory, ledger), wanted) is Answer.FITS) == (ledger.accept("work", wanted) is None)


def card() -> PodShape:
    return PodShape(ResourceVector({"cpu": 100, CARD: 1000, "pods": 1000}))


@settings(max_examples=40, deadline=None)
@given(some.lists(some.tuples(some.integers(1, 8), some.integers(0, 8)), min_size=1, max_size=5), some.integers(1, 12))
def test_counted_things_are_exact_on_busy_nodes_too(machines: list[tuple[int, int]], wanted: int) -> None:
    """Accelerators, whatever else is in use beside them."""
    inventory = Inventory()
    ledger = Ledger(inventory)
    for index, (cards, used) in enumerate(machines):
        one = node(f"n{index}", cpu=64)
        have = ResourceVector({**one.allocatable, CARD: cards * 1000})
        inventory.node_changed(Change(("", one.name), None, dataclasses.replace(one, allocatable=have)))
        for number in range(min(used, cards)):
            busy = pod(f"p{index}-{number}", card(), on=one.name)
            inventory.pod_changed(Change(("ns", busy.name), None, busy))
    asked = Gang((Task("work", wanted, wanted, card()),), wanted)
    assert (answer(published(inventory, ledger), asked) is Answer.FITS) == (ledger.accept("work", asked) is None)
