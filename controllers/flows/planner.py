"""From a flow's snapshot to what is to be done: Jobs to make, Jobs to remove, the status to write.

A step is *done* when its Completed end is recorded in `status.jobStatusList` or shown by its Job; a recorded end is final,
whatever happens to the Job object. Ends are written to the status before the Jobs that wait for them are made, unless every end
is shown by a Job that our finalizer keeps until then: a crash between the two repeats nothing.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from controllers.flows.folding import RUNS, folded
from controllers.flows.lifecycle import FLOW, FlowEvent, FlowPhase
from controllers.flows.looking import Look, listed
from controllers.flows.plans import FlowPlan, FlowReason, ProbeWanted, StepJob
from controllers.flows.snapshot import FlowSnapshot
from controllers.flows.status import FlowState, FlowStatus, Progress, StepStatus
from controllers.flows.steps import BAD_ENDS, COMPLETED, ENDS, moment, reset
from policies import durations
from policies.flows.checked import Checked
from policies.flows.graph import FlowGraph

__all__ = ["BAD_ENDS", "COMPLETED", "ENDS", "FlowPlan", "FlowReason", "ProbeWanted", "StepJob", "plan"]

OVER: Final = frozenset({FlowPhase.SUCCEED, FlowPhase.FAILED})
PROBLEMS_TOLD: Final = 10


def plan(snapshot: FlowSnapshot, *, now: str) -> FlowPlan:
    """Decide about one flow; `now` is RFC 3339. Same snapshot and time, same plan."""
    leaving = tuple(name for name, job in sorted(snapshot.jobs.items()) if job.deleting)
    return replace(_plan(snapshot, now=now), release=leaving)


def _plan(snapshot: FlowSnapshot, *, now: str) -> FlowPlan:
    flow = snapshot.flow
    phase = FlowPhase(flow.status.state.phase or FlowPhase.PENDING)
    if flow.deleting:
        return _stated(snapshot, flow.status, phase, FlowEvent.DELETED, reason="", message="")
    checked = flow.checked
    graph = checked.graph
    wanted = flow.spec.resume_from
    if wanted is not None and wanted.id and wanted.id != flow.status.resumed and phase is not FlowPhase.PENDING:
        return _resume(snapshot, graph, phase, now=now)
    if phase in OVER:
        return _after_end(snapshot, phase, now=now)
    found = checked.problems
    if found:
        text = "; ".join(f"{problem.field}: {problem.message}" for problem in found[:PROBLEMS_TOLD])
        more = f" and {len(found) - PROBLEMS_TOLD} more" if len(found) > PROBLEMS_TOLD else ""
        status = msgspec.structs.replace(flow.status, ended_at=now)
        return _stated(snapshot, status, phase, FlowEvent.REFUSED, reason=FlowReason.INVALID, message=text + more)
    return _Going(snapshot, checked, phase, now=now).plan()


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What the steps came to, and why."""

    phase: FlowPhase
    reason: str = ""
    message: str = ""


