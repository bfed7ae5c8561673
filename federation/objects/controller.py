"""Watches policies, the kinds they select, bindings and Works; plans one object after the other and has it written."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Final

from apis.kinds import Kind
from federation.objects import documents, travelling
from federation.objects.applier import ObjectsApplier
from federation.objects.planner import Plan, plan
from federation.objects.snapshot import Rules, Snapshot
from federation.objects.stores import Stores
from federation.objects.views import ObjectWork, Seen, project_seen
from machinery import discovery
from machinery.clock import Clock, stamp
from machinery.events import About, EventRecorder
from machinery.informer import Change, Informers
from machinery.port import Port
from machinery.runner import WorkMetrics, run_workers
from machinery.workqueue import WorkQueue
from policies.dependencies import Reference
from policies.members import ClusterView
from policies.objects import BoundObject
from policies.placements import PolicyView
from policies.views import Projections

log = logging.getLogger(__name__)

WORKERS: Final = 4
UNSERVED_AGAIN: Final = 60.0
"""Seconds after which a kind that a policy selects and the hub does not serve is looked for again."""
AGAIN: Final = 300.0
"""Seconds after which what waits is looked at again, whatever happened: a member may have forgotten its refusal."""


class ObjectsController:
    """The role. Keys are objects, and kinds that are to be watched. `watched` is its own: of objects it keeps the version
    alone, whatever others keep of their kind."""

    def __init__(
        self,
        *,
        port: Port,
        informers: Informers,
        watched: Informers,
        projections: Projections,
        events: EventRecorder,
        clock: Clock,
        rules: Rules,
    ) -> None:
        self._port, self._watched, self._events, self._clock, self._rules = port, watched, events, clock, rules
        self._stores = Stores(informers, projections=projections)
        self._applier = ObjectsApplier(port)
        self._work: WorkQueue[Reference | tuple[str, str]] = WorkQueue(clock)
        self._kinds: dict[tuple[str, str], Kind] = {}
        """Kinds that are watched, by apiVersion and kind."""
        self._seen: dict[Reference, Seen] = {}
        self._waiting: set[Reference] = set()
        self._told: dict[Reference, tuple[str, str]] = {}

    async def run(self, metrics: WorkMetrics | None = None) -> None:
        """Until cancelled."""
        stores = self._stores
        for informer in stores.everything:
            await informer.wait_synced()
        stores.follow(self._work_changed)
        stores.bindings.subscribe(self._binding_changed)
        stores.cluster_bindings.subscribe(self._binding_changed)
        stores.policies.subscribe(self._policy_changed)
        stores.cluster_policies.subscribe(self._policy_changed)
        for informer in (stores.overrides, stores.cluster_overrides, stores.customizations):
            informer.subscribe(lambda _: self._look_at_all())
        stores.clusters.subscribe(self._cluster_changed)
        for informer in (stores.capacities, stores.queues, stores.quotas, stores.offers, stores.profiles, stores.namespaces):
            informer.subscribe(lambda _: self._look_at_waiting())
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watched.run(), name="objects/informers")
            await run_workers(self._work, self._reconcile, workers=WORKERS, name="objects", metrics=metrics)

    # --- waking ------------------------------------------------------------------------------------------------------

    def _look_at_all(self) -> None:
        for reference in self._seen:
            self._work.add(reference)

    def _look_at_waiting(self) -> None:
        for reference in self._waiting:
            self._work.add(reference)

    def _policy_changed(self, change: Change[PolicyView]) -> None:
        """Kinds that nobody selected so far are watched from now on."""
        for policy in (change.old, change.new):
            for selector in policy.selectors if policy is not None else ():
                self._work.add((selector.api_version, selector.kind))
        selected = {(each.api_version, each.kind) for policy in (change.old, change.new) if policy for each in policy.selectors}
        for reference in self._seen:
            if (reference.api_version, reference.kind) in selected:
                self._work.add(reference)

    def _cluster_changed(self, change: Change[ClusterView]) -> None:
        """What placement looks at changed, or it came or left."""
        old, new = change.old, change.new
        self._stores.forget_refusals(cluster=change.key[1])
        if old is None or new is None or _facts(old) != _facts(new):
            self._look_at_all()

    def _binding_changed(self, change: Change[BoundObject]) -> None:
        view = change.new or change.old
        if view is not None:
            self._work.add((view.reference.api_version, view.reference.kind))
            self._work.add(view.reference)

    def _work_changed(self, work: ObjectWork, old: ObjectWork | None) -> None:
        bound = self._stores.bound(work.binding)
        if bound is None:
            return
        if work.refused and (old is None or not old.refused) and bound.reference in self._seen:
            self._stores.refused(self._seen[bound.reference].uid, work)
        self._work.add(bound.reference)

    # --- reconciling -------------------------------------------------------------------------------------------------

    async def _reconcile(self, key: Reference | tuple[str, str]) -> float | None:
        if not isinstance(key, Reference):
            return await self._watch(key)
        kind = self._kinds.get((key.api_version, key.kind))
        if kind is None:
            return await self._watch((key.api_version, key.kind))
        source = await self._applier.read(kind, key.name, namespace=key.namespace)
        name = documents.binding_name(key, kind)
        binding = await self._applier.read(documents.binding_kind(kind), name, namespace=key.namespace)
        if source is None and binding is None and not self._stores.works_of((key.namespace, name)):
            self._forget(key)
            return None
        snapshot = self._stores.snapshot(key, kind, source=source, binding=binding, name=name)
        found = plan(snapshot, rules=self._rules, now=stamp(self._clock.now()))
        await self._applier.commit(found, snapshot=snapshot)
        self._tell(snapshot, found)
        (self._waiting.add if found.waits else self._waiting.discard)(key)
        return AGAIN if found.waits else None

    def _forget(self, reference: Reference) -> None:
        self._waiting.discard(reference)
        self._told.pop(reference, None)

    def _tell(self, snapshot: Snapshot, found: Plan) -> None:
        """Once for each reason."""
        reference = snapshot.reference
        if self._told.get(reference) == found.told:
            return
        self._told[reference] = found.told
        reason, text = found.told
        if text and snapshot.source is not None:
            uid = str(snapshot.source["metadata"].get("uid", ""))
            self._events.warn(About(snapshot.kind, reference.namespace, reference.name, uid), reason=reason, message=text)

    async def _watch(self, wanted: tuple[str, str]) -> float | None:
        """Follow a kind; nothing is said of one that never travels."""
        if wanted in self._kinds:
            return None
        kind = await discovery.find(self._port, api_version=wanted[0], kind=wanted[1])
        if kind is None:
            return UNSERVED_AGAIN if self._selected(wanted) else None
        if not travelling.travels(kind):
            return None
        self._kinds[wanted] = kind
        self._watched.add(kind, project_seen).subscribe(partial(self._object_changed, kind))
        for store in (self._stores.bindings, self._stores.cluster_bindings):
            for bound in store.sorted():
                if (bound.reference.api_version, bound.reference.kind) == wanted:
                    self._work.add(bound.reference)
        return None

    def _selected(self, wanted: tuple[str, str]) -> bool:
        everything = (*self._stores.policies.values(), *self._stores.cluster_policies.values())
        return any(wanted == (each.api_version, each.kind) for policy in everything for each in policy.selectors)

    def _object_changed(self, kind: Kind, change: Change[Seen]) -> None:
        reference = Reference(kind.api_version, kind.kind, *change.key)
        if change.new is None:
            self._seen.pop(reference, None)
        else:
            self._seen[reference] = change.new
            if change.old is not None and change.old.uid != change.new.uid:
                self._stores.forget_refusals(uid=change.old.uid)
        self._work.add(reference)


def _facts(cluster: ClusterView) -> tuple[object, ...]:
    """What decides where things go."""
    return (
        cluster.labels,
        cluster.taints,
        cluster.provider,
        cluster.region,
        cluster.zones,
        cluster.ready,
        cluster.deleting,
        cluster.kinds,
        cluster.complete,
    )
