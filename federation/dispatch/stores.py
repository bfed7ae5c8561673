"""The views that dispatch decides on, gathered into one frozen snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from apis import keys, kinds, naming
from apis.runs import RefusalReason
from apis.vectors import ResourceVector
from federation.dispatch.items import Versions
from federation.dispatch.leaving import Leaving
from federation.dispatch.ledger import Ledger, with_ancestors
from federation.dispatch.recent import Recent
from federation.dispatch.snapshot import Case, Key, Member, Order, Snapshot
from federation.dispatch.terrain import Terrain, by_cluster, terrain_of
from federation.dispatch.trust import Trust
from federation.fences import Fences
from machinery.informer import Change, Informer, Informers
from policies import capacities, company, federated_quotas, members, offers, placements, profiles, queueing
from policies.capacities import CapacityView
from policies.company import Resident
from policies.federated_quotas import FederatedQuotaView
from policies.matching import Makers, template
from policies.members import ClusterView, CommandView, LeaseView, NamespaceView, PriorityView, QueueView
from policies.offers import OfferView
from policies.overrides import Overridden, OverrideView, overridden, project_override, standing
from policies.placements import PolicyView
from policies.profiles import Profile
from policies.reads import SourceView, by_name, project_source
from policies.statuses import TERMINAL
from policies.usage import History, UsageView, project_usage
from policies.views import BindingView, JobView, Projections, WorkView

HALF_LIFE: Final = 600.0
"""Seconds in which a cluster's penalty for late starts halves: as long as the default start time-out."""

AGAIN: Final = 5.0
"""Seconds before a pair that was refused twice is tried again; doubled by each further refusal."""

AGAIN_LIMIT: Final = 600.0
"""The longest such pause."""

_OF_THE_SHAPE: Final = frozenset({RefusalReason.NO_ROOM, RefusalReason.QUEUE_CLOSED})
"""Refusals that any equal gang would get; the others concern one Job."""


@dataclass(frozen=True, slots=True)
class _Closed:
    generation: int
    text: str
    times: int
    until: float
    """Boot seconds: a newer generation does not reopen it before. 0 after the first refusal."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A Command that a Job's next decision carries out. `job` is the Job's UID."""

    command: CommandView
    job: str
    order: Order


