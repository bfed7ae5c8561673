"""The flow controller on an in-memory API server, with an actor that runs Jobs by completing them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import orjson
import pytest

from apis import kinds
from controllers.flows.controller import FlowController
from controllers.flows.plans import ProbeWanted
from controllers.flows.probing import Prober
from machinery import errors
from machinery.clock import Chance, Ids
from machinery.informer import Informers
from policies.views import JobView, Projections
from simulator.api import ApiServer, MemoryPort
from simulator.loop import SimClock, run_virtual

TEMPLATE = {"tasks": [{"name": "t", "replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}]}


def typed(kind: kinds.Kind, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    """An object as a client sends it."""
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "spec": spec}


class Town:
    """A namespace `team` on one API server, and a controller that can be started and killed."""

    def __init__(self, clock: SimClock, chance: Chance, ids: Ids) -> None:
        self.clock, self._chance = clock, chance
        self.server = ApiServer(clock, ids=ids, chance=chance)
        self.port = MemoryPort(self.server)
        self.created: list[str] = []

    @contextlib.asynccontextmanager
    async def controller(self, prober: Prober | None = None) -> AsyncIterator[None]:
        """One life of the controller."""
        informers = Informers(self.port, self.clock, self._chance)
        jobs = informers.add(kinds.JOB, Projections().job)
        flows: FlowController[JobView] = FlowController(
            port=self.port, informers=informers, jobs=jobs, clock=self.clock, prober=prober
        )
        tasks = [asyncio.create_task(informers.run()), asyncio.create_task(flows.run())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def template(self, *names: str, spec: dict[str, Any] | None = None) -> None:
        for name in names:
            body = typed(kinds.JOB_TEMPLATE, name, spec or TEMPLATE)
            await self.port.create(kinds.JOB_TEMPLATE, body, namespace="team")

    async def flow(self, steps: dict[str, list[str]], **spec: Any) -> None:
        flows = [{"name": name, "dependsOn": {"targets": targets}} for name, targets in steps.items()]
        body = typed(kinds.JOB_FLOW, "flow", {"flows": flows, **spec})
        await self.port.create(kinds.JOB_FLOW, body, namespace="team")

    async def end(self, job: str, phase: str = "Completed") -> None:
        """The Job reaches a terminal phase."""
        found = orjson.loads(await self.port.get(kinds.JOB, job, namespace="team"))
        found["status"] = {"state": {"phase": phase, "lastTransitionTime": "2026-01-01T00:00:09Z"}}
        await self.port.replace(kinds.JOB, job, found, namespace="team", subresource="status")

    async def settle(self) -> None:
        await self.clock.sleep(1.0)

    async def jobs(self) -> list[str]:
        page = await self.port.list(kinds.JOB, namespace="team")
        return [orjson.loads(item)["metadata"]["name"] for item in page.items]

    async def status(self) -> dict[str, Any]:
        found = orjson.loads(await self.port.get(kinds.JOB_FLOW, "flow", namespace="team"))
        status: dict[str, Any] = found.get("status", {})
        return status

    async def phase(self) -> str:
        return str((await self.status()).get("state", {}).get("phase", ""))


def in_town(story: Callable[[Town], Coroutine[Any, Any, None]]) -> None:
    async def main(clock: SimClock, chance: Chance, ids: Ids) -> None:
        town = Town(clock, chance, ids)
        await town.port.create(kinds.NAMESPACE, {"metadata": {"name": "team"}})
        await story(town)

    run_virtual(main, seed=1)


def test_jobs_are_made_as_their_targets_complete_and_carry_flow_and_template() -> None:
    async def story(town: Town) -> None:
        await town.template("a", "b")
        await town.flow({"a": [], "b": ["a"]})
        async with town.controller():
            await town.settle()
            assert await town.jobs() == ["flow-a"]
            job = orjson.loads(await town.port.get(kinds.JOB, "flow-a", namespace="team"))
            assert job["metadata"]["annotations"]["volcano.sh/createdByJobFlow"] == "team.flow"
            assert job["metadata"]["annotations"]["volcano.sh/createdByJobTemplate"] == "team.a"
            assert job["metadata"]["ownerReferences"][0]["kind"] == "JobFlow"
            await town.end("flow-a")
            await town.settle()
            assert await town.jobs() == ["flow-a", "flow-b"]
            await town.end("flow-b")
            await town.settle()
            assert await town.phase() == "Succeed"

    in_town(story)


def test_a_template_that_appears_later_wakes_the_flow() -> None:
    async def story(town: Town) -> None:
        await town.flow({"late": []})
        async with town.controller():
            await town.settle()
            assert await town.jobs() == []
            assert "waiting for JobTemplate late" in (await town.status())["state"]["message"]
            await town.template("late")
            await town.settle()
            assert await town.jobs() == ["flow-late"]

    in_town(story)


def test_a_job_deleted_right_after_its_end_does_not_run_again() -> None:
    async def story(town: Town) -> None:
        await town.template("a", "b")
        await town.flow({"a": [], "b": ["a"]})
        async with town.controller():
            await town.settle()
            await town.end("flow-a")
            await town.port.delete(kinds.JOB, "flow-a", namespace="team")
            await town.settle()
            assert await town.jobs() == ["flow-b"]

    in_town(story)


def test_a_controller_that_was_away_goes_on_where_the_status_says() -> None:
    async def story(town: Town) -> None:
        await town.template("a", "b")
        await town.flow({"a": [], "b": ["a"]})
        async with town.controller():
            await town.settle()
            await town.end("flow-a")
            await town.settle()
        await town.port.delete(kinds.JOB, "flow-a", namespace="team")
        async with town.controller():
            await town.settle()
            assert await town.jobs() == ["flow-b"]
            await town.end("flow-b")
            await town.settle()
            assert await town.phase() == "Succeed"

    in_town(story)


def test_a_job_of_the_same_name_that_is_not_the_flows_is_left_alone() -> None:
    async def story(town: Town) -> None:
        await town.template("a")
        await town.port.create(kinds.JOB, typed(kinds.JOB, "flow-a", TEMPLATE), namespace="team")
        await town.flow({"a": []})
        async with town.controller():
            await town.settle()
            assert (await town.status())["state"]["reason"] == "NameTaken"
            await town.port.delete(kinds.JOB, "flow-a", namespace="team")
            await town.settle()
            job = orjson.loads(await town.port.get(kinds.JOB, "flow-a", namespace="team"))
            assert job["metadata"]["ownerReferences"][0]["name"] == "flow"

    in_town(story)


def test_retain_policy_delete_removes_jobs_after_success_only() -> None:
    async def story(town: Town) -> None:
        await town.template("a")
        await town.flow({"a": []}, jobRetainPolicy="delete")
        async with town.controller():
            await town.settle()
            assert await town.jobs() == ["flow-a"]
            await town.end("flow-a")
            await town.settle()
            assert await town.jobs() == []
            assert await town.phase() == "Succeed"

    in_town(story)


@pytest.mark.parametrize("steps", [{"a": ["b"], "b": ["a"]}, {"a": ["ghost"]}])
def test_a_flow_that_cannot_run_fails_visibly_and_others_go_on(steps: dict[str, list[str]]) -> None:
    async def story(town: Town) -> None:
        await town.template("a", "b")
        with contextlib.suppress(errors.Invalid):  # the schema may refuse it first
            await town.flow(steps)
        other = typed(kinds.JOB_FLOW, "other", {"flows": [{"name": "a"}]})
        await town.port.create(kinds.JOB_FLOW, other, namespace="team")
        async with town.controller():
            await town.settle()
            assert await town.jobs() == ["other-a"]
            with contextlib.suppress(errors.NotFound):
                assert await town.phase() == "Failed"

    in_town(story)


def test_a_job_deleted_while_the_controller_was_away_stays_until_its_end_is_recorded() -> None:
    async def story(town: Town) -> None:
        await town.template("a", "b")
        await town.flow({"a": [], "b": ["a"]})
        async with town.controller():
            await town.settle()
        await town.end("flow-a")
        await town.port.delete(kinds.JOB, "flow-a", namespace="team")
        assert await town.jobs() == ["flow-a"], "it waits for its flow"
        async with town.controller():
            await town.settle()
            assert await town.jobs() == ["flow-b"]
            assert (await town.status())["completedJobs"] == ["flow-a"]

    in_town(story)


def test_a_job_that_nobody_ended_leaves_at_once_and_is_made_again() -> None:
    async def story(town: Town) -> None:
        await town.template("a")
        await town.flow({"a": []})
        async with town.controller():
            await town.settle()
            first = orjson.loads(await town.port.get(kinds.JOB, "flow-a", namespace="team"))["metadata"]["uid"]
            await town.port.delete(kinds.JOB, "flow-a", namespace="team")
            await town.settle()
            assert orjson.loads(await town.port.get(kinds.JOB, "flow-a", namespace="team"))["metadata"]["uid"] != first

    in_town(story)


@pytest.mark.parametrize("away", [False, True])
def test_jobs_of_a_deleted_flow_do_not_linger(away: bool) -> None:
    async def story(town: Town) -> None:
        await town.template("a")
        await town.flow({"a": []})
        async with town.controller():
            await town.settle()
            if not away:
                await town.port.delete(kinds.JOB_FLOW, "flow", namespace="team")
                await town.port.delete(kinds.JOB, "flow-a", namespace="team")  # as the garbage collector does
                await town.settle()
        if away:
            await town.port.delete(kinds.JOB_FLOW, "flow", namespace="team")
            await town.port.delete(kinds.JOB, "flow-a", namespace="team")
            async with town.controller():
                await town.settle()
        assert await town.jobs() == []

    in_town(story)


def test_a_busy_server_delays_one_job_of_a_layer_and_not_the_others() -> None:
    async def story(town: Town) -> None:
        await town.template("a", "b", "c")
        await town.flow({"a": [], "b": [], "c": []})
        refuse = town.port.create
        tried: list[str] = []

        async def busy(kind: Any, body: Any, **where: Any) -> bytes:
            if kind == kinds.JOB and body["metadata"]["name"] == "flow-b" and not tried:
                tried.append("flow-b")
                raise errors.Throttled("busy", code=429, retry_after=0.2)
            return await refuse(kind, body, **where)

        town.port.create = busy  # type: ignore[method-assign]
        async with town.controller():
            await town.settle()
            assert await town.jobs() == ["flow-a", "flow-b", "flow-c"]

    in_town(story)


async def run_flow(town: Town, spec: dict[str, Any], name: str = "flow") -> None:
    """A flow with this spec."""
    await town.port.create(kinds.JOB_FLOW, typed(kinds.JOB_FLOW, name, spec), namespace="team")


async def job_of(town: Town, name: str) -> dict[str, Any]:
    """The Job as served."""
    found: dict[str, Any] = orjson.loads(await town.port.get(kinds.JOB, name, namespace="team"))
    return found


def test_a_step_gets_its_patch_its_parameters_and_the_mark_of_its_outputs() -> None:
    async def story(town: Town) -> None:
        await town.template("base")
        patch = {"jobSpec": {"queue": "prod", "tasks": [{"name": "t", "replicas": 3}]}}
        step = {"name": "a", "template": "base", "patch": patch, "parameters": [{"name": "learn-rate", "value": "0.1"}]}
        await run_flow(town, {"flows": [{**step, "outputs": [{"name": "loss"}]}]})
        async with town.controller():
            await town.settle()
            job = await job_of(town, "flow-a")
            assert job["spec"]["queue"] == "prod"
            assert job["spec"]["tasks"][0]["replicas"] == 3
            container = job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
            assert container["env"] == [{"name": "PARAM_LEARN_RATE", "value": "0.1"}]
            told = job["metadata"]["annotations"]
            assert orjson.loads(told["volcano-federation.io/outputs"]) == [{"name": "loss", "task": "", "index": 0}]
            assert told["volcano.sh/createdByJobTemplate"] == "team.base"

    in_town(story)


def test_a_failed_step_is_made_again_and_its_old_job_goes_although_a_finalizer_held_it() -> None:
    async def story(town: Town) -> None:
        await town.template("a")
        await run_flow(town, {"flows": [{"name": "a", "retry": {"limit": 1, "backoff": "5s"}}]})
        async with town.controller():
            await town.settle()
            first = (await job_of(town, "flow-a"))["metadata"]["uid"]
            await town.end("flow-a", "Failed")
            await town.settle()
            assert await town.jobs() == []
            await town.clock.sleep(6.0)
            assert (await job_of(town, "flow-a"))["metadata"]["uid"] != first
            await town.end("flow-a")
            await town.settle()
            assert await town.phase() == "Succeed"

    in_town(story)


def test_a_nested_flow_is_a_step_and_goes_with_the_flow_around_it() -> None:
    async def story(town: Town) -> None:
        await town.template("a", "b")
        await run_flow(
            town, {"suspend": True, "flows": [{"name": "b", "patch": {"jobSpec": {"queue": "{{parameters.q}}"}}}]}, "pattern"
        )
        nested = {"name": "in", "flow": {"name": "pattern"}, "parameters": [{"name": "q", "value": "prod"}]}
        await run_flow(town, {"flows": [nested, {"name": "a", "dependsOn": {"targets": ["in"]}}]})
        async with town.controller():
            await town.settle()
            assert await town.jobs() == ["flow-in-b"]
            assert (await job_of(town, "flow-in-b"))["spec"]["queue"] == "prod"
            await town.end("flow-in-b")
            await town.settle()
            assert await town.jobs() == ["flow-a", "flow-in-b"]
            await town.port.delete(kinds.JOB_FLOW, "flow", namespace="team")
            await town.clock.sleep(5.0)
            left = [
                orjson.loads(item)["metadata"]["name"]
                for item in (await town.port.list(kinds.JOB_FLOW, namespace="team")).items
            ]
            assert left == ["pattern"]
            assert await town.jobs() == []

    in_town(story)


def test_a_flow_that_has_outlived_its_ttl_is_removed_with_its_jobs() -> None:
    async def story(town: Town) -> None:
        await town.template("a")
        await run_flow(town, {"ttl": "1m", "flows": [{"name": "a"}]})
        async with town.controller():
            await town.settle()
            await town.end("flow-a")
            await town.clock.sleep(50.0)
            assert await town.phase() == "Succeed"
            await town.clock.sleep(20.0)
            with pytest.raises(errors.NotFound):
                await town.phase()
            assert await town.jobs() == []

    in_town(story)


class Answers:
    """A prober whose pods answer when told to."""

    def __init__(self) -> None:
        self.ready = False
        self.asked = 0

    async def ask(self, namespace: str, wanted: ProbeWanted) -> str:
        self.asked += 1
        return "" if self.ready else f"{wanted.jobs[0]}: nobody listens"


def test_pods_are_asked_every_few_seconds_until_they_answer_and_then_no_more() -> None:
    async def story(town: Town) -> None:
        await town.template("server", "client")
        probe = {"targets": ["server"], "probe": {"tcpSocketList": [{"port": 80}]}}
        await run_flow(town, {"flows": [{"name": "server"}, {"name": "client", "dependsOn": probe}]})
        answers = Answers()
        async with town.controller(prober=answers):
            await town.settle()
            await town.end("flow-server", "Running")
            await town.clock.sleep(11.0)
            assert answers.asked == 3
            assert "nobody listens" in (await town.status())["state"]["message"]
            answers.ready = True
            await town.clock.sleep(6.0)
            assert await town.jobs() == ["flow-client", "flow-server"]
            await town.clock.sleep(60.0)
            assert answers.asked == 4

    in_town(story)


def test_a_layer_that_ends_little_by_little_costs_at_most_five_status_writes_a_second() -> None:
    async def story(town: Town) -> None:
        names = [f"s{index}" for index in range(20)]
        await town.template(*names)
        await town.flow({name: [] for name in names})
        async with town.controller():
            await town.settle()
            before = int(await job_version(town))
            for name in names:
                await town.end(f"flow-{name}")
                await town.clock.sleep(0.05)
            await town.settle()
            assert await town.phase() == "Succeed"
            assert int(await job_version(town)) - before <= 20 + 7  # the ends themselves, and the flow's writes

    in_town(story)


async def job_version(town: Town) -> str:
    """The server's present version."""
    return (await town.port.list(kinds.JOB_FLOW, namespace="team")).resource_version


