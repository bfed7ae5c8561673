"""Steps that are tried again, and steps that take too long."""

from __future__ import annotations

from tests.controllers.flows.stories import FakeJob, jobs, made, told


def test_a_failed_step_is_tried_again_after_its_back_off_and_what_waits_for_it_waits() -> None:
    story = told("flows: [{name: a, retry: {limit: 2, backoff: 30s}}, {name: b, dependsOn: {targets: [a]}}]")
    story.look()
    story.job("a", "Failed")
    plan = story.look()
    assert plan.delete == (("flow-a", "job-1"),)
    assert plan.wakes == 30.0
    assert story.state("a") == "Retrying"
    assert story.status.state.reason == "Retrying"
    assert made(story.look()) == []
    story.passes(30)
    assert made(story.look()) == ["a"]
    story.job("a", "Completed")
    assert made(story.look()) == ["b"]
    assert story.status.job_status_list[0].attempt == 2


def test_the_back_off_doubles_and_the_last_attempt_is_the_end() -> None:
    story = told("flows: [{name: a, retry: {limit: 2, backoff: 30s}}]")
    pauses = []
    for _ in range(3):
        story.look()
        story.job("a", "Failed")
        pauses.append(story.look().wakes)
        story.passes(pauses[-1] or 0)
    assert pauses == [30.0, 60.0, None]
    assert story.phase == "Failed"
    assert story.state("a") == "Failed"
    assert story.status.job_status_list[0].attempt == 3


def test_the_next_attempt_waits_until_the_job_before_it_is_gone() -> None:
    story = told("flows: [{name: a, retry: {limit: 1, backoff: 1s}}]")
    story.deletes = False
    story.look()
    story.job("a", "Failed")
    story.look()
    story.passes(60)
    assert story.look().delete == (("flow-a", "job-1"),)
    assert made(story.look()) == []
    story.gone("a")
    assert made(story.look()) == ["a"]


def test_the_failure_of_the_attempt_before_is_not_taken_for_the_end_of_this_one() -> None:
    """The controller remembers ends of Jobs that vanished; it may still hold that of the attempt before."""
    story = told("flows: [{name: a, retry: {limit: 1, backoff: 1s}}]")
    story.look()
    story.job("a", "Failed")
    story.look()
    story.ended["flow-a"] = FakeJob(name="flow-a", phase="Failed", uid="job-1")
    story.passes(1)
    assert made(story.look()) == ["a"]
    assert story.phase != "Failed"


def test_an_attempt_that_takes_too_long_is_ended_and_says_so() -> None:
    story = told("flows: [{name: a, timeout: 10m}]")
    story.look()
    story.job("a", "Running")
    assert story.look().wakes == 600.0
    story.passes(600)
    assert story.look().delete == (("flow-a", "job-1"),)
    assert story.phase == "Failed"
    assert "did not end within 10m" in story.status.state.message


def test_a_step_that_took_too_long_is_tried_again_where_attempts_are_left() -> None:
    story = told("flows: [{name: a, timeout: 10m, retry: {limit: 1, backoff: 5s}}]")
    story.look()
    story.job("a", "Running")
    story.passes(600)
    story.look()
    assert story.state("a") == "Retrying"
    story.passes(5)
    assert made(story.look()) == ["a"]


def test_a_job_that_a_person_starts_again_after_its_end_is_left_to_run() -> None:
    story = told("flows: [{name: a}, {name: b}]")
    story.look()
    story.job("a", "Failed")
    story.look()
    story.job("a", "Running")
    assert story.look().delete == ()
    assert story.state("a") == "Failed"


def test_a_deadline_ends_what_lives_and_starts_nothing_more() -> None:
    story = told("{deadline: 1h, flows: [{name: a, retry: {limit: 3}}, {name: b, dependsOn: {targets: [a]}}]}")
    story.look()
    story.job("a", "Running")
    story.look()
    story.passes(3600)
    plan = story.look()
    assert plan.delete == (("flow-a", "job-1"),)
    assert jobs(plan) == []
    assert (story.phase, story.status.state.reason) == ("Failed", "DeadlineExceeded")
    assert story.status.ended_at == story.now


def test_a_flow_goes_when_its_ttl_is_over() -> None:
    story = told("{ttl: 1h, flows: [{name: a}]}")
    story.look()
    story.job("a", "Completed")
    story.look()
    assert story.look().wakes == 3600.0
    story.passes(3600)
    assert story.look().remove
