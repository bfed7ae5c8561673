"""What a Job reads, and what is told of it."""

from __future__ import annotations

import msgspec

from policies.estimates import Option, Read
from policies.reads import SourceView, by_name, project_source, reads_of, told

REGIONS = {"east": "eu", "west": "us"}
SOURCES = by_name(
    [
        SourceView("", "images", size=2 << 30, clusters=("east", "west")),
        SourceView("", "logs", clusters=("west",)),
        SourceView("", "gone", size=1, deleting=True),
    ]
)


def read(text: str) -> tuple[Read, ...]:
    found, wrong = reads_of(text, sources=SOURCES, regions=REGIONS)
    assert wrong == ()
    return found


def test_a_source_says_how_much_it_is_and_where_it_lies() -> None:
    assert read("images") == (Read("images", 2 << 30, "east", "eu", copies=(("west", "us"),)),)
    assert read("images=1Gi, logs=1k") == (
        Read("images", 1 << 30, "east", "eu", copies=(("west", "us"),)),
        Read("logs", 1000, "west", "us"),
    )


def test_what_is_no_source_may_say_where_it_lies_itself() -> None:
    assert read("prepare@west=50Gi") == (Read("prepare", 50 << 30, "west", "us"),)
    assert read("somewhere=5") == (Read("somewhere", 5),)
    assert read("images@east=5") == (Read("images", 5, "east", "eu"),)
    assert read("") == ()


def test_what_cannot_be_read_is_named_and_the_rest_counts() -> None:
    found, wrong = reads_of("images=1, x=big, =1, y, logs, gone, z@=1, w=-1", sources=SOURCES, regions=REGIONS)
    assert [each.source for each in found] == ["images"]
    assert len(wrong) == 7 and all(each.field == "reads" for each in wrong)
    assert "logs" in wrong[3].message and "does not say how much it is" in wrong[3].message


def test_a_data_source_is_read_as_it_is_served() -> None:
    document = {
        "metadata": {"name": "images", "uid": "u", "resourceVersion": "4"},
        "spec": {"system": "s3", "size": "2Gi", "locality": {"clusterNames": ["west", "east", "west"]}},
    }
    seen = project_source(msgspec.json.encode(document))
    assert (seen.name, seen.size, seen.clusters, seen.problems) == ("images", 2 << 30, ("west", "east"), ())
    odd = project_source(msgspec.json.encode({"metadata": {"name": "odd"}, "spec": {"size": "lots"}}))
    assert (odd.size, odd.clusters, odd.problems[0].field) == (None, (), "spec.size")


def test_the_reason_says_what_is_here_and_what_bringing_the_rest_takes() -> None:
    reads = (Read("prepare", 50 << 30, "west"), Read("labels", 2 << 30, "east"))
    option = Option("west", egress=0.16, transfer=20.0)
    assert told(reads, option) == "of 52Gi that it reads 50Gi are in west (prepare); the rest comes from east for 0.16 in 20 s"
    assert told(reads[:1], option) == "of 50Gi that it reads 50Gi are in west (prepare)"
    assert told((), option) == ""


def test_the_reason_says_what_nobody_said() -> None:
    option = Option("west", missing=("prices", "price to bring labels here"))
    text = told((Read("labels", 2 << 30, "east"),), option)
    assert text == "of 2Gi that it reads 0Gi are in west; the rest comes from east, and nobody said price to bring labels here"
