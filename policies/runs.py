"""The life of a run, as the hub records it in the binding (protocol.md 2), as a table.

The state is read from the record itself; nothing is kept beside it. `step` applies one event: it answers the new record and
what must be done to Works, in this order: first the record is written by compare-and-set, then the effects. An edge that is
not in the table raises with the run's story and changes nothing. `docs/lifecycles/run.md` is made from this table.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from apis.runs import KEPT, BindingRun, Ground, Held, Part, PartState, Past, RefusalReason, encode
from policies import tables
from policies.run_events import (
    CreateWork,
    DeleteWork,
    Effect,
    End,
    Event,
    Evicted,
    Gone,
    Grant,
    Hold,
    Leave,
    LocallyDeleted,
    Lost,
    PassOn,
    Pause,
    Refused,
    Restamp,
    Resume,
    RewriteManifest,
    RewriteRecord,
    StartTimedOut,
    Stayed,
    Withdrawn,
)

__all__ = [
    "CreateWork",
    "DeleteWork",
    "EDGES",
    "Edge",
    "Effect",
    "End",
    "Event",
    "Evicted",
    "Gone",
    "Grant",
    "Hold",
    "Leave",
    "LocallyDeleted",
    "Lost",
    "PassOn",
    "Pause",
    "Refused",
    "Restamp",
    "Resume",
    "RewriteManifest",
    "RewriteRecord",
    "Run",
    "RunState",
    "StartTimedOut",
    "Stayed",
    "Step",
    "UnknownEdge",
    "Withdrawn",
    "page",
    "step",
]


class RunState(enum.StrEnum):
    """Where a Job stands between queue and end."""

    WAITING = "Waiting"
    HELD = "Held"
    GRANTED = "Granted"
    STOPPING = "Stopping"
    ENDED = "Ended"


@dataclass(frozen=True, slots=True)
class Run:
    """The record, and the terminal phase if one was recorded."""

    record: BindingRun
    ended: str = ""

    @property
    def state(self) -> RunState:
        """Read from the record."""
        states = {part.state for part in self.record.parts.values()}
        if self.ended:
            return RunState.ENDED
        if PartState.STOPPING in states:
            return RunState.STOPPING
        if PartState.GRANTED in states:
            return RunState.GRANTED
        return RunState.WAITING if self.record.held is None else RunState.HELD


class UnknownEdge(tables.UnknownEdge):
    """The table has no such edge; the message tells the run's story."""

    def __init__(self, run: Run, *, event: Event, why: str = "") -> None:
        story = f"run {encode(run.record)}, ended {run.ended or 'no'}, is {run.state}"
        super().__init__(f"no edge for {event!r}: {story}{': ' + why if why else ''}")


# --- steps -----------------------------------------------------------------------------------------------------------

Step = tuple[BindingRun, tuple[Effect, ...]]


def _with(record: BindingRun, **changes: Any) -> BindingRun:
    return msgspec.structs.replace(record, **changes)


def _part(record: BindingRun, cluster: str, **changes: Any) -> BindingRun:
    return _with(record, parts={**record.parts, cluster: msgspec.structs.replace(record.parts[cluster], **changes)})


def _grant(record: BindingRun, event: Grant) -> Step:
    parts = {}
    for name, (uid, fence) in sorted(event.parts.items()):
        minimum, shares = event.shares.get(name, (0, {}))
        parts[name] = Part(cluster_uid=uid, fence=fence, minimum=minimum, shares=dict(shares))
    ended = tuple(
        Past(record.epoch, name, part.fence, part.ground, by=part.by, at=part.at) for name, part in sorted(record.parts.items())
    )
    past = (*record.past, *ended)[-KEPT:]
    epoch = max(record.epoch, record.least) + 1
    # What the members of an earlier epoch were asked is no business of this one.
    return _with(record, epoch=epoch, least=0, parts=parts, past=past, asked=""), tuple(CreateWork(name) for name in parts)


def _restamp(record: BindingRun, event: Restamp) -> Step:
    return _part(record, event.cluster, fence=event.fence), (RewriteRecord(event.cluster),)


