"""The agent is killed before and after every write of one Job's life, one run each; the end is the same every time."""

from __future__ import annotations

import pytest

from simulator.faults import Kill, Moment, Write
from tests.member_agent.world import EAST, Stage, job, play

AGENT = f"agent-{EAST}"


def live(seed: int, *, kill: tuple[int, Moment] | None = None) -> list[Write]:
    """A Job of two pods runs, ends, and its Work is withdrawn; the agent's writes."""
    log: list[Write] = []

    async def story(stage: Stage) -> None:
        if kill is not None:
            stage.world.faults.at(AGENT, kill[0], kill[1], Kill())
        work = await stage.grant(job("train", command="sleep 3"))
        await stage.until(lambda: stage.reported(work) == "Completed", timeout=200)
        await stage.world.advance(10)
        await stage.withdraw(work)
        await stage.until(lambda: stage.work(work) is None and stage.local("train") is None, timeout=200)
        log.extend(write for write in stage.world.faults.log if write.actor == AGENT)
        await stage.world.advance(60)
        assert len(stage.world.faults.fired) == (kill is not None)
        assert sorted(stage.starts()) == ["train-work-0", "train-work-1"]
        assert stage.local("train") is None

    play(story, seed=seed)
    return log


@pytest.fixture(scope="module")
def clean() -> list[Write]:
    """A life without accidents: which writes there are."""
    return [write for write in live(3) if "leases" not in write.kind and write.time > 1.0]


@pytest.mark.parametrize("moment", list(Moment))
def test_a_kill_at_any_write_of_a_job_starts_nothing_twice(clean: list[Write], moment: Moment) -> None:
    assert {"create", "bind", "patch", "delete"} <= {write.verb for write in clean}
    for write in clean:
        live(3, kill=(write.number, moment))
