"""The status a PodGroup should have, from what its pods say and why it waits. Pure."""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from member_agent.scheduling.lifecycle import GROUP, GroupEvent, GroupPhase
from member_agent.scheduling.reasons import Reason
from member_agent.scheduling.snapshot import Tally
from member_agent.views import SCHEDULED, GroupCondition, GroupStatus, GroupView
from member_agent.views.waits import NOT_ENOUGH_OF_TASK, NOT_ENOUGH_TASKS, READY, composed

UNSCHEDULABLE = "Unschedulable"
"""Condition of a PodGroup, and reason of the event about it."""


def event_of(group: GroupView, tally: Tally, *, admitted: bool, stuck: bool = False) -> GroupEvent:
    """What the pods say about the group. `stuck`: pods of it were looked at and found no node."""
    if tally.bound >= group.min_member and tally.pods:
        finished = tally.succeeded + tally.failed == tally.pods
        return GroupEvent.FINISHED if finished else GroupEvent.PLACED
    if stuck and tally.running:
        return GroupEvent.LOST
    return GroupEvent.ADMITTED if admitted else GroupEvent.WAITED


ON_THE_WAY: Final = frozenset(
    {"BindRefused", "GangReleased", "NotInqueue", "SchedulingGated", NOT_ENOUGH_TASKS, NOT_ENOUGH_OF_TASK}
)
"""Reasons of gangs for whose pods nobody has looked for room in vain: what is missing comes by itself, or by its owner."""


def session_id(begun: str, number: int) -> str:
    """The name of a session, as a UID looks: `number` counts those of a program that began then."""
    text = hashlib.blake2b(f"{begun}/{number}".encode(), digest_size=16).hexdigest()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def status_of(
    group: GroupView, tally: Tally, *, admitted: bool, reason: Reason | None, now: str, session: str = ""
) -> GroupStatus:
    """The status a group should have; equal to the present one when nothing is to be written. `session` is the name of the one
    that a condition comes from."""
    stuck = reason is not None and reason.code not in ON_THE_WAY
    event = event_of(group, tally, admitted=admitted, stuck=stuck)
    story = f"PodGroup {group.namespace}/{group.name}, {tally.bound} of {group.min_member} bound"
    phase = GROUP.step(GroupPhase(group.phase), event, story=story)
    wanted: GroupCondition | None = None
    if event in (GroupEvent.PLACED, GroupEvent.FINISHED):
        wanted = GroupCondition(SCHEDULED, "True", session, reason=READY, message=f"{group.min_member} pods have nodes")
    elif reason is not None:
        word, text = composed(reason.code, reason.sentence)
        wanted = GroupCondition(UNSCHEDULABLE, "True", session, reason=word, message=text)
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
        lost = GroupCondition(
            SCHEDULED, "False", wanted.transition_id, reason="PodsLost", message="its minimum had nodes and has lost some"
        )
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
