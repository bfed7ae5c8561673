"""Stories of Jobs at the hub, with members that are a few lines each."""

from __future__ import annotations

import json

import pytest

from apis import kinds
from apis.runs import Ground, Held, PartState, RefusalReason
from tests.federation.world import World, job, story


def test_a_job_runs_on_the_emptier_of_two_clusters_and_its_end_comes_home() -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("east", cpus=4)
        world.member("west", cpus=16)
        uid = await world.submit(job("train", pods=2))
        await world.until_phase("train", "Completed")
        assert [stint.cluster for stint in world.journal.of(uid)] == ["west"]
        binding = await world.binding("train")
        assert [each["name"] for each in binding["spec"]["clusters"]] == ["west"]
        ends = [each for each in binding["status"]["conditions"] if each["type"] == "Finished"]
        assert [each["reason"] for each in ends] == ["Completed"]
        assert (await world.job("train"))["status"]["succeeded"] == 2

    story(tell)


def test_a_deleted_job_leaves_nothing_behind() -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("east", seconds=1000.0)
        await world.submit(job("train"))
        await world.until_phase("train", "Running")
        await world.port.delete(kinds.JOB, "train", namespace="default")

        async def nothing() -> bool:
            works = await world.port.list(kinds.WORK)
            return await world.gone(kinds.RESOURCE_BINDING, "train-job") and not works.items

        await world.until(nothing)
        assert all(stint.ended is not None for stint in world.journal.stints)

    story(tell)


def test_a_refused_job_goes_to_another_cluster_only_when_the_first_has_confirmed() -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("east", cpus=32, refuses={"train": RefusalReason.NO_ROOM})
        world.member("west", cpus=8)
        uid = await world.submit(job("train"))
        await world.until_phase("train", "Completed")
        assert [stint.cluster for stint in world.journal.of(uid)] == ["west"]
        run = await world.run_of("train")
        assert (run.epoch, run.refusals) == (2, 1)

    story(tell)


def test_a_job_created_anew_under_its_name_waits_until_the_old_one_is_gone() -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("east", seconds=300.0, grace=20.0)
        old = await world.submit(job("train"))
        await world.until_phase("train", "Running")
        await world.port.delete(kinds.JOB, "train", namespace="default")
        new = await world.submit(job("train"))
        await world.until_phase("train", "Running")
        first, second = world.journal.of(old), world.journal.of(new)
        assert len(first) == len(second) == 1
        assert first[0].ended is not None
        assert second[0].began >= first[0].ended

    story(tell)


def test_a_job_that_fits_nowhere_says_why_and_starts_when_a_cluster_joins() -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("small", cpus=1)
        await world.submit(job("train", pods=4))

        async def explained() -> bool:
            state = await world.state("train")
            return state.get("reason") == "NoClusterFits" and "small: 1 of 4 pods" in state["message"]

        await world.until(explained)
        decision = json.loads((await world.binding("train"))["metadata"]["annotations"]["volcano-federation.io/verdicts"])
        assert decision["clusters"][0]["code"] == "NoRoom"
        assert "capacity" in decision["wakes"]
        assert "clusters" not in (await world.binding("train"))["spec"]
        world.member("large", cpus=8)
        await world.until_phase("train", "Completed")

    story(tell)


def test_a_suspended_job_is_not_dispatched_and_runs_when_it_is_resumed() -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("east")
        uid = await world.submit(job("train", annotations={"volcano-federation.io/suspend": "true"}))
        await world.until_phase("train", "Pending")
        await world.clock.sleep(30.0)
        assert (await world.state("train"))["reason"] == "Suspended"
        assert world.journal.of(uid) == []
        await world.annotate("train", suspend=None)
        await world.until_phase("train", "Completed")

    story(tell)


def test_suspending_a_running_job_stops_it_and_resuming_is_a_new_epoch() -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("east", seconds=60.0)
        uid = await world.submit(job("train"))
        await world.until_phase("train", "Running")
        await world.annotate("train", suspend="true")
        await world.until_phase("train", "Aborted")
        run = await world.run_of("train")
        assert run.held is Held.SUSPENDED
        assert (run.parts["east"].state, run.parts["east"].ground) == (PartState.GONE, Ground.CONFIRMED)
        await world.annotate("train", suspend="false")
        await world.until_phase("train", "Completed", within=300.0)
        assert [stint.epoch for stint in world.journal.of(uid)] == [1, 2]
        assert world.journal.overlaps() == []

    story(tell)


def test_commands_abort_and_resume_a_job_and_are_used_up() -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("east", seconds=60.0)
        await world.submit(job("train"))
        await world.until_phase("train", "Running")
        await world.command("AbortJob", job="train")
        await world.until_phase("train", "Aborted")
        assert (await world.port.list(kinds.COMMAND)).items == []
        await world.clock.sleep(120.0)
        assert (await world.state("train"))["phase"] == "Aborted"
        await world.command("ResumeJob", job="train")
        await world.until_phase("train", "Completed", within=300.0)

    story(tell)


