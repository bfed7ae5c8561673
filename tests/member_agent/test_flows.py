"""A member runs JobFlows of its own people, also without a hub; flows of the hub are none of its business."""

from __future__ import annotations

from typing import Any

from apis import kinds
from tests.member_agent.world import EAST, Stage, play
from tests.simulation.test_flows import SAYS, jobflow, template


def _phase(here: Stage) -> str:
    found = here.world.get(kinds.JOB_FLOW, "flow", namespace="default", server=EAST) or {}
    return str(((found.get("status") or {}).get("state") or {}).get("phase", ""))


def test_a_flow_of_a_member_runs_there_with_values_and_conditions() -> None:
    async def story(here: Stage) -> None:
        spec: dict[str, Any] = {
            "jobRetainPolicy": "delete",
            "flows": [
                {"name": "count", "outputs": [{"name": "n"}]},
                {"name": "work", "dependsOn": {"targets": ["count"]}, "when": "int(targets.count.outputs.n) > 3"},
                {"name": "rest", "dependsOn": {"targets": ["count"]}, "when": "int(targets.count.outputs.n) <= 3"},
            ],
        }
        templates = [template("count", SAYS.format(7)), template("work", "sleep 2"), template("rest", "sleep 2")]
        await here.world.apply([*templates, jobflow(spec)], server=EAST)
        await here.until(lambda: _phase(here) == "Succeed", what="the flow ends")
        assert here.starts() == ["flow-count-main-0", "flow-work-main-0"]
        await here.until(lambda: not here.world.all(kinds.JOB, server=EAST), what="its Jobs are gone")

    play(story)


def test_the_agent_may_die_at_any_time_and_no_step_runs_twice() -> None:
    async def story(here: Stage) -> None:
        flows = [{"name": "a"}, {"name": "b", "template": "a", "dependsOn": {"targets": ["a"]}}]
        await here.world.apply([template("a", "sleep 4", pods=2), jobflow({"flows": flows})], server=EAST)
        for _ in range(6):
            await here.world.advance(2.3)
            here.world.kill("agent-east")
        await here.until(lambda: _phase(here) == "Succeed", timeout=300, what="the flow ends")
        assert sorted(here.starts()) == ["flow-a-main-0", "flow-a-main-1", "flow-b-main-0", "flow-b-main-1"]

    play(story)
