"""Watches Works, local Jobs, pods and nodes; takes one step after the other for the Work that an event concerns.

One worker per Work. Between two steps everything is looked at again, what was just written included, so that an agent that
is killed anywhere goes on where it stood.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

import msgspec

from apis import keys
from apis.capacity import Orphan
from apis.runs import RefusalReason, RunRecord, encode
from machinery import errors
from machinery.clock import Clock, stamp
from machinery.informer import Change, Informer, Key, is_newer
from machinery.port import Port
from machinery.runner import WorkMetrics, run_workers
from machinery.workqueue import WorkQueue
from member_agent.asking import Foresight
from member_agent.ledger import Ledger
from member_agent.room import Shortage
from member_agent.settings import ProtocolTimes, WorkSettings
from member_agent.views import JobView, NodeView, PodView, PriorityView, Projector, QueueView, WorkView, project_work
from member_agent.works import plain, planner, remains, report
from member_agent.works.applier import WorkApplier
from member_agent.works.epochs import Epochs
from member_agent.works.lease import LeaseReader
from member_agent.works.pace import Pace
from member_agent.works.planner import Step, next_step
from member_agent.works.remains import Left, Remains
from member_agent.works.snapshot import LeaseAnswer, Snapshot
from policies.capacities import only_the_member_can_tell
from policies.dependencies import PRIVILEGED
from policies.shapes import Gang

MAX_STEPS = 24
"""Steps of one Work in one go; more than any life needs, so that a mistake cannot spin."""

ENDING_COALESCE = 0.05
"""Seconds that events of pods under withdrawal wait for company."""


CONFIRMED_KEPT = 4096
"""Works whose end was confirmed and that are remembered, for Jobs that land late; far more than end within a time-out."""

REFUSED = {
    errors.Invalid: RefusalReason.INVALID,
    errors.TooLarge: RefusalReason.INVALID,
    errors.Forbidden: RefusalReason.DENIED,
    errors.NotFound: RefusalReason.KIND_MISSING,
}
"""What the member's API server says to the creation of a Job, as a refusal."""


@dataclass(frozen=True, slots=True)
class Stores:
    """The informers this role reads."""

    works: Informer[WorkView]
    jobs: Informer[JobView]
    pods: Informer[PodView]
    nodes: Informer[NodeView]
    queues: Informer[QueueView]
    priorities: Informer[PriorityView]


@dataclass(slots=True)
class Talk:
    """What was asked during one reconciliation: an answer is as old as the reconciliation at most, and older than no change of
    what it was asked about."""

    about: tuple[str, RunRecord | None] = ("", None)
    lease: LeaseAnswer | None = None
    no_job: bool = False

    def turn_to(self, work: WorkView) -> None:
        """Answers about another Work of the name, or about another run record, say nothing about this one: the Lease must be
        read after the Work was seen as it is (protocol.md 2, A1)."""
        if self.about != (work.uid, work.record):
            self.about, self.lease, self.no_job = (work.uid, work.record), None, False


@dataclass(slots=True)
class Memory:
    """What this process knows of one Work beyond its informers; all of it can be found out again."""

    job_uid: str = ""
    unsure_until: float = 0.0
    """Until then a creation of the Job that got no answer may still take effect."""
    listed: tuple[PodView, ...] | None = None
    stopped: set[str] = field(default_factory=set)
    manifest: tuple[str, bytes] | None = None
    refused_edit: tuple[str, planner.Refuse] | None = None
    """Digest of a manifest that the Job cannot be changed to, and why."""
    lacking_until: float | None = None
    """Boot second until which what the Job names is waited for; None while nothing is missing."""
    work: WorkView | None = None
    job: JobView | None = None
    due: float | None = None


