"""From a flow's snapshot to what is to be done: Jobs to make, Jobs to remove, the status to write.

A step is *done* when its Completed end is recorded in `status.jobStatusList` or shown by its Job; a recorded end is final,
whatever happens to the Job object. Ends are written to the status before the Jobs that wait for them are made, so that a
crash between the two repeats nothing.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from apis import naming
from controllers.flows.graph import FlowGraph
from controllers.flows.lifecycle import FLOW, FlowEvent, FlowPhase
from controllers.flows.snapshot import FlowJob, FlowSnapshot, FlowState, FlowStatus, RunningHistory, StepStatus

COMPLETED = "Completed"
BAD_ENDS = frozenset({"Failed", "Terminated"})
ENDS = BAD_ENDS | {COMPLETED}
RUNS = frozenset({"Running", "Completing"})
WAITS = frozenset({"", "Pending"})


class FlowReason(enum.StrEnum):
    """`status.state.reason`."""

    INVALID = "Invalid"
    UNSUPPORTED = "FieldNotSupported"
    STEP_FAILED = "StepFailed"
    TEMPLATE_MISSING = "WaitingForTemplate"
    NAME_TAKEN = "NameTaken"


@dataclass(frozen=True, slots=True)
class StepJob:
    """A Job to make: for which step, from which template, under which name."""

    step: str
    template: str
    job: str


@dataclass(frozen=True, slots=True)
class FlowPlan:
    """In the order of carrying out: the status (None: unchanged), then Jobs to let go (names of Jobs under deletion whose end,
    if they had one, is in that status), Jobs to create, and Jobs to delete by (name, UID)."""

    status: FlowStatus | None
    release: tuple[str, ...] = ()
    create: tuple[StepJob, ...] = ()
    delete: tuple[tuple[str, str], ...] = ()


def plan(snapshot: FlowSnapshot, *, now: str) -> FlowPlan:
    """Decide about one flow; `now` (RFC 3339) stamps the end of steps whose Job was refused. Same snapshot, same plan."""
    leaving = tuple(name for name, job in sorted(snapshot.jobs.items()) if job.deleting)
    return replace(_plan(snapshot, now=now), release=leaving)


def _plan(snapshot: FlowSnapshot, *, now: str) -> FlowPlan:
    flow = snapshot.flow
    phase = FlowPhase(flow.status.state.phase or FlowPhase.PENDING)
    if flow.deleting:
        return _with_state(flow.status, phase, FlowEvent.DELETED, snapshot, reason="", message="")
    if phase in (FlowPhase.SUCCEED, FlowPhase.FAILED):
        return _after_end(snapshot, phase)
    graph = FlowGraph({step.name: step.targets for step in flow.steps})
    refusal = _refusal(snapshot, graph)
    if refusal is not None:
        return _with_state(flow.status, phase, FlowEvent.REFUSED, snapshot, reason=refusal[0], message=refusal[1])
    steps = _record_steps(snapshot, now=now)
    return _go_on(snapshot, graph, phase=phase, steps=steps)


def _refusal(snapshot: FlowSnapshot, graph: FlowGraph) -> tuple[str, str] | None:
    problems = graph.problems()
    if problems:
        return FlowReason.INVALID, "; ".join(f"{problem.field}: {problem.message}" for problem in problems)
    for index, step in enumerate(snapshot.flow.steps):
        if step.patch is not None:
            return FlowReason.UNSUPPORTED, f"spec.flows[{index}].patch: this version does not apply patches to templates"
        if step.depends_on is not None and step.depends_on.probe is not None:
            return FlowReason.UNSUPPORTED, f"spec.flows[{index}].dependsOn.probe: this version does not evaluate probes"
    return None


def _record_steps(snapshot: FlowSnapshot, *, now: str) -> dict[str, StepStatus]:
    """What is known of every step that has or had a Job, by step name, in the order of the spec."""
    recorded = {status.name: status for status in snapshot.flow.status.job_status_list}
    found: dict[str, StepStatus] = {}
    for step in snapshot.flow.steps:
        name = naming.flow_job_name(snapshot.flow.name, step=step.name)
        old = recorded.get(name)
        job = snapshot.jobs.get(name) or snapshot.ended.get(name)
        if old is not None and old.end_timestamp is not None:
            found[step.name] = old
        elif job is not None:
            found[step.name] = _observe(old or StepStatus(name=name), job)
        elif step.name in snapshot.refused:
            message = f"the API server refused its Job: {snapshot.refused[step.name]}"
            found[step.name] = StepStatus(name=name, state="Failed", start_timestamp=now, end_timestamp=now, message=message)
        # A recorded step without end whose Job vanished unseen is made again: nothing says that it ended.
    return found


def _observe(old: StepStatus, job: FlowJob) -> StepStatus:
    end = (job.last_transition or job.created) if job.phase in ENDS else None
    histories = list(old.running_histories)
    if job.phase and (not histories or histories[-1].state != job.phase):
        since = job.last_transition or job.created
        if histories and histories[-1].end_timestamp is None:
            last = histories[-1]
            histories[-1] = RunningHistory(state=last.state, start_timestamp=last.start_timestamp, end_timestamp=since)
        histories.append(RunningHistory(state=job.phase, start_timestamp=since, end_timestamp=end))
    return StepStatus(
        name=old.name,
        state=job.phase,
        start_timestamp=job.created,
        end_timestamp=end,
        restart_count=job.retry_count,
        running_histories=histories,
    )


def _go_on(snapshot: FlowSnapshot, graph: FlowGraph, *, phase: FlowPhase, steps: dict[str, StepStatus]) -> FlowPlan:
    flow = snapshot.flow
    done = {name for name, status in steps.items() if status.state == COMPLETED and status.end_timestamp}
    broken = {name for name, status in steps.items() if status.state in BAD_ENDS and status.end_timestamp}
    ready = graph.startable(done=done, started=set(steps))
    create, waiting, taken = [], [], []
    for name in ready:
        job = naming.flow_job_name(flow.name, step=name)
        if job in snapshot.foreign:
            taken.append(job)
        elif name in snapshot.templates:
            create.append(StepJob(step=name, template=name, job=job))
        else:
            waiting.append(name)
    alive = set(steps) - done - broken
    event = _event(
        total=len(flow.steps), done=len(done), broken=bool(broken), stirred=_stirred(steps), can_go_on=bool(alive or ready)
    )
    reason, message = _explain(steps, broken=broken, waiting=waiting, taken=taken, lost=graph.beyond(broken))
    status = _fold(snapshot, steps)
    changed = _with_state(status, phase, event, snapshot, reason=reason, message=message)
    retained = () if FLOW.step(phase, event, story="") is not FlowPhase.SUCCEED else _leftovers(snapshot)
    return FlowPlan(status=changed.status, create=tuple(create), delete=retained)


def _stirred(steps: dict[str, StepStatus]) -> bool:
    return any(status.state in RUNS or status.state in ENDS for status in steps.values())


def _event(*, total: int, done: int, broken: bool, stirred: bool, can_go_on: bool) -> FlowEvent:
    if done == total:
        return FlowEvent.COMPLETED
    if broken and not can_go_on:
        return FlowEvent.BROKEN
    return FlowEvent.PROGRESSED if stirred else FlowEvent.WAITED


def _explain(
    steps: dict[str, StepStatus], *, broken: set[str], waiting: list[str], taken: list[str], lost: frozenset[str]
) -> tuple[str, str]:
    if broken:
        named = ", ".join(_name_end(name, steps[name]) for name in sorted(broken))
        behind = f"; not started because of it: {', '.join(sorted(lost))}" if lost else ""
        return FlowReason.STEP_FAILED, f"step {named}{behind}"
    if taken:
        return FlowReason.NAME_TAKEN, f"a Job named {taken[0]} exists and does not belong to this flow"
    if waiting:
        return FlowReason.TEMPLATE_MISSING, f"waiting for JobTemplate {', '.join(waiting)}"
    return "", ""


def _name_end(step: str, status: StepStatus) -> str:
    return f"{step} is {status.state} ({status.message or f'Job {status.name}'})"


def _fold(snapshot: FlowSnapshot, steps: dict[str, StepStatus]) -> FlowStatus:
    groups: dict[str, list[str]] = {"pending": [], "running": [], "failed": [], "completed": [], "terminated": [], "other": []}
    for status in steps.values():
        groups[_group(status.state)].append(status.name)
    conditions = dict(snapshot.flow.status.conditions)
    for name, job in sorted({**snapshot.ended, **snapshot.jobs}.items()):
        conditions[name] = _condition(job)
    return FlowStatus(
        pending_jobs=groups["pending"],
        running_jobs=groups["running"],
        failed_jobs=groups["failed"],
        completed_jobs=groups["completed"],
        terminated_jobs=groups["terminated"],
        unknow_jobs=groups["other"],
        job_status_list=list(steps.values()),
        conditions=conditions,
    )


def _group(state: str) -> str:
    if state in WAITS:
        return "pending"
    if state in RUNS:
        return "running"
    return {"Failed": "failed", COMPLETED: "completed", "Terminated": "terminated"}.get(state, "other")


def _condition(job: FlowJob) -> dict[str, object]:
    condition: dict[str, object] = {"createTime": job.created}
    if job.phase:
        condition["phase"] = job.phase
    if job.running_duration:
        condition["runningDuration"] = job.running_duration
    if job.task_status_count:
        condition["taskStatusCount"] = {
            task: {"phase": dict(count["phase"])} if "phase" in count else dict(count)
            for task, count in job.task_status_count.items()
        }
    return condition


def _with_state(
    status: FlowStatus, phase: FlowPhase, event: FlowEvent, snapshot: FlowSnapshot, *, reason: str, message: str
) -> FlowPlan:
    story = f"JobFlow {snapshot.flow.namespace}/{snapshot.flow.name} at {snapshot.flow.version}"
    target = FLOW.step(phase, event, story=story)
    new = FlowStatus(
        state=FlowState(phase=target.value, reason=reason, message=message),
        pending_jobs=status.pending_jobs,
        running_jobs=status.running_jobs,
        failed_jobs=status.failed_jobs,
        completed_jobs=status.completed_jobs,
        terminated_jobs=status.terminated_jobs,
        unknow_jobs=status.unknow_jobs,
        job_status_list=status.job_status_list,
        conditions=status.conditions,
    )
    return FlowPlan(status=None if new == snapshot.flow.status else new)


def _after_end(snapshot: FlowSnapshot, phase: FlowPhase) -> FlowPlan:
    return FlowPlan(status=None, delete=_leftovers(snapshot) if phase is FlowPhase.SUCCEED else ())


def _leftovers(snapshot: FlowSnapshot) -> tuple[tuple[str, str], ...]:
    if snapshot.flow.retain:
        return ()
    return tuple((name, job.uid) for name, job in sorted(snapshot.jobs.items()) if not job.deleting)
