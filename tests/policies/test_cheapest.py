"""The search for the cheapest change: what it names starts, and nothing cheaper does."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hypothesis import given
from hypothesis import strategies as some

from policies.cheapest import Changes, Search, cost_of
from policies.relaxing import Change, Kind, Ladder

Starts = Callable[[Changes], bool]
KINDS = tuple(Kind)


def searched(ladders: tuple[Ladder, ...], starts: Starts, *, most: int = 10_000) -> Search:
    """A search to its end."""
    search = Search(ladders, most=most)
    while (asked := search.next()) is not None:
        search.tell(starts(asked), why="no room")
    return search


def steps(kind: Kind, *costs: int) -> Ladder:
    return tuple(Change(kind, cost, count=len(costs) - at) for at, cost in enumerate(costs))


def test_the_cheapest_of_several_that_would_do_is_found() -> None:
    ladders = (steps(Kind.QUEUE, 10), steps(Kind.REPLICAS, 50, 60, 70), steps(Kind.PROFILE, 5))
    search = searched(ladders, lambda changes: changes[0].kind is not Kind.PROFILE)
    assert search.found is not None
    assert [each.kind for each in search.found.changes] == [Kind.QUEUE]
    assert [(each.changes[0].kind, each.starts) for each in search.tried] == [(Kind.PROFILE, False), (Kind.QUEUE, True)]


def test_of_less_and_less_work_the_most_that_starts_is_found() -> None:
    ladder = steps(Kind.REPLICAS, *range(100, 1099))
    search = searched((ladder,), lambda changes: changes[0].count <= 700)
    assert search.found is not None
    assert (search.found.changes[0].count, len(search.tried) <= 12) == (700, True)


def test_two_changes_together_are_found_where_none_does_alone() -> None:
    ladders = (steps(Kind.TOLERATE_CLUSTER, 25), steps(Kind.REPLICAS, 50, 60, 70, 80))

    def starts(changes: Changes) -> bool:
        made = {each.kind: each for each in changes}
        return Kind.TOLERATE_CLUSTER in made and Kind.REPLICAS in made and made[Kind.REPLICAS].count <= 2

    found = searched(ladders, starts).found
    assert found is not None
    assert (found.cost, [each.kind for each in found.changes]) == (25 + 70, [Kind.TOLERATE_CLUSTER, Kind.REPLICAS])


def test_a_search_that_takes_too_long_says_so() -> None:
    search = searched((steps(Kind.REPLICAS, *range(1, 500)), steps(Kind.QUEUE, 9999)), lambda changes: False, most=1)
    assert (search.found, search.exhausted, len(search.tried)) == (None, True, 1)


def test_many_cheap_pairs_do_not_keep_a_single_change_from_being_tried() -> None:
    cheap = tuple((Change(Kind.TOLERATE_NODE, 10 + at, to=f"taint-{at}:NoSchedule"),) for at in range(20))
    search = searched((*cheap, steps(Kind.ANY_CLUSTER, 100)), lambda changes: changes[-1].kind is Kind.ANY_CLUSTER, most=30)
    assert search.found is not None
    assert [each.kind for each in search.found.changes] == [Kind.ANY_CLUSTER]
    assert search.exhausted  # pairs that are cheaper were left


def test_nothing_is_found_where_nothing_helps() -> None:
    search = searched((steps(Kind.QUEUE, 10), steps(Kind.PROFILE, 5)), lambda changes: False)
    assert (search.found, search.exhausted) == (None, False)
    assert len(search.tried) == 3
    assert {each.why for each in search.tried} == {"no room"}


@some.composite
def worlds(draw: some.DrawFn) -> tuple[tuple[Ladder, ...], Mapping[Kind, int], frozenset[frozenset[Kind]]]:
    """Ladders, the rung of each from which it helps, and which sets of kinds start the Job when all in them help."""
    kinds = draw(some.lists(some.sampled_from(KINDS), min_size=1, max_size=5, unique=True))
    ladders = []
    for kind in kinds:
        first = draw(some.integers(1, 60))
        more = draw(some.lists(some.integers(1, 9), max_size=6))
        costs = [first]
        for each in more:
            costs.append(costs[-1] + each)
        ladders.append(tuple(Change(kind, cost, count=at) for at, cost in enumerate(costs)))
    helps = {ladder[0].kind: draw(some.integers(0, len(ladder))) for ladder in ladders}
    enough = draw(some.frozensets(some.frozensets(some.sampled_from(kinds), min_size=1, max_size=2), max_size=4))
    return tuple(ladders), helps, enough


def brute(ladders: tuple[Ladder, ...], starts: Starts) -> int | None:
    """The least cost of all singles, and of all pairs with at most one long ladder."""
    everything: list[Changes] = [(rung,) for ladder in ladders for rung in ladder]
    for at, one in enumerate(ladders):
        for other in ladders[at + 1 :]:
            if min(len(one), len(other)) == 1:
                everything += [(a, b) for a in one for b in other]
    return min((cost_of(changes) for changes in everything if starts(changes)), default=None)


@given(worlds())
def test_what_is_named_starts_nothing_cheaper_that_was_tried_does_and_no_cheaper_one_exists(
    world: tuple[tuple[Ladder, ...], Mapping[Kind, int], frozenset[frozenset[Kind]]],
) -> None:
    ladders, helps, enough = world

    def starts(changes: Changes) -> bool:
        working = {each.kind for each in changes if each.count >= helps[each.kind]}
        return any(wanted <= working for wanted in enough)

    search = searched(ladders, starts)
    assert (search.found.cost if search.found else None) == brute(ladders, starts)
    if search.found is not None:
        assert starts(search.found.changes)
        assert not any(each.starts for each in search.tried if each.cost < search.found.cost)


@given(worlds())
def test_the_same_questions_are_asked_in_the_same_order(
    world: tuple[tuple[Ladder, ...], Mapping[Kind, int], frozenset[frozenset[Kind]]],
) -> None:
    ladders, helps, enough = world

    def starts(changes: Changes) -> bool:
        return any(wanted <= {each.kind for each in changes if each.count >= helps[each.kind]} for wanted in enough)

    one, other = searched(ladders, starts), searched(ladders, starts)
    assert one.tried == other.tried
