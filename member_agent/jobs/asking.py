"""What is asked of a Job beside what its pods say: Commands, orders of the hub, suspend, limits, policies. Pure.

One order at a time, in this precedence: Commands (the oldest first), the hub's order, suspend and its end, max-run-time,
policies.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from machinery.events import Severity
from member_agent.jobs.happenings import Firing, moment
from member_agent.jobs.kills import ACTIONS, Order, hub_order, scope_of
from member_agent.jobs.lifecycle import JOB, JobEvent, JobPhase
from member_agent.jobs.reasons import Obstacle
from member_agent.views import JobView
from policies import durations
from policies.members import CommandView

SUSPENDED = "Suspended"
SUSPENDED_TEXT = "suspended; it goes on when suspend is removed or false"
RETRIES = 15
"""Refusals in a row after which a Job whose pods can never be made is terminated, as upstream does."""


@dataclass(frozen=True, slots=True)
class Told:
    """Something for people: an event on the Job."""

    reason: str
    message: str
    severity: Severity = Severity.NORMAL


Dismissed = tuple[CommandView, Told | None]
"""A Command to delete, and what to say about it where it was not carried out."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The order to carry out now, Commands to delete, and seconds until time alone asks for something."""

    order: Order | None = None
    dismissed: tuple[Dismissed, ...] = ()
    wake: float | None = None


def suspended(job: JobView) -> bool:
    """Whether the Job is to rest. Of a hub-run Job the hub says so, by withdrawing it."""
    return job.rules.suspended and not job.managed


def look(
    job: JobView,
    *,
    commands: Sequence[CommandView],
    phase: JobPhase,
    held: bool,
    firing: Firing | None,
    now: datetime.datetime,
) -> Asked:
    """What to do first. `held`: suspended before anything was made; `firing`: what a policy asks for."""
    order, dismissed = _commanded(job, commands, phase=phase)
    overdue, wake = _overdue(job, phase=phase, now=now)
    found = (order, _hub_order(job, phase=phase), _suspension(job, phase=phase, held=held), overdue, _policy(job, firing))
    return Asked(next((each for each in found if each is not None), None), tuple(dismissed), wake)


def _commanded(job: JobView, commands: Sequence[CommandView], *, phase: JobPhase) -> tuple[Order | None, list[Dismissed]]:
    order: Order | None = None
    dismissed: list[Dismissed] = []
    for command in commands:
        if command.uid in job.status.memory.orders:
            dismissed.append((command, None))
        elif order is None:
            refusal = _refusal(job, command, phase=phase)
            if refusal is not None:
                dismissed.append((command, refusal))
            else:
                text = command.reason or f"{command.action} by Command {command.name}"
                order = Order(ACTIONS[command.action], "CommandIssued", text, command=command.uid)
    return order, dismissed


def _refusal(job: JobView, command: CommandView, *, phase: JobPhase) -> Told | None:
    """Why a Command is not carried out."""
    text = f"{command.action} of Command {command.name}"
    event = ACTIONS.get(command.action)
    if event is None:
        return Told("CommandRefused", f"{text}: no such action on a Job, want one of {', '.join(ACTIONS)}", Severity.WARNING)
    if event is JobEvent.RESUME and suspended(job):
        return Told("CommandRefused", f"{text}: the Job is suspended by its spec or annotation", Severity.WARNING)
    if not JOB.knows(phase, event):
        return Told("CommandTooLate", f"{text}: the Job is {phase.value}", Severity.WARNING)
    return None


def _hub_order(job: JobView, *, phase: JobPhase) -> Order | None:
    """An order that came with the Work; one that cannot be read or comes too late is none."""
    order = hub_order(job)
    if order is None:
        return None
    event = ACTIONS.get(order.action)
    if event is None or order.id in job.status.memory.orders or not JOB.knows(phase, event):
        return None
    task, _, index = order.target.partition("#")
    number = int(index) if index.isdigit() else -1
    scope = scope_of(order.action, task=task, index=number, rules=job.rules) if event is JobEvent.RESTART_TARGET else ""
    return Order(event, "CommandIssued", f"{order.action} by order of the hub", scope=scope, command=order.id)


def _suspension(job: JobView, *, phase: JobPhase, held: bool) -> Order | None:
    wanted = suspended(job)
    if wanted and not held and JOB.knows(phase, JobEvent.SUSPEND):
        return Order(JobEvent.SUSPEND, SUSPENDED, SUSPENDED_TEXT)
    if not wanted and job.status.memory.suspended and JOB.knows(phase, JobEvent.RESUME):
        return Order(JobEvent.RESUME, "Resumed", "no longer suspended")
    return None


def _overdue(job: JobView, *, phase: JobPhase, now: datetime.datetime) -> tuple[Order | None, float | None]:
    limit, started = job.longest, moment(job.status.memory.started_at)
    if limit is None or started is None or not JOB.knows(phase, JobEvent.OVERDUE):
        return None, None
    left = limit - (now - started).total_seconds()
    if left > 0:
        return None, left
    text = f"it has run for longer than {durations.text(limit)} (max-run-time)"
    return Order(JobEvent.OVERDUE, "MaxRunTimeExceeded", text), None


def _policy(job: JobView, firing: Firing | None) -> Order | None:
    if firing is None:
        return None
    event = ACTIONS.get(firing.policy.action)
    if event is None or not JOB.knows(JobPhase(job.phase), event):
        return None
    happening = firing.happening
    scope = ""
    if event is JobEvent.RESTART_TARGET:
        scope = scope_of(firing.policy.action, task=happening.task, index=happening.index, rules=job.rules)
    whose = f"policy of task {happening.task}" if firing.of_task else "policy of the Job"
    return Order(
        event,
        happening.event.value,
        f"{firing.policy.action} ({whose}): {happening.why}",
        scope=scope,
        eviction=happening.eviction,
        happening=happening,
    )


def give_up(obstacle: Obstacle) -> Order | None:
    """What can never be made is not asked for any longer."""
    if not obstacle.final or obstacle.times < RETRIES:
        return None
    return Order(JobEvent.TERMINATE, obstacle.reason, f"refused {obstacle.times} times: {obstacle.message}")


def told(order: Order) -> Iterator[Told]:
    """Events of an order that is being carried out."""
    if order.command:
        yield Told("CommandIssued", f"Start to execute command {order.message}")
    severity = Severity.NORMAL if order.command or order.reason in (SUSPENDED, "Resumed") else Severity.WARNING
    yield Told("ExecuteAction", f"Start to execute action {action_of(order)}: {order.message}", severity)


def action_of(order: Order) -> str:
    """The name of the action, as users write it."""
    if order.event is JobEvent.RESTART_TARGET:
        return "RestartPod" if "#" in order.scope else "RestartPartition" if "/" in order.scope else "RestartTask"
    names = {JobEvent.SUSPEND: "AbortJob", JobEvent.OVERDUE: "TerminateJob"}
    return names.get(order.event, str(order.event.value))
