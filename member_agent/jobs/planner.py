"""What a Job needs next: its PodGroup, objects of its plugins, pods to make or remove, and its status. Pure.

Phases and actions: reference/volcano.md 1.6; order of work: 1.7. An order (a policy, a Command, suspend, a limit) is first
written into the status and carried out by the next look; everything else is worked out anew from what is there.
"""

from __future__ import annotations

import datetime
import enum
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from machinery.events import Severity
from member_agent.checks import impossible
from member_agent.jobs import asking, groups, ranges
from member_agent.jobs.asking import Told
from member_agent.jobs.claims import made_name
from member_agent.jobs.counting import count, verdict
from member_agent.jobs.floors import Floors
from member_agent.jobs.happenings import Event, Happening, Judgement, ended_early, happenings, judge
from member_agent.jobs.kills import Order, entered, killed, place_of
from member_agent.jobs.lifecycle import ALIVE, ENDS, JOB, LEAVING, JobEvent, JobPhase
from member_agent.jobs.orders import PodOrder
from member_agent.jobs.places import Places, order, places, wanted
from member_agent.jobs.reasons import Facts, Obstacle, why_failed, why_pending, without_pods
from member_agent.jobs.roster import Roster
from member_agent.views import GroupView, JobMemory, JobStatus, JobView, PodView, Policy, QueueView
from policies.members import CommandView
from policies.troubles import TROUBLES, same

__all__ = ["Plan", "PodOrder", "Snapshot", "Told", "Urgency", "plan", "undone", "wanted"]


PHASES = frozenset(phase.value for phase in JobPhase)


