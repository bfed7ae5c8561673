"""What a Job needs next: its PodGroup, pods to make or remove, and its status. Pure.

Counting rules: reference/volcano.md 1.6; order of work: 1.7.
"""

from __future__ import annotations

import datetime
import enum
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from apis import naming
from apis.vectors import ResourceVector, counts_bytes, total
from member_agent.checks import impossible
from member_agent.jobs.lifecycle import ENDS, JOB, JobEvent, JobPhase
from member_agent.jobs.orders import PodOrder
from member_agent.views import GroupView, JobCondition, JobState, JobStatus, JobView, PodView, QueueView, TaskCount
from policies.shapes import Gang
from policies.troubles import TROUBLES, same


class Urgency(enum.IntEnum):
    """How soon a status is written; the controller knows the seconds."""

    END = 0
    WHOLE = 1
    """The phase changed and no pod is missing from the counters."""
    PHASE = 2
    PENDING = 3
    COUNTERS = 4


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One Job and what there is of it. `made` are names of pods created and not seen yet.

    `granted` is false for a hub-run Job whose Work is not there or is being withdrawn.
    """

    job: JobView
    group: GroupView | None
    pods: tuple[PodView, ...]
    queue: QueueView | None
    made: frozenset[str] = frozenset()
    granted: bool = True

    @property
    def may_start(self) -> bool:
        """No first pod without a grant: a late creation of the Job may land after its Work was confirmed gone.

        A Job that has or had pods goes on: a missing Work is an anomaly and never an order (protocol.md 2, A3).
        """
        return self.granted or bool(self.pods or self.made) or self.job.phase not in ("", JobPhase.PENDING)


@dataclass(frozen=True, slots=True)
class Plan:
    """Effects, in this order: group, pods, removals, status."""

    create_group: bool = False
    update_group: bool = False
    create: tuple[PodOrder, ...] = ()
    delete: tuple[PodView, ...] = ()
    status: JobStatus | None = None
    urgency: Urgency = Urgency.COUNTERS


def plan(snapshot: Snapshot, *, now: datetime.datetime, stamp: str) -> Plan:
    """What to do about one Job now."""
    job = snapshot.job
    if job.deleting:
        return Plan()
    ended = job.phase in ENDS
    fault = None if ended or job.phase == JobPhase.RUNNING else impossible(job)
    status, urgency = _status(snapshot, fault=fault, now=now, stamp=stamp)
    over = status.state.phase in ENDS
    delete = tuple(_leftovers(snapshot) if over else _surplus(snapshot))
    written = None if status == job.status else status
    if over or job.gang is None:
        return Plan(delete=delete, status=written, urgency=urgency)
    group = snapshot.group
    return Plan(
        create_group=group is None and (snapshot.queue is not None or job.record is not None),
        update_group=group is not None and _group_differs(job, group),
        create=tuple(_missing(snapshot)) if group is not None and snapshot.may_start and may_make_pods(job, group) else (),
        delete=delete,
        status=written,
        urgency=urgency,
    )


def may_make_pods(job: JobView, group: GroupView) -> bool:
    """Pods are made once the group is let in; a hub-run group is, unless its gang over clusters still prepares."""
    if job.record is not None and group.admitted:
        return job.record.release
    return group.phase in ("Inqueue", "Running", "Completed")


# --- pods ------------------------------------------------------------------------------------------------------------


def wanted(job: JobView) -> Iterator[PodOrder]:
    """Every pod the Job should have here, in order of task and index; offsets as the run record has them."""
    slices = job.record.tasks if job.record else {}
    for task in job.gang.tasks if job.gang else ():
        offset = slices[task.name].offset if task.name in slices else 0
        for index in range(offset, offset + task.replicas):
            yield PodOrder(task.name, index, naming.pod_name(job.name, task=task.name, index=index))


def _missing(snapshot: Snapshot) -> Iterator[PodOrder]:
    there = {pod.name for pod in snapshot.pods} | snapshot.made
    return (order for order in wanted(snapshot.job) if order.name not in there)


def _surplus(snapshot: Snapshot) -> Iterator[PodView]:
    """Pods beyond the replicas: the highest indices go when a task is scaled down."""
    names = {order.name for order in wanted(snapshot.job)}
    return (pod for pod in snapshot.pods if pod.name not in names and not pod.deleting and snapshot.job.gang is not None)


def _leftovers(snapshot: Snapshot) -> Iterator[PodView]:
    """Pods still running when the Job has ended."""
    return (pod for pod in snapshot.pods if not pod.ended and not pod.deleting)


# --- PodGroup --------------------------------------------------------------------------------------------------------


def task_minima(gang: Gang) -> dict[str, int]:
    """`minTaskMember`."""
    return {task.name: task.minimum for task in gang.tasks}


def min_resources(gang: Gang) -> ResourceVector:
    """What the gang's minimum asks for, in quota form (reference/volcano.md 1.7)."""
    plain = total(shape.requests * count for shape, count in gang.least())
    quota = {f"requests.{name}": amount for name, amount in plain.items() if name in ("cpu", "memory") or "/" in name}
    kept = {name: amount for name, amount in plain.items() if name in ("cpu", "pods") or counts_bytes(name)}
    return ResourceVector({**kept, **quota, "count/pods": plain.get("pods")})


