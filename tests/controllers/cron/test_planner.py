"""What a CronJob asks for at one instant."""

from __future__ import annotations

import datetime

import pytest

from apis import kinds
from controllers.cron.planner import Mark
from controllers.cron.snapshot import CronStatus, Reference, Refusal, project_cron
from tests.controllers.cron.stories import Story, at, name_of


def stamp(time: str) -> str:
    return at(time).strftime("%Y-%m-%dT%H:%M:%SZ")


# --- runs ------------------------------------------------------------------------------------------------------------
def test_a_run_starts_when_it_is_due_and_not_before() -> None:
    story = Story()
    assert story.look("00:04:59.9").wake == at("00:05")
    assert story.started == []
    story.look("00:05")
    assert story.started == [stamp("00:05")]
    assert story.active == [name_of("00:05")]
    assert story.cron.status.last_schedule_time == stamp("00:05")


def test_the_job_is_named_by_the_minutes_since_1970() -> None:
    assert name_of("00:05") == f"tick-{int(at('00:05').timestamp()) // 60}"


def test_a_look_at_the_same_time_starts_nothing_again() -> None:
    story = Story()
    for _ in range(3):
        story.look("00:05:01")
    story.end("00:05")
    story.look("00:06")
    story.gone("00:05")
    story.look("00:07")
    assert len(story.started) == 1


def test_the_minute_of_its_creation_does_not_count() -> None:
    story = Story(created="10:05")
    story.look("10:05:30")
    assert story.started == []


def test_of_missed_runs_only_the_latest_is_started() -> None:
    story = Story(created="08:00")
    story.look("10:02")
    assert story.started == [stamp("10:00")]
    assert "TooManyMissedTimes" not in story.told


@pytest.mark.parametrize(("now", "told"), [("01:40:59", False), ("01:41", True)])
def test_more_than_a_hundred_missed_runs_are_told(now: str, told: bool) -> None:
    story = Story("* * * * *")
    story.look(now)
    assert ("TooManyMissedTimes" in story.told) is told
    assert len(story.started) == 1


def test_a_deadline_bounds_the_runs_that_count_as_missed() -> None:
    story = Story("* * * * *", deadline=600)
    story.look("10:00")
    assert story.told == [] and story.started == [stamp("10:00")]


def test_a_job_that_was_made_and_not_recorded_is_counted() -> None:
    """The controller died between creation and status."""
    story = Story()
    story.job("00:05")
    story.look("00:05:10")
    assert story.started == []
    assert story.active == [name_of("00:05")]
    assert story.cron.status.last_schedule_time == stamp("00:05")


def test_the_stamp_is_in_the_zone_of_the_cronjob() -> None:
    story = Story("30 1 * * *", time_zone="America/New_York")
    story.look("07:00")
    assert story.started == ["2026-03-02T01:30:00-05:00"]


def test_the_stamp_of_a_zone_at_zero_ends_with_z() -> None:
    story = Story("30 1 * * *", time_zone="Europe/London")
    story.look("07:00")
    assert story.started == ["2026-03-02T01:30:00Z"]


def test_a_repeated_hour_is_two_runs_with_two_names() -> None:
    story = Story("30 1 * * *", time_zone="America/New_York", created="2026-11-01T00:00:00-04:00")
    story.look("2026-11-01T01:31:00-04:00")
    story.look("2026-11-01T01:31:00-05:00")
    assert story.started == ["2026-11-01T01:30:00-04:00", "2026-11-01T01:30:00-05:00"]
    assert len(story.jobs) == 2


def test_a_skipped_hour_is_no_run() -> None:
    story = Story("30 2 * * *", time_zone="America/New_York", created="2026-03-08T00:00:00-05:00")
    assert story.look("2026-03-08T12:00:00-04:00").wake == at("2026-03-09T02:30:00-04:00")
    assert story.started == []


