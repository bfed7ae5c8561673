"""One step, many Jobs; values that steps leave for later ones."""

from __future__ import annotations

import json

import pytest

from policies.flows.spec import MAX_ITEMS
from tests.controllers.flows.stories import Story, jobs, made, told

SWEEP = """
flows:
- {name: prepare, outputs: [{name: shards}]}
- name: train
  dependsOn: {targets: [prepare]}
  with: {items: [{lr: 0.1}, {lr: 0.2}, {lr: 0.3}]}
  parameters: [{name: lr, value: "{{item.lr}}"}, {name: shards, value: "{{steps.prepare.outputs.shards}}"}]
  outputs: [{name: loss}]
- {name: pick, dependsOn: {targets: [train]}, parameters: [{name: losses, value: "{{steps.train.outputs.loss}}"}]}
"""


def test_every_item_is_a_job_with_its_own_values_and_the_next_step_gets_them_all() -> None:
    story = told(SWEEP)
    story.look()
    story.job("prepare", "Completed", outputs={"shards": "12"})
    plan = story.look()
    assert jobs(plan) == ["flow-train-0", "flow-train-1", "flow-train-2"]
    assert [dict(item.parameters) for item in plan.create] == [{"lr": lr, "shards": "12"} for lr in ("0.1", "0.2", "0.3")]
    for index, loss in enumerate(("5", "3", "4")):
        story.job(f"train-{index}", "Completed", outputs={"loss": loss})
    plan = story.look()
    assert made(plan) == ["pick"]
    assert plan.create[0].parameters == {"losses": '["5","3","4"]'}


def test_items_are_taken_from_an_output_and_stay_what_they_were() -> None:
    story = told(
        "flows: [{name: list, outputs: [{name: days}]},"
        " {name: day, template: report, dependsOn: {targets: [list]}, with: {fromOutput: list.days}}]"
    )
    story.look()
    story.job("list", "Completed", outputs={"days": '["mon","tue"]'})
    assert jobs(story.look()) == ["flow-day-0", "flow-day-1"]
    assert story.status.items == {"day": ["mon", "tue"]}
    story.gone("list")
    story.job("day-0", "Completed")
    story.job("day-1", "Completed")
    story.look()
    assert story.phase == "Succeed"


@pytest.mark.parametrize(
    ("left", "said"),
    [
        ('{"a": 1}', "is no list"),
        ("mon,tue", "is no JSON"),
        (json.dumps(list(range(MAX_ITEMS + 1)))[: 1 << 10], "is no JSON"),
    ],
)
def test_an_output_that_is_no_list_of_items_fails_the_step_with_a_word(left: str, said: str) -> None:
    story = told(
        "flows: [{name: list, outputs: [{name: days}]},"
        " {name: day, dependsOn: {targets: [list]}, with: {fromOutput: list.days}}]"
    )
    story.look()
    story.job("list", "Completed", outputs={"days": left})
    story.look()
    assert story.state("day") == "Failed"
    assert said in story.message("day")
    assert story.phase == "Failed"


def test_no_items_is_a_step_that_is_skipped() -> None:
    story = told("flows: [{name: a, with: {items: []}}, {name: b, dependsOn: {targets: [a]}}]")
    assert made(story.look()) == ["b"]
    assert (story.state("a"), story.message("a")) == ("Skipped", "there are no items")


def test_only_so_many_items_run_at_once() -> None:
    story = told("flows: [{name: a, with: {items: [1, 2, 3], maxParallel: 2}}]")
    assert jobs(story.look()) == ["flow-a-0", "flow-a-1"]
    story.job("a-0", "Completed")
    assert jobs(story.look()) == ["flow-a-2"]


def test_after_a_failed_item_no_other_begins_and_those_that_run_end() -> None:
    story = told("flows: [{name: a, with: {items: [1, 2, 3], maxParallel: 2}}]")
    story.look()
    story.job("a-0", "Failed")
    story.job("a-1", "Running")
    assert jobs(story.look()) == []
    assert story.phase == "Running"
    story.job("a-1", "Completed")
    story.look()
    assert story.phase == "Failed"


def test_with_continue_the_other_items_run_and_the_flow_succeeds() -> None:
    story = told("flows: [{name: a, failurePolicy: Continue, with: {items: [1, 2, 3], maxParallel: 1}}, {name: b}]")
    story.look()
    story.job("b", "Completed")
    for index, phase in enumerate(("Failed", "Completed", "Completed")):
        story.job(f"a-{index}", phase)
        story.look()
    assert story.phase == "Succeed"


def _leaves(**outputs: str) -> Story:
    story = told("flows: [{name: a, outputs: [{name: x}]}]")
    story.look()
    story.job("a", "Completed", outputs=outputs)
    story.look()
    return story


def test_a_value_that_was_not_left_fails_the_step() -> None:
    assert "it left no output x" in _leaves().status.state.message


def test_a_value_that_is_too_large_fails_the_step_and_names_the_limit() -> None:
    assert "its output x has 1025 bytes, at most 1024 are kept" in _leaves(x="y" * 1025).status.state.message


def test_a_value_is_recorded_with_the_end_of_its_step() -> None:
    assert _leaves(x="42").status.job_status_list[0].outputs == {"x": "42"}