class Urgency(enum.IntEnum):
    """How soon a status is written; the controller knows the seconds."""

    END = 0
    """An end, or a step that others wait for."""
    WHOLE = 1
    """The phase changed and no pod is missing from the counters."""
    PHASE = 2
    PENDING = 3
    COUNTERS = 4


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One Job and what there is of it. `made` are names of pods created and not seen yet.

    `granted` is false for a hub-run Job whose Work is not there or is being withdrawn. `fault`: reason and message of admission
    rules that only the manifest can answer. `obstacle`: what the API server refused last.
    """

    job: JobView
    group: GroupView | None
    roster: Roster
    queue: QueueView | None
    made: frozenset[str] = frozenset()
    granted: bool = True
    commands: tuple[CommandView, ...] = ()
    fault: tuple[str, str] | None = None
    obstacle: Obstacle | None = None
    missing_claims: tuple[str, ...] = ()

    @property
    def may_start(self) -> bool:
        """No first pod without a grant: a late creation of the Job may land after its Work was confirmed gone.

        A Job that has or had pods goes on: a missing Work is an anomaly and never an order (protocol.md 2, A3).
        """
        status = self.job.status
        had = bool(status.memory.pods or status.version) or self.job.phase not in ("", JobPhase.PENDING)
        return self.granted or had or bool(self.roster.pods or self.made)


@dataclass(frozen=True, slots=True)
class Plan:
    """Effects, in this order: removals of objects, objects, group, pods, removals of pods, status, Commands.

    A `decisive` status comes before everything else and is all that is done: what it orders is done by the next look.
    """

    decisive: bool = False
    ensure: bool = False
    """Objects of plugins and claims are to be there, as the manifest has them now."""
    remove_objects: bool = False
    create_group: bool = False
    update_group: bool = False
    delete_group: bool = False
    create: tuple[PodOrder, ...] = ()
    delete: tuple[PodView, ...] = ()
    status: JobStatus | None = None
    urgency: Urgency = Urgency.COUNTERS
    told: tuple[Told, ...] = ()
    """Told once the status is written."""
    delayed: tuple[Told, ...] = ()
    """Policies whose delay runs: to be told once, and found by every look until it is over."""
    dismissed: tuple[CommandView, ...] = ()
    refused: tuple[Told, ...] = ()
    """Told when the Commands are dismissed, whatever becomes of the status."""
    settled: tuple[PodView, ...] = ()
    """Lost pods that the status, once written, remembers or has a right to forget."""
    wake: float | None = None
    """Seconds until time alone changes something."""


@dataclass(frozen=True, slots=True)
class _Scene:
    """A snapshot, sorted: what counts (`roster`) and what is from before a kill (`old`)."""

    snapshot: Snapshot
    job: JobView
    phase: JobPhase
    floors: Floors
    roster: Roster
    old: tuple[PodView, ...]
    places: tuple[Places, ...] = ()
    surplus: int = 0
    """Pods that are scaled away and not yet being deleted."""
    judged: Judgement = field(default_factory=Judgement)

    @property
    def spent(self) -> bool:
        """The last permitted run is over."""
        return self.job.status.retry_count >= self.job.rules.max_retry

    @property
    def held(self) -> bool:
        """Suspended before anything was made."""
        quiet = self.phase is JobPhase.PENDING and self.snapshot.group is None and not self.snapshot.roster.pods
        return quiet and not self.snapshot.made and asking.suspended(self.job)


def plan(snapshot: Snapshot, *, now: datetime.datetime, stamp: str) -> Plan:
    """What to do about one Job now."""
    if snapshot.job.deleting:
        return Plan()
    job = _begun(snapshot.job, stamp=stamp)
    scene = _scene(snapshot, job, now=now, stamp=stamp)
    if scene.phase in ENDS:
        return _after_the_end(scene)
    found = asking.look(
        job, commands=snapshot.commands, phase=scene.phase, held=scene.held, firing=scene.judged.firing, now=now
    )
    obstacle = snapshot.obstacle
    given_up = asking.give_up(obstacle) if obstacle is not None and scene.phase in ALIVE else None
    order = found.order or given_up
    if order is not None:
        return _carried_out(scene, order, dismissed=found.dismissed, stamp=stamp)
    decided = _synced(scene, now=now, stamp=stamp)
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


def _scene(snapshot: Snapshot, job: JobView, *, now: datetime.datetime, stamp: str) -> _Scene:
    floors, roster = Floors(job), snapshot.roster
    old: tuple[PodView, ...] = ()
    if floors.any_stale(roster):
        old = tuple(pod for pod in roster.named() if floors.stale(pod))
        lost = roster.lost
        roster = Roster(pod for pod in roster.named() if not floors.stale(pod))
        roster.lost = {slot: pod for slot, pod in lost.items() if not floors.stale(pod)}
    scene = _Scene(snapshot, job, JobPhase(job.phase), floors, roster, old)
    if scene.phase not in ALIVE or not _readable(job):
        return scene
    scene = _without_surplus(replace(scene, places=tuple(places(job, roster=roster, floors=floors))))
    return replace(scene, judged=_judged(scene, now=now, stamp=stamp))


def _readable(job: JobView) -> bool:
    """Whether it is known what the Job is to have; nothing is made, removed or forgotten else."""
    return job.gang is not None and not job.unreadable


def _without_surplus(scene: _Scene) -> _Scene:
    """What is scaled away counts for nothing any more: neither pods that are still to go nor their successes of before."""
    roster, done = scene.roster, {each.task: each.done for each in scene.places if each.done}
    surplus = {pod.name for each in scene.places for pod in each.surplus}
    besides = surplus | roster.posing()
    if besides:
        lost, roster = roster.lost, Roster(pod for pod in roster.named() if pod.name not in besides)
        roster.lost = lost
    floors = scene.floors if done == scene.job.status.memory.done else Floors(scene.job, done=done)
    return replace(scene, roster=roster, floors=floors, surplus=len(surplus))


def _judged(scene: _Scene, *, now: datetime.datetime, stamp: str) -> Judgement:
    """What the policies say; nothing where there are none."""
    job = scene.job
    if not has_policies(job):
        return Judgement()
    gone = [each for place in scene.places for each in place.evicted if not _there(scene, each.name)]
    again = [each for each in _noted_evictions(job) if each not in gone and _not_running_again(scene, each)]
    group = scene.snapshot.group
    if group is not None and (group.deleting or _outdated(scene)):
        group = None  # it tells of the time before the restart, or of nothing that will be
    found = list(happenings(job, roster=scene.roster, floors=scene.floors, missing=[*gone, *again], group=group))
    spare = _spare(scene, gone) if job.rules.only_below_minimum else None
    return judge(found, job=job, now=now, stamp=stamp, spare=spare)


def has_policies(job: JobView) -> bool:
    """Whether anything is to be done about what happens to pods."""
    return bool(job.rules.policies) or any(role.policies for role in job.rules.roles)


def _there(scene: _Scene, name: str) -> bool:
    return name in scene.snapshot.roster.pods or name in scene.snapshot.made


def _noted_evictions(job: JobView) -> Iterator[PodOrder]:
    """Pods whose eviction is remembered: a policy acts on it after a delay, unless the pod runs again before."""
    for note in job.status.memory.since:
        event, _, name = note.partition("/")
        task, index = place_of(name, job=job)
        if event == Event.POD_EVICTED and index >= 0:
            yield order(job, task, index)


def _not_running_again(scene: _Scene, each: PodOrder) -> bool:
    pod = scene.roster.pods.get(each.name)
    return pod is None or pod.phase == "Pending"


def _spare(scene: _Scene, gone: Sequence[PodOrder]) -> dict[str, int]:
    """By how many pods the Job ("") and its tasks are above their minimum, lost pods taken off."""
    gang = scene.job.gang
    assert gang is not None
    lost = {task.name: scene.roster.count(task.name, "Failed") for task in gang.tasks}
    for each in gone:
        lost[each.task] += 1
    floors = gang.minimum >= sum(task.minimum for task in gang.tasks)
    spare = {task.name: task.replicas - lost[task.name] - (task.minimum if floors else 0) for task in gang.tasks}
    return {**spare, "": gang.replicas - sum(lost.values()) - gang.minimum}


# --- orders ----------------------------------------------------------------------------------------------------------


def _carried_out(scene: _Scene, order: Order, *, dismissed: Sequence[tuple[CommandView, Told | None]], stamp: str) -> Plan:
    """The order goes into the status and nowhere else yet."""
    job = scene.job
    after = replace(job, status=_timed(job, killed(job, job.status, order, stamp=stamp), stamp=stamp))
    floors = Floors(after)
    old = tuple(pod for pod in scene.snapshot.roster.named() if floors.stale(pod))
    roster = Roster(pod for pod in scene.snapshot.roster.named() if not floors.stale(pod)) if old else scene.snapshot.roster
    later = _Scene(scene.snapshot, after, JobPhase(after.phase), floors, roster, old)
    return Plan(
        decisive=True,
        status=_pruned(_counted(later, after.status), later),
        urgency=Urgency.END,
        told=(*asking.told(order), *(told for _, told in dismissed if told is not None)),
        dismissed=tuple(each for each, _ in dismissed),
    )


def _pruned(status: JobStatus, scene: _Scene) -> JobStatus:
    """Without floors that keep no pod away any more, except the Job's own and the one just raised."""
    floors = status.memory.floors
    if len(floors) < 2:
        return status
    oldest = min((pod.job_version for pod in scene.snapshot.roster.pods.values()), default=status.version)
    kept = {scope: floor for scope, floor in floors.items() if not scope or floor > oldest or floor == status.version}
    return msgspec.structs.replace(status, memory=msgspec.structs.replace(status.memory, floors=kept))


