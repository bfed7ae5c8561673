"""Why a Job waits or has ended, in the words of whoever holds it up. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from member_agent.jobs.roster import Roster
from member_agent.views import HELD, HOLD_DROPPED, GroupView, JobStatus, JobView, QueueView, Role
from member_agent.views.waits import read


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What the API server refused for this Job: reason, message; `final`: asking again will not help; `times` in a row."""

    reason: str
    message: str
    times: int = 1
    final: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """What is around a Job that waits."""

    group: GroupView | None
    queue: QueueView | None
    may_start: bool
    missing_claims: tuple[str, ...] = ()
    obstacle: Obstacle | None = None
    held: tuple[str, ...] = ()
    """Tasks that wait for other tasks."""


def why_pending(job: JobView, *, roster: Roster, facts: Facts) -> tuple[str, str]:
    """Reason and message; empty while the Job is merely on its way."""
    if facts.queue is None and job.record is None:
        return "QueueMissing", f"spec.queue: queue {job.queue} does not exist"
    if not facts.may_start:
        return "WorkMissing", f"no pod is made: Work {job.work[0]}/{job.work[1]} is not there or is being withdrawn"
    if facts.missing_claims:
        return "PVCError", f"spec.volumes: claim {', '.join(facts.missing_claims)} does not exist"
    told = of_hold(job, facts.group)
    if told is not None:
        return told
    if facts.obstacle is not None:
        return facts.obstacle.reason, facts.obstacle.message
    stuck = sorted((pod.name, pod.trouble) for pod in roster.stuck.values() if pod.trouble is not None)
    if stuck:
        name, (reason, text) = stuck[0]
        return reason, f"{len(stuck)} of {len(roster.pods)} pods cannot start; {name}: {text or reason}"
    group = facts.group
    for each in group.status.conditions if group is not None else ():
        if each.type == "Unschedulable" and each.status == "True":
            return read(each)
    if facts.held:
        return "TaskDependency", "; ".join(waits_for(job.rules.role(name)) for name in facts.held)
    return without_pods(job)


def of_hold(job: JobView, group: GroupView | None) -> tuple[str, str] | None:
    """How the hold of a gang over clusters stands (protocol.md 5); None where there is none, or room is still looked for."""
    record = group.hold if group is not None else None
    if job.record is None or record is None or record.n != job.record.epoch:
        return None
    if record.dropped:
        return HOLD_DROPPED, f"hold {record.n} was given up: {record.dropped}; a release of it is not obeyed"
    if job.record.release:
        return None
    return HELD, f"hold {record.n}: room for {record.pods} pods is held on {record.nodes} nodes until all clusters are prepared"


def without_pods(job: JobView) -> tuple[str, str]:
    """Of a Job that has nothing to run; empty for any other."""
    nothing = job.gang is not None and job.gang.replicas == 0
    return ("NoPods", "spec.tasks: every task has 0 replicas: there is nothing to run") if nothing else ("", "")


def none_started(status: JobStatus) -> tuple[str, str]:
    """Of a Job whose minimum is met without any pod that runs."""
    return (
        "PodsPending",
        f"no pod runs: {status.pending} wait for nodes or have not started, and the minimum needs none of them",
    )


def waits_for(role: Role) -> str:
    """A task that waits, in a sentence."""
    which = "one of the tasks" if role.any_of and len(role.after) > 1 else "task" if len(role.after) == 1 else "the tasks"
    return f"task {role.name} waits for {which} {', '.join(role.after)}"


def why_failed(job: JobView, status: JobStatus) -> tuple[str, str]:
    """Of a Job whose pods have all ended and that did not reach what it had to."""
    gang = job.gang
    floors = gang is not None and gang.minimum >= sum(task.minimum for task in gang.tasks)
    for role in job.rules.roles if floors else ():
        counted = status.task_status_count.get(role.name)
        succeeded = counted.phase.get("Succeeded", 0) if counted is not None else 0
        if role.explicit is not None and succeeded < role.explicit:
            return "TooFewSucceeded", f"{succeeded} pods of task {role.name} succeeded; {role.explicit} had to succeed"
    least = job.min_success if job.min_success is not None else (gang.minimum if gang else 0)
    told = f"{status.succeeded} pods succeeded, {status.failed} failed; {least} had to succeed"
    return "TooFewSucceeded", told
