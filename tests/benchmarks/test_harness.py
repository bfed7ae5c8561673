from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as runner
from benchmarks import harness, idle
from benchmarks.harness import Share, cost, rate


def test_more_is_better_for_rates() -> None:
    row = rate("b", "c", ours=80, bound=100, unit="pods/s", target=0.8)
    assert (row.ratio, row.holds) == (0.8, True)
    assert not rate("b", "c", ours=79, bound=100, unit="pods/s", target=0.8).holds


def test_less_is_better_for_costs() -> None:
    assert cost("b", "c", ours=0.5, bound=1, unit="s").ratio == 2
    assert not cost("b", "c", ours=1.01, bound=1, unit="s").holds


@pytest.mark.parametrize(("ours", "bound", "ratio"), [(0, 0, 1), (3, 0, 0), (0, 1, 1000)])
def test_nothing_spent_or_allowed_has_a_ratio(ours: float, bound: float, ratio: float) -> None:
    assert cost("b", "c", ours=ours, bound=bound, unit="writes").ratio == ratio


def test_rows_are_read_back_from_output_and_other_lines_are_left() -> None:
    row = rate("b", "c", ours=1, bound=3, unit="jobs/s", target=0.7)
    assert list(json.loads(row.line())) == ["benchmark", "case", "ours", "bound", "unit", "ratio", "target", "holds"]
    assert harness.read_rows(["warming up", row.line(), "{}"]) == [row]


async def test_the_raw_rate_makes_every_call_once() -> None:
    made: list[int] = []

    async def call(number: int) -> None:
        made.append(number)

    assert await harness.raw_rate(call, count=100, workers=7) > 0
    assert sorted(made) == list(range(100))


def event(user: str, resource: str, *, second: int, stage: str = "ResponseComplete") -> str:
    what: dict[str, Any] = {"resource": resource, "namespace": "n", "name": "x", "apiGroup": ""}
    if resource == "leases":
        what["apiGroup"] = "coordination.k8s.io"
    return json.dumps(
        {
            "stage": stage,
            "verb": "update",
            "user": {"username": user},
            "objectRef": what,
            "responseStatus": {"code": 200},
            "requestReceivedTimestamp": f"2026-01-01T00:00:{second:02}.5Z",
        }
    )


def at(second: int) -> datetime.datetime:
    return datetime.datetime(2026, 1, 1, 0, 0, second, tzinfo=datetime.UTC)


def test_writes_are_counted_by_user_and_window(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    lines = [
        event("hub", "leases", second=1),
        event("hub", "pods", second=2),
        event("other", "pods", second=2),
        event("hub", "pods", second=2, stage="Panic"),
        event("hub", "pods", second=9),
        '{"cut',
    ]
    log.write_text("\n".join(lines))
    found = harness.writes_between(log, start=at(0), end=at(5), users=["hub"])
    assert [write.resource for write in found] == [harness.LEASES, "pods"]


def test_idle_counts_every_write_but_leases() -> None:
    found = list(harness.writes([event("hub", "leases", second=1), event("hub", "pods", second=2)]))
    cpu, writes = idle.rows([Share("federation-hub", 0.4, 1 << 20)], found=found)
    assert (cpu.ratio, cpu.holds) == (2.5, True)
    assert (writes.ours, writes.holds) == (1, False)
    assert idle.describe(found)[0] == "     1 × hub: update leases.coordination.k8s.io"


@pytest.mark.parametrize(
    ("lines", "now", "rests"),
    [
        ([("hub", "pods", 1), ("hub", "leases", 2), ("agent", "leases", 2)], 30, True),
        ([("hub", "pods", 25), ("hub", "leases", 2), ("agent", "leases", 2)], 30, False),
        ([("hub", "pods", 1), ("hub", "leases", 2)], 30, False),
    ],
)
def test_programs_rest_when_all_hold_leases_and_nothing_else_was_written(
    lines: list[tuple[str, str, int]], now: int, rests: bool
) -> None:
    found = list(harness.writes([event(user, resource, second=second) for user, resource, second in lines]))
    assert idle.settled(found, users=["hub", "agent"], now=at(now), seconds=20) is rests


def test_the_runner_finds_benchmarks_and_keeps_their_last_rows(tmp_path: Path) -> None:
    assert "idle" in runner.names()
    assert "harness" not in runner.names()
    first, second = (rate("b", "c", ours=n, bound=2, unit="jobs/s", target=0.7) for n in (1, 2))
    runner.keep("b", [first], folder=tmp_path)
    runner.keep("b", [second], folder=tmp_path)
    assert harness.read_rows((tmp_path / "b.jsonl").read_text().splitlines()) == [second]
    assert "| b | c | 2 | 2 | jobs/s | 1 | 0.7 | yes |" in (tmp_path / "table.md").read_text()


def test_an_unknown_benchmark_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert runner.main(["nope"]) == 2
    assert "no such benchmark: nope" in capsys.readouterr().err
