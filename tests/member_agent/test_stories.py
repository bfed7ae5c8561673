"""Stories of one member: what becomes of Works, told on the real programs in a simulated cluster."""

from __future__ import annotations

import pytest

from apis import keys, kinds
from machinery.port import PatchType
from member_agent.settings import ProtocolTimes
from tests.member_agent.world import EAST, Stage, job, play, typed


def test_a_granted_job_runs_and_its_end_is_reported() -> None:
    async def story(stage: Stage) -> None:
        work = await stage.grant(job("train", replicas=3))
        await stage.until(lambda: stage.reported(work) == "Running")
        await stage.until(lambda: stage.reported(work) == "Completed")
        assert stage.condition(work, "Applied")["status"] == "True"
        assert sorted(stage.starts()) == ["train-work-0", "train-work-1", "train-work-2"]
        pod = stage.pods("train")[0]
        assert keys.RUN in pod["metadata"]["annotations"]
        assert {"name": keys.EPOCH_ENV, "value": "1"} in pod["spec"]["containers"][0]["env"]

    play(story)


def test_a_job_with_failing_pods_ends_failed_with_numbers() -> None:
    async def story(stage: Stage) -> None:
        work = await stage.grant(job("train", command="exit 3"))
        await stage.until(lambda: stage.reported(work) == "Failed")
        state = stage.local("train")["status"]["state"]  # type: ignore[index]
        assert state["message"] == "0 pods succeeded, 2 failed; 2 had to succeed"

    play(story)


def test_a_part_runs_the_indices_that_its_record_names() -> None:
    async def story(stage: Stage) -> None:
        from apis.runs import TaskSlice

        await stage.grant(job("train"), tasks={"work": TaskSlice(offset=4, total=6)})
        await stage.until(lambda: stage.phase("train") == "Completed")
        assert sorted(stage.starts()) == ["train-work-4", "train-work-5"]

    play(story)


# --- refusals --------------------------------------------------------------------------------------------------------


def test_no_room_is_refused_with_the_numbers() -> None:
    async def story(stage: Stage) -> None:
        work = await stage.grant(job("big", replicas=3, cpu="8"))
        await stage.until(lambda: stage.refusal(work) == "NoRoom")
        assert "room for 2 of 3 pods" in stage.condition(work, "Applied")["message"]
        assert stage.local("big") is None

    play(story)


def test_accepted_work_takes_its_room_before_it_is_bound() -> None:
    async def story(stage: Stage) -> None:
        works = [await stage.grant(job(f"job-{index}", replicas=2, cpu="5")) for index in range(2)]
        await stage.until(lambda: any(stage.refusal(work) for work in works))
        await stage.until(lambda: any(stage.reported(work) == "Completed" for work in works))
        assert sorted(stage.refusal(work) for work in works) == ["", "NoRoom"]

    play(story)


def test_a_stale_fence_starts_nothing_until_the_hub_stamps_the_work_anew() -> None:
    async def story(stage: Stage) -> None:
        from apis import runs

        work = await stage.grant(job("train"), fence=1)
        await stage.until(lambda: stage.refusal(work) == "StaleFence")
        assert stage.pods() == []
        stamped = runs.RunRecord(job="uid-train", epoch=1, fence=2)
        await stage.patch_work(work, {"metadata": {"annotations": {keys.RUN: runs.encode(stamped)}}})
        await stage.until(lambda: stage.reported(work) == "Completed")

    async def fenced(stage: Stage) -> None:
        await stage.register(fence=2)
        await story(stage)

    play(fenced, register=False)


def test_a_work_that_is_not_exclusive_asks_for_no_fence() -> None:
    async def story(stage: Stage) -> None:
        await stage.register(fence=7)
        work = await stage.grant(job("train"), fence=1, exclusive=False)
        await stage.until(lambda: stage.reported(work) == "Completed")

    play(story, register=False)


def test_a_name_that_is_taken_is_refused() -> None:
    async def story(stage: Stage) -> None:
        await stage.world.apply(job("train", command="sleep 1000"), server=EAST)
        work = await stage.grant(job("train"))
        await stage.until(lambda: stage.refusal(work) == "NameTaken")

    play(story)


