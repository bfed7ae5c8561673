"""Watches policies and what they may govern, and marks it with whose it is."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from apis import kinds
from apis.kinds import Kind
from machinery.clock import Clock
from machinery.errors import NotFound
from machinery.informer import Change, Informer, Informers
from machinery.port import PatchType, Port
from machinery.runner import WorkMetrics, run_workers
from machinery.workqueue import WorkQueue
from policies import claims, makers, matching, placements
from policies.makers import MakerView
from policies.matching import Makers
from policies.placements import PolicyView
from policies.selecting import Template
from policies.views import JobView, Projections

Key = tuple[Kind, str, str]

MAKERS: Final = (kinds.JOB_FLOW, kinds.JOB_TEMPLATE, kinds.CRON_JOB)
WORKERS: Final = 4


class MakersInformers:
    """What Jobs are made from, by kind: kept apart from what flows and schedules keep of the same objects."""

    def __init__(self, informers: Informers) -> None:
        self.by_kind: Mapping[Kind, Informer[MakerView]] = {kind: informers.add(kind, makers.project_maker) for kind in MAKERS}

    def labels(self) -> Makers:
        """Labels by kind, namespace and name."""
        return {
            (kind.kind, each.namespace, each.name): each.labels
            for kind, informer in self.by_kind.items()
            for each in informer.values()
            if each.labels
        }


class ClaimingController:
    """The role. Keys are objects: kind, namespace and name."""

    def __init__(
        self, *, port: Port, informers: Informers, made_from: MakersInformers, projections: Projections, clock: Clock
    ) -> None:
        self._port = port
        self._jobs: Informer[JobView] = informers.add(kinds.JOB, projections.job)
        self._makers = made_from.by_kind
        self._labels = made_from.labels
        self._policies: Informer[PolicyView] = informers.add(kinds.PROPAGATION_POLICY, placements.project_policy)
        self._cluster_policies: Informer[PolicyView] = informers.add(
            kinds.CLUSTER_PROPAGATION_POLICY, placements.project_policy
        )
        self._work: WorkQueue[Key] = WorkQueue(clock)

    async def run(self, metrics: WorkMetrics | None = None) -> None:
        """Until cancelled."""
        everything: tuple[Informer[Any], ...] = (self._jobs, self._policies, self._cluster_policies, *self._makers.values())
        for informer in everything:
            await informer.wait_synced()
        self._jobs.subscribe(self._job_changed)
        for kind, makers_of_kind in self._makers.items():
            makers_of_kind.subscribe(partial(self._maker_changed, kind))
        self._policies.subscribe(self._policy_changed)
        self._cluster_policies.subscribe(self._policy_changed)
        await run_workers(self._work, self._reconcile, workers=WORKERS, name="claiming", metrics=metrics)

    # --- waking ------------------------------------------------------------------------------------------------------

    def _job_changed(self, change: Change[JobView]) -> None:
        old, new = change.old, change.new
        if new is None or new.ended:
            return
        changed = old is None or (old.labels, old.claimed) != (new.labels, new.claimed)
        if changed and (new.claimed or self._some()):
            self._work.add((kinds.JOB, *change.key))

    def _maker_changed(self, kind: Kind, change: Change[MakerView]) -> None:
        old, new = change.old, change.new
        if new is not None and (old is None or (old.labels, old.claim) != (new.labels, new.claim)):
            self._work.add((kind, *change.key))

    def _policy_changed(self, change: Change[PolicyView]) -> None:
        """Whom it selects, or whom it takes from, may be somebody else's now."""
        old, new = change.old, change.new
        if old is not None and new is not None and (old.generation, old.deleting) == (new.generation, new.deleting):
            return
        namespace = change.key[0]
        for job in self._jobs.values():
            if not job.ended and namespace in ("", job.namespace):
                self._work.add((kinds.JOB, job.namespace, job.name))
        for kind, informer in self._makers.items():
            for maker in informer.values():
                if namespace in ("", maker.namespace):
                    self._work.add((kind, maker.namespace, maker.name))

    def _some(self) -> bool:
        return len(self._policies) + len(self._cluster_policies) > 0

    # --- marking -----------------------------------------------------------------------------------------------------

    async def _reconcile(self, key: Key) -> None:
        kind, namespace, name = key
        policies = [*self._policies.sorted(), *self._cluster_policies.sorted()]
        if kind == kinds.JOB:
            job = self._jobs.get(namespace, name)
            if job is None or job.ended or job.deleting:
                return
            templates = (matching.template(job), *matching.makers_of(job, makers=self._labels()))
            claim, version = claims.claim_on(job), job.version
            labels, notes = claims.claim_marks(claim)
        else:
            maker = self._makers[kind].get(namespace, name)
            if maker is None or maker.deleting:
                return
            templates = (Template(kind.api_version, kind.kind, name, namespace, maker.labels),)
            claim, version = maker.claim, maker.version
            labels, notes = claims.claim_marks(claim)
        governed = claims.govern(templates, claim=claim, policies=policies)
        await self._mark(key, claims.remarked(labels, notes, policy=governed.policy), version=version)

    async def _mark(self, key: Key, marks: Mapping[str, Mapping[str, str | None]], *, version: str) -> None:
        """At exactly this version: the marks say what was decided about that."""
        if not marks:
            return
        kind, namespace, name = key
        try:
            body = {"metadata": {**marks, "resourceVersion": version}}
            await self._port.patch(kind, name, body, type=PatchType.MERGE, namespace=namespace)
        except NotFound:
            return
