"""Watches CronJobs, their Jobs and flows; wakes the planner for the CronJob that an event concerns, and when its run is due."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Generic, TypeVar

from apis import kinds
from controllers.cron.applier import CronApplier, Outcome
from controllers.cron.planner import CronPlan, Run, minute_of, plan
from controllers.cron.snapshot import CronChild, CronSnapshot, CronView, Refusal, project_cron
from machinery.clock import Clock
from machinery.events import About, EventRecorder
from machinery.informer import Change, Informer, Informers, Key
from machinery.port import Port
from machinery.runner import WorkMetrics, run_workers
from machinery.workqueue import WorkQueue

J = TypeVar("J", bound=CronChild)
F = TypeVar("F", bound=CronChild)

WORKERS = 8
LONGEST_WAIT = 600.0
"""Seconds after which a timer is set anew: timers do not see a wall clock that is put forward, nor a machine that slept. A look
costs no request."""
FIRST_RETRY, LAST_RETRY = 1.0, 60.0
"""Seconds until a run that was refused is tried again: doubling from the first to the last."""


class CronController(Generic[J, F]):
    """Runs CronJobs on any API server; `jobs` and `flows` are the program's own informers of Jobs and JobFlows."""

    def __init__(
        self,
        *,
        port: Port,
        informers: Informers,
        jobs: Informer[J],
        flows: Informer[F],
        events: EventRecorder,
        clock: Clock,
    ) -> None:
        self._jobs = jobs
        self._flows = flows
        self._crons: Informer[CronView] = informers.add(kinds.CRON_JOB, project_cron)
        self._applier = CronApplier(port)
        self._events = events
        self._clock = clock
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._keys: dict[str, Key] = {}
        """CronJobs by UID."""
        self._children: dict[str, set[tuple[kinds.Kind, str]]] = {}
        """Jobs and flows by the UID of their owner, whatever it is: they may be seen before their CronJob."""
        self._seen: dict[str, datetime.datetime] = {}
        """By UID, the minute of the newest run that was made or seen: its Job may vanish before the status tells of it."""
        self._refusals: dict[str, tuple[Refusal, float]] = {}
        """By UID, what stands in the way of the run that is due, and for how many seconds it was waited last."""
        self._told: dict[str, set[str]] = {}
        """By UID, Jobs that people were told of."""
        self._blocked: dict[tuple[kinds.Kind, Key], Key] = {}
        """CronJobs that wait for a stranger's Job to free its name, by the Job's kind and key."""
        self._crons.subscribe(self._cron_changed)
        self._jobs.subscribe(self._job_changed)
        self._flows.subscribe(self._flow_changed)

    async def run(self, metrics: WorkMetrics | None = None) -> None:
        """Until cancelled."""
        await self._crons.wait_synced()
        await self._jobs.wait_synced()
        await self._flows.wait_synced()
        await run_workers(self._queue, self._reconcile, workers=WORKERS, name="cron", metrics=metrics)

    # --- waking ------------------------------------------------------------------------------------------------------
    def _cron_changed(self, change: Change[CronView]) -> None:
        old, new = change.old, change.new
        if old is not None and (new is None or new.uid != old.uid):
            for store in (self._keys, self._seen, self._refusals, self._told):
                store.pop(old.uid, None)
        if new is not None:
            self._keys[new.uid] = change.key
            self._queue.add(change.key)

    def _job_changed(self, change: Change[J]) -> None:
        self._child_changed(change.old, change.new, kind=kinds.JOB, key=change.key)

    def _flow_changed(self, change: Change[F]) -> None:
        self._child_changed(change.old, change.new, kind=kinds.JOB_FLOW, key=change.key)

    def _child_changed(self, old: CronChild | None, new: CronChild | None, *, kind: kinds.Kind, key: Key) -> None:
        if old is not None and old.owner_uid and (new is None or new.owner_uid != old.owner_uid):
            self._forget(old)
        if new is not None and new.owner_uid:
            self._children.setdefault(new.owner_uid, set()).add((kind, new.name))
        if new is None and (waiting := self._blocked.pop((kind, key), None)) is not None:
            self._refusals = {uid: kept for uid, kept in self._refusals.items() if self._keys.get(uid) != waiting}
            self._queue.add(waiting)
        owners = {child.owner_uid for child in (old, new) if child is not None and child.owner_uid in self._keys}
        for owner in sorted(owners) if owners and _matters(old, new) else ():
            self._note_run(owner, key[1])
            self._queue.add(self._keys[owner])

    def _note_run(self, owner: str, job: str) -> None:
        minute = minute_of(job, cron=self._keys[owner][1])
        if minute is not None:
            self._seen[owner] = max(minute, self._seen.get(owner, minute))

    def _forget(self, child: CronChild) -> None:
        known = self._children.get(child.owner_uid, set())
        known.discard((child.kind, child.name))
        if not known:
            self._children.pop(child.owner_uid, None)

    # --- one look ----------------------------------------------------------------------------------------------------
    async def _reconcile(self, key: Key) -> float | None:
        cron = self._crons.get(*key)
        if cron is None:
            return None
        now = self._clock.now()
        made = plan(self._snapshot(cron), now=now)
        outcome = await self._applier.commit(cron, made)
        self._record(cron, made, outcome)
        if made.create is not None:
            self._remember(cron, made.create, outcome, now=now)
        return min(max((made.wake - now).total_seconds(), 0.0), LONGEST_WAIT) if made.wake is not None else None

    def _snapshot(self, cron: CronView) -> CronSnapshot:
        refusal = self._refusals.get(cron.uid)
        return CronSnapshot(
            cron=cron,
            jobs={child.uid: child for child in self._children_of(cron)},
            seen=self._seen.get(cron.uid),
            unreadable=frozenset(
                name
                for broken in (self._jobs.broken, self._flows.broken)
                for namespace, name in broken
                if namespace == cron.namespace
            ),
            refusal=refusal[0] if refusal is not None else None,
            told=frozenset(self._told.get(cron.uid, ())),
        )

    def _children_of(self, cron: CronView) -> Iterator[CronChild]:
        for kind, name in self._children.get(cron.uid, ()):
            store: Informer[J] | Informer[F] = self._flows if kind == kinds.JOB_FLOW else self._jobs
            child = store.get(cron.namespace, name)
            if child is not None and child.owner_uid == cron.uid:
                yield child

    def _remember(self, cron: CronView, run: Run, outcome: Outcome, *, now: datetime.datetime) -> None:
        """Keep what stood in the way, and come back for it."""
        if outcome.created:
            self._refusals.pop(cron.uid, None)
            if cron.uid in self._keys:
                self._note_run(cron.uid, outcome.created)
        if outcome.refused is None:
            return
        reason, message = outcome.refused
        before = self._refusals.get(cron.uid)
        same = before is not None and before[0].job == run.job
        wait = min(before[1] * 2, LAST_RETRY) if before is not None and same else FIRST_RETRY
        again = now + datetime.timedelta(seconds=wait)
        self._refusals[cron.uid] = (Refusal(run.job, reason, message, again), wait)
        if reason == "ForeignJob":
            self._blocked[run.kind, (cron.namespace, run.job)] = (cron.namespace, cron.name)
        self._queue.add((cron.namespace, cron.name))

    # --- telling -----------------------------------------------------------------------------------------------------
    def _record(self, cron: CronView, made: CronPlan, outcome: Outcome) -> None:
        about = About(kinds.CRON_JOB, cron.namespace, cron.name, cron.uid, cron.version)
        for note in made.notes if outcome.told else ():
            (self._events.warn if note.warning else self._events.record)(about, reason=note.reason, message=note.message)
        for mark in made.unexpected:
            self._told.setdefault(cron.uid, set()).add(mark.uid)
            text = f"{mark.kind.kind} {mark.name} is owned by this CronJob, which did not make it"
            self._events.warn(about, reason="UnexpectedJob", message=text)
        for mark in outcome.deleted:
            self._events.record(about, reason="SuccessfulDelete", message=f"deleted {mark.kind.kind} {mark.name}")
        for mark, message in outcome.undeleted:
            text = f"{mark.kind.kind} {mark.name} was not deleted: {message}"
            self._events.warn(about, reason="FailedDelete", message=text)
        if outcome.created:
            for note in made.warnings:
                self._events.warn(about, reason=note.reason, message=note.message)
            self._events.record(about, reason="SuccessfulCreate", message=f"created {cron.makes.kind} {outcome.created}")
        elif outcome.refused is not None and outcome.refused[0] != "FailedDelete":
            self._events.warn(about, reason=outcome.refused[0], message=outcome.refused[1])


def _matters(old: CronChild | None, new: CronChild | None) -> bool:
    """Whether a change of a Job may change anything for its CronJob: counts of pods do not."""
    if old is None or new is None:
        return True
    return (old.uid, old.owner_uid, old.phase, old.transition, old.deleting) != (
        new.uid,
        new.owner_uid,
        new.phase,
        new.transition,
        new.deleting,
    )