def test_an_older_epoch_is_refused_when_a_newer_is_known() -> None:
    async def story(stage: Stage) -> None:
        await stage.grant(job("train", command="sleep 1000"), epoch=3, hub_job="uid-1")
        await stage.until(lambda: bool(stage.running("train")))
        other = await stage.grant(job("other"), epoch=2, hub_job="uid-1")
        await stage.until(lambda: stage.refusal(other) == "StaleEpoch")

    play(story)


def test_a_closed_local_queue_is_refused_and_a_missing_one_is_not() -> None:
    async def story(stage: Stage) -> None:
        queue = typed(kinds.QUEUE, {"metadata": {"name": "shut"}, "spec": {"weight": 1}})
        await stage.world.apply(queue, server=EAST)
        client = stage.world.client(EAST)
        await client.patch(kinds.QUEUE, "shut", {"status": {"state": "Closed"}}, type=PatchType.MERGE, subresource="status")
        shut = await stage.grant(job("one", queue="shut"))
        free = await stage.grant(job("two", queue="nowhere"))
        await stage.until(lambda: stage.refusal(shut) == "QueueClosed")
        await stage.until(lambda: stage.reported(free) == "Completed")

    play(story)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"minimum": 5}, "spec.minAvailable: job 'minAvailable' should not be greater than total replicas in tasks: 5 of 2"),
        ({"cpu": "two"}, "spec.tasks[0]"),
    ],
)
def test_an_impossible_spec_is_refused_naming_the_field(spec: dict[str, object], words: str) -> None:
    async def story(stage: Stage) -> None:
        work = await stage.grant(job("bad", **spec))  # type: ignore[arg-type]
        await stage.until(lambda: stage.refusal(work) == "Invalid")
        assert words in stage.condition(work, "Applied")["message"]

    play(story)


def test_other_kinds_and_system_namespaces_are_refused() -> None:
    async def story(stage: Stage) -> None:
        role = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "x", "namespace": "a"},
        }
        foreign = await stage.grant(role)
        inside = job("sneaky")
        inside["metadata"]["namespace"] = "kube-system"
        system = await stage.grant(inside)
        await stage.until(lambda: (stage.refusal(foreign), stage.refusal(system)) == ("KindMissing", "Denied"))

    play(story)


def test_a_plugin_that_is_not_installed_is_refused_by_name() -> None:
    async def story(stage: Stage) -> None:
        work = await stage.grant(job("mpi", plugins={"melt": []}))
        await stage.until(lambda: stage.refusal(work) == "ExtensionUnsupported")
        assert "spec.plugins.melt" in stage.condition(work, "Applied")["message"]

    play(story)


# --- withdrawal ------------------------------------------------------------------------------------------------------


def test_a_withdrawal_is_confirmed_only_when_the_slowest_pod_is_gone() -> None:
    async def story(stage: Stage) -> None:
        stubborn = job("train", command="sleep 1000")
        stubborn["spec"]["tasks"][0]["template"]["metadata"] = {
            "annotations": {"simulator.volcano-federation.io/ignores-term": "true"}
        }
        work = await stage.grant(stubborn)
        await stage.until(lambda: len(stage.running("train")) == 2)
        await stage.world.advance(20)
        await stage.withdraw(work)
        await stage.world.advance(15)
        assert stage.work(work) is not None
        await stage.until(lambda: stage.work(work) is None)
        assert stage.running() == []
        assert all(start.end is not None for start in stage.world.records)
        await stage.until(lambda: stage.local("train") is None and stage.pods() == [])

    play(story)


def test_a_withdrawn_work_that_never_started_is_confirmed() -> None:
    async def story(stage: Stage) -> None:
        work = await stage.grant(job("big", cpu="100"))
        await stage.until(lambda: stage.refusal(work) == "NoRoom")
        await stage.withdraw(work)
        await stage.until(lambda: stage.work(work) is None)

    play(story)


def test_pods_on_a_lost_node_hold_the_confirmation_back_until_somebody_declares_it() -> None:
    async def story(stage: Stage) -> None:
        work = await stage.grant(job("train", replicas=2, cpu="6", command="sleep 10000"))
        await stage.until(lambda: len(stage.running("train")) == 2)
        stage.world.pools[EAST].isolate("node-1")
        await stage.world.advance(90)
        assert keys.RUN_NODES in stage.local("train")["metadata"]["annotations"]  # type: ignore[index]
        await stage.withdraw(work)
        await stage.until(lambda: stage.condition(work, "Gone").get("reason") == "NodeUnreachable", timeout=200)
        assert "node-1" in stage.condition(work, "Gone")["message"]
        await stage.world.advance(1000)
        assert stage.work(work) is not None
        taint = {"spec": {"taints": [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]}}
        await stage.world.client(EAST).patch(kinds.NODE, "node-1", taint, type=PatchType.MERGE)
        await stage.until(lambda: stage.work(work) is None)

    play(story)


