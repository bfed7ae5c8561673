"""Watches Jobs, their PodGroups, pods and queues; wakes the planner for the Job that an event concerns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from apis import naming
from machinery import errors
from machinery.clock import Clock, stamp
from machinery.informer import Change, Informer, Key
from machinery.port import Port
from machinery.runner import WorkMetrics, run_workers
from machinery.workqueue import WorkQueue
from member_agent.jobs.applier import JobApplier
from member_agent.jobs.lifecycle import ENDS
from member_agent.jobs.planner import Plan, Snapshot, Urgency, plan
from member_agent.settings import JobSettings
from member_agent.views import GroupView, JobView, PodView, QueueView, WorkView


@dataclass(frozen=True, slots=True)
class Stores:
    """The informers this role reads."""

    jobs: Informer[JobView]
    groups: Informer[GroupView]
    pods: Informer[PodView]
    queues: Informer[QueueView]
    works: Informer[WorkView]


class PodIndex:
    """Pods by the UID of the Job that controls them."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, PodView]] = {}

    def changed(self, change: Change[PodView]) -> None:
        """Fold one change in."""
        if change.old is not None:
            owned = self._pods.get(change.old.owner)
            if owned is not None and owned.pop(change.old.uid, None) is not None and not owned:
                del self._pods[change.old.owner]
        if change.new is not None and change.new.owner:
            self._pods.setdefault(change.new.owner, {})[change.new.uid] = change.new

    def of(self, owner: str) -> tuple[PodView, ...]:
        """Pods of a Job, by name."""
        return tuple(sorted(self._pods.get(owner, {}).values(), key=lambda pod: pod.name))


