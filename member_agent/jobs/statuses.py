"""What the status of a Job says after a look: counters, the phase that follows and why, how soon it is written. Pure."""

from __future__ import annotations

import msgspec

from member_agent.jobs import asking
from member_agent.jobs.counting import count, verdict
from member_agent.jobs.effects import waiting_tasks
from member_agent.jobs.kills import entered
from member_agent.jobs.leavings import left
from member_agent.jobs.lifecycle import ALIVE, ENDS, JOB, LEAVING, JobEvent, JobPhase
from member_agent.jobs.memory import timed
from member_agent.jobs.plans import Urgency
from member_agent.jobs.reasons import Facts, none_started, why_failed, why_pending, without_pods
from member_agent.jobs.roster import Roster
from member_agent.jobs.snapshot import Scene
from member_agent.views import JobStatus, JobView
from policies.troubles import TROUBLES, same


def counted(scene: Scene, status: JobStatus) -> JobStatus:
    """In phases that keep ended pods those count, and every other pod is leaving; elsewhere pods of the present version do."""
    phase = scene.phase
    if phase in ALIVE or (phase is JobPhase.RESTARTING and not scene.spent):
        status = left(scene.job, status, roster=scene.roster)
        return count(scene.job, roster=scene.roster, floors=scene.floors, going=len(scene.old) + scene.surplus, before=status)
    ended = Roster(pod for pod in scene.snapshot.roster.named() if pod.ended and not pod.deleting)
    going = len(scene.snapshot.roster.pods) - len(ended.pods)
    return count(scene.job, roster=ended, floors=scene.floors, going=going, before=status)


# --- the phase -------------------------------------------------------------------------------------------------------


def stepped(scene: Scene, status: JobStatus, *, fault: tuple[str, str] | None, stamp: str) -> JobStatus:
    """The phase that follows. People watch local Jobs, so each of their phases is written; at the hub the last one counts."""
    job = scene.job
    story = f"Job {job.namespace}/{job.name}"
    passed: set[JobPhase] = set()
    while True:
        phase = JobPhase(status.state.phase)
        event = _event(scene, status, phase=phase, fault=fault)
        after = JOB.step(phase, event, story=story)
        if after is phase:
            return status
        reason, message = _why(scene, status, event=event, fault=fault)
        status = entered(status, after, stamp=stamp, reason=reason, message=message)
        if after in ENDS:
            return timed(status, created=job.created, stamp=stamp)
        if after is JobPhase.RUNNING and not status.memory.started_at:
            status = msgspec.structs.replace(status, memory=msgspec.structs.replace(status.memory, started_at=stamp))
        passed.add(phase)
        if not job.managed or after not in ALIVE or phase not in ALIVE or after in passed:
            return status  # counters that say both, as forged pods make them, are no reason to go on for ever


def _event(scene: Scene, status: JobStatus, *, phase: JobPhase, fault: tuple[str, str] | None) -> JobEvent:
    if phase in ALIVE:
        if fault is not None and phase is JobPhase.PENDING:
            return JobEvent.IMPOSSIBLE
        event = verdict(scene.job, status, phase=phase)
        return JobEvent.WAITED if event is JobEvent.STARTED and not _has_begun(scene) else event
    if phase is JobPhase.RESTARTING:
        if scene.spent:
            return JobEvent.SPENT
        gang = scene.job.gang
        cleared = gang is None or gang.replicas - len(scene.old) >= min(gang.minimum, gang.replicas)
        return JobEvent.CLEARED if cleared else JobEvent.WAITED
    if phase in LEAVING and not scene.snapshot.roster.unfinished and not scene.snapshot.made:
        return JobEvent.CLEARED
    return JobEvent.WAITED


def _has_begun(scene: Scene) -> bool:
    """A Job whose minimum is 0 needs no pod to be Running, as upstream; but it has to be under way."""
    gang = scene.job.gang
    return (gang is not None and gang.minimum > 0) or (scene.snapshot.group is not None and not scene.outdated)


def _why(scene: Scene, status: JobStatus, *, event: JobEvent, fault: tuple[str, str] | None) -> tuple[str, str]:
    """Reason and message of the phase that `event` leads to."""
    state = status.state
    match event:
        case JobEvent.IMPOSSIBLE if fault is not None:
            return fault
        case JobEvent.FAILED:
            return why_failed(scene.job, status)
        case JobEvent.SPENT:
            runs = scene.job.rules.max_retry
            return "MaxRetryExceeded", f"{status.retry_count} of {runs} runs failed; the last: {state.message or state.reason}"
        case JobEvent.CLEARED if scene.phase in LEAVING:
            return state.reason, state.message
        case _:
            return "", ""


# --- reason and message ----------------------------------------------------------------------------------------------


def explained(scene: Scene, status: JobStatus) -> JobStatus:
    """Reason and message of a Job that waits or lacks something; orders keep the reason they came with."""
    phase = JobPhase(status.state.phase)
    if phase not in ALIVE:
        return status
    reason, message = _waits_for(scene, status, phase=phase)
    before = scene.snapshot.job.status.state
    if phase is JobPhase.PENDING and reason in TROUBLES and before.phase == phase and same(reason, before.reason):
        reason, message = before.reason, before.message  # kubelets alternate between words for the same: once is enough
    return msgspec.structs.replace(status, state=msgspec.structs.replace(status.state, reason=reason, message=message))


def _waits_for(scene: Scene, status: JobStatus, *, phase: JobPhase) -> tuple[str, str]:
    snapshot, job = scene.snapshot, scene.job
    if phase is JobPhase.RUNNING and job.unreadable:
        return "Invalid", job.unreadable
    if phase is JobPhase.RUNNING and not _lacking(scene, status):
        return without_pods(job)
    if scene.held:
        return asking.SUSPENDED, asking.SUSPENDED_TEXT
    facts = Facts(
        group=snapshot.group,
        queue=snapshot.queue,
        may_start=snapshot.may_start,
        missing_claims=snapshot.missing_claims,
        obstacle=snapshot.obstacle,
        held=tuple(waiting_tasks(scene)),
    )
    told = why_pending(job, roster=scene.roster, facts=facts)
    if phase is JobPhase.RUNNING and not any(told) and status.pending and not status.running:
        return none_started(status)  # the scheduler is content with such a gang: its minimum needs none of them
    return told


def _lacking(scene: Scene, status: JobStatus) -> bool:
    """Whether a Job that runs waits for some of its pods all the same."""
    return bool(status.pending) or any(each.missing for each in scene.places)


# --- how soon --------------------------------------------------------------------------------------------------------


def urgency(before: JobView, status: JobStatus) -> Urgency:
    """How soon `status` is to be written over that of `before`."""
    phase = status.state.phase
    if phase in ENDS:
        return Urgency.END
    if not before.phase and not before.managed:
        return Urgency.END
    if before.phase and status.memory.generation != before.status.memory.generation:
        return Urgency.END  # what follows from the change was done in this look, and is not to be done again
    if phase == JobPhase.PENDING and before.phase in ("", JobPhase.PENDING):
        return Urgency.PENDING if not before.phase or status.state != before.status.state else Urgency.COUNTERS
    if phase != before.phase:
        if phase != JobPhase.RUNNING:
            return Urgency.END
        there = status.running + status.succeeded + status.failed
        return Urgency.WHOLE if before.gang is not None and there >= before.gang.replicas else Urgency.PHASE
    return Urgency.COUNTERS
