"""What to make and what to remove for a Job in its present phase (reference/volcano.md 1.7). Pure."""

from __future__ import annotations

from collections.abc import Iterator

from member_agent.jobs import groups
from member_agent.jobs.happenings import successes
from member_agent.jobs.lifecycle import ALIVE, JobPhase
from member_agent.jobs.memory import objects_of
from member_agent.jobs.orders import PodOrder
from member_agent.jobs.plans import Plan
from member_agent.jobs.snapshot import Scene
from member_agent.views import GroupView, JobView


def effects(scene: Scene, *, fault: tuple[str, str] | None) -> Plan:
    """A plan without a status. Nothing is made for a Job that can never run (`fault`) or that nobody can read."""
    if scene.phase in ALIVE:
        return Plan() if fault is not None or not scene.readable else _alive(scene)
    if scene.phase is JobPhase.RESTARTING:
        stale = tuple(pod for pod in scene.old if not pod.deleting)
        return Plan(delete=() if scene.spent else stale, delete_group=scene.outdated)
    return stopped(scene)


def stopped(scene: Scene) -> Plan:
    """Nothing runs on; ended pods stay with their logs."""
    resources = scene.job.status.controlled_resources
    return Plan(
        delete=tuple(pod for pod in scene.snapshot.roster.named() if not pod.ended and not pod.deleting),
        delete_group=scene.snapshot.group is not None and not scene.snapshot.group.deleting,
        remove_objects=any(name.startswith("plugin-") for name in resources),
    )


def waiting_tasks(scene: Scene) -> Iterator[str]:
    """Tasks whose pods wait for other tasks (reference/volcano.md 1.7, dependsOn)."""
    minima = groups.task_minima(scene.job.gang) if scene.job.gang is not None else {}
    for role in scene.job.rules.roles:
        if not role.after:
            continue
        met = [_ready(scene, name) >= minima.get(name, 0) for name in role.after]
        if not (any(met) if role.any_of and len(met) > 1 else all(met)):
            yield role.name


def _alive(scene: Scene) -> Plan:
    snapshot, job = scene.snapshot, scene.job
    delete = tuple(pod for pod in scene.old if not pod.deleting) + tuple(pod for each in scene.places for pod in each.surplus)
    if scene.held or snapshot.missing_claims:
        return Plan(delete=delete)
    if snapshot.queue is not None and snapshot.queue.forwards and not job.forwarded:
        return Plan(delete=delete, forward=True)
    group = snapshot.group
    if group is not None and scene.outdated:
        return Plan(delete=delete, delete_group=True)
    changed = job.status.memory.generation != job.generation
    lacking = not objects_of(job).keys() <= job.status.controlled_resources.keys()
    fits = group is not None and not group.deleting
    starts = fits and group is not None and snapshot.may_start and _may_make_pods(job, group)
    return Plan(
        ensure=lacking or (changed and bool(job.rules.plugins)),
        create_group=group is None and (snapshot.queue is not None or job.record is not None),
        # A changed spec may change what the minimum asks for without changing the minimum.
        update_group=fits and group is not None and (changed or groups.differs(job, group)),
        release_group=fits and group is not None and _may_release(job, group),
        create=tuple(_missing(scene)) if starts else (),
        delete=delete,
    )


def _may_make_pods(job: JobView, group: GroupView) -> bool:
    """Pods are made once the group is let in; a hub-run group is, unless its gang over clusters still prepares."""
    if job.record is not None and group.admitted:
        dropped = group.hold is not None and bool(group.hold.dropped)
        return job.record.release and not group.hold_wanted and not dropped
    return group.phase != "Pending"


def _may_release(job: JobView, group: GroupView) -> bool:
    """The wish for a hold is taken away, which is the release; never from a hold that was given up (protocol.md 5)."""
    released = job.record is not None and job.record.release and bool(group.hold_wanted)
    return released and not (group.hold is not None and group.hold.dropped)


def _missing(scene: Scene) -> Iterator[PodOrder]:
    waiting = set(waiting_tasks(scene))
    for each in scene.places:
        if each.task not in waiting:
            yield from (order for order in each.missing if not scene.snapshot.there(order.name))


def _ready(scene: Scene, task: str) -> int:
    """Pods of a task that run with every container ready, or have succeeded."""
    return scene.roster.ready[task] + successes(scene.job, task, roster=scene.roster, floors=scene.floors)
