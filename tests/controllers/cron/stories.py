"""Builders for CronJob stories: a CronJob that is looked at again and again, and Jobs by name and phase."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from apis import kinds
from apis.kinds import Kind
from controllers.cron.planner import CronPlan, Note, job_name, plan
from controllers.cron.snapshot import CronSnapshot, CronStatus, CronView, Refusal

CREATED = "2026-03-02T00:00:00Z"
"""A Monday."""


def at(text: str) -> datetime.datetime:
    """`10:07` is on the day of CREATED, UTC."""
    return datetime.datetime.fromisoformat(text if "T" in text else f"2026-03-02T{text}Z")


@dataclass(frozen=True)
class FakeJob:
    """A Job as a CronJob sees it."""

    name: str
    phase: str = ""
    namespace: str = "team"
    uid: str = "job-uid"
    version: str = "1"
    created: str = CREATED
    transition: str = ""
    owner_uid: str = "cron-uid"
    deleting: bool = False
    kind: Kind = kinds.JOB


class Story:
    """`look` plans, and the plan comes true as an API server would make it: one write after the other."""

    def __init__(self, schedule: str = "*/5 * * * *", *, created: str = CREATED, **given: Any) -> None:
        self.cron = CronView(
            namespace="team", name="tick", uid="cron-uid", version="7", created=at(created), schedule=schedule, **given
        )
        self.jobs: dict[str, FakeJob] = {}
        self.refusal: Refusal | None = None
        self.started: list[str] = []
        self.deleted: list[str] = []
        self.notes: list[Note] = []
        self._made = 0

    # --- the world ---------------------------------------------------------------------------------------------------
    def job(self, name: str, phase: str = "Running", **given: Any) -> FakeJob:
        """A Job exists; `10:05` names the run of that time."""
        name = job_name("tick", due=at(name)) if ":" in name else name
        self._made += 1
        self.jobs[name] = FakeJob(name=name, phase=phase, **{"uid": f"uid-{self._made}", **given})
        return self.jobs[name]

    def end(self, time: str, phase: str = "Completed", *, transition: str = "") -> None:
        """The run of that time ends."""
        name = job_name("tick", due=at(time))
        ended = at(transition or time).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.jobs[name] = replace(self.jobs[name], phase=phase, transition=ended)

    def gone(self, time: str) -> None:
        """The Job object of that run is gone."""
        del self.jobs[job_name("tick", due=at(time))]

    def edit(self, **given: Any) -> None:
        """The spec changes."""
        self.cron = replace(self.cron, **given)

    # --- looking -----------------------------------------------------------------------------------------------------
    def once(self, time: str) -> CronPlan:
        """One plan, nothing done."""
        snapshot = CronSnapshot(cron=self.cron, jobs={job.uid: job for job in self.jobs.values()}, refusal=self.refusal)
        return plan(snapshot, now=at(time))

    def look(self, time: str) -> CronPlan:
        """Plan and do until nothing is left to do; the last plan."""
        for _ in range(10):
            made = self.once(time)
            if made.status is not None:
                self.cron = replace(self.cron, status=msgspec.convert(msgspec.to_builtins(made.status), CronStatus))
                self.notes += made.notes
            elif made.create is not None or made.clean:
                self._do(made, time=time)
            else:
                return made
        raise AssertionError(f"never at rest: {made}")

    def _do(self, made: CronPlan, *, time: str) -> None:
        for mark in (*made.replace, *made.clean):
            gone = self.jobs.pop(mark.name)
            assert (gone.kind, gone.uid) == (mark.kind, mark.uid)
            self.deleted.append(mark.name)
        if made.create is not None:
            assert made.create.job not in self.jobs
            self.notes += made.warnings
            self.started.append(made.create.stamp)
            created = at(time).strftime("%Y-%m-%dT%H:%M:%SZ")
            self.job(made.create.job, phase="", created=created, kind=made.create.kind)

    # --- reading -----------------------------------------------------------------------------------------------------
    @property
    def active(self) -> list[str]:
        return [each.name for each in self.cron.status.active]

    @property
    def reason(self) -> str:
        """Of the condition while it is False."""
        return next((each.reason for each in self.cron.status.conditions if each.status == "False"), "")

    @property
    def message(self) -> str:
        return next((each.message for each in self.cron.status.conditions), "")

    @property
    def told(self) -> list[str]:
        return [note.reason for note in self.notes]


def name_of(time: str) -> str:
    """The Job of the run of that time."""
    return job_name("tick", due=at(time))
