"""What the status of a Job keeps for whoever comes next: pods made, successes, delays, objects that are there. Pure."""

from __future__ import annotations

import datetime

import msgspec

from member_agent.jobs.claims import made_name
from member_agent.jobs.happenings import Event
from member_agent.jobs.lifecycle import ALIVE, JobPhase
from member_agent.jobs.plans import Plan
from member_agent.jobs.roster import Roster
from member_agent.jobs.snapshot import Scene
from member_agent.views import JobStatus, JobView


def remembering(scene: Scene, status: JobStatus, *, effects: Plan) -> JobStatus:
    """With what must outlive this agent, and the objects that are there."""
    memory, job = status.memory, scene.job
    if scene.phase in ALIVE and scene.readable:
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
    if scene.phase is JobPhase.RESTARTING and _changed_before_any_pod(scene):
        # The run to come is made of what the spec says now: the change is no news to it, but objects of plugins may follow it.
        memory = msgspec.structs.replace(memory, generation=job.generation)
        resources = _without_plugins(resources)
    if effects.remove_objects:
        resources = _without_plugins(resources)
    elif effects.ensure:
        resources = {**resources, **objects_of(job)}
    return msgspec.structs.replace(status, memory=memory, controlled_resources=resources)


def _changed_before_any_pod(scene: Scene) -> bool:
    """The spec was edited, and nothing is there, or was, that counts and was made of the spec of before."""
    memory, group = scene.job.status.memory, scene.snapshot.group
    if not scene.readable or memory.generation in (0, scene.job.generation):
        return False
    kept = group is not None and not group.deleting and not scene.outdated
    return not (kept or scene.roster.pods or memory.pods or memory.done)


def _without_plugins(resources: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in resources.items() if not name.startswith("plugin-")}


def _any(scene: Scene, task: str) -> bool:
    """Whether the task has or had a pod in the present run."""
    return bool(scene.roster.there(task)) or task in scene.job.status.memory.pods or bool(scene.floors.done(task))


def undone(status: JobStatus, *, before: JobView) -> JobStatus:
    """The status without what a look says that it made or changed: the next one has to see that it is still to be done."""
    memory = msgspec.structs.replace(status.memory, generation=before.status.memory.generation)
    return msgspec.structs.replace(status, memory=memory, controlled_resources=before.status.controlled_resources)


def objects_of(job: JobView) -> dict[str, str]:
    """`controlledResources`: the plugins whose objects are there, and the claims."""
    plugins = {f"plugin-{name}": name for name in job.rules.plugins}
    names = [*job.rules.claims, *(made_name(job.name, uid=job.uid, index=position) for position in job.rules.made)]
    return {**plugins, **{f"volume-pvc-{name}": name for name in sorted(names)}}


def pruned(status: JobStatus, *, roster: Roster) -> JobStatus:
    """Without floors that keep no pod away any more, except the Job's own and the one just raised."""
    floors = status.memory.floors
    if len(floors) < 2:
        return status
    oldest = min((pod.job_version for pod in roster.pods.values()), default=status.version)
    kept = {scope: floor for scope, floor in floors.items() if not scope or floor > oldest or floor == status.version}
    return msgspec.structs.replace(status, memory=msgspec.structs.replace(status.memory, floors=kept))


def timed(status: JobStatus, *, created: str, stamp: str) -> JobStatus:
    """With the duration of the run, as upstream writes it when a Job is killed or ends."""
    if not created:
        return status
    taken = datetime.datetime.fromisoformat(stamp) - datetime.datetime.fromisoformat(created)
    return msgspec.structs.replace(status, running_duration=f"{max(int(taken.total_seconds()), 0)}s")
