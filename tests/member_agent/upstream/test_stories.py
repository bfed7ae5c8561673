"""A member where a Volcano runs the Jobs, told with the real agent: Works, reports and confirmations as anywhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from apis import keys, kinds, runs
from machinery.port import PatchType
from member_agent.modes import AGENT_MODE
from simulator.faults import Kill, Moment
from tests.member_agent.world import EAST, Stage, job, typed
from tests.member_agent.world import play as play_builtin
from tests.support import upstream

Doc = dict[str, Any]

AGENT, VOLCANO = f"agent-{EAST}", f"volcano-{EAST}"
NOT_OURS = (kinds.POD_GROUP.name, kinds.QUEUE.name)


def play(story: Callable[[Stage], Awaitable[None]], **given: Any) -> None:
    """A story with a Volcano beside our programs."""
    play_builtin(story, programs=upstream.installed(), **given)


def writes(stage: Stage, *, verb: str, kind: kinds.Kind) -> list[str]:
    """Names that the agent wrote in the member."""
    log = stage.world.faults.log
    return [each.name for each in log if (each.actor, each.server, each.verb, each.kind) == (AGENT, EAST, verb, kind.name)]


async def annotate(stage: Stage, name: str, **notes: str | None) -> None:
    """Set annotations of ours on a local Job."""
    patch = {"metadata": {"annotations": {f"{keys.GROUP}/{key.replace('_', '-')}": text for key, text in notes.items()}}}
    await stage.world.client(EAST).patch(kinds.JOB, name, patch, type=PatchType.MERGE, namespace="default")


def noted(manifest: Doc, **notes: str) -> Doc:
    """The Job with annotations of ours."""
    manifest["metadata"]["annotations"] = {f"{keys.GROUP}/{key.replace('_', '-')}": text for key, text in notes.items()}
    return manifest


def test_a_volcano_that_is_alive_gets_the_jobs_and_the_mode_is_written_everywhere() -> None:
    async def story(stage: Stage) -> None:
        work = await stage.grant(job("train", command="sleep 5"))
        await stage.until(lambda: stage.reported(work) == "Running")
        cluster = stage.world.get(kinds.CLUSTER, EAST)
        namespace = stage.world.get(kinds.NAMESPACE, keys.SYSTEM_NAMESPACE, server=EAST)
        assert cluster is not None and namespace is not None
        await stage.until(lambda: stage.lease()["metadata"]["annotations"].get(AGENT_MODE) == "volcano")
        assert cluster["metadata"]["annotations"][AGENT_MODE] == namespace["metadata"]["annotations"][AGENT_MODE] == "volcano"
        await stage.until(lambda: stage.reported(work) == "Completed")
        assert sorted(stage.starts()) == ["train-work-0", "train-work-1"]
        mine = [each for each in stage.world.faults.log if each.actor == AGENT and each.server == EAST]
        assert {each.kind for each in mine} == {kinds.NAMESPACE.name, kinds.LEASE.name, kinds.JOB.name}
        assert stage.capacity().get("nodes")

    play(story)


def test_pods_carry_the_run_and_its_epoch_and_restarts_are_counted_over_epochs() -> None:
    async def story(stage: Stage) -> None:
        manifest = noted(job("once", command="sleep 30"), no_retry="true")
        await stage.grant(manifest, epoch=4)
        await stage.grant(job("again", command="sleep 30", maxRetry=5), epoch=3, retries=2)
        await stage.until(lambda: len(stage.running("once")) == 2)
        for pod in stage.pods("once"):
            assert runs.decode_record(pod["metadata"]["annotations"][keys.RUN], where="pod").epoch == 4
            assert {"name": keys.EPOCH_ENV, "value": "4"} in pod["spec"]["containers"][0]["env"]
        once, again = stage.local("once"), stage.local("again")
        assert once is not None and again is not None
        assert (once["spec"]["maxRetry"], again["spec"]["maxRetry"]) == (1, 3)

    play(story)


def test_a_withdrawal_is_confirmed_only_when_the_pods_are_gone() -> None:
    async def story(stage: Stage) -> None:
        manifest = job("train", command="sleep 1000")
        manifest["spec"]["tasks"][0]["template"]["metadata"] = {"annotations": {"simulator/ignores-term": "true"}}
        work = await stage.grant(manifest)
        await stage.until(lambda: len(stage.running("train")) == 2)
        began = stage.world.clock.boot()
        await stage.withdraw(work)

        def confirmed_with_pods() -> bool:
            return stage.work(work) is None and bool(stage.pods("train"))

        await stage.until(lambda: stage.work(work) is None or confirmed_with_pods(), timeout=200)
        assert stage.pods("train") == []
        assert all(start.end is not None for start in stage.world.records)
        assert stage.world.clock.boot() > began
        await stage.until(lambda: stage.local("train") is None)
        assert len(stage.starts()) == 2  # nothing was started again for those that were stopped

    play(story)


def test_a_pod_on_a_node_that_does_not_answer_holds_the_confirmation_back() -> None:
    async def story(stage: Stage) -> None:
        work = await stage.grant(job("train", command="sleep 1000"))
        await stage.until(lambda: len(stage.running("train")) == 2)
        pool = stage.world.pools[EAST]
        pool.isolate("node-0")
        await stage.world.advance(60)
        await stage.withdraw(work)
        await stage.until(lambda: stage.condition(work, "Gone").get("reason") == "NodeUnreachable", timeout=300)
        pool.heal("node-0")
        await stage.until(lambda: stage.work(work) is None, timeout=300)
        assert all(start.end is not None for start in stage.world.records)

    play(story)


@pytest.mark.parametrize(
    ("notes", "record", "spec", "named"),
    [
        ({"main_container": "work=main"}, {}, {}, f"metadata.annotations[{keys.MAIN_CONTAINER}]"),
        ({"policies_only_below_minimum": "true"}, {}, {}, f"metadata.annotations[{keys.ONLY_BELOW_MINIMUM}]"),
        ({}, {"release": False}, {}, "a gang over several clusters"),
        (
            {},
            {"tasks": {"work": runs.TaskSlice(2, 4)}},
            {"plugins": {"env": [], "svc": []}},
            "spec.plugins.env, spec.plugins.svc",
        ),
    ],
)
def test_what_upstream_has_not_is_refused_by_name(notes: Doc, record: Doc, spec: Doc, named: str) -> None:
    async def story(stage: Stage) -> None:
        work = await stage.grant(noted(job("train", **spec), **notes), **record)
        await stage.until(lambda: stage.refusal(work) == "ExtensionUnsupported")
        assert named in stage.condition(work, "Applied")["message"]
        assert stage.local("train") is None

    play(story)


def test_a_divided_job_without_plugins_and_one_with_them_in_one_piece_run() -> None:
    async def story(stage: Stage) -> None:
        part = await stage.grant(job("part", command="sleep 2"), tasks={"work": runs.TaskSlice(2, 4)})
        whole = await stage.grant(job("whole", command="sleep 2", plugins={"env": []}), tasks={"work": runs.TaskSlice(0, 2)})
        await stage.until(lambda: stage.reported(part) == stage.reported(whole) == "Completed")

    play(story)


def test_suspend_and_resume_become_commands_and_a_person_s_abort_is_left_alone() -> None:
    async def story(stage: Stage) -> None:
        for name in ("mine", "theirs"):
            await stage.world.apply(job(name, command="sleep 1000"), server=EAST)
        await stage.until(lambda: len(stage.running()) == 4)
        await annotate(stage, "mine", suspend="true")
        target = {"apiVersion": kinds.JOB.api_version, "kind": "Job", "name": "theirs", "uid": _uid(stage, "theirs")}
        body = {"metadata": {"name": "theirs-abort"}, "action": "AbortJob", "target": target}
        await stage.world.client(EAST).create(kinds.COMMAND, typed(kinds.COMMAND, body), namespace="default")
        await stage.until(lambda: stage.phase("mine") == stage.phase("theirs") == "Aborted")
        await stage.world.advance(120)
        assert (stage.phase("mine"), stage.running()) == ("Aborted", [])
        assert len(writes(stage, verb="create", kind=kinds.COMMAND)) == 1
        for name in ("mine", "theirs"):
            await annotate(stage, name, suspend="false")
        await stage.until(lambda: len(stage.running("mine")) == 2)
        await stage.world.advance(120)
        assert stage.phase("theirs") == "Aborted"
        assert [name.rsplit("-", 1)[0] for name in writes(stage, verb="create", kind=kinds.COMMAND)] == [
            "mine-abortjob",
            "mine-resumejob",
        ]

    play(story)


def test_the_mirrored_field_suspends_although_upstream_drops_it() -> None:
    async def story(stage: Stage) -> None:
        stage.world.stop(VOLCANO)
        await stage.world.advance(1)
        await stage.world.apply(job("mine", command="sleep 1000", suspend=True), server=EAST)
        await stage.world.advance(5)
        stage.world.resume(VOLCANO)
        await stage.until(lambda: stage.phase("mine") == "Aborted")
        found = stage.local("mine")
        assert found is not None and "suspend" not in found["spec"]
        await stage.world.advance(120)
        assert stage.phase("mine") == "Aborted"

    play(story)


def test_a_suspension_holds_while_volcano_is_away_and_is_taken_back_when_nobody_wants_it() -> None:
    async def story(stage: Stage) -> None:
        await stage.world.apply(job("mine", command="sleep 1000"), server=EAST)
        await stage.until(lambda: len(stage.running()) == 2)
        stage.world.stop(VOLCANO)
        await annotate(stage, "mine", suspend="true")
        await stage.until(lambda: len(stage.world.all(kinds.COMMAND, server=EAST)) == 1)
        await annotate(stage, "mine", suspend="false")
        await stage.until(lambda: stage.world.all(kinds.COMMAND, server=EAST) == [])
        stage.world.resume(VOLCANO)
        await stage.world.advance(60)
        assert (stage.phase("mine"), len(stage.running())) == ("Running", 2)

    play(story)


def test_a_job_that_runs_for_too_long_is_terminated() -> None:
    async def story(stage: Stage) -> None:
        work = await stage.grant(job("train", command="sleep 1000"), max_run_time=60)
        await stage.world.apply(noted(job("mine", command="sleep 1000"), max_run_time="90s"), server=EAST)
        await stage.until(lambda: stage.reported(work) == "Running")
        began = stage.world.clock.boot()
        await stage.until(lambda: stage.reported(work) == "Terminated", timeout=200)
        assert 58 <= stage.world.clock.boot() - began <= 75
        await stage.until(lambda: stage.phase("mine") == "Terminated", timeout=200)

    play(story)


def test_an_extension_of_a_local_job_that_is_not_acted_on_is_said_in_an_event() -> None:
    async def story(stage: Stage) -> None:
        notes = {"main_container": "work=main", "policies_only_below_minimum": "true", "no_retry": "true"}
        await stage.world.apply(noted(job("mine"), **notes), server=EAST)
        await stage.until(lambda: stage.phase("mine") == "Completed")
        told = [
            event["message"] for event in stage.world.all(kinds.EVENT, server=EAST) if event["reason"] == "ExtensionUnsupported"
        ]
        assert len(told) == 3
        for key in (keys.MAIN_CONTAINER, keys.ONLY_BELOW_MINIMUM, keys.NO_RETRY):
            assert any(key in each for each in told)

    play(story)


def test_status_comes_through_without_fields_that_upstream_does_not_know() -> None:
    async def story(stage: Stage) -> None:
        policies = [{"event": "PodFailed", "action": "RestartJob"}]
        work = await stage.grant(job("train", command="exit 1", policies=policies, maxRetry=2))
        await stage.until(lambda: stage.reported(work) == "Failed", timeout=200)
        found = stage.work(work)
        assert found is not None
        status = found["status"]["manifestStatuses"][0]["status"]
        assert status["retryCount"] == 2
        assert not status.get("memory")

    play(story)


def test_a_job_deleted_here_is_reported_and_not_made_again() -> None:
    async def story(stage: Stage) -> None:
        work = await stage.grant(job("train", command="sleep 1000"))
        await stage.until(lambda: len(stage.running("train")) == 2)
        await stage.world.client(EAST).delete(kinds.JOB, "train", namespace="default")
        await stage.until(lambda: stage.condition(work, "Gone").get("reason") == "LocallyDeleted", timeout=200)
        assert stage.pods("train") == []
        await stage.world.advance(60)
        assert stage.local("train") is None

    play(story)


def _lives(stage: Stage) -> Callable[[], bool]:
    return lambda: stage.phase("mine") == "Running" and len(stage.running("mine")) == 2


@pytest.mark.parametrize("moment", list(Moment))
def test_a_kill_at_any_write_of_a_suspension_leads_to_the_same_end(moment: Moment) -> None:
    def life(kill: int | None) -> list[int]:
        numbers: list[int] = []

        async def story(stage: Stage) -> None:
            if kill is not None:
                stage.world.faults.at(AGENT, kill, moment, Kill())
            await stage.world.apply(job("mine", command="sleep 1000"), server=EAST)
            await stage.until(_lives(stage))
            await annotate(stage, "mine", suspend="true")
            await stage.until(lambda: stage.phase("mine") == "Aborted", timeout=200)
            await stage.world.advance(20)
            await annotate(stage, "mine", suspend="false")
            await stage.until(_lives(stage), timeout=200)
            await stage.world.advance(100)
            assert _lives(stage)()
            found = stage.local("mine")
            assert found is not None and found["status"].get("retryCount", 0) == 0
            assert len(stage.starts()) == 4
            kinds_of = (kinds.COMMAND.name, kinds.JOB.name)
            numbers.extend(each.number for each in stage.world.faults.log if each.actor == AGENT and each.kind in kinds_of)

        play(story, seed=9)
        return numbers

    clean = life(None)
    assert len(clean) == 5  # aborting, its Command, resuming, its Command, done
    for number in clean:
        life(number)


@pytest.mark.parametrize("moment", list(Moment))
def test_a_kill_at_any_write_of_a_run_starts_nothing_twice(moment: Moment) -> None:
    def life(kill: int | None) -> list[int]:
        numbers: list[int] = []

        async def story(stage: Stage) -> None:
            if kill is not None:
                stage.world.faults.at(AGENT, kill, moment, Kill())
            work = await stage.grant(job("train", command="sleep 20"))
            await stage.until(lambda: stage.reported(work) == "Completed", timeout=200)
            await stage.withdraw(work)
            await stage.until(lambda: stage.work(work) is None and stage.local("train") is None, timeout=200)
            await stage.world.advance(30)
            assert sorted(stage.starts()) == ["train-work-0", "train-work-1"]
            assert stage.local("train") is None
            kinds_of = (kinds.WORK.name, kinds.JOB.name)
            numbers.extend(each.number for each in stage.world.faults.log if each.actor == AGENT and each.kind in kinds_of)

        play(story, seed=9)
        return numbers

    clean = life(None)
    assert len(clean) >= 5  # the Job, two reports, its deletion and release, the confirmation
    for number in clean:
        life(number)


def test_an_order_of_the_hub_is_given_once() -> None:
    async def story(stage: Stage) -> None:
        await stage.world.apply(job("mine", command="sleep 1000"), server=EAST)
        await stage.until(_lives(stage))
        await annotate(stage, "mine", command='{"id": "7", "action": "RestartJob"}')
        await stage.until(lambda: (stage.local("mine") or {})["status"].get("retryCount") == 1)
        await stage.until(_lives(stage))
        stage.world.kill(AGENT)
        await stage.world.advance(120)
        assert len(stage.starts()) == 4
        await annotate(stage, "mine", command='{"id": "8", "action": "RestartTask", "target": "work"}')
        await stage.world.advance(60)
        assert len(stage.starts()) == 4
        told = [
            event["message"] for event in stage.world.all(kinds.EVENT, server=EAST) if event["reason"] == "ExtensionUnsupported"
        ]
        assert len(told) == 1 and "RestartTask" in told[0]

    play(story)


def test_an_order_of_the_hub_reaches_volcano_with_the_work_and_is_acknowledged() -> None:
    async def story(stage: Stage) -> None:
        work = await stage.grant(job("train", command="sleep 1000"))
        await stage.until(lambda: stage.reported(work) == "Running")
        order = {"metadata": {"annotations": {keys.COMMAND: '{"id": "7", "action": "RestartJob"}'}}}
        await stage.patch_work(work, order)
        await stage.until(lambda: acknowledged(stage, work) == ["7"], timeout=200)
        await stage.until(lambda: len(stage.running("train")) == 2)
        await stage.world.advance(120)
        assert len(stage.starts()) == 4

    play(story)


@pytest.mark.parametrize("moment", list(Moment))
def test_a_kill_at_any_write_of_a_restart_restarts_once(moment: Moment) -> None:
    def life(kill: int | None) -> list[int]:
        numbers: list[int] = []

        async def story(stage: Stage) -> None:
            if kill is not None:
                stage.world.faults.at(AGENT, kill, moment, Kill())
            await stage.world.apply(job("mine", command="sleep 1000"), server=EAST)
            await stage.until(_lives(stage))
            await annotate(stage, "mine", command='{"id": "7", "action": "RestartJob"}')
            await stage.until(lambda: (stage.local("mine") or {})["status"].get("retryCount") == 1, timeout=200)
            await stage.world.advance(100)
            assert _lives(stage)()
            assert len(stage.starts()) == 4
            kinds_of = (kinds.COMMAND.name, kinds.JOB.name)
            numbers.extend(each.number for each in stage.world.faults.log if each.actor == AGENT and each.kind in kinds_of)

        play(story, seed=9)
        return numbers

    clean = life(None)
    assert len(clean) == 3  # taken up, its Command, done
    for number in clean:
        life(number)


def acknowledged(stage: Stage, work: str) -> list[str]:
    """Ids of orders that the Work's status names."""
    statuses = (stage.work(work) or {}).get("status", {}).get("manifestStatuses") or [{}]
    found: list[str] = ((statuses[0].get("status") or {}).get("memory") or {}).get("orders") or []
    return found


def _uid(stage: Stage, name: str) -> str:
    found = stage.local(name)
    assert found is not None
    return str(found["metadata"]["uid"])
