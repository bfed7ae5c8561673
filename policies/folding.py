"""Status comes home: Works of a Job become totals, one phase and one reason (protocol.md 1, design.md 2.7).

Only a Work of the binding's Job and epoch whose part is not Gone counts. The phase over several clusters, first rule that
holds: Failed or Terminated where any is, Completed where all are, then Running, Restarting, Completing, Aborting,
Terminating, Aborted where any is, else Pending. Before and between runs the decision in the binding speaks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from apis.runs import Held, PartState
from policies import verdicts
from policies.runs import Run, RunState
from policies.statuses import TERMINAL, JobCondition, JobState, JobStatus, TaskState
from policies.verdicts import Outcome
from policies.views import BindingView, JobView, WorkView

FENCE_NOTE: Final = "FenceActsAsContinue"
"""Condition of a Job whose failover is Fence while no member is armed."""

EDIT_NOTE: Final = "EditNotCarriedOut"
"""Condition of a Job whose spec was edited after its Work was made, and reason of the event that tells it."""

EDITED: Final = (
    "its spec was edited after it was dispatched: this version does not carry out edits of a dispatched Job (a ttl aside);"
    " the run goes on as it was sent"
)

UNHEARD: Final = "ClusterUnreachable"
"""Reason of a Job whose member is not heard from."""

_ANY_OF: Final = ("Failed", "Terminated", "Running", "Restarting", "Completing", "Aborting", "Terminating", "Aborted")
_MESSAGE_LIMIT: Final = 1024


@dataclass(frozen=True, slots=True)
class Item:
    """One cluster's share of a Job."""

    cluster: str
    status: JobStatus | None
    applied: bool | None
    message: str = ""
    held_up: str = ""


@dataclass(frozen=True, slots=True)
class Folded:
    """What a binding's status says: per cluster, whether a pod has run, and the terminal phase if there is one."""

    items: tuple[Item, ...] = ()
    total: JobStatus = JobStatus()
    started: bool = False
    ended: str = ""


def current_works(binding: BindingView, works: Iterable[WorkView]) -> list[WorkView]:
    """Works that may be folded: Job UID and epoch match, and the part is not Gone."""
    run = binding.run
    if run is None:
        return []
    return sorted(
        (
            work
            for work in works
            if work.record is not None
            and work.record.job == binding.job_uid
            and work.record.epoch == run.epoch
            and work.cluster in run.parts
            and run.parts[work.cluster].state is not PartState.GONE
        ),
        key=lambda work: work.cluster,
    )


def fold(binding: BindingView, works: Iterable[WorkView]) -> Folded:
    """Totals and phase over the clusters of the current epoch."""
    counted = current_works(binding, works)
    items = tuple(Item(work.cluster, work.status, work.applied, work.message, work.held_up) for work in counted)
    known = [item.status for item in items if item.status is not None]
    # A part whose Work has said nothing yet is Pending: all Completed needs all parts.
    parts = len(binding.run.parts) if binding.run else 0
    phase = _phase([status.state.phase for status in known], parts=parts)
    total = _total(known, phase=phase)
    return Folded(
        items=items,
        total=total,
        started=any(status.started for status in known),
        ended=phase if phase in TERMINAL else "",
    )


def _phase(phases: Sequence[str], *, parts: int) -> str:
    if phases and len(phases) == parts and all(phase == "Completed" for phase in phases):
        return "Completed"
    return next((phase for phase in _ANY_OF if phase in phases), "Running" if "Completed" in phases else "Pending")


def _total(known: Sequence[JobStatus], *, phase: str) -> JobStatus:
    if len(known) == 1:
        only = known[0]
        state = msgspec.structs.replace(only.state, phase=phase) if phase != only.state.phase else only.state
        return msgspec.structs.replace(only, state=state, conditions=[], controlled_resources=None)
    reasons = [status.state for status in known if status.state.phase == phase]
    times = [state.last_transition_time for state in reasons if state.last_transition_time]
    return JobStatus(
        state=JobState(
            phase=phase,
            reason=reasons[0].reason if reasons else "",
            message=reasons[0].message if reasons else "",
            last_transition_time=max(times) if times else None,
        ),
        min_available=sum(status.min_available for status in known),
        pending=sum(status.pending for status in known),
        running=sum(status.running for status in known),
        succeeded=sum(status.succeeded for status in known),
        failed=sum(status.failed for status in known),
        terminating=sum(status.terminating for status in known),
        unknown=sum(status.unknown for status in known),
        version=max((status.version for status in known), default=0),
        retry_count=sum(status.retry_count for status in known),
        running_duration=max((status.running_duration or "" for status in known), default="") or None,
        task_status_count=_tasks(known),
        outputs={name: value for status in known for name, value in status.outputs.items()},
    )


