"""What an agent may rely on, and for how long: answers, expectations, memories; and who places the pods of the hub."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from apis import kinds
from apis.kinds import Kind
from member_agent.settings import JobSettings
from member_agent.works.controller import Talk
from member_agent.works.epochs import Epochs
from member_agent.works.snapshot import LeaseAnswer
from simulator.api import MemoryPort
from tests.member_agent.test_through import work
from tests.member_agent.world import EAST, Stage, job, play


def test_an_answer_about_the_lease_is_as_new_as_the_record_that_it_is_held_against() -> None:
    """Read for fence number 1, it says nothing about a Work that was stamped anew or made anew meanwhile."""
    first = work("w", 1)
    moved = dataclasses.replace(first, version="2")
    stamped = work("w", 3, fence=2)
    made_anew = work("other", 4)
    for other, kept in ((first, True), (moved, True), (stamped, False), (made_anew, False)):
        talk = Talk()
        talk.turn_to(first)
        talk.lease, talk.no_job = LeaseAnswer("uid/fencer", 1), True
        talk.turn_to(other)
        assert (talk.lease is not None, talk.no_job) == (kept, kept)


@pytest.mark.parametrize("lost", [1, 2])
def test_a_pod_that_was_made_and_never_seen_is_made_again_without_an_event(monkeypatch: pytest.MonkeyPatch, lost: int) -> None:
    """Deleted before any watch showed it, say."""
    real = MemoryPort.create
    made: list[Any] = []

    async def create(self: MemoryPort, kind: Kind, body: Any, *, namespace: str | None = None, **more: Any) -> Any:
        if kind == kinds.POD and len(made) < lost:
            made.append(body)
            return b"{}"
        return await real(self, kind, body, namespace=namespace, **more)

    monkeypatch.setattr(MemoryPort, "create", create)

    async def story(stage: Stage) -> None:
        reported = await stage.grant(job("train", command="sleep 5"))
        await stage.until(lambda: stage.reported(reported) == "Completed", timeout=JobSettings().expect + 30)

    play(story)


def test_epochs_are_remembered_for_the_jobs_that_were_heard_of_last() -> None:
    epochs = Epochs(kept=3)
    for name in ("a", "b", "c"):
        epochs.learn(name, 5)
    epochs.learn("a", 2)  # an older epoch takes nothing back
    epochs.learn("d", 1)
    assert [epochs.newest(name) for name in ("a", "b", "c", "d")] == [5, 0, 5, 1]
    for number in range(100):
        epochs.learn(f"job-{number}", 1)
    assert len(epochs) == 3


FOREIGN = [
    ({"schedulerName": "default-scheduler"}, {}, "spec.schedulerName (default-scheduler)"),
    ({}, {"schedulerName": "other"}, "spec.tasks[0].template.spec.schedulerName (other)"),
    ({}, {"nodeName": "node-1"}, "spec.tasks[0].template.spec.nodeName (node-1)"),
]


def placed(spec: dict[str, str], pod: dict[str, str]) -> dict[str, Any]:
    """A Job with these fields."""
    body = job("train", command="sleep 600")
    body["spec"] |= spec
    body["spec"]["tasks"][0]["template"]["spec"] |= pod
    return body


@pytest.mark.parametrize(("spec", "pod", "words"), FOREIGN)
def test_a_hub_run_job_whose_pods_somebody_else_would_place_is_refused(
    spec: dict[str, str], pod: dict[str, str], words: str
) -> None:
    async def story(stage: Stage) -> None:
        name = await stage.grant(placed(spec, pod))
        await stage.until(lambda: stage.refusal(name) == "ExtensionUnsupported")
        assert words in stage.condition(name, "Applied")["message"]
        assert stage.pods() == []

    play(story)


@pytest.mark.parametrize(("spec", "pod", "words"), FOREIGN)
def test_an_edit_that_takes_the_pods_from_the_scheduler_is_not_carried_out(
    spec: dict[str, str], pod: dict[str, str], words: str
) -> None:
    async def story(stage: Stage) -> None:
        name = await stage.grant(job("train", command="sleep 600"))
        await stage.until(lambda: stage.reported(name) == "Running")
        await stage.patch_work(name, {"spec": {"workload": {"manifests": [placed(spec, pod)]}}})
        await stage.world.client(EAST).delete(kinds.POD, "train-work-1", namespace="default")
        await stage.world.advance(60)
        assert len(stage.running()) == 2
        assert {each["spec"]["schedulerName"] for each in stage.pods()} == {"volcano"}

    play(story)


@pytest.mark.parametrize(("spec", "pod"), [({"schedulerName": "volcano"}, {}), ({}, {"schedulerName": "volcano"})])
def test_a_job_that_names_this_scheduler_runs(spec: dict[str, str], pod: dict[str, str]) -> None:
    async def story(stage: Stage) -> None:
        name = await stage.grant(placed(spec, pod))
        await stage.until(lambda: stage.reported(name) == "Running")

    play(story)


def test_a_job_of_this_member_may_name_whom_it_likes() -> None:
    async def story(stage: Stage) -> None:
        await stage.world.apply(placed({}, {"nodeName": "node-1"}), server=EAST)
        await stage.until(lambda: len(stage.running()) == 2)
        assert {each["spec"]["nodeName"] for each in stage.pods()} == {"node-1"}

    play(story)