def test_a_pod_removed_by_force_is_waited_for_as_long_as_its_kubelet_may_need() -> None:
    async def story(stage: Stage) -> None:
        work = await stage.grant(job("train", replicas=1, command="sleep 10000"))
        await stage.until(lambda: len(stage.running("train")) == 1)
        await stage.world.advance(30)
        pool = stage.world.pools[EAST]
        node = stage.pods("train")[0]["spec"]["nodeName"]
        pool.kubelets[node].cut_off()  # still Ready, but it will say nothing
        await stage.withdraw(work)
        await stage.until(lambda: stage.pods("train")[0]["metadata"].get("deletionTimestamp") is not None)
        await stage.world.client(EAST).delete(kinds.POD, "train-work-0", namespace="default", grace_seconds=0)
        await stage.world.advance(50)
        assert stage.work(work) is not None
        await stage.until(lambda: stage.work(work) is None, timeout=30)

    play(story)


def test_a_new_leader_confirms_nothing_while_the_old_one_may_still_act() -> None:
    async def story(stage: Stage) -> None:
        work = await stage.grant(job("train", command="sleep 1"))
        await stage.until(lambda: stage.reported(work) == "Completed")
        stage.world.kill(f"agent-{EAST}")
        await stage.withdraw(work)
        before = stage.world.clock.boot()
        await stage.until(lambda: stage.work(work) is None)
        assert stage.world.clock.boot() - before >= ProtocolTimes().quiet

    play(story)


# --- anomalies -------------------------------------------------------------------------------------------------------


def test_a_missing_work_is_an_anomaly_and_never_an_order() -> None:
    async def story(stage: Stage) -> None:
        work = await stage.grant(job("train", command="sleep 10000"))
        await stage.until(lambda: len(stage.running("train")) == 2)
        stage.world.stop(f"agent-{EAST}")
        await stage.patch_work(work, {"metadata": {"finalizers": None}})
        await stage.withdraw(work)
        stage.world.resume(f"agent-{EAST}")
        await stage.until(lambda: bool(stage.capacity().get("orphans")))
        assert stage.capacity()["orphans"] == [{"namespace": "default", "name": "train", "job": "uid-train", "epoch": 1}]
        await stage.world.advance(300)
        assert len(stage.running("train")) == 2

    play(story)


def test_a_job_deleted_in_the_member_is_not_made_again_and_the_hub_is_told() -> None:
    async def story(stage: Stage) -> None:
        work = await stage.grant(job("train", command="sleep 10000"))
        await stage.until(lambda: len(stage.running("train")) == 2)
        await stage.world.client(EAST).delete(kinds.JOB, "train", namespace="default")
        await stage.until(lambda: stage.condition(work, "Gone").get("status") == "True")
        assert stage.condition(work, "Gone")["reason"] == "LocallyDeleted"
        assert stage.running() == []
        await stage.until(lambda: stage.local("train") is None)
        stage.world.kill(f"agent-{EAST}")
        await stage.world.advance(120)
        assert stage.local("train") is None
        assert len(stage.starts()) == 2
        await stage.withdraw(work)
        await stage.until(lambda: stage.work(work) is None)

    play(story)


def test_suspended_dispatching_neither_updates_nor_removes() -> None:
    async def story(stage: Stage) -> None:
        work = await stage.grant(job("train", replicas=2, command="sleep 10000"))
        await stage.until(lambda: len(stage.running("train")) == 2)
        bigger = job("train", replicas=3, command="sleep 10000")
        await stage.patch_work(work, {"spec": {"suspendDispatching": True, "workload": {"manifests": [bigger]}}})
        await stage.world.advance(30)
        assert len(stage.running("train")) == 2
        await stage.patch_work(work, {"spec": {"suspendDispatching": False}})
        await stage.until(lambda: len(stage.running("train")) == 3)

    play(story)


