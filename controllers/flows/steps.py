"""One Job of a step after the other: what is recorded of it, what its Job shows, and what follows.

A step is one Job, or one per item where it fans out. Everything here is a function of what was recorded, what is seen and the
time; the flow as a whole is the planner's.
"""

from __future__ import annotations

import datetime
import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from apis import naming
from controllers.flows.lifecycle import STEP, StepEvent, StepPhase
from controllers.flows.snapshot import FlowJob, FlowView, Placed
from controllers.flows.status import RunningHistory, StepStatus
from policies import durations
from policies.flows.spec import CONTINUE, Step

COMPLETED: Final = "Completed"
BAD_ENDS: Final = frozenset({"Failed", "Terminated"})
ENDS: Final = BAD_ENDS | {COMPLETED}
MAX_OUTPUT: Final = 1024
"""Bytes of one output."""
MAX_OUTPUTS: Final = 4096
"""Bytes of all outputs of one Job."""
LONGEST_BACKOFF: Final = 600.0
"""Seconds between two attempts at most."""


@dataclass(frozen=True, slots=True)
class Instance:
    """One Job that a step becomes: its name, and the item it is for (-1: the step does not fan out)."""

    step: Step
    name: str
    item: int = -1
    value: Any = None


def instances(flow: str, step: Step, items: Sequence[Any] | None) -> tuple[Instance, ...]:
    """The Jobs of a step; `items` None: one Job."""
    if items is None:
        return (Instance(step, naming.flow_job_name(flow, step=step.name)),)
    named = ((naming.flow_job_name(flow, step=f"{step.name}-{index}"), index, item) for index, item in enumerate(items))
    return tuple(Instance(step, name, index, item) for name, index, item in named)


def expected(flow: FlowView) -> tuple[Instance, ...]:
    """The Jobs that the steps of a flow become, as far as their items are known."""
    found: list[Instance] = []
    for step in (*flow.steps, *flow.handlers):
        over = step.fan_out
        items = None if over is None else over.items if over.items is not None else flow.status.items.get(step.name)
        found += instances(flow.name, step, items or None)
    return tuple(found)


_SAID: Final = {each.value: each for each in (StepPhase.SKIPPED, StepPhase.RETRYING, StepPhase.WAITING)}
"""Phases that a record names itself, where it does not show that of its Job."""


def phase_of(record: StepStatus | None) -> StepPhase:
    """Where the Job of a record is in its life."""
    if record is None:
        return StepPhase.WAITING
    said = _SAID.get(record.state)
    if said is not None:
        return said
    if record.ended:
        return StepPhase.COMPLETED if record.state == COMPLETED else StepPhase.FAILED
    return StepPhase.ALIVE


# --- observing -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sight:
    """What is seen of one Job: the Job, or the end it had when it vanished, or what the API server said to it, and where it was
    sent."""

    job: FlowJob | None
    refused: str = ""
    placed: Placed | None = None


def observed(record: StepStatus | None, instance: Instance, sight: Sight, *, now: str, cut: str = "") -> StepStatus | None:
    """The record after a look; `cut` ends whatever lives, for the reason it gives. None: nothing is known of it."""
    phase = phase_of(record)
    if record is not None and record.ended:
        return record
    job = sight.job
    if record is not None and phase in (StepPhase.RETRYING, StepPhase.WAITING) and (job is None or job.uid == record.uid):
        if cut and phase is StepPhase.RETRYING:
            return _ended(record, instance, StepEvent.SPENT, now=now, message=f"{cut}; {record.message}")
        return _refused(record, instance, sight, now=now) if sight.refused else record
    if job is None:
        # A recorded step without end whose Job vanished unseen is made again: nothing says that it ended.
        return _refused(record, instance, sight, now=now) if sight.refused else None
    return _seen(_sent(_this_attempt(record, instance, job), sight.placed), instance, job, now=now, cut=cut)


def _refused(record: StepStatus | None, instance: Instance, sight: Sight, *, now: str) -> StepStatus:
    fresh = record or StepStatus(name=instance.name, start_timestamp=now, step=instance.step.name, item=instance.item)
    return _ended(fresh, instance, StepEvent.SPENT, now=now, message=f"the API server refused its Job: {sight.refused}")


def _this_attempt(record: StepStatus | None, instance: Instance, job: FlowJob) -> StepStatus:
    """The record that the Job continues, or the one it begins."""
    if record is None:
        return StepStatus(name=instance.name, step=instance.step.name, item=instance.item, uid=job.uid)
    again = phase_of(record) is StepPhase.RETRYING
    attempt = record.attempt + 1 if again else 1 if phase_of(record) is StepPhase.WAITING else record.attempt
    return msgspec.structs.replace(
        record, step=instance.step.name, item=instance.item, uid=job.uid, attempt=attempt, retry_at=None, message=""
    )


