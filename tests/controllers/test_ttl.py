"""When a finished Job leaves."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

import pytest

from controllers.ttl.planner import leaves_in

NOW = datetime.datetime(2026, 1, 1, 0, 1, 0, tzinfo=datetime.UTC)


@dataclass
class Job:
    phase: str = "Completed"
    ttl: int | None = 90
    transition: str = "2026-01-01T00:00:00Z"
    deleting: bool = False
    namespace: str = "ns"
    name: str = "job"
    uid: str = "u"
    version: str = "1"


def test_the_time_to_live_counts_from_the_end() -> None:
    assert leaves_in(Job(), now=NOW) == 30
    assert leaves_in(Job(ttl=10), now=NOW) == 0


def test_zero_means_at_once() -> None:
    assert leaves_in(Job(ttl=0), now=NOW) == 0


@pytest.mark.parametrize("job", [Job(ttl=None), Job(phase="Running"), Job(phase="Aborted"), Job(deleting=True)])
def test_a_job_without_end_or_time_to_live_stays(job: Job) -> None:
    assert leaves_in(job, now=NOW) is None


@pytest.mark.parametrize("looks", [1, 3, 10])
def test_a_job_that_does_not_say_when_it_ended_leaves_all_the_same_however_often_it_is_looked_at(looks: int) -> None:
    job = Job(transition="")
    assert leaves_in(job, now=NOW) == 90
    for each in range(1, looks + 1):
        now = NOW + datetime.timedelta(seconds=90 * each / looks)
        assert leaves_in(job, now=now, seen=NOW) == pytest.approx(90 - 90 * each / looks)
