"""Lifecycles of a JobFlow and of its steps (reference/volcano.md 3; design.md 7 for what goes on after a failure)."""

from __future__ import annotations

import enum

from policies.tables import Table


class FlowPhase(enum.StrEnum):
    """`status.state.phase`; the spelling `Succeed` is upstream's."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEED = "Succeed"
    FAILED = "Failed"
    TERMINATING = "Terminating"


class FlowEvent(enum.Enum):
    """What one look at the steps can say about the whole."""

    WAITED = "nothing has started"
    PROGRESSED = "a step runs or has ended, and more can follow"
    COMPLETED = "every step is over, and no failure counts"
    BROKEN = "a step failed and nothing else can go on"
    REFUSED = "the spec cannot be run"
    RESUMED = "a person asked to run steps again"
    DELETED = "deletion was asked for"


_P, _R, _S, _F, _T = FlowPhase.PENDING, FlowPhase.RUNNING, FlowPhase.SUCCEED, FlowPhase.FAILED, FlowPhase.TERMINATING

FLOW = Table(
    name="JobFlow",
    initial=_P,
    edges={
        (_P, FlowEvent.WAITED): _P,
        (_P, FlowEvent.PROGRESSED): _R,
        (_P, FlowEvent.COMPLETED): _S,
        (_P, FlowEvent.BROKEN): _F,
        (_P, FlowEvent.REFUSED): _F,
        (_P, FlowEvent.DELETED): _T,
        (_R, FlowEvent.WAITED): _R,
        (_R, FlowEvent.PROGRESSED): _R,
        (_R, FlowEvent.COMPLETED): _S,
        (_R, FlowEvent.BROKEN): _F,
        (_R, FlowEvent.REFUSED): _F,
        (_R, FlowEvent.RESUMED): _R,
        (_R, FlowEvent.DELETED): _T,
        (_S, FlowEvent.RESUMED): _R,
        (_S, FlowEvent.DELETED): _T,
        (_F, FlowEvent.RESUMED): _R,
        (_F, FlowEvent.DELETED): _T,
        (_T, FlowEvent.DELETED): _T,
    },
    meaning={
        _P: "No step has started: steps wait for their JobTemplate, or their Jobs wait for room.",
        _R: "At least one step runs or has ended, and others or exit handlers are to follow.",
        _S: "Every step is over and no failure counts. Nothing runs again, whatever happens to the Jobs, unless it is resumed.",
        _F: "A step failed and no independent branch can go on, or the spec cannot be run; reason and message say which.",
        _T: "The flow is being deleted; its Jobs go with it.",
    },
)


class StepPhase(enum.StrEnum):
    """Where one Job of a step is in its life; `state` of its record holds the phase of the Job while it lives."""

    WAITING = "Waiting"
    ALIVE = "Alive"
    RETRYING = "Retrying"
    COMPLETED = "Completed"
    FAILED = "Failed"
    SKIPPED = "Skipped"


class StepEvent(enum.Enum):
    """What can be seen of one Job of a step, or decided about it."""

    SEEN = "its Job exists"
    SUCCEEDED = "its Job completed and left what it should"
    FAILED = "its Job failed, was terminated, or took too long; attempts are left"
    SPENT = "its Job failed, was terminated, refused, or took too long; no attempt is left"
    EXCLUDED = "its condition does not hold, or a target it cannot do without failed"
    RESET = "a person asked to run it again"


_W, _A, _Y, _C, _X, _K = (
    StepPhase.WAITING,
    StepPhase.ALIVE,
    StepPhase.RETRYING,
    StepPhase.COMPLETED,
    StepPhase.FAILED,
    StepPhase.SKIPPED,
)

STEP = Table(
    name="Step of a JobFlow",
    initial=_W,
    edges={
        (_W, StepEvent.SEEN): _A,
        (_W, StepEvent.SUCCEEDED): _C,
        (_W, StepEvent.FAILED): _Y,
        (_W, StepEvent.SPENT): _X,
        (_W, StepEvent.EXCLUDED): _K,
        (_W, StepEvent.RESET): _W,
        (_A, StepEvent.SEEN): _A,
        (_A, StepEvent.SUCCEEDED): _C,
        (_A, StepEvent.FAILED): _Y,
        (_A, StepEvent.SPENT): _X,
        (_A, StepEvent.RESET): _W,
        (_Y, StepEvent.SEEN): _A,
        (_Y, StepEvent.SUCCEEDED): _C,
        (_Y, StepEvent.FAILED): _Y,
        (_Y, StepEvent.SPENT): _X,
        (_Y, StepEvent.RESET): _W,
        (_C, StepEvent.RESET): _W,
        (_X, StepEvent.RESET): _W,
        (_K, StepEvent.RESET): _W,
    },
    meaning={
        _W: "It has no Job yet: its targets are not reached, its template is missing, or there is no place for it in the flow.",
        _A: "Its Job exists and has not ended.",
        _Y: "An attempt failed; its Job goes, and the next is made when the back-off is over.",
        _C: "Its Job completed. Final: it stays finished whatever happens to the Job.",
        _X: "No attempt is left. Final; `failurePolicy` says what that means for the others.",
        _K: "It does not run: its condition does not hold, or a target with SkipDependents failed. Final.",
    },
)