def _tasks(known: Sequence[JobStatus]) -> dict[str, TaskState]:
    counts: dict[str, dict[str, int]] = {}
    for status in known:
        for task, state in status.task_status_count.items():
            for phase, count in state.phase.items():
                phases = counts.setdefault(task, {})
                phases[phase] = phases.get(phase, 0) + count
    return {task: TaskState(phase=phases) for task, phases in sorted(counts.items())}


# --- the Job's own status --------------------------------------------------------------------------------------------


def job_status(
    job: JobView,
    *,
    binding: BindingView | None,
    folded: Folded,
    fence: bool,
    now: str,
    away: Collection[str] = (),
    edited: bool = False,
) -> JobStatus:
    """The status that the hub's Job should show; `now` stamps a phase that no member stamped.

    A Job that shows a terminal phase keeps its status for ever. `fence`: the Job asks for Fence and nobody is armed. `away`:
    members that are not heard from. `edited`: its run was made from an older spec.
    """
    if job.ended:
        return job.status
    total = _unheard(job, _told(job, binding=binding, folded=folded), binding=binding, away=away)
    edited = edited and total.state.phase not in TERMINAL
    state = total.state
    if state.phase == job.phase and job.status.state.last_transition_time:
        state = msgspec.structs.replace(state, last_transition_time=job.status.state.last_transition_time)
    elif state.last_transition_time is None:
        state = msgspec.structs.replace(state, last_transition_time=now)
    added = f"; {EDITED}" if edited else ""
    message = state.message[: _MESSAGE_LIMIT - len(added)] + added
    return msgspec.structs.replace(
        total,
        state=msgspec.structs.replace(state, message=message),
        min_available=job.gang.minimum if job.gang else 0,
        retry_count=total.retry_count + (binding.run.retries if binding and binding.run and binding.job_uid == job.uid else 0),
        conditions=_conditions(job, state=state, notes=(FENCE_NOTE,) * fence + (EDIT_NOTE,) * edited),
        controlled_resources=job.status.controlled_resources,
    )


def _told(job: JobView, *, binding: BindingView | None, folded: Folded) -> JobStatus:
    if binding is None:
        return _plain("Pending", "Accepted", "waiting for its turn to be placed")
    if binding.job_uid != job.uid:
        return _plain("Pending", "NamesakeLeaving", "the run of the Job that had this name before is not known to be gone yet")
    if folded.ended:
        return _with_detail(folded, binding)
    if binding.ended:
        return _plain(binding.ended, "Recorded", "the end is recorded in the binding")
    if binding.run is None:
        text = binding.problem.message if binding.problem else "unreadable"
        return _plain("Pending", "BindingUnreadable", f"binding {binding.name}: {text}")
    return _by_state(binding, folded, Run(binding.run))


def _by_state(binding: BindingView, folded: Folded, run: Run) -> JobStatus:
    decision = binding.decision or verdicts.Gist(Outcome.WAITING)
    if decision.outcome is Outcome.REFUSED and decision.reason in verdicts.ENDED_HERE:
        return _plain(verdicts.ENDED_HERE[decision.reason], decision.reason, decision.message)
    match run.state:
        case RunState.GRANTED:
            return _unclear(_granted(binding, folded), decision)
        case RunState.STOPPING if run.record.held is not None:
            return _plain("Aborting", run.record.held.value, _stopping_text(run, folded))
        case RunState.STOPPING if decision.outcome is Outcome.WAITING:
            return _plain("Pending", decision.reason, f"{decision.message}; {_stopping_text(run, folded)}")
        case RunState.STOPPING:
            return _plain("Pending", "Withdrawn", _stopping_text(run, folded))
        case RunState.HELD:
            return _held(run)
        case _ if decision.outcome is Outcome.REFUSED:
            return _plain(
                "Failed", decision.reason, f"{decision.field}: {decision.message}" if decision.field else decision.message
            )
        case _:
            return _plain("Pending", decision.reason or "Waiting", decision.message)


