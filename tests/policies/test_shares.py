"""Laws and examples of shares: water-filling, the tree of queues, dominant shares over a hierarchy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from apis.vectors import ResourceVector, total
from policies.shares import Claim, Leaf, QueueShare, beyond, dominant, fill, hierarchical, limits, lineage, share


def vector(**amounts: int) -> ResourceVector:
    return ResourceVector(amounts)


# --- water-filling ---------------------------------------------------------------------------------------------------

amounts = some.integers(0, 60)
claims_strategy = some.lists(
    some.builds(
        lambda weight, request, guarantee, ceiling: (weight, request, guarantee, ceiling),
        some.integers(1, 5),
        some.tuples(amounts, amounts),
        some.tuples(some.integers(0, 15), some.integers(0, 15)),
        some.none() | some.integers(1, 60),
    ),
    min_size=1,
    max_size=6,
)
Described = list[tuple[int, tuple[int, int], tuple[int, int], int | None]]


def claims_of(described: Described) -> list[Claim]:
    return [
        Claim(
            f"q{index}",
            weight,
            vector(cpu=request[0], gpu=request[1]),
            vector(cpu=guarantee[0], gpu=guarantee[1]),
            None if ceiling is None else vector(cpu=ceiling),
        )
        for index, (weight, request, guarantee, ceiling) in enumerate(described)
    ]


def bounds(claim: Claim, resource: str) -> tuple[int, int]:
    ceiling = claim.capability.get(resource, 10**9) if claim.capability is not None else 10**9
    low = min(claim.guarantee.get(resource), ceiling)
    return low, max(min(claim.request.get(resource), ceiling), low)


TOTAL = vector(cpu=100, gpu=40)


@given(claims_strategy)
def test_sums_never_exceed_what_there_is_and_nothing_useful_is_left(described: Described) -> None:
    claims = claims_of(described)
    found = fill(TOTAL, claims)
    given_out = total(found.values())
    assert given_out <= TOTAL
    for resource, available in TOTAL.items():
        wanted = sum(bounds(claim, resource)[1] for claim in claims)
        assert given_out.get(resource) >= min(wanted, available) - len(claims)


@given(claims_strategy)
def test_guarantees_are_nobody_elses_and_ceilings_hold(described: Described) -> None:
    claims = claims_of(described)
    found = fill(TOTAL, claims)
    for resource, available in TOTAL.items():
        fits = sum(bounds(claim, resource)[0] for claim in claims) <= available
        for claim in claims:
            low, high = bounds(claim, resource)
            assert found[claim.name].get(resource) <= high
            if fits:
                assert found[claim.name].get(resource) >= low


@given(claims_strategy)
def test_it_is_max_min_fair(described: Described) -> None:
    """Who could use more has as much by weight as anybody who is above their guarantee; a unit of rounding apart."""
    claims = claims_of(described)
    found = fill(TOTAL, claims)
    for resource in TOTAL:
        for poor in claims:
            if found[poor.name].get(resource) >= bounds(poor, resource)[1]:
                continue
            for rich in claims:
                if found[rich.name].get(resource) > bounds(rich, resource)[0]:
                    level = found[rich.name].get(resource) / rich.weight
                    assert (found[poor.name].get(resource) + 1) / poor.weight >= level


@given(claims_strategy, some.randoms(use_true_random=False))
def test_the_order_of_claims_is_nothing(described: Described, chance: object) -> None:
    claims = claims_of(described)
    mixed = list(claims)
    chance.shuffle(mixed)  # type: ignore[attr-defined]
    assert fill(TOTAL, claims) == fill(TOTAL, mixed)


def test_three_tenants_share_by_weight_and_what_one_leaves_goes_to_the_others() -> None:
    claims = [Claim("a", 1, vector(cpu=100)), Claim("b", 2, vector(cpu=100)), Claim("c", 1, vector(cpu=10))]
    assert fill(vector(cpu=100), claims) == {"a": vector(cpu=30), "b": vector(cpu=60), "c": vector(cpu=10)}


def test_a_guarantee_is_kept_for_a_queue_that_asks_for_nothing() -> None:
    claims = [Claim("idle", 1, vector(), vector(cpu=40)), Claim("busy", 9, vector(cpu=500))]
    assert fill(vector(cpu=100), claims) == {"idle": vector(cpu=40), "busy": vector(cpu=60)}


def test_guarantees_beyond_the_cluster_shrink_in_proportion() -> None:
    claims = [Claim("a", 1, vector(), vector(cpu=300)), Claim("b", 1, vector(), vector(cpu=100))]
    assert fill(vector(cpu=100), claims) == {"a": vector(cpu=75), "b": vector(cpu=25)}


def test_no_cluster_no_claims() -> None:
    assert fill(vector(), [Claim("a", 1, vector(cpu=1))]) == {"a": vector()}
    assert fill(vector(cpu=1), []) == {}


# --- the tree --------------------------------------------------------------------------------------------------------

tree_strategy = some.lists(
    some.tuples(some.integers(-1, 7), some.integers(0, 20), some.integers(0, 60), some.none() | some.integers(1, 80)),
    min_size=1,
    max_size=8,
)


def queues_of(described: list[tuple[int, int, int, int | None]]) -> dict[str, QueueShare]:
    found = {}
    for index, (parent, guarantee, deserved, ceiling) in enumerate(described):
        name = f"q{index}"
        above = "root" if parent < 0 else f"q{parent}"
        capability = vector() if ceiling is None else vector(cpu=ceiling)
        found[name] = QueueShare(name, above, 1, vector(cpu=guarantee), vector(cpu=deserved), capability)
    return found


@given(tree_strategy)
def test_limits_in_any_tree_even_a_broken_one(described: list[tuple[int, int, int, int | None]]) -> None:
    queues = queues_of(described)
    found = limits(vector(cpu=100), queues)
    assert found.keys() == queues.keys() | {"root"}
    for name, queue in queues.items():
        mine, above = found[name], found[lineage(name, queues)[1]]
        assert mine.guarantee <= mine.deserved <= mine.most <= above.most
        assert mine.most.get("cpu") <= queue.capability.get("cpu", 100)
        for other in queues:
            siblings = other != name and lineage(other, queues)[1:] == lineage(name, queues)[1:]
            if siblings and sum(each.guarantee.get("cpu") for each in queues.values()) <= above.most.get("cpu"):
                assert mine.most.get("cpu") + queues[other].guarantee.get("cpu") <= above.most.get("cpu")


def test_a_siblings_guarantee_and_every_ceiling_above_bound_a_queue() -> None:
    queues = {
        "q1": QueueShare("q1", capability=vector(cpu=60)),
        "q11": QueueShare("q11", parent="q1", guarantee=vector(cpu=20)),
        "q12": QueueShare("q12", parent="q1", deserved=vector(cpu=90)),
        "q2": QueueShare("q2", guarantee=vector(cpu=50)),
    }
    found = limits(vector(cpu=100, gpu=8), queues)
    assert found["q1"].most == vector(cpu=50, gpu=8)
    assert found["q1"].guarantee == vector(cpu=20)
    assert found["q12"].most == vector(cpu=30, gpu=8)
    assert found["q12"].deserved == vector(cpu=30)
    assert found["q11"].most == vector(cpu=50, gpu=8)
    assert found["q2"].most == vector(cpu=80, gpu=8)


def test_loops_and_missing_parents_hang_from_the_root() -> None:
    queues = {
        "a": QueueShare("a", parent="b"),
        "b": QueueShare("b", parent="a"),
        "c": QueueShare("c", parent="a"),
        "d": QueueShare("d", parent="gone"),
        "e": QueueShare("e", parent="e"),
    }
    paths = {name: lineage(name, queues) for name in queues}
    assert paths == {
        "a": ("a", "root"),
        "b": ("b", "root"),
        "c": ("c", "a", "root"),
        "d": ("d", "root"),
        "e": ("e", "root"),
    }
    assert lineage("unknown", queues) == ("unknown", "root")


def test_a_very_deep_tree_is_no_trouble() -> None:
    queues = {f"q{index}": QueueShare(f"q{index}", parent=f"q{index - 1}" if index else "root") for index in range(1500)}
    assert limits(vector(cpu=7), queues)["q1499"].most == vector(cpu=7)


@pytest.mark.parametrize(
    ("held", "deserved", "expected"),
    [
        ({"cpu": 5}, {"cpu": 10}, 0.5),
        ({"cpu": 5, "gpu": 3}, {"cpu": 10, "gpu": 4}, 0.75),
        ({"cpu": 5}, {}, 1.0),
        ({"cpu": 15}, {"cpu": 10}, 1.5),
        ({"cpu": 0}, {}, 0.0),
        ({"cpu": 5, "memory": 9}, {"cpu": 10}, 0.5),
    ],
)
def test_share_of_what_is_deserved(held: dict[str, int], deserved: dict[str, int], expected: float) -> None:
    assert share(held, deserved) == expected


# --- dominant shares -------------------------------------------------------------------------------------------------


def test_the_dominant_share_is_the_largest_of_any_resource() -> None:
    assert dominant({"cpu": 10, "gpu": 4}, {"cpu": 100, "gpu": 8}) == 0.5
    assert dominant({"cpu": 10, "fpga": 1}, {"cpu": 100}) == 1.0
    assert dominant({}, {"cpu": 100}) == 0.0


def leaf(path: str, weights: str, *, blocked: bool = False, **held: int) -> Leaf:
    return Leaf(tuple(path.split("/")), tuple(int(weight) for weight in weights.split("/")), held, blocked)


def served(*leaves: Leaf, **available: int) -> list[str]:
    """Paths, who is to be served next first."""
    keys = hierarchical(leaves, available=available)
    return ["/".join(each) for each in sorted(keys, key=lambda path: (keys[path], path))]


def test_groups_share_by_weight_before_their_members_do() -> None:
    listed = [
        leaf("eng/dev", "50/50", cpu=30),
        leaf("eng/prod", "50/50", cpu=0),
        leaf("sci", "100", cpu=50),
    ]
    assert served(*listed, cpu=100) == ["sci", "eng/prod", "eng/dev"]


def test_a_group_whose_members_use_different_resources_is_not_taken_for_poor() -> None:
    """The example of the paper's section on naive H-DRF: one member is rich in cpu and wants no more of anything else."""
    listed = [
        leaf("n1", "1", cpu=20, gpu=0),
        leaf("n2/a", "1/1", cpu=80, gpu=0, blocked=True),
        leaf("n2/b", "1/1", cpu=0, gpu=10),
    ]
    keys = hierarchical(listed, available={"cpu": 100, "gpu": 100})
    assert keys[("n2", "b")][0] == (False, 0.8)
    assert served(*listed, cpu=100, gpu=100)[0] == "n1"


