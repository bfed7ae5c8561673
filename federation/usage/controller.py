"""Watches Works for ends, and writes UsageReports in batches."""

from __future__ import annotations

import datetime
from typing import Final

from apis import keys, kinds
from federation.usage import counting
from federation.usage.counting import Counted
from machinery.clock import Clock
from machinery.errors import Conflict, NotFound
from machinery.informer import Change, Informer, Informers, Key
from machinery.port import Port
from machinery.runner import WorkMetrics, run_workers
from machinery.workqueue import WorkQueue
from policies import offers, usage
from policies.offers import OfferView
from policies.shapes import Pool
from policies.usage import Ran, UsageView
from policies.views import BindingView, JobView, Projections, WorkView

BATCH: Final = 10.0
"""Seconds that ends wait for company."""
EVERY: Final = 3600.0
"""Seconds between two looks for reports that are too old."""
_JOB_SUFFIX: Final = "-job"


class UsageController:
    """The role. Keys are reports; `keep`: days that a report stays."""

    def __init__(
        self, *, port: Port, informers: Informers, projections: Projections, clock: Clock, keep: int, batch: float = BATCH
    ) -> None:
        self._port, self._clock, self._keep, self._batch = port, clock, keep, batch
        self._works: Informer[WorkView] = informers.add(kinds.WORK, projections.work)
        self._jobs: Informer[JobView] = informers.add(kinds.JOB, projections.job)
        self._bindings: Informer[BindingView] = informers.add(
            kinds.RESOURCE_BINDING, projections.binding, labels=keys.NO_OBJECT
        )
        self._offers: Informer[OfferView] = informers.add(kinds.CLUSTER_OFFER, offers.project_offer)
        self._reports: Informer[UsageView] = informers.add(kinds.USAGE_REPORT, usage.project_usage)
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._pending: dict[Key, dict[str, Ran]] = {}
        self._about: dict[Key, UsageView] = {}
        """Reports that are to be written, empty."""
        self._pool = Pool()

    async def run(self, metrics: WorkMetrics | None = None) -> None:
        """Until cancelled."""
        for informer in (self._works, self._jobs, self._bindings, self._offers, self._reports):
            await informer.wait_synced()
        self._works.subscribe(self._work_changed)
        self._reports.subscribe(lambda change: self._queue.add_after(change.key, EVERY) if change.old is None else None)
        for report in self._reports.values():
            if self._too_old(report):
                self._queue.add((report.namespace, report.name))
        await run_workers(self._queue, self._reconcile, workers=2, name="usage", metrics=metrics)

    def _work_changed(self, change: Change[WorkView]) -> None:
        old, new = change.old, change.new
        work = new or old
        if work is None or work.record is None:
            return
        if old is not None and new is not None and old.phase == new.phase:
            return
        namespace, binding = work.binding
        found = counting.ended(
            work,
            gone=new is None,
            job=self._jobs.get(namespace, binding.removesuffix(_JOB_SUFFIX)),
            binding=self._bindings.get(namespace, binding),
            now=self._clock.now(),
            pool=self._pool,
        )
        if found is not None:
            self._count(found)

    def _count(self, found: Counted) -> None:
        name = usage.report_name(day=found.day, queue=found.queue, cluster=found.cluster)
        key = (found.namespace, name)
        known = self._reports.get(*key)
        if known is not None and known.has(found.ran):
            return
        self._pending.setdefault(key, {})[found.ran.id] = found.ran
        self._about.setdefault(key, UsageView(found.namespace, name, found.day, found.queue, found.cluster))
        self._queue.add_after(key, self._batch)

    async def _reconcile(self, key: Key) -> float | None:
        """Count what waits for this report, on what a quorum read says is counted."""
        pending = dict(self._pending.get(key, {}))
        report = await self._read(key)
        if not pending:
            return await self._tidy(report)
        offer = next(
            (each for each in self._offers.sorted() if not each.deleting and each.cluster == self._about[key].cluster), None
        )
        counted = usage.counted(report or self._about[key], pending.values(), offer=offer)
        if counted != report:
            await self._write(counted)
        left = self._pending.get(key, {})
        for name in pending:
            left.pop(name, None)
        if left:
            return self._batch
        self._pending.pop(key, None)
        self._about.pop(key, None)
        return None

    async def _read(self, key: Key) -> UsageView | None:
        try:
            return usage.project_usage(await self._port.get(kinds.USAGE_REPORT, key[1], namespace=key[0]))
        except NotFound:
            return None

    async def _write(self, report: UsageView) -> None:
        """A conflict is raised: another hub has counted meanwhile. A namespace that is gone takes its reports with it."""
        body = usage.document(report)
        try:
            if report.version:
                await self._port.replace(kinds.USAGE_REPORT, report.name, body, namespace=report.namespace)
            else:
                await self._port.create(kinds.USAGE_REPORT, body, namespace=report.namespace)
        except NotFound as error:
            if report.version:
                raise Conflict("the report was deleted", request=f"put {report.name}") from error

    async def _tidy(self, report: UsageView | None) -> float | None:
        if report is None:
            return None
        if not self._too_old(report):
            return EVERY
        try:
            await self._port.delete(kinds.USAGE_REPORT, report.name, namespace=report.namespace)
        except NotFound:
            return None
        return None

    def _too_old(self, report: UsageView) -> bool:
        first = (self._clock.now() - datetime.timedelta(days=self._keep)).strftime("%Y-%m-%d")
        return report.day < first