def _timed(job: JobView, status: JobStatus, *, stamp: str) -> JobStatus:
    """With the duration of the run, as upstream writes it when a Job is killed or ends."""
    if not job.created:
        return status
    now, created = datetime.datetime.fromisoformat(stamp), datetime.datetime.fromisoformat(job.created)
    return msgspec.structs.replace(status, running_duration=f"{max(int((now - created).total_seconds()), 0)}s")


# --- one look --------------------------------------------------------------------------------------------------------


def _synced(scene: _Scene, *, now: datetime.datetime, stamp: str) -> Plan:
    job, snapshot = scene.job, scene.snapshot
    fault = snapshot.fault or impossible(job) if scene.phase is JobPhase.PENDING else None
    effects = _effects(scene, fault=fault)
    status = _remembering(scene, _counted(scene, job.status), effects=effects)
    status = _stepped(scene, status, fault=fault, stamp=stamp)
    after = JobPhase(status.state.phase)
    if after not in ENDS:
        status = _explained(scene, status)
    armed = [each for each in scene.judged.armed if not each[0].since]
    told, delayed = _announced(armed), _announced(each for each in scene.judged.armed if each[0].since)
    written = None if status == snapshot.job.status else status
    urgency = _urgency(snapshot.job, status)
    settled = tuple(snapshot.roster.lost.values()) if scene.phase in ALIVE and _readable(job) else ()
    if after in ENDS:
        return Plan(decisive=True, status=written, urgency=Urgency.END, told=told)
    if (armed and effects.create) or _forgotten_first(scene):
        return Plan(decisive=True, status=undone(status, before=job), urgency=Urgency.END, told=told, settled=settled)
    urgency = Urgency.END if armed else urgency
    return replace(effects, status=written, urgency=urgency, told=told, delayed=delayed, settled=settled)