def test_a_scaled_down_job_loses_its_highest_indices() -> None:
    async def story(stage: Stage) -> None:
        work = await stage.grant(job("train", replicas=3, minimum=1, command="sleep 10000"))
        await stage.until(lambda: len(stage.running("train")) == 3)
        smaller = job("train", replicas=1, minimum=1, command="sleep 10000")
        await stage.patch_work(work, {"spec": {"workload": {"manifests": [smaller]}}})
        await stage.until(lambda: stage.running("train") == ["train-work-0"])

    play(story)


# --- local Jobs, the Lease, capacity ---------------------------------------------------------------------------------


def test_a_local_job_waits_for_its_queue_and_runs() -> None:
    async def story(stage: Stage) -> None:
        await stage.world.apply(job("mine"), server=EAST)
        await stage.until(lambda: stage.phase("mine") == "Completed")
        group = stage.world.all(kinds.POD_GROUP, server=EAST)[0]
        assert group["spec"]["minMember"] == 2

    play(story)


def test_a_local_job_of_a_missing_queue_says_so() -> None:
    async def story(stage: Stage) -> None:
        await stage.world.apply(job("mine", queue="nowhere"), server=EAST)
        await stage.until(lambda: stage.phase("mine") == "Pending")
        assert "queue nowhere does not exist" in stage.local("mine")["status"]["state"]["message"]  # type: ignore[index]

    play(story)


def test_a_local_gang_that_does_not_fit_waits_with_a_reason_and_starts_when_there_is_room() -> None:
    async def story(stage: Stage) -> None:
        first = await stage.grant(job("first", replicas=2, cpu="6", command="sleep 30"))
        await stage.until(lambda: len(stage.running("first")) == 2)
        await stage.world.apply(job("second", replicas=2, cpu="6", command="sleep 5"), server=EAST)
        await stage.until(lambda: "cpu" in stage.local("second").get("status", {}).get("state", {}).get("message", ""))  # type: ignore[union-attr]
        assert stage.pods("second") == []
        await stage.until(lambda: stage.phase("second") == "Completed")
        assert stage.reported(first) == "Completed"

    play(story)


def test_a_local_job_leaves_when_its_time_is_over() -> None:
    async def story(stage: Stage) -> None:
        await stage.world.apply(job("mine", ttlSecondsAfterFinished=60), server=EAST)
        await stage.until(lambda: stage.phase("mine") == "Completed")
        await stage.world.advance(55)
        assert stage.local("mine") is not None
        await stage.until(lambda: stage.local("mine") is None and stage.pods() == [], timeout=10)

    play(story)


def test_the_second_fencer_takes_over_when_the_first_has_died() -> None:
    async def story(stage: Stage) -> None:
        await stage.world.advance(25)
        before = stage.lease()["spec"]["holderIdentity"]
        stage.world.kill(f"fencer-{EAST}")
        await stage.until(lambda: stage.lease()["spec"]["holderIdentity"] != before, timeout=60)
        assert stage.lease()["spec"]["holderIdentity"].split("/")[0] == before.split("/")[0]

    play(story)


def test_foreign_pods_count_as_used() -> None:
    async def story(stage: Stage) -> None:
        container = {"name": "main", "image": "busybox:1", "resources": {"requests": {"cpu": "6"}}}
        for index in range(2):
            body = {"metadata": {"name": f"foreign-{index}"}, "spec": {"nodeName": f"node-{index}", "containers": [container]}}
            await stage.world.client(EAST).create(kinds.POD, body, namespace="default")
        await stage.world.advance(1)
        work = await stage.grant(job("train", replicas=1, cpu="4"))
        await stage.until(lambda: stage.refusal(work) == "NoRoom")

    play(story)


def test_a_bare_pod_of_this_scheduler_gets_a_node() -> None:
    async def story(stage: Stage) -> None:
        container = {"name": "main", "image": "busybox:1", "command": ["sleep", "1"]}
        body = {
            "metadata": {"name": "alone"},
            "spec": {"schedulerName": "volcano", "restartPolicy": "Never", "containers": [container]},
        }
        await stage.world.client(EAST).create(kinds.POD, body, namespace="default")
        await stage.until(lambda: "alone" in stage.starts())

    play(story)


