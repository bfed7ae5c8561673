"""One round of scheduling: which groups are let in, which pods get which node, and why the others wait.

Order is priority, then age, then name. A gang's minimum is placed whole or not at all; pods above it are placed when there
is room. Equal pods are one question. Pure; the same snapshot gives the same plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import msgspec

from apis.vectors import EMPTY, ResourceVector, total
from machinery.informer import Key
from member_agent.room import Room, Shortage, Spot
from member_agent.scheduling.lifecycle import GROUP, GroupEvent, GroupPhase
from member_agent.scheduling.snapshot import Snapshot, Tally, Waiting
from member_agent.views import SCHEDULED, GroupCondition, GroupStatus, GroupView, PodView, QueueView
from policies.shapes import PodShape

NO_ROOM = "NotEnoughResources"


@dataclass(frozen=True, slots=True)
class Binding:
    """One pod gets one node."""

    pod: PodView
    node: str


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a gang waits: a word for programs and a sentence for people."""

    code: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Bindings (a gang's minimum always together), groups let in, and reasons by gang."""

    bindings: tuple[Binding, ...] = ()
    admitted: tuple[Key, ...] = ()
    waiting: Mapping[Key, Reason] = field(default_factory=dict)


def plan(snapshot: Snapshot) -> Plan:
    """Decide one round."""
    reasons: dict[Key, Reason] = {}
    bindings: list[Binding] = []
    for gang in sorted(snapshot.waiting, key=_order):
        placed = _allocate(gang, room=snapshot.room)
        if isinstance(placed, Reason):
            reasons[gang.key] = placed
        else:
            bindings += placed
    admitted = _enqueue(snapshot, reasons)
    return Plan(bindings=tuple(bindings), admitted=admitted, waiting=reasons)


def _order(gang: Waiting) -> tuple[int, str, Key]:
    return (-gang.priority, gang.created, gang.key)


# --- enqueue ---------------------------------------------------------------------------------------------------------


def _enqueue(snapshot: Snapshot, reasons: dict[Key, Reason]) -> tuple[Key, ...]:
    """Let groups in while their minimum resources fit beside those let in before."""
    idle = idle_of(snapshot.room) - total(plain(group.min_resources) for group in snapshot.expected)
    admitted: list[Key] = []
    for group, _ in sorted(snapshot.candidates, key=lambda each: (-each[1], each[0].created, each[0].namespace, each[0].name)):
        key = (group.namespace, group.name)
        reason = _closed(group.queue, snapshot.queues.get(group.queue)) or _too_big(group, idle)
        if reason is not None:
            reasons[key] = reason
            continue
        admitted.append(key)
        idle = idle - plain(group.min_resources)
    return tuple(admitted)


def _closed(name: str, queue: QueueView | None) -> Reason | None:
    if queue is None:
        return Reason("QueueMissing", f"queue {name} does not exist")
    return None if queue.open else Reason("QueueClosed", f"queue {name} is {queue.state}")


def _too_big(group: GroupView, idle: ResourceVector) -> Reason | None:
    wanted = plain(group.min_resources)
    missing = wanted.shortfall(idle)
    if not missing:
        return None
    return Reason(
        "NotEnoughResources", f"the gang asks for {wanted}; the cluster has {idle.positive()} free, {missing} too little"
    )


def plain(quota: ResourceVector) -> ResourceVector:
    """A quota-form vector (requests.*, limits.*, count/*) as what pods ask for."""
    amounts: dict[str, int] = {}
    for name, amount in quota.items():
        if name.startswith(("limits.", "count/")):
            continue
        amounts[name.removeprefix("requests.")] = amount
    return ResourceVector(amounts)


def idle_of(room: Room) -> ResourceVector:
    """What is free on all nodes that take new pods."""
    if not room.layout.names:
        return EMPTY
    sums = room.free[room.layout.usable].clip(min=0).sum(axis=0).tolist()
    return ResourceVector({name: sums[column] for name, column in room.layout.columns.items()})


# --- allocate --------------------------------------------------------------------------------------------------------


def _allocate(gang: Waiting, *, room: Room) -> list[Binding] | Reason:
    """Nodes for the gang's missing minimum, or none; then for what is above it."""
    if gang.group.phase == GroupPhase.PENDING and not gang.group.admitted:
        return Reason("NotInqueue", "the group waits for its queue")
    parts = _split(gang)
    if isinstance(parts, Reason):
        return parts
    first, rest = parts
    placed = room.place(_needs(first))
    if isinstance(placed, Shortage):
        return Reason(NO_ROOM, _story(gang, placed))
    bindings = _assign(first, placed, room=room)
    for shape, pods in _by_shape(rest):
        bindings += _assign(pods, room.place_some(shape, len(pods)), room=room)
    return bindings or Reason(NO_ROOM, _surplus_story(gang, rest, room=room))


def _split(gang: Waiting) -> tuple[list[PodView], list[PodView]] | Reason:
    """The pods that complete the minimum, and the rest; or why the minimum cannot be completed with the pods there are."""
    group, tally = gang.group, gang.tally
    floors = dict(group.min_task_member)
    if sum(floors.values()) > group.min_member:
        floors = {}  # a Job may ask for less than its tasks do (reference/volcano.md 4.3): then only the total counts
    first: list[PodView] = []
    for task, pods in groupby(gang.pods, key=lambda pod: pod.task):
        listed = list(pods)
        missing = max(floors.get(task, 0) - tally.placed.get(task, 0), 0)
        first += listed[:missing]
    chosen = {pod.uid for pod in first}
    rest = [pod for pod in gang.pods if pod.uid not in chosen]
    lacking = max(group.min_member - tally.total_placed - len(first), 0)
    first, rest = first + rest[:lacking], rest[lacking:]
    short = _short_of_pods(gang, first, floors)
    return Reason("NotEnoughPods", short) if short else (first, rest)


def _short_of_pods(gang: Waiting, first: Sequence[PodView], floors: Mapping[str, int]) -> str:
    """What pods are still to come, or ""."""
    there = gang.tally.total_placed + len(first)
    if there < gang.group.min_member:
        return f"{there} of {gang.group.min_member} pods of the gang exist"
    for task, floor in floors.items():
        count = gang.tally.placed.get(task, 0) + sum(pod.task == task for pod in first)
        if count < floor:
            return f"{count} of {floor} pods of task {task} exist"
    return ""


def _by_shape(pods: Sequence[PodView]) -> list[tuple[PodShape, list[PodView]]]:
    """Equal pods together, in the order of their first pod."""
    grouped: dict[PodShape, list[PodView]] = {}
    for pod in pods:
        grouped.setdefault(pod.shape, []).append(pod)
    return list(grouped.items())


def _needs(pods: Sequence[PodView]) -> list[tuple[PodShape, int]]:
    return [(shape, len(listed)) for shape, listed in _by_shape(pods)]


def _assign(pods: Sequence[PodView], spots: Sequence[Spot], *, room: Room) -> list[Binding]:
    """Give the spots of each shape to its pods, in order."""
    queues = {shape: iter(listed) for shape, listed in _by_shape(pods)}
    return [Binding(next(queues[spot.shape]), room.layout.names[spot.row]) for spot in spots for _ in range(spot.count)]


def _story(gang: Waiting, shortage: Shortage) -> str:
    return f"{gang.tally.total_placed} of {gang.group.min_member} pods of the gang have nodes; {shortage.sentence}"


def _surplus_story(gang: Waiting, rest: Sequence[PodView], *, room: Room) -> str:
    shape, pods = _by_shape(rest)[0]
    text = room.explain(shape, count=len(pods), placed=0)
    return f"the gang has its minimum; {text}"


# --- status ----------------------------------------------------------------------------------------------------------


def event_of(group: GroupView, tally: Tally, *, admitted: bool, stuck: bool = False) -> GroupEvent:
    """What the pods say about the group. `stuck`: pods of it were looked at and found no node."""
    if tally.bound >= group.min_member and tally.pods:
        finished = tally.succeeded + tally.failed == tally.pods
        return GroupEvent.FINISHED if finished else GroupEvent.PLACED
    if stuck and tally.running:
        return GroupEvent.LOST
    return GroupEvent.ADMITTED if admitted else GroupEvent.WAITED


def status_of(group: GroupView, tally: Tally, *, admitted: bool, reason: Reason | None, now: str) -> GroupStatus:
    """The status a group should have; equal to the present one when nothing is to be written."""
    stuck = reason is not None and reason.code == NO_ROOM
    event = event_of(group, tally, admitted=admitted, stuck=stuck)
    story = f"PodGroup {group.namespace}/{group.name}, {tally.bound} of {group.min_member} bound"
    phase = GROUP.step(GroupPhase(group.phase), event, story=story)
    wanted: GroupCondition | None = None
    if event in (GroupEvent.PLACED, GroupEvent.FINISHED):
        wanted = GroupCondition(SCHEDULED, "True", reason="Placed", message=f"{group.min_member} pods have nodes")
    elif reason is not None:
        wanted = GroupCondition("Unschedulable", "True", reason=reason.code, message=reason.sentence)
    return GroupStatus(
        phase=phase.value if group.status.phase or phase is not GroupPhase.PENDING else "",
        conditions=_conditions(group.status.conditions, wanted, now=now),
        running=tally.running,
        succeeded=tally.succeeded,
        failed=tally.failed,
    )


def _conditions(present: list[GroupCondition], wanted: GroupCondition | None, *, now: str) -> list[GroupCondition]:
    """The wanted condition; before it, Scheduled=False for a group that once had its minimum."""
    if wanted is None:
        return present
    conditions = [_dated(wanted, present, now=now)]
    if wanted.type != SCHEDULED and any(each.type == SCHEDULED for each in present):
        lost = GroupCondition(SCHEDULED, "False", reason="PodsLost", message="its minimum had nodes and has lost some")
        conditions.insert(0, _dated(lost, present, now=now))
    return conditions


def _dated(wanted: GroupCondition, present: list[GroupCondition], *, now: str) -> GroupCondition:
    """The condition as it is there already, or with the time since when it has been so."""
    before = next((each for each in present if each.type == wanted.type), None)
    if before is None:
        return msgspec.structs.replace(wanted, last_transition_time=now)
    if (before.status, before.reason, before.message) == (wanted.status, wanted.reason, wanted.message):
        return before
    since = before.last_transition_time if before.status == wanted.status else ""
    return msgspec.structs.replace(wanted, last_transition_time=since or now)