def test_every_runs_once_a_minute_at_most() -> None:
    story = Story("@every 20s", created="00:00:07")
    for second in range(0, 180, 5):
        story.look(f"00:{second // 60:02}:{second % 60:02}")
    assert story.started == [stamp("00:00:27"), stamp("00:01:07"), stamp("00:02:07")]


# --- clocks that jump ------------------------------------------------------------------------------------------------
def test_a_clock_that_is_put_back_starts_nothing_twice() -> None:
    story = Story()
    for time in ("00:05", "00:10", "00:06", "00:10", "00:10:30"):
        story.look(time)
    assert story.started == [stamp("00:05"), stamp("00:10")]
    assert story.look("00:06").wake == at("00:15")


def test_a_clock_that_is_put_forward_starts_the_latest_run() -> None:
    story = Story()
    story.look("00:05")
    story.look("02:11")
    assert story.started == [stamp("00:05"), stamp("02:10")]


def test_a_last_run_far_ahead_is_told() -> None:
    story = Story()
    story.look("23:00")
    plan = story.look("01:00")
    assert (story.reason, plan.wake) == ("LastRunInFuture", at("23:05"))
    assert stamp("23:00") in story.message


# --- deadlines -------------------------------------------------------------------------------------------------------
def test_a_run_that_is_too_late_is_told_once_and_the_next_one_starts() -> None:
    story = Story(deadline=60)
    story.look("00:06:30")
    story.look("00:07")
    assert (story.started, story.told, story.reason) == ([], ["MissSchedule"], "MissSchedule")
    assert stamp("00:05") in story.message
    story.look("00:10:30")
    assert story.started == [stamp("00:10")]
    assert story.reason == ""


@pytest.mark.parametrize(("now", "started"), [("00:05:59", 1), ("00:06", 0)])
def test_the_deadline_is_exact(now: str, started: int) -> None:
    story = Story(deadline=60)
    story.look(now)
    assert len(story.started) == started


def test_a_deadline_beyond_all_dates_is_no_deadline() -> None:
    story = Story(deadline=2**62, created="00:00")
    story.look("00:05")
    assert len(story.started) == 1


# --- concurrency -----------------------------------------------------------------------------------------------------
def test_allow_lets_runs_stand_side_by_side() -> None:
    story = Story()
    story.look("00:05")
    story.look("00:10")
    assert story.active == [name_of("00:05"), name_of("00:10")]


def test_forbid_waits_for_the_end_and_starts_the_latest_then() -> None:
    story = Story(policy="Forbid")
    story.look("00:05")
    story.look("00:10")
    story.look("00:16")
    assert story.active == [name_of("00:05")] and story.reason == "JobAlreadyActive"
    assert stamp("00:15") in story.message and name_of("00:05") in story.message
    story.end("00:05", transition="00:17")
    story.look("00:17")
    assert story.started == [stamp("00:05"), stamp("00:15")]
    assert story.active == [name_of("00:15")]
    assert story.told.count("JobAlreadyActive") == 2
    assert not [note for note in story.notes if note.reason == "JobAlreadyActive" and note.warning]


def test_forbid_counts_a_job_that_is_being_deleted_until_it_is_gone() -> None:
    story = Story(policy="Forbid")
    story.look("00:05")
    story.job("00:05", deleting=True, uid=story.cron.status.active[0].uid)
    story.look("00:10")
    assert story.started == [stamp("00:05")]
    story.gone("00:05")
    story.look("00:10:01")
    assert story.started == [stamp("00:05"), stamp("00:10")]


def test_replace_deletes_what_runs_first() -> None:
    story = Story(policy="Replace")
    story.look("00:05")
    story.look("00:10")
    assert (story.deleted, story.active) == ([name_of("00:05")], [name_of("00:10")])
    assert "MissingJob" not in story.told


def test_replace_does_not_delete_twice_what_is_on_its_way_out() -> None:
    story = Story(policy="Replace")
    story.job("00:05", deleting=True)
    plan = story.once("00:10")
    assert plan.replace == () and plan.create is not None


def test_replace_leaves_an_ended_job_alone() -> None:
    story = Story(policy="Replace")
    story.look("00:05")
    story.end("00:05")
    story.look("00:10")
    assert story.deleted == []


