"""Laws of CronJobs: whatever happens to clocks, Jobs and controllers, no scheduled minute runs twice."""

from __future__ import annotations

import datetime
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from controllers.cron.planner import ENDS, minute_of
from policies import schedules
from tests.controllers.cron.stories import CREATED, Story, at

SCHEDULES = st.sampled_from(["* * * * *", "*/7 * * * *", "0 * * * *", "30 1-3 * * *", "0 0 1 * 1", "@hourly", "@every 90s"])
ZONES = st.sampled_from([None, "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"])
STARTS = st.sampled_from([CREATED, "2026-03-08T05:00:00Z", "2026-11-01T04:00:00Z", "2026-10-03T14:00:00Z"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.integers(-1800, 20000)),
        st.tuples(st.just("end"), st.sampled_from(sorted(ENDS))),
        st.tuples(st.just("delete"), st.none()),
        st.tuples(st.just("die"), st.none()),
        st.tuples(st.just("suspend"), st.booleans()),
    ),
    max_size=30,
)


@given(
    schedule=SCHEDULES,
    zone=ZONES,
    start=STARTS,
    policy=st.sampled_from(["Allow", "Forbid", "Replace"]),
    deadline=st.sampled_from([None, 0, 30, 5000]),
    keep=st.integers(0, 2),
    steps=STEPS,
)
def test_no_minute_runs_twice_and_every_run_is_of_a_due_time(
    schedule: str, zone: str | None, start: str, policy: str, deadline: int | None, keep: int, steps: list[tuple[str, object]]
) -> None:
    story = Story(
        schedule, created=start, time_zone=zone, policy=policy, deadline=deadline, keep_successful=keep, keep_failed=keep
    )
    now = at(start)
    for what, value in steps:
        running = sorted(name for name, job in story.jobs.items() if job.phase not in ENDS)
        if what == "wait":
            assert isinstance(value, int)
            now = max(now + datetime.timedelta(seconds=value), at(start))
        elif what == "end" and running:
            done = story.jobs[running[0]]
            story.jobs[done.name] = replace(done, phase=str(value), transition=now.strftime("%Y-%m-%dT%H:%M:%SZ"))
        elif what == "delete" and running and running[0] in story.active:
            del story.jobs[running[0]]
        elif what == "die":
            _die_after_creation(story, now.isoformat())
        elif what == "suspend":
            story.edit(suspend=bool(value))
        before = story.cron.status
        story.look(now.isoformat())
        if policy != "Allow":
            assert len([job for job in story.jobs.values() if job.phase not in ENDS]) <= 1
        assert before.last_schedule_time <= story.cron.status.last_schedule_time
    minutes = [int(at(stamp).timestamp()) // 60 for stamp in story.started]
    assert minutes == sorted(set(minutes))
    read = schedules.parse(schedule, zone=schedules.time_zone(zone), anchor=at(start))
    for stamp in story.started:
        moment = at(stamp)
        assert read.after(moment - datetime.timedelta(seconds=1)) == moment > at(start)


def _die_after_creation(story: Story, time: str) -> None:
    """The controller makes the Job that is due and dies before it writes anything else."""
    made = story.once(time)
    if made.status is None and made.create is not None and not made.replace:
        story.started.append(made.create.stamp)
        story.job(made.create.job, phase="")


@given(schedule=SCHEDULES, zone=ZONES, start=STARTS, wait=st.integers(0, 10**6))
def test_a_look_comes_to_rest_and_the_next_one_lies_ahead(schedule: str, zone: str | None, start: str, wait: int) -> None:
    story = Story(schedule, created=start, time_zone=zone)
    now = at(start) + datetime.timedelta(seconds=wait)
    plan = story.look(now.isoformat())
    assert plan.wake is not None and plan.wake > now
    assert story.once(now.isoformat()) == plan


@given(st.text(max_size=30), st.text(max_size=30))
def test_names_of_other_jobs_are_no_runs(cron: str, job: str) -> None:
    minute = minute_of(job, cron=cron)
    if minute is not None:
        assert job.startswith(f"{cron}-") and minute.second == 0
