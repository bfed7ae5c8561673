"""A CronJob that makes JobFlows: the rules for Jobs, said of flows."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from apis import kinds
from apis.cron import CronJob
from apis.kinds import Kind
from controllers.admission import validate_cron_job
from controllers.cron.applier import SCHEDULED
from controllers.cron.planner import Mark
from controllers.cron.snapshot import project_cron
from controllers.flows.snapshot import project_flow
from tests.controllers.cron.stories import Story, at, name_of

Doc = dict[str, Any]

FLOW: Doc = {"flows": [{"name": "load"}, {"name": "write", "dependsOn": {"targets": ["load"]}}]}
JOB: Doc = {"tasks": [{"name": "t", "replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}]}


def cron(**spec: Any) -> bytes:
    meta = {"name": "tick", "namespace": "team", "uid": "u", "creationTimestamp": "2026-03-02T00:00:00Z"}
    return orjson.dumps({"metadata": meta, "spec": {"schedule": "* * * * *", **spec}})


# --- which of the two ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("spec", "makes"),
    [
        ({"jobTemplate": {"spec": JOB}}, kinds.JOB),
        ({"flowTemplate": {"spec": FLOW}}, kinds.JOB_FLOW),
        ({"jobTemplate": {"spec": JOB}, "flowTemplate": None}, kinds.JOB),
    ],
)
def test_the_template_that_is_written_says_what_is_made(spec: Doc, makes: Kind) -> None:
    seen = project_cron(cron(**spec))
    assert (seen.makes, seen.unreadable) == (makes, "")


@pytest.mark.parametrize("spec", [{}, {"jobTemplate": {"spec": JOB}, "flowTemplate": {"spec": FLOW}}])
def test_none_or_both_are_refused_at_the_door_and_by_the_controller(spec: Doc) -> None:
    story = Story()
    story.edit(unreadable=project_cron(cron(**spec)).unreadable)
    story.look("00:05")
    assert (story.started, story.reason) == ([], "InvalidSpec")
    assert "exactly one of jobTemplate and flowTemplate" in story.message
    (problem,) = validate_cron_job(CronJob.read(cron(**spec)))
    assert (problem.field, problem.message) == ("spec", "exactly one of jobTemplate and flowTemplate should be specified")


def test_where_the_served_kind_has_no_flow_template_the_reason_says_so() -> None:
    """A server that does not know the field drops it: what is left has no template at all."""
    story = Story()
    story.edit(unreadable=project_cron(cron()).unreadable)
    story.look("00:05")
    assert "ExtensionsNotServed" in story.message


def test_a_bad_flow_is_refused_with_the_field_in_the_template() -> None:
    wrong = {"flows": [{"name": "a", "dependsOn": {"targets": ["b"]}}, {"name": "b", "dependsOn": {"targets": ["a"]}}]}
    (problem,) = validate_cron_job(CronJob.read(cron(flowTemplate={"spec": wrong})))
    assert problem.field == "spec.flowTemplate.spec.flows[0].dependsOn.targets"
    assert "not DAG" in problem.message


# --- the rules of Jobs, said of flows --------------------------------------------------------------------------------
def flows(schedule: str = "*/5 * * * *", **given: Any) -> Story:
    return Story(schedule, makes=kinds.JOB_FLOW, **given)


def test_a_run_is_a_flow_and_stands_in_active_as_one() -> None:
    story = flows()
    story.look("00:05")
    (active,) = story.cron.status.active
    assert (active.api_version, active.kind, active.name) == ("flow.volcano.sh/v1alpha1", "JobFlow", name_of("00:05"))


def test_forbid_waits_for_the_end_of_the_flow() -> None:
    story = flows(policy="Forbid")
    story.look("00:05")
    story.look("00:10")
    assert (len(story.started), story.reason) == (1, "JobAlreadyActive")
    story.end("00:05", transition="00:11")
    story.look("00:12")
    assert story.active == [name_of("00:10")]
    assert story.told == ["JobAlreadyActive", "SawCompletedJob"]


def test_replace_deletes_the_flow_before() -> None:
    story = flows(policy="Replace")
    story.look("00:05")
    story.look("00:10")
    assert (story.deleted, story.active) == ([name_of("00:05")], [name_of("00:10")])


def test_histories_count_flows_that_succeeded_and_those_that_failed() -> None:
    story = flows(keep_successful=1, keep_failed=0)
    for time, phase in (("00:05", "Completed"), ("00:10", "Failed"), ("00:15", "Completed")):
        story.look(time)
        story.end(time, phase)
    story.look("00:16")
    assert sorted(story.jobs) == [name_of("00:15")]


def test_an_edit_from_jobs_to_flows_neither_forgets_what_ran_nor_runs_a_minute_twice() -> None:
    story = Story(policy="Forbid")
    story.look("00:05")
    story.edit(makes=kinds.JOB_FLOW)
    story.look("00:05:30")
    assert len(story.started) == 1
    story.look("00:10")
    assert story.reason == "JobAlreadyActive"
    story.end("00:05")
    story.look("00:11")
    assert [each.kind for each in story.cron.status.active] == ["JobFlow"]


def test_a_job_and_a_flow_of_one_name_are_told_apart() -> None:
    story = flows(policy="Replace")
    story.job("00:05", "Running", kind=kinds.JOB, uid="job")
    story.jobs["the flow"] = story.job("00:05", "Running", kind=kinds.JOB_FLOW, uid="flow")
    story.jobs["the Job"] = story.job("00:05", "Running", kind=kinds.JOB, uid="job")
    replaced = story.once("00:10").replace
    assert replaced == (Mark(kinds.JOB, name_of("00:05"), "job"), Mark(kinds.JOB_FLOW, name_of("00:05"), "flow"))


def test_the_end_of_a_flow_is_read_from_its_own_words() -> None:
    document = {
        "metadata": {"name": "f", "ownerReferences": [{"uid": "cron", "controller": True}]},
        "status": {"state": {"phase": "Succeed"}, "endedAt": "2026-03-02T00:07:00Z"},
    }
    seen = project_flow(orjson.dumps(document))
    assert (seen.kind, seen.phase, seen.transition, seen.owner_uid) == (
        kinds.JOB_FLOW,
        "Completed",
        "2026-03-02T00:07:00Z",
        "cron",
    )


def test_the_stamp_is_the_annotation_people_know() -> None:
    assert SCHEDULED == "volcano.sh/cronjob-scheduled-timestamp"
    assert at("00:05").minute == 5