def _stop(record: BindingRun, cluster: str, spent: int) -> tuple[BindingRun, tuple[Effect, ...]]:
    """Stop a part, and all others with it: one epoch is one division, so that what is missing is not run beside it."""
    stopped = _with(_part(record, cluster, state=PartState.STOPPING), retries=record.retries + spent)
    return _stop_others(stopped)


def _stop_others(record: BindingRun) -> tuple[BindingRun, tuple[Effect, ...]]:
    live = [name for name, part in sorted(record.parts.items()) if part.state is PartState.GRANTED]
    for name in live:
        record = _part(record, name, state=PartState.STOPPING)
    return record, tuple(DeleteWork(name) for name in live)


def _refused(record: BindingRun, event: Refused) -> Step:
    stopped, others = _stop(record, event.cluster, event.spent)
    # A member that knows a newer epoch says which; where it does not, guessing twice as high each time finds it soon.
    known = max(event.newest, 2 * record.epoch) if event.reason is RefusalReason.STALE_EPOCH else 0
    least = max(record.least, known)
    return _with(stopped, refusals=record.refusals + 1, least=least), (DeleteWork(event.cluster), *others)


def _timed_out(record: BindingRun, event: StartTimedOut) -> Step:
    counts = {**record.start_timeouts, event.cluster: record.start_timeouts.get(event.cluster, 0) + 1}
    stopped, others = _stop(record, event.cluster, event.spent)
    return _with(stopped, start_timeouts=counts), (DeleteWork(event.cluster), *others)


def _withdrawn(record: BindingRun, event: Withdrawn) -> Step:
    return _stop(record, event.cluster, event.spent)


def _locally_deleted(record: BindingRun, event: LocallyDeleted) -> Step:
    gone = _part(record, event.cluster, state=PartState.GONE, ground=Ground.CONFIRMED)
    held = record.held if event.again else Held.LOCALLY_DELETED
    stopped, others = _stop_others(_with(gone, held=held, retries=record.retries + event.spent))
    return stopped, (DeleteWork(event.cluster), *others)


def _evicted(record: BindingRun, event: Evicted) -> Step:
    failures = (
        {**record.failures, event.cluster: record.failures.get(event.cluster, 0) + 1} if event.failed else record.failures
    )
    record = _with(record, moved_for=event.moved_for or record.moved_for, failures=failures)
    stopped, others = _stop(record, event.cluster, event.spent)
    return stopped, (DeleteWork(event.cluster), *others)


def _stayed(record: BindingRun, event: Stayed) -> Step:
    return _with(record, moved_for=event.moved_for), ()


def _lost(record: BindingRun, event: Lost) -> Step:
    gone = _part(record, event.cluster, state=PartState.GONE, ground=Ground.DECLARED, by=event.by, at=event.at)
    stopped, others = _stop_others(_with(gone, retries=record.retries + event.spent))
    return stopped, (DeleteWork(event.cluster), *others)


def _hold(record: BindingRun, event: Hold) -> Step:
    return _stop_others(_with(record, held=event.held, retries=record.retries + event.spent))


def _resume(record: BindingRun, _: Resume) -> Step:
    return _with(record, held=None), ()


def _gone(record: BindingRun, event: Gone) -> Step:
    return _part(record, event.cluster, state=PartState.GONE, ground=event.ground, by=event.by, at=event.at), ()


def _nothing(record: BindingRun, _: End) -> Step:
    return record, ()


@dataclass(frozen=True, slots=True)
class Edge:
    """One edge: what it means, where it may lead, and what it does."""

    means: str
    leads: tuple[RunState, ...]
    apply: Callable[[BindingRun, Any], Step]
    needs: PartState | None = None
    """State that the part named by the event must be in."""


_W, _H, _G, _S, _E = RunState.WAITING, RunState.HELD, RunState.GRANTED, RunState.STOPPING, RunState.ENDED

