"""What steps read from their targets, as the setting `reads` of their Jobs."""

from __future__ import annotations

import pytest

from policies.flows.inputs import Input, bytes_of, reads_with

EAST = Input("prepare", {"east": 1})
SPREAD = Input("train", {"west": 1, "east": 3}, size=8000)


@pytest.mark.parametrize(
    ("own", "inputs", "reads"),
    [
        ("", (), ""),
        ("images", (), "images"),
        ("prepare=50Gi", (EAST,), f"prepare@east={50 << 30}"),
        ("images=1Gi, prepare=1k", (EAST,), "images=1Gi,prepare@east=1000"),
        ("", (EAST,), ""),
        ("", (SPREAD,), "train@east=6000,train@west=2000"),
        ("train", (SPREAD,), "train@east=6000,train@west=2000"),
        ("train=80", (SPREAD,), "train@east=60,train@west=20"),
        ("images", (EAST, SPREAD), "images,train@east=6000,train@west=2000"),
    ],
)
def test_targets_are_read_where_they_ran(own: str, inputs: tuple[Input, ...], reads: str) -> None:
    assert reads_with(own, inputs) == reads


@pytest.mark.parametrize("own", ["prepare", "prepare=lots", "prepare@west=5"])
def test_what_says_too_little_or_says_it_all_stays_as_it_is(own: str) -> None:
    assert reads_with(own, (EAST,)) == own
    assert reads_with("prepare=5", (Input("prepare"),)) == "prepare=5"


def test_an_output_named_bytes_says_how_much_was_left() -> None:
    assert bytes_of({"bytes": "2Ki"}) == 2048
    assert bytes_of({"accuracy": "0.9"}) is None
    assert bytes_of({"bytes": "plenty"}) is None
