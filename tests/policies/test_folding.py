"""What a Job's status says of the clusters that it runs in: one phase, totals, and a reason."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from apis.runs import BindingRun, Held, Part, PartState, RunRecord, Share
from policies import folding, statuses
from policies.folding import Folded, fold
from policies.statuses import JobState, JobStatus
from policies.verdicts import Gist, Outcome
from policies.views import BindingView, WorkView
from tests.policies.build import job

NOW = "2026-01-01T00:00:00Z"
PHASES = ("Pending", "Running", "Restarting", "Completing", "Completed", "Failed", "Aborting", "Aborted", "Terminated")


def work(cluster: str, phase: str, *, epoch: int = 1, message: str = "", **counts: Any) -> WorkView:
    status = JobStatus(state=JobState(phase=phase, message=message, last_transition_time=NOW), **counts)
    record = RunRecord(job="uid-a", epoch=epoch, fence=1)
    return WorkView(
        namespace=f"karmada-es-{cluster}",
        name="w",
        uid=f"w-{cluster}",
        version="1",
        cluster=cluster,
        record=record,
        phase=phase,
        applied=True,
        started=status.started,
        encoded=statuses.encode(status),
    )


def binding(*clusters: str, state: PartState = PartState.GRANTED, held: Held | None = None) -> BindingView:
    share = {"w": Share(1, 1, 0, len(clusters))} if len(clusters) > 1 else {}
    parts = {name: Part(name, 1, state, shares=share) for name in clusters}
    run = BindingRun(job="uid-a", epoch=1, parts=parts, held=held)
    return BindingView("default", "a-job", "b", "1", job="a", job_uid="uid-a", clusters=clusters, run=run)


def phase_of(*phases: str, parts: int = 0) -> str:
    names = [f"c{number}" for number in range(max(len(phases), parts))]
    works = [work(name, phase) for name, phase in zip(names, phases, strict=False)]
    return fold(binding(*names), works).total.state.phase


@pytest.mark.parametrize(
    ("phases", "one"),
    [
        (("Running", "Failed", "Completed"), "Failed"),
        (("Running", "Terminated"), "Terminated"),
        (("Completed", "Completed"), "Completed"),
        (("Completed", "Running"), "Running"),
        (("Pending", "Running"), "Running"),
        (("Restarting", "Pending"), "Restarting"),
        (("Completing", "Completed"), "Completing"),
        (("Aborting", "Pending"), "Aborting"),
        (("Aborted", "Pending"), "Aborted"),
        (("Completed", "Pending"), "Running"),
        (("Pending", "Pending"), "Pending"),
    ],
)
def test_one_phase_of_many_by_the_first_rule_that_holds(phases: tuple[str, ...], one: str) -> None:
    assert phase_of(*phases) == one
    assert phase_of(*reversed(phases)) == one, "whatever the clusters are called"


@given(some.lists(some.sampled_from(PHASES), min_size=1, max_size=6))
def test_an_end_is_only_told_when_it_is_one(phases: list[str]) -> None:
    one = phase_of(*phases)
    assert (one == "Completed") == (set(phases) == {"Completed"})
    assert (one == "Failed") == ("Failed" in phases)


def test_a_part_that_has_said_nothing_yet_keeps_a_job_from_being_complete() -> None:
    assert phase_of("Completed", parts=2) == "Running"


def test_counts_are_added_up_and_restarts_too() -> None:
    works = [work("a", "Running", running=2, succeeded=1, retry_count=1), work("b", "Running", running=3, failed=1)]
    total = fold(binding("a", "b"), works).total
    assert (total.running, total.succeeded, total.failed, total.retry_count) == (5, 1, 1, 1)


def test_works_of_another_epoch_or_of_a_part_that_is_gone_do_not_count() -> None:
    assert fold(binding("a"), [work("a", "Failed", epoch=2)]).items == ()
    assert fold(binding("a", state=PartState.GONE), [work("a", "Failed")]).items == ()


def said(view: BindingView, *works: WorkView, away: tuple[str, ...] = (), outcome: Gist | None = None) -> JobState:
    view = dataclasses.replace(view, decision=outcome)
    status = folding.job_status(
        dataclasses.replace(job(), uid="uid-a"), binding=view, folded=fold(view, works), fence=False, now=NOW, away=away
    )
    return status.state


def test_the_message_says_of_each_cluster_what_its_member_says() -> None:
    state = said(binding("a", "b"), work("a", "Running"), work("b", "Pending", message="no node has room"))
    assert (state.phase, state.message) == ("Running", "a: Running; b: Pending (no node has room)")


def test_a_job_that_waits_says_why() -> None:
    waiting = dataclasses.replace(binding(), run=BindingRun(job="uid-a"))
    state = said(waiting, outcome=Gist(Outcome.WAITING, "NoClusterFits", "0 of 2 clusters fit"))
    assert (state.phase, state.reason, state.message) == ("Pending", "NoClusterFits", "0 of 2 clusters fit")
    refused = said(waiting, outcome=Gist(Outcome.REFUSED, "QueueNotFound", "queue x does not exist", "spec.queue"))
    assert (refused.phase, refused.reason, refused.message) == (
        "Failed",
        "QueueNotFound",
        "spec.queue: queue x does not exist",
    )


def test_a_job_on_a_member_that_is_not_heard_from_keeps_its_phase_and_says_so() -> None:
    state = said(binding("a"), work("a", "Running"), away=("a",))
    assert (state.phase, state.reason) == ("Running", folding.UNHEARD)


def test_a_job_that_was_stopped_waits_for_the_confirmation_and_then_says_who_resumes_it() -> None:
    stopping = said(binding("a", state=PartState.STOPPING, held=Held.ABORTED), work("a", "Running"))
    assert (stopping.phase, stopping.reason) == ("Aborting", "Aborted") and "waiting for a" in stopping.message
    gone = dataclasses.replace(binding("a", state=PartState.GONE, held=Held.ABORTED))
    held = said(gone)
    assert (held.phase, held.reason) == ("Aborted", "Aborted") and "ResumeJob" in held.message


def test_a_terminal_status_is_never_written_again() -> None:
    ended = JobStatus(state=JobState(phase="Completed", last_transition_time=NOW))
    done = dataclasses.replace(job(), uid="uid-a", phase="Completed", encoded=statuses.encode(ended))
    view = binding("a")
    found = folding.job_status(done, binding=view, folded=fold(view, [work("a", "Failed")]), fence=False, now="later")
    assert found == ended
    assert Folded().ended == ""
