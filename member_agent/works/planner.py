"""The next step for a Work: one pure function from what is known to one effect. Nothing is remembered between steps.

Rules: protocol.md 1 (refusals), 2 (A1, A3 to A6). The order of the checks is the order of the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from apis import keys, kinds
from apis.runs import RefusalReason
from member_agent.checks import elsewhere, impossible
from member_agent.works.lifecycle import Stage
from member_agent.works.remains import Left, Trace
from member_agent.works.snapshot import Snapshot
from member_agent.works.upstream import unsupported

ALLOWED = {(kinds.JOB.api_version, kinds.JOB.kind): kinds.JOB}
"""Kinds that a Work may carry to this member (protocol.md 8)."""

PROTECTED = ("kube-", "karmada-")
FINAL = frozenset({"Completed", "Failed", "Terminated"})
"""Phases that nothing leads out of."""
ENDS = FINAL | {"Aborted"}


@dataclass(frozen=True, slots=True)
class AskLease:
    """Read the member Lease by quorum, now that the Work was seen (A1)."""


@dataclass(frozen=True, slots=True)
class AskJob:
    """Read the local Job by quorum: absence must be certain."""


@dataclass(frozen=True, slots=True)
class LoadManifest:
    """Read the Work again: its manifest is needed and was not kept."""


@dataclass(frozen=True, slots=True)
class Accept:
    """Take room for the gang, then make the Job; without room this becomes Refuse(NoRoom)."""


@dataclass(frozen=True, slots=True)
class Lack:
    """Say what is missing that the hub sends beside the Job, and wait for it a while."""

    message: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """Write Applied=False."""

    reason: RefusalReason
    message: str


@dataclass(frozen=True, slots=True)
class Adopt:
    """The Job of this very run is there, made from a Work that has gone: it belongs to this Work now."""


@dataclass(frozen=True, slots=True)
class Update:
    """Bring the local Job's spec in line with the manifest."""


@dataclass(frozen=True, slots=True)
class PassOn:
    """Write the hub's order on the local Job: whoever runs the Job carries it out."""


@dataclass(frozen=True, slots=True)
class Release:
    """Every part of the gang over clusters is prepared: write it on the local Job (protocol.md 5)."""


@dataclass(frozen=True, slots=True)
class LetGo:
    """Take our marks off the local Job: it stays, and is this member's own from then on."""


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Mark the local Job as being deleted; its finalizer keeps it."""


@dataclass(frozen=True, slots=True)
class ListPods:
    """Read the Job's pods by quorum, so that none is missed by a watch that lags."""


@dataclass(frozen=True, slots=True)
class RecordNodes:
    """Write on the local Job which pods may run where."""

    traces: Mapping[str, Trace] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AskNodes:
    """Read these nodes by quorum: only one that was certainly deleted counts as declared (A4)."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StopPods:
    """Ask for these pods to end, with their own grace."""

    uids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReportLeft:
    """Write Gone=False with names: somebody must look at a node."""

    left: Left


@dataclass(frozen=True, slots=True)
class ReportLost:
    """Write Gone=True, LocallyDeleted."""


@dataclass(frozen=True, slots=True)
class ReleaseJob:
    """Remove our finalizer from the local Job."""


@dataclass(frozen=True, slots=True)
class Confirm:
    """Remove the Work's finalizer: the word the hub waits for."""


@dataclass(frozen=True, slots=True)
class Report:
    """Nothing to do but to tell how the Job stands."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing now; look again after so many seconds, or at the next event."""

    seconds: float | None = None


Step = (
    AskLease
    | AskJob
    | LoadManifest
    | Accept
    | Lack
    | Refuse
    | Adopt
    | Update
    | PassOn
    | Release
    | LetGo
    | DeleteJob
    | ListPods
    | RecordNodes
    | AskNodes
    | StopPods
    | ReportLeft
    | ReportLost
    | ReleaseJob
    | Confirm
    | Report
    | Wait
)


def stage_of(snapshot: Snapshot) -> Stage:
    """Where the Work stands, from what is durable."""
    work = snapshot.work
    if work.deleting:
        return Stage.WITHDRAWN if keys.WORK_FINALIZER in work.finalizers else Stage.CONFIRMED
    if work.gone:
        return Stage.LOST
    if snapshot.ours:
        return Stage.VANISHING if snapshot.job is not None and snapshot.job.deleting else Stage.APPLIED
    if work.applied:
        return Stage.VANISHING
    return Stage.REFUSED if work.refusal is not None else Stage.SEEN