@pytest.mark.parametrize(
    ("change", "reason", "field"),
    [
        ({"queue": "nowhere"}, "QueueNotFound", "spec.queue"),
        ({"queue": "root"}, "QueueNotALeaf", "spec.queue"),
        ({"queue": "closed"}, "QueueClosed", "spec.queue"),
        ({"minAvailable": 5}, "InvalidSpec", "spec.minAvailable"),
        ({"tasks": []}, "InvalidSpec", "spec.tasks"),
        ({"tasks": job("x", cpu="lots")["spec"]["tasks"]}, "InvalidSpec", "spec.tasks[0].template.spec"),
        ({"plugins": {"nonsense": []}}, "InvalidSpec", "spec.plugins"),
    ],
)
def test_a_bad_job_fails_with_the_field_in_its_reason_and_stops_nobody(
    change: dict[str, object], reason: str, field: str
) -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("east")
        world.server.validators[kinds.JOB] = []  # an API server that lets everything through
        made = await world.queue("closed", weight=1)
        made["status"] = {"state": "Closed"}
        await world.port.replace(kinds.QUEUE, "closed", made, subresource="status")
        await world.clock.sleep(15.0)
        bad = job("bad")
        bad["spec"] |= change
        await world.submit(bad)
        await world.submit(job("good"))
        await world.until_phase("bad", "Failed")
        state = await world.state("bad")
        assert state["reason"] == reason
        assert field in state["message"]
        await world.until_phase("good", "Completed")
        assert (await world.state("bad"))["phase"] == "Failed"

    story(tell)


def test_a_start_that_takes_too_long_is_withdrawn_and_tried_elsewhere() -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("stuck", cpus=32, startup=None)
        world.member("brisk", cpus=4)
        uid = await world.submit(job("train", annotations={"volcano-federation.io/start-timeout": "60s"}))
        await world.until_phase("train", "Completed", within=400.0)
        assert [stint.cluster for stint in world.journal.of(uid)] == ["brisk"]
        assert (await world.run_of("train")).start_timeouts == {"stuck": 1}

    story(tell)


def test_a_queue_is_never_used_beyond_its_capability() -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("east", cpus=16, seconds=20.0)
        await world.queue("narrow", weight=1, capability={"cpu": "3"})
        uids = [await world.submit(job(f"train-{index}", pods=2, queue="narrow")) for index in range(3)]
        for index in range(3):
            await world.until_phase(f"train-{index}", "Completed", within=300.0)
        stints = sorted((stint for uid in uids for stint in world.journal.of(uid)), key=lambda stint: stint.began)
        for before, after in zip(stints, stints[1:], strict=False):
            assert before.ended is not None
            assert after.began >= before.ended

    story(tell)


def test_a_finished_job_does_not_run_again_when_its_work_is_deleted() -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("east")
        uid = await world.submit(job("train"))
        await world.until_phase("train", "Completed")
        for document in (await world.port.list(kinds.WORK)).items:
            meta = json.loads(document)["metadata"]
            await world.port.delete(kinds.WORK, meta["name"], namespace=meta["namespace"])
        await world.clock.sleep(60.0)
        assert len(world.journal.of(uid)) == 1
        assert (await world.state("train"))["phase"] == "Completed"

    story(tell)


def test_a_member_that_falls_silent_gets_no_new_jobs_and_keeps_its_own() -> None:
    async def tell(world: World) -> None:
        world.hub()
        east = world.member("east", cpus=32, seconds=200.0)
        world.member("west", cpus=8)
        long = await world.submit(job("long"))
        await world.until_phase("long", "Running")
        east.away = True
        await world.clock.sleep(60.0)
        short = await world.submit(job("short"))
        await world.until_phase("short", "Completed")
        assert [stint.cluster for stint in world.journal.of(short)] == ["west"]
        east.away = False
        await world.until_phase("long", "Completed", within=400.0)
        assert len(world.journal.of(long)) == 1
        cluster = json.loads(await world.port.get(kinds.CLUSTER, "east"))
        assert cluster["spec"]["taints"] == []

    story(tell)


def test_a_job_deleted_in_its_member_is_placed_again_where_its_policy_says_so() -> None:
    async def tell(world: World) -> None:
        body = {
            "apiVersion": kinds.PROPAGATION_POLICY.api_version,
            "kind": "PropagationPolicy",
            "metadata": {"name": "again", "namespace": "default"},
            "spec": {
                "resourceSelectors": [{"apiVersion": kinds.JOB.api_version, "kind": "Job"}],
                "placement": {},
                "propagateDeps": True,
                "failover": {"application": {"decisionConditions": {"tolerationSeconds": 300}}},
            },
        }
        await world.port.create(kinds.PROPAGATION_POLICY, body, namespace="default")
        world.hub()
        east = world.member("east", seconds=30.0)
        uid = await world.submit(job("train"))
        await world.until_phase("train", "Running")
        east.deleted.add("train")
        await world.until_phase("train", "Completed")
        assert [stint.epoch for stint in world.journal.of(uid)] == [1, 2]
        assert world.journal.overlaps() == []
        past = (await world.run_of("train")).past
        assert [(each.epoch, each.ground) for each in past] == [(1, Ground.CONFIRMED)]

    story(tell)


