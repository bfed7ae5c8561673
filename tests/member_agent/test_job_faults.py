"""What nearly went wrong with Jobs: late watches, refusals, typing errors, scaling in the wrong moment."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

import orjson
import pytest

from apis import keys, kinds
from apis.kinds import Kind
from apis.runs import RunRecord, encode
from machinery import errors
from machinery.informer import Change
from member_agent.jobs import faults
from member_agent.jobs.claims import made_name
from member_agent.jobs.faults import judged
from member_agent.jobs.planner import Plan, Snapshot, plan
from member_agent.jobs.plugins import BUILT_IN
from member_agent.jobs.pods import PodIndex
from member_agent.jobs.roster import Roster
from member_agent.views import GroupStatus, GroupView, JobView, PodView, Projector
from policies.members import CommandView, project_command
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


# --- orders ----------------------------------------------------------------------------------------------------------


def command(action: str, uid: str = "c1") -> CommandView:
    target = {"apiVersion": kinds.JOB.api_version, "kind": "Job", "name": "train", "uid": "uid-1"}
    meta = {"name": uid, "namespace": "default", "uid": uid, "creationTimestamp": STAMP, "resourceVersion": "1"}
    return project_command(orjson.dumps({"metadata": meta, "action": action, "target": target}))


def test_a_refused_command_is_told_though_counters_wait() -> None:
    async def story(stage: Stage) -> None:
        first = manifest_of("train", replicas=1, command="sleep 5")
        other = manifest_of("train", replicas=1, command="sleep 600")["spec"]["tasks"][0]
        first["spec"]["tasks"].append({**other, "name": "other"})
        await stage.grant(first)
        await stage.until(lambda: len(stage.running("train")) == 1)
        meta = {"name": "odd", "namespace": "default"}
        target = {"apiVersion": kinds.JOB.api_version, "kind": "Job", "name": "train"}
        body = {"metadata": meta, "action": "MeltJob", "target": target}
        await stage.world.apply(typed(kinds.COMMAND, body), server=EAST)
        await stage.until(lambda: stage.world.all(kinds.COMMAND, server=EAST) == [])
        await stage.world.advance(3)
        assert [each["reason"] for each in stage.world.all(kinds.EVENT, server=EAST)].count("CommandRefused") == 1

    play(story)


def test_a_command_for_a_job_that_vanishes_is_not_left_for_a_namesake(monkeypatch: pytest.MonkeyPatch) -> None:
    real = MemoryPort.patch

    async def patch(self: MemoryPort, kind: Kind, name: str, body: Any, **more: Any) -> Any:
        if kind == kinds.JOB and "Aborting" in str(body):
            await MemoryPort(self.server, agent="kubectl").delete(kinds.JOB, name, namespace="default")
        return await real(self, kind, name, body, **more)

    monkeypatch.setattr(MemoryPort, "patch", patch)

    async def story(stage: Stage) -> None:
        await stage.world.apply(manifest_of("train", command="sleep 600"), server=EAST)
        await stage.until(lambda: stage.phase("train") == "Running")
        target = {"apiVersion": kinds.JOB.api_version, "kind": "Job", "name": "train"}
        body = {"metadata": {"name": "stop", "namespace": "default"}, "action": "AbortJob", "target": target}
        await stage.world.apply(typed(kinds.COMMAND, body), server=EAST)
        await stage.until(lambda: stage.world.all(kinds.COMMAND, server=EAST) == [])

    play(story, register=False)


def test_a_command_that_was_carried_out_was_not_too_late() -> None:
    decided = decide(view("Terminated", memory={"orders": ["c1"]}), commands=(command("TerminateJob"),))
    assert [each.name for each in decided.dismissed] == ["c1"]
    assert decided.told == ()


def test_an_order_of_the_hub_is_remembered_as_long_as_it_stands() -> None:
    note = {keys.COMMAND: orjson.dumps({"id": "h1", "action": "RestartJob"}).decode()}
    job = view(notes=note, from_hub=True, memory={"orders": ["h1", *(f"c{each}" for each in range(7))]}, maxRetry=99)
    decided = decide(job, member(0), member(1), commands=(command("RestartJob", "another"),))
    assert decided.status is not None
    assert {"h1", "another"} <= set(decided.status.memory.orders)
    assert len(decided.status.memory.orders) <= 9


@pytest.mark.parametrize("phase", ["Aborting", "Terminating", "Completing"])
def test_a_job_is_not_gone_while_a_pod_was_made_and_is_not_seen_yet(phase: str) -> None:
    job = view(phase)
    assert phase_of(decide(job, made=frozenset({"train-work-0"})), job) == phase
    assert phase_of(decide(job), job) != phase


def test_the_time_that_a_job_rested_is_no_part_of_its_longest_run() -> None:
    limit = {keys.MAX_RUN_TIME: "90s"}
    job = view("Aborted", notes=limit, memory={"suspended": True, "startedAt": "2025-12-31T20:00:00Z"})
    decided = decide(job)
    assert decided.status is not None
    resumed = dataclasses.replace(job, status=decided.status)
    assert phase_of(decide(resumed), resumed) == "Pending"


# --- what is remembered ----------------------------------------------------------------------------------------------


def test_a_typing_error_in_a_job_that_runs_is_told_and_forgets_nothing() -> None:
    memory = {"pods": {"work": "0-1"}, "done": {"work": "0"}, "since": {"PodEvicted/train-work-1": STAMP}}
    job = view(notes={keys.MAX_RUN_TIME: "soon"}, memory=memory)
    decided = decide(job, member(1))
    assert decided.status is not None
    assert decided.status.state.phase == "Running"
    assert decided.status.state.reason == "Invalid"
    assert keys.MAX_RUN_TIME in decided.status.state.message
    kept = decided.status.memory
    assert (kept.pods, kept.done, kept.since) == (memory["pods"], memory["done"], memory["since"])


def test_a_pod_that_is_nobodys_any_more_is_no_pod_of_the_job() -> None:
    index = PodIndex()
    ours = member(0)
    index.changed(Change(("ns", ours.name), None, ours))
    free = dataclasses.replace(ours, owner="")
    index.changed(Change(("ns", ours.name), ours, free))
    assert index.of("uid-1").pods == {}


def test_a_run_of_the_hub_that_lost_all_its_pods_goes_on_without_its_work() -> None:
    for memory, version in (({"pods": {"work": "0-1"}}, 0), ({"floors": {"": 1}}, 1)):
        job = view("Pending", from_hub=True, memory=memory, status={"version": version})
        decided = decide(job, group=inqueue(job_version=version), granted=False)
        assert len(decided.create) == 2, memory


def test_a_pod_that_was_lost_and_then_scaled_away_is_no_eviction_when_there_are_more_again() -> None:
    policies = [{"event": "PodEvicted", "action": "AbortJob"}]
    index = PodIndex()
    for each in (member(0), member(1)):
        index.changed(Change(("ns", each.name), None, each))
    index.changed(Change(("ns", "train-work-1"), member(1), None))
    roster = index.of("uid-1")
    small = view(replicas=1, policies=policies)
    decided = plan(Snapshot(job=small, group=inqueue(), roster=roster, queue=None), now=NOW, stamp=STAMP)
    assert decided.status is not None
    roster.settle(decided.settled)
    grown = dataclasses.replace(view(replicas=2, policies=policies), status=decided.status)
    decided = plan(Snapshot(job=grown, group=inqueue(), roster=roster, queue=None), now=NOW, stamp=STAMP)
    assert not decided.decisive
    assert [each.index for each in decided.create] == [1]


# --- main containers -------------------------------------------------------------------------------------------------


def test_a_task_has_completed_when_its_main_containers_have() -> None:
    policies = [{"event": "TaskCompleted", "action": "CompleteJob"}]
    job = view(replicas=2, notes={keys.MAIN_CONTAINER: "work=main"}, policies=policies)
    over = member(0, ends=(("main", 0),))
    assert not decide(job, over, member(1)).decisive
    decided = decide(job, over, member(1, ends=(("main", 0),)))
    assert phase_of(decided, job) == "Completing"


@pytest.mark.parametrize(
    ("restart", "code", "ends"), [("Never", 3, True), ("OnFailure", 3, False), ("OnFailure", 0, True), ("Always", 0, False)]
)
def test_a_container_that_its_kubelet_starts_again_has_not_ended(restart: str, code: int, ends: bool) -> None:
    body = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", "creationTimestamp": STAMP, "resourceVersion": "1"},
        "spec": {"restartPolicy": restart, "containers": [{"name": "main"}, {"name": "proxy"}]},
        "status": {"phase": "Running", "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": code}}}]},
    }
    assert Projector().pod(orjson.dumps(body)).ends == ((("main", code),) if ends else ())


# --- what others left ------------------------------------------------------------------------------------------------


def test_where_a_foreign_definition_drops_the_memory_a_restart_still_renews_the_pods() -> None:
    job = view("Restarting", status={"version": 1, "retryCount": 1}, memory={"generation": 0}, minimum=2)
    decided = decide(job, member(0, "Failed"), member(1))
    assert phase_of(decided, job) == "Restarting"
    assert [each.index for each in decided.delete] == [0, 1]


@pytest.mark.parametrize("started", ["yesterday", "2026-01-01T00:00:00"])
def test_a_status_that_somebody_wrote_by_hand_stops_nothing(started: str) -> None:
    job = view(notes={keys.MAX_RUN_TIME: "90s"}, memory={"startedAt": started})
    assert phase_of(decide(job, member(0), member(1)), job) == "Running"
    odd = view("Melting", memory={"startedAt": started})
    assert phase_of(decide(odd, member(0), member(1)), odd) in ("Pending", "Running")


def test_a_job_that_runs_gets_its_group_again_whatever_is_held_against_its_spec_now(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        await stage.world.apply(manifest_of("train", command="sleep 600"), server=EAST)
        await stage.until(lambda: stage.phase("train") == "Running")
        stage.world.stop("agent-east")
        monkeypatch.setattr(faults, "judged", lambda manifest, *, registry: ("Invalid", "no such plugin any more"))
        (group,) = stage.world.all(kinds.POD_GROUP, server=EAST)
        await stage.world.client(EAST).delete(kinds.POD_GROUP, group["metadata"]["name"], namespace="default")
        stage.world.resume("agent-east")
        await stage.until(lambda: len(stage.world.all(kinds.POD_GROUP, server=EAST)) == 1)
        assert stage.phase("train") == "Running"

    play(story, register=False)


ALONE = {keys.RUN: encode(RunRecord(job="uid-hub", epoch=1, fence=1))}
"""A run record: no queue of this member is asked."""


@pytest.mark.parametrize("phase", ["Pending", "Running"])
def test_a_job_without_replicas_says_that_there_is_nothing_to_run(phase: str) -> None:
    decided = decide(view(phase, replicas=0, minimum=0, from_hub=True, notes=ALONE), group=inqueue())
    assert decided.status is not None
    assert (decided.status.state.phase, decided.status.state.reason) == ("Running", "NoPods")


@pytest.mark.timeout(15)
@pytest.mark.parametrize("from_hub", [True, False])
def test_forged_pods_that_pose_as_pods_of_a_place_stop_no_agent(from_hub: bool) -> None:
    job = view(replicas=2, minimum=1, from_hub=from_hub, memory={"pods": {"work": "0-1"}})
    forged = [member(1, "Pending", name=f"forged-{each}", uid=f"forged-{each}") for each in range(5)]
    decided = decide(job, *forged, member(0), member(1))
    assert decided.status is not None
    assert (decided.status.state.phase, decided.status.running, decided.status.pending) == ("Running", 2, 0)
    assert phase_of(decide(job, member(0), member(1), *forged), job) == "Running"
