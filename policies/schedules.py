"""Schedules of CronJobs: when a run is due, in a time zone. Pure.

A cron expression stands for the whole minutes whose wall time in the zone matches its five fields. So a time that the clock
skips (summer time begins) is not due on that day, and one that it repeats is due twice, as robfig/cron has it, which Kubernetes
uses; docs/decisions/0006-cron-expressions.md says why no library does this for us. `@every <duration>` counts from an anchor.
"""

from __future__ import annotations

import datetime
import zoneinfo
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from policies import durations

MINUTE: Final = datetime.timedelta(minutes=1)
HORIZON: Final = 401
"""Years that are searched: after 400 the calendar repeats itself, weekdays included."""

_MONTHS: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_LONGEST: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY: Final = "@every "


class InvalidSchedule(ValueError):
    """A text that is no schedule, or one that is never due; the message says where."""


class UnknownTimeZone(ValueError):
    """A name that no time zone has; the message names it."""


def time_zone(name: str | None) -> datetime.tzinfo:
    """The zone of this name, UTC for None; raises UnknownTimeZone."""
    if name is None:
        return datetime.UTC
    if name.strip() != name or name.lower() in ("", "local", "localtime"):
        raise UnknownTimeZone(f"{name!r} is no time zone: want a name of the IANA database, such as Europe/Berlin")
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UnknownTimeZone(f"unknown time zone {name!r}: want a name of the IANA database, such as Europe/Berlin") from error


# --- reading ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()

    def parse(self, text: str) -> tuple[frozenset[int], bool]:
        """Values, and whether the field leaves everything open (a star without step)."""
        parts = [self._part(part, text=text) for part in text.split(",")]
        return frozenset().union(*(values for values, _ in parts)), any(star for _, star in parts)

    def _part(self, part: str, *, text: str) -> tuple[frozenset[int], bool]:
        span, slash, step_text = part.partition("/")
        step = self._number(step_text, text=text) if slash else 1
        if step < 1:
            raise self._wrong(text, "a step is at least 1")
        if span in ("*", "?"):
            return frozenset(range(self.low, self.high + 1, step)), step == 1
        first_text, dash, last_text = span.partition("-")
        first = self._value(first_text, text=text)
        last = self._value(last_text, text=text) if dash else (self.high if slash else first)
        if first > last:
            raise self._wrong(text, f"the range {span} ends before it begins")
        return frozenset(range(first, last + 1, step)), False

    def _value(self, part: str, *, text: str) -> int:
        if part.upper() in self.names:
            return self.names.index(part.upper()) + self.low
        value = self._number(part, text=text)
        if not self.low <= value <= self.high:
            raise self._wrong(text, f"{part} is not within {self.low}-{self.high}")
        return value

    def _number(self, part: str, *, text: str) -> int:
        if not (part.isascii() and part.isdigit() and len(part) < 10):
            raise self._wrong(text, f"{part!r} is no number")
        return int(part)

    def _wrong(self, text: str, why: str) -> InvalidSchedule:
        return InvalidSchedule(f"{self.name} {text!r}: {why}")


_FIELDS: Final = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of week", 0, 6, _DAYS),
)


