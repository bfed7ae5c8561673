"""What is to be written about a Job, given its objects: binding status, Job status, events. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from apis.runs import Failover
from policies import folding, statuses
from policies.folding import Folded, Item
from policies.runs import Run, RunState
from policies.statuses import JobStatus
from policies.verdicts import Outcome, shortened
from policies.views import FINISHED, STARTED, BindingView, JobView, Stage, WorkView

NAMED: Final = 5
"""Clusters that a condition names; more are counted."""
STATUS_BUDGET: Final = 1536
"""Bytes of members' statuses in one binding, which has 4 KiB in all (protocol.md 7); the Works have them in full."""
_STAGE_TEXT: Final = {Stage.SCHEDULED: "Scheduled", Stage.STARTED: "Started", Stage.ENDED: "Ended"}


@dataclass(frozen=True, slots=True)
class Telling:
    """Bodies to write, None where nothing is new. `stage` is what the binding's status will tell; `urgent` is an end."""

    stage: Stage = Stage.NOTHING
    binding_status: dict[str, Any] | None = None
    job_status: JobStatus | None = None
    urgent: bool = False


def tell(
    job: JobView | None,
    *,
    binding: BindingView | None,
    works: tuple[WorkView, ...],
    seen_end: Folded | None,
    now: str,
    away: Collection[str] = (),
) -> Telling:
    """Compare what is with what the API server says. `seen_end`: an end that was folded before its Works vanished. `away`:
    members that are not heard from."""
    if binding is None:
        return Telling()
    folded = folding.fold(binding, works)
    if seen_end is not None and not folded.ended:
        folded = seen_end
    stage = _stage(binding, folded)
    told_epoch, told_stage = binding.stage
    epoch = binding.run.epoch if binding.run else 0
    fresh = stage > (told_stage if told_epoch == epoch or told_stage is Stage.ENDED else Stage.NOTHING)
    status = _job_status(job, binding=binding, folded=folded, works=works, now=now, away=away)
    return Telling(
        stage=stage,
        binding_status=_binding_status(binding, folded, stage=stage, epoch=epoch, now=now) if fresh else None,
        job_status=status,
        urgent=stage is Stage.ENDED or (status is not None and status.state.phase in statuses.TERMINAL),
    )


def _stage(binding: BindingView, folded: Folded) -> Stage:
    if folded.ended or binding.ended:
        return Stage.ENDED
    if folded.started:
        return Stage.STARTED
    granted = binding.run is not None and Run(binding.run).state is RunState.GRANTED
    return Stage.SCHEDULED if granted else Stage.NOTHING


def _job_status(
    job: JobView | None,
    *,
    binding: BindingView,
    folded: Folded,
    works: tuple[WorkView, ...],
    now: str,
    away: Collection[str],
) -> JobStatus | None:
    """The Job's status when it must be written."""
    if job is None or job.ended:
        return None
    fence = any(work.record is not None and work.record.failover is Failover.FENCE for work in works)
    edited = folding.edited_since(job, binding=binding, works=works)
    wanted = folding.job_status(job, binding=binding, folded=folded, fence=fence, now=now, away=away, edited=edited)
    return None if statuses.digest(wanted) == statuses.digest(job.status) else wanted


def _binding_status(binding: BindingView, folded: Folded, *, stage: Stage, epoch: int, now: str) -> dict[str, Any]:
    """Status of a ResourceBinding (reference/karmada.md 5.1), with our conditions Started and Finished."""
    applied = bool(folded.items) and all(item.applied for item in folded.items)
    told = binding.stage[0] == epoch and binding.stage[1] is not Stage.NOTHING
    since = (binding.scheduled if told else "") or now
    said: list[tuple[str, bool, str, str, str]] = [
        ("Scheduled", True, "Success", _where(binding.clusters), since),
        ("FullyApplied", applied, "FullyAppliedSuccess" if applied else "FullyAppliedFailed", "", now),
        (STARTED, stage >= Stage.STARTED, _STAGE_TEXT[stage], f"epoch {epoch}", now),
    ]
    if stage is Stage.ENDED:
        said.append((FINISHED, True, folded.ended or binding.ended, f"epoch {epoch}", now))
    return {
        "conditions": [_condition(*each, generation=binding.generation) for each in said],
        "aggregatedStatus": _items(folded),
        "schedulerObservedGeneration": binding.generation,
        "lastScheduledTime": since,
    }


def _where(clusters: Sequence[str]) -> str:
    named = ", ".join(clusters[:NAMED]) or "no cluster"
    more = f" and {len(clusters) - NAMED} more" if len(clusters) > NAMED else ""
    return f"placed on {named}{more}"


def _items(folded: Folded) -> list[dict[str, Any]]:
    """By cluster; statuses as far as they fit."""
    items, left = [], STATUS_BUDGET
    for item in folded.items:
        told: dict[str, Any] = {"clusterName": item.cluster, "applied": bool(item.applied), "health": _health(item)}
        if item.applied is False:
            told["appliedMessage"] = shortened(item.message)
        if item.status is not None:
            brief = _brief(item.status)
            left -= len(msgspec.json.encode(brief))
            if left >= 0:
                told["status"] = brief
        items.append(told)
    return items


def _health(item: Item) -> str:
    """As Karmada has it for a Volcano Job (reference/karmada.md 5.4), but that an aborted one is not well either."""
    if not item.applied:
        return "Unknown"
    phase = item.status.state.phase if item.status is not None else ""
    return "Unhealthy" if phase in ("Failed", "Aborted", "Terminated") else "Healthy"


def _brief(status: JobStatus) -> dict[str, Any]:
    """State and counts; what tasks did is on the Job."""
    kept = msgspec.structs.replace(status, conditions=[], controlled_resources=None, task_status_count={})
    return statuses.plain(kept)


def _condition(type: str, status: bool, reason: str, message: str, since: str, *, generation: int) -> dict[str, Any]:
    return {
        "type": type,
        "status": "True" if status else "False",
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": since,
    }


@dataclass(frozen=True, slots=True)
class Happening:
    """One event about a Job."""

    reason: str
    message: str
    warning: bool


def happening(binding: BindingView, *, status: JobStatus | None) -> Happening | None:
    """The event that goes with what is written now, if any."""
    if status is not None and status.state.phase in statuses.TERMINAL:
        failed = status.state.phase != "Completed"
        return Happening(f"Job{status.state.phase}", status.state.message or status.state.reason, failed)
    decision, run = binding.decision, binding.run
    if decision is None or run is None:
        return None
    if decision.outcome is Outcome.PLACED and run.epoch:
        return Happening("ScheduleBindingSucceed", f"{decision.message} (epoch {run.epoch})", False)
    if decision.outcome is Outcome.WAITING:
        return Happening("ScheduleBindingFailed", f"{decision.reason}: {decision.message}", True)
    return None


def edit_noted(job: JobView, *, status: JobStatus) -> Happening | None:
    """The event that goes with the first status that notes an edit; the note itself remembers that it was told."""
    noted, known = (any(each.status == folding.EDIT_NOTE for each in of.conditions) for of in (status, job.status))
    return Happening(folding.EDIT_NOTE, folding.EDITED, True) if noted and not known else None
