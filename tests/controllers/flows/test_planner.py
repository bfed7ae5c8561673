"""What a flow does next, told as stories."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.flows.planner import plan
from controllers.flows.snapshot import FlowStatus
from tests.controllers.flows.stories import NOW, FakeJob, Story, made, told


def test_a_diamond_runs_in_dependency_order_and_succeeds() -> None:
    story = Story("a", "b after a", "c after a", "d after b and c")
    assert made(story.look()) == ["a"]
    story.job("a", "Running")
    assert made(story.look()) == []
    assert story.phase == "Running"
    story.job("a", "Completed")
    assert made(story.look()) == ["b", "c"]
    story.job("b", "Completed")
    story.job("c", "Running")
    assert made(story.look()) == []
    story.job("c", "Completed")
    assert made(story.look()) == ["d"]
    story.job("d", "Completed")
    story.look()
    assert story.phase == "Succeed"
    assert story.status.completed_jobs == ["flow-a", "flow-b", "flow-c", "flow-d"]


def test_nothing_is_written_when_nothing_has_changed() -> None:
    story = Story("a", "b after a")
    story.job("a", "Running")
    story.look()
    again = story.look()
    assert again.status is None
    assert not again.create


def test_an_end_is_in_the_status_of_the_same_plan_that_starts_what_waits_for_it() -> None:
    story = Story("a", "b after a")
    story.job("a", "Completed")
    step = story.look()
    assert made(step) == ["b"]
    assert step.status is not None
    assert step.status.job_status_list[0].end_timestamp is not None


def test_a_completed_step_whose_job_is_deleted_stays_finished() -> None:
    story = Story("a", "b after a")
    story.job("a", "Completed")
    story.look()
    story.gone("a")
    story.job("b", "Running")
    assert made(story.look()) == []
    story.job("b", "Completed")
    story.look()
    assert story.phase == "Succeed"


def test_an_end_seen_only_in_the_deletion_of_the_job_counts() -> None:
    story = Story("a", "b after a")
    story.look()
    story.gone("a")
    story.ended["flow-a"] = FakeJob(name="flow-a", phase="Completed")
    assert made(story.look()) == ["b"]


def test_a_job_deleted_before_its_end_is_made_again() -> None:
    story = Story("a")
    story.job("a", "Running")
    story.look()
    story.gone("a")
    assert made(story.look()) == ["a"]


def test_a_succeeded_flow_makes_nothing_again_when_its_jobs_are_deleted() -> None:
    story = Story("a")
    story.job("a", "Completed")
    story.look()
    story.gone("a")
    assert made(story.look()) == []
    assert story.phase == "Succeed"


@pytest.mark.parametrize("end", ["Failed", "Terminated"])
def test_after_a_failure_independent_branches_go_on_and_the_flow_fails_at_the_end(end: str) -> None:
    story = Story("a", "b", "after-a after a", "after-b after b")
    story.look()
    story.job("a", end)
    story.job("b", "Completed")
    assert made(story.look()) == ["after-b"]
    assert story.phase == "Running"
    assert "after-a" in story.status.state.message
    story.job("after-b", "Completed")
    story.look()
    assert story.phase == "Failed"
    assert story.status.state.reason == "StepFailed"
    assert f"a is {end}" in story.status.state.message


def test_a_missing_template_is_waited_for_and_named() -> None:
    story = Story("a", "b after a", templates="a")
    story.job("a", "Completed")
    assert made(story.look()) == []
    assert story.status.state.message == "waiting for JobTemplate b"
    story.template("b")
    assert made(story.look()) == ["b"]
    assert story.status.state.message == ""


def test_a_cycle_fails_the_flow_and_is_named_step_by_step() -> None:
    story = Story("a after c", "b after a", "c after b")
    assert made(story.look()) == []
    assert story.phase == "Failed"
    assert story.status.state.message == "spec.flows: jobflow Flow is not DAG: a -> b -> c -> a"


def test_an_unknown_target_fails_the_flow_and_names_the_field() -> None:
    story = Story("a", "b after ghost")
    assert made(story.look()) == []
    assert story.phase == "Failed"
    assert story.status.state.reason == "Invalid"
    assert "spec.flows[1].dependsOn.targets[0]" in story.status.state.message
    assert "vertex is not defined" in story.status.state.message


def test_a_job_that_the_api_server_refuses_fails_its_step_and_nothing_else() -> None:
    story = Story("good", "bad", "later after bad", "next after good")
    story.refused["flow-bad"] = "spec.minAvailable: Invalid value: -1"
    assert made(story.look()) == ["good"]
    story.job("good", "Completed")
    assert made(story.look()) == ["next"]
    story.job("next", "Completed")
    story.look()
    assert story.phase == "Failed"
    assert "spec.minAvailable" in story.status.state.message


def test_a_name_taken_by_a_stranger_is_waited_for() -> None:
    story = Story("a")
    story.foreign = frozenset({"flow-a"})
    assert made(story.look()) == []
    assert story.status.state.reason == "NameTaken"


def test_retain_policy_delete_removes_the_jobs_of_a_succeeded_flow() -> None:
    story = Story("a", retain=False)
    story.deletes = False
    story.job("a", "Completed")
    step = story.look()
    assert story.phase == "Succeed"
    assert step.delete == (("flow-a", "job-uid"),)
    assert story.look().delete == (("flow-a", "job-uid"),), "asked again until the Job is gone"


def test_a_flow_under_deletion_starts_nothing() -> None:
    story = Story("a", "b after a")
    story.job("a", "Completed")
    story.deleting = True
    assert made(story.look()) == []
    assert story.phase == "Terminating"


PHASES = st.sampled_from(["", "Pending", "Running", "Restarting", "Aborted", "Completed", "Failed", "Terminated"])


@given(
    edges=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12),
    phases=st.dictionaries(st.integers(0, 6), PHASES),
)
def test_law_no_step_starts_before_its_targets_are_completed(edges: list[tuple[int, int]], phases: dict[int, str]) -> None:
    targets: dict[int, set[int]] = {step: set() for step in range(7)}
    for one, other in edges:
        if one != other:
            targets[max(one, other)].add(min(one, other))  # always a DAG
    story = Story(
        *(f"s{step} after {' and '.join(f's{t}' for t in sorted(ts))}" if ts else f"s{step}" for step, ts in targets.items())
    )
    for step, phase in phases.items():
        story.job(f"s{step}", phase)
    snapshot = story.snapshot()
    first, second = plan(snapshot, now=NOW), plan(snapshot, now=NOW)
    assert first == second
    for item in first.create:
        step = int(item.step[1:])
        assert step not in phases
        assert all(phases.get(target) == "Completed" for target in targets[step])


@given(phases=st.lists(PHASES, min_size=3, max_size=3))
def test_law_a_recorded_end_never_changes(phases: list[str]) -> None:
    story = Story("a")
    ends: list[str] = []
    for phase in phases:
        story.job("a", phase)
        story.look()
        ends += [status.state for status in story.status.job_status_list if status.end_timestamp]
    assert len(set(ends)) <= 1


def test_the_status_survives_the_wire() -> None:
    story = Story("a", "b after a")
    story.job("a", "Completed")
    written = story.look().status
    assert msgspec.json.decode(msgspec.json.encode(written), type=FlowStatus) == written


def test_a_job_that_was_made_and_is_not_seen_yet_takes_a_place_and_is_not_made_again() -> None:
    story = told("""
maxParallel: 2
flows: [{name: a}, {name: b}, {name: c}]
""")
    assert made(story.look()) == ["a", "b"]
    seen = replace(story.snapshot(), jobs={}, made=frozenset({"flow-a", "flow-b"}))
    assert made(plan(seen, now=NOW)) == []
    one = replace(seen, made=frozenset({"flow-a"}))
    assert made(plan(one, now=NOW)) == ["b"]


def test_jobs_may_come_before_the_status_only_where_every_new_end_can_be_seen_again() -> None:
    story = Story("a", "b after a")
    story.job("a", "Completed")
    assert plan(story.snapshot(), now=NOW).sure
    story.gone("a")
    story.ended["flow-a"] = FakeJob("flow-a", "Completed")
    decided = plan(story.snapshot(), now=NOW)
    assert made(decided) == ["b"] and not decided.sure
