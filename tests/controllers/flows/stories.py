"""Builders for flow stories: a flow is told as `a`, `b after a`, and Jobs by step and phase."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from controllers.flows.planner import FlowPlan, plan
from controllers.flows.snapshot import DependsOn, FlowSnapshot, FlowStatus, FlowView, Step

NOW = "2026-01-01T12:00:00Z"
CREATED = "2026-01-01T10:00:00Z"
ENDED = "2026-01-01T11:00:00Z"


@dataclass(frozen=True)
class FakeJob:
    """A Job as a flow sees it."""

    name: str
    phase: str = ""
    namespace: str = "team"
    uid: str = "job-uid"
    version: str = "1"
    created: str = CREATED
    last_transition: str = ENDED
    retry_count: int = 0
    running_duration: str = ""
    task_status_count: Mapping[str, Any] = field(default_factory=dict)
    created_by_flow: str = "team.flow"
    owner_uid: str = "flow-uid"
    deleting: bool = False


class Story:
    """A flow that is looked at again and again: `look` plans, and remembers the status as the API server would."""

    def __init__(self, *steps: str, retain: bool = True, templates: str | None = None) -> None:
        self._steps = tuple(_step(text) for text in steps)
        names = (step.name for step in self._steps)
        self._templates = frozenset(templates.split() if templates is not None else names)
        self._retain = retain
        self.status = FlowStatus()
        self.jobs: dict[str, FakeJob] = {}
        self.ended: dict[str, FakeJob] = {}
        self.refused: dict[str, str] = {}
        self.foreign: frozenset[str] = frozenset()
        self.deleting = False

    def job(self, step: str, phase: str) -> None:
        """The step's Job exists in `phase`."""
        self.jobs[f"flow-{step}"] = FakeJob(name=f"flow-{step}", phase=phase)

    def gone(self, step: str) -> None:
        """The step's Job object is gone."""
        del self.jobs[f"flow-{step}"]

    def template(self, name: str) -> None:
        """A JobTemplate appears."""
        self._templates |= {name}

    def look(self) -> FlowPlan:
        """Plan once; the status counts from now on, created Jobs exist without a phase."""
        made = plan(self.snapshot(), now=NOW)
        if made.status is not None:
            self.status = msgspec.convert(msgspec.to_builtins(made.status), FlowStatus)
        for item in made.create:
            self.jobs[item.job] = FakeJob(name=item.job)
        return made

    def snapshot(self) -> FlowSnapshot:
        """What the planner would see now."""
        flow = FlowView(
            namespace="team",
            name="flow",
            uid="flow-uid",
            version="7",
            deleting=self.deleting,
            retain=self._retain,
            steps=self._steps,
            status=self.status,
        )
        return FlowSnapshot(
            flow=flow,
            jobs=dict(self.jobs),
            foreign=self.foreign,
            templates=self._templates,
            ended=dict(self.ended),
            refused=dict(self.refused),
        )

    @property
    def phase(self) -> str:
        return self.status.state.phase


def made(plan: FlowPlan) -> list[str]:
    """Steps whose Jobs a plan makes."""
    return [item.step for item in plan.create]


def _step(text: str) -> Step:
    name, _, targets = text.partition(" after ")
    return Step(name=name, depends_on=DependsOn(targets=targets.split(" and ")) if targets else None)