def _group_differs(job: JobView, group: GroupView) -> bool:
    gang = job.gang
    if gang is None:
        return False
    return (group.min_member, dict(group.min_task_member), group.queue, group.priority_class, group.min_resources) != (
        gang.minimum,
        task_minima(gang),
        job.queue,
        job.priority_class,
        min_resources(gang),
    )


# --- status ----------------------------------------------------------------------------------------------------------


def count(pods: Sequence[PodView], *, before: JobStatus) -> JobStatus:
    """`before` with the counters as the pods are now; a pod under deletion counts as terminating only."""
    phases: Counter[str] = Counter()
    tasks: dict[str, Counter[str]] = {}
    for pod in pods:
        phases["terminating" if pod.deleting else pod.phase] += 1
        if not pod.deleting:
            tasks.setdefault(pod.task, Counter())[pod.phase] += 1
    return msgspec.structs.replace(
        before,
        pending=phases["Pending"],
        running=phases["Running"],
        succeeded=phases["Succeeded"],
        failed=phases["Failed"],
        unknown=phases["Unknown"],
        terminating=phases["terminating"],
        task_status_count={name: TaskCount(dict(sorted(tasks[name].items()))) for name in sorted(tasks)},
    )


def event_of(job: JobView, status: JobStatus, *, phase: JobPhase, fault: tuple[str, str] | None) -> JobEvent:
    """What the counters say, for a Job in this phase."""
    if phase not in (JobPhase.PENDING, JobPhase.RUNNING):
        return JobEvent.WAITED
    if fault is not None:
        return JobEvent.IMPOSSIBLE
    gang = job.gang
    if gang is None or gang.replicas == 0:
        return JobEvent.WAITED
    ended = status.succeeded + status.failed
    if phase is JobPhase.PENDING:
        return JobEvent.STARTED if status.running + ended >= max(gang.minimum, 1) else JobEvent.WAITED
    if job.min_success is not None and status.succeeded >= job.min_success:
        return JobEvent.SUCCEEDED
    if ended >= gang.replicas:
        return _verdict(job, gang, status)
    return JobEvent.BELOW_MINIMUM if status.pending > gang.replicas - gang.minimum else JobEvent.WAITED


def _verdict(job: JobView, gang: Gang, status: JobStatus) -> JobEvent:
    """Every pod has ended: did enough of them succeed?"""
    if gang.minimum >= sum(task.minimum for task in gang.tasks):
        for task, minimum in job.minima:
            counted = status.task_status_count.get(task, TaskCount()).phase.get("Succeeded", 0)
            if counted < minimum:
                return JobEvent.FAILED
    if job.min_success is not None:
        return JobEvent.FAILED
    return JobEvent.SUCCEEDED if status.succeeded >= gang.minimum else JobEvent.FAILED


