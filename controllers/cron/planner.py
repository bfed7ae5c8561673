"""What is to be done about a CronJob: the status that follows from its Jobs, the run that is due, Jobs that may leave. Pure.
"Job" stands for a JobFlow too, where a CronJob makes flows.

The Jobs tell everything: a Job has the minute it stands for in its name, so that `last` is the later of the recorded time and
the newest Job, and a run is due when the schedule has a time in a later minute that is not in the future.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from apis import kinds
from controllers.cron.snapshot import Condition, CronChild, CronSnapshot, CronStatus, CronView, Reference, moment
from policies import schedules
from policies.schedules import MINUTE, Schedule

ENDS: Final = frozenset({"Completed", "Failed", "Terminated"})
POLICIES: Final = ("Allow", "Forbid", "Replace")
LONGEST_NAME: Final = 52
"""Characters of a CronJob's name: a Job's may have 63, and eleven are for the dash and the minutes."""
MANY: Final = 100
"""Missed runs above which a warning says so: a clock that is wrong, or a deadline that is too long."""
FUTURE: Final = datetime.timedelta(minutes=5)
"""How far ahead the last run may lie before the clock is blamed: more than clocks of one cluster differ."""
SCHEDULING: Final = "Scheduling"
"""Type of the condition that says why no run is started. It appears with the first reason and is True when that is over."""


@dataclass(frozen=True, slots=True)
class Note:
    """An event about the CronJob."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """A Job to make, or a flow (`kind`). `stamp` is its scheduled time in the zone of the CronJob, RFC 3339."""

    job: str
    stamp: str
    kind: kinds.Kind = kinds.JOB


class Mark(NamedTuple):
    """A Job that is there, or a flow."""

    kind: kinds.Kind
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class CronPlan:
    """`status`: to be written before anything else is done, with its `notes`; None: it holds. Then `replace`,
    Jobs to be deleted before `create` is made, with its `warnings`, and `clean`, which may leave. `unexpected`:
    Jobs to tell of. `wake`: when to look again though nothing happens."""

    status: CronStatus | None = None
    notes: tuple[Note, ...] = ()
    unexpected: tuple[Mark, ...] = ()
    replace: tuple[Mark, ...] = ()
    create: Run | None = None
    warnings: tuple[Note, ...] = ()
    clean: tuple[Mark, ...] = ()
    wake: datetime.datetime | None = None


@dataclass(frozen=True, slots=True)
class _Verdict:
    """Why nothing is started ("" when nothing is in the way), or the run that is."""

    reason: str = ""
    message: str = ""
    warning: bool = True
    due: datetime.datetime | None = None
    many: bool = False
    wake: datetime.datetime | None = None


def plan(snapshot: CronSnapshot, *, now: datetime.datetime) -> CronPlan:
    """The plan; of a CronJob under deletion nothing is done any more, its Jobs are the garbage collector's."""
    cron = snapshot.cron
    if cron.deleting:
        return CronPlan()
    there = sorted(snapshot.jobs.values(), key=lambda job: (job.name, job.kind.kind))
    active = [job for job in there if counts(job, cron=cron)]
    verdict = _verdict(snapshot, active=active, now=now)
    conditions = cron.status.conditions if verdict.due else _conditions(cron.status.conditions, verdict=verdict, now=now)
    status = CronStatus(
        active=[*map(_reference, active), *_unreadable(snapshot)],
        last_schedule_time=_stamp(last_run(snapshot)),
        last_successful_time=_stamp(_last_success(snapshot)),
        conditions=conditions,
    )
    return CronPlan(
        status=None if _same(status, cron.status) else status,
        notes=(*_notes(snapshot), *_told(verdict, conditions=conditions, before=cron.status.conditions)),
        unexpected=_marks(job for job in there if _unexpected(job, snapshot=snapshot)),
        replace=_marks(job for job in active if not job.deleting) if verdict.due and cron.policy == "Replace" else (),
        create=_run(cron, due=verdict.due) if verdict.due else None,
        warnings=(_too_many(),) if verdict.many else (),
        clean=_surplus(snapshot),
        wake=verdict.wake,
    )


# --- names -----------------------------------------------------------------------------------------------------------
def job_name(cron: str, *, due: datetime.datetime) -> str:
    """`<cron>-<minutes since 1970>`: one scheduled minute has one name."""
    return f"{cron}-{int(due.timestamp()) // 60}"


def minute_of(job: str, *, cron: str) -> datetime.datetime | None:
    """The minute that a Job of this name stands for; None when it is no run of the CronJob."""
    minutes = job.removeprefix(f"{cron}-")
    if minutes == job or not (minutes.isascii() and minutes.isdigit()) or not 0 < len(minutes) < 10:
        return None
    return datetime.datetime.fromtimestamp(int(minutes) * 60, datetime.UTC)


