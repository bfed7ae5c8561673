"""What has happened to a Job that a policy may act on, and which policy does (reference/volcano.md 1.5). Pure.

Happenings are read off the pods that are there and off what the status remembers, not off events: nothing is lost while the
agent is away, and looking twice finds the same. Upstream reacts to events; where that differs, `docs/concepts/job.md` says how.
"""

from __future__ import annotations

import datetime
import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from apis.batch import ANY_EVENT
from member_agent.jobs.floors import Floors
from member_agent.jobs.orders import PodOrder
from member_agent.jobs.roster import Roster
from member_agent.views import GroupView, JobView, PodView, Policy

UNKNOWN_GROUP = "Unknown"
RESUME = "ResumeJob"


class Event(enum.StrEnum):
    """What a policy may name."""

    POD_FAILED = "PodFailed"
    POD_EVICTED = "PodEvicted"
    POD_PENDING = "PodPending"
    TASK_COMPLETED = "TaskCompleted"
    TASK_FAILED = "TaskFailed"
    UNKNOWN = "Unknown"
    JOB_UPDATED = "JobUpdated"


@dataclass(frozen=True, slots=True)
class Happening:
    """`since` is empty where no object tells it; `index` is -1 where no pod is meant. `eviction`: the pod lost its place."""

    event: Event
    task: str = ""
    index: int = -1
    pod: str = ""
    code: int = 0
    since: str = ""
    eviction: bool = False
    why: str = ""

    @property
    def note(self) -> str:
        """Under which the status remembers since when, or that it was acted on."""
        return "/".join(filter(None, (self.event.value, self.pod or self.task)))


@dataclass(frozen=True, slots=True)
class Firing:
    """A policy that acts now."""

    happening: Happening
    policy: Policy
    of_task: bool


@dataclass(frozen=True, slots=True)
class Judgement:
    """The policy to carry out now, if any; what to remember; when the next delay ends (seconds from now); what was armed."""

    firing: Firing | None = None
    since: dict[str, str] = field(default_factory=dict)
    wake: float | None = None
    armed: tuple[tuple[Happening, Policy], ...] = ()


def happenings(
    job: JobView, *, roster: Roster, floors: Floors, missing: Sequence[PodOrder], group: GroupView | None
) -> Iterator[Happening]:
    """Everything that is so now, in a fixed order. `roster` has no pods of older versions; `missing` are pods that were made,
    had not succeeded, and are not there or not running again."""
    for name in sorted(roster.failed):
        yield _failed(roster.failed[name])
    for name in sorted(roster.early):
        pod = roster.early[name]
        code = main_exit(job, pod)
        if code:
            why = f"container {job.rules.main_container(pod.task)} exited with {code}"
            yield Happening(Event.POD_FAILED, pod.task, pod.index, pod.name, code=code, why=f"pod {pod.name} failed: {why}")
    for each in missing:
        why = f"pod {each.name} was evicted or deleted"
        yield Happening(Event.POD_EVICTED, each.task, each.index, each.name, eviction=True, why=why)
    yield from _of_tasks(job, roster=roster, floors=floors)
    if group is not None and group.phase == UNKNOWN_GROUP:
        yield Happening(Event.UNKNOWN, eviction=True, why="the gang has lost pods and there is no room for them")
    if job.status.memory.generation not in (0, job.generation):
        yield Happening(Event.JOB_UPDATED, why="the spec was changed")


def _failed(pod: PodView) -> Happening:
    end = pod.end
    why = f"pod {pod.name} failed" + (f": {end.why}" if end is not None and end.why else "")
    return Happening(
        Event.POD_FAILED,
        pod.task,
        pod.index,
        pod.name,
        code=end.code if end is not None else 0,
        since=end.at if end is not None else "",
        eviction=pod.evicted,
        why=why,
    )


def _of_tasks(job: JobView, *, roster: Roster, floors: Floors) -> Iterator[Happening]:
    for task in job.gang.tasks if job.gang is not None else ():
        role = job.rules.role(task.name)
        if role.policies or job.rules.policies:
            yield from _pending(task.name, roster=roster, job=job)
        if task.replicas and successes(job, task.name, roster=roster, floors=floors) >= task.replicas:
            yield Happening(Event.TASK_COMPLETED, task.name, why=f"every pod of task {task.name} succeeded")
        if roster.restarts[task.name] >= max(role.max_retry, 1):
            why = f"containers of task {task.name} were restarted {roster.restarts[task.name]} times of {role.max_retry}"
            yield Happening(Event.TASK_FAILED, task.name, why=why)