class Stores:
    """Informers, ledger and memory of one leader. Everything here is rebuilt from the API after a restart, except refusals and
    penalties, which only save attempts."""

    def __init__(
        self,
        informers: Informers,
        *,
        projections: Projections,
        fences: Fences,
        evictions: float = 1.0,
        rates: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        """`evictions`: runs that are taken away from one cluster in a second; `rates`: exchange rates of offers."""
        self._rates = rates
        self._terrain: Terrain | None = None
        self._fences = fences
        self.jobs: Informer[JobView] = informers.add(kinds.JOB, projections.job)
        self.bindings: Informer[BindingView] = informers.add(kinds.RESOURCE_BINDING, projections.binding, labels=keys.NO_OBJECT)
        self.works: Informer[WorkView] = informers.add(kinds.WORK, projections.work)
        self.clusters: Informer[ClusterView] = informers.add(kinds.CLUSTER, members.project_cluster)
        self.leases: Informer[LeaseView] = informers.add(kinds.LEASE, members.project_lease, fields="metadata.name=member")
        self.capacities: Informer[CapacityView] = informers.add(kinds.CLUSTER_CAPACITY, capacities.project_capacity)
        self.queues: Informer[QueueView] = informers.add(kinds.QUEUE, members.project_queue)
        self.policies: Informer[PolicyView] = informers.add(kinds.PROPAGATION_POLICY, placements.project_policy)
        self.cluster_policies: Informer[PolicyView] = informers.add(kinds.CLUSTER_PROPAGATION_POLICY, placements.project_policy)
        self.priorities: Informer[PriorityView] = informers.add(kinds.PRIORITY_CLASS, members.project_priority)
        self.namespaces: Informer[NamespaceView] = informers.add(kinds.NAMESPACE, members.project_namespace)
        self.offers: Informer[OfferView] = informers.add(kinds.CLUSTER_OFFER, offers.project_offer)
        self.profiles: Informer[Profile] = informers.add(kinds.PLACEMENT_PROFILE, profiles.project_profile)
        self.sources: Informer[SourceView] = informers.add(kinds.DATA_SOURCE, project_source)
        self.overrides: Informer[OverrideView] = informers.add(kinds.OVERRIDE_POLICY, project_override)
        self.cluster_overrides: Informer[OverrideView] = informers.add(kinds.CLUSTER_OVERRIDE_POLICY, project_override)
        self.quotas: Informer[FederatedQuotaView] = informers.add(
            kinds.FEDERATED_RESOURCE_QUOTA, federated_quotas.project_federated_quota
        )
        self.usage: Informer[UsageView] = informers.add(kinds.USAGE_REPORT, project_usage)
        self._history = History()
        self.makers: Callable[[], Makers] = dict
        """Labels of what Jobs are made from."""
        self.ledger = Ledger()
        self.recent_bindings = Recent(self.bindings)
        self._orders: dict[Key, list[Pending]] = {}
        self.orphaned: dict[str, float] = {}
        self.told: dict[Key, float] = {}
        self._works_of: dict[Key, dict[Key, WorkView]] = {}
        self._lost: dict[Key, dict[str, WorkView]] = {}
        """By cluster, Works that showed an end when they vanished; until the binding records it or goes."""
        self._closed: dict[tuple[str, str], _Closed] = {}
        self._refused_works: set[str] = set()
        self._first_seen: dict[str, float] = {}
        """Boot seconds at which a Work, by UID, was first seen by this leader."""
        self._troubled: dict[str, float] = {}
        """Boot seconds at which a Work, by UID, was first seen to say why its containers cannot start."""
        self._penalties: dict[str, tuple[float, float]] = {}
        self._ailing: dict[str, float] = {}
        """Boot seconds at which a Work, by UID, was first seen not to be whole any more."""
        self.trust = Trust()
        self.leaving = Leaving(evictions)
        self.overdue: Callable[[str, float], frozenset[str]] = lambda cluster, now: frozenset()
        """Digests that a cluster was asked about in vain, by boot seconds."""

    @property
    def reconsidering(self) -> tuple[Informer[Any], ...]:
        """Informers whose changes may let any waiting Job start."""
        return (
            self.clusters,
            self.leases,
            self.capacities,
            self.queues,
            self.policies,
            self.cluster_policies,
            self.priorities,
            self.namespaces,
            self.offers,
            self.profiles,
            self.sources,
            self.quotas,
        )

    async def wait_synced(self) -> None:
        """All of them have been listed."""
        everything: tuple[Informer[Any], ...] = (
            self.jobs,
            self.bindings,
            self.works,
            self.overrides,
            self.cluster_overrides,
            self.usage,
            *self.reconsidering,
        )
        for informer in everything:
            await informer.wait_synced()
        self.usage.subscribe(lambda change: self._history.put(change.old, change.new))

    # --- events ------------------------------------------------------------------------------------------------------

    def saw_binding(self, change: Change[BindingView]) -> Key | None:
        """The case that a binding belongs to, by its own name for what it binds."""
        view = change.new or change.old
        if view is None:
            return None
        if view.ended or change.new is None:
            self._lost.pop((view.namespace, view.job), None)
        if change.new is None:
            self.ledger.lost_binding(view.job_uid)
            self.orphaned.pop(view.uid, None)
        else:
            self.ledger.saw_binding(view, job=self.jobs.get(view.namespace, view.job))
        return (view.namespace, view.job)

    def saw_work(self, change: Change[WorkView], *, now: float) -> Key | None:
        """The case that a Work belongs to; None for a Work that no binding of ours can have made. `now` on the boot clock."""
        view = change.new or change.old
        key = case_of(view) if view is not None else None
        if view is not None and view.record is None and key is None:
            (self.ledger.lost_work if change.new is None else self.ledger.saw_work)(view)
        if view is None or key is None:
            return None
        works = self._works_of.setdefault(key, {})
        if change.new is None:
            works.pop(change.key, None)
            self._refused_works.discard(view.uid)
            self._troubled.pop(view.uid, None)
            self._ailing.pop(view.uid, None)
            self._first_seen.pop(view.uid, None)
            self.trust.lost_work(view.uid)
            self.ledger.lost_work(view)
            binding = self.bindings.get(*view.binding)
            if view.phase in TERMINAL and binding is not None and not binding.ended:
                self._lost.setdefault(key, {})[view.cluster] = view
            if not works:
                del self._works_of[key]
        else:
            works[change.key] = view
            self._first_seen.setdefault(view.uid, now)
            if view.paused or (change.old is not None and change.old.paused):
                self._first_seen[view.uid] = now  # nobody is late who may not start
            self.ledger.saw_work(view)
            self._note_refusal(view, now=now)
            if view.trouble is None:
                self._troubled.pop(view.uid, None)
            else:
                self._troubled.setdefault(view.uid, now)
            if view.ailing:
                self._ailing.setdefault(view.uid, now)
            else:
                self._ailing.pop(view.uid, None)
        return key

    def _note_refusal(self, work: WorkView, *, now: float) -> None:
        """Close the pair until the member publishes something newer; once per Work. A member that refuses the same again
        although it published something newer is asked less and less often: each attempt is half a dozen writes."""
        reason = work.refusal
        if reason is None or reason is RefusalReason.STALE_FENCE or work.uid in self._refused_works:
            return
        self._refused_works.add(work.uid)
        capacity = self.capacities.get(work.namespace, keys.MEMBER_LEASE)
        shape = reason in _OF_THE_SHAPE and not self._is_part(work)
        subject = work.gang.digest if shape and work.gang is not None else _job_uid(work)
        text = f"it refused: {reason} ({work.message})" if work.message else f"it refused: {reason}"
        pair = (subject, work.cluster)
        times = (self._closed[pair].times if pair in self._closed else 0) + 1
        pause = 0.0 if times == 1 else min(AGAIN * 2.0 ** (times - 2), AGAIN_LIMIT)
        generation = capacity.generation if capacity else 0
        if reason is RefusalReason.STALE_EPOCH:
            generation = -1  # nothing that the member publishes answers that; a greater epoch does
        self._closed[pair] = _Closed(generation, text, times, now + pause)

    def _is_part(self, work: WorkView) -> bool:
        """It runs a share of a Job, whose shape as a whole nobody refused."""
        binding = self.recent_bindings.get(*work.binding)
        part = binding.run.parts.get(work.cluster) if binding is not None and binding.run is not None else None
        return part is not None and bool(part.shares)

    # --- orders of people --------------------------------------------------------------------------------------------

    def ordered(self, pending: Pending, *, key: Key) -> None:
        """A Command for this Job, to be carried out in the order in which Commands were given."""
        others = [each for each in self._orders.get(key, []) if each.command.uid != pending.command.uid]
        self._orders[key] = sorted([*others, pending], key=lambda each: each.command.order)

    def order_gone(self, command: CommandView) -> None:
        """The Command is deleted: the next one may be carried out."""
        key = (command.namespace, command.target[1])
        left = [each for each in self._orders.get(key, []) if each.command.uid != command.uid]
        if left:
            self._orders[key] = left
        else:
            self._orders.pop(key, None)

    def carried_out(self, command: CommandView) -> bool:
        """The binding of its Job says so."""
        binding = self.recent_bindings.get(command.namespace, naming.binding_name(command.target[1]))
        return binding is not None and binding.run is not None and binding.run.order == command.uid

    def first_order(self, key: Key) -> CommandView | None:
        """The Command that comes first: nothing after it is carried out before it is deleted."""
        pending = self._orders.get(key)
        return pending[0].command if pending else None

    def _next_order(self, key: Key, *, job: JobView | None, binding: BindingView | None) -> Pending | None:
        pending = self._orders.get(key)
        if not pending or job is None or pending[0].job != job.uid:
            return None
        done = binding is not None and binding.run is not None and binding.run.order == pending[0].command.uid
        return None if done else pending[0]

    def timed_out(self, cluster: str, *, now: float) -> None:
        """A start timed out there; `now` on the boot clock."""
        self._penalties[cluster] = (min(1.0, self._penalty(cluster, now=now) + 0.5), now)

    def _penalty(self, cluster: str, *, now: float) -> float:
        value, since = self._penalties.get(cluster, (0.0, now))
        left: float = value * 0.5 ** ((now - since) / HALF_LIFE)
        return round(left, 3)

    def is_placed(self, key: Key) -> bool:
        """Its binding names a cluster, or nothing of it is to be placed."""
        binding = self.recent_bindings.get(key[0], naming.binding_name(key[1]))
        return bool(binding is not None and (binding.clusters or binding.ended)) or self.jobs.get(*key) is None

    def queue_order(self) -> Callable[[Key], tuple[int, int, str, str, str]]:
        """Sorts cases whose Jobs wait, by the queues and priorities of now."""
        queues = {each.name: each for each in self.queues.values()}
        classes = {each.name: each for each in self.priorities.values()}

        def order(key: Key) -> tuple[int, int, str, str, str]:
            job = self.jobs.get(*key)
            return queueing.order_key(job, queues=queues, classes=classes) if job is not None else (0, 0, "", *key)

        return order

    # --- hard versions -----------------------------------------------------------------------------------------------

    def outdated(self, relied: Versions) -> str:
        """What a grant relied on and is no longer so, by what is known here; "" when all of it holds."""
        if relied.policy is not None:
            namespace, name, uid, version = relied.policy
            store = self.policies if namespace else self.cluster_policies
            policy = store.get(namespace, name)
            if policy is None or (policy.uid, policy.version) != (uid, version):
                return f"policy {name} changed"
        for queue in relied.queues:
            known = self.queues.get("", queue[0])
            if known is None or (known.name, known.uid, known.generation, known.open) != queue:
                return f"queue {queue[0]} changed"
        for cluster, fence in relied.fences:
            lease = self.leases.get(keys.execution_namespace(cluster), keys.MEMBER_LEASE)
            if lease is None or lease.fence != fence:
                return f"the fence number of {cluster} is no longer {fence}"
        return ""

    # --- overrides ---------------------------------------------------------------------------------------------------

    def overridden(self, manifest: Mapping[str, Any], cluster: str) -> Overridden:
        """A manifest as a cluster gets it, by the override policies of now."""
        view = self.clusters.get(None, cluster)
        policies = (*self.overrides.sorted(), *self.cluster_overrides.sorted())
        return overridden(manifest, cluster=view, policies=policies) if view is not None else Overridden(manifest)

    # --- the snapshot ------------------------------------------------------------------------------------------------

    def snapshot(self, cases: Iterable[Key], *, now: float) -> Snapshot:
        """Everything that a plan for these cases depends on; `now` on the boot clock."""
        queues = {each.name: each for each in self.queues.sorted()}
        used = self.ledger.used
        looked_at = tuple(self._case(key, now=now) for key in cases)
        templates = {each.job.template for each in looked_at if each.job is not None}
        there = tuple(self._member(cluster, now=now) for cluster in self.clusters.sorted())
        offered = tuple(self.offers.sorted())
        self._terrain = terrain_of(
            [member.cluster for member in there],
            [member.capacity.rows if member.capacity is not None else None for member in there],
            offers=by_cluster(offered),
            rates=self._rates,
            before=self._terrain,
        )
        return Snapshot(
            cases=looked_at,
            members=there,
            queues=queues,
            used=self._with_ancestors(used, queues=queues),
            policies=(*self.policies.sorted(), *self.cluster_policies.sorted()),
            priorities={each.name: each for each in self.priorities.sorted()},
            closed=self._still_closed(now=now),
            offers=offered,
            terrain=self._terrain,
            profiles={each.name: each for each in self.profiles.sorted()},
            sources=by_name(self.sources.sorted()),
            quotas=tuple(self.quotas.sorted()),
            residents=self._residents(),
            overrides=frozenset(
                (each.namespace, each.name)
                for informer in (self.overrides, self.cluster_overrides)
                for each in informer.values()
                if not each.deleting
            ),
            makers=self.makers() if self._by_labels() else {},
            history={each: found for each in sorted(templates) if (found := self._history.of(each))},
            holdings=self.ledger.holdings(each.namespace for each in self.quotas.values()),
        )

    def _residents(self) -> tuple[Resident, ...]:
        """Only where somebody asks: it looks at every Job that is placed."""
        everything = (*self.policies.values(), *self.cluster_policies.values())
        if not any(company.asks(policy) for policy in everything):
            return ()
        found = []
        for binding in self.bindings.sorted():
            job = self.jobs.get(binding.namespace, binding.job)
            if binding.clusters and not binding.ended and job is not None and job.uid == binding.job_uid and job.labels:
                found.append(Resident(job.uid, job.namespace, job.labels, frozenset(binding.clusters)))
        return tuple(found)

    def _by_labels(self) -> bool:
        """Whether a policy selects what Jobs are made from by its labels."""
        everything = (*self.policies.values(), *self.cluster_policies.values())
        return any(
            each.labels is not None and each.kind != kinds.JOB.kind for policy in everything for each in policy.selectors
        )

    def _with_ancestors(
        self, used: Mapping[str, ResourceVector], *, queues: Mapping[str, QueueView]
    ) -> dict[str, ResourceVector]:
        return with_ancestors(used, chains={name: queueing.chain(name, queues=queues) for name in used})

    def _case(self, key: Key, *, now: float) -> Case:
        job = self.jobs.get(*key)
        binding = self.recent_bindings.get(key[0], naming.binding_name(key[1]))
        orphaned = 0.0
        if binding is not None and (job is None or job.uid != binding.job_uid):
            orphaned = now - self.orphaned.setdefault(binding.uid, now)
        pending = self._next_order(key, job=job, binding=binding)
        namespace = self.namespaces.get(None, key[0])
        works = tuple(work for _, work in sorted(self._works_of.get(key, {}).items()))
        return Case(
            key=key,
            job=job,
            binding=binding,
            works=works,
            lost=self._lost_of(key, works),
            waited={work.cluster: now - self._first_seen.get(work.uid, now) for work in works},
            troubled={work.cluster: now - self._troubled[work.uid] for work in works if work.uid in self._troubled},
            ailing={work.cluster: now - self._ailing[work.uid] for work in works if work.uid in self._ailing},
            order=pending.order if pending is not None else None,
            order_uid=pending.command.uid if pending is not None else "",
            settings=namespace.settings if namespace is not None else {},
            labels=namespace.labels if namespace is not None else None,
            orphaned=orphaned,
            told=now - self.told[key] if key in self.told else float("inf"),
            outdated=self._outdated(job, works),
        )

    def _outdated(self, job: JobView | None, works: Iterable[WorkView]) -> frozenset[str]:
        """Of Works that are what they were made from: one that was reduced to its identity has no overrides any more."""
        if job is None or job.ended:
            return frozenset()
        policies = (*self.overrides.values(), *self.cluster_overrides.values())
        found = set()
        for work in works:
            view = self.clusters.get(None, work.cluster)
            if not work.gang or view is None or not (policies or work.overrides):
                continue
            if work.overrides != standing(template(job), cluster=view, policies=policies):
                found.add(work.cluster)
        return frozenset(found)

    def _lost_of(self, key: Key, works: tuple[WorkView, ...]) -> tuple[WorkView, ...]:
        """Those that no Work stands in the place of."""
        there = {work.cluster for work in works}
        return tuple(view for name, view in sorted(self._lost.get(key, {}).items()) if name not in there)

    def _member(self, cluster: ClusterView, *, now: float) -> Member:
        namespace = keys.execution_namespace(cluster.name)
        lease = self.leases.get(namespace, keys.MEMBER_LEASE)
        capacity = self.capacities.get(namespace, keys.MEMBER_LEASE)
        through = capacity.works_through if capacity is not None else 0
        return Member(
            cluster=cluster,
            fence=lease.fence if lease is not None and self._fences.raised(cluster.name) else None,
            capacity=capacity,
            promised=tuple(self.ledger.promised(cluster.name, through=through)),
            penalty=self._penalty(cluster.name, now=now),
            overdue=self.overdue(cluster.name, now),
            distrusted=self.trust.distrusted(cluster.name, now=now),
            lost=lease.lost if lease is not None else None,
            standing=self.leaving.standing(cluster.name, now=now),
            ready_for=self.leaving.ready_for(cluster.name, now=now),
            leaves=self.leaving.leaves(cluster.name, now=now),
        )

    def _still_closed(self, *, now: float) -> dict[tuple[str, str], str]:
        """Pairs that no newer capacity has answered, or whose pause is not over; what was not refused for long is forgotten."""
        still: dict[tuple[str, str], str] = {}
        for (subject, cluster), closed in sorted(self._closed.items()):
            capacity = self.capacities.get(keys.execution_namespace(cluster), keys.MEMBER_LEASE)
            answered = capacity is not None and capacity.generation > closed.generation
            if not answered or now < closed.until:
                still[(subject, cluster)] = closed.text
            elif now >= closed.until + AGAIN_LIMIT:
                del self._closed[(subject, cluster)]
        return still

    def reopening(self, *, now: float) -> float:
        """Boot seconds at which the next pair is asked again, or the next member is believed; infinite when none waits for
        that."""
        pairs = min((closed.until for closed in self._closed.values() if closed.until > now), default=float("inf"))
        return min(pairs, self.trust.next(now=now))


def case_of(work: WorkView) -> Key | None:
    """Namespace and name of the Job whose binding a Work names."""
    namespace, binding = work.binding
    suffix = "-job"
    if not namespace or not binding.endswith(suffix):
        return None
    return (namespace, binding.removesuffix(suffix))


def _job_uid(work: WorkView) -> str:
    return work.record.job if work.record is not None else ""