# --- what the Jobs tell ----------------------------------------------------------------------------------------------
def counts(job: CronChild, *, cron: CronView) -> bool:
    """Whether a Job is an active run. One that is being deleted still is, unless it was replaced."""
    replaced = job.deleting and cron.policy == "Replace"
    return job.phase not in ENDS and not replaced and minute_of(job.name, cron=cron.name) is not None


def last_run(snapshot: CronSnapshot) -> datetime.datetime | None:
    """The scheduled time of the last run that was started, recorded or not yet."""
    cron = snapshot.cron
    recorded = moment(cron.status.last_schedule_time)
    minutes = [minute_of(job.name, cron=cron.name) for job in snapshot.jobs.values()]
    newest = max((each for each in [*minutes, snapshot.seen] if each is not None), default=None)
    if newest is None or (recorded is not None and newest <= recorded):
        return recorded
    return newest


def _last_success(snapshot: CronSnapshot) -> datetime.datetime | None:
    times = [moment(job.transition) for job in snapshot.jobs.values() if job.phase == "Completed"]
    times.append(moment(snapshot.cron.status.last_successful_time))
    return max((each for each in times if each is not None), default=None)


def _unreadable(snapshot: CronSnapshot) -> list[Reference]:
    """What is recorded as active and cannot be read now: it stays."""
    kept = snapshot.unreadable - {job.name for job in snapshot.jobs.values()}
    return [each for each in snapshot.cron.status.active if each.name in kept]


def _surplus(snapshot: CronSnapshot) -> tuple[Mark, ...]:
    """The eldest ended Jobs above the limits, those only that the status tells of no more."""
    cron = snapshot.cron
    there = sorted(snapshot.jobs.values(), key=lambda job: (job.created, job.name, job.kind.kind))
    ended = [job for job in there if job.phase in ENDS and not job.deleting]
    done = [job for job in ended if job.phase == "Completed"]
    failed = [job for job in ended if job.phase != "Completed"]
    eldest = done[: max(len(done) - cron.keep_successful, 0)] + failed[: max(len(failed) - cron.keep_failed, 0)]
    return _marks(job for job in eldest if recorded(job, cron=cron))


def recorded(job: CronChild, *, cron: CronView) -> bool:
    """Whether nothing is lost when the ended Job goes: its time is recorded, its end too."""
    if any(each.uid == job.uid for each in cron.status.active):
        return False
    minute, last = minute_of(job.name, cron=cron.name), moment(cron.status.last_schedule_time)
    if minute is not None and (last is None or minute > last):
        return False
    ended, success = moment(job.transition), moment(cron.status.last_successful_time)
    return job.phase != "Completed" or ended is None or (success is not None and ended <= success)


# --- what is due -----------------------------------------------------------------------------------------------------
def _verdict(snapshot: CronSnapshot, *, active: list[CronChild], now: datetime.datetime) -> _Verdict:
    cron = snapshot.cron
    schedule = _readable(cron)
    if isinstance(schedule, _Verdict):
        return schedule
    if cron.suspend:
        return _Verdict("Suspended", "spec.suspend is true: no run is started", warning=False)
    last = last_run(snapshot)
    after = (
        cron.created if last is None else last.replace(second=0, microsecond=0) + MINUTE - datetime.timedelta(microseconds=1)
    )
    wake = schedule.after(max(now, after))
    if last is not None and last > now + FUTURE:
        return _Verdict(
            "LastRunInFuture", f"the last run was for {_stamp(last)}: the clock was wrong then, or is now", wake=wake
        )
    due = schedules.latest(schedule, after=after, until=now) if after < now else None
    if due is None:
        return _Verdict(wake=wake)
    return _judge(snapshot, schedule, active=active, due=due, after=after, wake=wake, now=now)


def _judge(
    snapshot: CronSnapshot,
    schedule: Schedule,
    *,
    active: list[CronChild],
    due: datetime.datetime,
    after: datetime.datetime,
    wake: datetime.datetime,
    now: datetime.datetime,
) -> _Verdict:
    """What stands against a run that is due."""
    cron, refusal = snapshot.cron, snapshot.refusal
    if cron.deadline is not None:
        oldest = _before(now, seconds=cron.deadline)
        if due <= oldest:
            late = f"the run of {_stamp(due)} was not started within {cron.deadline} s (spec.startingDeadlineSeconds)"
            return _Verdict("MissSchedule", late, wake=wake)
        after = max(after, oldest)
    if cron.policy == "Forbid" and active:
        names = ", ".join(job.name for job in active)
        return _Verdict("JobAlreadyActive", f"the run of {_stamp(due)} waits for the end of {names}", warning=False, wake=wake)
    if refusal is not None and refusal.job == job_name(cron.name, due=due) and now < refusal.again:
        return _Verdict(refusal.reason, refusal.message, wake=min(wake, refusal.again))
    return _Verdict(due=due, many=schedules.more_than(MANY, schedule, after=after, until=now), wake=wake)


