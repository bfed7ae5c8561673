"""What upstream does with Jobs in the rarer cases: no pods, queues that forward, groups of older versions, edits while nothing
runs, objects of plugins that are made too late (reference/volcano.md 1.6 and 1.7)."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

import orjson
import pytest

from apis import keys, kinds
from member_agent.jobs.planner import SWEEP_AFTER, SWEEP_UNTIL
from member_agent.views import QueueView, project_queue
from tests.member_agent.test_job_faults import NOW, decide, inqueue, member, view
from tests.member_agent.test_job_rules import (
    AGENT,
    change,
    events,
    names,
    reaches,
    status_of,
    status_reason,
    submit,
    task,
    there,
    visited,
)
from tests.member_agent.world import EAST, Stage, play, typed
from tests.member_agent.world import job as manifest_of

Doc = dict[str, Any]


def view_task() -> Doc:
    """The task of the Jobs that `view` makes."""
    found: Doc = manifest_of("train")["spec"]["tasks"][0]
    return found


def queue(**spec: Any) -> QueueView:
    return project_queue(orjson.dumps({"metadata": {"name": "default", "uid": "q", "resourceVersion": "1"}, "spec": spec}))


# --- no pods ---------------------------------------------------------------------------------------------------------


def test_a_job_without_pods_runs_and_says_that_there_is_nothing_to_run() -> None:
    async def story(stage: Stage) -> None:
        await submit(stage, "none", task("w", replicas=0))
        await reaches(stage, "none", "Running")
        await stage.until(lambda: status_reason(stage, "none") == "NoPods")
        await stage.world.advance(20)
        assert stage.phase("none") == "Running"
        assert stage.pods("none") == []
        assert visited(there(stage, "none")) == ["Pending", "Running"]

    play(story, register=False)


def test_a_job_whose_minimum_is_nothing_runs_before_its_pods_do() -> None:
    decided = decide(view("Pending", replicas=3, minimum=0), group=inqueue(), queue=queue())
    assert decided.status is not None
    assert decided.status.state.phase == "Pending", "replicas without a minimum of their own make one"
    task = {**view_task(), "replicas": 3, "minAvailable": 0}
    none = decide(view("Pending", minimum=0, tasks=[task]), group=inqueue(), queue=queue())
    assert none.status is not None
    assert none.status.state.phase == "Running"
    assert len(none.create) == 3


def test_a_job_that_needs_no_pod_says_that_none_of_its_pods_runs() -> None:
    async def story(stage: Stage) -> None:
        large = task("w", replicas=2, minAvailable=0)
        large["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "64"
        await submit(stage, "large", large)
        await reaches(stage, "large", "Running")
        await stage.until(lambda: status_reason(stage, "large") == "PodsPending")
        assert "2 wait for nodes" in status_of(stage, "large")["state"]["message"]

    play(story, register=False)


def test_a_job_without_pods_waits_for_its_group_like_any_other() -> None:
    job = view("Pending", replicas=0, minimum=0)
    waiting = decide(job, queue=queue())
    assert waiting.create_group
    assert (waiting.status or job.status).state.phase == "Pending"
    held = decide(view("Pending", replicas=0, minimum=0, notes={keys.SUSPEND: "true"}), queue=queue())
    assert held.status is not None
    assert (held.status.state.phase, held.status.state.reason) == ("Pending", "Suspended")


# --- queues with extendClusters --------------------------------------------------------------------------------------


def test_a_job_of_a_queue_that_forwards_is_marked_before_anything_is_made_of_it() -> None:
    forwards = queue(extendClusters=[{"name": "elsewhere"}])
    first = decide(view(""), queue=forwards)
    assert first.forward
    assert not (first.create_group or first.ensure or first.create)
    marked = decide(view("", notes={keys.JOB_FORWARDING: "true"}), queue=forwards)
    assert marked.create_group
    assert not marked.forward
    assert not decide(view(""), queue=queue()).forward


def test_pods_and_group_of_such_a_job_carry_the_mark() -> None:
    async def story(stage: Stage) -> None:
        client = stage.world.client(EAST)
        spec = {"weight": 1, "extendClusters": [{"name": "elsewhere", "weight": 1}]}
        await stage.until(lambda: stage.world.get(kinds.QUEUE, "default", server=EAST) is not None)
        await client.create(kinds.QUEUE, typed(kinds.QUEUE, {"metadata": {"name": "far"}, "spec": spec}))
        await submit(stage, "train", task("w", "sleep 5", replicas=2), queue="far")
        await submit(stage, "near", task("w", "sleep 5"))
        for name, mark in (("train", "true"), ("near", None)):
            await stage.until(lambda name=name: bool(stage.running(name)))  # type: ignore[misc]
            job, pods = there(stage, name), stage.pods(name)
            marked = [job, *pods, *(each for each in groups_of(stage) if each["metadata"]["name"].startswith(name))]
            assert {(each["metadata"].get("annotations") or {}).get(keys.JOB_FORWARDING) for each in marked} == {mark}
            assert {(pod["metadata"].get("labels") or {}).get(keys.JOB_FORWARDING) for pod in pods} == {mark}
        await reaches(stage, "train", "Completed")

    play(story, register=False)


# --- groups of older versions ----------------------------------------------------------------------------------------


def groups_of(stage: Stage) -> list[Doc]:
    return stage.world.all(kinds.POD_GROUP, server=EAST)


def test_a_group_that_an_older_version_named_like_the_job_is_used_on() -> None:
    async def story(stage: Stage) -> None:
        await stage.until(lambda: stage.world.get(kinds.QUEUE, "default", server=EAST) is not None)
        stage.world.stop(AGENT)
        await submit(stage, "train", task("w", "sleep 5", replicas=2))
        owner = {"apiVersion": kinds.JOB.api_version, "kind": "Job", "name": "train", "controller": True}
        meta = {"name": "train", "ownerReferences": [{**owner, "uid": there(stage, "train")["metadata"]["uid"]}]}
        body = typed(kinds.POD_GROUP, {"metadata": meta, "spec": {"minMember": 2, "queue": "default"}})
        await stage.world.client(EAST).create(kinds.POD_GROUP, body, namespace="default")
        stage.world.resume(AGENT)
        await stage.until(lambda: len(stage.running("train")) == 2)
        assert [group["metadata"]["name"] for group in groups_of(stage)] == ["train"]
        assert {pod["metadata"]["annotations"][keys.GROUP_NAME] for pod in stage.pods("train")} == {"train"}
        await reaches(stage, "train", "Completed")
        await stage.until(lambda: groups_of(stage) == [])

    play(story, register=False)


def test_a_group_of_that_name_which_is_somebody_elses_is_left_alone() -> None:
    async def story(stage: Stage) -> None:
        await stage.until(lambda: stage.world.get(kinds.QUEUE, "default", server=EAST) is not None)
        body = typed(kinds.POD_GROUP, {"metadata": {"name": "train"}, "spec": {"minMember": 7, "queue": "default"}})
        await stage.world.client(EAST).create(kinds.POD_GROUP, body, namespace="default")
        await submit(stage, "train", task("w", "sleep 5"))
        await reaches(stage, "train", "Completed")
        await stage.until(lambda: len(groups_of(stage)) == 1, what="the Job's own group goes")
        (left,) = groups_of(stage)
        assert (left["metadata"]["name"], left["spec"]["minMember"]) == ("train", 7)

    play(story, register=False)


# --- edits while nothing runs ----------------------------------------------------------------------------------------

RESTART_ON_CHANGE: list[Doc] = [{"event": "JobUpdated", "action": "RestartJob"}]
LINGERS: Doc = {"terminationGracePeriodSeconds": 30}
"""Pods that take their whole grace period, so that there is time for an edit."""
STUBBORN = "trap '' TERM; sleep infinity"


def test_an_edit_while_the_job_restarts_restarts_it_no_second_time() -> None:
    async def story(stage: Stage) -> None:
        work = task("w", STUBBORN, replicas=2, pod=LINGERS)
        await submit(stage, "train", work, minAvailable=1, policies=RESTART_ON_CHANGE, plugins={"svc": []}, maxRetry=9)
        await stage.until(lambda: len(stage.running("train")) == 2)
        await change(stage, "train", {"spec": {"tasks": [{**work, "replicas": 3}]}})
        await reaches(stage, "train", "Restarting")
        await change(stage, "train", {"spec": {"tasks": [{**work, "replicas": 4}]}})
        await stage.until(lambda: len(stage.running("train")) == 4)
        await stage.world.advance(60)
        assert (stage.phase("train"), status_of(stage, "train")["retryCount"]) == ("Running", 1)
        assert len(events(stage, "train", "ExecuteAction")) == 1
        hosts = stage.world.get(kinds.CONFIGMAP, "train-svc", namespace="default", server=EAST)
        assert hosts is not None
        assert hosts["data"]["VC_W_NUM"] == "4"
        (group,) = groups_of(stage)
        assert group["spec"]["minTaskMember"] == {"w": 4}

    play(story, register=False)


def test_an_edit_of_an_aborted_job_is_what_it_resumes_with() -> None:
    async def story(stage: Stage) -> None:
        work = task("w", replicas=2)
        await submit(stage, "train", work, minAvailable=1, policies=RESTART_ON_CHANGE, maxRetry=9)
        await stage.until(lambda: len(stage.running("train")) == 2)
        await change(stage, "train", {"metadata": {"annotations": {keys.SUSPEND: "true"}}})
        await reaches(stage, "train", "Aborted")
        await change(stage, "train", {"spec": {"tasks": [{**work, "replicas": 3}]}})
        await change(stage, "train", {"metadata": {"annotations": {keys.SUSPEND: "false"}}})
        await stage.until(lambda: len(stage.running("train")) == 3)
        await stage.world.advance(60)
        assert (stage.phase("train"), status_of(stage, "train").get("retryCount") or 0) == ("Running", 0)
        assert names(stage, "train", phase="Running") == {"w-0", "w-1", "w-2"}

    play(story, register=False)


def edited(**more: Any) -> Any:
    """A Job that restarts as a whole, of generation 2, of which the status remembers generation 1."""
    memory = {"generation": 1, "floors": {"": 1}, **more}
    job = view("Restarting", replicas=2, memory=memory, status={"version": 1}, plugins={"svc": []}, policies=RESTART_ON_CHANGE)
    return dataclasses.replace(job, generation=2)


def test_an_edit_is_no_news_to_a_run_that_has_nothing_yet() -> None:
    decided = decide(edited(), queue=queue())
    assert decided.status is not None
    assert decided.status.memory.generation == 2


@pytest.mark.parametrize("what", ["a pod that counts", "a success", "its group"])
def test_an_edit_is_news_where_something_of_the_spec_of_before_goes_on(what: str) -> None:
    job = edited(done={"work": "0"}) if what == "a success" else edited()
    pods = [member(0, job_version=1)] if what == "a pod that counts" else []
    group = inqueue(job_version=1) if what == "its group" else None
    decided = decide(job, *pods, queue=queue(), group=group)
    assert (decided.status or job.status).memory.generation == 1


# --- objects of plugins that are made too late -----------------------------------------------------------------------


def ended(seconds: float, *, swept: bool = False, **spec: Any) -> Any:
    """What is planned so many seconds after the end."""
    at = (NOW - datetime.timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")
    state = {"state": {"phase": "Completed", "lastTransitionTime": at}}
    return decide(view("Completed", status=state, **{"plugins": {"svc": []}, **spec}), queue=queue(), swept=swept)


def test_objects_of_plugins_are_looked_for_once_more_after_the_end() -> None:
    early = ended(10)
    assert (early.remove_objects, early.sweeps, early.wake) == (False, False, SWEEP_AFTER - 10)
    due = ended(SWEEP_AFTER)
    assert (due.remove_objects, due.sweeps) == (True, True)


@pytest.mark.parametrize(
    ("seconds", "more"), [(SWEEP_AFTER, {"swept": True}), (SWEEP_UNTIL, {}), (SWEEP_AFTER, {"plugins": {}})]
)
def test_they_are_not_looked_for_for_ever(seconds: float, more: Doc) -> None:
    found = ended(seconds, **more)
    assert (found.remove_objects, found.sweeps, found.wake) == (False, False, None)


def test_an_object_that_comes_after_the_end_is_taken_away() -> None:
    async def story(stage: Stage) -> None:
        await submit(stage, "train", task("w", "sleep 2"), plugins={"svc": []})
        await stage.until(lambda: bool(stage.running("train")))
        made = stage.world.get(kinds.SERVICE, "train", namespace="default", server=EAST)
        assert made is not None
        await reaches(stage, "train", "Completed")
        await stage.until(lambda: services(stage) == [])
        late = {key: value for key, value in made["metadata"].items() if key in ("name", "ownerReferences", "labels")}
        await stage.world.advance(20)
        client = stage.world.client(EAST)
        await client.create(kinds.SERVICE, typed(kinds.SERVICE, {"metadata": late, "spec": made["spec"]}), namespace="default")
        foreign = {"metadata": {"name": "train-svc"}, "data": {"a": "b"}}
        await client.create(kinds.CONFIGMAP, typed(kinds.CONFIGMAP, foreign), namespace="default")
        await stage.until(lambda: services(stage) == [], timeout=90)
        assert stage.world.get(kinds.CONFIGMAP, "train-svc", namespace="default", server=EAST) is not None
        assert stage.phase("train") == "Completed"

    play(story, register=False)


def services(stage: Stage) -> list[Doc]:
    return stage.world.all(kinds.SERVICE, namespace="default", server=EAST)
