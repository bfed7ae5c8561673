"""Builders for flow stories: a flow is told as `a`, `b after a` or as its YAML, and Jobs by step and phase."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import yaml

from controllers.flows.planner import FlowPlan, plan
from controllers.flows.snapshot import DependsOn, FlowSnapshot, FlowStatus, FlowView, Placed, Step
from policies.flows.spec import FlowSpec, ResumeFrom, named

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
    outputs: Mapping[str, str] = field(default_factory=dict)


class Story:
    """A flow that is looked at again and again: `look` plans, and remembers the status as the API server would."""

    def __init__(self, *steps: str, retain: bool = True, templates: str | None = None, spec: FlowSpec | None = None) -> None:
        self.spec = spec or FlowSpec(flows=[_step(text) for text in steps], job_retain_policy="" if retain else "delete")
        names = (step.source for step in (*self.spec.flows, *(self.spec.on_exit or ())))
        self._templates = frozenset(templates.split() if templates is not None else names)
        self.flows: frozenset[str] = frozenset()
        self.status = FlowStatus()
        self.jobs: dict[str, FakeJob] = {}
        self.ended: dict[str, FakeJob] = {}
        self.refused: dict[str, str] = {}
        self.foreign: frozenset[str] = frozenset()
        self.reached: frozenset[str] = frozenset()
        self.places: dict[str, Placed] = {}
        self.deleting = False
        self.deletes = True
        """Whether a Job that is deleted is gone at once."""
        self.now = NOW
        self._made = 0

    def job(self, step: str, phase: str, **more: Any) -> None:
        """The step's Job exists in `phase`; it stays the same Job if there was one."""
        name = f"flow-{step}"
        known = self.jobs.get(name, FakeJob(name=name))
        self.jobs[name] = dataclasses.replace(known, phase=phase, last_transition=known.last_transition or ENDED, **more)

    def sent(self, step: str, *clusters: str, why: str = "") -> None:
        """The hub sends the step's Job to these clusters."""
        self.places[f"flow-{step}"] = Placed(clusters, why)

    def gone(self, step: str) -> None:
        """The step's Job object is gone."""
        del self.jobs[f"flow-{step}"]

    def template(self, name: str) -> None:
        """A JobTemplate appears."""
        self._templates |= {name}

    def passes(self, seconds: float) -> None:
        """Time passes."""
        moment = datetime.datetime.fromisoformat(self.now) + datetime.timedelta(seconds=seconds)
        self.now = moment.strftime("%Y-%m-%dT%H:%M:%SZ")

    def edit(self, **fields: Any) -> None:
        """Somebody edits the flow's spec."""
        self.spec = msgspec.structs.replace(self.spec, **fields)

    def resume(self, request: str, *steps: str) -> None:
        """Somebody asks to run steps again."""
        self.edit(resume_from=ResumeFrom(id=request, steps=list(steps) or None))

    def look(self) -> FlowPlan:
        """Plan once; the status counts from now on, created Jobs exist without a phase, deleted ones are gone."""
        made = plan(self.snapshot(), now=self.now)
        if made.status is not None:
            self.status = msgspec.convert(msgspec.to_builtins(made.status), FlowStatus)
        for item in made.create:
            self._made += 1
            assert item.job not in self.jobs, f"{item.job} is made beside the one there is"
            self.jobs[item.job] = FakeJob(name=item.job, uid=f"job-{self._made}", created=self.now, last_transition="")
        for name, uid in made.delete if self.deletes else ():
            if self.jobs[name].uid == uid:
                del self.jobs[name]
        return made

    def snapshot(self) -> FlowSnapshot:
        """What the planner would see now."""
        flow = FlowView(
            namespace="team",
            name="flow",
            uid="flow-uid",
            version="7",
            deleting=self.deleting,
            retain=self.spec.job_retain_policy != "delete",
            steps=tuple(named(self.spec.flows).values()),
            status=self.status,
            spec=self.spec,
        )
        return FlowSnapshot(
            flow=flow,
            jobs=dict(self.jobs),
            foreign=self.foreign,
            templates=self._templates,
            flows=self.flows,
            ended=dict(self.ended),
            refused=dict(self.refused),
            reached=self.reached,
            places=dict(self.places),
        )

    @property
    def phase(self) -> str:
        return self.status.state.phase

    def state(self, step: str) -> str:
        """What is recorded of a step's Job, "" for nothing."""
        return next((each.state for each in self.status.job_status_list if each.name == f"flow-{step}"), "")

    def message(self, step: str) -> str:
        """Why, as recorded."""
        return next((each.message for each in self.status.job_status_list if each.name == f"flow-{step}"), "")


def told(text: str) -> Story:
    """A story of the flow whose spec is this YAML."""
    return Story(spec=msgspec.convert(yaml.safe_load(text), FlowSpec))


def made(plan: FlowPlan) -> list[str]:
    """Steps whose Jobs a plan makes."""
    return [item.step for item in plan.create]


def jobs(plan: FlowPlan) -> list[str]:
    """Names of the Jobs that a plan makes."""
    return [item.job for item in plan.create]


def _step(text: str) -> Step:
    name, _, targets = text.partition(" after ")
    return Step(name=name, depends_on=DependsOn(targets=targets.split(" and ")) if targets else None)
