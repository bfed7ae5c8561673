"""Lifecycle of a JobFlow (reference/volcano.md 3; design.md 7 for what goes on after a failure)."""

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
    COMPLETED = "every step is Completed"
    BROKEN = "a step failed and nothing else can go on"
    REFUSED = "the spec cannot be run"
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
        (_R, FlowEvent.DELETED): _T,
        (_S, FlowEvent.DELETED): _T,
        (_F, FlowEvent.DELETED): _T,
        (_T, FlowEvent.DELETED): _T,
    },
    meaning={
        _P: "No step has started: steps wait for their JobTemplate, or their Jobs wait for room.",
        _R: "At least one step runs or has ended, and others are to follow.",
        _S: "Every step is Completed. Final: nothing runs again, whatever happens to the Jobs.",
        _F: "A step failed and no independent branch can go on, or the spec cannot be run; reason and message say which.",
        _T: "The flow is being deleted; its Jobs go with it.",
    },
)
