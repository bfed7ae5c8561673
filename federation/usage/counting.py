"""Which run a Work tells the end of. Pure."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from policies import durations, parts, usage
from policies.runs import Run
from policies.shapes import Gang, Pool
from policies.statuses import TERMINAL
from policies.usage import Ran
from policies.views import BindingView, JobView, WorkView


@dataclass(frozen=True, slots=True)
class Counted:
    """A run, and the report it goes into: namespace, day, queue and cluster."""

    namespace: str
    day: str
    queue: str
    cluster: str
    ran: Ran


def ended(
    work: WorkView,
    *,
    gone: bool,
    job: JobView | None,
    binding: BindingView | None,
    now: datetime.datetime,
    pool: Pool,
) -> Counted | None:
    """The run that has ended, None while it has not, never ran, or when nobody knows what it asked for. `gone`: the Work is;
    what ran there until now was stopped."""
    record, over = work.record, work.phase in TERMINAL
    if record is None or not (over or gone):
        return None
    status = work.status
    end = _moment(status.state.last_transition_time or "") if over and status is not None else now
    begin = _moment(work.began)
    if end is None:
        return None
    if begin is not None:
        seconds = (end - begin).total_seconds()
    else:
        seconds = _duration(status.running_duration or "") if over and status is not None else 0.0
    gang, queue = _asked(work, job=job, binding=binding, pool=pool)
    if gang is None or seconds <= 0:
        return None
    end = end.astimezone(datetime.UTC)
    known = job if job is not None and job.uid == record.job else None
    whole = binding is None or binding.run is None or not any(each.shares for each in binding.run.parts.values())
    ran = Ran(
        id=usage.run_id(record.job, epoch=record.epoch, cluster=work.cluster, ended=end),
        ended=end.strftime("%Y-%m-%dT%H:%M:%SZ"),
        seconds=seconds,
        requests=gang.requests,
        template=known.template if known is not None and whole else "",
        completed=work.phase == "Completed",
    )
    return Counted(work.binding[0], end.strftime("%Y-%m-%d"), queue, work.cluster, ran)


def _asked(work: WorkView, *, job: JobView | None, binding: BindingView | None, pool: Pool) -> tuple[Gang | None, str]:
    """What its pods ask for: by the Work, or, where that was reduced to its identity, by the Job."""
    if work.gang is not None:
        return work.gang, work.queue
    record = work.record
    if record is None or job is None or job.uid != record.job or job.gang is None:
        return None, ""
    part = None
    if binding is not None and binding.run is not None and Run(binding.run).record.epoch == record.epoch:
        stood = binding.run.parts.get(work.cluster)
        part = parts.recorded(work.cluster, stood) if stood is not None else None
    known = part is not None and {each.name for each in part.tasks} <= {each.name for each in job.gang.tasks}
    return (parts.gang_of(part, job.gang, pool=pool) if part is not None and known else job.gang), job.queue


def _moment(text: str) -> datetime.datetime | None:
    try:
        return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")) if text else None
    except ValueError:
        return None


def _duration(text: str) -> float:
    try:
        return durations.golang(text) if text else 0.0
    except durations.InvalidDuration:
        return 0.0
