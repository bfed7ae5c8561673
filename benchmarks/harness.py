"""What every benchmark shares: rows of results, the raw client's rate, CPU over a window, writes from audit logs.

A benchmark is a module `benchmarks/<name>.py`, runnable alone, whose last lines are one JSON object per case (`Row.line`). It
boots what it needs with `e2e.controlplane`; bounds are measured in the same run with the raw client (`Api`: aiohttp and
orjson, nothing of ours), making the same writes with the same watches open.
"""

from __future__ import annotations

import asyncio
import datetime
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson
import uvloop

from e2e.controlplane.process import Record, usage

RESULTS = Path(__file__).parent / "results"
WORKERS = 32
"""Requests of the raw client in flight: more gain little on two cores."""
LIMIT = 1.0
"""Target against a stated limit."""


# --- rows ------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Row:
    """One case: `ratio` is so made that more is better, `holds` tells whether it reached `target`."""

    benchmark: str
    case: str
    ours: float
    bound: float
    unit: str
    ratio: float
    target: float
    holds: bool

    def line(self) -> str:
        """The JSON object that the runner collects."""
        return orjson.dumps(asdict(self)).decode()


def rate(benchmark: str, case: str, *, ours: float, bound: float, unit: str, target: float) -> Row:
    """For what should be high: ratio = ours ÷ bound."""
    ratio = ours / bound if bound else 0.0
    return _row(benchmark, case, ours=ours, bound=bound, unit=unit, ratio=ratio, target=target)


def cost(benchmark: str, case: str, *, ours: float, bound: float, unit: str, target: float = LIMIT) -> Row:
    """For what should be low (times, bytes, CPU, writes): ratio = bound ÷ ours. Nothing spent is ratio 1 against a bound of 0
    and otherwise counts as a thousandth of the bound."""
    spent = max(ours, bound / 1000)
    ratio = bound / spent if spent else 1.0
    return _row(benchmark, case, ours=ours, bound=bound, unit=unit, ratio=ratio, target=target)


def _row(benchmark: str, case: str, *, ours: float, bound: float, unit: str, ratio: float, target: float) -> Row:
    return Row(benchmark, case, _short(ours), _short(bound), unit, _short(ratio), target, ratio >= target)


def _short(number: float) -> float:
    """Four significant digits: more would pretend precision."""
    return float(f"{number:.4g}")


def read_rows(lines: Iterable[str]) -> list[Row]:
    """The rows among a benchmark's output; other lines are for people."""
    rows = []
    for line in lines:
        if line.startswith('{"benchmark"'):
            rows.append(Row(**orjson.loads(line)))
    return rows


def table(rows: Iterable[Row]) -> str:
    """Markdown, for the README."""
    lines = ["| Benchmark | Case | Ours | Bound | Unit | Ratio | Target | Holds |", "|---" * 8 + "|"]
    for row in rows:
        figures = f"{row.ours:g} | {row.bound:g} | {row.unit} | {row.ratio:g} | {row.target:g}"
        lines.append(f"| {row.benchmark} | {row.case} | {figures} | {'yes' if row.holds else 'no'} |")
    return "\n".join(lines) + "\n"


# --- the raw client --------------------------------------------------------------------------------------------------
async def raw_rate(call: Callable[[int], Awaitable[Any]], *, count: int, workers: int = WORKERS) -> float:
    """Calls per second when `call(0)` … `call(count - 1)` are made by `workers` at once."""
    numbers = iter(range(count))
    started = time.perf_counter()

    async def work() -> None:
        for number in numbers:
            await call(number)

    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(work())
    return count / (time.perf_counter() - started)


def run(main: Coroutine[Any, Any, Sequence[Row]]) -> int:
    """Runs a benchmark on uvloop and prints its rows last; 0 means it ran, whatever the figures."""
    rows = uvloop.run(main)
    for row in rows:
        print(row.line(), flush=True)
    return 0


# --- CPU over a window -----------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Share:
    """What a process used of one core over a window, percent, and its memory at the end."""

    name: str
    percent: float
    resident_bytes: int


async def cpu_shares(records: Sequence[Record], *, seconds: float) -> list[Share]:
    """CPU of each process over the next `seconds`; ProcessFailed when one is gone by then."""
    before = [usage(record) for record in records]
    started = time.perf_counter()
    await asyncio.sleep(seconds)
    after = [usage(record) for record in records]
    elapsed = time.perf_counter() - started
    return [
        Share(record.name, 100 * (b.cpu_seconds - a.cpu_seconds) / elapsed, b.resident_bytes)
        for record, a, b in zip(records, before, after, strict=True)
    ]


# --- writes, from audit logs -----------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Write:
    """One finished write: who, what, where, with which outcome, when it arrived (UTC)."""

    user: str
    verb: str
    resource: str
    subresource: str
    namespace: str
    name: str
    code: int
    moment: datetime.datetime


def writes(lines: Iterable[str]) -> Iterator[Write]:
    """From the JSON lines of an audit log; the last line may be cut and is then left out."""
    for line in lines:
        try:
            event = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        if event["stage"] != "ResponseComplete":
            continue
        what = event.get("objectRef", {})
        group = what.get("apiGroup", "")
        yield Write(
            user=event["user"]["username"],
            verb=event["verb"],
            resource=what.get("resource", "") + (f".{group}" if group else ""),
            subresource=what.get("subresource", ""),
            namespace=what.get("namespace", ""),
            name=what.get("name", ""),
            code=event.get("responseStatus", {}).get("code", 0),
            moment=datetime.datetime.fromisoformat(event["requestReceivedTimestamp"]),
        )


def writes_between(
    log: Path, *, start: datetime.datetime, end: datetime.datetime, users: Iterable[str] | None = None
) -> list[Write]:
    """Writes of `users` (None: everybody) that arrived in [start, end). The log lags by about a second (batch mode)."""
    wanted = None if users is None else frozenset(users)
    with log.open() as lines:
        found = [write for write in writes(lines) if start <= write.moment < end]
    return [write for write in found if wanted is None or write.user in wanted]


LEASES = "leases.coordination.k8s.io"
EVENTS = ("events", "events.events.k8s.io")
