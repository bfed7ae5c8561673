"""What people get wrong, or the world does: a flow says what it waits for, and ends when it is told to; no step is lost."""

from __future__ import annotations

from controllers.flows.steps import MAX_OUTPUTS
from tests.controllers.flows.stories import made, told


def test_a_template_that_never_appears_holds_up_its_branch_alone_and_the_deadline_ends_it() -> None:
    story = told("""
deadline: 1h
flows:
  - {name: never}
  - {name: behind, dependsOn: {targets: [never]}}
  - {name: beside}
""")
    story._templates = frozenset({"beside", "behind"})
    assert made(story.look()) == ["beside"]
    story.job("beside", "Completed")
    story.look()
    assert (story.status.state.reason, story.status.state.message) == ("WaitingForTemplate", "waiting for JobTemplate never")
    story.passes(3601)
    assert made(story.look()) == []
    assert (story.phase, story.status.state.reason) == ("Failed", "DeadlineExceeded")
    assert story.state("beside") == "Completed"


def test_a_probe_that_never_answers_waits_for_the_end_of_its_target() -> None:
    story = told(
        "flows: [{name: server}, {name: client, dependsOn: {targets: [server], probe: {tcpSocketList: [{port: 80}]}}}]"
    )
    story.look()
    story.job("server", "Running", task_status_count={"main": {"phase": {"Running": 1}}})
    for _ in range(3):
        story.passes(600)
        assert made(story.look()) == []
        assert story.status.state.reason == "WaitingForProbe"
    story.job("server", "Completed")
    assert made(story.look()) == ["client"]


def test_a_probe_that_points_at_no_task_of_its_target_is_told_and_never_holds() -> None:
    probe = "{taskStatusList: [{taskName: elsewhere, phase: Running}]}"
    story = told(f"flows: [{{name: server}}, {{name: client, dependsOn: {{targets: [server], probe: {probe}}}}}]")
    story.look()
    story.job("server", "Running", task_status_count={"main": {"phase": {"Running": 1}}})
    assert made(story.look()) == []
    assert "pods of task elsewhere are not all Running" in story.status.state.message
    story.job("server", "Failed")
    story.look()
    assert story.phase == "Failed"


def test_results_that_are_too_large_together_fail_their_step_and_name_the_limit() -> None:
    names = [f"o{number}" for number in range(5)]
    listed = ", ".join(f"{{name: {name}}}" for name in names)
    story = told(f"flows: [{{name: a, outputs: [{listed}]}}, {{name: b, dependsOn: {{targets: [a]}}}}]")
    story.look()
    story.job("a", "Completed", outputs={name: "x" * 1000 for name in names})
    assert made(story.look()) == []
    assert f"5000 bytes together, at most {MAX_OUTPUTS} are kept" in story.status.state.message


def test_a_flow_that_is_deleted_in_the_middle_begins_nothing_and_records_what_ends() -> None:
    story = told("flows: [{name: a}, {name: b, dependsOn: {targets: [a]}}]")
    story.look()
    story.job("a", "Running")
    story.look()
    story.deleting = True
    story.job("a", "Completed", deleting=True)
    plan = story.look()
    assert (made(plan), plan.release, story.phase) == ([], ("flow-a",), "Terminating")
