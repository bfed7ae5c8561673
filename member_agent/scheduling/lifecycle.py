"""Lifecycle of a PodGroup's phase (reference/volcano.md 2.1); the scheduler writes it."""

from __future__ import annotations

import enum
from typing import Final

from policies.tables import Table


class GroupPhase(enum.StrEnum):
    """`status.phase`."""

    PENDING = "Pending"
    INQUEUE = "Inqueue"
    RUNNING = "Running"
    UNKNOWN = "Unknown"
    COMPLETED = "Completed"


class GroupEvent(enum.Enum):
    """What one look at a group and its pods says."""

    WAITED = "nothing new"
    ADMITTED = "its queue lets it in and its minimum resources are there"
    PLACED = "its minimum has nodes"
    FINISHED = "its minimum has nodes and every pod has ended"
    LOST = "some of its pods run, others are lost and find no node"


_P, _I, _R, _U, _C = GroupPhase

GROUP: Final = Table(
    name="PodGroup",
    initial=_P,
    edges={
        (_P, GroupEvent.WAITED): _P,
        (_P, GroupEvent.ADMITTED): _I,
        (_P, GroupEvent.PLACED): _R,
        (_P, GroupEvent.FINISHED): _C,
        (_I, GroupEvent.WAITED): _I,
        (_I, GroupEvent.ADMITTED): _I,
        (_I, GroupEvent.PLACED): _R,
        (_I, GroupEvent.FINISHED): _C,
        (_R, GroupEvent.WAITED): _I,
        (_R, GroupEvent.ADMITTED): _I,
        (_R, GroupEvent.PLACED): _R,
        (_R, GroupEvent.FINISHED): _C,
        (_U, GroupEvent.WAITED): _U,
        (_U, GroupEvent.ADMITTED): _I,
        (_U, GroupEvent.PLACED): _R,
        (_U, GroupEvent.FINISHED): _C,
        (_P, GroupEvent.LOST): _U,
        (_I, GroupEvent.LOST): _U,
        (_R, GroupEvent.LOST): _U,
        (_U, GroupEvent.LOST): _U,
        (_C, GroupEvent.LOST): _U,
        (_C, GroupEvent.WAITED): _C,
        (_C, GroupEvent.ADMITTED): _C,
        (_C, GroupEvent.PLACED): _R,
        (_C, GroupEvent.FINISHED): _C,
    },
    meaning={
        _P: "Waits for its queue. Groups that the hub admitted do not wait: they go from here to Running in one write.",
        _I: "Let in: its pods may be made, and wait for nodes together.",
        _R: "At least the minimum has nodes.",
        _U: "Some pods run, the others were lost and find no node: a policy on `Unknown` acts. Left when it is whole.",
        _C: "Every pod has ended.",
    },
)