def next_step(snapshot: Snapshot, *, retry: float) -> Step:
    """What to do next. `retry` is how long to wait for something that only time or other programs bring, in seconds."""
    match stage_of(snapshot):
        case Stage.SEEN:
            return _enter(snapshot, retry=retry)
        case Stage.REFUSED:
            return _again(snapshot, retry=retry)
        case Stage.APPLIED:
            return _applied(snapshot)
        case Stage.VANISHING | Stage.LOST as stage:
            return _vanishing(snapshot, lost=stage is Stage.LOST)
        case Stage.WITHDRAWN:
            return _withdrawn(snapshot)
        case _:
            return Wait()


# --- entering --------------------------------------------------------------------------------------------------------


def _enter(snapshot: Snapshot, *, retry: float) -> Step:
    work = snapshot.work
    if work.suspended:
        return Wait()
    unfit = _unfit(snapshot)
    if unfit is not None:
        return unfit
    if work.record is not None and work.record.exclusive:
        if snapshot.lease is None:
            return AskLease()
        if not snapshot.lease.cluster:
            return Wait(retry)  # no fencer holds the Lease yet: nothing starts, nothing is refused
        stale = _stale(snapshot)
        if stale is not None:
            return stale
    taken = _taken(snapshot)
    if taken is None and snapshot.lacking:
        return Lack(snapshot.lacking)
    return taken or Accept()


def _again(snapshot: Snapshot, *, retry: float) -> Step:
    """A refusal stands; only StaleFence is looked at again, because the hub may have stamped the Work anew."""
    refusal = snapshot.work.refusal
    if refusal is None or refusal.reason != RefusalReason.STALE_FENCE:
        return Wait()
    step = _enter(snapshot, retry=retry)
    return Wait() if isinstance(step, Refuse) and step.reason is RefusalReason.STALE_FENCE else step


def _unfit(snapshot: Snapshot) -> Refuse | LoadManifest | None:
    """What no time can mend: record, kind, name, spec."""
    work, target = snapshot.work, snapshot.work.target
    if work.record is None:
        return Refuse(RefusalReason.INVALID, work.unreadable)
    if not target.name:
        return Refuse(RefusalReason.INVALID, "spec.workload.manifests[0]: no readable object with a name")
    if (target.api_version, target.kind) not in ALLOWED:
        return Refuse(RefusalReason.KIND_MISSING, f"{target.kind} of {target.api_version} is not run by this member")
    if target.namespace == keys.SYSTEM_NAMESPACE or target.namespace.startswith(PROTECTED) or not target.namespace:
        return Refuse(RefusalReason.DENIED, f"namespace {target.namespace or '(none)'} takes no work from the hub")
    if snapshot.offered is None:
        return Refuse(RefusalReason.INVALID, snapshot.offered_error) if snapshot.offered_error else LoadManifest()
    fault = _fault(snapshot)
    if fault is None:
        return None
    code = RefusalReason.EXTENSION_UNSUPPORTED if fault[0] == "NotSupported" else RefusalReason.INVALID
    return Refuse(code, fault[1])


def _fault(snapshot: Snapshot) -> tuple[str, str] | None:
    """Reason and message for a manifest that cannot be run in this member."""
    offered, record = snapshot.offered, snapshot.work.record
    assert offered is not None
    fault = impossible(offered) or elsewhere(offered, scheduler=snapshot.scheduler)
    if fault is not None or not snapshot.upstream or record is None:
        return fault
    missing = unsupported(offered, record)
    return ("NotSupported", f"this member leaves Jobs to Volcano, which cannot do this: {missing}") if missing else None


def _stale(snapshot: Snapshot) -> Refuse | None:
    """A1: this cluster holds the Lease at the fence number that the Work was granted with."""
    lease, record = snapshot.lease, snapshot.work.record
    assert lease is not None and record is not None
    if lease.cluster != snapshot.cluster_uid:
        return Refuse(
            RefusalReason.STALE_FENCE, f"the member Lease is held for cluster {lease.cluster}, this is {snapshot.cluster_uid}"
        )
    if lease.fence != record.fence:
        return Refuse(
            RefusalReason.STALE_FENCE, f"granted with fence number {record.fence}, the member Lease has {lease.fence}"
        )
    return None


