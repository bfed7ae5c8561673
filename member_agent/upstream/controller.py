"""Watches Jobs that a Volcano runs; takes one step after the other for the Job that an event concerns."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import orjson

from apis import keys, kinds
from machinery import errors
from machinery.clock import Clock
from machinery.events import About, EventRecorder
from machinery.informer import Change, Informer, Key
from machinery.port import PatchType, Port
from machinery.runner import WorkMetrics, run_workers
from machinery.workqueue import WorkQueue
from member_agent.settings import UpstreamSettings
from member_agent.upstream.orders import ABORT, Ordered, Rest, command, read, write
from member_agent.upstream.planner import SUSPENDED, Note, Order, Refuse, Wait, longest, next_step
from member_agent.views import JobView

UNSUPPORTED = "ExtensionUnsupported"


@dataclass(frozen=True, slots=True)
class Stores:
    """The informers this role reads."""

    jobs: Informer[JobView]


class UpstreamController:
    """Gives orders to the Volcano of this member. Orders given lately are held back for `settings.again` seconds, and so is
    everything for as long after a start: a predecessor's may be on their way."""

    def __init__(self, *, port: Port, stores: Stores, events: EventRecorder, clock: Clock, settings: UpstreamSettings) -> None:
        self._port = port
        self._stores = stores
        self._events = events
        self._clock = clock
        self._settings = settings
        self._started = clock.boot()
        self._given: dict[str, float] = {}
        self._once: set[str] = set()
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        stores.jobs.subscribe(self._job_changed)

    async def run(self, metrics: WorkMetrics | None = None) -> None:
        """Until cancelled."""
        await self._stores.jobs.wait_synced()
        await run_workers(self._queue, self._reconcile, workers=self._settings.workers, name="upstream", metrics=metrics)

    def _job_changed(self, change: Change[JobView]) -> None:
        job = change.new
        if job is None:
            if change.old is not None:
                self._given.pop(change.old.uid, None)
                self._once.discard(change.old.uid)
            return
        if change.old is None:
            self._tell_unsupported(job)
            if job.rules.max_retry == 1 and not job.managed and not job.phase:
                self._once.add(job.uid)
        if job.uid in self._once or job.rules.suspended or job.order or job.ordered or longest(job) is not None:
            self._queue.add_after(change.key, self._settings.coalesce)

    def _tell_unsupported(self, job: JobView) -> None:
        """A hub-run Job would have been refused; one that was made here runs, and its owner is told what is not acted on."""
        if job.managed or job.phase:
            return
        for asked, key in (
            (bool(job.rules.main), keys.MAIN_CONTAINER),
            (job.rules.only_below_minimum, keys.ONLY_BELOW_MINIMUM),
        ):
            if asked:
                text = f"metadata.annotations[{key}] is not acted on: this member leaves Jobs to Volcano"
                self._events.warn(_about(job), reason=UNSUPPORTED, message=text)

    async def _tell_no_retry(self, job: JobView) -> None:
        """One run of a Job may be its spec's wish or our annotation's; only the document tells, and Volcano reads the spec."""
        try:
            document = orjson.loads(await self._port.get(kinds.JOB, job.name, namespace=job.namespace))
        except errors.NotFound:
            return
        notes = document["metadata"].get("annotations") or {}
        if notes.get(keys.NO_RETRY) == "true" and document["spec"].get("maxRetry") != 1:
            text = f"metadata.annotations[{keys.NO_RETRY}] is not acted on: Volcano reads spec.maxRetry, set it to 1"
            self._events.warn(_about(job), reason=UNSUPPORTED, message=text)

    # --- reconciling -------------------------------------------------------------------------------------------------

    async def _reconcile(self, key: Key) -> float | None:
        job = self._stores.jobs.get(*key)
        if job is None:
            return None
        if job.uid in self._once:
            await self._tell_no_retry(job)
            self._once.discard(job.uid)
        match next_step(job, now=self._clock.now(), held=self._held(job)):
            case Note(ordered):
                await self._note(job, ordered)
            case Order() as order:
                await self._order(job, order)
                return self._settings.again
            case Refuse(message, ordered):
                self._events.warn(_about(job), reason=UNSUPPORTED, message=message)
                await self._note(job, ordered)
            case Wait(seconds):
                return seconds
        return None

    def _held(self, job: JobView) -> float:
        """Seconds for which an order may still be on its way; a note that nobody wrote tells of no order."""
        since = self._given.get(job.uid, self._started if job.ordered else float("-inf"))
        return max(since + self._settings.again - self._clock.boot(), 0.0)

    async def _note(self, job: JobView, ordered: Ordered) -> None:
        """Against the version it was decided on: whoever changed the Job meanwhile is heard first."""
        if ordered.rest is Rest.NONE and read(job.ordered).rest is Rest.ABORTING:
            await self._call_off(job)
        self._given.setdefault(job.uid, float("-inf"))  # what is written from now on is our own
        notes = {keys.UPSTREAM: write(ordered)}
        if ordered.rest is Rest.ABORTING:
            notes[keys.SUSPEND] = "true"  # it may have been said by the field, which upstream's types drop
        patch = {"metadata": {"resourceVersion": job.version, "annotations": notes}}
        with contextlib.suppress(errors.NotFound, errors.Conflict):  # its event brings it back
            await self._port.patch(kinds.JOB, job.name, patch, type=PatchType.MERGE, namespace=job.namespace)

    async def _call_off(self, job: JobView) -> None:
        """Nobody wants the Job suspended any more: an order that Volcano has not taken up is taken back."""
        body = command(job, ABORT, purpose=SUSPENDED, message="")
        with contextlib.suppress(errors.NotFound):
            await self._port.delete(kinds.COMMAND, body["metadata"]["name"], namespace=job.namespace)

    async def _order(self, job: JobView, order: Order) -> None:
        self._given[job.uid] = self._clock.boot()
        body = command(job, order.action, purpose=order.purpose, message=order.message)
        with contextlib.suppress(errors.AlreadyExists):  # Volcano has not taken it up yet
            await self._port.create(kinds.COMMAND, body, namespace=job.namespace)


def _about(job: JobView) -> About:
    return About(kinds.JOB, job.namespace, job.name, job.uid)
