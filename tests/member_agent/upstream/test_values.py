"""What is asked of a Volcano, and what a run looks like there, on values alone."""

from __future__ import annotations

import datetime
import json
from dataclasses import replace
from typing import Any

import pytest

from apis import keys, runs
from apis.runs import RunRecord, TaskSlice
from member_agent.upstream.orders import Ordered, Rest, command, hub_order, read, write
from member_agent.upstream.planner import Note, Order, Refuse, Wait, next_step
from member_agent.views import JobView, Projector
from member_agent.works.upstream import translated, unsupported
from tests.member_agent.world import job

PROJECTOR = Projector()
NOW = datetime.datetime(2026, 1, 1, 12, 0, 0, tzinfo=datetime.UTC)
RECORD = RunRecord(job="uid-train", epoch=3, fence=1)


def view(
    phase: str = "Running", *, since: str = "", version: int = 0, notes: dict[str, str] | None = None, **spec: Any
) -> JobView:
    """A local Job of two pods."""
    manifest = job("train", **spec)
    manifest["metadata"] |= {"uid": "uid-train", "resourceVersion": "1", "annotations": notes or {}}
    conditions = [{"status": "Running", "lastTransitionTime": since}] if since else []
    status = {"state": {"phase": phase}, "conditions": conditions, "version": version}
    return PROJECTOR.job(json.dumps({**manifest, "status": status}).encode())


def noted(ordered: Ordered, **notes: str) -> dict[str, str]:
    return {keys.UPSTREAM: write(ordered), **{f"{keys.GROUP}/{name}": text for name, text in notes.items()}}


def step(found: JobView, *, held: float = 0.0) -> object:
    return next_step(found, now=NOW, held=held)


# --- suspend ---------------------------------------------------------------------------------------------------------

ABORTING, RESUMING = Ordered(rest=Rest.ABORTING), Ordered(rest=Rest.RESUMING)


@pytest.mark.parametrize("phase", ["", "Pending", "Running", "Restarting"])
def test_a_suspension_is_written_down_then_ordered_then_waited_for(phase: str) -> None:
    assert step(view(phase, notes={keys.SUSPEND: "true"})) == Note(ABORTING)
    asked = view(phase, notes=noted(ABORTING, suspend="true"))
    assert step(asked) == Order("AbortJob", "Suspended", "suspended by its annotation or spec")
    assert step(asked, held=7.0) == Wait(7.0)


@pytest.mark.parametrize("phase", ["Aborting", "Aborted"])
def test_only_what_was_suspended_here_is_resumed(phase: str) -> None:
    assert step(view(phase, notes={keys.SUSPEND: "true"})) == Wait()
    assert step(view(phase)) == Wait()
    assert step(view(phase, notes=noted(ABORTING))) == Note(RESUMING)
    assert step(view(phase, notes=noted(RESUMING))) == Order("ResumeJob", "Resumed", "no longer suspended")
    assert step(view(phase, notes=noted(RESUMING)), held=3.0) == Wait(3.0)


def test_what_was_written_down_is_taken_back_once_it_is_over() -> None:
    for ordered in (ABORTING, RESUMING):
        assert step(view("Running", notes=noted(ordered))) == Note(Ordered())
        assert step(view("Running", notes=noted(ordered)), held=3.0) == Wait(3.0)


@pytest.mark.parametrize("phase", ["Completed", "Failed", "Terminated", "Completing", "Terminating"])
def test_nothing_is_ordered_of_a_job_that_ends(phase: str) -> None:
    assert step(view(phase, notes=noted(ABORTING, suspend="true"))) == Wait()


def test_a_job_from_the_hub_is_not_suspended_here() -> None:
    assert step(replace(view(notes={keys.SUSPEND: "true"}), managed=True)) == Wait()


# --- max-run-time ----------------------------------------------------------------------------------------------------


def test_a_job_is_terminated_when_it_has_run_for_too_long_since_its_first_start() -> None:
    notes = {keys.MAX_RUN_TIME: "60s"}
    assert step(view("Pending", notes=notes)) == Wait()
    assert step(view(since="2026-01-01T11:59:30Z", notes=notes)) == Wait(30.0)
    overdue = view("Restarting", since="2026-01-01T11:58:00Z", notes=notes)
    assert step(overdue) == Order("TerminateJob", "MaxRunTimeExceeded", "it has run for longer than 1m (max-run-time)")
    assert step(overdue, held=4.0) == Wait(4.0)
    assert step(view("Aborted", since="2026-01-01T11:58:00Z", notes=notes)) == Wait()  # it does not run: nothing to end


def test_the_run_record_s_limit_goes_before_the_annotation() -> None:
    found = view(since="2026-01-01T11:59:30Z", notes={keys.MAX_RUN_TIME: "60s"})
    limited = replace(found, record=RunRecord(job="u", epoch=1, fence=1, max_run_time=10))
    assert isinstance(step(limited), Order)