class _Going:
    """The plan of a flow that is not over."""

    def __init__(self, snapshot: FlowSnapshot, checked: Checked, phase: FlowPhase, *, now: str) -> None:
        self._snapshot = snapshot
        self._flow = snapshot.flow
        self._graph = checked.graph
        self._phase = phase
        self._now = now
        self._started = self._flow.status.started_at or now
        self._deadline = _later(self._started, self._flow.spec.deadline) if not self._flow.status.outcome else None
        late = self._deadline is not None and self._deadline <= moment(now)
        self._late = f"the flow did not end within {self._flow.spec.deadline}" if late else ""
        self._order = checked.order
        self._handlers = [step.name for step in self._flow.handlers]
        self._look = Look(snapshot, checked, now=now, cut=self._late)

    def plan(self) -> FlowPlan:
        """One look, what it begins, and what it says."""
        outcome = self._outcome()
        handled = outcome is not None and self._handle(outcome)
        if outcome is None:
            event = FlowEvent.PROGRESSED if stirred(self._look.records.values()) else FlowEvent.WAITED
            reason, message = self._explain()
        elif not handled:
            event = FlowEvent.PROGRESSED
            waiting = [step for step in self._handlers if step not in self._look.over(self._handlers)]
            reason, message = FlowReason.HANDLERS, f"the steps came to {outcome.phase}; exit handlers run: {listed(waiting)}"
        else:
            outcome = self._with_handlers(outcome)
            event = FlowEvent.COMPLETED if outcome.phase is FlowPhase.SUCCEED else FlowEvent.BROKEN
            reason, message = outcome.reason, outcome.message
        stated = _stated(self._snapshot, self._status(outcome, handled), self._phase, event, reason=reason, message=message)
        retained = _leftovers(self._snapshot) if event is FlowEvent.COMPLETED else ()
        return replace(
            stated,
            create=tuple(self._look.create),
            delete=tuple(dict.fromkeys((*self._look.doomed(), *retained))),
            probes=tuple(self._look.probes),
            wakes=None if handled else self._wakes(),
            sure=outcome is None and self._look.sure,
        )

    def _outcome(self) -> _Outcome | None:
        """What the steps came to; None while some go on, or could."""
        recorded = self._flow.status
        if recorded.outcome:
            return _Outcome(FlowPhase(recorded.outcome), recorded.outcome_reason, recorded.outcome_message)
        look, suspended = self._look, self._flow.spec.suspend
        look.go(self._order, stopped=suspended or bool(self._late))
        broken = look.broken(self._order)
        if self._late:
            return _Outcome(FlowPhase.FAILED, FlowReason.DEADLINE, self._late)
        if len(look.over(self._order)) == len(self._order):
            return _Outcome(FlowPhase.FAILED, *self._failure(broken)) if broken else _Outcome(FlowPhase.SUCCEED)
        stuck = broken and not suspended and not look.busy(self._order)
        return _Outcome(FlowPhase.FAILED, *self._failure(broken)) if stuck else None

    def _handle(self, outcome: _Outcome) -> bool:
        """Begin exit handlers; whether all are over."""
        self._look.go(self._handlers, outcome=outcome.phase.value, stopped=self._flow.spec.suspend)
        return len(self._look.over(self._handlers)) == len(self._handlers)

    def _with_handlers(self, outcome: _Outcome) -> _Outcome:
        broken = self._look.broken(self._handlers)
        if not broken:
            return outcome
        text = f"exit handler {self._named_ends(broken)}"
        if outcome.phase is FlowPhase.FAILED:
            return replace(outcome, message=f"{outcome.message}; {text}")
        return _Outcome(FlowPhase.FAILED, FlowReason.HANDLER_FAILED, text)

    def _status(self, outcome: _Outcome | None, handled: bool) -> FlowStatus:
        shown = (*self._order, *(self._handlers if outcome is not None else ()))
        status = folded(self._snapshot, self._look.records)
        kept = outcome if self._handlers and outcome is not None and not handled else None
        wanted = self._flow.spec.resume_from
        return msgspec.structs.replace(
            status,
            started_at=self._started,
            ended_at=self._now if handled else None,
            outcome=kept.phase.value if kept else "",
            outcome_reason=kept.reason if kept else "",
            outcome_message=kept.message if kept else "",
            resumed=wanted.id if wanted else self._flow.status.resumed,
            items=self._look.items,
            progress=Progress(steps=len(shown), done=len(self._look.over(shown))),
        )

    # --- words -------------------------------------------------------------------------------------------------------

    def _failure(self, broken: Sequence[str]) -> tuple[str, str]:
        lost = sorted(self._graph.beyond(broken) - set(self._look.over(self._order)))
        behind = f"; not started because of it: {listed(lost)}" if lost else ""
        return FlowReason.STEP_FAILED, f"step {self._named_ends(broken)}{behind}"

    def _named_ends(self, steps: Iterable[str]) -> str:
        found = []
        for step in sorted(steps):
            record = next(each for each in self._look.found(step) if each is not None and each.state in BAD_ENDS)
            found.append(f"{step} is {record.state} ({record.message or f'Job {record.name}'})")
        return listed(found)

    def _explain(self) -> tuple[str, str]:
        """Why it is not further; the word that matters most."""
        look = self._look
        broken = look.broken(self._order)
        if broken:
            return self._failure(broken)
        if self._flow.spec.suspend:
            return FlowReason.SUSPENDED, "the flow is suspended: what runs goes on, nothing else begins"
        if look.taken:
            kind = "object" if any(step.flow for step in look.steps.values()) else "Job"
            return FlowReason.NAME_TAKEN, f"a {kind} named {look.taken[0]} exists and does not belong to this flow"
        if look.waiting:
            return FlowReason.TEMPLATE_MISSING, f"waiting for JobTemplate {listed(list(look.waiting))}"
        retrying = [record for record in look.records.values() if record.retry_at is not None]
        if retrying:
            first = retrying[0]
            return FlowReason.RETRYING, f"Job {first.name}: {first.message}; the next not before {first.retry_at}"
        if look.probing:
            step, text = next(iter(look.probing.items()))
            return FlowReason.PROBING, f"step {step} waits for its probe: {text}"
        if look.full:
            return FlowReason.FULL, f"{len(look.full)} Jobs wait for a place: {listed(look.full)}"
        return "", ""

    def _wakes(self) -> float | None:
        """Seconds until time alone changes something."""
        moments = self._look.wakes() + ([self._deadline] if self._deadline is not None and not self._late else [])
        return _until(moments, now=self._now)


