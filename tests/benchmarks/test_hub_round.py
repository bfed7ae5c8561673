"""The benchmark of the hub's rounds: its world leaves Jobs placed and waiting, and its validator sees what is wrong."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.federations import make_world, rules
from benchmarks.hub_round import faults, one_job, stores_of
from federation.dispatch.items import Act, Decide
from federation.dispatch.planner import plan


def test_the_validator_agrees_with_a_plan_and_sees_a_wrong_one() -> None:
    world = make_world(clusters=3, nodes=60, jobs=60)
    found = plan(stores_of(world).snapshot([job.key for job in world.jobs], now=0.0), rules=rules())
    placed = [item for item in found.items if isinstance(item, Decide) and item.act is Act.PLACE]
    assert 0 < len(placed) < 60
    assert not faults(world, found, jobs=world.jobs)
    doubled = replace(found, items=(*found.items, *(item for item in placed for _ in range(30))))
    assert any("does not fit" in text for text in faults(world, doubled, jobs=world.jobs))
    assert any("was not judged" in text for text in faults(world, replace(found, rest=(world.jobs[0].key,)), jobs=world.jobs))
    nothing = replace(found, items=())
    assert any("waits and would fit" in text for text in faults(world, nothing, jobs=world.jobs))


def test_one_new_job_is_placed_after_members_published_anew() -> None:
    assert one_job(make_world(clusters=3, nodes=60, jobs=20), by=rules()) > 0.0