# --- suspending ------------------------------------------------------------------------------------------------------
def test_a_suspended_cronjob_starts_nothing_and_still_sees_ends() -> None:
    story = Story()
    story.look("00:05")
    story.edit(suspend=True)
    story.end("00:05")
    plan = story.look("00:11")
    assert (story.started, story.active, story.reason, plan.wake) == ([stamp("00:05")], [], "Suspended", None)
    assert "Suspended" not in story.told


def test_a_resumed_cronjob_starts_the_latest_missed_run() -> None:
    story = Story(suspend=True)
    story.look("00:21")
    story.edit(suspend=False)
    story.look("00:22")
    assert story.started == [stamp("00:20")] and story.reason == ""


# --- ends ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("phase", "success"), [("Completed", stamp("00:07")), ("Failed", ""), ("Terminated", "")])
def test_an_ended_job_leaves_active(phase: str, success: str) -> None:
    story = Story()
    story.look("00:05")
    story.end("00:05", phase, transition="00:07")
    story.look("00:07:01")
    assert (story.active, story.told, story.cron.status.last_successful_time) == ([], ["SawCompletedJob"], success)


def test_an_aborted_job_may_be_resumed_and_stays_active() -> None:
    story = Story()
    story.look("00:05")
    story.end("00:05", "Aborted")
    story.look("00:06")
    assert story.active == [name_of("00:05")]


def test_a_job_deleted_by_hand_leaves_active_and_does_not_come_back() -> None:
    story = Story()
    story.look("00:05")
    story.gone("00:05")
    story.look("00:06")
    assert (story.active, story.told, len(story.started)) == ([], ["MissingJob"], 1)


def test_the_last_success_never_goes_back() -> None:
    story = Story()
    for minute in ("05", "10"):
        story.look(f"00:{minute}")
    story.end("00:10", transition="00:11")
    story.look("00:11")
    story.end("00:05", transition="00:10:30")
    story.look("00:12")
    assert story.cron.status.last_successful_time == stamp("00:11")


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_the_eldest_successes_above_the_limit_leave(limit: int) -> None:
    story = Story(keep_successful=limit)
    times = [f"00:{minute:02}" for minute in range(5, 40, 5)]
    for time in times:
        story.look(time)
        story.end(time)
        story.look(f"{time}:30")
    assert sorted(story.jobs) == [name_of(time) for time in times[len(times) - limit :]]
    assert len(story.started) == len(times)


def test_failures_have_a_limit_of_their_own_and_terminated_counts_as_failed() -> None:
    story = Story(keep_failed=1, keep_successful=0)
    for time, phase in (("00:05", "Failed"), ("00:10", "Terminated"), ("00:15", "Completed")):
        story.look(time)
        story.end(time, phase)
        story.look(f"{time}:30")
    assert list(story.jobs) == [name_of("00:10")]


def test_an_ended_job_stays_until_its_time_is_recorded() -> None:
    story = Story(keep_successful=0)
    story.job("00:05", "Completed", transition=stamp("00:06"))
    assert story.once("00:07").clean == ()
    assert story.once("00:07").status is not None
    story.look("00:07")
    assert (story.jobs, story.started) == ({}, [])


# --- strangers -------------------------------------------------------------------------------------------------------
def test_a_job_made_by_hand_is_told_and_not_counted() -> None:
    story = Story(policy="Forbid")
    made = story.job("by-hand", "Running")
    assert story.once("00:01").unexpected == (Mark(kinds.JOB, "by-hand", made.uid),)
    story.look("00:05")
    assert story.started == [stamp("00:05")]
    assert story.active == [name_of("00:05")]


def test_what_stood_in_the_way_is_told_and_tried_again() -> None:
    story = Story()
    story.refusal = Refusal(name_of("00:05"), "FailedCreate", "quota", again=at("00:05:30"))
    plan = story.look("00:05:10")
    assert (story.reason, story.message, plan.wake) == ("FailedCreate", "quota", at("00:05:30"))
    story.look("00:05:30")
    assert story.started == [stamp("00:05")]
    assert story.reason == ""


