"""Looks at a Job that something woke: plans from what is there, has the plan carried out, writes the status when it is due."""

from __future__ import annotations

from machinery.clock import Clock, stamp
from machinery.events import EventRecorder
from machinery.informer import Key
from machinery.metrics import Metrics
from machinery.port import Port
from machinery.runner import run_workers
from machinery.workqueue import WorkQueue
from member_agent.jobs.applier import JobApplier
from member_agent.jobs.children import KeyMaker
from member_agent.jobs.commands import CommandIndex, Dismissals
from member_agent.jobs.faults import Faults
from member_agent.jobs.lifecycle import JobPhase
from member_agent.jobs.making import Maker
from member_agent.jobs.pace import CounterPace
from member_agent.jobs.planner import Plan, Snapshot, Urgency, plan
from member_agent.jobs.plugins import Registry
from member_agent.jobs.plugins.keypairs import new_key_pair
from member_agent.jobs.pods import ExpectedPods, PodIndex
from member_agent.jobs.stores import Stores
from member_agent.jobs.telling import Teller
from member_agent.jobs.waking import Waker
from member_agent.settings import JobSettings
from member_agent.views import JobStatus, JobView

__all__ = ["JobController", "Stores"]


class JobController:
    """The Job controller of a member."""

    def __init__(
        self,
        *,
        port: Port,
        stores: Stores,
        events: EventRecorder,
        clock: Clock,
        settings: JobSettings,
        keys: KeyMaker = new_key_pair,
        registry: Registry | None = None,
    ) -> None:
        registry = registry or Registry.installed()
        self._stores = stores
        self._clock = clock
        self._settings = settings
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._due: dict[str, float] = {}
        self._swept: set[str] = set()
        self._pace = CounterPace(first=settings.local_counters_after, longest=settings.local_counters_at_most)
        self._pods = PodIndex()
        self._expected = ExpectedPods(clock=clock, patience=settings.expect)
        self._commands = CommandIndex()
        self._faults = Faults(registry)
        self._teller = Teller(events)
        self._applier = JobApplier(
            port, scheduler=settings.scheduler_name, at_once=settings.creates_at_once, keys=keys, registry=registry
        )
        self._dismissals = Dismissals(self._commands, applier=self._applier, teller=self._teller)
        self._maker = Maker(
            self._applier,
            stores=stores,
            pods=self._pods,
            expected=self._expected,
            faults=self._faults,
            teller=self._teller,
            clock=clock,
            again=lambda job: self._wake((job.namespace, job.name)),
        )
        self._waker = Waker(
            stores,
            pods=self._pods,
            expected=self._expected,
            commands=self._commands,
            wake=self._wake,
            edited=self._applier.drop,
            gone=self._forget,
        )

    async def run(self, metrics: Metrics | None = None) -> None:
        """Until cancelled."""
        self._teller.metrics = metrics
        await self._stores.wait_synced()
        await run_workers(self._queue, self._reconcile, workers=self._settings.workers, name="jobs", metrics=metrics)

    def _wake(self, key: Key) -> None:
        """A little later, so that many changes cost one look."""
        self._queue.add_after(key, self._settings.coalesce)

    def _forget(self, job: JobView) -> None:
        self._due.pop(job.uid, None)
        self._swept.discard(job.uid)
        self._pace.forget(job.uid)
        for keeper in (self._faults, self._teller, self._maker):
            keeper.forget(job)
        self._applier.drop(job)

    # --- one look ----------------------------------------------------------------------------------------------------

    async def _reconcile(self, key: Key) -> float | None:
        job = self._stores.jobs.get(*key)
        if job is None:
            await self._dismissals.without_target(key)
            return None
        await self._dismissals.strangers(job)
        if job.deleting:
            await self._dismissals.too_late(job, why="the Job is being deleted")
            return None
        now = self._clock.now()
        decided = plan(self._snapshot(job), now=now, stamp=stamp(now))
        if decided.decisive:
            await self._decide(job, decided)
            return None
        return await self._do(job, decided)

    async def _decide(self, job: JobView, decided: Plan) -> None:
        """Write what was decided and nothing else; the status that comes back brings the next look."""
        self._due.pop(job.uid, None)
        assert decided.status is not None
        if await self._write(job, decided.status, decided):
            await self._dismiss(decided)

    async def _do(self, job: JobView, decided: Plan) -> float | None:
        """Everything that was planned, and the status as far as it is due; seconds until the next look."""
        self._teller.announce(job, decided.delayed)
        status, failed = await self._maker.carry_out(job, decided)
        again = await self._write_when_due(job, status, decided)
        self._teller.tell(job, decided.refused)
        await self._dismiss(decided)
        if failed is not None:
            raise failed
        if decided.sweeps:
            self._swept.add(job.uid)
        return min((each for each in (again, decided.wake, self._expected.next(job)) if each is not None), default=None)

    def _snapshot(self, job: JobView) -> Snapshot:
        return Snapshot(
            job=job,
            group=self._stores.group_of(job),
            roster=self._pods.of(job.uid),
            queue=self._stores.queues.get("", job.queue),
            made=self._expected.of(job),
            granted=self._stores.granted(job),
            commands=self._commands.meant_for(job),
            fault=self._faults.known(job),
            obstacle=self._maker.obstacle(job),
            missing_claims=self._stores.missing_claims(job),
            swept=job.uid in self._swept,
        )

    async def _dismiss(self, decided: Plan) -> None:
        for command in decided.dismissed:
            await self._applier.dismiss(command)

    # --- status ------------------------------------------------------------------------------------------------------

    async def _write_when_due(self, job: JobView, status: JobStatus | None, decided: Plan) -> float | None:
        """Write what is due; the seconds until the rest is."""
        if status is None or status == job.status:
            self._due.pop(job.uid, None)
            self._settle(job, decided)
            return None
        now = self._clock.boot()
        due = min(self._due.get(job.uid, float("inf")), now + self._delay(job, decided.urgency))
        if due > now:
            self._due[job.uid] = due
            return due - now
        self._due.pop(job.uid, None)
        await self._write(job, status, decided)
        return None

    async def _write(self, job: JobView, status: JobStatus, decided: Plan) -> bool:
        """False when the Job has changed meanwhile; then it is looked at again."""
        if not await self._applier.write_status(job, status):
            return False
        self._settle(job, decided)
        self._pace.written(job.uid, now=self._clock.boot(), counters=decided.urgency is Urgency.COUNTERS)
        self._teller.written(job, status)
        return True

    def _settle(self, job: JobView, decided: Plan) -> None:
        """What was planned is in the status now."""
        self._pods.of(job.uid).settle(decided.settled)
        self._teller.tell(job, decided.told)

    def _delay(self, job: JobView, urgency: Urgency) -> float:
        """Seconds."""
        match urgency:
            case Urgency.END | Urgency.WHOLE:
                return 0.0
            case Urgency.PHASE:
                return self._settings.phase_after
            case Urgency.PENDING:
                return self._settings.pending_after
            case Urgency.COUNTERS:
                if job.managed:
                    return self._settings.counters_after
                starting = job.status.state.phase == JobPhase.PENDING
                least = self._settings.starting_counters_after if starting else 0.0
                return max(self._pace.delay(job.uid, now=self._clock.boot()), least)