# --- orders of the hub -----------------------------------------------------------------------------------------------


def ordered_by_hub(action: str, *, taken: Ordered | None = None, phase: str = "Running", version: int = 0) -> object:
    notes = noted(taken or Ordered(), command=json.dumps({"id": "7", "action": action, "target": "work"}))
    return step(view(phase, version=version, notes=notes))


def test_an_order_is_taken_up_given_and_done_with() -> None:
    taken = Ordered(order="7", version=2)
    assert ordered_by_hub("RestartJob", version=2) == Note(taken)
    assert ordered_by_hub("RestartJob", taken=taken, version=2) == Order(
        "RestartJob", "Order-7", "RestartJob by order of the hub"
    )
    done = Note(Ordered(order="7", version=2, done=True))
    assert ordered_by_hub("RestartJob", taken=taken, version=3) == done
    assert ordered_by_hub("RestartJob", taken=taken, version=2, phase="Restarting") == done
    assert ordered_by_hub("TerminateJob", taken=taken, phase="Terminating", version=2) == done
    assert ordered_by_hub("ResumeJob", taken=taken, phase="Running", version=2) == done
    assert isinstance(ordered_by_hub("ResumeJob", taken=taken, phase="Aborted", version=2), Order)
    assert ordered_by_hub("RestartJob", taken=done.ordered, version=2) == Wait()


def test_an_order_that_no_command_can_say_is_refused_by_name_once() -> None:
    refusal = ordered_by_hub("RestartTask")
    assert isinstance(refusal, Refuse)
    assert "RestartTask of work" in refusal.message
    assert ordered_by_hub("RestartTask", taken=refusal.ordered) == Wait()


def test_an_order_or_a_note_that_somebody_spoilt_is_none() -> None:
    assert hub_order("{") is hub_order("") is None
    assert read("[]") == read("") == Ordered()


def test_a_command_names_its_job_and_is_the_same_for_the_same_purpose() -> None:
    one = command(view(), "AbortJob", purpose="Suspended", message="m")
    assert one == command(view(), "AbortJob", purpose="Suspended", message="m")
    assert one["metadata"]["name"].startswith("train-abortjob-")
    assert one["target"]["uid"] == "uid-train"
    assert one["metadata"]["ownerReferences"] == [one["target"]]
    assert one["metadata"]["name"] != command(view(), "AbortJob", purpose="Order-7", message="m")["metadata"]["name"]


# --- runs ------------------------------------------------------------------------------------------------------------


def test_what_volcano_has_is_not_refused() -> None:
    plugins: dict[str, Any] = {"env": [], "svc": [], "ssh": []}
    assert unsupported(view(plugins=plugins), RECORD) == ""
    whole = RunRecord(job="u", epoch=1, fence=1, tasks={"work": TaskSlice(0, 2)})
    assert unsupported(view(plugins=plugins), whole) == ""


def test_everything_that_is_missing_is_named_at_once() -> None:
    notes = {keys.MAIN_CONTAINER: "work=main", keys.ONLY_BELOW_MINIMUM: "true", keys.OUTPUTS: '[{"name": "loss"}]'}
    found = view(notes=notes, plugins={"mine": [], "env": []})
    record = RunRecord(job="u", epoch=1, fence=1, release=False, tasks={"work": TaskSlice(0, 4)})
    told = unsupported(found, record)
    for name in (
        keys.MAIN_CONTAINER,
        keys.ONLY_BELOW_MINIMUM,
        keys.OUTPUTS,
        "spec.plugins.mine: not a plugin",
        "several clusters",
        "spec.plugins.env",
    ):
        assert name in told


def test_a_run_is_written_into_every_container_and_restarts_are_subtracted() -> None:
    manifest = job("train", suspend=True)
    pod = manifest["spec"]["tasks"][0]["template"]["spec"]
    pod["initContainers"] = [{"name": "first", "image": "busybox:1", "env": [{"name": keys.EPOCH_ENV, "value": "1"}]}]
    record = RunRecord(job="uid-train", epoch=3, fence=1, retries=5)
    body = translated(manifest, record)
    template = body["spec"]["tasks"][0]["template"]
    assert template["metadata"]["annotations"][keys.RUN] == runs.encode(record)
    for container in (*template["spec"]["initContainers"], *template["spec"]["containers"]):
        assert container["env"] == [{"name": keys.EPOCH_ENV, "value": "3"}]
    assert body["spec"]["maxRetry"] == 1  # never less than the one run that it is granted
    assert "suspend" not in body["spec"]
    assert translated(body, record) == body
    assert pod["initContainers"][0]["env"] == [{"name": keys.EPOCH_ENV, "value": "1"}]  # the manifest stays as it was
