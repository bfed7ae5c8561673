"""What nearly went wrong with Jobs: late watches, refusals, typing errors, scaling in the wrong moment."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

import orjson
import pytest

from apis import keys, kinds
from apis.kinds import Kind
from machinery import errors
from member_agent.jobs.claims import made_name
from member_agent.jobs.controller import judged
from member_agent.jobs.planner import Plan, Snapshot, plan
from member_agent.jobs.plugins import BUILT_IN
from member_agent.jobs.roster import Roster
from member_agent.views import GroupStatus, GroupView, JobView, PodView, Projector
from simulator.api import MemoryPort
from tests.member_agent.test_room import group as group_of
from tests.member_agent.test_room import pod, shape
from tests.member_agent.world import EAST, Stage, play, typed
from tests.member_agent.world import job as manifest_of

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
STAMP = "2026-01-01T00:00:00Z"
Doc = dict[str, Any]


def view(
    phase: str = "Running",
    *,
    replicas: int = 2,
    minimum: int = 1,
    from_hub: bool = False,
    notes: Doc | None = None,
    **more: Any,
) -> JobView:
    """`more`: `status`, `memory`, and fields of the spec."""
    status, memory = more.pop("status", {}), more.pop("memory", {})
    manifest = manifest_of("train", replicas=replicas, minimum=minimum, **more)
    labels = {keys.MANAGED_LABEL: "true"} if from_hub else {}
    annotations = {**({keys.WORK_UID: "uid-of-work"} if from_hub else {}), **(notes or {})}
    meta = {
        **manifest["metadata"],
        "uid": "uid-1",
        "resourceVersion": "1",
        "generation": 1,
        "creationTimestamp": "2025-12-31T23:59:00Z",
        "labels": labels,
        "annotations": annotations,
    }
    told = {"state": {"phase": phase}, "memory": {"generation": 1, **memory}, **status} if phase else {}
    return Projector().job(orjson.dumps({**manifest, "metadata": meta, "status": told}))


def member(index: int, phase: str = "Running", **more: Any) -> PodView:
    made = pod(f"train-work-{index}", shape(1), task="work", on="n", owner="uid-1")
    return dataclasses.replace(made, **{"phase": phase, "index": index, "job_version": 0, **more})


def inqueue(**more: Any) -> GroupView:
    """The Job's PodGroup, let in."""
    made = dataclasses.replace(group_of("train-uid-1", 1), owner="uid-1", status=GroupStatus(phase="Running"))
    return dataclasses.replace(made, min_task_member=(("work", 1),), **more)


def decide(job: JobView, *pods: PodView, **around: Any) -> Plan:
    return plan(Snapshot(**{"job": job, "group": None, "roster": Roster(pods), "queue": None, **around}), now=NOW, stamp=STAMP)


def phase_of(decided: Plan, job: JobView) -> str:
    return (decided.status or job.status).state.phase


# --- scaling ---------------------------------------------------------------------------------------------------------


@pytest.mark.timeout(5)
@pytest.mark.parametrize("from_hub", [True, False])
def test_pods_that_are_scaled_away_say_nothing_about_the_phase(from_hub: bool) -> None:
    job = view(replicas=2, minimum=1, from_hub=from_hub, memory={"pods": {"work": "0-4"}})
    decided = decide(job, *(member(index) for index in (0, 1)), *(member(index, "Pending") for index in (2, 3, 4)))
    assert decided.status is not None
    assert decided.status.state.phase == "Running"
    assert (decided.status.running, decided.status.pending, decided.status.terminating) == (2, 0, 3)


def test_successes_that_were_scaled_away_complete_nothing() -> None:
    job = view(replicas=2, minimum=2, plugins={"env": []}, memory={"pods": {"work": "0-3"}, "done": {"work": "2-3"}})
    decided = decide(job, member(0), member(1))
    assert phase_of(decided, job) == "Running"
    assert decided.status is not None and decided.status.succeeded == 0


# --- what goes on is acted on once -----------------------------------------------------------------------------------


def test_a_group_from_before_a_restart_restarts_nothing_again() -> None:
    """Its deletion was ordered and is not seen yet."""
    policies = [{"event": "Unknown", "action": "RestartJob"}]
    job = view("Pending", policies=policies, status={"version": 1}, memory={"floors": {"": 1}})
    old = inqueue(job_version=0)
    old = dataclasses.replace(old, status=GroupStatus(phase="Unknown"))
    for group in (old, dataclasses.replace(old, deleting=True)):
        assert not decide(job, group=group).decisive


# --- what was not done is not said to be done ------------------------------------------------------------------------


