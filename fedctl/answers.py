"""An answered review as people read it. Pure: a status in, rich texts and tables out."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from rich.table import Table
from rich.text import Text

Status = Mapping[str, Any]
HOW: Final = {"Edit": "edit the Job", "SubmitAgain": "submit it again", "Policy": "change its policy"}
SAID: Final = {
    "Starts": "would start now",
    "Waits": "waits",
    "Held": "is held",
    "Refused": "is refused",
    "Placed": "is placed and has not started",
    "Runs": "runs",
    "Ended": "has ended",
}
STYLES: Final = {
    "Starts": "green",
    "Runs": "green",
    "Waits": "yellow",
    "Placed": "yellow",
    "Held": "yellow",
    "Refused": "bold red",
}
SHOWN: Final = 5
"""Clusters and attempts that are shown where not all are asked for."""

Part = Text | Table


def told(what: str, status: Status, *, now: datetime.datetime, wide: bool = False, there: bool = False) -> Iterator[Part]:
    """Everything about one answer. `what`: as people call it; `there`: it is a Job that exists."""
    yield _head(what, status, there=there)
    if "steps" in status:
        yield from _flow(status, wide=wide)
        return
    facts = list(_facts(status, now=now))
    if facts:
        yield _grid(facts)
    if status.get("placements"):
        yield Text()
        yield _placements(status["placements"])
    yield from _changes(status, wide=wide)
    if status.get("clusters") or status.get("counts"):
        yield Text()
        yield from _clusters(status, wide=wide)
    yield from _listed("Notes", status.get("notes"))
    if there:
        yield from _listed("Not promised", status.get("notPromised"))


def _head(what: str, status: Status, *, there: bool) -> Text:
    outcome, reason = status.get("outcome", ""), status.get("reason", "")
    said = SAID.get(outcome, outcome)
    if not there:
        said = {"Waits": "would wait", "Held": "would be held", "Refused": "would be refused"}.get(outcome, said)
    named = f" ({reason})" if reason not in ("", "Placed", "Answered") else ""
    text = Text(f"{what} ").append(f"{said}{named}", style=STYLES.get(outcome, ""))
    field = f"{status['field']}: " if status.get("field") else ""
    return text.append(f": {field}{status['message']}") if status.get("message") else text


def _facts(status: Status, *, now: datetime.datetime) -> Iterator[tuple[str, str]]:
    if status.get("policy"):
        yield "Policy", status["policy"]
    if status.get("profile"):
        yield "Profile", status["profile"]
    if status.get("cost") is not None:
        yield "Cost", _money(status)
    elif status.get("placements") and status.get("outcome") == "Starts":
        yield "Cost", "nobody says what it costs there"
    for label, key in (("Start", "expectedStart"), ("Finish", "expectedFinish")):
        if status.get(key):
            yield label, _moment(status[key], now)
    if status.get("runSeconds"):
        yield "Runs for", f"{span(status['runSeconds'])}, by {status.get('runTimeFrom', 'default')}"
    if status.get("onlyMemberCanTell"):
        yield "Sure", "no: only the member can tell whether it fits"
    if status.get("wakes") and status.get("outcome") in ("Waits", "Held"):
        yield "Looked at again", f"when one of these changes: {', '.join(status['wakes'])}"


def _money(status: Status) -> str:
    return f"{status['cost']} {status.get('currency', '')}".strip()


def _moment(text: str, now: datetime.datetime) -> str:
    at = datetime.datetime.fromisoformat(text)
    ahead = round((at - now).total_seconds())
    return f"now ({text})" if ahead <= 1 else f"in {span(ahead)} ({text})"


def span(seconds: int) -> str:
    """Seconds as people say them."""
    parts = []
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            parts.append(f"{seconds // size}{unit}")
            seconds %= size
    if seconds or not parts:
        parts.append(f"{seconds}s")
    return "".join(parts[:2])


def _grid(facts: Iterable[tuple[str, str]]) -> Table:
    grid = Table.grid(padding=(0, 2))
    for label, value in facts:
        grid.add_row(Text(label), Text(value))
    return grid


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="")
    for column in columns:
        table.add_column(column, no_wrap=column != "WHY")
    return table


def _placements(parts: Sequence[Status]) -> Table:
    table = _table("CLUSTER", "PODS", "TASKS", "NODES", "MARKET", "COST")
    for each in parts:
        tasks = ", ".join(f"{task['name']}={task['replicas']}" for task in each.get("tasks") or ())
        nodes = "/".join(filter(None, (each.get("nodeClass"), each.get("pool"))))
        row = (each["cluster"], str(each["replicas"]), tasks, nodes, each.get("market", ""), each.get("cost", ""))
        table.add_row(*(Text(cell or "-") for cell in row))
    return table


def _changes(status: Status, *, wide: bool) -> Iterator[Part]:
    best = status.get("cheapest")
    tried = status.get("tried") or ()
    if best is not None:
        yield Text()
        yield Text(f"Would start at once, the cheapest change ({best['points']} points):")
        for each in best["changes"]:
            yield Text(f"  {each['text']} [{HOW.get(each['how'], each['how'])}]")
    elif tried:
        yield Text()
        more = ", and not everything was tried" if status.get("notEverythingTried") else ""
        yield Text(f"None of {len(tried)} changes that were tried would start it{more}")
    if wide and tried:
        yield Text()
        table = _table("TRIED", "POINTS", "STARTS", "WHY")
        for each in tried:
            text = ", and ".join(change["text"] for change in each["changes"])
            table.add_row(
                Text(text), Text(str(each["points"])), Text("yes" if each["starts"] else "no"), Text(each.get("why", ""))
            )
        yield table


def _clusters(status: Status, *, wide: bool) -> Iterator[Part]:
    listed = status.get("clusters") or []
    shown = listed if wide else listed[:SHOWN]
    rules = sorted({rule for each in shown for rule in each.get("scores") or ()}) if wide else []
    if shown:
        table = _table("CLUSTER", "VERDICT", "SCORE", *(rule.upper() for rule in rules), "WHY")
        for each in shown:
            scores = each.get("scores") or {}
            wait = f"; expected to fit in {span(each['expectedWaitSeconds'])}" if "expectedWaitSeconds" in each else ""
            row = [each["name"], each.get("code", "fits"), str(each["total"]) if "total" in each else "-"]
            row += [str(scores.get(rule, "-")) for rule in rules]
            text = each.get("text", "") if wait and "expected to fit" in each.get("text", "") else each.get("text", "") + wait
            table.add_row(*(Text(cell) for cell in row), Text(text))
        yield table
    rest = dict(status.get("counts") or {})
    for each in listed[len(shown) :]:
        code = each.get("code", "Fits")
        rest[code] = rest.get(code, 0) + 1
    if rest:
        counted = ", ".join(f"{count} {code}" for code, count in sorted(rest.items()))
        yield Text(f"{'and ' if shown else ''}{sum(rest.values())} {'more ' if shown else ''}clusters: {counted}")


def _flow(status: Status, *, wide: bool) -> Iterator[Part]:
    facts = [("Cost", _money(status))] if status.get("cost") is not None else []
    if status.get("expectedFinish"):
        facts.append(("Finish", status["expectedFinish"]))
    if facts:
        yield _grid(facts)
    yield Text()
    table = _table("", "STEP", *(("JOB",) if wide else ()), "CLUSTERS", "START", "FINISH", "COST", "WHY")
    for each in status["steps"]:
        start, finish = each.get("startSeconds"), each.get("finishSeconds")
        row = ["*" if each.get("critical") else "", each["step"], *([each["name"]] if wide else [])]
        row += [",".join(each.get("clusters") or ()) or "-", f"+{span(start)}" if start is not None else "-"]
        row += [f"+{span(finish)}" if finish is not None else "-", each.get("cost", "-")]
        why = each.get("message", "") if start is None or wide else ""
        reason = each.get("reason", "")
        table.add_row(*(Text(cell) for cell in row), Text(f"{reason}: {why}" if start is None and reason else why))
    yield table
    if status.get("criticalPath"):
        yield Text(f"* the longest way: {' -> '.join(status['criticalPath'])}")
    yield from _listed("Notes", status.get("notes"))


def _listed(title: str, texts: Sequence[str] | None) -> Iterator[Part]:
    if texts:
        yield Text()
        yield Text(f"{title}:")
        for each in texts:
            yield Text(f"  - {each}")
