"""CronJobs that make JobFlows, in the real programs on virtual time: at a member, at the hub, killed at every write."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from apis import keys, kinds
from machinery.port import PatchType
from simulator.faults import Kill, Moment, Write
from simulator.world import HUB, World
from tests.controllers.cron.test_programs import Cron, tick
from tests.member_agent import world as member
from tests.support import stage
from tests.support.stories import template

Doc = dict[str, Any]

FLOW: Doc = {
    "jobRetainPolicy": "delete",
    "flows": [{"name": "load"}, {"name": "write", "dependsOn": {"targets": ["load"]}}],
}


def cron(**spec: Any) -> Doc:
    """A CronJob `tick` of two-step flows, every minute."""
    kind = kinds.CRON_JOB
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": "tick", "namespace": "default"},
        "spec": {
            "schedule": "* * * * *",
            "flowTemplate": {"metadata": {"labels": {"team": "blue"}}, "spec": {**FLOW, **spec.pop("flow", {})}},
            **spec,
        },
    }


def templates(**given: Any) -> list[Doc]:
    return [template(name, cpu="100m", **{"runs_for": 2, **given}) for name in ("load", "write")]


class Flows(Cron):
    """One CronJob of flows at one server, as people see it."""

    def phases(self) -> dict[str, str]:
        """Flows to phases."""
        found = self._world.all(kinds.JOB_FLOW, server=self._server)
        return {flow["metadata"]["name"]: (flow.get("status") or {}).get("state", {}).get("phase", "") for flow in found}

    def ends(self) -> list[str]:
        return [name for name, phase in sorted(self.phases().items()) if phase == "Succeed"]


def pods(*runs: int) -> list[str]:
    return sorted(f"{tick(run)}-{step}-worker-0" for run in runs for step in ("load", "write"))


def started(world: World) -> list[str]:
    return sorted(str(start.pod) for start in world.records)


def at(server: str, story: Any) -> None:
    """Tell it at a member or at the hub."""
    if server == HUB:
        stage.play(story)
    else:
        member.play(lambda here: story(here.world))


@pytest.mark.parametrize("server", [member.EAST, HUB])
def test_a_flow_runs_every_minute_step_after_step(server: str) -> None:
    async def story(world: World) -> None:
        tock = Flows(world, server=server)
        await world.apply([*templates(), cron(timeZone="Europe/Berlin")], server=server)
        await tock.until(2.9)
        assert tock.ends() == [tick(1), tick(2)]
        assert (tock.active, tock.status["lastScheduleTime"]) == ([], "2026-01-01T00:02:00Z")
        assert tock.status["lastSuccessfulTime"] > tock.status["lastScheduleTime"]
        flow = world.get(kinds.JOB_FLOW, tick(1), server=server) or {}
        assert flow["metadata"]["labels"] == {"team": "blue"}
        assert flow["metadata"]["annotations"]["volcano.sh/cronjob-scheduled-timestamp"] == "2026-01-01T01:01:00+01:00"
        assert [(each["kind"], each["name"]) for each in flow["metadata"]["ownerReferences"]] == [("CronJob", "tick")]
        assert started(world) == pods(1, 2)

    at(server, story)


@pytest.mark.parametrize("server", [member.EAST, HUB])
def test_a_replaced_flow_takes_its_jobs_and_their_pods_with_it(server: str) -> None:
    async def story(world: World) -> None:
        tock = Flows(world, server=server)
        await world.apply([*templates(runs_for=None), cron(concurrencyPolicy="Replace")], server=server)
        await tock.until(3.8)
        assert list(tock.phases()) == [tick(3)]
        jobs = [job["metadata"]["name"] for job in world.all(kinds.JOB, server=server)]
        assert jobs == [f"{tick(3)}-load"]

    at(server, story)


def test_the_history_of_flows_is_kept_short() -> None:
    async def story(world: World) -> None:
        tock = Flows(world, server=HUB)
        await world.apply([*templates(), cron(successfulJobsHistoryLimit=1)])
        await tock.until(4.7)
        assert tock.phases() == {tick(4): "Succeed"}

    stage.play(story)


def test_a_flow_that_outlived_its_ttl_stays_until_its_cronjob_has_recorded_it() -> None:
    async def story(world: World) -> None:
        tock = Flows(world, server=HUB)
        await world.apply([*templates(), cron(schedule="*/2 * * * *", flow={"ttl": "0s"})])
        await tock.until(3.9)
        assert (tock.phases(), tock.active) == ({}, [])
        assert tock.status["lastSuccessfulTime"] > "2026-01-01T00:02:00Z"
        assert started(world) == pods(2)

    stage.play(story)


def test_a_policy_that_selects_the_cronjob_places_the_jobs_of_its_flows() -> None:
    async def story(world: World) -> None:
        selector = {"apiVersion": kinds.CRON_JOB.api_version, "kind": kinds.CRON_JOB.kind, "name": "tick"}
        policy = {
            "apiVersion": kinds.PROPAGATION_POLICY.api_version,
            "kind": kinds.PROPAGATION_POLICY.kind,
            "metadata": {"name": "nightly", "namespace": "default"},
            "spec": {"resourceSelectors": [selector], "placement": {"clusterAffinity": {"clusterNames": ["west"]}}},
        }
        await world.apply([policy, *templates(), cron(flow={"jobRetainPolicy": "retain"})])
        await Flows(world, server=HUB).until(1.9)
        assert [start.cluster for start in world.records] == ["west", "west"]
        job = world.get(kinds.JOB, f"{tick(1)}-write") or {}
        assert job["metadata"]["annotations"][keys.CREATED_BY_CRON] == "default.tick"

    stage.play(story)


# --- killed at every write -------------------------------------------------------------------------------------------
@functools.cache
def live(server: str, *, kill: tuple[int, Moment] | None = None) -> tuple[Write, ...]:
    """A CronJob of flows runs twice and keeps one; the writes of the program that runs it."""
    actor = HUB if server == HUB else f"agent-{server}"
    log: list[Write] = []

    async def story(world: World) -> None:
        if kill is not None:
            world.faults.at(actor, kill[0], kill[1], Kill())
        tock = Flows(world, server=server)
        await world.apply([*templates(), cron(successfulJobsHistoryLimit=1)], server=server)
        await world.until(lambda: tick(2) in tock.ends(), timeout=300)
        await world.client(server).patch(
            kinds.CRON_JOB, "tick", {"spec": {"suspend": True}}, type=PatchType.MERGE, namespace="default"
        )
        await world.advance(90)
        log.extend(world.faults.writes_of(actor))
        assert len(world.faults.fired) == (kill is not None)
        assert tock.phases() == {tick(2): "Succeed"}
        assert (tock.active, tock.status["lastScheduleTime"]) == ([], "2026-01-01T00:02:00Z")
        assert started(world) == pods(1, 2)

    at(server, story)
    return tuple(log)


@pytest.mark.parametrize("moment", list(Moment))
@pytest.mark.parametrize("server", [member.EAST, HUB])
def test_a_kill_at_any_write_for_a_cronjob_runs_no_flow_twice_and_loses_none(server: str, moment: Moment) -> None:
    """Statuses of flows and their Jobs are written by other roles, which have kills of their own."""
    clean = live(server)
    of_cron = [write for write in clean if write.kind == kinds.CRON_JOB.name]
    of_flows = [write for write in clean if write.kind == kinds.JOB_FLOW.name and not write.subresource]
    assert {(write.verb, write.subresource) for write in of_cron} >= {("replace", "status")}
    assert {write.verb for write in of_flows} == {"create", "delete"}
    for write in (*of_cron, *of_flows):
        live(server, kill=(write.number, moment))
