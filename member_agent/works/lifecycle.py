"""Lifecycle of a Work at its member (protocol.md 1 and 2).

The stage is never stored: it is read from what is durable (the Work, its conditions, the local Job), so that an agent killed
between any two writes goes on where it stood.
"""

from __future__ import annotations

import enum
from typing import Final

from policies.tables import Table


class Stage(enum.Enum):
    """Where a Work stands."""

    SEEN = "Seen"
    REFUSED = "Refused"
    APPLIED = "Applied"
    VANISHING = "Vanishing"
    LOST = "LocallyDeleted"
    WITHDRAWN = "Withdrawn"
    CONFIRMED = "Confirmed"


class WorkEvent(enum.Enum):
    """What moves it."""

    ACCEPTED = "A1 holds and the gang fits: the Job is made"
    REFUSED = "a refusal is written"
    CHANGED = "the hub edits the manifest"
    LOCALLY_DELETED = "somebody deletes the local Job (A6)"
    GONE = "the run's pods are known to be gone (A4)"
    WITHDRAWN = "the hub deletes the Work (H2)"


WORK: Final = Table(
    name="Work (at its member)",
    initial=Stage.SEEN,
    edges={
        (Stage.SEEN, WorkEvent.ACCEPTED): Stage.APPLIED,
        (Stage.SEEN, WorkEvent.REFUSED): Stage.REFUSED,
        (Stage.SEEN, WorkEvent.WITHDRAWN): Stage.WITHDRAWN,
        (Stage.REFUSED, WorkEvent.ACCEPTED): Stage.APPLIED,
        (Stage.REFUSED, WorkEvent.REFUSED): Stage.REFUSED,
        (Stage.REFUSED, WorkEvent.WITHDRAWN): Stage.WITHDRAWN,
        (Stage.APPLIED, WorkEvent.CHANGED): Stage.APPLIED,
        (Stage.APPLIED, WorkEvent.LOCALLY_DELETED): Stage.VANISHING,
        (Stage.APPLIED, WorkEvent.WITHDRAWN): Stage.WITHDRAWN,
        (Stage.VANISHING, WorkEvent.GONE): Stage.LOST,
        (Stage.VANISHING, WorkEvent.WITHDRAWN): Stage.WITHDRAWN,
        (Stage.LOST, WorkEvent.WITHDRAWN): Stage.WITHDRAWN,
        (Stage.WITHDRAWN, WorkEvent.GONE): Stage.CONFIRMED,
    },
    meaning={
        Stage.SEEN: "No answer yet; nothing of it runs.",
        Stage.REFUSED: "Applied=False with the reason. Only StaleFence is looked at again, when the Work is stamped anew.",
        Stage.APPLIED: "Applied=True: the local Job is there, running or ended, and its status is reported.",
        Stage.VANISHING: "The local Job was deleted here; its pods are being stopped and watched. It is not made again.",
        Stage.LOST: "Gone=True, LocallyDeleted: nothing of the run is left; the hub decides what follows.",
        Stage.WITHDRAWN: "The Work is being deleted: pods are stopped, and each is waited for.",
        Stage.CONFIRMED: "The finalizer is off: the hub knows that nothing of the run is left.",
    },
)
