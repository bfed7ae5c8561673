"""Parts of a Job that runs in several clusters: replicas and minima of every task, divided (design.md 4; protocol.md 1, 5).

Two kinds of minima. ALONE: every part meets the whole minimum by itself, so each may start, and go on, whatever becomes of
the others. TOGETHER: minima add up to the Job's, so no part may start before all hold nodes (protocol.md 5).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from apis import runs
from apis.runs import Share
from policies.division import Candidate, Divided, Strategy, divide, webster
from policies.fit import Room
from policies.shapes import Gang, Pool, Task


class Minima(enum.StrEnum):
    """What the minima of parts promise."""

    ALONE = "Alone"
    TOGETHER = "Together"


@dataclass(frozen=True, slots=True)
class Site:
    """A cluster that may run a part. `room` is what is free there beside `assigned`, which are the Job's pods there by task."""

    name: str
    room: Room | None = None
    assigned: Mapping[str, int] = field(default_factory=dict)
    weight: int = 0
    tier: int = 0


@dataclass(frozen=True, slots=True)
class TaskPart:
    """A part's share of one task: `replicas` pods of which `minimum` are needed; `offset` is the index of the first."""

    name: str
    replicas: int
    minimum: int
    offset: int
    total: int


@dataclass(frozen=True, slots=True)
class Part:
    """What one cluster runs of a Job: a gang of its own. `minimum` is at least 1 and at most its replicas."""

    cluster: str
    tasks: tuple[TaskPart, ...]
    minimum: int

    @property
    def replicas(self) -> int:
        """Pods in all."""
        return sum(each.replicas for each in self.tasks)


@dataclass(frozen=True, slots=True)
class Parts:
    """The division: parts by name of the cluster, or none and `text`, which says why it cannot be.

    `beyond` are pods by cluster for which a static weight or a copy finds no room now.
    """

    parts: tuple[Part, ...] = ()
    text: str = ""
    beyond: Mapping[str, int] = field(default_factory=dict)


def divide_gang(
    gang: Gang,
    sites: Sequence[Site],
    *,
    strategy: Strategy,
    minima: Minima,
    uid: str = "",
    fresh: bool = False,
    units: Mapping[str, int] | None = None,
) -> Parts:
    """Divide every task of a Job over the sites; rooms stay as they were.

    `units` are pods of a task that stay together (a partition's size; 1 where not named). With ALONE, clusters whose part could
    not stand alone are left out, the smallest first, until every part can.
    """
    chosen = sorted(sites, key=lambda each: each.name)
    if not chosen or not gang.replicas:
        return Parts(text="no cluster may run it" if gang.replicas else "it has no pods")
    if strategy is Strategy.DUPLICATED:
        return _copies(gang, chosen)
    text = ""
    while chosen:
        counts, beyond, text = _by_task(gang, chosen, strategy=strategy, uid=uid, fresh=fresh, units=dict(units or {}))
        if text:
            break
        unable = [] if minima is Minima.TOGETHER else [each for each in chosen if not _stands(gang, counts, each.name)]
        used = [each for each in unable if any(row.get(each.name) for row in counts.values())]
        if not used:
            names = [each.name for each in chosen]
            return Parts(_parts(gang, counts, names, minima=minima, units=units or {}), beyond=beyond)
        least = min(used, key=lambda each: (sum(row.get(each.name, 0) for row in counts.values()), each.name))
        chosen = [each for each in chosen if each is not least]
    return Parts(text=text or "no part of it could stand alone")


Counts = Mapping[str, Mapping[str, int]]
"""Pods by task and cluster."""


def _copies(gang: Gang, sites: Sequence[Site]) -> Parts:
    """Every cluster runs all of it: copies, each from index 0."""
    tasks = tuple(TaskPart(each.name, each.replicas, each.minimum, 0, each.replicas) for each in gang.tasks)
    beyond = {}
    for site in sites:
        room = site.room.copy() if site.room is not None else None
        missing = sum(_lacking(room, task, task.replicas - site.assigned.get(task.name, 0)) for task in gang.tasks)
        if missing:
            beyond[site.name] = missing
    return Parts(tuple(Part(site.name, tasks, gang.minimum) for site in sites), beyond=beyond)


