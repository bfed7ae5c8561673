"""Says what becomes of Jobs: to people by events on the Job, to Prometheus by few series."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from typing import Final

from apis import kinds
from machinery.events import About, EventRecorder, Severity
from machinery.metrics import Metrics
from member_agent.jobs.asking import Told
from member_agent.jobs.lifecycle import JobPhase
from member_agent.views import JobStatus, JobView
from policies.members import CommandView

COUNTED: Final = (JobPhase.COMPLETED, JobPhase.FAILED)
"""Ends that are counted for Prometheus, by queue; not by Job, as upstream does, because series must stay few."""
LATENCY: Final = "volcano_controller_job_to_pod_creation_latency_milliseconds"
MILLISECONDS: Final = (5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 10_000.0, 60_000.0)
EXPLAINED: Final = (JobPhase.PENDING, JobPhase.FAILED, JobPhase.RUNNING)
"""Phases whose reason is news: good ends and orders speak for themselves."""


class Teller:
    """Events through one recorder; metrics once somebody measures."""

    def __init__(self, events: EventRecorder) -> None:
        self._events = events
        self._announced: dict[str, set[Told]] = {}
        self.metrics: Metrics | None = None

    def tell(self, job: JobView, told: Iterable[Told]) -> None:
        """Each as an event on the Job."""
        about = About(kinds.JOB, job.namespace, job.name, job.uid, job.version)
        for each in told:
            self._events.record(about, reason=each.reason, message=each.message, severity=each.severity)

    def announce(self, job: JobView, delayed: Sequence[Told]) -> None:
        """Tell of delays that run, each once; what is over may be told again."""
        known = self._announced.pop(job.uid, set())
        if delayed:
            self.tell(job, [each for each in delayed if each not in known])
            self._announced[job.uid] = set(delayed)

    def written(self, job: JobView, status: JobStatus) -> None:
        """The status was written over that of `job`: an end is counted, and a new reason for waiting or a bad end told once."""
        state, before = status.state, job.status.state
        if self.metrics is not None and state.phase != before.phase and state.phase in COUNTED:
            name = f"volcano_job_{state.phase.lower()}_phase_count"
            self.metrics.count(name, f"Jobs that came to phase {state.phase}.", queue_name=job.queue)
        if not state.reason or (state.phase, state.reason) == (before.phase, before.reason):
            return
        if state.phase in EXPLAINED:
            self.tell(job, [Told(state.reason, state.message or state.reason, Severity.WARNING)])

    def pods_made(self, job: JobView, *, now: datetime.datetime) -> None:
        """All pods of a look are made: how long the first ones took is measured."""
        if self.metrics is not None and not job.status.memory.pods and job.created:
            age = now - datetime.datetime.fromisoformat(job.created)
            self.metrics.took(LATENCY, "From a Job to its pods.", value=age.total_seconds() * 1000, buckets=MILLISECONDS)

    def too_late(self, job: JobView, command: CommandView, *, why: str) -> None:
        """A Command that is not carried out because of what became of its Job."""
        text = f"{command.action} of Command {command.name}: {why}"
        self.tell(job, [Told("CommandTooLate", text, Severity.WARNING)])

    def without_target(self, command: CommandView) -> None:
        """A Command for a Job that there is not; told of the Command itself."""
        about = About(kinds.COMMAND, command.namespace, command.name, command.uid, command.version)
        text = f"{command.action} of Command {command.name}: there is no Job {command.target[1]}"
        self._events.warn(about, reason="CommandWithoutTarget", message=text)

    def forget(self, job: JobView) -> None:
        """The Job has gone."""
        self._announced.pop(job.uid, None)
