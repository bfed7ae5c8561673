"""Quantities: what Kubernetes reads and writes, and the laws of exact amounts."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apis.quantities import LIMIT, NANO, Format, InvalidQuantity, Quantity, is_quantity, parse

SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{suffix: Fraction(1000) ** (i + 1) for i, suffix in enumerate("kMGTPE")},
    **{suffix + "i": Fraction(1024) ** (i + 1) for i, suffix in enumerate("KMGTPE")},
    **{f"{e}{n}": Fraction(10) ** n for e in "eE" for n in range(-9, 10)},
}

texts = st.builds(
    lambda sign, whole, part, suffix: (sign, whole, part, suffix),
    st.sampled_from(["", "+", "-"]),
    st.integers(0, 10**6).map(str),
    st.one_of(st.just(""), st.integers(0, 999).map(lambda n: f".{n:03}"), st.just(".")),
    st.sampled_from(sorted(SUFFIXES)),
)
quantities = st.builds(Quantity, st.integers(-LIMIT, LIMIT), st.sampled_from(Format))


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0", "0"),
        ("0Ki", "0"),
        ("100m", "100m"),
        ("0.1", "100m"),
        (".5", "500m"),
        ("1.", "1"),
        ("+2", "2"),
        ("-2.5", "-2500m"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("1000k", "1M"),
        ("1024Ki", "1Mi"),
        ("1025Ki", "1025Ki"),
        ("1.5Gi", "1536Mi"),
        ("1536Mi", "1536Mi"),
        ("0.5Ki", "512"),
        ("0.5Mi", "512Ki"),
        ("1000Ki", "1000Ki"),
        ("4e3", "4e3"),
        ("4E3", "4e3"),
        ("12e-1", "1200e-3"),
        ("5e0", "5"),
        ("1E", "1E"),
        ("1Ei", "1Ei"),
        ("100Ei", "9223372036854775807"),
        ("1e400", "9223372036854775807"),
        ("1e99999999999999999999", "9223372036854775807"),
        ("-100Ei", "-9223372036854775807"),
        ("1e-99999999999", "1e-9"),
        ("0.1n", "1n"),
        ("1.0000000001", "1000000001n"),
        ("-0.1n", "-1n"),
        (4, "4"),
        (0.25, "250m"),
        (1e-5, "10e-6"),
    ],
)
def test_a_text_is_written_back_in_its_canonical_form(text: str | int | float, canonical: str) -> None:
    assert str(parse(text)) == canonical


@pytest.mark.parametrize(
    "text",
    [
        "", " ", ".", "+", "-", "m", "Ki", "1 Gi", " 1", "1\n", "1K", "1ki", "1mi", "1i", "1.1.1", "1e", "1e+", "1e1.5", "0x10",
        "1_000", "１", "five", "--1", "1Gi ", "NaN", "inf", "1MM", "1Kim", "9" * 300,
    ],
)  # fmt: skip
def test_a_malformed_text_is_refused_and_named(text: str) -> None:
    with pytest.raises(InvalidQuantity) as refusal:
        parse(text)
    assert repr(text)[:70] in str(refusal.value)
    assert not is_quantity(text)


@pytest.mark.parametrize("value", [True, None, [], {}, float("nan"), float("inf")])
def test_other_things_are_no_quantities(value: object) -> None:
    assert not is_quantity(value)


@pytest.mark.parametrize(
    ("text", "milli", "value"), [("1", 1000, 1), ("1u", 1, 1), ("-1u", -1, -1), ("1500m", 1500, 2), ("2Ki", 2048000, 2048)]
)
def test_rounding_is_away_from_zero(text: str, milli: int, value: int) -> None:
    assert (parse(text).milli, parse(text).value) == (milli, value)


@given(texts)
def test_law_reading_is_exact_down_to_a_nano(written: tuple[str, str, str, str]) -> None:
    sign, whole, part, suffix = written
    exact = Fraction(f"{whole}{part if part != '.' else ''}") * SUFFIXES[suffix] * NANO
    want = min(-(-exact.numerator // exact.denominator), LIMIT)
    assert parse("".join(written)).nano == (-want if sign == "-" else want)


@given(quantities)
def test_law_round_trip(quantity: Quantity) -> None:
    again = parse(str(quantity))
    assert again == quantity
    assert str(again) == str(quantity)


@given(quantities, quantities)
def test_law_order_is_that_of_amounts(a: Quantity, b: Quantity) -> None:
    assert (a < b, a == b, a > b).count(True) == 1
    assert (a <= b) == (a.nano <= b.nano)
    if a <= b:
        assert a.milli <= b.milli
        assert a.value <= b.value
    if a == b:
        assert hash(a) == hash(b)


@given(quantities, quantities, quantities)
def test_law_addition(a: Quantity, b: Quantity, c: Quantity) -> None:
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert (a + b) - b == a
    assert a + -a == Quantity(0)
    assert a * 3 == a + a + a == 3 * a


@given(quantities)
def test_law_rounding_never_shrinks_the_magnitude(a: Quantity) -> None:
    assert 0 <= abs(a.milli) * 10**6 - abs(a.nano) < 10**6
    assert 0 <= abs(a.value) * NANO - abs(a.nano) < NANO


def test_zero_takes_the_suffixes_of_what_is_added() -> None:
    assert str(parse("0") + parse("2Gi")) == "2Gi"
    assert not parse("0m")
