"""What is to be done about a flow."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from controllers.flows.status import FlowStatus
from policies.flows.inputs import Input
from policies.flows.spec import Probe, Step


class FlowReason(enum.StrEnum):
    """`status.state.reason`."""

    INVALID = "Invalid"
    STEP_FAILED = "StepFailed"
    HANDLER_FAILED = "ExitHandlerFailed"
    DEADLINE = "DeadlineExceeded"
    SUSPENDED = "Suspended"
    TEMPLATE_MISSING = "WaitingForTemplate"
    NAME_TAKEN = "NameTaken"
    RETRYING = "Retrying"
    PROBING = "WaitingForProbe"
    HANDLERS = "ExitHandlers"
    FULL = "MaxParallel"


@dataclass(frozen=True, slots=True)
class StepJob:
    """A Job (or nested flow) to make: of which step, from which template, under which name; `values` are what `{{…}}` stands
    for, `parameters` what its containers get, `ahead` the steps on the longest path that begins with it, `reads` what its
    targets left."""

    spec: Step
    template: str
    job: str
    values: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    item: int = -1
    ahead: int = 1
    reads: tuple[Input, ...] = ()

    @property
    def step(self) -> str:
        """Name of the step."""
        return self.spec.name


@dataclass(frozen=True, slots=True)
class ProbeWanted:
    """Pods of these Jobs are to be asked whether a step may start."""

    step: str
    jobs: tuple[str, ...]
    probe: Probe


@dataclass(frozen=True, slots=True)
class FlowPlan:
    """`sure`: the Jobs to create may come first, for everything they rely on is there to be seen again. Else in the order of
    carrying out: the status (None: unchanged), then Jobs to let go (names of Jobs under deletion whose end,
    if they had one, is in that status), Jobs to create, and Jobs to delete by (name, UID). `probes` are to be asked meanwhile;
    `wakes`: seconds until time alone changes something; `remove`: the flow itself has outlived its ttl."""

    status: FlowStatus | None
    release: tuple[str, ...] = ()
    create: tuple[StepJob, ...] = ()
    delete: tuple[tuple[str, str], ...] = ()
    probes: tuple[ProbeWanted, ...] = ()
    wakes: float | None = None
    sure: bool = False
    remove: bool = False
