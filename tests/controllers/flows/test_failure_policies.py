"""What a failure, or a condition that does not hold, means for the others."""

from __future__ import annotations

from tests.controllers.flows.stories import made, told


def test_fail_lets_independent_branches_end_and_fails_the_flow() -> None:
    story = told("flows: [{name: a}, {name: b, dependsOn: {targets: [a]}}, {name: c}]")
    story.look()
    story.job("a", "Failed")
    story.job("c", "Running")
    assert made(story.look()) == []
    assert story.phase == "Running"
    story.job("c", "Completed")
    story.look()
    assert story.phase == "Failed"
    assert "not started because of it: b" in story.status.state.message


def test_continue_lets_what_waits_for_it_run_and_the_flow_succeed() -> None:
    story = told("flows: [{name: a, failurePolicy: Continue}, {name: b, dependsOn: {targets: [a]}}]")
    story.look()
    story.job("a", "Failed")
    assert made(story.look()) == ["b"]
    story.job("b", "Completed")
    story.look()
    assert story.phase == "Succeed"
    assert story.status.failed_jobs == ["flow-a"]


def test_skip_dependents_leaves_out_all_that_wait_for_it_and_the_flow_succeeds() -> None:
    story = told(
        "flows: [{name: a, failurePolicy: SkipDependents}, {name: b, dependsOn: {targets: [a]}},"
        " {name: c, dependsOn: {targets: [b]}}, {name: d}]"
    )
    story.look()
    story.job("a", "Failed")
    story.job("d", "Completed")
    assert made(story.look()) == []
    assert [story.state(step) for step in "bc"] == ["Skipped", "Skipped"]
    assert "step a failed" in story.message("b")
    assert story.phase == "Succeed"


def test_a_step_whose_condition_does_not_hold_is_skipped_and_what_waits_for_it_runs() -> None:
    story = told(
        "flows: [{name: evaluate, outputs: [{name: accuracy}]},"
        " {name: publish, dependsOn: {targets: [evaluate]}, when: 'double(targets.evaluate.outputs.accuracy) >= 0.9'},"
        " {name: clean, dependsOn: {targets: [publish]}}]"
    )
    story.look()
    story.job("evaluate", "Completed", outputs={"accuracy": "0.7"})
    assert made(story.look()) == ["clean"]
    assert story.state("publish") == "Skipped"
    story.job("clean", "Completed")
    story.look()
    assert story.phase == "Succeed"


def test_a_step_whose_condition_holds_runs() -> None:
    story = told(
        "flows: [{name: evaluate, outputs: [{name: accuracy}]},"
        " {name: publish, dependsOn: {targets: [evaluate]}, when: 'double(targets.evaluate.outputs.accuracy) >= 0.9'}]"
    )
    story.look()
    story.job("evaluate", "Completed", outputs={"accuracy": "0.93"})
    assert made(story.look()) == ["publish"]


def test_a_condition_may_ask_how_a_tolerated_step_ended() -> None:
    story = told(
        "flows: [{name: a, failurePolicy: Continue},"
        " {name: mend, dependsOn: {targets: [a]}, when: 'targets.a.state == \"Failed\"'}]"
    )
    story.look()
    story.job("a", "Failed")
    assert made(story.look()) == ["mend"]


def test_a_condition_without_an_answer_fails_the_step_and_says_why() -> None:
    story = told("flows: [{name: a}, {name: b, dependsOn: {targets: [a]}, when: 'targets.a.outputs.x == \"1\"'}]")
    story.look()
    story.job("a", "Completed")
    story.look()
    assert story.state("b") == "Failed"
    assert "names 'x', which is not there" in story.message("b")


