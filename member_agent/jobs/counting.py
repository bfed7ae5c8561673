"""The counters of a Job, and what they say about its phase (reference/volcano.md 1.6, "Running sync"). Pure."""

from __future__ import annotations

from collections import Counter

import msgspec

from member_agent.jobs.floors import Floors
from member_agent.jobs.happenings import main_exit
from member_agent.jobs.lifecycle import JobEvent, JobPhase
from member_agent.jobs.roster import Roster
from member_agent.views import JobStatus, JobView, TaskCount
from policies.shapes import Gang


def count(job: JobView, *, roster: Roster, floors: Floors, going: int, before: JobStatus) -> JobStatus:
    """`before` with the counters as the pods are now. `roster` has the pods that count, `going` is how many others are leaving.

    Beside what pods report: a pod whose main container has ended counts as ended, and one that succeeded and was deleted since
    still counts as succeeded.
    """
    by_task: dict[str, Counter[str]] = {}
    for (task, phase), number in roster.phases.items():
        if number:
            by_task.setdefault(task, Counter())[phase] += number
    for pod in roster.early.values():
        code = main_exit(job, pod)
        if code is not None:
            by_task[pod.task][pod.phase] -= 1
            by_task[pod.task]["Failed" if code else "Succeeded"] += 1
    for task in before.memory.done:
        more = floors.gone_but_done(task, roster=roster)
        if more:
            by_task.setdefault(task, Counter())["Succeeded"] += more
    total: Counter[str] = Counter()
    for phases in by_task.values():
        total.update(phases)
    return msgspec.structs.replace(
        before,
        pending=total["Pending"],
        running=total["Running"],
        succeeded=total["Succeeded"],
        failed=total["Failed"],
        unknown=total["Unknown"],
        terminating=going + len(roster.deleting),
        task_status_count={
            task: TaskCount({phase: number for phase, number in sorted(by_task[task].items()) if number})
            for task in sorted(by_task)
        },
        min_available=job.gang.minimum if job.gang is not None else before.min_available,
    )


def verdict(job: JobView, status: JobStatus, *, phase: JobPhase) -> JobEvent:
    """What the counters say, for a Job that is Pending or Running."""
    gang = job.gang
    if gang is None:
        return JobEvent.WAITED
    ended = status.succeeded + status.failed
    if phase is JobPhase.PENDING:
        return JobEvent.STARTED if status.running + ended >= gang.minimum else JobEvent.WAITED
    if gang.replicas == 0:
        return JobEvent.WAITED
    if job.min_success is not None and status.succeeded >= job.min_success:
        return JobEvent.SUCCEEDED
    if ended >= gang.replicas:
        return _end(job, gang, status)
    return JobEvent.BELOW_MINIMUM if status.pending > gang.replicas - gang.minimum else JobEvent.WAITED


def _end(job: JobView, gang: Gang, status: JobStatus) -> JobEvent:
    """Every pod has ended: did enough of them succeed?"""
    if gang.minimum >= sum(task.minimum for task in gang.tasks):
        for role in job.rules.roles:
            counted = status.task_status_count.get(role.name, TaskCount()).phase.get("Succeeded", 0)
            if role.explicit is not None and counted < role.explicit:
                return JobEvent.FAILED
    if job.min_success is not None:
        return JobEvent.FAILED
    return JobEvent.SUCCEEDED if status.succeeded >= gang.minimum else JobEvent.FAILED
