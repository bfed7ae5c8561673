"""Wakes for Jobs, bindings and Works, and writes what `telling` answers: the binding first, so that an end is recorded there
before anybody can see it."""

from __future__ import annotations

import logging
from typing import Any, Final

from apis import keys, kinds, naming
from federation.collection.telling import Happening, Telling, edit_noted, happening, tell
from machinery.clock import Clock, stamp
from machinery.errors import Conflict, NotFound
from machinery.events import About, EventRecorder, Severity
from machinery.informer import Change, Informer, Informers, Key
from machinery.port import PatchType, Port
from machinery.runner import WorkMetrics, run_workers
from machinery.workqueue import WorkQueue
from policies import folding, statuses
from policies.folding import Folded
from policies.members import ClusterView, project_cluster
from policies.statuses import JobStatus
from policies.views import BindingView, JobView, Projections, Stage, WorkView

log = logging.getLogger(__name__)

WORKERS: Final = 16


class CollectionController:
    """Folds status home. `pace` is the least time between two writes of one Job's status, `patience` how long a placement
    waits for the first pod, so that both are told in one write; seconds."""

    def __init__(
        self,
        *,
        port: Port,
        informers: Informers,
        projections: Projections,
        events: EventRecorder,
        clock: Clock,
        pace: float,
        patience: float,
    ) -> None:
        self._port = port
        self._clock = clock
        self._events = events
        self._pace = pace
        self._patience = patience
        self._jobs: Informer[JobView] = informers.add(kinds.JOB, projections.job)
        self._bindings: Informer[BindingView] = informers.add(
            kinds.RESOURCE_BINDING, projections.binding, labels=keys.NO_OBJECT
        )
        self._works: Informer[WorkView] = informers.add(kinds.WORK, projections.work)
        self._clusters: Informer[ClusterView] = informers.add(kinds.CLUSTER, project_cluster)
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._works_of: dict[Key, dict[Key, WorkView]] = {}
        self._ends: dict[str, tuple[int, Folded]] = {}
        """By Job UID, epoch and end that no binding records yet."""
        self._written: dict[str, float] = {}
        self._placed: dict[str, tuple[int, float]] = {}
        """By Job UID, epoch and boot seconds of a placement that is not told yet."""
        self._told: dict[str, Happening] = {}

    async def run(self, metrics: WorkMetrics | None = None) -> None:
        """Until cancelled."""
        for informer in (self._jobs, self._bindings, self._works, self._clusters):
            await informer.wait_synced()
        self._works.subscribe(self._work_changed)
        self._bindings.subscribe(self._binding_changed)
        self._jobs.subscribe(self._job_changed)
        self._clusters.subscribe(self._cluster_changed)
        await run_workers(self._queue, self._reconcile, workers=WORKERS, name="collection", metrics=metrics)

    # --- waking; keys are namespace and name of bindings -------------------------------------------------------------

    def _work_changed(self, change: Change[WorkView]) -> None:
        view = change.new or change.old
        if view is None or not view.binding[1]:
            return
        works = self._works_of.setdefault(view.binding, {})
        if change.new is None:
            works.pop(change.key, None)
            if not works:
                del self._works_of[view.binding]
        else:
            works[change.key] = change.new
        self._wake(view.binding, ended=view.phase in statuses.TERMINAL)

    def _binding_changed(self, change: Change[BindingView]) -> None:
        view = change.new or change.old
        if view is not None and (change.new is None or view.ended):
            self._ends.pop(view.job_uid, None)
            self._placed.pop(view.job_uid, None)
        self._wake(change.key, ended=False)

    def _job_changed(self, change: Change[JobView]) -> None:
        if change.new is None and change.old is not None:
            self._written.pop(change.old.uid, None)
            self._told.pop(change.old.uid, None)
        elif change.new is not None and not change.new.ended:
            self._wake((change.key[0], naming.binding_name(change.key[1])), ended=False)

    def _cluster_changed(self, change: Change[ClusterView]) -> None:
        """A member fell silent, or was heard from again: its Jobs say so."""
        if change.old is None or _is_away(change.old) == _is_away(change.new):
            return
        for binding in self._bindings.sorted():
            if change.key[1] in binding.clusters and not binding.ended:
                self._wake((binding.namespace, binding.name), ended=False)

    def _wake(self, key: Key, *, ended: bool) -> None:
        """An end goes at once, everything else waits for company. An end is kept in mind: its Work may vanish."""
        binding = self._bindings.get(*key)
        if ended and binding is not None and binding.run is not None and not binding.ended:
            folded = folding.fold(binding, self._works_of.get(key, {}).values())
            if folded.ended:
                self._ends[binding.job_uid] = (binding.run.epoch, folded)
        if ended:
            self._queue.add(key)
        else:
            self._queue.add_after(key, self._wait(binding))

    def _wait(self, binding: BindingView | None) -> float:
        """Seconds until the Job's status may be written again."""
        last = self._written.get(binding.job_uid) if binding is not None else None
        due = 0.0 if last is None else last + self._pace - self._clock.boot()
        return max(due, self._pace / 2)

    # --- writing -----------------------------------------------------------------------------------------------------

    async def _reconcile(self, key: Key) -> float | None:
        binding = self._bindings.get(*key)
        if binding is None:
            return None
        job = self._jobs.get(binding.namespace, binding.job)
        epoch = (binding.job_uid, binding.run.epoch if binding.run else 0)
        works = tuple(work for _, work in sorted(self._works_of.get(key, {}).items()))
        away = [name for name in binding.clusters if _is_away(self._clusters.get(None, name))]
        end = self._ends.get(binding.job_uid)
        seen_end = end[1] if end is not None and end[0] == epoch[1] else None
        told = tell(job, binding=binding, works=works, seen_end=seen_end, now=stamp(self._clock.now()), away=away)
        # A placement by itself is not told at once: with luck the first pod is told in the same write.
        again = self._patience_left(epoch, told)
        if again is not None:
            return again
        if told.binding_status is not None:
            await self._write_binding(binding, told.binding_status)
        if job is not None and told.job_status is not None:
            wait = 0.0 if told.urgent else self._due(job)
            if wait > 0:
                return wait
            await self._write_job(job, told.job_status)
            if (edit := edit_noted(job, status=told.job_status)) is not None:
                self._record(job, edit)
        if job is not None and job.uid == binding.job_uid:
            self._tell_event(job, happening(binding, status=told.job_status))
        return None

    def _patience_left(self, epoch: tuple[str, int], told: Telling) -> float | None:
        """Seconds for which a mere placement is not told yet; None when it is time, or when there is more to tell."""
        if told.stage is not Stage.SCHEDULED:
            self._placed.pop(epoch[0], None)
            return None
        since = self._placed.get(epoch[0])
        if since is None or since[0] != epoch[1]:
            since = self._placed[epoch[0]] = (epoch[1], self._clock.boot())
        left = since[1] + self._patience - self._clock.boot()
        return left if left > 0 else None

    def _due(self, job: JobView) -> float:
        last = self._written.get(job.uid)
        return 0.0 if last is None else last + self._pace - self._clock.boot()

    async def _write_binding(self, binding: BindingView, status: dict[str, Any]) -> None:
        await self._patch(kinds.RESOURCE_BINDING, binding.namespace, binding.name, version=binding.version, status=status)

    async def _write_job(self, job: JobView, status: JobStatus) -> None:
        changes = statuses.difference(statuses.plain(job.status), new=statuses.plain(status))
        await self._patch(kinds.JOB, job.namespace, job.name, version=job.version, status=changes)
        self._written[job.uid] = self._clock.boot()

    async def _patch(self, kind: kinds.Kind, namespace: str, name: str, *, version: str, status: dict[str, Any]) -> None:
        """Merge into the status at exactly this version; a conflict brings the key back when the newer object arrives, and a
        back-off in case it has arrived already."""
        body = {"metadata": {"resourceVersion": version}, "status": status}
        try:
            await self._port.patch(kind, name, body, type=PatchType.MERGE, namespace=namespace, subresource="status")
        except NotFound:
            log.debug("%s %s/%s is gone, its status goes with it", kind.name, namespace, name)
        except Conflict as conflict:
            raise Conflict(f"{namespace}/{name} is newer than what was folded", request=kind.name) from conflict

    def _tell_event(self, job: JobView, event: Happening | None) -> None:
        """Once for each happening; events explain, nothing depends on them."""
        if event is None or self._told.get(job.uid) == event:
            return
        self._told[job.uid] = event
        self._record(job, event)

    def _record(self, job: JobView, event: Happening) -> None:
        about = About(kinds.JOB, job.namespace, job.name, job.uid, job.version)
        severity = Severity.WARNING if event.warning else Severity.NORMAL
        self._events.record(about, reason=event.reason, message=event.message, severity=severity)


def _is_away(cluster: ClusterView | None) -> bool:
    """Its Lease was not renewed for long: what it said last may be old. One that says itself that it is not ready is there."""
    return cluster is not None and cluster.ready == "Unknown"