def test_a_status_that_is_written_first_claims_nothing_that_is_still_to_be_done() -> None:
    job = dataclasses.replace(view(replicas=1, minimum=1, plugins={"svc": []}, memory={"pods": {"work": "0-1"}}), generation=2)
    decided = decide(job, member(0), member(1), group=inqueue())
    assert decided.decisive
    assert decided.status is not None
    assert decided.status.memory.pods == {"work": "0"}
    assert decided.status.memory.generation == 1
    assert decided.status.controlled_resources == {}


def test_an_object_whose_name_is_taken_is_made_when_the_name_is_free_and_no_pod_before() -> None:
    async def story(stage: Stage) -> None:
        client = stage.world.client(EAST)
        other = {"metadata": {"name": "train", "namespace": "default"}, "spec": {"ports": [{"port": 1}]}}
        await client.create(kinds.SERVICE, other, namespace="default")
        await stage.world.apply(manifest_of("train", command="sleep 5", plugins={"svc": []}), server=EAST)
        await stage.until(lambda: "Service train is there already" in str(stage.local("train")))
        await stage.world.advance(30)
        assert stage.pods("train") == []
        assert "plugin-svc" not in str((stage.local("train") or {})["status"])
        await client.delete(kinds.SERVICE, "train", namespace="default")
        await stage.until(lambda: stage.phase("train") == "Completed", timeout=200)
        made = [str(write) for write in stage.world.faults.writes_of("agent-east") if "create" in str(write)]
        assert [i for i, text in enumerate(made) if "services" in text][-1] < [
            i for i, text in enumerate(made) if "pods" in text
        ][0]

    play(story, register=False)


# --- refusals --------------------------------------------------------------------------------------------------------


def test_a_refused_pod_is_asked_for_again_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    real, asked = MemoryPort.create, list[str]()

    async def create(self: MemoryPort, kind: Kind, body: Any, *, namespace: str | None = None, **more: Any) -> Any:
        if kind == kinds.POD:
            asked.append(body["metadata"]["name"])
            raise errors.Forbidden("exceeded quota")
        return await real(self, kind, body, namespace=namespace, **more)

    monkeypatch.setattr(MemoryPort, "create", create)

    async def story(stage: Stage) -> None:
        await stage.world.apply(manifest_of("train", replicas=1), server=EAST)
        await stage.until(lambda: "exceeded quota" in str(stage.local("train")))
        await stage.world.advance(60)
        assert len(asked) < 20

    play(story, register=False)


def test_a_pod_that_may_not_be_deleted_keeps_no_other_and_no_status_up(monkeypatch: pytest.MonkeyPatch) -> None:
    real, asked = MemoryPort.delete, list[str]()

    async def delete(self: MemoryPort, kind: Kind, name: str, **more: Any) -> Any:
        if kind == kinds.POD and name == "train-work-0":
            asked.append(name)
            raise errors.Forbidden("the webhook says no")
        return await real(self, kind, name, **more)

    monkeypatch.setattr(MemoryPort, "delete", delete)

    async def story(stage: Stage) -> None:
        await stage.world.apply(manifest_of("train", replicas=40, cpu="100m", command="sleep 900"), server=EAST)
        await stage.until(lambda: len(stage.running("train")) == 40)
        abort = {"action": "AbortJob", "target": {"apiVersion": kinds.JOB.api_version, "kind": "Job", "name": "train"}}
        await stage.world.apply(
            typed(kinds.COMMAND, {"metadata": {"name": "stop", "namespace": "default"}, **abort}), server=EAST
        )
        await stage.until(lambda: len(stage.pods("train")) == 1)
        await stage.until(lambda: ((stage.local("train") or {})["status"]).get("terminating") == 1)
        found = [each["message"] for each in stage.world.all(kinds.EVENT, server=EAST) if each["reason"] == "FailedDelete"]
        assert found == ["pod train-work-0: the webhook says no"]
        before = len(asked)
        await stage.world.advance(60)
        assert len(asked) - before < 20

    play(story, register=False)


def test_a_claim_named_in_the_spec_by_a_controller_that_died_then_is_no_mistake() -> None:
    name = made_name("train", uid="uid-1", index=0)
    volume = {"mountPath": "/data", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}}
    manifest = manifest_of("train", volumes=[{**volume, "volumeClaimName": name}])
    manifest["metadata"]["uid"] = "uid-1"
    assert judged(manifest, registry=BUILT_IN) is None
    manifest["spec"]["volumes"][0]["volumeClaimName"] = "mine"
    found = judged(manifest, registry=BUILT_IN)
    assert found is not None and "spec.volumes[0]" in found[1]
