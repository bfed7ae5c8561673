"""When CronJobs are due: beside what Kubernetes' own library answered, over changes of the clock, and as laws."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import schedules
from policies.schedules import InvalidSchedule, UnknownTimeZone

RECORDED = [
    line.split("|")
    for line in Path(__file__).with_name("due_times.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
ZONES = ("UTC", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "America/Sao_Paulo", "Pacific/Apia", "Asia/Kolkata")


def at(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text)


def due(text: str, after: str, *, zone: str | None = None, count: int = 1) -> list[str]:
    """The next times, in the zone."""
    where = schedules.time_zone(zone)
    schedule, moment, found = schedules.parse(text, zone=where, anchor=at(after)), at(after), []
    for _ in range(count):
        moment = schedule.after(moment)
        found.append(moment.astimezone(where).isoformat())
    return found


@pytest.mark.parametrize(("text", "zone", "after", "expected"), RECORDED, ids=[f"{row[0]} {row[1]}" for row in RECORDED])
def test_due_times_are_those_of_kubernetes(text: str, zone: str, after: str, expected: str) -> None:
    want = [at(each) for each in expected.split(",")]
    assert [at(each) for each in due(text, after, zone=zone or None, count=len(want))] == want


# --- changes of the clock --------------------------------------------------------------------------------------------
def test_a_time_that_the_clock_skips_is_not_due_that_day() -> None:
    assert due("30 2 * * *", "2026-03-07T12:00:00-05:00", zone="America/New_York", count=2) == [
        "2026-03-09T02:30:00-04:00",
        "2026-03-10T02:30:00-04:00",
    ]


def test_a_time_that_the_clock_repeats_is_due_twice() -> None:
    assert due("30 1 * * *", "2026-10-31T12:00:00-04:00", zone="America/New_York", count=3) == [
        "2026-11-01T01:30:00-04:00",
        "2026-11-01T01:30:00-05:00",
        "2026-11-02T01:30:00-05:00",
    ]


def test_every_half_hour_goes_on_over_both_changes() -> None:
    for night in ("2026-03-08T00:00:00-05:00", "2026-11-01T00:00:00-04:00"):
        found = [at(each) for each in due("*/30 * * * *", night, zone="America/New_York", count=8)]
        assert {later - earlier for earlier, later in zip(found, found[1:], strict=False)} == {datetime.timedelta(minutes=30)}


def test_a_midnight_that_is_skipped_costs_that_day_and_no_other() -> None:
    assert due("0 0 * * *", "2018-11-03T12:00:00-03:00", zone="America/Sao_Paulo") == ["2018-11-05T00:00:00-02:00"]
    assert due("0 * * * *", "2018-11-03T23:30:00-03:00", zone="America/Sao_Paulo") == ["2018-11-04T01:00:00-02:00"]


def test_a_change_of_half_an_hour_skips_no_whole_hour_after_it() -> None:
    """Where robfig/cron loses the run of that day, walking by whole hours."""
    assert due("0 3 * * *", "2026-10-03T12:00:00+10:30", zone="Australia/Lord_Howe") == ["2026-10-04T03:00:00+11:00"]


def test_a_day_that_never_was_is_passed_over() -> None:
    assert due("0 12 30 12 *", "2011-12-01T00:00:00-10:00", zone="Pacific/Apia") == ["2012-12-30T12:00:00+14:00"]


# --- the calendar ----------------------------------------------------------------------------------------------------
def test_leap_days_are_found_also_over_a_year_that_leaves_one_out() -> None:
    assert due("0 0 29 2 *", "2096-03-01T00:00:00Z") == ["2104-02-29T00:00:00+00:00"]


def test_when_both_days_are_restricted_one_is_enough_and_a_stepped_star_restricts() -> None:
    assert due("0 0 13 * FRI", "2026-03-01T00:00:00Z", count=3)[:2] == [
        "2026-03-06T00:00:00+00:00",
        "2026-03-13T00:00:00+00:00",
    ]
    assert due("0 0 */2 * MON", "2026-01-03T00:00:00Z", count=2) == ["2026-01-05T00:00:00+00:00", "2026-01-07T00:00:00+00:00"]
    assert due("0 0 * * MON", "2026-01-03T00:00:00Z", count=2) == ["2026-01-05T00:00:00+00:00", "2026-01-12T00:00:00+00:00"]


def test_every_counts_from_its_anchor() -> None:
    schedule = schedules.parse("@every 1h30m", anchor=at("2026-01-01T00:00:07Z"))
    assert schedule.after(at("2026-01-01T10:00:00Z")) == at("2026-01-01T10:30:07Z")
    assert schedule.after(at("2025-01-01T00:00:00Z")) == at("2026-01-01T01:30:07Z")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "0 fields"),
        ("* * * *", "4 fields"),
        ("0 * * * * *", "6 fields"),
        ("60 * * * *", "minute '60': 60 is not within 0-59"),
        ("* 24 * * *", "hour '24'"),
        ("* * 0 * *", "day of month '0'"),
        ("* * * 13 *", "month '13'"),
        ("* * * * 7", "day of week '7': 7 is not within 0-6"),
        ("* * * mon *", "month 'mon': 'mon' is no number"),
        ("*/0 * * * *", "a step is at least 1"),
        ("*/x * * * *", "'x' is no number"),
        ("30-10 * * * *", "ends before it begins"),
        ("1,,2 * * * *", "'' is no number"),
        ("-5 * * * *", "'' is no number"),
        ("+5 * * * *", "'+5' is no number"),
        ("٣ * * * *", "is no number"),
        ("*/2/3 * * * *", "'2/3' is no number"),
        ("TZ=UTC * * * * *", "set spec.timeZone"),
        ("CRON_TZ=Asia/Tokyo * * * * *", "set spec.timeZone"),
        ("@reboot", "'@reboot' is not known"),
        ("@Hourly", "'@Hourly' is not known"),
        ("@every", "'@every' is not known"),
        ("@every 1d", "'1d' is no duration"),
        ("@every 10ms", "at least a second"),
        ("@every 9999999h", "at most 400 years"),
        ("0 0 31 2 *", "never due"),
        ("0 0 30,31 2 *", "never due"),
        ("0 0 31 2,4,6 *", "never due"),
    ],
)
def test_what_is_no_schedule_is_refused_with_its_field(text: str, told: str) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        schedules.parse(text)
    assert told in str(refused.value)


@pytest.mark.parametrize(
    "name", ["", " UTC", "Local", "local", "localtime", "Mars/Olympus", "America", "../UTC", "/etc/localtime", "UTC\0"]
)
def test_what_is_no_time_zone_is_refused_by_name(name: str) -> None:
    with pytest.raises(UnknownTimeZone) as refused:
        schedules.time_zone(name)
    assert repr(name) in str(refused.value)


# --- laws ------------------------------------------------------------------------------------------------------------
def field(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    span = st.tuples(number, number).map(lambda pair: f"{min(pair)}-{max(pair)}")
    step = st.integers(1, high).map(lambda step: f"*/{step}")
    return st.one_of(st.just("*"), step, st.lists(st.one_of(number.map(str), span), min_size=1, max_size=3).map(",".join))


EXPRESSIONS = st.tuples(field(0, 59), field(0, 23), field(1, 28), field(1, 12), field(0, 6)).map(" ".join)
MOMENTS = st.datetimes(
    min_value=at("2005-01-01T00:00:00"), max_value=at("2035-01-01T00:00:00"), timezones=st.just(datetime.UTC)
)


@given(text=EXPRESSIONS, zone=st.sampled_from(ZONES), moment=MOMENTS)
def test_the_next_time_is_later_is_a_whole_minute_and_its_wall_time_matches(
    text: str, zone: str, moment: datetime.datetime
) -> None:
    where = schedules.time_zone(zone)
    schedule = schedules.parse(text, zone=where)
    assert isinstance(schedule, schedules.Cron)
    found = schedule.after(moment)
    wall = found.astimezone(where)
    assert found > moment and (found.second, found.microsecond) == (0, 0)
    assert wall.minute in schedule.minutes and wall.hour in schedule.hours and wall.month in schedule.months
    assert schedule.after(found - datetime.timedelta(microseconds=1)) == found


@given(text=EXPRESSIONS, zone=st.sampled_from(ZONES), moment=MOMENTS)
def test_no_matching_minute_is_passed_over(text: str, zone: str, moment: datetime.datetime) -> None:
    schedule = schedules.parse(text, zone=schedules.time_zone(zone))
    found = schedule.after(moment)
    for minutes in range(1, 200):
        between = moment + datetime.timedelta(minutes=minutes)
        if between < found:
            assert schedule.after(between) == found


@given(text=st.one_of(EXPRESSIONS, st.sampled_from(["@every 7m", "@every 90s"])), moment=MOMENTS, hours=st.integers(0, 2000))
def test_the_latest_time_is_the_last_one_that_walking_finds(text: str, moment: datetime.datetime, hours: int) -> None:
    schedule = schedules.parse(text, anchor=moment)
    until = moment + datetime.timedelta(hours=hours)
    found = schedules.latest(schedule, after=moment, until=until)
    if found is None:
        assert schedule.after(moment) > until
    else:
        assert moment < found <= until < schedule.after(found)


@given(count=st.integers(0, 50), minutes=st.integers(0, 60))
def test_more_than_counts_what_is_due(count: int, minutes: int) -> None:
    start = at("2026-01-01T00:00:00Z")
    schedule = schedules.parse("* * * * *")
    until = start + datetime.timedelta(minutes=minutes)
    assert schedules.more_than(count, schedule, after=start, until=until) == (minutes > count)


@given(st.text(max_size=40))
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        schedules.parse(text)
    except InvalidSchedule as error:
        assert str(error)
