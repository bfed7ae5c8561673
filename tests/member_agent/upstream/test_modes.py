"""Who runs the Jobs of a member: decided by what is alive, changed only where nothing is left to fight over."""

from __future__ import annotations

from typing import Any

import pytest

from apis import kinds
from machinery.informer import Change
from machinery.port import PatchType
from member_agent.modes import AGENT_MODE, Leases, LeaseView, Mode, Ruling, Situation, project_lease, rule
from simulator.faults import Moment, answer
from tests.member_agent.world import EAST, Stage, job
from tests.member_agent.world import play as play_builtin
from tests.support import upstream

AGENT, VOLCANO = f"agent-{EAST}", f"volcano-{EAST}"
ALIVE = ("volcano-system/vc-scheduler",)
B, V = Mode.BUILTIN, Mode.VOLCANO


@pytest.mark.parametrize(
    ("setting", "recorded", "foreign", "drained", "ruling"),
    [
        ("auto", None, (), False, Ruling(B)),
        ("auto", None, ALIVE, False, Ruling(V)),
        ("auto", B, (), False, Ruling(B)),
        ("auto", B, ALIVE, True, Ruling(V)),
        ("auto", B, ALIVE, False, Ruling(B, ALIVE)),
        ("auto", V, ALIVE, False, Ruling(V)),
        ("auto", V, (), False, Ruling(V)),  # it pauses, its Jobs stay its own
        ("auto", V, (), True, Ruling(B)),
        ("builtin", V, (), False, Ruling(B)),
        ("builtin", B, ALIVE, True, Ruling(B, ALIVE)),
        ("volcano", B, (), False, Ruling(V)),
        ("volcano", None, ALIVE, False, Ruling(V)),
    ],
)
def test_who_runs_jobs(setting: str, recorded: Mode | None, foreign: tuple[str, ...], drained: bool, ruling: Ruling) -> None:
    assert rule(Situation(setting, recorded, foreign, drained)) == ruling


def lease(version: str, *, uid: str = "u", held: bool = True) -> LeaseView:
    return LeaseView("volcano-system", "vc-scheduler", uid, version, held, 15.0)


def test_a_lease_is_alive_while_it_is_renewed_before_our_eyes_whatever_the_clocks_say() -> None:
    leases, key = Leases(), ("volcano-system", "vc-scheduler")
    leases.changed(Change(key, None, lease("1")), now=100.0)
    assert (leases.alive(now=100.0), leases.undecided(now=100.0)) == ((), 15.0)
    assert leases.undecided(now=115.0) == 0.0  # it stood still for its duration: nobody is there
    leases.changed(Change(key, lease("1"), lease("2")), now=116.0)
    assert leases.alive(now=130.9) == ALIVE
    assert leases.soonest(now=120.0) == 11.0
    assert leases.alive(now=131.0) == ()


def test_a_lease_that_was_given_back_or_made_anew_says_nothing_yet() -> None:
    leases, key = Leases(), ("volcano-system", "vc-scheduler")
    leases.changed(Change(key, None, lease("1")), now=0.0)
    leases.changed(Change(key, lease("1"), lease("2", held=False)), now=1.0)
    assert (leases.alive(now=1.0), leases.undecided(now=1.0)) == ((), 0.0)
    leases.changed(Change(key, lease("2", held=False), lease("3", uid="v")), now=2.0)
    assert leases.alive(now=2.0) == ()


def test_a_lease_without_a_holder_is_nobody_s() -> None:
    read = project_lease(b'{"metadata": {"name": "vc-scheduler", "namespace": "v"}, "spec": {"holderIdentity": null}}')
    assert (read.held, read.duration) == (False, 15.0)
    assert (
        project_lease(b'{"metadata": {"name": "x"}, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 60}}').duration
        == 60
    )


# --- told with the real agent ----------------------------------------------------------------------------------------


def condition(stage: Stage) -> dict[str, Any]:
    cluster = stage.world.get(kinds.CLUSTER, EAST) or {}
    found = (cluster.get("status") or {}).get("conditions") or []
    return next((each for each in found if each["type"] == "ForeignController"), {})


def mode(stage: Stage) -> str:
    cluster = stage.world.get(kinds.CLUSTER, EAST) or {}
    return str((cluster["metadata"].get("annotations") or {}).get(AGENT_MODE, ""))


def agent_writes(stage: Stage, *, since: int) -> set[str]:
    """Kinds that the agent wrote in the member, its own Lease apart."""
    log = stage.world.faults.log[since:]
    return {each.kind for each in log if each.actor == AGENT and each.server == EAST} - {kinds.LEASE.name}


def test_a_member_without_a_volcano_is_run_by_the_agent() -> None:
    async def story(stage: Stage) -> None:
        await stage.until(lambda: stage.lease()["metadata"]["annotations"][AGENT_MODE] == "builtin")
        assert mode(stage) == "builtin"
        assert condition(stage) == {}
        work = await stage.grant(job("train", command="sleep 2"))
        await stage.until(lambda: stage.reported(work) == "Completed")

    play_builtin(story)