def test_a_job_deleted_in_its_member_is_aborted_until_somebody_resumes_it() -> None:
    async def tell(world: World) -> None:
        world.hub()
        east = world.member("east", seconds=30.0)
        uid = await world.submit(job("train"))
        await world.until_phase("train", "Running")
        east.deleted.add("train")
        await world.until_phase("train", "Aborted")
        assert (await world.state("train"))["reason"] == "LocallyDeleted"
        run = await world.run_of("train")
        assert (run.parts["east"].state, run.parts["east"].ground) == (PartState.GONE, Ground.CONFIRMED)
        await world.clock.sleep(60.0)
        assert len(world.journal.of(uid)) == 1
        await world.command("ResumeJob", job="train")
        await world.until_phase("train", "Completed")
        assert [stint.epoch for stint in world.journal.of(uid)] == [1, 2]
        assert world.journal.overlaps() == []

    story(tell)


def test_a_job_that_every_member_refuses_is_offered_less_and_less_often() -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("east", cpus=32, seconds=4.0, refuses={"odd": RefusalReason.INVALID})
        await world.submit(job("odd"))
        for index in range(30):  # other Jobs come and go, so the member publishes again and again
            await world.submit(job(f"fine-{index}"))
            await world.clock.sleep(10.0)
        run = await world.run_of("odd")
        assert 3 <= run.refusals <= 10
        assert (await world.state("odd"))["phase"] == "Pending"
        assert "Invalid" in (await world.state("odd"))["message"]

    story(tell)


def test_a_job_that_asks_for_fence_is_told_that_nobody_is_armed() -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("east")
        await world.submit(job("train", annotations={"volcano-federation.io/failover": "Fence"}))
        await world.until_phase("train", "Completed")
        conditions = (await world.job("train"))["status"]["conditions"]
        assert conditions[0]["status"] == "FenceActsAsContinue"
        cluster = json.loads(await world.port.get(kinds.CLUSTER, "east"))
        armed = [each["status"] for each in cluster["status"]["conditions"] if each["type"] == "FencingArmed"]
        assert armed == ["False"]

    story(tell)


def test_a_cluster_that_is_the_hub_itself_or_a_second_of_one_id_is_refused() -> None:
    async def tell(world: World) -> None:
        world.hub()
        hub_uid = json.loads(await world.port.get(kinds.NAMESPACE, "kube-system"))["metadata"]["uid"]
        for name, uid in (("self", hub_uid), ("first", "one-id"), ("second", "one-id")):
            body = {"apiVersion": kinds.CLUSTER.api_version, "kind": "Cluster", "metadata": {"name": name}}
            await world.port.create(kinds.CLUSTER, {**body, "spec": {"id": uid, "syncMode": "Pull"}})
            await world.clock.sleep(2.0)
        reasons = {}
        for name in ("self", "first", "second"):
            cluster = json.loads(await world.port.get(kinds.CLUSTER, name))
            conditions = {each["type"]: each["reason"] for each in cluster["status"]["conditions"]}
            reasons[name] = conditions["Registered"]
        assert reasons == {"self": "HubItself", "first": "Registered", "second": "DuplicateId"}
        assert await world.gone(kinds.NAMESPACE, "karmada-es-self", namespace=None)
        assert await world.gone(kinds.NAMESPACE, "karmada-es-second", namespace=None)
        lease = json.loads(await world.port.get(kinds.LEASE, "member", namespace="karmada-es-first"))
        assert lease["spec"]["leaseTransitions"] == 1

    story(tell)


def test_node_labels_that_jobs_ask_for_are_asked_of_members() -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("east")
        await world.clock.sleep(15.0)
        picky = job("picky")
        picky["spec"]["tasks"][0]["template"]["spec"]["nodeSelector"] = {"example.com/gpu": "h100"}
        await world.submit(picky)
        await world.clock.sleep(5.0)
        capacity = json.loads(await world.port.get(kinds.CLUSTER_CAPACITY, "member", namespace="karmada-es-east"))
        assert "example.com/gpu" in capacity["spec"]["labelKeys"]
        assert (await world.state("picky"))["phase"] == "Pending"

    story(tell)


def test_a_finished_job_leaves_with_everything_of_it_when_its_time_is_over() -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("east")
        await world.submit(job("train", ttlSecondsAfterFinished=30))
        await world.until_phase("train", "Completed")

        async def nothing() -> bool:
            works = await world.port.list(kinds.WORK)
            gone = await world.gone(kinds.RESOURCE_BINDING, "train-job") and await world.gone(kinds.JOB, "train")
            return gone and not works.items

        await world.until(nothing)

    story(tell)
