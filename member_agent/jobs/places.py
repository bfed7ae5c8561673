"""Which indices of a task are to have a pod, which are missing and which are too many (reference/volcano.md 1.7). Pure.

Upstream drops the highest indices when a task is scaled down. That is kept where ranks and hosts are made of indices (plugins,
partitions, dependsOn); elsewhere pods that do not run go first, so that scaling down costs no finished work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from apis import naming
from member_agent.jobs import ranges
from member_agent.jobs.floors import Floors
from member_agent.jobs.orders import PodOrder
from member_agent.jobs.roster import Roster
from member_agent.views import JobView, PodView
from policies.shapes import Task


@dataclass(frozen=True, slots=True)
class Places:
    """Of one task: `missing` have no pod, `evicted` of them had one, `surplus` pods are to go; `kept` and `done` are indices as
    text."""

    task: str
    missing: tuple[PodOrder, ...] = ()
    evicted: tuple[PodOrder, ...] = ()
    surplus: tuple[PodView, ...] = ()
    kept: str = ""
    done: str = ""


def order(job: JobView, task: str, index: int) -> PodOrder:
    """The pod of this place."""
    return PodOrder(task, index, naming.pod_name(job.name, task=task, index=index))


def places(job: JobView, *, roster: Roster, floors: Floors) -> list[Places]:
    """Of every task, and of those that the Job has no more. `roster` has no pods of older versions."""
    tasks = job.gang.tasks if job.gang else ()
    gone = sorted(roster.slots.keys() - {task.name for task in tasks})
    found = [_of(job, task, roster=roster, floors=floors) for task in tasks]
    return [*found, *(Places(task, surplus=_pods(roster, roster.there(task))) for task in gone if roster.there(task))]


def _pods(roster: Roster, names: Mapping[int, str]) -> tuple[PodView, ...]:
    return tuple(roster.pods[name] for _, name in sorted(names.items()))


def _of(job: JobView, task: Task, *, roster: Roster, floors: Floors) -> Places:
    first = job.record.tasks[task.name].offset if job.record is not None and task.name in job.record.tasks else 0
    done = floors.done(task.name) | roster.succeeded.get(task.name, set())
    text = job.status.memory.done.get(task.name, "") if done == floors.done(task.name) else ranges.text(done)
    if roster.fills(task.name, first=first, count=task.replicas):
        kept = range(first, first + task.replicas)
        inside = all(index in kept for index in done)
        return Places(task.name, kept=_span(kept), done=text if inside else ranges.text(done & set(kept)))
    there = roster.there(task.name)
    made = ranges.read(job.status.memory.pods.get(task.name, "")) | _lost(task.name, roster=roster, floors=floors)
    keep = _kept(job, task, first=first, there=there, made=made | done, done=done, roster=roster)
    missing = [index for index in sorted(keep) if index not in there and index not in done]
    evicted = [index for index in missing if index in made]
    return Places(
        task=task.name,
        missing=tuple(order(job, task.name, index) for index in missing),
        evicted=tuple(order(job, task.name, index) for index in evicted),
        surplus=_pods(roster, {index: name for index, name in there.items() if index not in keep}),
        kept=ranges.text(keep & (made | there.keys() | done)),
        done=ranges.text(done & keep) if done else "",
    )


def _span(kept: range) -> str:
    if not kept:
        return ""
    return str(kept.start) if len(kept) == 1 else f"{kept.start}-{kept.stop - 1}"


def _lost(task: str, *, roster: Roster, floors: Floors) -> set[int]:
    """Indices whose pods of the present version were seen to go."""
    return {pod.index for (of, _), pod in roster.lost.items() if of == task and not floors.stale(pod)}


def _kept(
    job: JobView,
    task: Task,
    *,
    first: int,
    there: Mapping[int, str],
    made: frozenset[int] | set[int],
    done: frozenset[int] | set[int],
    roster: Roster,
) -> set[int]:
    """The indices that the task has."""
    straight = set(range(first, first + task.replicas))
    owned = {index for index in made | there.keys() if index >= 0}
    if ordered(job, task.name) or owned <= straight:
        return straight
    rank = sorted(owned, key=lambda index: (MOST if index in done else _worth(roster, there.get(index)), -index), reverse=True)
    kept = set(rank[: task.replicas])
    free = (index for index in range(first, first + len(owned) + task.replicas) if index not in owned)
    while len(kept) < task.replicas:
        kept.add(next(free))
    return kept


def ordered(job: JobView, task: str) -> bool:
    """Whether somebody counts on indices without gaps."""
    rules = job.rules
    return (
        bool(rules.plugins) or bool(rules.role(task).partition) or any(task in role.after or role.after for role in rules.roles)
    )


MOST = 3
"""What a success is worth, whether or not its pod is still there."""


def _worth(roster: Roster, name: str | None) -> int:
    """Pods that run or have succeeded are worth most, then those that wait, then those that failed or are not there."""
    phase = roster.pods[name].phase if name is not None else ""
    return {"Succeeded": MOST, "Running": 2, "Pending": 1}.get(phase, 0)