def _status(
    snapshot: Snapshot, *, fault: tuple[str, str] | None, now: datetime.datetime, stamp: str
) -> tuple[JobStatus, Urgency]:
    """The status as it should be, and how soon it must be written. Phases passed on the way are all recorded."""
    job = snapshot.job
    if job.phase in ENDS:
        left = count([pod for pod in snapshot.pods if not pod.ended], before=job.status)
        # The result stays as it was recorded, whatever becomes of ended pods; only leftovers are still counted down.
        return msgspec.structs.replace(
            job.status, pending=left.pending, running=left.running, terminating=left.terminating
        ), Urgency.COUNTERS
    status = msgspec.structs.replace(
        count(snapshot.pods, before=job.status), min_available=job.gang.minimum if job.gang else job.status.min_available
    )
    if not job.phase:
        status = _enter(status, JobPhase.PENDING, stamp=stamp)
    story = f"Job {job.namespace}/{job.name}"
    while True:
        phase = JobPhase(status.state.phase)
        after = JOB.step(phase, event_of(job, status, phase=phase, fault=fault), story=story)
        if after is phase:
            break
        status = _enter(status, after, stamp=stamp)
        fault = None if after in ENDS else fault
    status = _explain(snapshot, status, now=now)
    return status, _urgency(job, status)


def _enter(status: JobStatus, phase: JobPhase, *, stamp: str) -> JobStatus:
    visited = [each for each in status.conditions if each.status != phase.value]
    return msgspec.structs.replace(
        status,
        state=JobState(phase=phase.value, last_transition_time=stamp),
        conditions=[*visited, JobCondition(phase.value, stamp)],
    )


def _explain(snapshot: Snapshot, status: JobStatus, *, now: datetime.datetime) -> JobStatus:
    """Reason and message of the present phase, and the duration of a finished Job."""
    job, phase = snapshot.job, JobPhase(status.state.phase)
    reason, message = "", ""
    fault = impossible(job) if phase is JobPhase.FAILED else None
    if fault is not None:
        reason, message = fault
    elif phase is JobPhase.FAILED:
        least = job.min_success if job.min_success is not None else (job.gang.minimum if job.gang else 0)
        reason, message = (
            "TooFewSucceeded",
            f"{status.succeeded} pods succeeded, {status.failed} failed; {least} had to succeed",
        )
    elif phase is JobPhase.PENDING:
        reason, message = _why_pending(snapshot)
    ignored = [name for name in job.demands if name.endswith("policies")]
    if ignored and phase not in ENDS:
        message = "; ".join(filter(None, [message, f"not acted on by this agent yet: {', '.join(ignored)}"]))
    before = job.status.state
    if phase is JobPhase.PENDING and reason in TROUBLES and before.phase == phase and same(reason, before.reason):
        reason, message = before.reason, before.message  # kubelets alternate between words for the same: once is enough
    state = msgspec.structs.replace(status.state, reason=reason, message=message)
    duration = status.running_duration
    if phase in ENDS and not duration and job.created:
        duration = f"{max(int((now - datetime.datetime.fromisoformat(job.created)).total_seconds()), 0)}s"
    return msgspec.structs.replace(status, state=state, running_duration=duration)


def _why_pending(snapshot: Snapshot) -> tuple[str, str]:
    """Why a Job waits, in the words of whoever holds it up."""
    job, group = snapshot.job, snapshot.group
    if snapshot.queue is None and job.record is None:
        return "QueueMissing", f"spec.queue: queue {job.queue} does not exist"
    if not snapshot.may_start:
        return "WorkMissing", f"no pod is made: Work {job.work[0]}/{job.work[1]} is not there or is being withdrawn"
    stuck = sorted((pod.name, pod.trouble) for pod in snapshot.pods if pod.trouble is not None and not pod.deleting)
    if stuck:
        name, (reason, text) = stuck[0]
        return reason, f"{len(stuck)} of {len(snapshot.pods)} pods cannot start; {name}: {text or reason}"
    for each in group.status.conditions if group is not None else ():
        if each.type == "Unschedulable" and each.status == "True":
            return each.reason, each.message
    return "", ""


def _urgency(job: JobView, status: JobStatus) -> Urgency:
    phase = status.state.phase
    if phase in ENDS:
        return Urgency.END
    if phase == JobPhase.PENDING and job.phase in ("", JobPhase.PENDING):
        return Urgency.PENDING if not job.phase or status.state != job.status.state else Urgency.COUNTERS
    if phase != job.phase:
        there = status.running + status.succeeded + status.failed
        return Urgency.WHOLE if job.gang is not None and there >= job.gang.replicas else Urgency.PHASE
    return Urgency.COUNTERS