def _before(now: datetime.datetime, *, seconds: int) -> datetime.datetime:
    """So many seconds ago, as far back as there are dates."""
    try:
        return now - datetime.timedelta(seconds=seconds)
    except OverflowError:
        return datetime.datetime.min.replace(tzinfo=datetime.UTC)


def _readable(cron: CronView) -> Schedule | _Verdict:
    """The schedule, or why there is none."""
    if cron.unreadable:
        return _Verdict("InvalidSpec", f"spec: {cron.unreadable}")
    if len(cron.name) > LONGEST_NAME:
        return _Verdict("InvalidName", f"metadata.name: must be no more than {LONGEST_NAME} characters, has {len(cron.name)}")
    if cron.policy not in POLICIES:
        return _Verdict("InvalidSpec", f"spec.concurrencyPolicy: {cron.policy!r}, want one of {', '.join(POLICIES)}")
    if (cron.deadline or 0) < 0:
        return _Verdict("InvalidSpec", f"spec.startingDeadlineSeconds: must not be negative, is {cron.deadline}")
    try:
        zone = schedules.time_zone(cron.time_zone)
        return schedules.parse(cron.schedule, zone=zone, anchor=cron.created)
    except schedules.UnknownTimeZone as error:
        return _Verdict("UnknownTimeZone", f"spec.timeZone: {error}")
    except schedules.InvalidSchedule as error:
        return _Verdict("InvalidSchedule", f"spec.schedule: {error}")


def _run(cron: CronView, *, due: datetime.datetime) -> Run:
    wall = due.astimezone(schedules.time_zone(cron.time_zone)).replace(microsecond=0)
    text = wall.isoformat() if wall.utcoffset() else wall.strftime("%Y-%m-%dT%H:%M:%SZ")
    return Run(job=job_name(cron.name, due=due), stamp=text, kind=cron.makes)


# --- what is written and told ----------------------------------------------------------------------------------------
def _conditions(before: list[Condition], *, verdict: _Verdict, now: datetime.datetime) -> list[Condition]:
    old = next((each for each in before if each.type == SCHEDULING), None)
    if old is None and not verdict.reason:
        return before
    new = Condition(
        type=SCHEDULING,
        status="False" if verdict.reason else "True",
        reason=verdict.reason or "Scheduled",
        message=verdict.message,
        last_transition_time=_stamp(now),
    )
    if old is not None and old.status == new.status:
        new = msgspec.structs.replace(new, last_transition_time=old.last_transition_time)
    return [*(each for each in before if each.type != SCHEDULING), new]


def _told(verdict: _Verdict, *, conditions: list[Condition], before: list[Condition]) -> Iterable[Note]:
    """An event for a reason that is new. Refusals were told when they happened, and `suspend` is its author's own doing."""
    if (
        verdict.reason
        and verdict.reason not in ("Suspended", "FailedCreate", "FailedDelete", "ForeignJob")
        and conditions != before
    ):
        yield Note(verdict.reason, verdict.message, verdict.warning)


def _notes(snapshot: CronSnapshot) -> Iterable[Note]:
    """What became of the Jobs that are recorded as active."""
    cron = snapshot.cron
    there = {job.uid: job for job in snapshot.jobs.values()}
    for each in cron.status.active:
        job = there.get(each.uid)
        if job is not None and job.phase in ENDS:
            yield Note("SawCompletedJob", f"{job.kind.kind} {job.name} has ended: {job.phase}")
        elif job is None and cron.policy != "Replace" and each.name not in snapshot.unreadable:
            yield Note("MissingJob", f"{each.kind or kinds.JOB.kind} {each.name} was active and is gone")


def _unexpected(job: CronChild, *, snapshot: CronSnapshot) -> bool:
    """Whether somebody else made a Job in the name of the CronJob, and nobody was told yet."""
    return job.phase not in ENDS and job.uid not in snapshot.told and minute_of(job.name, cron=snapshot.cron.name) is None


def _too_many() -> Note:
    text = f"more than {MANY} runs were missed, and only the latest is started"
    return Note("TooManyMissedTimes", f"{text}: set or lower spec.startingDeadlineSeconds, or look at the clock", warning=True)


def _reference(job: CronChild) -> Reference:
    kind = job.kind
    return Reference(api_version=kind.api_version, kind=kind.kind, namespace=job.namespace, name=job.name, uid=job.uid)


def _same(one: CronStatus, other: CronStatus) -> bool:
    """Equal, whatever versions the references of another controller name."""
    return [(each.name, each.uid) for each in one.active] == [(each.name, each.uid) for each in other.active] and (
        msgspec.structs.replace(one, active=[]) == msgspec.structs.replace(other, active=[])
    )


def _marks(jobs: Iterable[CronChild]) -> tuple[Mark, ...]:
    return tuple(Mark(job.kind, job.name, job.uid) for job in jobs)


def _stamp(time: datetime.datetime | None) -> str:
    return time.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if time is not None else ""