# --- again -----------------------------------------------------------------------------------------------------------


def _resume(snapshot: FlowSnapshot, graph: FlowGraph, phase: FlowPhase, *, now: str) -> FlowPlan:
    """Forget the ends of steps that are to run again, and of all that wait for them; their Jobs have to go first."""
    flow = snapshot.flow
    wanted = flow.spec.resume_from
    assert wanted is not None
    again = _again(flow.status.job_status_list, wanted.steps, graph)
    handlers = {step.name for step in flow.handlers}
    kept: list[StepStatus] = []
    for record in flow.status.job_status_list:
        if record.step not in again and record.step not in handlers:
            kept.append(record)
        elif record.uid:
            kept.append(reset(record))
    status = msgspec.structs.replace(
        folded(snapshot, {record.name: record for record in kept}),
        started_at=now,
        ended_at=None,
        outcome="",
        outcome_reason="",
        outcome_message="",
        resumed=wanted.id,
        items={step: items for step, items in flow.status.items.items() if step not in again},
        progress=flow.status.progress,
    )
    return _stated(snapshot, status, phase, FlowEvent.RESUMED, reason="", message=f"resumed by request {wanted.id}")


def _again(records: Iterable[StepStatus], named: Sequence[str] | None, graph: FlowGraph) -> frozenset[str]:
    """Steps that run again: those named, else those that failed or were left out, and what waits for them."""
    first = set(named or ()) or {record.step for record in records if record.ended and record.state in BAD_ENDS}
    known = {step for step in first if graph.knows(step)}
    return frozenset(first) | graph.beyond(known)


def _after_end(snapshot: FlowSnapshot, phase: FlowPhase, *, now: str) -> FlowPlan:
    flow = snapshot.flow
    ended = flow.status.ended_at or now
    gone = _later(ended, flow.spec.ttl)
    return FlowPlan(
        status=None,
        delete=_leftovers(snapshot) if phase is FlowPhase.SUCCEED else (),
        wakes=_until([gone], now=now) if gone is not None else None,
        remove=gone is not None and gone <= moment(now) and not snapshot.kept,
    )


def _leftovers(snapshot: FlowSnapshot) -> tuple[tuple[str, str], ...]:
    if snapshot.flow.retain:
        return ()
    return tuple((name, job.uid) for name, job in sorted(snapshot.jobs.items()) if not job.deleting)


# --- inside ----------------------------------------------------------------------------------------------------------


def stirred(records: Iterable[StepStatus]) -> bool:
    """Whether anything has begun: a Job runs, or something ended."""
    return any(record.ended or record.retry_at is not None or record.state in RUNS for record in records)


def _later(start: str, duration: str) -> datetime.datetime | None:
    return moment(start) + datetime.timedelta(seconds=durations.parse(duration)) if duration else None


def _until(moments: Iterable[datetime.datetime], *, now: str) -> float | None:
    """Seconds to the first of them that lies ahead."""
    ahead = [seconds for each in moments if (seconds := (each - moment(now)).total_seconds()) > 0]
    return min(ahead, default=None)


def _stated(
    snapshot: FlowSnapshot, status: FlowStatus, phase: FlowPhase, event: FlowEvent, *, reason: str, message: str
) -> FlowPlan:
    story = f"JobFlow {snapshot.flow.namespace}/{snapshot.flow.name} at {snapshot.flow.version}"
    target = FLOW.step(phase, event, story=story)
    new = msgspec.structs.replace(status, state=FlowState(phase=target.value, reason=reason, message=message))
    return FlowPlan(status=None if new == snapshot.flow.status else new)
