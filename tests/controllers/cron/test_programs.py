"""CronJobs in the real programs on virtual time: at a member, at the hub, and with a kill at every write."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from apis import kinds
from machinery.port import PatchType
from simulator.faults import Kill, Moment, Write
from simulator.world import HUB, World
from tests.member_agent import world as member
from tests.support import stage
from tests.support.stories import job_spec

START = 29453760
"""Minutes since 1970 at virtual second 0."""

Doc = dict[str, Any]


def cron(name: str = "tick", *, labels: Doc | None = None, job: Doc | None = None, **spec: Any) -> Doc:
    """A CronJob of one-pod Jobs, every minute."""
    template = {"metadata": {"labels": labels or {}}, "spec": job_spec(**(job or {}))}
    kind = kinds.CRON_JOB
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedule": "* * * * *", "jobTemplate": template, **spec},
    }


def tick(minutes: int) -> str:
    return f"tick-{START + minutes}"


class Cron:
    """One CronJob at one server, as people see it."""

    def __init__(self, world: World, *, server: str) -> None:
        self._world, self._server = world, server

    @property
    def status(self) -> Doc:
        found = self._world.get(kinds.CRON_JOB, "tick", server=self._server) or {}
        return dict(found.get("status") or {})

    @property
    def active(self) -> list[str]:
        return [each["name"] for each in self.status.get("active") or []]

    def phases(self) -> dict[str, str]:
        """Jobs to phases."""
        found = self._world.all(kinds.JOB, server=self._server)
        return {job["metadata"]["name"]: (job.get("status") or {}).get("state", {}).get("phase", "") for job in found}

    def ends(self) -> list[str]:
        return [name for name, phase in sorted(self.phases().items()) if phase == "Completed"]

    async def until(self, minutes: float) -> None:
        await self._world.advance(max(minutes * 60 - self._world.clock.boot(), 0.0))


# --- at a member -----------------------------------------------------------------------------------------------------
def at_member(story: Callable[[member.Stage, Cron], Awaitable[None]], *, seed: int = 1) -> None:
    async def told(here: member.Stage) -> None:
        await story(here, Cron(here.world, server=member.EAST))

    member.play(told, seed=seed)


def test_a_member_runs_a_cronjob_of_its_own() -> None:
    async def story(here: member.Stage, tock: Cron) -> None:
        await here.world.apply(cron(), server=member.EAST)
        await tock.until(2.5)
        assert tock.ends() == [tick(1), tick(2)]
        assert tock.active == []
        assert tock.status["lastScheduleTime"] == "2026-01-01T00:02:00Z"
        assert tock.status["lastSuccessfulTime"] > tock.status["lastScheduleTime"]
        assert here.starts() == [f"{tick(1)}-worker-0", f"{tick(2)}-worker-0"]

    at_member(story)


def test_a_member_replaces_a_run_with_its_pods() -> None:
    async def story(here: member.Stage, tock: Cron) -> None:
        await here.world.apply(cron(concurrencyPolicy="Replace", job={"runs_for": None}), server=member.EAST)
        await tock.until(3.8)
        assert list(tock.phases()) == [tick(3)]
        assert here.running() == [f"{tick(3)}-worker-0"]

    at_member(story)


def test_a_history_limit_is_kept_while_failures_have_their_own() -> None:
    async def story(here: member.Stage, tock: Cron) -> None:
        await here.world.apply(cron(successfulJobsHistoryLimit=1), server=member.EAST)
        await tock.until(4.5)
        assert tock.phases() == {tick(4): "Completed"}

    at_member(story)


# --- at the hub ------------------------------------------------------------------------------------------------------
def test_jobs_of_a_cronjob_at_the_hub_are_placed_and_run_in_members() -> None:
    async def story(world: World) -> None:
        tock = Cron(world, server=HUB)
        await world.apply(cron(labels={"team": "blue"}, timeZone="Europe/Berlin"))
        await tock.until(2.9)
        assert tock.ends() == [tick(1), tick(2)]
        assert tock.active == []
        job = world.get(kinds.JOB, tick(1)) or {}
        assert job["metadata"]["labels"]["team"] == "blue"
        stamped = job["metadata"]["annotations"]["volcano.sh/cronjob-scheduled-timestamp"]
        assert stamped == "2026-01-01T01:01:00+01:00"
        assert [owner["kind"] for owner in job["metadata"]["ownerReferences"]] == ["CronJob"]
        assert sorted(str(start.pod) for start in world.records) == [f"{tick(1)}-worker-0", f"{tick(2)}-worker-0"]
        assert [world.all(kinds.CRON_JOB, server=name) for name in world.members] == [[], []]

    stage.play(story)


def test_a_policy_that_selects_the_labels_of_its_jobs_places_them() -> None:
    async def story(world: World) -> None:
        policy = {
            "apiVersion": kinds.PROPAGATION_POLICY.api_version,
            "kind": kinds.PROPAGATION_POLICY.kind,
            "metadata": {"name": "blue", "namespace": "default"},
            "spec": {
                "resourceSelectors": [
                    {
                        "apiVersion": kinds.JOB.api_version,
                        "kind": kinds.JOB.kind,
                        "labelSelector": {"matchLabels": {"team": "blue"}},
                    }
                ],
                "placement": {"clusterAffinity": {"clusterNames": ["west"]}},
            },
        }
        await world.apply(policy)
        await world.apply(cron(labels={"team": "blue"}))
        await Cron(world, server=HUB).until(2.9)
        assert [start.cluster for start in world.records] == ["west", "west"]

    stage.play(story)


def test_a_time_to_live_at_the_hub_waits_for_the_record_and_nothing_runs_again() -> None:
    async def story(world: World) -> None:
        tock = Cron(world, server=HUB)
        await world.apply(cron(schedule="*/2 * * * *", job={"ttlSecondsAfterFinished": 0}))
        await tock.until(3.9)
        assert (tock.phases(), tock.active) == ({}, [])
        assert tock.status["lastSuccessfulTime"] > "2026-01-01T00:02:00Z"
        assert [str(start.pod) for start in world.records] == [f"{tick(2)}-worker-0"]

    stage.play(story)


# --- killed at every write -------------------------------------------------------------------------------------------
OWN = (kinds.CRON_JOB.name, kinds.JOB.name)
HISTORY: Doc = {"successfulJobsHistoryLimit": 1}


@functools.cache
def live(server: str, *, kill: tuple[int, Moment] | None = None) -> tuple[Write, ...]:
    """A CronJob runs twice and keeps one; the writes of the program that runs it."""
    actor = HUB if server == HUB else f"agent-{server}"
    log: list[Write] = []

    async def story(world: World) -> None:
        if kill is not None:
            world.faults.at(actor, kill[0], kill[1], Kill())
        tock = Cron(world, server=server)
        await world.apply(cron(**HISTORY), server=server)
        await world.until(lambda: tick(2) in tock.ends(), timeout=300)
        await world.client(server).patch(
            kinds.CRON_JOB, "tick", {"spec": {"suspend": True}}, type=PatchType.MERGE, namespace="default"
        )
        await world.advance(90)
        log.extend(world.faults.writes_of(actor))
        assert len(world.faults.fired) == (kill is not None)
        assert tock.phases() == {tick(2): "Completed"}
        assert (tock.active, tock.status["lastScheduleTime"]) == ([], "2026-01-01T00:02:00Z")
        assert sorted(str(start.pod) for start in world.records) == [f"{tick(run)}-worker-0" for run in (1, 2)]

    if server == HUB:
        stage.play(story)
    else:
        member.play(lambda here: story(here.world))
    return tuple(log)


@pytest.mark.parametrize("moment", list(Moment))
@pytest.mark.parametrize("server", [member.EAST, HUB])
def test_a_kill_at_any_write_of_a_cronjob_runs_nothing_twice_and_loses_nothing(server: str, moment: Moment) -> None:
    """Statuses of Jobs are patched by other roles, which have kills of their own."""
    clean = [write for write in live(server) if write.kind in OWN and write.verb != "patch"]
    assert {("create", kinds.JOB.name, ""), ("delete", kinds.JOB.name, ""), ("replace", kinds.CRON_JOB.name, "status")} <= {
        (write.verb, write.kind, write.subresource) for write in clean
    }
    for write in clean:
        live(server, kill=(write.number, moment))
