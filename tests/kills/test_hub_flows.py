"""The hub is killed before and after every write that it makes for a flow whose Jobs run in two members: no step is lost, none
runs twice, and each that reads goes to what its target left."""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any

import pytest

from apis import keys, kinds
from simulator.faults import Kill, Moment, Write
from simulator.world import HUB, World
from tests.simulation.test_flows import SAYS, jobflow, template
from tests.support.stage import play
from tests.support.stories import phase

OWN = (kinds.JOB_FLOW.name, kinds.JOB.name)
SPEC: dict[str, Any] = {
    "jobRetainPolicy": "delete",
    "flows": [
        {"name": "list", "outputs": [{"name": "items"}]},
        {"name": "each", "dependsOn": {"targets": ["list"]}, "with": {"fromOutput": "list.items"}},
        {
            "name": "flaky",
            "dependsOn": {"targets": ["each"]},
            "failurePolicy": "Continue",
            "retry": {"limit": 1, "backoff": "1s"},
        },
        {"name": "merge", "template": "each", "dependsOn": {"targets": ["flaky", "list"]}},
    ],
    "onExit": [{"name": "tell", "template": "each"}],
}
STARTS = {"list": 1, "each-0": 1, "each-1": 1, "flaky": 2, "merge": 1, "tell": 1}


@functools.cache
def live(kill: tuple[int, Moment] | None = None) -> tuple[Write, ...]:
    """The flow lives to its end; the writes of the hub."""
    log: list[Write] = []

    async def story(world: World) -> None:
        if kill is not None:
            world.faults.at(HUB, kill[0], kill[1], Kill())
        each = template("each", "sleep 1")
        each["metadata"]["annotations"] = {keys.READS: "list=1Gi"}
        await world.apply([template("list", SAYS.format("""'["a", "b"]'""")), each, template("flaky", "exit 3"), jobflow(SPEC)])
        await world.until(lambda: phase(world, "flow", kind=kinds.JOB_FLOW) in ("Succeed", "Failed"), timeout=300)
        await world.advance(20)
        assert phase(world, "flow", kind=kinds.JOB_FLOW) == "Succeed", world.story()
        assert len(world.faults.fired) == (kill is not None)
        started = Counter(str(start.pod).removeprefix("flow-").removesuffix("-main-0") for start in world.records)
        assert dict(started) == STARTS
        records = (world.get(kinds.JOB_FLOW, "flow") or {})["status"]["jobStatusList"]
        homes = {each["name"]: each["clusters"] for each in records}
        assert homes["flow-each-0"] == homes["flow-each-1"] == homes["flow-list"]
        assert world.all(kinds.JOB) == []
        log.extend(world.faults.writes_of(HUB))

    play(story)
    return tuple(log)


def cases() -> list[Write]:
    """Writes of flows and their Jobs; statuses of Jobs are written by another role, which has kills of its own."""
    return [write for write in live() if write.kind in OWN and not (write.kind == kinds.JOB.name and write.subresource)]


CASES = [(write, moment) for write in cases() for moment in Moment]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[1]}-{case[0].number}-{case[0].verb}-{case[0].kind}")
def test_a_kill_of_the_hub_at_any_write_of_a_flow_loses_no_step_and_runs_none_twice(case: tuple[Write, Moment]) -> None:
    write, moment = case
    live((write.number, moment))
