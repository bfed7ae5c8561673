"""How many writes a Job and its pods cost (protocol.md 7), counted in a simulated world."""

from __future__ import annotations

from collections import Counter

from apis import kinds
from simulator.faults import Write
from tests.member_agent.world import EAST, Stage, job, play

PODS = 4


def test_writes_of_one_job_stay_within_their_budget() -> None:
    async def story(stage: Stage) -> None:
        await stage.world.advance(20)
        before = len(stage.world.faults.log)
        work = await stage.grant(job("train", replicas=PODS, command="sleep 20"))
        await stage.until(lambda: stage.reported(work) == "Completed")
        mine = [write for write in stage.world.faults.log[before:] if write.actor == f"agent-{EAST}"]
        local = [write for write in mine if write.server == EAST and write.kind in OF_A_JOB]
        pods = [write for write in mine if write.server == EAST and write.kind == "pods"]
        assert len(pods) == 2 * PODS, told(pods)
        assert len(local) <= 5, told(local)
        reports = [write for write in mine if write.kind == kinds.WORK.name]
        assert len(reports) == 2, told(reports)
        before_end = Counter(write.kind for write in mine if write.kind == kinds.CLUSTER_CAPACITY.name)
        assert before_end.total() <= 6

    play(story)


def test_a_burst_of_jobs_stays_within_the_pace_of_reports_and_merges_pending() -> None:
    async def story(stage: Stage) -> None:
        await stage.world.advance(20)
        works = [await stage.grant(job(f"job-{index}", replicas=1, command="sleep 30")) for index in range(60)]
        await stage.until(lambda: all(stage.reported(work) == "Completed" for work in works), timeout=300)
        reports = [write for write in stage.world.faults.log if write.kind == kinds.WORK.name and write.verb == "patch"]
        assert len(reports) <= 3 * len(works)
        times = [write.time for write in reports if write.actor.startswith("agent")]
        assert all(sum(start <= time < start + 1 for time in times) <= 41 for start in times)  # a burst of 20, then 20/s

    play(story, nodes=10)


OF_A_JOB = {kinds.JOB.name, kinds.POD_GROUP.name}


def told(writes: list[Write]) -> str:
    return "\n".join(map(str, writes))
