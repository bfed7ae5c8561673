"""What runs used, added up: each once, priced, and remembered for Jobs that are alike."""

from __future__ import annotations

import datetime

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as some

from apis.vectors import ResourceVector
from policies import usage
from policies.offers import ClassOffer, OfferView
from policies.usage import NAMED, TEMPLATES, History, Ran, UsageView, counted, document, project_usage, run_id

OFFER = OfferView("", "east", cluster="east", currency="EUR", classes=(ClassOffer("c", prices={"cpu": 2.0, "memory": 0.5}),))
TWO_CORES = ResourceVector.from_quantities({"cpu": "2", "memory": "4Gi", "pods": 1})
EMPTY = UsageView("team", "r", "2026-01-01", "research", "east")


def ran(number: int, *, seconds: float = 3600, template: str = "t", completed: bool = True) -> Ran:
    ended = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(seconds=number)
    name = run_id(f"job-{number}", epoch=1, cluster="east", ended=ended)
    return Ran(name, ended.strftime("%Y-%m-%dT%H:%M:%SZ"), seconds, TWO_CORES, template, completed)


def test_an_hour_of_two_cores_and_four_gib_is_priced_and_counted() -> None:
    found = counted(EMPTY, [ran(1)], offer=OFFER)
    assert (found.runs, found.hours, found.money, found.currency) == (1, {"cpu": 2.0, "memory": 4.0}, 6.0, "EUR")
    assert found.times == {"t": (3600.0,)} and not found.unpriced


def test_what_nobody_priced_is_named_and_costs_nothing() -> None:
    found = counted(EMPTY, [ran(1)], offer=None)
    assert (found.money, found.unpriced) == (None, ("offer",))
    part = OfferView("", "east", cluster="east", classes=(ClassOffer("c", prices={"cpu": 2.0}),))
    assert counted(EMPTY, [ran(1)], offer=part).unpriced == ("memory",)


def test_what_was_stopped_is_paid_for_and_says_nothing_about_how_long_it_takes() -> None:
    found = counted(EMPTY, [ran(1, completed=False)], offer=OFFER)
    assert (found.money, found.times) == (6.0, {})


def test_times_are_kept_as_on_nodes_of_throughput_one() -> None:
    fast = OfferView("", "east", cluster="east", classes=(ClassOffer("c", prices={"cpu": 1.0, "memory": 1.0}, throughput=3.0),))
    assert counted(EMPTY, [ran(1, seconds=100)], offer=fast).times == {"t": (300.0,)}


@settings(max_examples=50, deadline=None)
@given(some.lists(some.lists(some.integers(0, 700), max_size=400), max_size=6))
def test_a_run_is_counted_once_however_often_and_in_whatever_batches_it_is_told(batches: list[list[int]]) -> None:
    report = EMPTY
    for batch in batches:
        for each in sorted(batch):
            report = counted(report, [ran(each)], offer=OFFER)
            assert counted(report, [ran(each)], offer=OFFER) == report
        stored = project_usage(msgspec.json.encode(document(report)))
        assert counted(stored, [ran(each) for each in batch], offer=OFFER).runs == report.runs


@settings(max_examples=20, deadline=None)
@given(some.lists(some.integers(0, 80_000), unique=True, min_size=1, max_size=500))
def test_a_report_stays_small_and_reads_back_as_it_was_written(numbers: list[int]) -> None:
    report = counted(EMPTY, [ran(each, template=f"t{each}") for each in numbers], offer=OFFER)
    assert report.runs == len(numbers) and len(report.times) <= TEMPLATES
    assert len(report.counted.split(",")) <= NAMED
    raw = msgspec.json.encode(document(report))
    assert len(raw) < 64 << 10
    read = project_usage(raw)
    assert (read.runs, read.money, read.hours, read.counted, read.through) == (
        report.runs,
        report.money,
        report.hours,
        report.counted,
        report.through,
    )


def test_the_last_times_of_a_template_are_remembered_over_clusters_and_days_until_their_report_goes() -> None:
    history = History()
    first = counted(EMPTY, [ran(1, seconds=100)], offer=None)
    second = counted(UsageView("team", "s", "2026-01-02", "q", "west"), [ran(2, seconds=200)], offer=None)
    history.put(None, second)
    history.put(None, first)
    assert history.of("t") == (100.0, 200.0) and history.of("other") == ()
    history.put(first, None)
    assert history.of("t") == (200.0,)


def test_reports_of_queues_and_clusters_with_odd_names_do_not_share_a_name() -> None:
    names = {
        usage.report_name(day="d", queue=q, cluster=c) for q, c in (("a--b", "c"), ("b", "c--a"), ("b", "a--c"), ("b--c", "a"))
    }
    assert len(names) == 4
