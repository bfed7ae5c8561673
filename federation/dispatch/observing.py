"""What a Job's objects tell about its run: observations become events of the table, without choosing a cluster.

Several events may follow from one look (a part is Gone, a hold is lifted); they are applied in order to one record, which
is then written once.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from apis import keys
from apis.runs import BindingRun, Ground, Held, Part, PartState, RefusalReason
from federation.dispatch.going import Leaving, buried, declared, leaves, nobody_leaves
from federation.dispatch.look import Look, Patience
from federation.dispatch.snapshot import PASSED_ON, Case, Member, Order
from policies import durations, folding
from policies.runs import (
    CreateWork,
    DeleteWork,
    Effect,
    Gone,
    Hold,
    LocallyDeleted,
    PassOn,
    Pause,
    Refused,
    Restamp,
    Resume,
    RewriteManifest,
    RewriteRecord,
    Run,
    RunState,
    StartTimedOut,
    Withdrawn,
)
from policies.statuses import TERMINAL
from policies.verdicts import ENDED_HERE, Decision, Outcome, shortened
from policies.views import OWN, JobView, WorkView

_LAST_EPOCH: Final = keys.LAST_EPOCH.removeprefix(OWN)
_KNOWN_EPOCH: Final = re.compile(r"epoch (\d{1,9}) is known")
"""What an agent says with StaleEpoch."""


def look(
    case: Case,
    *,
    members: Mapping[str, Member],
    patience: Patience,
    again: bool = False,
    leaving: Leaving = nobody_leaves,
) -> Look:
    """Look at a live Job and its binding, if it has one. The Job must exist, and the binding must be its own. `again`: its
    policy says to place it again where it was deleted in its member (A6); `leaving`: why it has to leave a cluster."""
    job, binding = case.job, case.binding
    if job is None:
        raise ValueError(f"{case.key}: no Job to look at")
    record = binding.run if binding is not None and binding.run is not None else _first_record(job)
    ended = _ended(case)
    seen = Look(run=Run(record, ended=ended), before=record, sweeps=_strangers(case, record), again=again)
    unreadable = binding is not None and binding.run is None
    refused = binding is not None and binding.decision is not None and binding.decision.outcome is Outcome.REFUSED
    over = refused and binding is not None and binding.decision is not None and binding.decision.reason in ENDED_HERE
    if ended or unreadable or over or (refused and record.epoch == 0):
        seen.idle = True
        seen.effects += _left_running(case, record)
        return seen
    for cluster in sorted(record.parts):
        _look_at_part(seen, cluster, case=case, member=members.get(cluster), patience=patience, leaving=leaving)
    _look_at_holds(seen, case)
    _look_at_orders(seen, case)
    _look_at_edits(seen, case)
    parts = seen.run.record.parts
    # What was to be created and is to be stopped after all is not created.
    seen.effects = [
        each
        for each in dict.fromkeys(seen.effects)
        if not isinstance(each, CreateWork) or parts[each.cluster].state is PartState.GRANTED
    ]
    # While a Work of that name is anywhere, of whatever epoch, its pods may run: nothing is granted beside it.
    taken = any(not buried(work, members.get(work.cluster)) for work in case.works) and seen.run.state in (
        RunState.WAITING,
        RunState.HELD,
    )
    seen.idle = taken or bool(seen.sweeps) or job.deleting or (binding is not None and binding.left_alone)
    return seen


def _left_running(case: Case, record: BindingRun) -> list[Effect]:
    """One part's failure is the Job's: once it is recorded, the others stop."""
    ended = case.binding.ended if case.binding is not None else ""
    if ended not in TERMINAL or ended == "Completed" or len(record.parts) < 2:
        return []
    return [DeleteWork(work.cluster) for work in _running(case, record)]


def _ended(case: Case) -> str:
    """The terminal phase, from wherever it is known first: the binding, the Works, or the Job itself."""
    binding, job = case.binding, case.job
    if job is not None and job.ended:
        return job.phase
    if binding is None:
        return ""
    if binding.ended or not (case.works or case.lost):
        return binding.ended
    return folding.fold(binding, (*case.works, *case.lost)).ended


def work_of(case: Case, cluster: str) -> WorkView | None:
    """The Work that the case has in a cluster, of whatever epoch."""
    return next((work for work in case.works if work.cluster == cluster), None)


def _strangers(case: Case, record: BindingRun) -> list[WorkView]:
    """Works of an earlier epoch, of another Job of that name, or of a part that is Gone. What is newer than this look at the
    binding is left alone: the look is old. Without a binding all are, and a quorum read tells first that there is none."""
    found = []
    for work in sorted(case.works, key=lambda each: each.cluster):
        if work.record is None or work.deleting:
            continue
        part = record.parts.get(work.cluster)
        same = work.record.job == record.job
        if same and work.record.epoch > record.epoch and case.binding is not None:
            continue
        current = same and work.record.epoch == record.epoch and part is not None and part.state is not PartState.GONE
        if not current:
            found.append(work)
    return found


def _look_at_part(seen: Look, cluster: str, *, case: Case, member: Member | None, patience: Patience, leaving: Leaving) -> None:
    part = seen.run.record.parts[cluster]
    work = work_of(case, cluster)
    if part.state is PartState.GONE:
        return
    if member is not None and member.lost is not None and part.fence < member.lost.fence:
        declared(seen, cluster, part, lost=member.lost, spent=_spent(work) if work is not None else 0)
    elif work is None and part.state is PartState.GRANTED and leaves(seen, cluster, leaving=leaving):
        return  # it was not even sent
    elif work is None:
        _absent(seen, cluster, part)
    elif not _belongs(work, seen.run.record):
        return  # the name is taken by another epoch or Job: wait until it is gone
    elif part.state is PartState.STOPPING:
        if not work.deleting:
            seen.effects.append(DeleteWork(cluster))
    else:
        why = _late(seen, work, case=case, patience=patience) or _stuck(seen, work, case=case, patience=patience)
        spent = sum(_spent(each) for each in _running(case, seen.run.record))
        spent = max(spent, _spent(work))
        if not _granted(seen, part, work=work, member=member, late=why, spent=spent) and work.phase not in TERMINAL:
            leaves(seen, cluster, leaving=leaving, spent=spent)


def _belongs(work: WorkView, record: BindingRun) -> bool:
    return work.record is not None and (work.record.job, work.record.epoch) == (record.job, record.epoch)


def _absent(seen: Look, cluster: str, part: Part) -> None:
    if part.state is PartState.STOPPING:
        seen.proofs.append(cluster)
        seen.apply(Gone(cluster, Ground.CONFIRMED))
    else:
        # Written in the binding and not created yet: a crash between the two writes, or a create that failed.
        seen.effects.append(CreateWork(cluster))


def _granted(seen: Look, part: Part, *, work: WorkView, member: Member | None, late: Decision | None, spent: int) -> bool:
    """Whether there was something to do. `spent`: restarts of all parts, because all of them stop with this one."""
    cluster = work.cluster
    fence = member.fence if member is not None else None
    stale = fence is not None and fence != part.fence
    if work.deleting:
        seen.apply(Withdrawn(cluster, spent=spent))
    elif work.locally_deleted:
        seen.apply(LocallyDeleted(cluster, spent=spent, again=seen.again))
        if seen.again:
            text = f"{cluster}: deleted in the member; its policy says to place it again"
            seen.why = Decision(outcome=Outcome.WAITING, reason=Held.LOCALLY_DELETED.value, message=text)
    elif work.refusal is not None and work.refusal is not RefusalReason.STALE_FENCE:
        seen.apply(Refused(cluster, work.refusal, spent=spent, newest=_newest(work)))
    elif fence is not None and stale and not work.applied and not work.started:
        seen.apply(Restamp(cluster, fence))
    elif work.record is not None and work.record.fence != part.fence:
        seen.effects.append(RewriteRecord(cluster))
    elif late is not None and member is not None and member.cluster.ready == "True":
        seen.apply(StartTimedOut(cluster, spent=spent))
        seen.why = late
    else:
        return False
    return True


def _newest(work: WorkView) -> int:
    """The epoch that a member says it knows; 0 where it does not."""
    found = _KNOWN_EPOCH.search(work.message)
    return int(found.group(1)) if found is not None else 0


def _first_record(job: JobView) -> BindingRun:
    """Of a Job without a binding: it goes on where a binding of it that was let go left off."""
    text = job.settings.get(_LAST_EPOCH, "")
    return BindingRun(job=job.uid, least=int(text) if text.isdigit() else 0)


def _spent(work: WorkView) -> int:
    status = work.status
    return status.retry_count if status is not None else 0


def _late(seen: Look, work: WorkView, *, case: Case, patience: Patience) -> Decision | None:
    """Counted from this leader's first sight of the Work: a new leader gives it the whole time once more."""
    limit = patience.with_start(seen.run.record, cluster=work.cluster)
    if work.paused or work.gathered or case.waited.get(work.cluster, 0.0) < limit:
        return None
    ran = "its minimum has not run" if work.started else "no pod of it has run"
    text = f"{work.cluster}: {ran} within {limit:.0f} s"
    return Decision(outcome=Outcome.WAITING, reason="StartTimedOut", message=text)