def _by_task(
    gang: Gang, sites: Sequence[Site], *, strategy: Strategy, uid: str, fresh: bool, units: Mapping[str, int]
) -> tuple[Counts, Mapping[str, int], str]:
    """Task after task, on rooms from which the shares of earlier tasks are taken: tasks compete for the same nodes."""
    rooms = {each.name: each.room.copy() if each.room is not None else None for each in sites}
    counts: dict[str, Mapping[str, int]] = {}
    beyond: dict[str, int] = {}
    for task in gang.tasks:
        size = max(1, units.get(task.name, 1))
        divided = _one_task(task, sites, rooms, size=size, strategy=strategy, uid=uid, fresh=fresh)
        if divided.short:
            return (
                {},
                {},
                f"{divided.short * size} of {task.replicas} pods of task {task.name} find no room in {len(sites)} clusters",
            )
        counts[task.name] = {name: each * size for name, each in divided.replicas.items()}
        for site in sites:
            added = counts[task.name].get(site.name, 0) - site.assigned.get(task.name, 0)  # what runs has its room already
            missing = _lacking(rooms[site.name], task, added)
            if missing:
                beyond[site.name] = beyond.get(site.name, 0) + missing
    return counts, beyond, ""


def _one_task(
    task: Task,
    sites: Sequence[Site],
    rooms: Mapping[str, Room | None],
    *,
    size: int,
    strategy: Strategy,
    uid: str,
    fresh: bool,
) -> Divided:
    candidates = []
    for site in sites:
        room = rooms[site.name]
        fits = room.places(task.shape) if room is not None else 0  # votes are all there is room for
        held = site.assigned.get(task.name, 0) // size
        candidates.append(Candidate(site.name, room=fits // size, assigned=held, weight=site.weight, tier=site.tier))
    return divide(task.replicas // size, candidates, strategy=strategy, uid=uid, fresh=fresh)


def _lacking(room: Room | None, task: Task, pods: int) -> int:
    """Take `pods` from the room; answers how many found no place."""
    return max(pods, 0) - (room.take(task.shape, pods=pods) if room is not None and pods > 0 else 0)


def _floors(gang: Gang) -> dict[str, int]:
    """Task minima, where they count: not once together they exceed the Job's (reference/volcano.md 4.3)."""
    floors = {each.name: min(each.minimum, each.replicas) for each in gang.tasks}
    return floors if sum(floors.values()) <= gang.minimum else dict.fromkeys(floors, 0)


def _stands(gang: Gang, counts: Counts, cluster: str) -> bool:
    """Whether that part has every task's minimum and the Job's."""
    here = {name: row.get(cluster, 0) for name, row in counts.items()}
    enough = all(here[name] >= floor for name, floor in _floors(gang).items())
    return enough and sum(here.values()) >= gang.minimum


def _parts(gang: Gang, counts: Counts, names: Sequence[str], *, minima: Minima, units: Mapping[str, int]) -> tuple[Part, ...]:
    used = [name for name in names if any(row.get(name) for row in counts.values())]
    floors = _floors(gang)
    if minima is Minima.ALONE:
        least = {task: dict.fromkeys(used, floor) for task, floor in floors.items()}
        whole = dict.fromkeys(used, gang.minimum)
    else:
        least = {task: _minimum_together(floor, counts[task], size=units.get(task, 1)) for task, floor in floors.items()}
        whole = _minima_together(gang, counts, used, least=least)
    offsets = {task.name: 0 for task in gang.tasks}
    parts = []
    for name in used:
        tasks = []
        for task in gang.tasks:
            replicas = counts[task.name].get(name, 0)
            tasks.append(TaskPart(task.name, replicas, least[task.name].get(name, 0), offsets[task.name], task.replicas))
            offsets[task.name] += replicas
        parts.append(Part(name, tuple(tasks), max(1, whole.get(name, 0))))
    return tuple(parts)


def _minimum_together(floor: int, row: Mapping[str, int], *, size: int) -> dict[str, int]:
    """Minima of one task that add up, in whole units where its minimum is a number of them."""
    size = size if size > 1 and floor % size == 0 else 1
    shares = webster(floor // size, {name: count // size for name, count in row.items()})
    return {name: count * size for name, count in shares.items()}


def _minima_together(gang: Gang, counts: Counts, used: Sequence[str], *, least: Counts) -> dict[str, int]:
    """Minima by part that add up to the Job's: those of its tasks, and what is missing by what the parts have left.

    Where a part would get none it gets 1, because a Job without a minimum needs all its pods.
    """
    floors = {name: sum(row.get(name, 0) for row in least.values()) for name in used}
    spare = {name: sum(row.get(name, 0) for row in counts.values()) - floors[name] for name in used}
    more = webster(gang.minimum - sum(floors.values()), spare)
    return {name: floors[name] + more.get(name, 0) for name in used}


def gang_of(part: Part, gang: Gang, *, pool: Pool) -> Gang:
    """A part as a gang, for ledger and packing; raises KeyError for a task that the Job has not."""
    shapes = {task.name: task.shape for task in gang.tasks}
    tasks = tuple(Task(each.name, each.replicas, each.minimum, shapes[each.name]) for each in part.tasks if each.replicas)
    return pool.gang(tasks, minimum=part.minimum)


def is_whole(part: Part, gang: Gang) -> bool:
    """It is all of the Job."""
    return part.minimum == gang.minimum and part.replicas == gang.replicas


def shares_of(part: Part) -> dict[str, Share]:
    """A part as the binding records it."""
    return {each.name: Share(each.replicas, each.minimum, each.offset, each.total) for each in part.tasks}


def recorded(cluster: str, part: runs.Part) -> Part | None:
    """The part that a binding records; None for all of the Job."""
    if not part.shares:
        return None
    tasks = (TaskPart(name, each.replicas, each.minimum, each.offset, each.total) for name, each in part.shares.items())
    return Part(cluster, tuple(tasks), part.minimum)


# --- manifests -------------------------------------------------------------------------------------------------------

Tree = dict[str, Any]


def units_of(job: Mapping[str, Any]) -> dict[str, int]:
    """Pods that stay together, by task: the size of its partitions."""
    found = {}
    for index, task in enumerate(_tasks(job)):
        size = (task.get("partitionPolicy") or {}).get("partitionSize")
        if isinstance(size, int) and size > 1:
            found[task.get("name") or f"default{index}"] = size
    return found


def revised(job: Mapping[str, Any], part: Part, *, replicas: int) -> Tree:
    """The manifest of one part; `replicas` are the pods of the whole Job. The given one stays as it was.

    Tasks that the part has no pods of stay, with none, because others may depend on them by name. `minSuccess` is divided as
    pods are, rounded up, so that parts which all succeeded are never too few.
    """
    shares = {each.name: each for each in part.tasks}
    tasks = []
    for index, task in enumerate(_tasks(job)):
        share = shares[task.get("name") or f"default{index}"]
        tasks.append(_revised_task(task, share))
    spec = {**(job.get("spec") or {}), "tasks": tasks, "minAvailable": part.minimum}
    if spec.get("minSuccess") and replicas:
        spec["minSuccess"] = min(part.replicas, -(-spec["minSuccess"] * part.replicas // replicas))
    return {**job, "spec": spec}


def _revised_task(task: Mapping[str, Any], share: TaskPart) -> Tree:
    changed = {**task, "replicas": share.replicas, "minAvailable": share.minimum}
    partitions = task.get("partitionPolicy")
    if not partitions:
        return changed
    if not share.replicas:
        del changed["partitionPolicy"]
        return changed
    size = partitions["partitionSize"]
    policy = {**partitions, "totalPartitions": share.replicas // size}
    if partitions.get("minPartitions"):
        policy["minPartitions"] = share.minimum // size
    return {**changed, "partitionPolicy": policy}


def _tasks(job: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return (job.get("spec") or {}).get("tasks") or []
