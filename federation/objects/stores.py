"""What the role watches, and the snapshot of one object made from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apis import keys, kinds
from apis.kinds import Kind
from apis.vectors import ResourceVector
from federation.objects.promises import Promises
from federation.objects.snapshot import Around, Site, Snapshot
from federation.objects.views import Key, ObjectWork, Tree, project_object_work
from machinery.informer import Change, Informer, Informers
from policies import capacities, federated_quotas, members, offers, placements, profiles, queueing
from policies.capacities import CapacityView
from policies.dependencies import Reference
from policies.federated_quotas import FederatedQuotaView
from policies.interpreting import CustomizationView, Interpreter, project_customization
from policies.members import ClusterView, NamespaceView, QueueView
from policies.objects import SELECTOR, BoundObject, project_bound_object
from policies.offers import OfferView
from policies.overrides import OverrideView, project_override
from policies.placements import PolicyView
from policies.profiles import Profile
from policies.views import Projections, WorkView


class Stores:
    """Informers and what was promised. Rebuilt from the API after a restart, except refusals, which only save attempts."""

    def __init__(self, informers: Informers, *, projections: Projections) -> None:
        self.bindings: Informer[BoundObject] = informers.add(kinds.RESOURCE_BINDING, project_bound_object, labels=SELECTOR)
        self.cluster_bindings: Informer[BoundObject] = informers.add(
            kinds.CLUSTER_RESOURCE_BINDING, project_bound_object, labels=SELECTOR
        )
        self.works: Informer[ObjectWork] = informers.add(kinds.WORK, project_object_work, labels=SELECTOR)
        self.all_works: Informer[WorkView] = informers.add(kinds.WORK, projections.work)
        self.clusters: Informer[ClusterView] = informers.add(kinds.CLUSTER, members.project_cluster)
        self.capacities: Informer[CapacityView] = informers.add(kinds.CLUSTER_CAPACITY, capacities.project_capacity)
        self.queues: Informer[QueueView] = informers.add(kinds.QUEUE, members.project_queue)
        self.namespaces: Informer[NamespaceView] = informers.add(kinds.NAMESPACE, members.project_namespace)
        self.policies: Informer[PolicyView] = informers.add(kinds.PROPAGATION_POLICY, placements.project_policy)
        self.cluster_policies: Informer[PolicyView] = informers.add(kinds.CLUSTER_PROPAGATION_POLICY, placements.project_policy)
        self.overrides: Informer[OverrideView] = informers.add(kinds.OVERRIDE_POLICY, project_override)
        self.cluster_overrides: Informer[OverrideView] = informers.add(kinds.CLUSTER_OVERRIDE_POLICY, project_override)
        self.offers: Informer[OfferView] = informers.add(kinds.CLUSTER_OFFER, offers.project_offer)
        self.profiles: Informer[Profile] = informers.add(kinds.PLACEMENT_PROFILE, profiles.project_profile)
        self.quotas: Informer[FederatedQuotaView] = informers.add(
            kinds.FEDERATED_RESOURCE_QUOTA, federated_quotas.project_federated_quota
        )
        self.customizations: Informer[CustomizationView] = informers.add(kinds.INTERPRETER, project_customization)
        self._promises = Promises()
        self._works_of: dict[Key, dict[str, ObjectWork]] = {}
        self._interpreter: Interpreter | None = None
        self._closed: dict[tuple[str, str], str] = {}
        """By UID of an object and cluster, why it was refused there."""

    @property
    def everything(self) -> tuple[Informer[Any], ...]:
        """All of them."""
        return (
            self.bindings,
            self.cluster_bindings,
            self.works,
            self.all_works,
            self.clusters,
            self.capacities,
            self.queues,
            self.namespaces,
            self.policies,
            self.cluster_policies,
            self.overrides,
            self.cluster_overrides,
            self.offers,
            self.profiles,
            self.quotas,
            self.customizations,
        )

    def follow(self, works: Callable[[ObjectWork, ObjectWork | None], None]) -> None:
        """Keep what is derived current; `works` is told of each change of an object's Work, with the one before."""
        self.all_works.subscribe(self._promised)
        self.customizations.subscribe(self._understood)

        def changed(change: Change[ObjectWork]) -> None:
            view = change.new or change.old
            if view is None:
                return
            kept = self._works_of.setdefault(view.binding, {})
            if change.new is None:
                kept.pop(view.cluster, None)
                if not kept:
                    del self._works_of[view.binding]
            else:
                kept[view.cluster] = view
            works(view, change.old)

        self.works.subscribe(changed)

    def _promised(self, change: Change[WorkView]) -> None:
        if change.new is not None:
            self._promises.saw(change.new)
        elif change.old is not None:
            self._promises.lost(change.old)

    def _understood(self, change: Change[CustomizationView]) -> None:
        self._interpreter = None

    @property
    def interpreter(self) -> Interpreter:
        """By the customizations of now."""
        if self._interpreter is None:
            self._interpreter = Interpreter(self.customizations.sorted())
        return self._interpreter

    def bound(self, key: Key) -> BoundObject | None:
        """A binding by namespace ("" for one of an object without) and name."""
        store = self.bindings if key[0] else self.cluster_bindings
        return store.get(key[0] or None, key[1])

    def works_of(self, key: Key) -> dict[str, ObjectWork]:
        """By cluster, the Works that name a binding."""
        return dict(self._works_of.get(key, {}))

    def refused(self, uid: str, work: ObjectWork) -> None:
        """A member does not take it: it is not asked again before that is forgotten."""
        self._closed[(uid, work.cluster)] = f"it refused: {work.reason} ({work.message})"

    def forget_refusals(self, *, cluster: str = "", uid: str = "") -> None:
        """A cluster or an object changed: it may be asked again."""
        for pair in [each for each in self._closed if each[1] == cluster or each[0] == uid]:
            del self._closed[pair]

    def snapshot(self, reference: Reference, kind: Kind, *, source: Tree | None, binding: Tree | None, name: str) -> Snapshot:
        """Everything that a plan for this object depends on."""
        uid = str(((source or {}).get("metadata") or {}).get("uid", ""))
        clusters = self.clusters.sorted()
        return Snapshot(
            reference=reference,
            kind=kind,
            around=self._around(reference, uid=uid, clusters=clusters),
            source=source,
            binding=binding,
            works=self.works_of((reference.namespace, name)),
            registered=frozenset(each.name for each in clusters),
        )

    def _around(self, reference: Reference, *, uid: str, clusters: list[ClusterView]) -> Around:
        queues = {each.name: each for each in self.queues.sorted()}
        namespace = self.namespaces.get(None, reference.namespace) if reference.namespace else None
        quotas = tuple(each for each in self.quotas.sorted() if each.namespace == reference.namespace)
        return Around(
            policies=(*self.policies.sorted(), *self.cluster_policies.sorted()),
            sites=tuple(self._site(each, uid=uid) for each in clusters),
            overrides=(*self.overrides.sorted(), *self.cluster_overrides.sorted()),
            interpreter=self.interpreter,
            offers=tuple(self.offers.sorted()),
            profiles={each.name: each for each in self.profiles.sorted()},
            queues=queues,
            used=self._used(queues) if any(each.capability is not None for each in queues.values()) else {},
            quotas=quotas,
            holdings=self._promises.holdings([reference.namespace]) if quotas else (),
            given=namespace.settings if namespace is not None else {},
        )

    def _site(self, cluster: ClusterView, *, uid: str) -> Site:
        capacity = self.capacities.get(keys.execution_namespace(cluster.name), keys.MEMBER_LEASE)
        through = capacity.works_through if capacity is not None else 0
        return Site(
            cluster=cluster,
            capacity=capacity,
            promised=self._promises.promised(cluster.name, through=through),
            closed=self._closed.get((uid, cluster.name), ""),
        )

    def _used(self, queues: dict[str, QueueView]) -> dict[str, ResourceVector]:
        """With what runs from the queues under each."""
        sums: dict[str, ResourceVector] = {}
        for name, amount in self._promises.used().items():
            for above in queueing.chain(name, queues=queues):
                sums[above] = sums.get(above, ResourceVector()) + amount
        return sums
