"""The status a PodGroup should have, from what its pods say and why it waits. Pure."""

from __future__ import annotations

import msgspec

from member_agent.scheduling.decisions import NO_ROOM
from member_agent.scheduling.lifecycle import GROUP, GroupEvent, GroupPhase
from member_agent.scheduling.reasons import Reason
from member_agent.scheduling.snapshot import Tally
from member_agent.views import SCHEDULED, GroupCondition, GroupStatus, GroupView

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
        wanted = GroupCondition(UNSCHEDULABLE, "True", reason=reason.code, message=reason.sentence)
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
