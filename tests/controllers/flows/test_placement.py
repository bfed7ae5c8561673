"""Where steps ran is recorded, and steps that read from them say so to whoever places their Jobs."""

from __future__ import annotations

from typing import Any

from apis import keys
from controllers.flows.bodies import job_body
from tests.controllers.flows.stories import Story, told


def notes(story: Story, **template: str) -> dict[str, dict[str, Any]]:
    """Annotations of the Jobs that the next look makes, by Job; those of the template are given."""
    given = {"metadata": {"annotations": {f"{keys.GROUP}/{name}": value for name, value in template.items()}}, "spec": {}}
    flow = story.snapshot().flow
    return {job.job: job_body(flow, job, template=given)["metadata"]["annotations"] for job in story.look().create}


def test_the_clusters_of_a_step_and_the_reason_are_recorded_and_outlive_its_binding() -> None:
    story = Story("a", "b after a")
    story.look()
    story.job("a", "Running")
    story.sent("a", "east", why="of 5Gi that it reads 5Gi are in east (images)")
    story.look()
    story.places.clear()
    story.job("a", "Completed")
    story.look()
    record = story.status.job_status_list[0]
    assert (record.clusters, record.placement) == (["east"], "of 5Gi that it reads 5Gi are in east (images)")


def test_a_job_that_is_sent_elsewhere_moves_the_record() -> None:
    story = Story("a")
    story.job("a", "Running")
    story.sent("a", "east")
    story.look()
    story.sent("a", "west")
    story.look()
    assert story.status.job_status_list[0].clusters == ["west"]


def test_a_step_reads_what_its_template_says_where_its_target_ran() -> None:
    story = Story("a", "b after a")
    story.job("a", "Completed")
    story.sent("a", "east")
    found = notes(story, reads="a=50Gi,images")
    assert found["flow-b"][keys.READS] == f"a@east={50 << 30},images"


def test_a_target_that_says_how_much_it_left_is_read_unasked() -> None:
    story = told("""
flows:
  - {name: a, outputs: [{name: bytes}]}
  - {name: b, dependsOn: {targets: [a]}}
""")
    story.job("a", "Completed", outputs={"bytes": "3Gi"})
    story.sent("a", "east")
    assert notes(story)["flow-b"][keys.READS] == f"a@east={3 << 30}"


def test_what_a_fan_out_left_is_read_where_each_of_its_jobs_ran() -> None:
    story = told("""
flows:
  - {name: a, with: {items: [1, 2, 3]}, outputs: [{name: bytes}]}
  - {name: b, dependsOn: {targets: [a]}}
""")
    for index, cluster in enumerate(("east", "west", "east")):
        story.job(f"a-{index}", "Completed", outputs={"bytes": "10"})
        story.sent(f"a-{index}", cluster)
    assert notes(story)["flow-b"][keys.READS] == "a@east=20,a@west=10"


def test_where_nobody_knows_where_targets_ran_nothing_is_said() -> None:
    story = Story("a", "b after a")
    story.job("a", "Completed")
    assert keys.READS not in notes(story)["flow-b"]


def test_jobs_say_how_long_the_path_ahead_is_and_the_longest_is_made_first() -> None:
    story = Story("leaf", "trunk", "middle after trunk", "top after middle")
    found = notes(story)
    assert list(found) == ["flow-trunk", "flow-leaf"]
    assert [each[keys.PATH_AHEAD] for each in found.values()] == ["3", "1"]
