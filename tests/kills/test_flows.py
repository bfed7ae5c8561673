"""The program that runs a flow is killed before and after every write that it makes for it; no step is lost or runs twice.

The flow has everything that a crash could tear: a value that decides how many Jobs there are, a step that fails and is tried
again, a step that is skipped, one that runs again because somebody resumed the flow, an exit handler, and Jobs that go at the
end.
"""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any

import pytest

from apis import kinds
from machinery.port import PatchType
from simulator.faults import Kill, Moment, Write
from tests.member_agent.world import EAST, Stage, play
from tests.simulation.test_flows import SAYS, jobflow, template

ACTOR = f"agent-{EAST}"
OWN = (kinds.JOB_FLOW.name, kinds.JOB.name)
SPEC: dict[str, Any] = {
    "jobRetainPolicy": "delete",
    "flows": [
        {"name": "list", "outputs": [{"name": "items"}]},
        {"name": "each", "dependsOn": {"targets": ["list"]}, "with": {"fromOutput": "list.items"}},
        {
            "name": "never",
            "template": "each",
            "dependsOn": {"targets": ["list"]},
            "when": "size(targets.list.outputs.items) == 0",
        },
        {"name": "flaky", "dependsOn": {"targets": ["each"]}, "retry": {"limit": 1, "backoff": "1s"}},
    ],
    "onExit": [{"name": "tell", "template": "each"}],
}
STARTS = {"list": 1, "each-0": 1, "each-1": 1, "flaky": 4, "tell": 2}
"""Pods by step: `flaky` fails twice, and twice again when the flow is resumed; then the handler runs again."""


@functools.cache
def live(kill: tuple[int, Moment] | None = None) -> tuple[Write, ...]:
    """The flow lives to its end, is resumed, and lives to its end again; the writes of its program."""
    log: list[Write] = []

    async def story(here: Stage) -> None:
        if kill is not None:
            here.world.faults.at(ACTOR, kill[0], kill[1], Kill())
        templates = [
            template("list", SAYS.format("""'["a", "b"]'""")),
            template("each", "sleep 1"),
            template("flaky", "exit 3"),
        ]
        await here.world.apply([*templates, jobflow(SPEC)], server=EAST)
        await here.until(lambda: _phase(here) == "Failed", timeout=300, what="the flow fails")
        body = {"spec": {"resumeFrom": {"id": "once more"}}}
        await here.world.client(EAST).patch(kinds.JOB_FLOW, "flow", body, type=PatchType.MERGE, namespace="default")
        await here.until(lambda: _status(here).get("resumed") == "once more" and _phase(here) == "Failed", timeout=300)
        await here.world.advance(10)
        assert len(here.world.faults.fired) == (kill is not None)
        assert _steps(here) == STARTS
        ends = {each["step"]: each["state"] for each in _status(here)["jobStatusList"]}
        assert ends == {"list": "Completed", "each": "Completed", "never": "Skipped", "flaky": "Failed", "tell": "Completed"}
        log.extend(here.world.faults.writes_of(ACTOR))

    play(story)
    return tuple(log)


def _status(here: Stage) -> dict[str, Any]:
    return (here.world.get(kinds.JOB_FLOW, "flow", namespace="default", server=EAST) or {}).get("status") or {}


def _phase(here: Stage) -> str:
    return str((_status(here).get("state") or {}).get("phase", ""))


def _steps(here: Stage) -> dict[str, int]:
    """Starts by step."""
    return dict(Counter(str(start.pod).removeprefix("flow-").removesuffix("-main-0") for start in here.world.records))


def cases() -> list[Write]:
    """Writes of flows and their Jobs; statuses of Jobs are written by another role, which has kills of its own."""
    return [write for write in live() if write.kind in OWN and not (write.kind == kinds.JOB.name and write.subresource)]


CASES = [(write, moment) for write in cases() for moment in Moment]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[1]}-{case[0].number}-{case[0].verb}-{case[0].kind}")
def test_a_kill_at_any_write_of_a_flow_loses_no_step_and_runs_none_twice(case: tuple[Write, Moment]) -> None:
    write, moment = case
    live((write.number, moment))


def test_the_flow_meets_every_write_that_a_flow_needs() -> None:
    met = {(write.verb, write.kind) for write in cases()}
    assert {("create", kinds.JOB.name), ("delete", kinds.JOB.name), ("replace", kinds.JOB_FLOW.name)} <= met
