"""Lifecycle of a Job in one cluster (reference/volcano.md 1.6).

The table has every phase of upstream. Edges of Commands, restart policies and `Aborting` come with the issue that acts on
them; until then such a Job is refused or says in its message what is not acted on.
"""

from __future__ import annotations

import enum
from typing import Final

from policies.tables import Table


class JobPhase(enum.StrEnum):
    """`status.state.phase`."""

    PENDING = "Pending"
    ABORTING = "Aborting"
    ABORTED = "Aborted"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    COMPLETING = "Completing"
    COMPLETED = "Completed"
    TERMINATING = "Terminating"
    TERMINATED = "Terminated"
    FAILED = "Failed"


class JobEvent(enum.Enum):
    """What one look at the pods says about the Job."""

    IMPOSSIBLE = "the spec cannot be run"
    WAITED = "nothing to change"
    STARTED = "the minimum runs or has ended"
    BELOW_MINIMUM = "too many pods wait again"
    SUCCEEDED = "enough pods succeeded"
    FAILED = "every pod has ended and too few succeeded"


ENDS: Final = frozenset({JobPhase.COMPLETED, JobPhase.FAILED, JobPhase.TERMINATED})
"""Final phases: nothing is ever started again, leftovers are removed."""

_P, _R, _C, _F = JobPhase.PENDING, JobPhase.RUNNING, JobPhase.COMPLETED, JobPhase.FAILED

JOB: Final = Table(
    name="Job (in a member)",
    initial=_P,
    edges={
        (_P, JobEvent.WAITED): _P,
        (_P, JobEvent.IMPOSSIBLE): _F,
        (_P, JobEvent.STARTED): _R,
        (_R, JobEvent.WAITED): _R,
        (_R, JobEvent.IMPOSSIBLE): _F,
        (_R, JobEvent.BELOW_MINIMUM): _P,
        (_R, JobEvent.SUCCEEDED): _C,
        (_R, JobEvent.FAILED): _F,
        **{(phase, JobEvent.WAITED): phase for phase in JobPhase if phase not in (_P, _R)},
    },
    meaning={
        _P: "Waits: for its queue, for its pods to be made, or for nodes. The message says for what.",
        _R: "At least the minimum runs or has ended.",
        _C: "Enough pods succeeded. Final: recorded once, nothing is started again.",
        _F: "Too few pods succeeded, or the spec cannot be run; reason and message name the field. Final.",
        JobPhase.ABORTING: "Being stopped by a Command (acted on by a later issue).",
        JobPhase.ABORTED: "Stopped, may be resumed (acted on by a later issue).",
        JobPhase.RESTARTING: "Being restarted by a policy or Command (acted on by a later issue).",
        JobPhase.COMPLETING: "Being completed by a policy or Command (acted on by a later issue).",
        JobPhase.TERMINATING: "Being terminated by a policy or Command (acted on by a later issue).",
        JobPhase.TERMINATED: "Stopped for good. Final.",
    },
)