def _sent(record: StepStatus, placed: Placed | None) -> StepStatus:
    """What is known of where it runs stays when nobody knows more."""
    if placed is None or not placed.clusters:
        return record
    return msgspec.structs.replace(record, clusters=list(placed.clusters), placement=placed.why)


def _seen(record: StepStatus, instance: Instance, job: FlowJob, *, now: str, cut: str) -> StepStatus:
    step = instance.step
    since = job.last_transition or job.created
    record = msgspec.structs.replace(
        record,
        state=job.phase,
        start_timestamp=job.created,
        restart_count=job.retry_count,
        running_histories=_histories(record, job),
    )
    if job.phase == COMPLETED:
        outputs, problem = _outputs(step, job)
        if not problem:
            return _ended(record, instance, StepEvent.SUCCEEDED, now=since, message="", outputs=outputs)
        return _failed(record, instance, now=now, end=since, message=problem)
    if job.phase in BAD_ENDS:
        return _failed(record, instance, now=now, end=since, message="")
    if cut:
        return _ended(record, instance, StepEvent.SPENT, now=now, message=cut)
    late = timeout_at(step, job.created)
    if late is not None and late <= moment(now):
        return _failed(record, instance, now=now, end=now, message=f"it did not end within {step.timeout}")
    STEP.step(phase_of(record), StepEvent.SEEN, story=f"Job {instance.name}")
    return record


def _histories(record: StepStatus, job: FlowJob) -> list[RunningHistory]:
    histories = list(record.running_histories)
    if job.phase and (not histories or histories[-1].state != job.phase):
        since = job.last_transition or job.created
        if histories and histories[-1].end_timestamp is None:
            histories[-1] = msgspec.structs.replace(histories[-1], end_timestamp=since)
        end = since if job.phase in ENDS else None
        histories.append(RunningHistory(state=job.phase, start_timestamp=since, end_timestamp=end))
    return histories


def _outputs(step: Step, job: FlowJob) -> tuple[dict[str, str], str]:
    """The values it left, and what is wrong with them."""
    found: dict[str, str] = {}
    for each in step.outputs or ():
        value = job.outputs.get(each.name)
        if value is None:
            return {}, f"it left no output {each.name}"
        if len(value.encode()) > MAX_OUTPUT:
            return {}, f"its output {each.name} has {len(value.encode())} bytes, at most {MAX_OUTPUT} are kept"
        found[each.name] = value
    if step.flow is not None:
        found = dict(job.outputs)
    size = sum(len(value.encode()) for value in found.values())
    return (
        ({}, f"its outputs have {size} bytes together, at most {MAX_OUTPUTS} are kept") if size > MAX_OUTPUTS else (found, "")
    )


def _failed(record: StepStatus, instance: Instance, *, now: str, end: str, message: str) -> StepStatus:
    """An attempt failed: the next, or the end."""
    step = instance.step
    if record.attempt >= step.attempts:
        return _ended(record, instance, StepEvent.SPENT, now=end, message=message)
    phase = STEP.step(phase_of(record), StepEvent.FAILED, story=f"Job {instance.name}")
    pause = min(durations.parse(step.retry.backoff if step.retry else "0s") * 2.0 ** (record.attempt - 1), LONGEST_BACKOFF)
    why = message or f"its Job is {record.state}"
    return msgspec.structs.replace(
        record,
        state=phase.value,
        retry_at=stamp(moment(now) + datetime.timedelta(seconds=pause)),
        message=f"attempt {record.attempt} of {step.attempts}: {why}",
    )


def _ended(
    record: StepStatus,
    instance: Instance,
    event: StepEvent,
    *,
    now: str,
    message: str,
    outputs: dict[str, str] | None = None,
) -> StepStatus:
    STEP.step(phase_of(record), event, story=f"Job {instance.name}")
    state = record.state if record.state in BAD_ENDS else COMPLETED if event is StepEvent.SUCCEEDED else "Failed"
    return msgspec.structs.replace(
        record, state=state, end_timestamp=now, retry_at=None, message=message, outputs=outputs or {}
    )


def decided(instance: Instance, event: StepEvent, *, now: str, message: str) -> StepStatus:
    """The record of a step that ends without a Job: skipped, or failed by its own words."""
    phase = STEP.step(StepPhase.WAITING, event, story=f"step {instance.step.name}")
    state = phase.value if phase is StepPhase.SKIPPED else "Failed"
    name, item = instance.name, instance.item
    return StepStatus(name=name, state=state, end_timestamp=now, message=message, step=instance.step.name, item=item)