def _announced(armed: Iterable[tuple[Happening, Policy]]) -> tuple[Told, ...]:
    return tuple(
        Told("ExecuteAction", f"Start to execute action {policy.action} after {policy.timeout:g}s: {happening.why}")
        for happening, policy in armed
    )


def _forgotten_first(scene: _Scene) -> bool:
    """Pods that are scaled away are forgotten before they go, or they would be missed as evicted once there are more again."""
    made = scene.job.status.memory.pods
    return any(pod.index in ranges.read(made.get(each.task, "")) for each in scene.places for pod in each.surplus)


def _counted(scene: _Scene, status: JobStatus) -> JobStatus:
    """In phases that keep ended pods those count, and every other pod is leaving; elsewhere pods of the present version do."""
    phase = scene.phase
    if phase in ALIVE or (phase is JobPhase.RESTARTING and not scene.spent):
        return count(scene.job, roster=scene.roster, floors=scene.floors, going=len(scene.old) + scene.surplus, before=status)
    ended = Roster(pod for pod in scene.snapshot.roster.named() if pod.ended and not pod.deleting)
    going = len(scene.snapshot.roster.pods) - len(ended.pods)
    return count(scene.job, roster=ended, floors=scene.floors, going=going, before=status)


def _stepped(scene: _Scene, status: JobStatus, *, fault: tuple[str, str] | None, stamp: str) -> JobStatus:
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
            return _timed(job, status, stamp=stamp)
        if after is JobPhase.RUNNING and not status.memory.started_at:
            status = msgspec.structs.replace(status, memory=msgspec.structs.replace(status.memory, started_at=stamp))
        passed.add(phase)
        if not job.managed or after not in ALIVE or phase not in ALIVE or after in passed:
            return status  # counters that say both, as forged pods make them, are no reason to go on for ever


def _event(scene: _Scene, status: JobStatus, *, phase: JobPhase, fault: tuple[str, str] | None) -> JobEvent:
    if phase in ALIVE:
        if fault is not None and phase is JobPhase.PENDING:
            return JobEvent.IMPOSSIBLE
        return verdict(scene.job, status, phase=phase)
    if phase is JobPhase.RESTARTING:
        if scene.spent:
            return JobEvent.SPENT
        gang = scene.job.gang
        cleared = gang is None or gang.replicas - len(scene.old) >= min(gang.minimum, gang.replicas)
        return JobEvent.CLEARED if cleared else JobEvent.WAITED
    if phase in LEAVING and not scene.snapshot.roster.unfinished and not scene.snapshot.made:
        return JobEvent.CLEARED
    return JobEvent.WAITED


def _why(scene: _Scene, status: JobStatus, *, event: JobEvent, fault: tuple[str, str] | None) -> tuple[str, str]:
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