def _stuck(seen: Look, work: WorkView, *, case: Case, patience: Patience) -> Decision | None:
    """The gang has not started, and its member has said for long enough why it may never."""
    trouble, limit = work.trouble, patience.with_trouble(seen.run.record, cluster=work.cluster)
    if trouble is None or case.troubled.get(work.cluster, 0.0) < limit:
        return None
    reason, message = trouble
    text = f"{work.cluster}: {shortened(message)}; withdrawn after {limit:.0f} s of it"
    return Decision(outcome=Outcome.WAITING, reason=reason, message=text)


def start_timeout_of(text: str, *, default: int) -> int:
    """The user's `start-timeout`; what cannot be read counts as not given."""
    try:
        return durations.parse(text) if text else default
    except durations.InvalidDuration:
        return default


def _look_at_holds(seen: Look, case: Case) -> None:
    """Suspension by annotation, and Commands. What was aborted stays so when a suspension is lifted."""
    job, held = case.job, seen.run.record.held
    suspended = job is not None and job.settings.get("suspend", "").lower() == "true"
    stays = case.binding is not None and case.binding.preserves  # what runs is left to its member
    leaving = job is not None and job.deleting and seen.run.state is RunState.GRANTED and not stays
    spent = 0
    if seen.run.state is RunState.GRANTED:
        spent = sum(_spent(work) for work in case.works if _belongs(work, seen.run.record))
    if leaving or (case.order is Order.ABORT and held is not Held.ABORTED):
        seen.apply(Hold(Held.ABORTED, spent=spent))
    elif case.order is Order.RESUME and held is not None and not suspended:
        seen.apply(Resume())
    elif suspended and held is None:
        seen.apply(Hold(Held.SUSPENDED, spent=spent))
    elif not suspended and held is Held.SUSPENDED:
        seen.apply(Resume())
    if case.order in (Order.ABORT, Order.RESUME):
        # A Job that a policy aborted in its member is resumed there.
        there = case.order is Order.RESUME and held is None and seen.run.state is RunState.GRANTED
        seen.carried_out(case.order_uid, asked=case.order.value if there else "")


