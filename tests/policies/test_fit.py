"""Packing a whole gang on what a member has free."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apis.vectors import ResourceVector
from policies.fit import Answer, Room, pack
from policies.shapes import PodShape, Requirement, Taint, Toleration
from tests.policies.build import gang, nodes, shape


def test_two_tasks_compete_for_the_same_node() -> None:
    both = gang(("big", 1, shape("6")), ("small", 3, shape("1")))
    assert pack(Room(nodes((1, "8"))), both).answer is Answer.NO
    assert pack(Room(nodes((1, "9"))), both).answer is Answer.FITS


def test_free_cpus_spread_over_nodes_are_not_a_big_node() -> None:
    packing = pack(Room(nodes((8, "1"))), gang(("big", 1, shape("2"))))
    assert packing.answer is Answer.NO
    assert "short of cpu" in packing.text


def test_the_minimum_fits_where_the_whole_does_not() -> None:
    packing = pack(Room(nodes((1, "4"))), gang(("work", 8, shape("1")), least=4))
    assert packing.answer is Answer.FITS
    assert not packing.whole


def test_a_pod_with_a_host_port_takes_a_node_for_itself() -> None:
    assert pack(Room(nodes((2, "8"))), gang(("web", 3, shape(one_per_node=True)))).answer is Answer.NO
    assert pack(Room(nodes((3, "8"))), gang(("web", 3, shape(one_per_node=True)))).answer is Answer.FITS


def test_what_only_the_member_knows_is_unknown_unless_requests_say_no() -> None:
    spread = shape(unknown="topology spread")
    assert pack(Room(nodes((1, "8"))), gang(("work", 2, spread))).answer is Answer.UNKNOWN
    assert pack(Room(nodes((1, "1"))), gang(("work", 2, spread))).answer is Answer.NO


@pytest.mark.parametrize(
    ("asks", "answer"),
    [
        ({"node_selector": (("disk", "ssd"),)}, Answer.FITS),
        ({"node_selector": (("disk", "hdd"),)}, Answer.NO),
        ({"node_affinity": ((Requirement("disk", "In", ("ssd", "nvme")),),)}, Answer.FITS),
        ({"node_affinity": ((Requirement("disk", "DoesNotExist"),),)}, Answer.NO),
        ({"node_affinity": ((Requirement("gen", "Gt", ("2",)),), (Requirement("gen", "Lt", ("9",)),))}, Answer.FITS),
    ],
)
def test_labels_decide_by_class(asks: dict[str, Any], answer: Answer) -> None:
    rows = nodes((2, "8"), labels={"disk": "ssd", "gen": "3"})
    assert pack(Room(rows), gang(("work", 2, shape(**asks)))).answer is answer


def test_a_taint_keeps_out_who_does_not_tolerate_it() -> None:
    rows = nodes((2, "8"), taints=(Taint("gpu", "yes", "NoSchedule"),))
    assert pack(Room(rows), gang(("work", 1, shape()))).answer is Answer.NO
    tolerant = shape(tolerations=(Toleration("gpu", "Exists"),))
    assert pack(Room(rows), gang(("work", 1, tolerant))).answer is Answer.FITS


def test_a_resource_that_no_node_offers_is_named() -> None:
    shaped = PodShape(ResourceVector.from_quantities({"nvidia.com/gpu": 1, "pods": 1}))
    assert "nvidia.com/gpu" in pack(Room(nodes((1, "8"))), gang(("work", 1, shaped))).text


rows_of = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 12)), min_size=1, max_size=6)
tasks_of = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 8)), min_size=1, max_size=3)


@given(rows_of, tasks_of)
def test_what_is_taken_was_there_and_packing_takes_nothing(rows: list[tuple[int, int]], tasks: list[tuple[int, int]]) -> None:
    room = Room(nodes(*((count, str(cpu)) for count, cpu in rows)))
    before = room.free
    asked = gang(*((f"t{index}", pods, shape(str(cpu))) for index, (pods, cpu) in enumerate(tasks)))
    packing = pack(room, asked)
    assert room.free == before
    room.charge(asked)
    taken = before - room.free
    assert taken <= asked.requests
    assert all(amount >= 0 for amount in room.free.values())
    if packing.answer is Answer.FITS:
        assert taken == asked.requests


@given(rows_of, st.integers(1, 40), st.integers(1, 8))
def test_for_one_shape_the_count_is_exact(rows: list[tuple[int, int]], pods: int, cpu: int) -> None:
    places = sum(count * (free // cpu) for count, free in rows)
    packing = pack(Room(nodes(*((count, str(free)) for count, free in rows))), gang(("work", pods, shape(str(cpu)))))
    assert (packing.answer is Answer.FITS) == (places >= pods)


@given(rows_of, tasks_of, st.integers(1, 8))
def test_more_room_never_makes_a_fit_of_one_shape_worse(
    rows: list[tuple[int, int]], tasks: list[tuple[int, int]], more: int
) -> None:
    asked = gang(("work", tasks[0][0], shape(str(tasks[0][1]))))
    small = pack(Room(nodes(*((count, str(free)) for count, free in rows))), asked)
    large = pack(Room(nodes(*((count, str(free)) for count, free in [*rows, (1, more)]))), asked)
    assert not (small.answer is Answer.FITS and large.answer is Answer.NO)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), max_size=4), st.integers(1, 4), st.booleans())
def test_counting_places_says_what_taking_all_of_them_would(rows: list[tuple[int, int]], cpu: int, alone: bool) -> None:
    room, pod = Room(nodes(*((count, str(free)) for count, free in rows))), shape(str(cpu), one_per_node=alone)
    places = room.places(pod)
    assert places == room.copy().take(pod, pods=10_000) == room.places(pod)
    assert room.places(PodShape(requests=ResourceVector.from_quantities({"cpu": 1, "gpu": 1}))) == 0