class WorkController:
    """The works role of one member. `upstream`: a Volcano runs its Jobs; `foresight`: the scheduler, where pods are ours to
    place."""

    def __init__(
        self,
        *,
        hub: Port,
        local: Port,
        stores: Stores,
        projector: Projector,
        ledger: Ledger,
        clock: Clock,
        cluster: str,
        cluster_uid: str,
        scheduler: str,
        upstream: bool,
        settings: WorkSettings,
        times: ProtocolTimes,
        foresight: Foresight | None = None,
    ) -> None:
        self._foresight = foresight
        self._stores = stores
        self._projector = projector
        self._ledger = ledger
        self._clock = clock
        self._cluster_uid = cluster_uid
        self._scheduler = scheduler
        self._upstream = upstream
        self._settings = settings
        self._quiet_until = clock.boot() + times.quiet
        self._unanswered = times.unanswered
        self._applier = WorkApplier(hub=hub, local=local, upstream=upstream, account=settings.impersonate)
        self._lease = LeaseReader(hub, cluster=cluster)
        self._pace = Pace(clock, per_second=settings.writes_per_second)
        self._remains = Remains(kubelet=times.kubelet)
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._memory: dict[str, Memory] = {}
        self._ending: set[Key] = set()
        self._epochs = Epochs()
        self._work_of: dict[str, Key] = {}
        self._confirmed: dict[str, None] = {}
        self._late: dict[Key, Key] = {}
        stores.nodes.subscribe(self._node_changed)
        stores.pods.subscribe(self._pod_changed)
        stores.jobs.subscribe(self._job_changed)
        stores.works.subscribe(self._work_changed)

    async def run(self, metrics: WorkMetrics | None = None) -> None:
        """Until cancelled."""
        for informer in (
            self._stores.works,
            self._stores.jobs,
            self._stores.pods,
            self._stores.nodes,
            self._stores.queues,
            self._stores.priorities,
        ):
            await informer.wait_synced()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._lease.run(), name="lease-reader")
            group.create_task(
                run_workers(self._queue, self._reconcile, workers=self._settings.workers, name="works", metrics=metrics)
            )

    def orphans(self) -> tuple[Orphan, ...]:
        """Hub-run Jobs whose Work is missing without its deletion having been seen (A3): kept running, reported."""
        return tuple(
            Orphan(namespace=job.namespace, name=job.name, job=job.record.job, epoch=job.record.epoch)
            for job in self._stores.jobs.sorted()
            if job.managed and not job.deleting and job.record is not None and self._stores.works.get(*job.work) is None
        )

    # --- waking ------------------------------------------------------------------------------------------------------

    def _work_changed(self, change: Change[WorkView]) -> None:
        work, old = change.new, change.old
        either = work or old
        if either is None or plain.kind_of(either, more=self._settings.more_kinds) is not None:
            return  # an object without a run: `PlainController`
        if old is not None and (work is None or work.uid != old.uid):
            self._work_gone(old)
            old = None
        if work is None:
            return
        if work.record is not None:
            self._epochs.learn(work.record.job, work.record.epoch)
        if answered(work, old):
            self._ledger.decided(work.uid)
        elif old is None or answered(old, None) or restamped(work, old):
            self._ledger.work_seen(work)
        self._memory.setdefault(work.uid, Memory())
        self._queue.add(change.key)

    def _work_gone(self, work: WorkView) -> None:
        self._memory.pop(work.uid, None)
        self._ending.discard((work.namespace, work.name))
        self._ledger.decided(work.uid)
        if not any(job.work_uid == work.uid for job in [self._stores.jobs.get(work.target.namespace, work.target.name)] if job):
            self._ledger.release(work.uid)

    def _job_changed(self, change: Change[JobView]) -> None:
        job = change.new or change.old
        if job is None or not job.managed:
            return
        if job.record is not None:
            self._epochs.learn(job.record.job, job.record.epoch)
        memory = self._memory.get(job.work_uid)
        fresh = memory.job if memory is not None else None
        if memory is not None and fresh is not None and fresh.uid == job.uid:
            caught_up = change.new is None or not is_newer(fresh.version, job.version)
            memory.job = None if caught_up else fresh
        if change.new is None:
            self._remains.forget(job.uid)
            self._work_of.pop(job.uid, None)
            self._late.pop(job.work, None)
        else:
            self._work_of[job.uid] = job.work
            if job.work_uid in self._confirmed and not job.deleting:
                self._late[job.work] = change.key
        self._queue.add(job.work)

    def _pod_changed(self, change: Change[PodView]) -> None:
        self._remains.pod_changed(change, now=self._clock.boot())
        pod = change.new or change.old
        work = self._work_of.get(pod.owner) if pod is not None else None
        if work is not None and work in self._ending:
            self._queue.add_after(work, ENDING_COALESCE)

    def _node_changed(self, change: Change[NodeView]) -> None:
        if not self._remains.node_changed(change, now=self._clock.boot()):
            return
        for work in sorted(self._ending):
            self._queue.add_after(work, ENDING_COALESCE)
        if change.new is not None and not change.new.ready:
            for owner in self._remains.owners_on(change.new.name):
                if owner in self._work_of:
                    self._queue.add(self._work_of[owner])

    # --- reconciling -------------------------------------------------------------------------------------------------

    async def _reconcile(self, key: Key) -> float | None:
        talk = Talk()
        for _ in range(MAX_STEPS):
            await self._sweep(key)
            work = self._stores.works.get(*key)
            if work is None:
                return None
            memory = self._memory.setdefault(work.uid, Memory())
            snapshot = self._snapshot(work, memory, talk)
            step = next_step(snapshot, retry=self._settings.retry)
            if isinstance(step, planner.Wait):
                if snapshot.work.refusal is not None and step.seconds is None:
                    self._ledger.decided(work.uid)  # looked at again: the refusal stands
                return step.seconds
            if isinstance(step, planner.Lack):
                return await self._lack(work, memory, step)
            if isinstance(step, planner.Report):
                return await self._report(snapshot, memory)
            if isinstance(step, planner.ReportLeft):
                return await self._report_left(snapshot, memory, step.left)
            await self._take(step, snapshot, memory, talk)
            if isinstance(step, planner.Confirm):
                return None
        return self._settings.retry

    async def _sweep(self, key: Key) -> None:
        """Remove a Job that was made from a Work whose end we confirmed: its creation took effect late, it never had a pod
        (jobs/ makes no first one without the Work), and its name would be taken for ever."""
        late = self._late.pop(key, None)
        job = self._stores.jobs.get(*late) if late is not None else None
        if job is None or job.work_uid not in self._confirmed or self._remains.present(job.uid):
            return
        await self._applier.delete(job)
        document = await self._applier.same_job(job)
        if document is not None:
            await self._applier.release(self._projector.job(document))

    def _snapshot(self, work: WorkView, memory: Memory, talk: Talk) -> Snapshot:
        if memory.work is not None and memory.work.uid == work.uid and is_newer(memory.work.version, work.version):
            work = memory.work
        talk.turn_to(work)
        job = None if talk.no_job else self._job(work, memory)
        offered, error = self._offered(work, memory)
        snapshot = Snapshot(
            work=work,
            cluster_uid=self._cluster_uid,
            scheduler=self._scheduler,
            upstream=self._upstream,
            job=job,
            asked=talk.no_job,
            offered=offered,
            offered_error=error,
            refused_edit=memory.refused_edit[0] if memory.refused_edit is not None else "",
            lease=talk.lease,
            newest_epoch=self._epochs.newest(work.record.job) if work.record else 0,
            queue=self._stores.queues.get("", offered.queue) if offered else None,
            lacking=self._lacking(offered, memory) if offered is not None and job is None else "",
        )
        if snapshot.ours and job is not None:
            memory.job_uid = job.uid
        return self._with_pods(snapshot, memory)

    def _lacking(self, offered: JobView, memory: Memory) -> str:
        """What the Job names and this member has not got, while it may still come."""
        classes = {offered.priority_class} - {"", *PRIVILEGED}
        missing = [f"Queue {offered.queue}"] if self._stores.queues.get("", offered.queue) is None else []
        missing = [] if offered.queue == keys.DEFAULT_QUEUE else missing
        missing += [f"PriorityClass {name}" for name in sorted(classes) if self._stores.priorities.get("", name) is None]
        if not missing:
            memory.lacking_until = None
            return ""
        now = self._clock.boot()
        if memory.lacking_until is None:
            memory.lacking_until = now + self._settings.companions_wait
        return f"not here yet: {', '.join(missing)}" if now < memory.lacking_until else ""

    def _job(self, work: WorkView, memory: Memory) -> JobView | None:
        """The local Job: as its informer has it, or newer if we wrote or read it since."""
        known = self._stores.jobs.get(work.target.namespace, work.target.name)
        fresh = memory.job
        if fresh is None or (known is not None and not is_newer(fresh.version, known.version)):
            return known
        return fresh

    def _offered(self, work: WorkView, memory: Memory) -> tuple[JobView | None, str]:
        """The manifest as a Job; what is wrong with it otherwise. Both empty: it must be loaded."""
        manifest = work.manifest
        if manifest is None and memory.manifest is not None and memory.manifest[0] == work.digest:
            manifest = memory.manifest[1]
        if manifest is None:
            return None, ""
        try:
            return self._projector.job(manifest), ""
        except (msgspec.MsgspecError, ValueError) as error:
            return None, f"spec.workload.manifests[0]: {error}"

    def _with_pods(self, snapshot: Snapshot, memory: Memory) -> Snapshot:
        """Add what is known of pods, where anybody needs it."""
        work, owner = snapshot.work, memory.job_uid
        ending = work.deleting or (snapshot.job is not None and snapshot.ours and snapshot.job.deleting)
        key = (work.namespace, work.name)
        recorded = remains.read(snapshot.job.run_nodes) if snapshot.job is not None and snapshot.ours else {}
        if not ending and (work.gone or not (work.applied and snapshot.job is None)):
            self._ending.discard(key)
            endangered = self._remains.endangered(owner, recorded=recorded) if owner else {}
            return replace(snapshot, recorded=recorded, endangered=endangered)
        self._ending.add(key)
        now = self._clock.boot()
        listed = (memory.listed or ()) if snapshot.ours else ()
        traces = self._remains.traces(owner, recorded=recorded, listed=listed) if owner else dict(recorded)
        there = self._there(owner, memory)
        to_stop = tuple(uid for uid, pod in there.items() if not pod.ended and not pod.deleting and uid not in memory.stopped)
        return replace(
            snapshot,
            recorded=recorded,
            listed=memory.listed is not None,
            traces=traces,
            to_stop=to_stop,
            left=self._remains.left(owner, traces=traces, now=now) if owner else Left(),
            quiet=max(self._quiet_until - now, memory.unsure_until - now, 0.0),
        )

    def _there(self, owner: str, memory: Memory) -> dict[str, PodView]:
        """Pods of the Job by UID, each as the newest of what was listed and what was watched says."""
        found = {pod.uid: pod for pod in memory.listed or ()}
        for pod in self._remains.present(owner):
            if pod.uid not in found or is_newer(pod.version, found[pod.uid].version):
                found[pod.uid] = pod
        return found

    # --- steps -------------------------------------------------------------------------------------------------------

    async def _take(self, step: Step, snapshot: Snapshot, memory: Memory, talk: Talk) -> None:
        """One effect; what it returned is known from now on."""
        work, job, applier = snapshot.work, snapshot.job, self._applier
        match step:
            case planner.AskLease():
                talk.lease = await self._lease.ask()
            case planner.AskJob():
                document = await applier.job(work)
                talk.no_job = document is None
                memory.job = self._projector.job(document) if document is not None else None
            case planner.AskNodes():
                await self._ask_nodes(step.names)
            case planner.LoadManifest():
                await self._load(work, memory)
            case planner.Accept():
                await self._accept(snapshot, memory)
            case planner.Refuse():
                await self._refuse(snapshot, memory, step)
            case planner.Update():
                await self._update(work, memory)
            case planner.ReportLost():
                await self._write(work, memory, report.lost(work, job=job, now=self._now()))
            case planner.Confirm():
                await self._confirm(work)
            case _:
                assert job is not None
                await self._end(step, work, job, memory)

    async def _ask_nodes(self, names: tuple[str, ...]) -> None:
        for name in names:
            if await self._applier.has_node(name):
                self._remains.node_found(name, now=self._clock.boot())
            else:
                self._remains.node_absent(name)

    async def _confirm(self, work: WorkView) -> None:
        await self._pace.turn(urgent=True)
        self._confirmed[work.uid] = None
        while len(self._confirmed) > CONFIRMED_KEPT:
            del self._confirmed[next(iter(self._confirmed))]
        await self._applier.confirm(work)

    async def _end(self, step: Step, work: WorkView, job: JobView, memory: Memory) -> None:
        """Effects on the local Job and its pods."""
        applier = self._applier
        match step:
            case planner.Adopt():
                memory.job = self._projector.job(await applier.adopt(work, job))
            case planner.PassOn():
                memory.job = self._projector.job(await applier.annotate(job, {keys.COMMAND: work.order}))
            case planner.Release():
                assert work.record is not None
                memory.job = self._projector.job(await applier.annotate(job, {keys.RUN: encode(work.record)}))
            case planner.LetGo():
                memory.job = self._projector.job(await applier.let_go(job))
            case planner.DeleteJob():
                await applier.delete(job)
                document = await applier.job(work)
                memory.job = self._projector.job(document) if document is not None else None
            case planner.ListPods():
                pods = [self._projector.pod(document) for document in await applier.pods(job)]
                memory.listed = tuple(pod for pod in pods if pod.owner == job.uid)
            case planner.RecordNodes(traces):
                memory.job = self._projector.job(await applier.record(job, traces))
            case planner.StopPods(uids):
                there = self._there(job.uid, memory)
                if await applier.stop(there[uid] for uid in uids):
                    memory.stopped.update(uids)
                else:
                    memory.listed = None
            case planner.ReleaseJob():
                await applier.release(job)
                memory.job = None
            case _:
                raise AssertionError(f"no effect for {step}")

    async def _lack(self, work: WorkView, memory: Memory, step: planner.Lack) -> float:
        """What comes within a look is not worth a write."""
        assert memory.lacking_until is not None
        waited = self._clock.boot() - (memory.lacking_until - self._settings.companions_wait)
        known = memory.work if memory.work is not None and is_newer(memory.work.version, work.version) else work
        status = report.lacking(known, step.message, now=self._now())
        if waited >= self._settings.retry and status.conditions != known.conditions:
            await self._write(known, memory, status)
        return self._settings.retry / 4

    async def _load(self, work: WorkView, memory: Memory) -> None:
        manifest = await self._applier.manifest(work)
        if manifest is None:
            raise errors.Conflict("the Work has changed hands", request=f"get Work {work.namespace}/{work.name}")
        memory.manifest = (work.digest, manifest)

    async def _update(self, work: WorkView, memory: Memory) -> None:
        """An edit that this member refuses, its API server or a webhook, is told and not asked for again."""
        assert memory.manifest is not None or work.manifest is not None
        manifest = work.manifest or (memory.manifest[1] if memory.manifest else b"")
        try:
            memory.job = self._projector.job(await self._applier.update(work, manifest))
        except (errors.Invalid, errors.TooLarge, errors.Forbidden) as error:
            memory.refused_edit = (work.digest, planner.Refuse(REFUSED[type(error)], error.message))
        memory.manifest = None

    async def _accept(self, snapshot: Snapshot, memory: Memory) -> None:
        """Take room and make the Job; the decision and the taking are one instant."""
        work, offered = snapshot.work, snapshot.offered
        assert offered is not None and offered.gang is not None
        manifest = work.manifest or (memory.manifest[1] if memory.manifest else b"")
        why = self._ruled_out(work.uid, offered.gang, manifest) or self._short(work.uid, offered.gang)
        if why:
            await self._refuse(snapshot, memory, planner.Refuse(RefusalReason.NO_ROOM, why))
            return
        try:
            memory.job = self._projector.job(await self._applier.create(work, manifest))
        except errors.AlreadyExists:
            document = await self._applier.job(work)
            memory.job = self._projector.job(document) if document is not None else None
            if memory.job is None or memory.job.work_uid != work.uid:
                self._ledger.release(work.uid)
        except tuple(REFUSED) as error:
            self._ledger.release(work.uid)
            await self._refuse(snapshot, memory, planner.Refuse(REFUSED[type(error)], error.message))
        except errors.ApiError as error:
            if error.outcome_unknown:
                memory.unsure_until = self._clock.boot() + self._unanswered
            raise
        memory.manifest = None

    def _ruled_out(self, uid: str, gang: Gang, manifest: bytes) -> str:
        """Why the scheduler would not place it, where room alone does not tell: else it would stand here without nodes."""
        if self._foresight is None or self._ledger.accepted(uid) or not only_the_member_can_tell(gang):
            return ""
        return self._foresight.refusal(manifest, promised=self._ledger.spots())

    def _short(self, uid: str, gang: Gang) -> str:
        """Promise room to the gang; what is short, or ""."""
        shortage = self._ledger.accept(uid, gang)
        return shortage.sentence if isinstance(shortage, Shortage) else ""

    async def _refuse(self, snapshot: Snapshot, memory: Memory, refusal: planner.Refuse) -> None:
        await self._write(snapshot.work, memory, report.refused(snapshot.work, refusal, now=self._now()))
        self._ledger.decided(snapshot.work.uid)

    # --- reports -----------------------------------------------------------------------------------------------------

    async def _report(self, snapshot: Snapshot, memory: Memory) -> float | None:
        """Tell how the Job stands, when it is due; the seconds until it is."""
        work, job = snapshot.work, snapshot.job
        assert job is not None
        self._ledger.decided(work.uid)
        digest, refusal = memory.refused_edit or ("", None)
        status = report.running(work, job, now=self._now(), edit=refusal if digest == work.digest else None)
        if status is None:
            memory.due = None
            return None
        delays = {
            report.Urgency.NOW: 0.0,
            report.Urgency.SOON: self._settings.coalesce,
            report.Urgency.LATER: self._settings.applied_after,
        }
        now = self._clock.boot()
        due = min(memory.due if memory.due is not None else float("inf"), now + delays[status.urgency])
        if due > now:
            memory.due = due
            return due - now
        memory.due = None
        await self._write(work, memory, status)
        return None

    async def _report_left(self, snapshot: Snapshot, memory: Memory, left: Left) -> float | None:
        status = report.left(snapshot.work, left, job=snapshot.job, now=self._now())
        if status.conditions != snapshot.work.conditions:
            await self._write(snapshot.work, memory, status)
        return left.again

    async def _write(self, work: WorkView, memory: Memory, status: report.Status) -> None:
        await self._pace.turn(urgent=status.urgency is report.Urgency.NOW)
        memory.work = project_work(await self._applier.report(work, status))

    def _now(self) -> str:
        return stamp(self._clock.now())


def answered(work: WorkView, old: WorkView | None) -> bool:
    """No answer of ours is owed: given already, or nobody asks. StaleFence is looked at again after a restart of ours and when
    the hub stamped the Work anew."""
    if work.deleting or work.applied or work.gone or work.suspended:
        return True
    if work.refusal is None:
        return False
    return work.refusal.reason != RefusalReason.STALE_FENCE or (old is not None and not restamped(work, old))


def restamped(work: WorkView, old: WorkView) -> bool:
    """The run record changed: another fence number, most likely."""
    return work.record != old.record