def _look_at_orders(seen: Look, case: Case) -> None:
    """Commands that members carry out. Of a Job that does not run nothing is restarted; to end it is the planner's."""
    if case.order in PASSED_ON and seen.run.state is RunState.GRANTED:
        seen.carried_out(case.order_uid, asked=case.order.value)
    elif case.order is Order.RESTART:
        seen.carried_out(case.order_uid)
    record = seen.run.record
    if not record.asked or seen.run.state is not RunState.GRANTED:
        return
    text = order_text(record)
    seen.effects += [PassOn(work.cluster) for work in _running(case, record) if work.command != text]


def _running(case: Case, record: BindingRun) -> list[WorkView]:
    """Works of the run that stand and whose member's Job has not ended."""
    granted = [name for name, part in sorted(record.parts.items()) if part.state is PartState.GRANTED]
    works = [work for name in granted if (work := work_of(case, name)) is not None and _belongs(work, record)]
    return [work for work in works if not work.deleting and work.phase not in TERMINAL]


def order_text(record: BindingRun) -> str:
    """What the Works of a run say of the last Command: the same bytes for the same order (protocol.md 2)."""
    return msgspec.json.encode({"action": record.asked, "id": record.order}, order="sorted").decode()


def _look_at_edits(seen: Look, case: Case) -> None:
    """The Job was edited since the manifests of its run were made, or the override policies that they were made by were."""
    job, record = case.job, seen.run.record
    if job is None or job.deleting or job.problem is not None or seen.run.state is not RunState.GRANTED:
        return
    if not _as_divided(job, record):
        return  # its status says that the edit is not carried out
    running = [work for work in _running(case, record) if not work.paused]
    edited = [
        work
        for work in running
        if work.gang is not None and (0 < work.made_from < job.generation or work.cluster in case.outdated)
    ]
    seen.effects += [RewriteManifest(work.cluster) for work in edited]


def paused(case: Case, record: BindingRun, *, suspended: bool, on: Collection[str]) -> list[Effect]:
    """Works of the run that do not say yet what its policy says of dispatching."""
    wanted = {work.cluster: suspended or work.cluster in on for work in _running(case, record)}
    return [Pause(work.cluster, wanted[work.cluster]) for work in _running(case, record) if work.paused != wanted[work.cluster]]


def _as_divided(job: JobView, record: BindingRun) -> bool:
    """The Job has the tasks, replicas and minimum by which it was divided: indices of pods that run are not divided anew."""
    now = {task.name: task.replicas for task in job.gang.tasks} if job.gang is not None else {}
    shared = [part.shares for part in record.parts.values() if part.shares]
    return all({name: share.total for name, share in each.items()} == now for each in shared)
