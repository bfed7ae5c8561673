"""What a JobFlow's `status` holds: upstream's fields, and what ours need to survive a restart."""

from __future__ import annotations

from typing import Any

import msgspec


class RunningHistory(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One stretch of a state, as upstream lists it."""

    state: str = ""
    start_timestamp: str | None = None
    end_timestamp: str | None = None


class StepStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What is recorded of one Job of a step, by the name of the Job. `end_timestamp` set: the end is recorded and final.

    Beyond upstream: `step` and `item` (index of a fan-out, -1 for none) say what the Job is; `attempt` counts from 1; `uid` is
    the Job that was seen last, and while `state` is Retrying the one that has to go before the next; `retry_at` is when that
    may be; `outputs` are the values it left; `clusters` is where the hub sent it, and `placement` what data had to do with it.
    """

    name: str
    state: str = ""
    start_timestamp: str | None = None
    end_timestamp: str | None = None
    restart_count: int = 0
    running_histories: list[RunningHistory] = []
    message: str = ""
    step: str = ""
    item: int = -1
    attempt: int = 1
    uid: str = ""
    retry_at: str | None = None
    outputs: dict[str, str] = {}
    clusters: list[str] = []
    placement: str = ""

    @property
    def ended(self) -> bool:
        """Its end is recorded: nothing of it runs again unless a person asks for it."""
        return self.end_timestamp is not None


class FlowState(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """`status.state`."""

    phase: str = ""
    reason: str = ""
    message: str = ""


class Progress(msgspec.Struct, frozen=True, rename="camel"):
    """Steps in all, and those whose end is recorded."""

    steps: int = 0
    done: int = 0


class FlowStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """`status` of a JobFlow; `unKnowJobs` is upstream's spelling.

    Beyond upstream: `started_at`, `ended_at` (RFC 3339); `outcome` is what the flow came to while its exit handlers run;
    `resumed` the last request to resume that was carried out; `items` what fan-outs found in outputs, by step.
    """

    state: FlowState = FlowState()
    pending_jobs: list[str] = []
    running_jobs: list[str] = []
    failed_jobs: list[str] = []
    completed_jobs: list[str] = []
    terminated_jobs: list[str] = []
    unknow_jobs: list[str] = msgspec.field(name="unKnowJobs", default_factory=list)
    job_status_list: list[StepStatus] = []
    conditions: dict[str, Any] = {}
    started_at: str | None = None
    ended_at: str | None = None
    outcome: str = ""
    outcome_reason: str = ""
    outcome_message: str = ""
    resumed: str = ""
    items: dict[str, list[Any]] = {}
    progress: Progress | None = None
