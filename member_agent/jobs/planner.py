"""What a Job needs next: its PodGroup, objects of its plugins, pods to make or remove, and its status. Pure.

Phases and actions: reference/volcano.md 1.6; order of work: 1.7. An order (a policy, a Command, suspend, a limit) is first
written into the status and carried out by the next look; everything else is worked out anew from what is there.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import replace

import msgspec

from machinery.events import Severity
from member_agent.checks import impossible
from member_agent.jobs import asking, ranges
from member_agent.jobs.asking import Dismissed, Told
from member_agent.jobs.effects import effects, stopped
from member_agent.jobs.happenings import Happening, moment
from member_agent.jobs.kills import Order, entered, killed
from member_agent.jobs.lifecycle import ALIVE, ENDS, JobPhase
from member_agent.jobs.memory import pruned, remembering, timed, undone
from member_agent.jobs.plans import Plan, Urgency
from member_agent.jobs.snapshot import Scene, Snapshot, scene_of, since_the_kill
from member_agent.jobs.statuses import counted, explained, stepped, urgency
from member_agent.views import JobView, Policy

__all__ = ["Plan", "Snapshot", "Urgency", "plan"]

SWEEP_AFTER = 75.0
"""Seconds after the end of a Job: API servers give a request up after 60, and our clocks are not theirs."""
SWEEP_UNTIL = 600.0
"""Seconds after the end of a Job in which an agent that has just started looks once more."""
PHASES = frozenset(phase.value for phase in JobPhase)


def plan(snapshot: Snapshot, *, now: datetime.datetime, stamp: str) -> Plan:
    """What to do about one Job now."""
    if snapshot.job.deleting:
        return Plan()
    job = _begun(snapshot.job, stamp=stamp)
    scene = scene_of(snapshot, job, now=now, stamp=stamp)
    if scene.phase in ENDS:
        return _after_the_end(scene, now=now)
    found = asking.look(
        job, commands=snapshot.commands, phase=scene.phase, held=scene.held, firing=scene.judged.firing, now=now
    )
    obstacle = snapshot.obstacle
    given_up = asking.give_up(obstacle) if obstacle is not None and scene.phase in ALIVE else None
    order = found.order or given_up
    if order is not None:
        return _ordered(scene, order, dismissed=found.dismissed, stamp=stamp)
    decided = _synced(scene, stamp=stamp)
    wakes = [each for each in (found.wake, scene.judged.wake) if each is not None]
    return replace(
        decided,
        dismissed=tuple(each for each, _ in found.dismissed),
        refused=tuple(told for _, told in found.dismissed if told is not None),
        wake=min(wakes, default=None),
    )


def _begun(job: JobView, *, stamp: str) -> JobView:
    """The Job with its first status, where it has none or one that nobody knows."""
    if job.phase in PHASES:
        return job
    spent = job.record.retries if job.record is not None else 0
    memory = msgspec.structs.replace(job.status.memory, generation=job.generation)
    status = msgspec.structs.replace(job.status, retry_count=max(job.status.retry_count, spent), memory=memory)
    return replace(job, status=entered(status, JobPhase.PENDING, stamp=stamp))


def _ordered(scene: Scene, order: Order, *, dismissed: Sequence[Dismissed], stamp: str) -> Plan:
    """The order goes into the status and nowhere else yet."""
    job, snapshot = scene.job, scene.snapshot
    after = timed(killed(job, job.status, order, stamp=stamp), created=job.created, stamp=stamp)
    later = since_the_kill(snapshot, replace(job, status=after))
    return Plan(
        decisive=True,
        status=pruned(counted(later, after), roster=snapshot.roster),
        urgency=Urgency.END,
        told=(*asking.told(order), *(told for _, told in dismissed if told is not None)),
        dismissed=tuple(each for each, _ in dismissed),
    )


# --- one look --------------------------------------------------------------------------------------------------------


def _synced(scene: Scene, *, stamp: str) -> Plan:
    job, snapshot = scene.job, scene.snapshot
    fault = snapshot.fault or impossible(job) if scene.phase is JobPhase.PENDING else None
    made = effects(scene, fault=fault)
    status = remembering(scene, counted(scene, job.status), effects=made)
    status = stepped(scene, status, fault=fault, stamp=stamp)
    after = JobPhase(status.state.phase)
    if after not in ENDS:
        status = explained(scene, status)
    armed = [each for each in scene.judged.armed if not each[0].since]
    told, delayed = _announced(armed), _announced(each for each in scene.judged.armed if each[0].since)
    written = None if status == snapshot.job.status else status
    settled = tuple(snapshot.roster.lost.values()) if scene.phase in ALIVE and scene.readable else ()
    if after in ENDS:
        return Plan(decisive=True, status=written, urgency=Urgency.END, told=told)
    if (armed and made.create) or _forgotten_first(scene):
        return Plan(decisive=True, status=undone(status, before=job), urgency=Urgency.END, told=told, settled=settled)
    soon = Urgency.END if armed else urgency(snapshot.job, status)
    return replace(made, status=written, urgency=soon, told=told, delayed=delayed, settled=settled)


def _announced(armed: Iterable[tuple[Happening, Policy]]) -> tuple[Told, ...]:
    return tuple(
        Told("ExecuteAction", f"Start to execute action {policy.action} after {policy.timeout:g}s: {happening.why}")
        for happening, policy in armed
    )


def _forgotten_first(scene: Scene) -> bool:
    """Pods that are scaled away are forgotten before they go, or they would be missed as evicted once there are more again."""
    made = scene.job.status.memory.pods
    return any(pod.index in ranges.read(made.get(each.task, "")) for each in scene.places for pod in each.surplus)


def _after_the_end(scene: Scene, *, now: datetime.datetime) -> Plan:
    """The result stays as it was recorded, whatever becomes of ended pods; only leftovers are still counted down."""
    job = scene.snapshot.job
    removals, sweep = stopped(scene), _sweep_in(scene, now=now)
    left = [pod for pod in scene.snapshot.roster.pods.values() if not pod.ended or pod.deleting]
    status = msgspec.structs.replace(job.status, pending=0, running=0, terminating=len(left))
    status = remembering(scene, status, effects=removals)
    told = tuple(
        Told("CommandTooLate", f"{each.action} of Command {each.name}: the Job is {job.phase}", Severity.WARNING)
        for each in scene.snapshot.commands
        if each.uid not in job.status.memory.orders
    )
    return replace(
        removals,
        status=None if status == job.status else status,
        urgency=Urgency.COUNTERS,
        dismissed=scene.snapshot.commands,
        refused=told,
        remove_objects=removals.remove_objects or sweep == 0,
        sweeps=sweep == 0,
        wake=sweep,
    )


def _sweep_in(scene: Scene, *, now: datetime.datetime) -> float | None:
    """Seconds until the objects of plugins are looked for once more: the creation of one may have taken effect after the end,
    whatever its sender was told. None where that was done, there are no plugins, or the end is long past."""
    ended = moment(scene.job.transition)
    if scene.snapshot.swept or not scene.job.rules.plugins or ended is None:
        return None
    age = (now - ended).total_seconds()
    return max(SWEEP_AFTER - age, 0.0) if age < SWEEP_UNTIL else None
