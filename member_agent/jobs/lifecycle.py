"""Lifecycle of a Job in one cluster (reference/volcano.md 1.6): phases, events, and what each event does to pods.

Beyond upstream: an order that comes while a Job restarts is not lost; `suspend` aborts and its end resumes; a run may have a
longest time; a restart after an eviction leaves the retries alone.
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
    """What one look at the pods says about the Job, or what a policy, a Command or a setting asks for."""

    IMPOSSIBLE = "the spec cannot be run"
    WAITED = "nothing to change"
    STARTED = "the minimum runs or has ended"
    BELOW_MINIMUM = "too many pods wait again"
    SUCCEEDED = "enough pods succeeded"
    FAILED = "every pod has ended and too few succeeded"
    RESTART = "RestartJob"
    RESTART_TARGET = "RestartTask, RestartPod, RestartPartition"
    ABORT = "AbortJob"
    SUSPEND = "suspend"
    TERMINATE = "TerminateJob"
    OVERDUE = "max-run-time is over"
    COMPLETE = "CompleteJob"
    RESUME = "ResumeJob"
    CLEARED = "the pods that had to go are gone"
    SPENT = "the retries are spent"


ENDS: Final = frozenset({JobPhase.COMPLETED, JobPhase.FAILED, JobPhase.TERMINATED})
"""Final phases: nothing is ever started again, leftovers are removed."""
ALIVE: Final = frozenset({JobPhase.PENDING, JobPhase.RUNNING})
"""Phases in which pods are made and policies are looked at."""
LEAVING: Final = frozenset({JobPhase.ABORTING, JobPhase.COMPLETING, JobPhase.TERMINATING})
"""Phases that wait until no pod is left that has not ended."""

_P, _R, _X = JobPhase.PENDING, JobPhase.RUNNING, JobPhase.RESTARTING
_AG, _AD, _CG, _C = JobPhase.ABORTING, JobPhase.ABORTED, JobPhase.COMPLETING, JobPhase.COMPLETED
_TG, _T, _F = JobPhase.TERMINATING, JobPhase.TERMINATED, JobPhase.FAILED


def _orders(phase: JobPhase) -> dict[tuple[JobPhase, JobEvent], JobPhase]:
    """What policies, Commands and settings do to a Job that has not been told to stop."""
    return {
        (phase, JobEvent.RESTART): _X,
        (phase, JobEvent.RESTART_TARGET): _X,
        (phase, JobEvent.ABORT): _AG,
        (phase, JobEvent.SUSPEND): _AG,
        (phase, JobEvent.TERMINATE): _TG,
        (phase, JobEvent.OVERDUE): _TG,
        (phase, JobEvent.COMPLETE): _CG,
    }


JOB: Final = Table(
    name="Job (in a member)",
    initial=_P,
    edges={
        **{(phase, JobEvent.WAITED): phase for phase in JobPhase},
        (_P, JobEvent.IMPOSSIBLE): _F,
        (_P, JobEvent.STARTED): _R,
        **_orders(_P),
        (_R, JobEvent.IMPOSSIBLE): _F,
        (_R, JobEvent.BELOW_MINIMUM): _P,
        (_R, JobEvent.SUCCEEDED): _C,
        (_R, JobEvent.FAILED): _F,
        **_orders(_R),
        **_orders(_X),
        (_X, JobEvent.CLEARED): _P,
        (_X, JobEvent.SPENT): _F,
        (_AG, JobEvent.CLEARED): _AD,
        (_AG, JobEvent.RESUME): _X,
        (_AD, JobEvent.RESUME): _X,
        (_TG, JobEvent.CLEARED): _T,
        (_CG, JobEvent.CLEARED): _C,
    },
    meaning={
        _P: "Waits: for its queue, for its pods to be made, or for nodes. Reason and message say for what.",
        _R: "At least the minimum runs or has ended.",
        _X: "Pods of the old version end; then it goes on from Pending, or fails when its retries are spent.",
        _AG: "Told to stop for now: waits until no pod is left that has not ended.",
        _AD: "Stopped, with its ended pods and its history; ResumeJob or the end of suspend starts it again.",
        _CG: "Told that enough is done: waits until no pod is left that has not ended.",
        _C: "Enough pods succeeded, or it was completed by order. Final: recorded once, nothing is started again.",
        _TG: "Told to stop for good: waits until no pod is left that has not ended.",
        _T: "Stopped for good. Final.",
        _F: "Too few pods succeeded, the retries are spent, or the spec cannot be run; reason and message name it. Final.",
    },
    actions={
        JobEvent.IMPOSSIBLE: "Nothing is made; the message names the field.",
        JobEvent.WAITED: "Missing pods are made, surplus ones removed, counters written.",
        JobEvent.STARTED: "Only the phase is written.",
        JobEvent.BELOW_MINIMUM: "Only the phase is written: lost pods are being made again.",
        JobEvent.SUCCEEDED: "Pods that have not ended are deleted, ended ones stay; PodGroup and plugin objects go.",
        JobEvent.FAILED: "As after success.",
        JobEvent.RESTART: "Version and retryCount rise by one (after an eviction `memory.evictions` does instead), all pods of "
        "an older version and the PodGroup are deleted; on the last permitted run ended pods stay, so that their logs do.",
        JobEvent.RESTART_TARGET: "The same for the pods of one task, one partition, or for one pod; the PodGroup stays.",
        JobEvent.ABORT: "Version rises; pods that have not ended and the PodGroup are deleted.",
        JobEvent.SUSPEND: "As AbortJob, remembered as suspended: the Job resumes when `suspend` ends.",
        JobEvent.TERMINATE: "As AbortJob, for good.",
        JobEvent.OVERDUE: "As TerminateJob, with reason MaxRunTimeExceeded.",
        JobEvent.COMPLETE: "As AbortJob; the Job counts as completed.",
        JobEvent.RESUME: "Version rises; pods kept from before are deleted and everything starts anew; retries stay.",
        JobEvent.CLEARED: "Only the phase is written.",
        JobEvent.SPENT: "retryCount has reached maxRetry: the Job fails, the pods that ended last stay.",
    },
)
