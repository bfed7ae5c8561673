"""The next order to a Volcano about one Job, if any. Pure.

A Command is deleted before it is acted on, so that its absence says nothing: what tells is the phase. Orders that may come
twice without harm (abort, terminate, complete) are repeated until the phase shows them; a resumption and a restart only
while the Job still stands as it did when they were written down.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Final

from member_agent.upstream.orders import (
    ABORT,
    ACTIONS,
    COMPLETE,
    RESTART,
    RESUME,
    TERMINATE,
    HubOrder,
    Ordered,
    Rest,
    hub_order,
    read,
)
from member_agent.views import JobView
from policies import durations

ENDED: Final = ("Completed", "Failed", "Terminated")
ENDING: Final = ("Completing", "Terminating")
RESTING: Final = ("Aborting", "Aborted")
SUSPENDED: Final = "Suspended"
"""Purpose of the order by which a Job is suspended."""
SHOWS: Final = {
    ABORT: RESTING,
    TERMINATE: ("Terminating", "Terminated"),
    COMPLETE: ("Completing", "Completed"),
}
"""Phases that show that an order was carried out."""


@dataclass(frozen=True, slots=True)
class Note:
    """Write this on the Job, before anything is ordered by it."""

    ordered: Ordered


@dataclass(frozen=True, slots=True)
class Order:
    """Make this Command. `purpose` names it: one word for programs."""

    action: str
    purpose: str
    message: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """The hub's order cannot be given: say so, and note that it was looked at."""

    message: str
    ordered: Ordered


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing now; look again after so many seconds, or at the next event."""

    seconds: float | None = None


Step = Note | Order | Refuse | Wait


def next_step(job: JobView, *, now: datetime.datetime, held: float) -> Step:
    """What to do for a Job. `held`: seconds for which an order given a moment ago may still be on its way."""
    if job.deleting or job.phase in ENDED:
        return Wait()
    ordered = read(job.ordered)
    return (
        _from_hub(job, hub_order(job.order), ordered, held=held)
        or _overdue(job, now=now, held=held)
        or _rest(job, ordered, held=held)
        or Wait(_left(job, now=now))
    )


# --- orders of the hub -----------------------------------------------------------------------------------------------


def _from_hub(job: JobView, order: HubOrder | None, ordered: Ordered, *, held: float) -> Step | None:
    if order is None or (order.id == ordered.order and ordered.done):
        return None
    if order.id != ordered.order:
        taken = _taken_up(ordered, order, version=job.status.version)
        if order.action not in ACTIONS:
            text = f"order {order.id} of the hub: a Volcano cannot be asked for {order.action} of {order.target or 'a Job'}"
            return Refuse(text, _settled(taken))
        return Note(taken)
    if _carried_out(job, order, since=ordered.version):
        return Note(_settled(ordered))
    return Wait(held) if held > 0 else Order(order.action, f"Order-{order.id}", f"{order.action} by order of the hub")


def _carried_out(job: JobView, order: HubOrder, *, since: int) -> bool:
    """A restart begins with a higher version; after any kill it would come too late."""
    if order.action == RESTART:
        return job.status.version > since or job.phase not in ("Pending", "Running")
    if order.action == RESUME:
        return job.phase not in RESTING
    return job.phase in SHOWS[order.action]


def _taken_up(ordered: Ordered, order: HubOrder, *, version: int) -> Ordered:
    """`order` is taken up."""
    return Ordered(rest=ordered.rest, order=order.id, version=version)


def _settled(ordered: Ordered) -> Ordered:
    """The order had its effect, or never will have."""
    return Ordered(rest=ordered.rest, order=ordered.order, version=ordered.version, done=True)


# --- max-run-time ----------------------------------------------------------------------------------------------------


def longest(job: JobView) -> int | None:
    """Seconds the run may take from its first start."""
    if job.record is not None and job.record.max_run_time is not None:
        return job.record.max_run_time
    return job.rules.max_run_time


def _left(job: JobView, *, now: datetime.datetime) -> float | None:
    """Seconds until the Job has run for too long; None where it may run for ever or has not begun."""
    limit, started = longest(job), _started(job)
    if limit is None or started is None or job.phase in (*ENDING, *ENDED, *RESTING):
        return None
    return limit - (now - started).total_seconds()


def _started(job: JobView) -> datetime.datetime | None:
    """When it was Running first, as its status tells."""
    times = [each.last_transition_time for each in job.status.conditions if each.status == "Running"]
    if job.phase == "Running":
        times.append(job.transition)
    read_times = [datetime.datetime.fromisoformat(text) for text in times if text]
    return min(read_times, default=None)


def _overdue(job: JobView, *, now: datetime.datetime, held: float) -> Step | None:
    left, limit = _left(job, now=now), longest(job)
    if left is None or left > 0 or limit is None:
        return None
    text = f"it has run for longer than {durations.text(limit)} (max-run-time)"
    return Wait(held) if held > 0 else Order(TERMINATE, "MaxRunTimeExceeded", text)


# --- suspend ---------------------------------------------------------------------------------------------------------


def suspended(job: JobView) -> bool:
    """Whether the Job is to rest. Of a hub-run Job the hub says so, by withdrawing it."""
    return job.rules.suspended and not job.managed


def _rest(job: JobView, ordered: Ordered, *, held: float) -> Step | None:
    rests, rest = job.phase in RESTING, ordered.rest
    if job.phase in ENDING:
        return None
    if suspended(job):
        if rests:
            return None
        return _asked(ordered, Rest.ABORTING, held=held) or Order(ABORT, SUSPENDED, "suspended by its annotation or spec")
    if rest is Rest.NONE:
        return None
    if rests:
        return _asked(ordered, Rest.RESUMING, held=held) or Order(RESUME, "Resumed", "no longer suspended")
    return Wait(held) if held > 0 else Note(_resting(ordered, Rest.NONE))


def _asked(ordered: Ordered, rest: Rest, *, held: float) -> Step | None:
    """Written down first; then not more often than an order takes."""
    if ordered.rest is not rest:
        return Note(_resting(ordered, rest))
    return Wait(held) if held > 0 else None


def _resting(ordered: Ordered, rest: Rest) -> Ordered:
    return Ordered(rest=rest, order=ordered.order, version=ordered.version, done=ordered.done)
