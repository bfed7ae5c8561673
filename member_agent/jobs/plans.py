"""What a look at a Job decides, as one value: what to make, remove, write and tell, and how soon. Pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from member_agent.jobs.asking import Told
from member_agent.jobs.orders import PodOrder
from member_agent.views import JobStatus, PodView
from policies.members import CommandView


class Urgency(enum.IntEnum):
    """How soon a status is written; the controller knows the seconds."""

    END = 0
    """An end, or a step that others wait for."""
    WHOLE = 1
    """The phase changed and no pod is missing from the counters."""
    PHASE = 2
    PENDING = 3
    COUNTERS = 4


@dataclass(frozen=True, slots=True)
class Plan:
    """Effects, in this order: removals of objects, objects, group, pods, removals of pods, status, Commands.

    A `decisive` status comes before everything else and is all that is done: what it orders is done by the next look.
    """

    decisive: bool = False
    forward: bool = False
    """The Job is to be marked as one of a queue that has `extendClusters`; whatever is made of it carries the mark."""
    ensure: bool = False
    """Objects of plugins and claims are to be there, as the manifest has them now."""
    remove_objects: bool = False
    create_group: bool = False
    update_group: bool = False
    release_group: bool = False
    """Room is held for it no more: its pods come."""
    delete_group: bool = False
    create: tuple[PodOrder, ...] = ()
    delete: tuple[PodView, ...] = ()
    status: JobStatus | None = None
    urgency: Urgency = Urgency.COUNTERS
    told: tuple[Told, ...] = ()
    """Told once the status is written."""
    delayed: tuple[Told, ...] = ()
    """Policies whose delay runs: to be told once, and found by every look until it is over."""
    dismissed: tuple[CommandView, ...] = ()
    refused: tuple[Told, ...] = ()
    """Told when the Commands are dismissed, whatever becomes of the status."""
    settled: tuple[PodView, ...] = ()
    """Lost pods that the status, once written, remembers or has a right to forget."""
    sweeps: bool = False
    """`remove_objects` is the look for objects whose creation took effect after the end."""
    wake: float | None = None
    """Seconds until time alone changes something."""