def test_a_job_whose_pod_name_is_taken_goes_on_when_the_name_is_free() -> None:
    async def story(stage: Stage) -> None:
        container = {"name": "main", "image": "busybox:1"}
        body = {"metadata": {"name": "mine-work-0"}, "spec": {"containers": [container]}}
        client = stage.world.client(EAST)
        await client.create(kinds.POD, body, namespace="default")
        await stage.world.apply(job("mine"), server=EAST)
        await stage.world.advance(10)
        assert stage.running("mine") == []
        await client.delete(kinds.POD, "mine-work-0", namespace="default")
        await stage.until(lambda: stage.phase("mine") == "Completed")

    play(story)


def test_early_success_removes_the_pods_that_are_left() -> None:
    async def story(stage: Stage) -> None:
        spec = job("mine", replicas=1, minimum=1, command="sleep 3", minSuccess=1)
        slow = job("slow", replicas=1, command="sleep 10000")["spec"]["tasks"][0]
        spec["spec"]["tasks"].append({**slow, "name": "slow"})
        await stage.world.apply(spec, server=EAST)
        await stage.until(lambda: stage.phase("mine") == "Completed")
        await stage.until(lambda: stage.running("mine") == [])

    play(story)


def test_a_hub_that_is_away_stops_nothing_that_runs() -> None:
    async def story(stage: Stage) -> None:
        work = await stage.grant(job("train", command="sleep 60"))
        await stage.until(lambda: len(stage.running("train")) == 2)
        stage.world.cut(EAST)
        await stage.until(lambda: stage.phase("train") == "Completed", timeout=300)
        stage.world.heal(EAST)
        await stage.until(lambda: stage.reported(work) == "Completed")
        assert len(stage.starts()) == 2

    play(story)


def test_capacity_accounts_for_every_work_up_to_where_it_says() -> None:
    async def story(stage: Stage) -> None:
        await stage.until(lambda: bool(stage.capacity().get("nodes")))
        work = await stage.grant(job("train", replicas=2, cpu="4", command="sleep 10000"))
        version = int(stage.work(work)["metadata"]["resourceVersion"])  # type: ignore[index]
        await stage.until(lambda: int(stage.capacity().get("worksThrough") or 0) >= version)
        nodes = stage.capacity()["nodes"]
        cpu = nodes["resources"].index("cpu") + 2
        assert sum(row[cpu] * row[-1] for row in nodes["rows"]) == 8000

    play(story)


def test_the_fencer_renews_and_never_touches_the_fence_number() -> None:
    async def story(stage: Stage) -> None:
        await stage.world.advance(100)
        lease = stage.lease()
        assert lease["spec"]["leaseTransitions"] == 5
        assert int(lease["metadata"]["annotations"]["volcano-federation.io/renewals"]) >= 9

    async def fenced(stage: Stage) -> None:
        await stage.register(fence=5)
        await story(stage)

    play(fenced, register=False)


def test_an_idle_member_writes_nothing_but_leases() -> None:
    async def story(stage: Stage) -> None:
        await stage.world.advance(60)
        before = {kind: [doc["metadata"]["resourceVersion"] for doc in stage.world.all(kind)] for kind in IDLE}
        await stage.world.advance(600)
        assert {kind: [doc["metadata"]["resourceVersion"] for doc in stage.world.all(kind)] for kind in IDLE} == before

    play(story)


IDLE = (kinds.CLUSTER, kinds.CLUSTER_CAPACITY, kinds.WORK)


def test_a_work_that_shrinks_after_its_end_is_no_order() -> None:
    async def tell(stage: Stage) -> None:
        work = await stage.grant(job("train", command="sleep 3"))
        await stage.until(lambda: stage.reported(work) == "Completed")
        await stage.world.advance(45)
        before, starts = stage.local("train"), stage.starts()
        name = {
            "apiVersion": kinds.JOB.api_version,
            "kind": kinds.JOB.kind,
            "metadata": {"namespace": "default", "name": "train"},
        }
        await stage.patch_work(work, {"spec": {"workload": {"manifests": [name]}}})
        shrunk = stage.work(work)
        await stage.world.advance(30)
        stage.world.kill("agent-east")
        await stage.world.advance(60)
        assert (stage.local("train"), stage.starts()) == (before, starts)
        assert stage.work(work) == shrunk
        await stage.withdraw(work)
        await stage.until(lambda: stage.work(work) is None, what="an ended Work is confirmed however small it is")
        assert stage.local("train") is None

    play(tell)
