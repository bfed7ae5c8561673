"""`fedctl simulate`: a trace on members that do not exist, under profiles that choose differently."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedctl import simulating
from fedctl.desk import Stop
from fedctl.simulating import Arrival, Site

JOBS = "submit,duration,pods,cpu,name\n100,120,1,2,late\n0,60,2,2,early\n"


def test_a_trace_is_read_in_the_order_of_its_arrivals(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(JOBS)
    assert simulating.trace(path, jobs=10) == [
        Arrival("early", 0.0, 60.0, pods=2, cpu="2"),
        Arrival("late", 100.0, 120.0, cpu="2"),
    ]
    assert len(simulating.trace(path, jobs=1)) == 1


def test_columns_of_published_traces_are_known(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("job_id,num_gpu,submit_time,duration\n0,4,50,96\n")
    assert simulating.trace(path, jobs=5) == [Arrival("job-1", 0.0, 96.0, gpus=4)]
    path.write_text("arrival_time,length,cpus\n0.5,0.25,2\n")
    assert simulating.trace(path, jobs=5) == [Arrival("job-1", 0.0, 900.0, cpu="2")]


@pytest.mark.parametrize("text", ["", "submit,duration\n", "submit,duration\n0,soon\n", "submit\n1\n"])
def test_what_is_no_trace_is_said_with_its_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(text)
    with pytest.raises(Stop, match="jobs.csv"):
        simulating.trace(path, jobs=5)


@pytest.mark.parametrize("text", ["", "[]", "- {nodes: 1}", "- {name: a, nodes: 1, colour: red}"])
def test_what_are_no_members_is_said(tmp_path: Path, text: str) -> None:
    path = tmp_path / "members.yaml"
    path.write_text(text)
    with pytest.raises(Stop, match="members.yaml"):
        simulating.sites(path)


def test_profiles_choose_differently_and_the_bill_shows_it() -> None:
    members = [
        Site("cheap", 1, cpu="4", prices={"cpu": 0.01}),
        Site("dear", 4, cpu="4", prices={"cpu": 0.10}),
    ]
    arrivals = [Arrival("one", 0.0, 600.0, cpu="1"), Arrival("two", 5.0, 600.0, cpu="1")]
    cost, balanced = simulating.simulate(arrivals, members, profiles=["cost-first", "balanced"], seed=3)
    assert (cost.done, balanced.done) == (2, 2)
    assert cost.starts == {"cheap": 2}
    assert cost.money < balanced.money or balanced.starts == {"cheap": 2}
    assert cost.money == pytest.approx(2 * 600 / 3600 * 0.01, rel=0.05)
    text = simulating.table([cost, balanced])
    assert "cost-first" in text and "2/2" in text


def test_the_same_seed_gives_the_same_answer() -> None:
    members, arrivals = [Site("one", 1, cpu="4")], [Arrival("a", 0.0, 60.0)]
    assert simulating.simulate(arrivals, members, profiles=["balanced"], seed=5) == simulating.simulate(
        arrivals, members, profiles=["balanced"], seed=5
    )