def _remembering(scene: _Scene, status: JobStatus, *, effects: Plan) -> JobStatus:
    """With what must outlive this agent, and the objects that are there."""
    memory, job = status.memory, scene.job
    if scene.phase in ALIVE and _readable(job):
        delayed = any(happening.event is Event.JOB_UPDATED for happening, _ in scene.judged.armed)
        delayed = delayed or Event.JOB_UPDATED.value in scene.judged.since
        memory = msgspec.structs.replace(
            memory,
            pods={each.task: each.kept for each in scene.places if each.kept and _any(scene, each.task)},
            done={each.task: each.done for each in scene.places if each.done},
            since=scene.judged.since,
            generation=memory.generation if delayed else job.generation,
        )
    resources = status.controlled_resources
    if effects.remove_objects:
        resources = {name: value for name, value in resources.items() if not name.startswith("plugin-")}
    elif effects.ensure:
        resources = {**resources, **objects_of(job)}
    return msgspec.structs.replace(status, memory=_shared(memory, job.status.memory), controlled_resources=resources)


def undone(status: JobStatus, *, before: JobView) -> JobStatus:
    """The status without what a look says that it made or changed: the next one has to see that it is still to be done."""
    memory = msgspec.structs.replace(status.memory, generation=before.status.memory.generation)
    return msgspec.structs.replace(status, memory=memory, controlled_resources=before.status.controlled_resources)


def _any(scene: _Scene, task: str) -> bool:
    """Whether the task has or had a pod in the present run."""
    return bool(scene.roster.there(task)) or task in scene.job.status.memory.pods or bool(scene.floors.done(task))


def _shared(memory: JobMemory, before: JobMemory) -> JobMemory:
    return before if memory == before else memory


def objects_of(job: JobView) -> dict[str, str]:
    """`controlledResources`: the plugins whose objects are there, and the claims."""
    plugins = {f"plugin-{name}": name for name in job.rules.plugins}
    names = [*job.rules.claims, *(made_name(job.name, uid=job.uid, index=position) for position in job.rules.made)]
    return {**plugins, **{f"volume-pvc-{name}": name for name in sorted(names)}}


def _explained(scene: _Scene, status: JobStatus) -> JobStatus:
    """Reason and message of a Job that waits or lacks something; orders keep the reason they came with."""
    snapshot, job, phase = scene.snapshot, scene.job, JobPhase(status.state.phase)
    if phase not in ALIVE:
        return status
    reason, message = without_pods(job)
    if phase is JobPhase.RUNNING and job.unreadable:
        reason, message = "Invalid", job.unreadable
    elif phase is JobPhase.RUNNING and not _lacking(scene, status):
        pass
    elif scene.held:
        reason, message = asking.SUSPENDED, asking.SUSPENDED_TEXT
    else:
        facts = Facts(
            group=snapshot.group,
            queue=snapshot.queue,
            may_start=snapshot.may_start,
            missing_claims=snapshot.missing_claims,
            obstacle=snapshot.obstacle,
            held=tuple(_waiting_tasks(scene)),
        )
        reason, message = why_pending(job, roster=scene.roster, facts=facts)
    before = snapshot.job.status.state
    if phase is JobPhase.PENDING and reason in TROUBLES and before.phase == phase and same(reason, before.reason):
        reason, message = before.reason, before.message  # kubelets alternate between words for the same: once is enough
    return msgspec.structs.replace(status, state=msgspec.structs.replace(status.state, reason=reason, message=message))


def _lacking(scene: _Scene, status: JobStatus) -> bool:
    """Whether a Job that runs waits for some of its pods all the same."""
    return bool(status.pending) or any(each.missing for each in scene.places)


def _urgency(before: JobView, status: JobStatus) -> Urgency:
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


# --- effects ---------------------------------------------------------------------------------------------------------


def _effects(scene: _Scene, *, fault: tuple[str, str] | None) -> Plan:
    """What to make and what to remove in the present phase."""
    if scene.phase in ALIVE:
        return Plan() if fault is not None or not _readable(scene.job) else _alive(scene)
    if scene.phase is JobPhase.RESTARTING:
        stale = tuple(pod for pod in scene.old if not pod.deleting)
        return Plan(delete=() if scene.spent else stale, delete_group=_outdated(scene))
    return _stopped(scene)


