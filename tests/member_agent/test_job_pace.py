"""Counters of a Job that keep changing are written less and less often, and those of one that was quiet at once."""

from __future__ import annotations

from apis import kinds
from member_agent.jobs.pace import CounterPace
from tests.member_agent.test_job_rules import number, reaches, status_of, submit, task
from tests.member_agent.world import EAST, Stage, play


def written(pace: CounterPace, *, seconds: float, changes_every: float = 0.1) -> list[float]:
    """When counters of one Job are written that change all the time."""
    now, due, found = 0.0, 0.0, []
    while now < seconds:
        due = due or now + pace.delay("a", now=now)
        if now >= due:
            pace.written("a", now=now, counters=True)
            found.append(round(now, 1))
            due = 0.0
        now += changes_every
    return found


def test_counters_that_keep_changing_are_written_less_and_less_often() -> None:
    found = written(CounterPace(first=1.0, longest=4.0), seconds=40)
    gaps = [after - before for before, after in zip([0.0, *found], found, strict=False)]
    assert [round(gap) for gap in gaps[:4]] == [1, 2, 4, 4]
    assert len(found) < 13


def test_jobs_are_paced_each_for_itself() -> None:
    pace = CounterPace(first=1.0, longest=4.0)
    pace.written("a", now=5.0, counters=True)
    assert (pace.delay("a", now=5.0), pace.delay("b", now=5.0)) == (2.0, 1.0)


def test_a_job_that_was_quiet_or_changed_its_phase_is_told_soon_again() -> None:
    pace = CounterPace(first=1.0, longest=4.0)
    for _ in range(3):
        pace.written("a", now=5.0, counters=True)
    assert pace.delay("a", now=6.0) == 4.0
    assert pace.delay("a", now=13.1) == 1.0
    pace.written("a", now=6.0, counters=False)
    assert pace.delay("a", now=6.0) == 1.0
    pace.written("a", now=6.0, counters=True)
    pace.forget("a")
    assert pace.delay("a", now=6.0) == 1.0


def test_pods_that_end_one_after_the_other_cost_few_writes_and_all_are_told() -> None:
    async def story(stage: Stage) -> None:
        await submit(stage, "train", *(task(f"t{each}", f"sleep {2 * each}") for each in range(1, 16)))
        await stage.until(lambda: stage.phase("train") == "Running")
        before = len(statuses(stage))
        await stage.world.advance(28)
        assert 5 <= len(statuses(stage)) - before <= 10, statuses(stage)
        assert status_of(stage, "train")["succeeded"] >= 10
        done = await reaches(stage, "train", "Completed")
        assert number(done, "succeeded") == 15

    play(story, register=False)


def statuses(stage: Stage) -> list[str]:
    log = stage.world.faults.log
    return [str(each) for each in log if (each.kind, each.subresource) == (kinds.JOB.name, "status")]


def test_a_job_whose_pods_get_their_nodes_one_by_one_is_told_of_seldom_until_it_runs() -> None:
    async def story(stage: Stage) -> None:
        await submit(stage, "slow", task("work", replicas=20), schedulerName="somebody-else", minAvailable=20)
        await stage.until(lambda: len(stage.pods()) == 20)
        before, machine = len(statuses(stage)), stage.world.all(kinds.NODE, server=EAST)[0]["metadata"]["name"]
        for pod in sorted(stage.pods(), key=lambda each: str(each["metadata"]["name"])):
            meta = pod["metadata"]
            await stage.world.client(EAST).bind(meta["name"], namespace="default", node=machine, uid=meta["uid"])
            await stage.world.advance(1)
        done = await reaches(stage, "slow", "Running")
        assert number(done, "running") == 20
        assert len(statuses(stage)) - before <= 4, statuses(stage)

    play(story, register=False)
