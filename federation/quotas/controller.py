"""Writes the status of FederatedResourceQuotas (reference/karmada.md 3.9) from live bindings, a second after they change."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from apis import keys, kinds
from apis.runs import PartState
from federation.quotas import assignments
from federation.quotas.assignments import AssignedWork
from machinery.clock import Clock
from machinery.errors import AlreadyExists, NotFound
from machinery.informer import Change, Informer, Informers, Key
from machinery.port import PatchType, Port, Preconditions
from machinery.runner import WorkMetrics, run_workers
from machinery.workqueue import WorkQueue
from policies import federated_quotas, members, parts
from policies.federated_quotas import FederatedQuotaView, Holding
from policies.members import ClusterView
from policies.shapes import Pool
from policies.views import BindingView, JobView, Projections

COALESCE: Final = 1.0
"""Seconds that changes of bindings wait for company: people read the status, nothing decides on it."""


def holdings_of(binding: BindingView, job: JobView | None, *, pool: Pool) -> Iterator[Holding]:
    """What a Job asks for in every cluster where a part of it may run; nothing once it has ended."""
    if binding.run is None or binding.ended or job is None or job.gang is None or job.uid != binding.job_uid:
        return
    for cluster, part in sorted(binding.run.parts.items()):
        if part.state is PartState.GONE:
            continue
        recorded = parts.recorded(cluster, part)
        # Of a Job that was divided before it got other tasks nobody knows the part: all of it counts, as in the ledger.
        known = recorded is not None and {each.name for each in recorded.tasks} <= {each.name for each in job.gang.tasks}
        gang = parts.gang_of(recorded, job.gang, pool=pool) if recorded is not None and known else job.gang
        yield Holding(binding.namespace, cluster, gang.requests)


class QuotasController:
    """The role. Keys are quotas."""

    def __init__(self, *, port: Port, informers: Informers, projections: Projections, clock: Clock) -> None:
        self._port = port
        self._quotas: Informer[FederatedQuotaView] = informers.add(
            kinds.FEDERATED_RESOURCE_QUOTA, federated_quotas.project_federated_quota
        )
        self._bindings: Informer[BindingView] = informers.add(
            kinds.RESOURCE_BINDING, projections.binding, labels=keys.NO_OBJECT
        )
        self._jobs: Informer[JobView] = informers.add(kinds.JOB, projections.job)
        self._works: Informer[AssignedWork] = informers.add(
            kinds.WORK, assignments.project_assigned, labels=assignments.SELECTOR
        )
        self._clusters: Informer[ClusterView] = informers.add(kinds.CLUSTER, members.project_cluster)
        self._work: WorkQueue[Key] = WorkQueue(clock)
        self._pool = Pool()

    async def run(self, metrics: WorkMetrics | None = None) -> None:
        """Until cancelled."""
        everything: tuple[Informer[Any], ...] = (self._quotas, self._bindings, self._jobs, self._works, self._clusters)
        for informer in everything:
            await informer.wait_synced()
        self._quotas.subscribe(lambda change: self._work.add(change.key))
        self._bindings.subscribe(self._binding_changed)
        self._works.subscribe(lambda change: self._work.add((change.new or change.old).quota))  # type: ignore[union-attr]
        self._clusters.subscribe(self._cluster_changed)
        await run_workers(self._work, self._reconcile, workers=1, name="quotas", metrics=metrics)

    def _binding_changed(self, change: Change[BindingView]) -> None:
        for quota in self._quotas.values():
            if quota.namespace == change.key[0]:
                self._work.add_after((quota.namespace, quota.name), COALESCE)

    def _cluster_changed(self, change: Change[ClusterView]) -> None:
        """It came or left."""
        if change.old is None or change.new is None:
            for quota in self._quotas.values():
                if change.key[1] in quota.assigned:
                    self._work.add((quota.namespace, quota.name))

    async def _assign(self, key: Key, quota: FederatedQuotaView | None) -> None:
        """Every cluster with a static assignment gets its ResourceQuota; what is assigned no more goes."""
        there = {each.cluster: each for each in self._works.values() if each.quota == key}
        found = assignments.plan(quota, works=there, clusters={each.name for each in self._clusters.values()})
        for body in found.create:
            with contextlib.suppress(AlreadyExists, NotFound):
                await self._port.create(kinds.WORK, body, namespace=body["metadata"]["namespace"])
        for work, changes in found.update:
            with contextlib.suppress(NotFound):
                await self._port.patch(kinds.WORK, work.name, changes, type=PatchType.MERGE, namespace=work.namespace)
        for work in found.delete:
            with contextlib.suppress(NotFound):
                uid = Preconditions(uid=work.uid)
                await self._port.delete(kinds.WORK, work.name, namespace=work.namespace, preconditions=uid)

    async def _reconcile(self, key: Key) -> None:
        """Read it, and write its status where that says anything else."""
        quota = self._quotas.get(*key)
        await self._assign(key, quota)
        if quota is None or quota.deleting:
            return
        try:
            document = await self._port.get(kinds.FEDERATED_RESOURCE_QUOTA, quota.name, namespace=quota.namespace)
        except NotFound:
            return
        tree: dict[str, Any] = msgspec.json.decode(document)
        quota = federated_quotas.project_federated_quota(document)
        status = federated_quotas.status(quota, list(self._holdings(quota.namespace)))
        if status == tree.get("status"):
            return
        # A list of a merge patch replaces the whole list; what is no longer assigned must be said to be gone.
        body = {
            "metadata": {"resourceVersion": quota.version},
            "status": {"aggregatedStatus": None, **_replacing(status, tree)},
        }
        await self._port.patch(
            kinds.FEDERATED_RESOURCE_QUOTA,
            quota.name,
            body,
            type=PatchType.MERGE,
            namespace=quota.namespace,
            subresource="status",
        )

    def _holdings(self, namespace: str) -> Iterable[Holding]:
        for binding in self._bindings.values():
            if binding.namespace == namespace:
                yield from holdings_of(binding, self._jobs.get(namespace, binding.job), pool=self._pool)


def _replacing(status: dict[str, Any], tree: dict[str, Any]) -> dict[str, Any]:
    """The status as a merge patch: resources that the quota names no longer are taken out."""
    before: dict[str, Any] = tree.get("status") or {}
    made = dict(status)
    for field in ("overall", "overallUsed"):
        gone = dict.fromkeys(set(before.get(field) or {}) - set(status[field]))
        made[field] = {**gone, **status[field]}
    return made