def reset(record: StepStatus) -> StepStatus:
    """The record of a step that a person wants to run again: the Job it had has to go first."""
    phase = STEP.step(phase_of(record), StepEvent.RESET, story=f"Job {record.name}")
    return StepStatus(name=record.name, state=phase.value, step=record.step, item=record.item, attempt=0, uid=record.uid)


# --- summing up ------------------------------------------------------------------------------------------------------


class Sum(enum.Enum):
    """What a step came to so far, over all its Jobs."""

    OPEN = "nothing of it has begun"
    BEGUN = "some of it has begun and not all has ended"
    DONE = "all of it completed"
    SKIPPED = "it does not run"
    FAILED = "some of it failed and nothing of it runs"


_ALONE: Final[Mapping[StepPhase, Sum]] = {
    StepPhase.WAITING: Sum.OPEN,
    StepPhase.ALIVE: Sum.BEGUN,
    StepPhase.RETRYING: Sum.BEGUN,
    StepPhase.COMPLETED: Sum.DONE,
    StepPhase.FAILED: Sum.FAILED,
    StepPhase.SKIPPED: Sum.SKIPPED,
}
"""Of a step that is one Job."""


def summed(step: Step, found: Sequence[StepStatus | None]) -> Sum:
    """`found`: what is recorded of each of its Jobs. After a failed item no other begins, unless the step says Continue."""
    if len(found) == 1:
        return _ALONE[phase_of(found[0])]
    phases = [phase_of(record) for record in found]
    failed = StepPhase.FAILED in phases
    alive = StepPhase.ALIVE in phases or StepPhase.RETRYING in phases
    if failed and not alive and (step.failure_policy != CONTINUE or StepPhase.WAITING not in phases):
        return Sum.FAILED
    if phases and all(phase is StepPhase.SKIPPED for phase in phases):
        return Sum.SKIPPED
    if all(phase is StepPhase.WAITING for phase in phases):
        return Sum.OPEN
    over = all(phase in (StepPhase.COMPLETED, StepPhase.SKIPPED, StepPhase.FAILED) for phase in phases)
    return Sum.DONE if over and not failed else Sum.BEGUN


def facts(step: Step, found: Sequence[StepStatus | None], *, total: Sum) -> dict[str, Any]:
    """What conditions of later steps may look at."""
    known = [record for record in found if record is not None]
    state = {Sum.DONE: COMPLETED, Sum.SKIPPED: "Skipped", Sum.FAILED: "Failed", Sum.BEGUN: "Running", Sum.OPEN: "Waiting"}[
        total
    ]
    single = known[0] if len(known) == 1 and known[0].item < 0 else None
    return {
        "state": state,
        "outputs": dict(single.outputs) if single else {},
        "attempts": max((record.attempt for record in known), default=0),
        "message": next((record.message for record in known if record.message), ""),
        "items": [{"state": record.state, "outputs": dict(record.outputs)} for record in known if record.item >= 0],
    }


def values_of(step: str, found: Iterable[StepStatus | None]) -> dict[str, str]:
    """What `{{steps.<step>.outputs.<name>}}` stands for; of a fan-out the list of all items' values, as JSON."""
    known = [record for record in found if record is not None]
    if len(known) == 1 and known[0].item < 0:
        return {f"steps.{step}.outputs.{name}": value for name, value in known[0].outputs.items()}
    lists: dict[str, list[str]] = {}
    for record in known:
        for name, value in record.outputs.items():
            lists.setdefault(name, []).append(value)
    return {f"steps.{step}.outputs.{name}": msgspec.json.encode(listed).decode() for name, listed in lists.items()}


# --- time ------------------------------------------------------------------------------------------------------------


def moment(text: str) -> datetime.datetime:
    """An RFC 3339 time."""
    return datetime.datetime.fromisoformat(text)


def stamp(at: datetime.datetime) -> str:
    """RFC 3339 with whole seconds; never before the time it stands for."""
    whole = at.replace(microsecond=0)
    late = whole if whole == at else whole + datetime.timedelta(seconds=1)
    return late.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def timeout_at(step: Step, created: str) -> datetime.datetime | None:
    """When an attempt has taken too long; None where it may take as long as it does."""
    if not step.timeout or not created:
        return None
    return moment(created) + datetime.timedelta(seconds=durations.parse(step.timeout))


def by_name(records: Iterable[StepStatus]) -> Mapping[str, StepStatus]:
    """Records by the name of their Job."""
    return {record.name: record for record in records}
