"""`fedctl flow`: what people see of flows, and what they ask of them."""

from __future__ import annotations

import datetime
import io
from collections.abc import Callable, Coroutine
from typing import Any

import orjson
from rich.console import Console

from apis import kinds
from controllers.flows.snapshot import project_flow
from fedctl import flows
from fedctl.flows import Place
from fedctl.pictures import graphviz, mermaid
from fedctl.table import project_job, rows
from machinery.clock import Chance, Ids
from simulator.api import ApiServer, MemoryPort
from simulator.loop import SimClock, run_virtual

NOW = datetime.datetime(2026, 1, 1, 12, 0, tzinfo=datetime.UTC)
FLOW: dict[str, Any] = {
    "apiVersion": "flow.volcano.sh/v1alpha1",
    "kind": "JobFlow",
    "metadata": {"name": "nightly", "namespace": "team"},
    "spec": {
        "flows": [
            {"name": "prepare"},
            {"name": "train", "dependsOn": {"targets": ["prepare"]}, "with": {"items": [1, 2]}},
            {"name": "publish", "dependsOn": {"targets": ["train"]}, "when": 'targets.train.state == "Completed"'},
        ],
        "onExit": [{"name": "tell"}],
    },
}
STATUS = {
    "state": {"phase": "Running", "reason": "Retrying", "message": "Job nightly-train-1: attempt 1 of 3"},
    "progress": {"steps": 3, "done": 1},
    "jobStatusList": [
        {"name": "nightly-prepare", "state": "Completed", "endTimestamp": "2026-01-01T10:00:00Z", "step": "prepare"},
        {"name": "nightly-train-0", "state": "Completed", "endTimestamp": "2026-01-01T11:00:00Z", "step": "train", "item": 0},
        {"name": "nightly-train-1", "state": "Retrying", "message": "attempt 1 of 3", "step": "train", "item": 1},
    ],
}


class Desk:
    """A person at a terminal beside an API server with one flow."""

    def __init__(self, port: MemoryPort) -> None:
        self.port = port
        self.out, self.err = io.StringIO(), io.StringIO()
        self.place = Place(port, "team", Console(file=self.out, width=120), Console(file=self.err, width=120), NOW)

    async def spec(self) -> dict[str, Any]:
        found: dict[str, Any] = orjson.loads(await self.port.get(kinds.JOB_FLOW, "nightly", namespace="team"))["spec"]
        return found


def at_a_desk(story: Callable[[Desk], Coroutine[Any, Any, None]]) -> None:
    async def main(clock: SimClock, chance: Chance, ids: Ids) -> None:
        port = MemoryPort(ApiServer(clock, ids=ids, chance=chance))
        await port.create(kinds.NAMESPACE, {"metadata": {"name": "team"}})
        made = orjson.loads(await port.create(kinds.JOB_FLOW, FLOW, namespace="team"))
        await port.replace(kinds.JOB_FLOW, "nightly", {**made, "status": STATUS}, namespace="team", subresource="status")
        await story(Desk(port))

    run_virtual(main, seed=1)


def test_flows_are_listed_with_progress_and_reason() -> None:
    async def story(desk: Desk) -> None:
        assert await flows.get(desk.place, everywhere=True) == 0
        line = desk.out.getvalue().splitlines()[1].split()
        assert line[:4] == ["team", "nightly", "Running", "1/3"]
        assert line[-1] == "Retrying"

    at_a_desk(story)


def test_a_flow_is_described_as_a_graph_with_states_and_the_reason_why_it_is_not_further() -> None:
    async def story(desk: Desk) -> None:
        assert await flows.describe(desk.place, "nightly") == 0
        said = desk.out.getvalue()
        assert "JobFlow team/nightly: Running, 1 of 3 steps over" in said
        assert "Retrying: Job nightly-train-1: attempt 1 of 3" in said
        assert "✔ prepare" in said
        assert "↻ train (1 of 2)" in said
        assert "· publish" in said
        assert "train[1]" in said

    at_a_desk(story)


def test_a_retry_names_the_steps_with_an_id_of_its_own() -> None:
    async def story(desk: Desk) -> None:
        assert await flows.retry(desk.place, "nightly", steps=["train"], request="r1") == 0
        assert (await desk.spec())["resumeFrom"] == {"id": "r1", "steps": ["train"]}
        assert await flows.retry(desk.place, "nightly", steps=[], request="r2") == 0
        assert (await desk.spec())["resumeFrom"] == {"id": "r2"}

    at_a_desk(story)


def test_a_flow_is_suspended_and_goes_on() -> None:
    async def story(desk: Desk) -> None:
        assert await flows.suspend(desk.place, "nightly", value=True) == 0
        assert (await desk.spec())["suspend"] is True
        assert await flows.suspend(desk.place, "nightly", value=False) == 0
        assert (await desk.spec())["suspend"] is False

    at_a_desk(story)


def test_mistakes_are_sentences() -> None:
    async def story(desk: Desk) -> None:
        assert await flows.describe(desk.place, "daily") == flows.NOT_FOUND
        assert await flows.retry(desk.place, "nightly", steps=["trian"], request="r") == flows.NOT_FOUND
        assert "JobFlow team/daily does not exist" in desk.err.getvalue()
        assert "JobFlow nightly has no step trian" in desk.err.getvalue()

    at_a_desk(story)


def test_pictures_have_every_step_every_edge_and_the_colour_of_its_state() -> None:
    flow = project_flow(orjson.dumps({**FLOW, "status": STATUS}))
    found = rows(flow, jobs={}, bindings={}, now=NOW)
    drawn = mermaid(flow, found)
    assert drawn.startswith("flowchart LR\n")
    assert 's1["train (1 of 2)"]' in drawn
    assert "s0 --> s1" in drawn
    assert 's1 -->|"targets.train.state == #quot;Completed#quot;"| s2' in drawn
    assert "style s0 fill:#2e7d32" in drawn
    assert "style s1 fill:#ef6c00" in drawn
    dot = graphviz(flow, found)
    assert '"prepare" -> "train";' in dot
    assert '"tell"' in dot
    assert dot.count("{") == dot.count("}")


def test_a_picture_of_a_running_job_says_where_its_pods_are() -> None:
    flow = project_flow(orjson.dumps(FLOW))
    body = {
        "metadata": {"name": "nightly-prepare", "creationTimestamp": "2026-01-01T11:59:00Z"},
        "spec": {"tasks": [{"replicas": 2}]},
    }
    job = project_job(orjson.dumps({**body, "status": {"state": {"phase": "Running"}, "running": 2}}))
    found = rows(flow, jobs={job.name: job}, bindings={}, now=NOW)
    assert (found[0].step, found[0].phase, found[0].pods, found[0].seconds) == ("prepare", "Running", "2/2", 60.0)