def _unclear(total: JobStatus, decision: verdicts.Gist) -> JobStatus:
    """What runs keeps its phase; that nothing is decided about it is said first."""
    if decision.reason != verdicts.UNCLEAR or total.state.phase in TERMINAL:
        return total
    message = f"{decision.message}. Last known: {total.state.message}"
    return msgspec.structs.replace(total, state=msgspec.structs.replace(total.state, reason=decision.reason, message=message))


def _granted(binding: BindingView, folded: Folded) -> JobStatus:
    refused = [item for item in folded.items if item.applied is False]
    if refused:
        return _plain("Pending", "Refused", "; ".join(f"{item.cluster}: {item.message}" for item in refused))
    silent = all(item.status is None or not _says_more(item.status) for item in folded.items)
    if silent:
        return _plain("Pending", "Dispatched", f"sent to {', '.join(binding.clusters)}")
    return _with_detail(folded, binding)


def _says_more(status: JobStatus) -> bool:
    """More than that it was taken: a status that only says Pending is not worth a write of its own."""
    return status.started or bool(status.state.reason or status.state.message)


def _with_detail(folded: Folded, binding: BindingView) -> JobStatus:
    """The folded total; its message tells where, and what the members say."""
    texts = [_detail(item) for item in folded.items]
    state = folded.total.state
    message = "; ".join(texts) or f"on {', '.join(binding.clusters)}"
    return msgspec.structs.replace(folded.total, state=msgspec.structs.replace(state, message=message))


def _detail(item: Item) -> str:
    if item.status is None:
        return f"{item.cluster}: nothing reported yet"
    said = item.status.state.message or item.status.state.reason
    return f"{item.cluster}: {item.status.state.phase or 'Pending'}" + (f" ({said})" if said else "")


def _held(run: Run) -> JobStatus:
    held = run.record.held
    texts = {
        Held.SUSPENDED: "suspended; it is placed when the annotation suspend is removed or false",
        Held.ABORTED: "aborted by a Command; it is placed again after ResumeJob",
        Held.LOCALLY_DELETED: "its Job was deleted in the member; it is placed again after ResumeJob",
    }
    reason = held.value if held else ""
    # A Job that was only ever suspended never ran: it waits. Everything else was stopped.
    phase = "Pending" if held is Held.SUSPENDED and run.record.epoch == 0 else "Aborted"
    return _plain(phase, reason, texts[held] if held else "")


def _stopping_text(run: Run, folded: Folded) -> str:
    names = [name for name, part in sorted(run.record.parts.items()) if part.state is PartState.STOPPING]
    held_up = "".join(f"; {item.cluster}: {item.held_up}" for item in folded.items if item.held_up and item.cluster in names)
    return f"told to stop, waiting for {', '.join(names)} to confirm that its pods are gone{held_up}"


def _unheard(job: JobView, total: JobStatus, *, binding: BindingView | None, away: Collection[str]) -> JobStatus:
    """What a member said last is not what is: a Job that runs where nobody answers says so. The phase stays."""
    if binding is None or binding.run is None or binding.job_uid != job.uid:
        return total
    if Run(binding.run).state is not RunState.GRANTED:
        return total
    names = [name for name in binding.clusters if name in away]
    if not names or total.state.phase in TERMINAL:
        return total
    message = f"not heard from {', '.join(names)}; it stays there until that is. Last known: {total.state.message}"
    return msgspec.structs.replace(total, state=msgspec.structs.replace(total.state, reason=UNHEARD, message=message))


def _plain(phase: str, reason: str, message: str) -> JobStatus:
    return JobStatus(state=JobState(phase=phase, reason=reason, message=message))


def edited_since(job: JobView, *, binding: BindingView, works: Iterable[WorkView]) -> bool:
    """A Work of the current run was made from an older spec than the Job has now."""
    if job.uid != binding.job_uid:
        return False
    return any(0 < work.made_from < job.generation for work in current_works(binding, works))


def _conditions(job: JobView, *, state: JobState, notes: tuple[str, ...]) -> list[JobCondition]:
    """One entry per phase visited, the latest last (reference/volcano.md 1.2), and the notes first."""
    visited = [each for each in job.status.conditions if each.status not in (FENCE_NOTE, EDIT_NOTE)]
    noted = {each.status: each for each in job.status.conditions}
    if not visited or visited[-1].status != state.phase:
        entered = JobCondition(status=state.phase, last_transition_time=state.last_transition_time)
        visited = [each for each in visited if each.status != state.phase] + [entered]
    fresh = {name: JobCondition(status=name, last_transition_time=state.last_transition_time) for name in notes}
    return [noted.get(name, fresh[name]) for name in notes] + visited