def _alive(scene: _Scene) -> Plan:
    snapshot, job = scene.snapshot, scene.job
    delete = tuple(pod for pod in scene.old if not pod.deleting) + tuple(pod for each in scene.places for pod in each.surplus)
    if scene.held or snapshot.missing_claims:
        return Plan(delete=delete)
    group = snapshot.group
    if group is not None and _outdated(scene):
        return Plan(delete=delete, delete_group=True)
    changed = job.status.memory.generation != job.generation
    lacking = not objects_of(job).keys() <= job.status.controlled_resources.keys()
    ensure = lacking or (changed and bool(job.rules.plugins))
    fits = group is not None and not group.deleting
    return Plan(
        ensure=ensure,
        create_group=group is None and (snapshot.queue is not None or job.record is not None),
        # A changed spec may change what the minimum asks for without changing the minimum.
        update_group=fits and group is not None and (changed or groups.differs(job, group)),
        create=tuple(_missing(scene))
        if fits and group is not None and snapshot.may_start and may_make_pods(job, group)
        else (),
        delete=delete,
    )


def _stopped(scene: _Scene) -> Plan:
    """Nothing runs on; ended pods stay with their logs."""
    resources = scene.job.status.controlled_resources
    return Plan(
        delete=tuple(pod for pod in scene.snapshot.roster.named() if not pod.ended and not pod.deleting),
        delete_group=scene.snapshot.group is not None and not scene.snapshot.group.deleting,
        remove_objects=any(name.startswith("plugin-") for name in resources),
    )


def _after_the_end(scene: _Scene) -> Plan:
    """The result stays as it was recorded, whatever becomes of ended pods; only leftovers are still counted down."""
    job = scene.snapshot.job
    effects = _stopped(scene)
    left = [pod for pod in scene.snapshot.roster.pods.values() if not pod.ended or pod.deleting]
    status = msgspec.structs.replace(job.status, pending=0, running=0, terminating=len(left))
    status = _remembering(scene, status, effects=effects)
    told = tuple(
        Told("CommandTooLate", f"{each.action} of Command {each.name}: the Job is {job.phase}", Severity.WARNING)
        for each in scene.snapshot.commands
        if each.uid not in job.status.memory.orders
    )
    return replace(
        effects,
        status=None if status == job.status else status,
        urgency=Urgency.COUNTERS,
        dismissed=scene.snapshot.commands,
        refused=told,
    )


def _outdated(scene: _Scene) -> bool:
    """The PodGroup is from before the Job was restarted as a whole."""
    group = scene.snapshot.group
    return group is not None and not group.deleting and group.job_version < scene.floors.whole


def _missing(scene: _Scene) -> Iterator[PodOrder]:
    waiting = set(_waiting_tasks(scene))
    for each in scene.places:
        if each.task not in waiting:
            yield from (order for order in each.missing if not _there(scene, order.name))


def _waiting_tasks(scene: _Scene) -> Iterator[str]:
    """Tasks whose pods wait for other tasks (reference/volcano.md 1.7, dependsOn)."""
    minima = {task.name: task.minimum for task in scene.job.gang.tasks} if scene.job.gang else {}
    for role in scene.job.rules.roles:
        if not role.after:
            continue
        met = [_ready(scene, name) >= minima.get(name, 0) for name in role.after]
        if not (any(met) if role.any_of and len(met) > 1 else all(met)):
            yield role.name


def _ready(scene: _Scene, task: str) -> int:
    """Pods of a task that run with every container ready, or have succeeded."""
    gone = scene.floors.gone_but_done(task, roster=scene.roster)
    early = ended_early(scene.job, roster=scene.roster, task=task)
    return scene.roster.ready[task] + scene.roster.count(task, "Succeeded") + gone + early


def may_make_pods(job: JobView, group: GroupView) -> bool:
    """Pods are made once the group is let in; a hub-run group is, unless its gang over clusters still prepares."""
    if job.record is not None and group.admitted:
        return job.record.release
    return group.phase != "Pending"