@dataclass(frozen=True, slots=True)
class Cron:
    """The minutes whose wall time in `zone` matches. `either`: both days are restricted, and one of them is enough."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either: bool
    zone: datetime.tzinfo

    def after(self, moment: datetime.datetime) -> datetime.datetime:
        """The first due minute later than `moment`, aware, UTC."""
        at = moment.astimezone(datetime.UTC).replace(second=0, microsecond=0) + MINUTE
        limit = at.year + HORIZON
        while at.year < limit:
            wall = at.astimezone(self.zone)
            if not self._day_matches(wall):
                at = self._next_day(at, wall)
            elif wall.hour not in self.hours:
                at = self._skip(at, 60 - wall.minute)
            elif wall.minute not in self.minutes:
                later = (minute for minute in self.minutes if minute > wall.minute)
                at = self._skip(at, min(later, default=60) - wall.minute)
            else:
                return at
        raise InvalidSchedule("it is never due")

    def _day_matches(self, wall: datetime.datetime) -> bool:
        if wall.month not in self.months:
            return False
        day, weekday = wall.day in self.days, wall.isoweekday() % 7 in self.weekdays
        return (day or weekday) if self.either else (day and weekday)

    def _next_day(self, at: datetime.datetime, wall: datetime.datetime) -> datetime.datetime:
        """The first instant later than `at` of the next day whose month may match."""
        day = wall.date() + datetime.timedelta(days=1)
        while day.month not in self.months:
            day = (day.replace(day=1) + datetime.timedelta(days=32)).replace(day=1)
        midnight = datetime.datetime(day.year, day.month, day.day, tzinfo=self.zone)
        # A midnight that is skipped becomes the end of the gap; of one that is repeated the first counts that is still to come.
        both = sorted(midnight.replace(fold=fold).astimezone(datetime.UTC) for fold in (0, 1))
        return next((each for each in both if each > at), at + MINUTE)

    def _skip(self, at: datetime.datetime, minutes: int) -> datetime.datetime:
        """So many minutes on, but never over a change of the clock."""
        target = at + minutes * MINUTE
        same = at.astimezone(self.zone).utcoffset() == target.astimezone(self.zone).utcoffset()
        return target if same else at + MINUTE


@dataclass(frozen=True, slots=True)
class Every:
    """Every so many whole seconds from `anchor`, aware."""

    seconds: int
    anchor: datetime.datetime

    def after(self, moment: datetime.datetime) -> datetime.datetime:
        """The first due time later than `moment`, UTC."""
        passed = (moment - self.anchor) // datetime.timedelta(seconds=self.seconds)
        due = self.anchor + datetime.timedelta(seconds=self.seconds * max(passed + 1, 1))
        return due.astimezone(datetime.UTC)


Schedule = Cron | Every


def parse(text: str, *, zone: datetime.tzinfo = datetime.UTC, anchor: datetime.datetime | None = None) -> Schedule:
    """A schedule; `anchor` is what `@every` counts from (the epoch where there is none). Raises InvalidSchedule."""
    given = text.strip()
    if "TZ=" in given:
        raise InvalidSchedule("TZ= and CRON_TZ= are not taken here: set spec.timeZone")
    if given.startswith(_EVERY):
        return Every(_period(given.removeprefix(_EVERY).strip()), anchor or datetime.datetime.fromtimestamp(0, datetime.UTC))
    if given.startswith("@") and given not in _MACROS:
        raise InvalidSchedule(f"{given!r} is not known: want one of {', '.join(_MACROS)} or @every <duration>")
    fields = _MACROS.get(given, given).split()
    if len(fields) != len(_FIELDS):
        raise InvalidSchedule(f"{text!r} has {len(fields)} fields: want minute, hour, day of month, month, day of week")
    return _cron(fields, zone=zone)


def _period(text: str) -> int:
    try:
        seconds = int(durations.golang(text))
    except durations.InvalidDuration as error:
        raise InvalidSchedule(f"@every: {text!r} is no duration: want hours, minutes, seconds, such as 1h30m") from error
    if not 1 <= seconds <= 400 * 366 * 86400:
        raise InvalidSchedule(f"@every: {text!r}: want at least a second and at most 400 years")
    return seconds


def _cron(fields: list[str], *, zone: datetime.tzinfo) -> Cron:
    (minutes, _), (hours, _), (days, any_day), (months, _), (weekdays, any_weekday) = (
        field.parse(text) for field, text in zip(_FIELDS, fields, strict=True)
    )
    either = not (any_day or any_weekday)
    if not either and min(days) > max(_LONGEST[month - 1] for month in months):
        raise InvalidSchedule(f"it is never due: no month of {fields[3]!r} has a day {fields[2]!r}")
    return Cron(minutes, hours, days, months, weekdays, either, zone)


# --- asking ----------------------------------------------------------------------------------------------------------
def latest(schedule: Schedule, *, after: datetime.datetime, until: datetime.datetime) -> datetime.datetime | None:
    """The last due time later than `after` and not later than `until`, or None."""
    if schedule.after(after) > until:
        return None
    low, high = 0, int((until - after) / MINUTE) + 1
    while high - low > 1:  # invariant: something is due after `low` minutes and until `until`, nothing after `high`
        middle = (low + high) // 2
        low, high = (middle, high) if schedule.after(after + middle * MINUTE) <= until else (low, middle)
    due = schedule.after(after + low * MINUTE)
    return _last(schedule.after, due, until=until)


def _last(
    step: Callable[[datetime.datetime], datetime.datetime], due: datetime.datetime, *, until: datetime.datetime
) -> datetime.datetime:
    while (further := step(due)) <= until:
        due = further
    return due


def more_than(count: int, schedule: Schedule, *, after: datetime.datetime, until: datetime.datetime) -> bool:
    """Whether more than `count` times are due later than `after` and not later than `until`."""
    due = after
    for _ in range(count + 1):
        due = schedule.after(due)
        if due > until:
            return False
    return True
