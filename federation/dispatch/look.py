"""What came of looking at one case, and how long a run may take to start."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import msgspec

from apis.runs import BindingRun
from policies.runs import Effect, Event, Run, step
from policies.verdicts import Decision
from policies.views import WorkView


@dataclass(slots=True)
class Look:
    """The outcome of looking at one case.

    `run` is the record after all events, `effects` what to do to Works once it is written, `proofs` clusters whose Work must
    be found absent by a quorum read before it is written, `sweeps` Works that no binding stands for, `told` the events.
    """

    run: Run
    before: BindingRun
    effects: list[Effect] = field(default_factory=list)
    proofs: list[str] = field(default_factory=list)
    sweeps: list[WorkView] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    why: Decision | None = None
    """Why the run is withdrawn, where people should read it."""
    idle: bool = False
    """Nothing may be granted now, whatever the state says."""
    again: bool = False
    """The policy says to place it again where it was deleted in its member."""
    evicted: list[str] = field(default_factory=list)
    """Clusters from which the run is taken away."""
    due: float = float("inf")
    """Seconds until the next part has to leave its cluster."""

    def carried_out(self, order: str, *, asked: str = "") -> None:
        """The record says by its UID that a Command was carried out, whether or not there was anything to do. `asked`: what of
        it the members are to do."""
        self.run = replace(self.run, record=msgspec.structs.replace(self.run.record, order=order, asked=asked))

    @property
    def changed(self) -> bool:
        """The record differs from what the binding says."""
        return self.run.record != self.before

    def apply(self, event: Event) -> None:
        """One edge of the table."""
        self.run, effects = step(self.run, event)
        self.effects += effects
        self.told.append(type(event).__name__)


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds a run may take to start: at all, and once its member says why containers cannot. Both double with every start of
    the Job that timed out in that cluster, so that a Job that can start nowhere is moved less and less often."""

    start: int
    trouble: int

    def with_start(self, record: BindingRun, *, cluster: str) -> float:
        """Seconds from the first sight of its Work."""
        return self.start * 2.0 ** min(record.start_timeouts.get(cluster, 0), 16)

    def with_trouble(self, record: BindingRun, *, cluster: str) -> float:
        """Seconds from the first word of trouble."""
        return min(
            self.with_start(record, cluster=cluster), self.trouble * 2.0 ** min(record.start_timeouts.get(cluster, 0), 16)
        )
