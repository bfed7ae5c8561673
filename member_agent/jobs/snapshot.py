"""One Job at one instant: what there is of it, and what of that counts. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from member_agent.jobs import asking
from member_agent.jobs.floors import Floors
from member_agent.jobs.happenings import Event, Judgement, happenings, judge
from member_agent.jobs.kills import place_of
from member_agent.jobs.lifecycle import ALIVE, JobPhase
from member_agent.jobs.orders import PodOrder
from member_agent.jobs.places import Places, order, places
from member_agent.jobs.reasons import Obstacle
from member_agent.jobs.roster import Roster
from member_agent.views import GroupView, JobView, PodView, QueueView
from policies.members import CommandView


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
    swept: bool = False
    """Objects of plugins were looked for once more after the end."""

    @property
    def may_start(self) -> bool:
        """No first pod without a grant: a late creation of the Job may land after its Work was confirmed gone.

        A Job that has or had pods goes on: a missing Work is an anomaly and never an order (protocol.md 2, A3).
        """
        status = self.job.status
        had = bool(status.memory.pods or status.version) or self.job.phase not in ("", JobPhase.PENDING)
        return self.granted or had or bool(self.roster.pods or self.made)

    def there(self, name: str) -> bool:
        """Whether a pod of this name is there, or was made and is still to be seen."""
        return name in self.roster.pods or name in self.made


@dataclass(frozen=True, slots=True)
class Scene:
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

    @property
    def readable(self) -> bool:
        """Whether it is known what the Job is to have; nothing is made, removed or forgotten else."""
        return self.job.gang is not None and not self.job.unreadable

    @property
    def outdated(self) -> bool:
        """The PodGroup is from before the Job was restarted as a whole."""
        group = self.snapshot.group
        return group is not None and not group.deleting and group.job_version < self.floors.whole


def since_the_kill(snapshot: Snapshot, job: JobView) -> Scene:
    """`job` is that of the snapshot with the status that is to be true now."""
    floors, roster = Floors(job), snapshot.roster
    old: tuple[PodView, ...] = ()
    if floors.any_stale(roster):
        old = tuple(pod for pod in roster.named() if floors.stale(pod))
        roster = roster.only(lambda pod: not floors.stale(pod))
    return Scene(snapshot, job, JobPhase(job.phase), floors, roster, old)


def scene_of(snapshot: Snapshot, job: JobView, *, now: datetime.datetime, stamp: str) -> Scene:
    """As `since_the_kill`; while the Job lives also which pods it is to have, and what its policies say."""
    scene = since_the_kill(snapshot, job)
    if scene.phase not in ALIVE or not scene.readable:
        return scene
    scene = _without_surplus(replace(scene, places=tuple(places(job, roster=scene.roster, floors=scene.floors))))
    return replace(scene, judged=_judged(scene, now=now, stamp=stamp))


def _without_surplus(scene: Scene) -> Scene:
    """What is scaled away counts for nothing any more: neither pods that are still to go nor their successes of before."""
    roster, done = scene.roster, {each.task: each.done for each in scene.places if each.done}
    surplus = {pod.name for each in scene.places for pod in each.surplus}
    besides = surplus | roster.posing()
    if besides:
        roster = roster.only(lambda pod: pod.name not in besides)
    floors = scene.floors if done == scene.job.status.memory.done else Floors(scene.job, done=done)
    return replace(scene, roster=roster, floors=floors, surplus=len(surplus))


# --- what policies say -----------------------------------------------------------------------------------------------


def _judged(scene: Scene, *, now: datetime.datetime, stamp: str) -> Judgement:
    """What the policies say; nothing where there are none."""
    job = scene.job
    if not _has_policies(job):
        return Judgement()
    gone = [each for place in scene.places for each in place.evicted if not scene.snapshot.there(each.name)]
    again = [each for each in _noted_evictions(job) if each not in gone and _not_running_again(scene, each)]
    group = scene.snapshot.group
    if group is not None and (group.deleting or scene.outdated):
        group = None  # it tells of the time before the restart, or of nothing that will be
    found = list(happenings(job, roster=scene.roster, floors=scene.floors, missing=[*gone, *again], group=group))
    spare = _spare(scene, gone) if job.rules.only_below_minimum else None
    return judge(found, job=job, now=now, stamp=stamp, spare=spare)


def _has_policies(job: JobView) -> bool:
    """Whether anything is to be done about what happens to pods."""
    return bool(job.rules.policies) or any(role.policies for role in job.rules.roles)


def _noted_evictions(job: JobView) -> Iterator[PodOrder]:
    """Pods whose eviction is remembered: a policy acts on it after a delay, unless the pod runs again before."""
    for note in job.status.memory.since:
        event, _, name = note.partition("/")
        task, index = place_of(name, job=job)
        if event == Event.POD_EVICTED and index >= 0:
            yield order(job, task, index)


def _not_running_again(scene: Scene, each: PodOrder) -> bool:
    pod = scene.roster.pods.get(each.name)
    return pod is None or pod.phase == "Pending"


def _spare(scene: Scene, gone: Sequence[PodOrder]) -> dict[str, int]:
    """By how many pods the Job ("") and its tasks are above their minimum, lost pods taken off."""
    gang = scene.job.gang
    assert gang is not None
    lost = {task.name: scene.roster.count(task.name, "Failed") for task in gang.tasks}
    for each in gone:
        lost[each.task] += 1
    floors = gang.minimum >= sum(task.minimum for task in gang.tasks)
    spare = {task.name: task.replicas - lost[task.name] - (task.minimum if floors else 0) for task in gang.tasks}
    return {**spare, "": gang.replicas - sum(lost.values()) - gang.minimum}
