"""Writes that take effect after their sender was told nothing, or after he died: nothing may run without a grant."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from apis import kinds
from apis.kinds import Kind
from machinery import errors
from machinery.kube import REQUEST_TIMEOUT
from member_agent.settings import ProtocolTimes
from simulator.api import MemoryPort
from tests.member_agent.world import EAST, Stage, job, play

PATIENCE = 10.0
"""Seconds after which the port gives a request up."""

Delay = Callable[[float], list[asyncio.Task[Any]]]


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> Delay:
    """Call it with seconds: the agent's first creation of a Job gets no answer, and takes effect so late after it was sent."""
    real = MemoryPort.create

    def delay(seconds: float) -> list[asyncio.Task[Any]]:
        landing: list[asyncio.Task[Any]] = []

        async def create(self: MemoryPort, kind: Kind, body: Any, *, namespace: str | None = None, **more: Any) -> Any:
            async def land() -> None:
                await asyncio.sleep(seconds)
                await real(self, kind, body, namespace=namespace, **more)

            if kind != kinds.JOB or not self._agent.startswith("agent-") or landing:
                return await real(self, kind, body, namespace=namespace, **more)
            landing.append(asyncio.create_task(land()))
            await asyncio.sleep(PATIENCE)
            raise errors.Unreachable(f"no answer within {PATIENCE:.0f} s")

        monkeypatch.setattr(MemoryPort, "create", create)
        return landing

    return delay


def test_the_agent_knows_how_long_the_port_waits_for_an_answer() -> None:
    assert ProtocolTimes().answer == ProtocolTimes().scaled(0.01).answer == REQUEST_TIMEOUT


@pytest.mark.parametrize("seconds", [4.0, 12.0, 22.0])
def test_a_withdrawal_waits_for_a_creation_that_may_still_take_effect(late: Delay, seconds: float) -> None:
    """Nothing is confirmed while the Job may still come; when it has come it is stopped like any other."""
    landing = late(seconds)

    async def story(stage: Stage) -> None:
        await stage.world.advance(30)
        work = await stage.grant(job("train", command="sleep 600"))
        await stage.world.advance(2)
        await stage.withdraw(work)
        await stage.until(lambda: stage.work(work) is None, timeout=200)
        assert landing[0].done()
        assert stage.local("train") is None
        await stage.world.advance(60)
        assert stage.running() == []

    play(story)


@pytest.mark.parametrize("seconds", [30.0, 60.0])
@pytest.mark.parametrize("killed", [False, True])
def test_a_job_that_lands_after_its_work_was_confirmed_gone_starts_no_pod(late: Delay, seconds: float, killed: bool) -> None:
    """However long an agent or the network slept over the creation; before and after a restart."""
    landing = late(seconds)

    async def story(stage: Stage) -> None:
        await stage.world.advance(30)
        work = await stage.grant(job("train", command="sleep 600"))
        await stage.world.advance(2)
        await stage.withdraw(work)
        await stage.until(lambda: stage.work(work) is None, timeout=200)
        assert not landing[0].done()
        if killed:
            stage.world.kill(f"agent-{EAST}")
        await stage.world.advance(120)
        assert landing[0].done()
        assert (stage.starts(), stage.pods("train")) == ([], [])
        if killed:  # whoever did not confirm the end himself leaves an anomaly alone, and says so (A3)
            assert "WorkMissing" in str(stage.local("train"))
        else:
            assert stage.local("train") is None
            again = await stage.grant(job("train", command="sleep 5"), epoch=2)
            await stage.until(lambda: stage.reported(again) == "Completed")

    play(story)


def test_a_run_whose_work_goes_missing_runs_on_and_is_not_half_made_again() -> None:
    """A3 stays as it is: a missing Work is no order for pods that are there."""

    async def story(stage: Stage) -> None:
        work = await stage.grant(job("train", replicas=3, command="sleep 100"))
        await stage.until(lambda: len(stage.running("train")) == 3)
        stage.world.kill(f"agent-{EAST}")
        await stage.patch_work(work, {"metadata": {"finalizers": None}})
        await stage.withdraw(work)
        await stage.until(lambda: stage.phase("train") == "Completed", timeout=300)
        assert len(stage.starts()) == 3

    play(story)