def test_members_that_want_more_are_scaled_to_the_least_of_them() -> None:
    listed = [leaf("n/a", "1/1", cpu=60), leaf("n/b", "1/1", gpu=20)]
    keys = hierarchical(listed, available={"cpu": 100, "gpu": 100})
    blocked, held = keys[("n", "a")][0]
    assert not blocked
    assert held == pytest.approx(0.2)


def test_who_can_take_nothing_more_comes_last() -> None:
    listed = [leaf("a", "1", cpu=1, blocked=True), leaf("b", "1", cpu=90)]
    assert served(*listed, cpu=100) == ["b", "a"]


def test_a_path_of_thousands_of_steps_is_no_trouble() -> None:
    deep = "/".join(str(index) for index in range(3000))
    assert len(hierarchical([leaf(deep, "/".join(["1"] * 3000), cpu=1)], available={"cpu": 10})[tuple(deep.split("/"))]) == 3000


# --- promises --------------------------------------------------------------------------------------------------------


def test_promises_go_a_little_beyond_what_is_free_in_the_resources_asked_for() -> None:
    cluster = {"cpu": 100, "memory": 10}
    state = {"promised": {"cpu": 10}, "used": {"cpu": 60, "memory": 10}}
    assert beyond(vector(cpu=50), available=cluster, factor=1.2, **state) == vector()
    assert beyond(vector(cpu=51), available=cluster, factor=1.2, **state) == vector(cpu=1)
    assert beyond(vector(cpu=31), available=cluster, factor=1.0, **state) == vector(cpu=1)
    assert beyond(vector(gpu=1), available=cluster, factor=9.0, **state) == vector(gpu=1)
    assert beyond(vector(memory=3), available=cluster, factor=1.2, **state) == vector(memory=1)


def test_a_cluster_that_is_overdrawn_owes_nobody() -> None:
    assert beyond(vector(cpu=5), promised={}, used={"cpu": 900}, available={"cpu": 100}, factor=1.0) == vector(cpu=5)


def test_what_is_capped_at_nothing_is_not_to_be_had() -> None:
    assert fill(vector(cpu=4), [Claim("a", 1, vector(cpu=2), vector(cpu=1), {"cpu": 0})]) == {"a": vector()}