def _taken(snapshot: Snapshot) -> Refuse | None:
    """What is here already: a newer epoch, another Job of the name, a closed queue."""
    work, record, job = snapshot.work, snapshot.work.record, snapshot.job
    assert record is not None
    if snapshot.newest_epoch > record.epoch:
        return Refuse(
            RefusalReason.STALE_EPOCH, f"epoch {record.epoch} of this Job, epoch {snapshot.newest_epoch} is known here"
        )
    if job is not None and not snapshot.ours:
        whose = f"epoch {job.record.epoch} of hub Job {job.record.job}" if job.managed and job.record else "made here"
        return Refuse(RefusalReason.NAME_TAKEN, f"Job {work.target.namespace}/{work.target.name} is there already ({whose})")
    if snapshot.queue is not None and not snapshot.queue.open:
        return Refuse(RefusalReason.QUEUE_CLOSED, f"queue {snapshot.queue.name} is {snapshot.queue.state} in this member")
    return None


# --- running ---------------------------------------------------------------------------------------------------------


def _applied(snapshot: Snapshot) -> Step:
    work, job = snapshot.work, snapshot.job
    assert job is not None
    if job.work_uid != work.uid:
        return Adopt()
    if snapshot.endangered:
        return RecordNodes({**snapshot.recorded, **snapshot.endangered})
    if work.order and work.order != job.order and job.phase not in FINAL:
        return PassOn()
    released = work.record is not None and work.record.release and job.record is not None and not job.record.release
    if released and job.phase not in ENDS:
        return Release()
    if work.suspended:
        return Report()
    if job.work_digest == work.digest or job.phase in FINAL or snapshot.offered_error:
        return Report()  # a Work that has ended shrinks to its identity: that is no order
    if snapshot.refused_edit == work.digest:
        return Report()
    if snapshot.offered is None:
        return LoadManifest()
    return Update() if _fault(snapshot) is None else Report()


# --- ending ----------------------------------------------------------------------------------------------------------


def _stopping(snapshot: Snapshot) -> Step | None:
    """Record, stop, wait; None once every pod is known to be gone."""
    if not snapshot.listed:
        return ListPods()
    fresh = {uid: trace for uid, trace in snapshot.traces.items() if uid not in snapshot.recorded}
    if fresh:
        return RecordNodes({**snapshot.recorded, **fresh})
    if snapshot.to_stop:
        return StopPods(snapshot.to_stop)
    if snapshot.left.pods:
        return _waiting(snapshot.left)
    return Wait(snapshot.quiet) if snapshot.quiet > 0 else None


def _waiting(left: Left) -> Step:
    """Some pods may still run."""
    if left.unknown:
        return AskNodes(left.unknown)
    return ReportLeft(left) if left.unreachable else Wait(left.again)


def _vanishing(snapshot: Snapshot, *, lost: bool) -> Step:
    """A6: the same care as a withdrawal, and the word Gone=True before the local record goes."""
    job = snapshot.job
    if job is not None and snapshot.ours and not job.deleting:
        return Report()  # gone was said and somebody put the Job back by hand: left alone, the hub decides
    if job is None or not snapshot.ours:
        if job is None and not snapshot.asked:
            return AskJob()
        if lost:
            return Wait()
        if snapshot.left.pods:
            return _waiting(snapshot.left)
        return Wait(snapshot.quiet) if snapshot.quiet > 0 else ReportLost()
    if not lost:
        return _stopping(snapshot) or ReportLost()
    return ReleaseJob() if keys.RUN_FINALIZER in job.finalizers else Wait()


def _withdrawn(snapshot: Snapshot) -> Step:
    """H2's other half: stop everything, wait for the ground, confirm."""
    job = snapshot.job
    if snapshot.work.preserved and job is not None and not job.deleting:
        return LetGo() if snapshot.ours else Confirm()
    if job is None or not snapshot.ours:
        if job is None and not snapshot.asked:
            return AskJob()
        if snapshot.left.pods:
            return _waiting(snapshot.left)
        return Wait(snapshot.quiet) if snapshot.quiet > 0 else Confirm()
    if not job.deleting:
        return DeleteJob()
    step = _stopping(snapshot)
    if step is not None:
        return step
    return ReleaseJob() if keys.RUN_FINALIZER in job.finalizers else AskJob()
