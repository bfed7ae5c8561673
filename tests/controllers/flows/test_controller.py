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
    async def controller(self) -> AsyncIterator[None]:
        """One life of the controller."""
        informers = Informers(self.port, self.clock, self._chance)
        jobs = informers.add(kinds.JOB, Projections().job)
        flows: FlowController[JobView] = FlowController(port=self.port, informers=informers, jobs=jobs, clock=self.clock)
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
