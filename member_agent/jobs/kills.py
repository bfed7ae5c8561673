"""What an order does to the status of a Job: phase, version, retries, floors, and what is remembered. Pure.

The status is written before any pod is touched, so that whoever comes later knows which pods have to go and does not count the
order again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from member_agent.jobs import ranges
from member_agent.jobs.floors import WHOLE, covers, partition_scope, pod_scope
from member_agent.jobs.happenings import ACTED, Event, Happening
from member_agent.jobs.lifecycle import JOB, JobEvent, JobPhase
from member_agent.views import JobCondition, JobMemory, JobState, JobStatus, JobView, Rules

ORDERS_KEPT = 8
"""Commands that were carried out and are remembered until they are deleted; more are not under way at once."""

ACTIONS: Final[Mapping[str, JobEvent]] = {
    "RestartJob": JobEvent.RESTART,
    "RestartTask": JobEvent.RESTART_TARGET,
    "RestartPod": JobEvent.RESTART_TARGET,
    "RestartPartition": JobEvent.RESTART_TARGET,
    "AbortJob": JobEvent.ABORT,
    "TerminateJob": JobEvent.TERMINATE,
    "CompleteJob": JobEvent.COMPLETE,
    "ResumeJob": JobEvent.RESUME,
}
"""What a policy or a Command may ask for."""


@dataclass(frozen=True, slots=True)
class Order:
    """Something that a policy, a Command or a setting asks for. `scope` as in `floors`, for RESTART_TARGET."""

    event: JobEvent
    reason: str
    message: str
    scope: str = WHOLE
    eviction: bool = False
    command: str = ""
    """UID of the Command or id of the hub's order."""
    happening: Happening | None = None


def scope_of(action: str, *, task: str, index: int, rules: Rules) -> str:
    """What a target restart means: the narrowest that the happening has, when it has not what the action names."""
    if action == "RestartPod" and index >= 0:
        return pod_scope(task, index)
    if action == "RestartPartition" and index >= 0:
        return partition_scope(task, index, rules=rules) or task
    return task


def entered(status: JobStatus, phase: JobPhase, *, stamp: str, reason: str = "", message: str = "") -> JobStatus:
    """`status` in a phase; a phase that is entered again moves to the end of the conditions."""
    visited = [each for each in status.conditions if each.status != phase.value]
    return msgspec.structs.replace(
        status,
        state=JobState(phase=phase.value, reason=reason, message=message, last_transition_time=stamp),
        conditions=[*visited, JobCondition(phase.value, stamp)],
    )


def killed(job: JobView, status: JobStatus, order: Order, *, stamp: str) -> JobStatus:
    """The status that carries out the order; raises UnknownEdge where the phase does not know it."""
    event = order.event
    if event is JobEvent.RESTART_TARGET and order.scope == WHOLE:
        event = JobEvent.RESTART
    phase = JOB.step(JobPhase(status.state.phase), event, story=f"Job {job.namespace}/{job.name}: {order.message}")
    version = status.version + 1
    memory = _remembered(job, status.memory, order, event=event, version=version)
    retried = event in (JobEvent.RESTART, JobEvent.RESTART_TARGET)
    if retried and order.eviction:
        memory = msgspec.structs.replace(memory, evictions=memory.evictions + 1)
    after = entered(status, phase, stamp=stamp, reason=order.reason, message=order.message)
    if _by_change(order):
        # The objects of plugins are looked at again with the first pods: they may follow what was changed.
        there = {name: value for name, value in after.controlled_resources.items() if not name.startswith("plugin-")}
        after = msgspec.structs.replace(after, controlled_resources=there)
    return msgspec.structs.replace(
        after,
        version=version,
        retry_count=status.retry_count + (retried and not order.eviction),
        memory=memory,
    )


def _by_change(order: Order) -> bool:
    return order.happening is not None and order.happening.event is Event.JOB_UPDATED


def _remembered(job: JobView, memory: JobMemory, order: Order, *, event: JobEvent, version: int) -> JobMemory:
    orders = _orders(job, memory.orders, new=order.command) if order.command else memory.orders
    memory = msgspec.structs.replace(memory, orders=orders, suspended=event is JobEvent.SUSPEND)
    happening = order.happening
    if _by_change(order):
        memory = msgspec.structs.replace(memory, generation=job.generation)  # else the change would act again after the restart
    acted = {happening.note: ACTED} if happening is not None and happening.index < 0 else {}
    if event in (JobEvent.RESTART, JobEvent.RESUME):
        started = "" if event is JobEvent.RESUME else memory.started_at  # a new run: its longest time is not spent on resting
        return msgspec.structs.replace(memory, floors={WHOLE: version}, pods={}, done={}, since={}, started_at=started)
    if event is JobEvent.RESTART_TARGET:
        return msgspec.structs.replace(
            memory,
            floors={**memory.floors, order.scope: version},
            pods=_without(memory.pods, order.scope, rules=job.rules),
            done=_without(memory.done, order.scope, rules=job.rules),
            since={**_kept(memory.since, order.scope, job=job), **acted},
        )
    return msgspec.structs.replace(memory, since={})


def _orders(job: JobView, orders: tuple[str, ...], *, new: str) -> tuple[str, ...]:
    """With the new one. The hub's order stands in an annotation: it is remembered however many Commands come after it."""
    standing = hub_order(job)
    kept = [each for each in orders if each != new][-ORDERS_KEPT + 1 :]
    if standing is not None and standing.id in orders and standing.id not in (*kept, new):
        kept.insert(0, standing.id)
    return (*kept, new)


class HubOrder(msgspec.Struct, frozen=True):
    """The annotation `command` (protocol.md 2)."""

    id: str
    action: str
    target: str = ""


def hub_order(job: JobView) -> HubOrder | None:
    """The order that came with the Work; one that cannot be read is none."""
    try:
        return msgspec.json.decode(job.order.encode(), type=HubOrder) if job.order else None
    except msgspec.MsgspecError:
        return None


def _without(indices: Mapping[str, str], scope: str, *, rules: Rules) -> dict[str, str]:
    """The indices outside of a scope."""
    kept = {}
    for task, text in indices.items():
        left = ranges.text(index for index in ranges.read(text) if not covers(scope, task, index, rules=rules))
        if left:
            kept[task] = left
    return kept


def _kept(since: Mapping[str, str], scope: str, *, job: JobView) -> dict[str, str]:
    """Delays of what lies outside of a scope go on; an action ends those of the same or a narrower one."""
    kept = {}
    for note, begun in since.items():
        _, _, of = note.partition("/")
        task, index = place_of(of, job=job)
        inside = covers(scope, task, index, rules=job.rules) if task else False
        if not inside:
            kept[note] = begun
    return kept


def place_of(name: str, *, job: JobView) -> tuple[str, int]:
    """Task and index of a pod by its name, or a task by its own with -1; an empty task for anything else."""
    for task in job.gang.tasks if job.gang is not None else ():
        if name == task.name:
            return task.name, -1
        start = f"{job.name}-{task.name}-"
        if name.startswith(start) and name.removeprefix(start).isdigit():
            return task.name, int(name.removeprefix(start))
    return "", -1