def test_the_refusal_of_one_run_does_not_hold_the_next() -> None:
    story = Story()
    story.refusal = Refusal(name_of("00:05"), "ForeignJob", "taken", again=at("01:00"))
    story.look("00:10")
    assert story.started == [stamp("00:10")]


# --- what is wrong with the CronJob ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("given", "reason", "field"),
    [
        ({"schedule": "61 * * * *"}, "InvalidSchedule", "spec.schedule"),
        ({"schedule": "TZ=UTC * * * * *"}, "InvalidSchedule", "spec.timeZone"),
        ({"schedule": "0 0 31 2 *"}, "InvalidSchedule", "never due"),
        ({"time_zone": "Mars/Olympus"}, "UnknownTimeZone", "spec.timeZone"),
        ({"time_zone": ""}, "UnknownTimeZone", "spec.timeZone"),
        ({"time_zone": "Local"}, "UnknownTimeZone", "spec.timeZone"),
        ({"policy": "Maybe"}, "InvalidSpec", "spec.concurrencyPolicy"),
        ({"deadline": -1}, "InvalidSpec", "spec.startingDeadlineSeconds"),
        ({"name": "x" * 53}, "InvalidName", "metadata.name"),
        ({"unreadable": "Expected `int`"}, "InvalidSpec", "spec"),
    ],
)
def test_a_cronjob_that_cannot_be_run_says_why_and_starts_nothing(given: dict[str, str], reason: str, field: str) -> None:
    story = Story()
    story.edit(**given)
    assert story.look("10:00").wake is None
    story.look("10:01")
    assert (story.started, story.reason, story.told) == ([], reason, [reason])
    assert field in story.message
    assert all(note.warning for note in story.notes)


def test_a_corrected_cronjob_says_so_and_runs() -> None:
    story = Story("nonsense")
    story.look("00:06")
    story.edit(schedule="*/5 * * * *")
    story.look("00:07")
    assert [(each.status, each.reason) for each in story.cron.status.conditions] == [("True", "Scheduled")]
    assert story.started == [stamp("00:05")]


def test_ends_are_recorded_also_when_the_schedule_is_wrong() -> None:
    story = Story()
    story.look("00:05")
    story.edit(schedule="nonsense")
    story.end("00:05")
    story.look("00:06")
    assert story.active == []


def test_of_a_cronjob_under_deletion_nothing_is_touched() -> None:
    story = Story()
    story.look("00:05")
    story.edit(deleting=True)
    plan = story.once("00:10")
    assert (plan.status, plan.create, plan.clean, plan.replace) == (None, None, (), ())


# --- reading ---------------------------------------------------------------------------------------------------------
def test_the_projection_takes_defaults_for_what_is_not_said() -> None:
    view = project_cron(
        b'{"metadata": {"name": "tick", "creationTimestamp": "2026-03-02T00:00:00Z"}, "spec": {"schedule": "@daily"}}'
    )
    assert (view.policy, view.suspend, view.keep_successful, view.keep_failed, view.deadline) == ("Allow", False, 3, 1, None)
    assert view.created == datetime.datetime(2026, 3, 2, tzinfo=datetime.UTC)


def test_a_spec_that_cannot_be_read_has_a_view_that_says_so() -> None:
    view = project_cron(b'{"metadata": {"name": "tick"}, "spec": {"schedule": 5}}')
    assert "schedule" in view.unreadable


def test_a_job_that_cannot_be_read_stays_active() -> None:
    from controllers.cron.planner import plan
    from controllers.cron.snapshot import CronSnapshot

    story = Story()
    story.edit(status=CronStatus(active=[Reference(name="broken", uid="u")]))
    made = plan(CronSnapshot(cron=story.cron, unreadable=frozenset({"broken"})), now=at("00:01"))
    assert (made.status, made.notes) == (None, ())
