"""The benchmark of evictions at a small size, and its validator against plans that are wrong."""

from __future__ import annotations

import dataclasses

import pytest

from benchmarks import scheduler_evictions as bench
from benchmarks.scheduler_core import World, make_pod, make_world
from member_agent.scheduling.decisions import Plan
from member_agent.scheduling.planner import plan


def test_a_small_run_measures_both_actions() -> None:
    rows = bench.measure(nodes=[60], candidates=60, size=8, seed=1)
    assert [row.case.split()[0] for row in rows] == ["preempt", "reclaim"]
    assert all(row.ours > 0 for row in rows)


def starving() -> tuple[World, Plan]:
    world = make_world(nodes=60, seed=2)
    bench.fill(world, candidates=60, queue="d0-t0", seed=2)
    bench.add_group(world, "high", queue="d0-t0", minimum=8, priority=9, phase="Inqueue")
    world.fold(make_pod(f"high-{index}", "high", bench.WANTED) for index in range(8))
    return world, plan(world.freeze(), configuration=bench.configuration("preempt"))


@pytest.mark.parametrize("fault", ["somebody is evicted twice", "need not go", "is over", "of 8 pods have a node"])
def test_the_validator_finds_what_is_wrong(fault: str) -> None:
    world, found = starving()
    assert bench.faults(world, found, wanted=8) == []
    going = {each.pod.uid for each in found.evictions}
    standing = (pod for key in world.groups for pod in world.gangs.pods(key).values() if pod.node)
    other = next(pod for pod in standing if pod.uid not in going)
    wrong = {
        "somebody is evicted twice": dataclasses.replace(found, evictions=(*found.evictions, found.evictions[0])),
        "need not go": dataclasses.replace(
            found, evictions=(*found.evictions, dataclasses.replace(found.evictions[0], pod=other))
        ),
        "is over": dataclasses.replace(found, evictions=found.evictions[1:]),
        "of 8 pods have a node": dataclasses.replace(found, nominated=found.nominated[1:]),
    }
    assert any(fault in said for said in bench.faults(world, wrong[fault], wanted=8))
