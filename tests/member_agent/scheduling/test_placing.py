"""Laws of placing many equal pods at once: the same as one after the other, each on the best node there is then."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as some

from member_agent.room import UNBOUNDED, Amounts, Columns, Layout, Mask, Room, Scores, Shortage
from policies.shapes import PodShape
from tests.member_agent.test_room import inventory, node, shape


class Free:
    """Scores by free cpu: `slope` above 0 spreads, below 0 packs; `bend` makes it neither."""

    scores_nodes = True

    def __init__(self, *, slope: float, bend: int = 0, most: int = UNBOUNDED) -> None:
        self._slope, self._bend, self._most = slope, bend, most

    def predicate(self, layout: Layout, shape: PodShape) -> Mask:
        return layout.usable

    def limits(self, columns: Columns, shape: PodShape) -> Amounts:
        return np.full(len(columns.rows), self._most, dtype=np.int64)

    def node_order(self, columns: Columns, shape: PodShape) -> Scores:
        free = columns.free[:, 0] / columns.allocatable[:, 0]
        score: Scores = self._slope * free - self._bend * np.abs(free - 0.5)
        return score


def layout_of(room: Room, *, pods: int, together: bool) -> list[int]:
    """Pods by node after placing so many."""
    taken = [0] * len(room.layout.names)
    for count in [pods] if together else [1] * pods:
        for spot in room.place_some(shape(1), count):
            taken[spot.row] += spot.count
    return taken


sizes = some.lists(some.integers(1, 12), min_size=1, max_size=7)


@given(sizes, some.integers(1, 40), some.sampled_from([-1.0, 1.0]))
@settings(deadline=None)
def test_many_at_once_are_placed_as_one_after_the_other(nodes: list[int], pods: int, slope: float) -> None:
    found = inventory([node(f"n{index}", cpu=cpu) for index, cpu in enumerate(nodes)])
    together, alone = (found.room.copy(rules=Free(slope=slope)) for _ in range(2))
    assert layout_of(together, pods=pods, together=True) == layout_of(alone, pods=pods, together=False)


@given(sizes, some.integers(1, 40), some.integers(1, 3))
@settings(deadline=None)
def test_whatever_the_scores_no_node_is_overdrawn_and_no_place_is_left(nodes: list[int], pods: int, bend: int) -> None:
    found = inventory([node(f"n{index}", cpu=cpu) for index, cpu in enumerate(nodes)])
    room = found.room.copy(rules=Free(slope=0.5, bend=bend, most=9))
    taken = layout_of(room, pods=pods, together=True)
    assert all(got <= cpu for got, cpu in zip(taken, nodes, strict=True))
    assert sum(taken) == min(pods, sum(min(cpu, 9) for cpu in nodes))
    assert (room.free[:, 0] >= 0).all()


@given(sizes, some.integers(1, 20), some.integers(1, 20))
@settings(deadline=None)
def test_what_is_known_of_a_shape_is_current_after_others_took_and_gave_back(nodes: list[int], first: int, second: int) -> None:
    found = inventory([node(f"n{index}", cpu=cpu) for index, cpu in enumerate(nodes)])
    room = found.room.copy(rules=Free(slope=1.0))
    small, large = shape(1), shape(2)
    room.capacity(small)
    room.place_some(small, 1)
    taken = room.place([(large, first)])
    room.place_some(small, second)
    if not isinstance(taken, Shortage):
        room.give_back(taken)
    fresh = Room(room.layout, room.free.copy(), room.allocatable, rules=Free(slope=1.0))
    assert layout_of(room, pods=5, together=True) == layout_of(fresh, pods=5, together=True)


def test_spreading_goes_as_deep_as_it_must_on_one_node() -> None:
    found = inventory([node("big", cpu=60), node("small", cpu=2)])
    room = found.room.copy(rules=Free(slope=1.0))
    assert layout_of(room, pods=40, together=True) == [38, 2]


def test_pods_stay_within_the_nodes_they_are_asked_to_stay_in() -> None:
    found = inventory([node(name, cpu=2) for name in "abc"])
    room = found.room.copy()
    within = np.array([False, True, True])
    assert isinstance(room.place([(shape(1), 5)], within=within), Shortage)
    spots = room.place([(shape(1), 4)], within=within)
    assert not isinstance(spots, Shortage)
    assert sorted(room.layout.names[spot.row] for spot in spots) == ["b", "c"]
