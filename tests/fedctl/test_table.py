"""The table that people look at while a flow runs."""

from __future__ import annotations

import datetime

import orjson
from rich.console import Console

from controllers.flows.snapshot import FlowView, project_flow
from fedctl.table import BindingRow, JobRow, project_binding, project_job, render, rows

NOW = datetime.datetime(2026, 1, 1, 10, 1, tzinfo=datetime.UTC)


def flow(steps: dict[str, list[str]], phase: str = "Running") -> FlowView:
    flows = [{"name": name, "dependsOn": {"targets": targets}} for name, targets in steps.items()]
    body = {"metadata": {"name": "f", "namespace": "team"}, "spec": {"flows": flows}, "status": {"state": {"phase": phase}}}
    return project_flow(orjson.dumps(body))


def job(step: str, phase: str, *, message: str = "", succeeded: int = 0, running: int = 0) -> JobRow:
    body = {
        "metadata": {"name": f"f-{step}", "namespace": "team", "creationTimestamp": "2026-01-01T10:00:00Z"},
        "spec": {"tasks": [{"replicas": 2}, {"replicas": 1}]},
        "status": {
            "state": {"phase": phase, "message": message, "lastTransitionTime": "2026-01-01T10:00:20Z"},
            "succeeded": succeeded,
            "running": running,
        },
    }
    return project_job(orjson.dumps(body))


def binding(step: str, *clusters: str) -> BindingRow:
    body = {
        "metadata": {"name": f"f-{step}-job", "namespace": "team"},
        "spec": {"clusters": [{"name": name} for name in clusters]},
    }
    return project_binding(orjson.dumps(body))


def table(view: FlowView, jobs: list[JobRow], bindings: list[BindingRow]) -> str:
    found = rows(view, jobs={j.name: j for j in jobs}, bindings={b.name: b for b in bindings}, now=NOW)
    console = Console(width=140, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    with console.file:
        console.print(render(view, found))
        return console.export_text()


def test_a_running_step_counts_its_time_until_now_and_an_ended_one_until_its_end() -> None:
    view = flow({"a": [], "b": ["a"]})
    found = rows(
        view,
        jobs={j.name: j for j in (job("a", "Completed", succeeded=3), job("b", "Running", running=2))},
        bindings={"f-a-job": binding("a", "east")},
        now=NOW,
    )
    assert [(row.step, row.seconds, row.pods, row.cluster) for row in found] == [
        ("a", 20.0, "3/3", "east"),
        ("b", 60.0, "2/3", ""),
    ]


def test_steps_stand_in_the_order_of_the_graph_and_waiting_ones_say_so() -> None:
    text = table(flow({"late": ["early"], "early": []}), [], [])
    assert text.index("early") < text.rindex("late")
    assert text.count("Waiting") == 2


def test_a_waiting_job_says_why() -> None:
    text = table(flow({"a": []}), [job("a", "Pending", message="needs 4 cpu; the most free in one cluster is 2")], [])
    assert "the most free in one cluster is 2" in text


def test_a_flow_with_a_cycle_is_still_shown() -> None:
    text = table(flow({"a": ["b"], "b": ["a"]}, phase="Failed"), [], [])
    assert "JobFlow team/f: Failed" in text