def test_exit_handlers_run_after_a_failure_and_know_what_the_steps_came_to() -> None:
    story = told(
        "{flows: [{name: a}], onExit: [{name: tell, when: 'flow.outcome == \"Failed\"'},"
        " {name: cheer, when: 'flow.outcome == \"Succeed\"'}]}"
    )
    story.look()
    story.job("a", "Failed")
    assert made(story.look()) == ["tell"]
    assert (story.phase, story.status.state.reason) == ("Running", "ExitHandlers")
    assert story.state("cheer") == "Skipped"
    story.job("tell", "Completed")
    story.look()
    assert (story.phase, story.status.state.reason) == ("Failed", "StepFailed")


def test_a_failed_exit_handler_fails_a_flow_whose_steps_all_completed() -> None:
    story = told("{flows: [{name: a}], onExit: [{name: tell}]}")
    story.look()
    story.job("a", "Completed")
    story.look()
    story.job("tell", "Failed")
    story.look()
    assert (story.phase, story.status.state.reason) == ("Failed", "ExitHandlerFailed")


def test_a_deadline_is_over_before_the_exit_handlers_begin_and_does_not_cut_them() -> None:
    story = told("{deadline: 1h, flows: [{name: a}], onExit: [{name: tell}]}")
    story.look()
    story.job("a", "Running")
    story.passes(3600)
    assert made(story.look()) == ["tell"]
    story.job("tell", "Running")
    story.passes(3600)
    assert story.look().delete == ()
    story.job("tell", "Completed")
    story.look()
    assert (story.phase, story.status.state.reason) == ("Failed", "DeadlineExceeded")


def test_a_suspended_flow_lets_run_what_runs_and_begins_nothing() -> None:
    story = told("flows: [{name: a}, {name: b, dependsOn: {targets: [a]}}]")
    story.look()
    story.edit(suspend=True)
    story.job("a", "Completed")
    assert made(story.look()) == []
    assert (story.phase, story.status.state.reason) == ("Running", "Suspended")
    story.edit(suspend=False)
    assert made(story.look()) == ["b"]


def test_a_suspended_flow_with_a_failure_is_not_over_while_a_branch_could_go_on() -> None:
    story = told("flows: [{name: a}, {name: b}, {name: c, dependsOn: {targets: [b]}}]")
    story.look()
    story.edit(suspend=True)
    story.job("a", "Failed")
    story.job("b", "Completed")
    story.look()
    assert story.phase == "Running"
    story.edit(suspend=False)
    assert made(story.look()) == ["c"]


def test_where_places_are_few_the_step_with_the_longest_way_ahead_goes_first() -> None:
    story = told("{maxParallel: 1, flows: [{name: short}, {name: long}, {name: next, dependsOn: {targets: [long]}}]}")
    assert made(story.look()) == ["long"]
    assert story.status.state.reason == "MaxParallel"
    story.job("long", "Completed")
    assert made(story.look()) == ["short"]


def test_resuming_runs_failed_steps_and_what_waits_for_them_and_nothing_else() -> None:
    story = told("flows: [{name: a}, {name: b}, {name: c, dependsOn: {targets: [a]}}, {name: d, dependsOn: {targets: [b]}}]")
    story.look()
    story.job("a", "Completed")
    story.job("b", "Failed")
    story.look()
    story.job("c", "Completed")
    story.look()
    assert story.phase == "Failed"
    story.resume("again")
    assert story.look().status is not None
    assert story.phase == "Running"
    assert made(story.look()) == []  # its old Job goes first
    assert made(story.look()) == ["b"]
    story.job("b", "Completed")
    assert made(story.look()) == ["d"]
    story.job("d", "Completed")
    story.look()
    assert story.phase == "Succeed"
    assert story.look().status is None  # the same request is carried out once


def test_resuming_from_a_named_step_runs_completed_steps_again() -> None:
    story = told("flows: [{name: a}, {name: b, dependsOn: {targets: [a]}}]")
    story.look()
    story.job("a", "Completed")
    story.look()
    story.job("b", "Completed")
    story.look()
    assert story.phase == "Succeed"
    story.resume("again", "b")
    story.look()
    story.look()
    assert made(story.look()) == ["b"]
    assert story.state("a") == "Completed"