def main_exit(job: JobView, pod: PodView) -> int | None:
    """The exit code of the container that stands for the pod; None while it runs, and where no one container does."""
    main = job.rules.main_container(pod.task)
    return next((code for container, code in pod.ends if main and container == main), None)


def successes(job: JobView, task: str, *, roster: Roster, floors: Floors) -> int:
    """Pods of the task that have succeeded: also those deleted since, and those of which only the main container has ended."""
    early = sum(pod.task == task and main_exit(job, pod) == 0 for pod in roster.early.values())
    return roster.count(task, "Succeeded") + floors.gone_but_done(task, roster=roster) + early


def _pending(task: str, *, roster: Roster, job: JobView) -> Iterator[Happening]:
    """Only where somebody asks after a delay: there may be thousands of them."""
    waiting = roster.count(task, "Pending")
    policies = (*job.rules.role(task).policies, *job.rules.policies)
    if not waiting or not any(each.timeout and _names(each, Event.POD_PENDING) for each in policies):
        return
    for index, name in sorted(roster.there(task).items()):
        pod = roster.pods[name]
        if pod.phase == "Pending":
            why = f"pod {name} is still pending"
            yield Happening(Event.POD_PENDING, task, index, name, since=pod.created, why=why)


def _policy_for(happening: Happening, *, job: JobView) -> tuple[Policy, bool] | None:
    """The policy that acts on it, and whether it is the task's: the task's are looked at first, both in their order."""
    if happening.task:
        for policy in job.rules.role(happening.task).policies:
            if _matches(policy, happening):
                return policy, True
    for policy in job.rules.policies:
        if _matches(policy, happening):
            return policy, False
    return None


def _matches(policy: Policy, happening: Happening) -> bool:
    if policy.exit_code is not None:
        return happening.event is Event.POD_FAILED and happening.code == policy.exit_code != 0
    if happening.event is Event.POD_PENDING and not policy.timeout:
        return False
    return _names(policy, happening.event)


def _names(policy: Policy, event: Event) -> bool:
    """`*` stands for everything that happens to pods, not for a change of the spec, which is no fault."""
    return event.value in policy.events or (ANY_EVENT in policy.events and event is not Event.JOB_UPDATED)


def judge(
    found: Sequence[Happening], *, job: JobView, now: datetime.datetime, stamp: str, spare: dict[str, int] | None = None
) -> Judgement:
    """Which policy acts now. `spare`: pods that may be lost without falling below the minimum, by task and "" for the Job;
    given only where policies wait for that."""
    before = job.status.memory.since
    since: dict[str, str] = {}
    firing: Firing | None = None
    wake: float | None = None
    armed: list[tuple[Happening, Policy]] = []
    for happening in found:
        chosen = _policy_for(happening, job=job)
        if chosen is None or _above_minimum(happening, spare):
            continue
        policy, of_task = chosen
        if policy.action == RESUME:
            continue  # there is nothing to resume in a Job that runs, and others are not to wait behind it
        noted = before.get(happening.note, "")
        if noted == ACTED:
            since[happening.note] = ACTED
            continue
        begun = happening.since or noted or stamp
        left = _left(begun, timeout=policy.timeout or 0.0, now=now)
        if left <= 0:
            firing = firing or Firing(happening, policy, of_task)
            continue
        if not happening.since:
            since[happening.note] = begun
        if not noted:
            armed.append((happening, policy))
        wake = left if wake is None else min(wake, left)
    return Judgement(firing, since, wake, tuple(armed))


ACTED = "acted"
"""Noted for a happening that goes on after its policy has acted, so that it acts once."""


def _above_minimum(happening: Happening, spare: dict[str, int] | None) -> bool:
    if spare is None or happening.event not in (Event.POD_FAILED, Event.POD_EVICTED):
        return False
    return min(spare.get("", 0), spare.get(happening.task, 0)) >= 0


def _left(begun: str, *, timeout: float, now: datetime.datetime) -> float:
    if not timeout:
        return 0.0
    started = moment(begun)
    return timeout if started is None else timeout - (now - started).total_seconds()


def moment(text: str) -> datetime.datetime | None:
    """A time as a status says it; None for what is none, or lacks its zone."""
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None
