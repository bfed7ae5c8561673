"""Laws of choosing victims."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import given
from hypothesis import strategies as some

from policies.evictions import minimal

Victims = list[tuple[int, int]]
"""Node and size of each candidate, the one that should go first in front."""
victims_strategy = some.lists(some.tuples(some.integers(0, 3), some.integers(1, 5)), max_size=12)


def needs(pods: int, size: int) -> Callable[[Sequence[tuple[int, tuple[int, int]]]], bool]:
    """So many pods of a size, each whole on one node, on nodes that are full."""

    def enough(gone: Sequence[tuple[int, tuple[int, int]]]) -> bool:
        free = [sum(amount for _, (node, amount) in gone if node == each) for each in range(4)]
        return sum(each // size for each in free) >= pods

    return enough


@given(victims_strategy, some.integers(0, 3), some.integers(1, 6))
def test_the_victims_are_enough_and_none_of_them_is_too_many(listed: Victims, pods: int, size: int) -> None:
    candidates, enough = list(enumerate(listed)), needs(pods, size)
    found = minimal(candidates, enough=enough)
    if found is None:
        assert not enough(candidates)
        return
    assert enough(found)
    assert list(found) == sorted(found)
    for one in found:
        assert not enough([each for each in found if each != one])


@given(victims_strategy, some.integers(1, 3), some.integers(1, 6))
def test_who_stands_further_back_goes_only_where_those_in_front_are_not_enough(listed: Victims, pods: int, size: int) -> None:
    candidates, enough = list(enumerate(listed)), needs(pods, size)
    found = minimal(candidates, enough=enough)
    if found:
        assert not enough(candidates[: found[-1][0]])


def test_nobody_goes_where_there_is_room_and_nobody_where_it_would_not_help() -> None:
    assert minimal(["a", "b"], enough=lambda gone: True) == ()
    assert minimal(["a", "b"], enough=lambda gone: False) is None
    assert minimal([], enough=lambda gone: False) is None


def test_a_thousand_candidates_are_asked_about_a_few_dozen_times() -> None:
    asked = 0

    def enough(gone: Sequence[int]) -> bool:
        nonlocal asked
        asked += 1
        return sum(each in (3, 500, 999) for each in gone) == 3

    assert minimal(range(1000), enough=enough) == (3, 500, 999)
    assert asked < 70
