"""What the agent says of a run in the Work's status, and how soon. Pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from apis import kinds
from member_agent.views import HELD, HOLD_DROPPED, Condition, JobView, WorkView, condition, status_digest
from member_agent.works.planner import ENDS, Refuse
from member_agent.works.remains import Left

LOCALLY_DELETED: Final = "LocallyDeleted"
NODE_UNREACHABLE: Final = "NodeUnreachable"
UPDATED: Final = "Updated"
"""Condition that is there, and False, while the Job is not what the manifest says because it cannot be changed."""
WAITING: Final = "Waiting"
"""Condition that is there, and True, while the run waits for what the hub sends beside it."""
NAMED: Final = 5
"""Pods and nodes named in a message; more are counted."""


class Urgency(enum.Enum):
    """How soon a report is written; the controller knows the seconds."""

    NOW = "now"
    """Refusals, ends, changes of phase, what somebody must look at."""
    SOON = "soon"
    """Counters and messages."""
    LATER = "later"
    """Applied and still Pending: usually merges with Running."""


@dataclass(frozen=True, slots=True)
class Status:
    """The status to write."""

    conditions: tuple[Condition, ...]
    manifest: dict[str, Any] | None
    health: str
    urgency: Urgency

    def body(self, work: WorkView) -> dict[str, Any]:
        """As JSON."""
        status: dict[str, Any] = {"conditions": [msgspec.to_builtins(each) for each in self.conditions]}
        entry: dict[str, Any] = {"identifier": identifier(work), "health": self.health}
        if self.manifest is not None:
            entry["status"] = self.manifest
        status["manifestStatuses"] = [entry]
        return status


def identifier(work: WorkView) -> dict[str, Any]:
    """`manifestStatuses[0].identifier`."""
    group, _, version = work.target.api_version.rpartition("/")
    plural = kinds.JOB.plural if work.target.kind == kinds.JOB.kind else ""
    return {
        "ordinal": 0,
        "group": group,
        "version": version,
        "kind": work.target.kind,
        "resource": plural,
        "namespace": work.target.namespace,
        "name": work.target.name,
    }


def refused(work: WorkView, refusal: Refuse, *, now: str) -> Status:
    """Applied=False with the reason."""
    applied = _set(work, Condition("Applied", "False", refusal.reason.value, refusal.message), now=now)
    return Status(applied, None, "Unknown", Urgency.NOW)


def lacking(work: WorkView, message: str, *, now: str) -> Status:
    """Waiting=True: no answer yet, and why."""
    return Status(_set(work, Condition(WAITING, "True", "CompanionMissing", message), now=now), None, "Unknown", Urgency.SOON)


def lost(work: WorkView, *, job: JobView | None, now: str) -> Status:
    """Gone=True: the Job was deleted in the member, and nothing of the run is left."""
    message = "the Job was deleted in this member; it is not made again in this epoch"
    conditions = _set(work, Condition("Gone", "True", LOCALLY_DELETED, message), now=now)
    return Status(conditions, _job_status(job) if job else None, "Unknown", Urgency.NOW)


def left(work: WorkView, found: Left, *, job: JobView | None, now: str) -> Status:
    """Gone=False: pods that may still run, and the nodes that do not answer."""
    message = f"may still run: {_names(found.pods)}; nodes not Ready: {_names(found.unreachable)}"
    conditions = _set(work, Condition("Gone", "False", NODE_UNREACHABLE, message), now=now)
    return Status(conditions, _job_status(job) if job else None, "Unknown", Urgency.NOW)


def running(work: WorkView, job: JobView, *, now: str, edit: Refuse | None = None) -> Status | None:
    """Applied=True and how the Job stands; None when that is said already. `edit`: why the Job could not be changed to the
    present manifest."""
    manifest = _job_status(job)
    conditions = _set(work, Condition("Applied", "True", "AppliedSuccessful"), now=now)
    prepared, unedited = _prepared(job), _unedited(edit)
    for each in (prepared, unedited):
        if each is not None:
            conditions = _set(work, each, now=now, to=conditions)
    conditions = tuple(each for each in conditions if each.type != WAITING)
    if edit is None and job.work_digest == work.digest:
        conditions = tuple(each for each in conditions if each.type != UPDATED)
    if work.applied and conditions == work.conditions and status_digest(manifest) == work.reported:
        return None
    there = [msgspec.structs.replace(each, last_transition_time="") for each in work.conditions]
    told = all(each is None or each in there for each in (prepared, unedited))
    return Status(conditions, manifest, health(job), _urgency(work, job) if told else Urgency.NOW)


def _unedited(edit: Refuse | None) -> Condition | None:
    """Updated=False: the run goes on as it was."""
    if edit is None:
        return None
    text = f"the Job stays as it was, this member refuses the edit: {edit.message}"
    return Condition(UPDATED, "False", edit.reason.value, text)


def _prepared(job: JobView) -> Condition | None:
    """What a gang over clusters is told of its hold: Prepared(n), or that it was given up (protocol.md 5)."""
    state, record = job.status.state, job.record
    if record is None or state.reason not in (HELD, HOLD_DROPPED):
        return None
    return Condition("Prepared", "True" if state.reason == HELD else "False", state.reason, f"{record.epoch}: {state.message}")


def health(job: JobView) -> str:
    """Healthy unless the Job ended badly."""
    return "Unhealthy" if job.phase in ("Failed", "Aborted", "Terminated") else "Healthy"


def _urgency(work: WorkView, job: JobView) -> Urgency:
    phase = job.phase or "Pending"
    if phase in ENDS or (phase != (work.reported_phase or "Pending")):
        return Urgency.NOW
    return Urgency.SOON if work.applied else Urgency.LATER


def _job_status(job: JobView) -> dict[str, Any]:
    """The Job's status without its history: Works stay small (protocol.md 7)."""
    memory = job.status.memory
    done = _acknowledged(job.ordered)
    if done and done not in memory.orders:
        memory = msgspec.structs.replace(memory, orders=(*memory.orders, done))
    status = msgspec.structs.replace(job.status, conditions=[], controlled_resources={}, memory=memory)
    tree: dict[str, Any] = msgspec.to_builtins(status)
    return tree


class _Ordered(msgspec.Struct, frozen=True):
    """Of what `member_agent.upstream` writes on a Job: the hub's order that was taken up last."""

    order: str = ""
    done: bool = False


_ordered = msgspec.json.Decoder(_Ordered).decode


def _acknowledged(text: str) -> str:
    """Id of the order that a Volcano was given and that had its effect, or "": its status has no place to say so."""
    try:
        found = _ordered(text) if text else _Ordered()
    except msgspec.MsgspecError:
        return ""
    return found.order if found.done else ""


def _set(work: WorkView, wanted: Condition, *, now: str, to: tuple[Condition, ...] | None = None) -> tuple[Condition, ...]:
    """The Work's conditions (or `to`) with one set; its time moves only when its status does."""
    present = condition(work.conditions, wanted.type)
    since = present.last_transition_time if present is not None and present.status == wanted.status else now
    stamped = msgspec.structs.replace(wanted, last_transition_time=since or now)
    before = work.conditions if to is None else to
    if present is None:
        return (*before, stamped)
    return tuple(stamped if each.type == wanted.type else each for each in before)


def _names(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return (", ".join(names[:NAMED]) + more) or "none"