class JobController:
    """The Job controller of a member."""

    def __init__(self, *, port: Port, stores: Stores, clock: Clock, settings: JobSettings) -> None:
        self._stores = stores
        self._clock = clock
        self._settings = settings
        self._pods = PodIndex()
        self._applier = JobApplier(port, scheduler=settings.scheduler_name, at_once=settings.creates_at_once)
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._made: dict[str, dict[str, float]] = {}
        self._due: dict[str, float] = {}
        self._delays = {
            Urgency.END: 0.0,
            Urgency.WHOLE: 0.0,
            Urgency.PHASE: settings.phase_after,
            Urgency.PENDING: settings.pending_after,
            Urgency.COUNTERS: settings.counters_after,
        }
        stores.jobs.subscribe(self._job_changed)
        stores.groups.subscribe(self._group_changed)
        stores.pods.subscribe(self._pod_changed)
        stores.queues.subscribe(self._queue_changed)
        self._names: dict[str, Key] = {}
        stores.works.subscribe(self._work_changed)

    async def run(self, metrics: WorkMetrics | None = None) -> None:
        """Until cancelled. Works are not waited for: local Jobs run without the hub."""
        for informer in (self._stores.jobs, self._stores.groups, self._stores.pods, self._stores.queues):
            await informer.wait_synced()
        await run_workers(self._queue, self._reconcile, workers=self._settings.workers, name="jobs", metrics=metrics)

    # --- waking ------------------------------------------------------------------------------------------------------

    def _wake(self, key: Key) -> None:
        self._queue.add_after(key, self._settings.coalesce)

    def _job_changed(self, change: Change[JobView]) -> None:
        job = change.new
        if job is None:
            if change.old is not None:
                self._made.pop(change.old.uid, None)
                self._due.pop(change.old.uid, None)
                self._names.pop(change.old.uid, None)
                self._applier.drop(change.old)
            return
        self._names[job.uid] = change.key
        if change.old is not None and change.old.generation != job.generation:
            self._applier.drop(change.old)
        self._wake(change.key)

    def _group_changed(self, change: Change[GroupView]) -> None:
        group = change.new or change.old
        if group is not None and group.owner in self._names:
            self._wake(self._names[group.owner])

    def _pod_changed(self, change: Change[PodView]) -> None:
        self._pods.changed(change)
        pod = change.new or change.old
        if pod is None or pod.owner not in self._names:
            return
        self._made.get(pod.owner, {}).pop(pod.name, None)
        self._wake(self._names[pod.owner])

    def _queue_changed(self, change: Change[QueueView]) -> None:
        if change.old is not None and change.new is not None:
            return
        for job in self._stores.jobs.sorted():
            if job.queue == change.key[1] and job.phase not in ENDS:
                self._wake((job.namespace, job.name))

    def _work_changed(self, change: Change[WorkView]) -> None:
        """A Job that waits for its Work is looked at when that comes; what else becomes of Works is not our affair."""
        work = change.new
        job = (
            self._stores.jobs.get(work.target.namespace, work.target.name) if work is not None and change.old is None else None
        )
        if job is not None and job.managed:
            self._wake((job.namespace, job.name))

    # --- reconciling -------------------------------------------------------------------------------------------------

    async def _reconcile(self, key: Key) -> float | None:
        job = self._stores.jobs.get(*key)
        if job is None or job.deleting:
            return None
        snapshot = self._snapshot(job)
        decided = plan(snapshot, now=self._clock.now(), stamp=stamp(self._clock.now()))
        failed = await self._make(job, decided)
        if decided.delete:
            await self._applier.delete_pods(decided.delete)
        again = await self._write_status(job, decided)
        if failed:
            raise failed[0]
        return min((each for each in (again, self._unseen(job)) if each is not None), default=None)

    def _unseen(self, job: JobView) -> float | None:
        """Seconds until the first pod that was made and not seen is made again: no event tells of that."""
        now = self._clock.boot()
        return min((until - now for until in self._made.get(job.uid, {}).values() if until > now), default=None)

    def _snapshot(self, job: JobView) -> Snapshot:
        now = self._clock.boot()
        made = {name: until for name, until in self._made.get(job.uid, {}).items() if until > now}
        if job.uid in self._made:
            self._made[job.uid] = made
        return Snapshot(
            job=job,
            group=self._group(job),
            pods=self._pods.of(job.uid),
            queue=self._stores.queues.get("", job.queue),
            made=frozenset(made),
            granted=not job.managed or self._granted(job),
        )

    def _granted(self, job: JobView) -> bool:
        """The Work that this Job was made from is there and is not being withdrawn."""
        work = self._stores.works.get(*job.work)
        return work is not None and work.uid == job.work_uid and not work.deleting

    def _group(self, job: JobView) -> GroupView | None:
        group = self._stores.groups.get(job.namespace, naming.pod_group_name(job.name, uid=job.uid))
        return group if group is not None and group.owner == job.uid else None

    async def _make(self, job: JobView, decided: Plan) -> list[errors.ApiError]:
        """PodGroup and pods; what is made is expected until its informer shows it."""
        if not (decided.create_group or decided.update_group or decided.create):
            return []
        manifest = await self._applier.manifest(job)
        if manifest is None:
            return []  # changed or gone: its event brings us back
        if decided.create_group:
            await self._applier.create_group(job, manifest)
        if decided.update_group:
            await self._applier.update_group(job, manifest)
        if not decided.create:
            return []
        self._expect(job, (order.name for order in decided.create))
        made, failed = await self._applier.create_pods(job, manifest, decided.create)
        lost = {order.name for order in decided.create} - set(made)
        for name in lost:
            self._made.get(job.uid, {}).pop(name, None)
        if not failed:
            self._applier.drop(job)
        return failed

    def _expect(self, job: JobView, names: Iterable[str]) -> None:
        until = self._clock.boot() + self._settings.expect
        self._made.setdefault(job.uid, {}).update(dict.fromkeys(names, until))

    async def _write_status(self, job: JobView, decided: Plan) -> float | None:
        """Write what is due; the seconds until the rest is."""
        if decided.status is None:
            self._due.pop(job.uid, None)
            return None
        now = self._clock.boot()
        due = min(self._due.get(job.uid, float("inf")), now + self._delays[decided.urgency])
        if due > now:
            self._due[job.uid] = due
            return due - now
        self._due.pop(job.uid, None)
        await self._applier.write_status(job, decided.status)
        return None
