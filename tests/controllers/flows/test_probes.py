"""A step may begin before its targets have completed, when their pods say that they are ready."""

from __future__ import annotations

from controllers.flows.planner import FlowPlan
from tests.controllers.flows.stories import Story, made, told


def _server(probe: str) -> Story:
    story = told(f"flows: [{{name: server}}, {{name: client, dependsOn: {{targets: [server], probe: {probe}}}}}]")
    story.look()
    return story


def _runs(story: Story, **phases: int) -> FlowPlan:
    story.job("server", "Running", task_status_count={"main": {"phase": phases}})
    return story.look()


def test_a_task_status_lets_a_step_begin_when_all_pods_of_the_task_are_there() -> None:
    story = _server("{taskStatusList: [{taskName: main, phase: Running}]}")
    assert made(_runs(story, Running=1, Pending=1)) == []
    assert story.status.state.reason == "WaitingForProbe"
    assert "pods of task main are not all Running" in story.status.state.message
    assert made(_runs(story, Running=2)) == ["client"]


def test_pods_are_asked_and_the_step_begins_when_they_answer() -> None:
    story = _server("{httpGetList: [{taskName: main, port: 8080, path: /ready}]}")
    plan = _runs(story, Running=1)
    assert [(each.step, each.jobs) for each in plan.probes] == [("client", ("flow-server",))]
    story.reached = frozenset({"client"})
    assert made(story.look()) == ["client"]


def test_a_target_that_completes_needs_no_answer() -> None:
    story = _server("{tcpSocketList: [{port: 8080}]}")
    story.job("server", "Completed")
    assert made(story.look()) == ["client"]


def test_a_target_that_failed_is_never_reached() -> None:
    story = _server("{tcpSocketList: [{port: 8080}]}")
    story.job("server", "Failed")
    assert story.look().probes == ()
    assert story.phase == "Failed"


def test_nobody_is_asked_while_task_statuses_do_not_hold() -> None:
    story = _server("{taskStatusList: [{phase: Running}], tcpSocketList: [{port: 8080}]}")
    assert _runs(story, Pending=1).probes == ()
    assert len(_runs(story, Running=1).probes) == 1
