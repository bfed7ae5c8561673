"""Resource vectors: reading, writing, and the laws of adding and fitting."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apis.quantities import InvalidQuantity
from apis.vectors import EMPTY, ResourceVector, spoken, total

names = st.sampled_from(["cpu", "memory", "pods", "nvidia.com/gpu", "hugepages-2Mi"])
vectors = st.dictionaries(names, st.integers(-50, 50)).map(ResourceVector)
requests = st.dictionaries(names, st.integers(0, 50)).map(ResourceVector)


def test_a_resource_list_is_read_in_milli_units_and_written_canonically() -> None:
    vector = ResourceVector.from_quantities({"memory": "1.5Gi", "cpu": "250m", "pods": 3, "nvidia.com/gpu": "0"})
    assert dict(vector) == {"cpu": 250, "memory": 1536 * 1024**2 * 1000, "pods": 3000}
    assert vector.to_quantities() == {"cpu": "250m", "memory": "1536Mi", "pods": "3"}
    assert str(vector) == "cpu 250m, memory 1536Mi, pods 3"
    assert str(EMPTY) == "nothing"


@pytest.mark.parametrize(
    ("name", "milli", "text"),
    [
        ("example.com/gpu", 97_600, "97.6"),
        ("example.com/gpu", 96_000, "96"),
        ("cpu", 97_600, "97.6"),
        ("cpu", 250, "250m"),
        ("requests.cpu", 500, "500m"),
        ("cpu", -1_500, "-1.5"),
        ("cpu", 0, "0"),
        ("pods", 333_333, "333.333"),
        ("memory", (1 << 30) * 1000, "1Gi"),
        ("memory", 1536 * (1 << 20) * 1000, "1536Mi"),
        ("memory", 10_307_921_510_400, "9.6Gi"),
        ("memory", 10_307_921_510_123, "9.6Gi"),
        ("memory", 999_000, "999"),
        ("memory", -1_572_864_500, "-1.5Mi"),
    ],
)
def test_people_read_plain_numbers(name: str, milli: int, text: str) -> None:
    assert spoken(name, milli=milli) == text


def test_a_malformed_amount_names_the_resource_and_the_text() -> None:
    with pytest.raises(InvalidQuantity, match=r"'4Gx' is no amount of memory"):
        ResourceVector.from_quantities({"cpu": 1, "memory": "4Gx"})


def test_nothing_is_an_empty_vector() -> None:
    assert ResourceVector.from_quantities(None) == EMPTY == ResourceVector({"cpu": 0})
    assert EMPTY.get("cpu") == 0
    assert repr(ResourceVector({"cpu": 1})) == "ResourceVector({'cpu': 1})"


def test_iteration_is_by_name_whatever_the_order_of_arrival() -> None:
    assert list(ResourceVector({"pods": 1, "cpu": 2})) == list(ResourceVector({"cpu": 2, "pods": 1})) == ["cpu", "pods"]


def test_a_vector_is_not_a_dict() -> None:
    assert ResourceVector({"cpu": 1}) != {"cpu": 1}


def test_fitting_is_refused_for_a_resource_the_room_does_not_name() -> None:
    assert not ResourceVector({"cpu": 1, "fpga": 1}) <= ResourceVector({"cpu": 5})
    assert ResourceVector({"cpu": 5}) >= ResourceVector({"cpu": 1})


def test_what_lacks_is_said() -> None:
    assert ResourceVector({"cpu": 5, "pods": 1}).shortfall(ResourceVector({"cpu": 2, "pods": 4})) == ResourceVector({"cpu": 3})


def test_a_request_for_nothing_fits_as_often_as_asked() -> None:
    assert EMPTY.copies_within(EMPTY, limit=7) == 7
    assert ResourceVector({"cpu": 3}).copies_within(ResourceVector({"cpu": 10}), limit=9) == 3
    assert ResourceVector({"cpu": 3}).copies_within(ResourceVector({"cpu": -10}), limit=9) == 0


@given(vectors, vectors, vectors)
def test_law_addition(a: ResourceVector, b: ResourceVector, c: ResourceVector) -> None:
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert a + EMPTY == a
    assert (a + b) - b == a
    assert a + -a == EMPTY
    assert total([a, b, c]) == a + b + c
    assert hash(a + b) == hash(b + a)


@given(vectors, vectors, vectors)
def test_law_fitting_is_a_partial_order_that_addition_keeps(a: ResourceVector, b: ResourceVector, c: ResourceVector) -> None:
    assert a <= a
    if a <= b and b <= a:
        assert a == b
    if a <= b and b <= c:
        assert a <= c
    assert (a <= b) == (a + c <= b + c)
    assert (a <= b) == (a.shortfall(b) == EMPTY)


@given(vectors, vectors, st.integers(-5, 5), st.integers(-5, 5))
def test_law_scaling_distributes(a: ResourceVector, b: ResourceVector, m: int, n: int) -> None:
    assert (a + b) * n == a * n + b * n
    assert a * (m + n) == a * m + a * n
    assert a * m * n == a * (m * n) == m * n * a
    assert a * 0 == EMPTY


@given(vectors, vectors, vectors)
def test_law_bounds(a: ResourceVector, b: ResourceVector, c: ResourceVector) -> None:
    assert a <= a.at_least(b) >= b
    assert a >= a.at_most(b) <= b
    if a <= c and b <= c:
        assert a.at_least(b) <= c
    assert a.positive() >= a


@given(requests, requests)
def test_law_copies_are_the_most_that_fit(request: ResourceVector, room: ResourceVector) -> None:
    copies = request.copies_within(room, limit=1000)
    assert request * copies <= room
    if copies < 1000:
        assert not request * (copies + 1) <= room


@given(st.dictionaries(names, st.integers(0, 10**15)).map(ResourceVector))
def test_law_writing_and_reading_is_the_identity(vector: ResourceVector) -> None:
    assert ResourceVector.from_quantities(vector.to_quantities()) == vector