EDGES: Final[Mapping[tuple[RunState, type], Edge]] = {
    (_W, Grant): Edge("H1: every part of epoch n is Gone, n+1 is granted with F; Works are created", (_G,), _grant),
    (_W, Hold): Edge("held before it was dispatched", (_H,), _hold),
    (_H, Hold): Edge("held for another reason", (_H,), _hold),
    (_H, Resume): Edge("may be granted again", (_W,), _resume),
    (_G, Restamp): Edge("H0: not started, so it gets the fence number of now", (_G,), _restamp, PartState.GRANTED),
    (_G, Refused): Edge("the member said no: H2, then elsewhere", (_S,), _refused, PartState.GRANTED),
    (_G, StartTimedOut): Edge("not started in time: H2, then again with a penalty", (_S,), _timed_out, PartState.GRANTED),
    (_G, Withdrawn): Edge("somebody deleted the Work: it is an order to stop", (_S,), _withdrawn, PartState.GRANTED),
    (_G, LocallyDeleted): Edge(
        "A6: deleted in the member, confirmed gone; held unless its policy says to place it again; other parts stop",
        (_S, _H, _W),
        _locally_deleted,
        PartState.GRANTED,
    ),
    (_G, Evicted): Edge("drain, taint, failover or rebalance: H2, then elsewhere", (_S,), _evicted, PartState.GRANTED),
    (_G, Stayed): Edge("to be placed anew, and best where it is", (_G,), _stayed),
    (_G, Lost): Edge("H4: its cluster is declared lost and fenced; other parts stop", (_S, _H, _W), _lost, PartState.GRANTED),
    (_G, Hold): Edge("H2: suspended or aborted while it runs", (_S,), _hold),
    (_G, Resume): Edge("no longer held", (_G,), _resume),
    (_G, End): Edge("a terminal phase was folded", (_E,), _nothing),
    (_S, Hold): Edge("held while it stops", (_S,), _hold),
    (_S, Resume): Edge("no longer held, still stopping", (_S,), _resume),
    (_S, Withdrawn): Edge("another part was deleted by somebody", (_S,), _withdrawn, PartState.GRANTED),
    (_S, Refused): Edge("another part was refused", (_S,), _refused, PartState.GRANTED),
    (_S, Restamp): Edge("another part has not started: the fence number of now", (_S,), _restamp, PartState.GRANTED),
    (_S, StartTimedOut): Edge("another part did not start in time", (_S,), _timed_out, PartState.GRANTED),
    (_S, LocallyDeleted): Edge("another part was deleted in its member", (_S,), _locally_deleted, PartState.GRANTED),
    (_S, Evicted): Edge("another part is taken away too", (_S,), _evicted, PartState.GRANTED),
    (_S, Lost): Edge("H4: the cluster of another part is declared lost", (_S,), _lost, PartState.GRANTED),
    (_S, Gone): Edge("known to have ended", (_S, _G, _W, _H), _gone, PartState.STOPPING),
    (_S, End): Edge("it ended before the order to stop reached it", (_E,), _nothing),
}
"""All edges. None leaves Ended: a finished Job never runs again."""


def step(run: Run, event: Event) -> tuple[Run, tuple[Effect, ...]]:
    """Apply one event; raises UnknownEdge."""
    edge = EDGES.get((run.state, type(event)))
    if edge is None:
        raise UnknownEdge(run, event=event)
    _check_part(run, event, edge)
    record, effects = edge.apply(run.record, event)
    after = Run(record, ended=event.phase if isinstance(event, End) else run.ended)
    if after.state not in edge.leads:
        raise UnknownEdge(run, event=event, why=f"it would lead to {after.state}")
    return after, effects


def _check_part(run: Run, event: Event, edge: Edge) -> None:
    if edge.needs is None:
        return
    name = getattr(event, "cluster", "")
    part = run.record.parts.get(name)
    if part is None or part.state is not edge.needs:
        raise UnknownEdge(run, event=event, why=f"{name} has no part that is {edge.needs}")


def page() -> str:
    """`docs/lifecycles/run.md`."""
    lines = [
        "# The life of a run",
        "",
        "Made from the table in `policies/runs.py`; a test compares. What the words mean: protocol.md 1 and 2.",
        "",
        "```mermaid",
        "stateDiagram-v2",
        "    [*] --> Waiting",
    ]
    for (state, event), edge in EDGES.items():
        lines += [f"    {state} --> {target}: {event.__name__}" for target in edge.leads]
    lines += ["    Ended --> [*]", "```", "", "| In | Event | Leads to | Means |", "|---|---|---|---|"]
    for (state, event), edge in EDGES.items():
        lines.append(f"| {state} | {event.__name__} | {', '.join(edge.leads)} | {edge.means} |")
    return "\n".join(lines) + "\n"