def test_a_step_does_not_wait_for_a_status_that_was_written_a_moment_ago() -> None:
    async def story(town: Town) -> None:
        await town.template("a", "b", "c")
        await town.flow({"a": [], "b": [], "c": ["a", "b"]})
        async with town.controller():
            await town.settle()
            await town.end("flow-a")
            await town.clock.sleep(0.05)  # which is in the status now
            await town.end("flow-b")
            await town.clock.sleep(0.05)
            assert await town.jobs() == ["flow-a", "flow-b", "flow-c"]
            assert (await town.status())["completedJobs"] == ["flow-a"]
            await town.settle()
            assert (await town.status())["completedJobs"] == ["flow-a", "flow-b"]

    in_town(story)


def test_no_more_jobs_than_allowed_are_made_while_those_made_are_not_seen_yet() -> None:
    async def story(town: Town) -> None:
        await town.template("a", "b", "c", "d")
        await town.flow({"a": [], "b": [], "c": [], "d": []}, maxParallel=1)
        async with town.controller():
            for at, name in enumerate("abcd", start=1):
                await town.settle()
                assert await town.jobs() == [f"flow-{each}" for each in "abcd"[:at]]
                await town.end(f"flow-{name}")
            await town.settle()
            assert await town.phase() == "Succeed"

    in_town(story)