def test_a_lease_that_a_removed_volcano_left_behind_makes_nobody_stand_off() -> None:
    async def story(stage: Stage) -> None:
        client = stage.world.client(EAST)
        stage.world.stop(AGENT)
        await client.create(kinds.NAMESPACE, {"metadata": {"name": "volcano-system"}})
        spec = {"holderIdentity": "gone", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"}
        await client.create(kinds.LEASE, {"metadata": {"name": "vc-scheduler"}, "spec": spec}, namespace="volcano-system")
        stage.world.resume(AGENT)
        work = await stage.grant(job("train", command="sleep 2"))
        await stage.until(lambda: stage.reported(work) == "Completed", timeout=60)
        assert mode(stage) == "builtin"

    play_builtin(story)


def test_a_volcano_that_comes_while_jobs_run_here_makes_the_agent_stand_off_until_they_have_ended() -> None:
    async def story(stage: Stage) -> None:
        stage.world.stop(VOLCANO)
        await stage.world.advance(60)
        stage.world.kill(AGENT)
        work = await stage.grant(job("train", command="sleep 1000"))
        await stage.until(lambda: stage.reported(work) == "Running", timeout=200)
        assert mode(stage) == "builtin"
        await Renewals(stage).renew(30)
        await stage.until(lambda: condition(stage).get("status") == "True", timeout=60)
        assert "volcano-system/vc-scheduler" in condition(stage)["message"]

        since = len(stage.world.faults.log)
        await stage.withdraw(work)
        await stage.world.client(EAST).create(kinds.POD, _bare("one"), namespace="default")
        await Renewals(stage).renew(60)
        assert agent_writes(stage, since=since) == set()
        assert stage.work(work) is not None

        await stage.world.advance(60)  # it was removed again: the agent goes on where it stood
        await stage.until(lambda: stage.work(work) is None and "one" in stage.starts(), timeout=200)
        await stage.until(lambda: condition(stage).get("status") == "False", timeout=60)
        assert mode(stage) == "builtin"

    play_builtin(story, programs=upstream.installed())


def test_a_drained_member_goes_over_to_a_volcano_that_comes_and_stays_with_it_while_it_pauses() -> None:
    async def story(stage: Stage) -> None:
        stage.world.stop(VOLCANO)
        await stage.world.advance(60)
        stage.world.kill(AGENT)
        first = await stage.grant(job("first", command="sleep 2"))
        await stage.until(lambda: stage.reported(first) == "Completed", timeout=200)
        assert mode(stage) == "builtin"
        stage.world.resume(VOLCANO)
        await stage.until(lambda: mode(stage) == "volcano", timeout=120)
        second = await stage.grant(job("second", command="sleep 100"))
        await stage.until(lambda: stage.reported(second) == "Running", timeout=120)
        stage.world.stop(VOLCANO)  # an upgrade
        await stage.world.advance(50)
        stage.world.kill(AGENT)
        await stage.world.advance(20)
        assert mode(stage) == "volcano"
        stage.world.resume(VOLCANO)
        await stage.until(lambda: stage.reported(second) == "Completed", timeout=200)
        assert condition(stage).get("status") != "True"

    play_builtin(story, programs=upstream.installed())


@pytest.mark.parametrize("code", [0, 500, 409])
def test_a_member_that_does_not_answer_is_asked_again_for_the_mode(code: int) -> None:
    async def story(stage: Stage) -> None:
        for moment in Moment:
            stage.world.faults.at(AGENT, 3, moment, answer(code))
        await stage.register()
        third = next(each for each in stage.world.faults.log if (each.actor, each.number) == (AGENT, 3))
        assert (third.verb, third.kind) == ("patch", kinds.NAMESPACE.name)
        await stage.until(lambda: mode(stage) == "builtin")
        work = await stage.grant(job("train", command="sleep 2"))
        await stage.until(lambda: stage.reported(work) == "Completed")

    play_builtin(story, register=False)


def test_a_mode_that_a_person_set_is_kept() -> None:
    async def volcano(stage: Stage) -> None:
        await stage.until(lambda: mode(stage) == "volcano")
        work = await stage.grant(job("train", command="sleep 2"))
        await stage.world.advance(120)
        assert stage.reported(work) in ("", "Pending")  # nobody is there who would run it
        assert stage.starts() == []

    async def builtin(stage: Stage) -> None:
        await stage.until(lambda: condition(stage).get("status") == "True", timeout=60)
        work = await stage.grant(job("train", command="sleep 2"))
        await stage.world.advance(60)
        assert stage.local("train") is None and stage.refusal(work) == ""

    play_builtin(volcano, settings={"mode": "volcano"})
    play_builtin(builtin, settings={"mode": "builtin"}, programs=upstream.installed())


def _bare(name: str) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox:1", "command": ["sleep", "5"]}
    spec = {"schedulerName": "volcano", "restartPolicy": "Never", "containers": [container]}
    return {"metadata": {"name": name}, "spec": spec}


class Renewals:
    """Somebody renews the scheduler's Lease, and does nothing else."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._client = stage.world.client(EAST)

    async def renew(self, seconds: float) -> None:
        for _ in range(int(seconds / 2)):
            spec = {"holderIdentity": "v", "leaseDurationSeconds": 15, "leaseTransitions": 0, "renewTime": None}
            spec["renewTime"] = self._stage.world.clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            patch = {"spec": spec}
            await self._client.patch(kinds.LEASE, "vc-scheduler", patch, type=PatchType.MERGE, namespace="volcano-system")
            await self._stage.world.advance(2)
