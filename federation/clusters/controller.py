"""Registers members: checks who they are, makes what they exchange with the hub, and says whether they are alive."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any, Final

from apis import cluster_orders, keys, kinds
from apis.cluster_orders import Order
from federation.clusters import leaving
from federation.clusters.health import ALIVE, NEW, REASONS, SILENT, TEXTS, Pulse, beat, first_pulse, foreign
from federation.clusters.leaving import Left, Plan, Snapshot, Step
from federation.clusters.writing import MemberWriter, Wanted
from federation.fences import Fences
from machinery.clock import Clock
from machinery.informer import Change, Informer, Informers
from machinery.metrics import Metrics
from machinery.port import Port
from machinery.runner import run_workers
from machinery.workqueue import WorkQueue
from policies import capacities, members, tainting
from policies.capacities import CapacityView, gang_label_keys
from policies.members import ClusterView, LeaseView, NamespaceView
from policies.shapes import Gang, Taint
from policies.tainting import TaintPolicyView
from policies.views import BindingView, JobView, Projections, WorkView

log = logging.getLogger(__name__)

LABEL_KEYS_LIMIT: Final = 256
KNOWN_GANGS: Final = 10_000
COUNT_AFTER: Final = 1.0
"""Seconds that changes of runs wait for company before it is told how many are left."""
MEMBERS: Final = "volcano_federation_members"
READY: Final = {ALIVE: "true", SILENT: "unknown", NEW: "false"}
"""How members are counted for Prometheus, by what their condition Ready says."""
RETRY: Final = 1.0
"""Seconds after which a step towards leaving that needs others (the namespace controller, an agent) is looked at again."""


class ClustersController:
    """Member registration and health. Times in seconds; `label_keys` are told apart by every member from the start."""

    def __init__(
        self,
        *,
        port: Port,
        informers: Informers,
        projections: Projections,
        clock: Clock,
        fences: Fences,
        silence: float,
        recovery: int,
        label_keys: tuple[str, ...],
        taints_evict: bool,
    ) -> None:
        self._port = port
        self._clock = clock
        self._writer = MemberWriter(port, clock=clock)
        self._fences = fences
        self._silence = silence
        self._recovery = recovery
        self._taints_evict = taints_evict
        self._clusters: Informer[ClusterView] = informers.add(kinds.CLUSTER, members.project_cluster)
        self._leases: Informer[LeaseView] = informers.add(kinds.LEASE, members.project_lease, fields="metadata.name=member")
        self._capacities: Informer[CapacityView] = informers.add(kinds.CLUSTER_CAPACITY, capacities.project_capacity)
        self._namespaces: Informer[NamespaceView] = informers.add(kinds.NAMESPACE, members.project_namespace)
        self._jobs: Informer[JobView] = informers.add(kinds.JOB, projections.job)
        self._bindings: Informer[BindingView] = informers.add(
            kinds.RESOURCE_BINDING, projections.binding, labels=keys.NO_OBJECT
        )
        self._works: Informer[WorkView] = informers.add(kinds.WORK, projections.work)
        self._taint_policies: Informer[TaintPolicyView] = informers.add(
            kinds.CLUSTER_TAINT_POLICY, tainting.project_taint_policy
        )
        self._queue: WorkQueue[str] = WorkQueue(clock)
        self._pulses: dict[str, Pulse] = {}
        self._last_fence: dict[str, int] = {}
        self._label_keys = set(label_keys)
        self._known_gangs: set[str] = set()
        self._hub = ""
        self._metrics: Metrics | None = None
        self._marks: dict[str, str] = {}
        """By cluster that is to be declared lost, the renewal that its Lease showed when this leader first saw the order."""

    async def run(self, metrics: Metrics | None = None) -> None:
        """Until cancelled."""
        self._metrics = metrics
        everything: tuple[Informer[Any], ...] = (
            self._clusters,
            self._leases,
            self._capacities,
            self._namespaces,
            self._jobs,
            self._bindings,
            self._works,
            self._taint_policies,
        )
        for informer in everything:
            await informer.wait_synced()
        self._jobs.subscribe(self._job_changed)
        self._clusters.subscribe(self._cluster_changed)
        self._leases.subscribe(self._lease_changed)
        self._capacities.subscribe(self._capacity_changed)
        self._namespaces.subscribe(self._namespace_changed)
        self._taint_policies.subscribe(self._taint_policy_changed)
        self._bindings.subscribe(self._binding_changed)
        self._works.subscribe(self._work_changed)
        try:
            await run_workers(self._queue, self._reconcile, workers=4, name="clusters", metrics=metrics)
        finally:
            self._forget()

    def _cluster_changed(self, change: Change[ClusterView]) -> None:
        if change.new is None:
            self._pulses.pop(change.key[1], None)
            self._measure()
            for other in self._clusters.sorted():  # one with the same id may register now
                self._queue.add(other.name)
        self._queue.add(change.key[1])

    def _lease_changed(self, change: Change[LeaseView]) -> None:
        view = change.new or change.old
        if view is not None and view.cluster:
            self._last_fence[view.cluster] = max(view.fence, self._last_fence.get(view.cluster, 0))
            self._queue.add(view.cluster)

    def _capacity_changed(self, change: Change[CapacityView]) -> None:
        if change.new is None and change.old is not None:
            self._queue.add(change.old.cluster)

    def _namespace_changed(self, change: Change[NamespaceView]) -> None:
        cluster = keys.cluster_of(change.key[1])
        if change.new is None and cluster is not None:
            self._queue.add(cluster)

    def _taint_policy_changed(self, change: Change[TaintPolicyView]) -> None:
        for cluster in self._clusters.sorted():
            self._queue.add(cluster.name)

    def _binding_changed(self, change: Change[BindingView]) -> None:
        """Runs come and go: who is drained says how many are left."""
        for view in (change.old, change.new):
            for name in view.run.parts if view is not None and view.run is not None else ():
                self._count(name)

    def _work_changed(self, change: Change[WorkView]) -> None:
        view = change.new or change.old
        if view is not None and (change.new is None or change.old is None or change.old.deleting != change.new.deleting):
            self._count(view.cluster)

    def _count(self, name: str) -> None:
        cluster = self._clusters.get(None, name)
        if cluster is not None and cluster.draining:
            self._queue.add_after(name, COUNT_AFTER)

    def _job_changed(self, change: Change[JobView]) -> None:
        """Node labels that Jobs ask about are labels that members tell their nodes apart by (protocol.md 4)."""
        gang: Gang | None = change.new.gang if change.new is not None else None
        if gang is None or gang.digest in self._known_gangs:
            return
        if len(self._known_gangs) >= KNOWN_GANGS:
            self._known_gangs.clear()  # they only save looking again
        self._known_gangs.add(gang.digest)
        wanted = gang_label_keys(gang)
        if not wanted <= self._label_keys and len(self._label_keys | wanted) <= LABEL_KEYS_LIMIT:
            self._label_keys |= wanted
            for cluster in self._clusters.sorted():
                self._queue.add(cluster.name)

    # --- one member --------------------------------------------------------------------------------------------------

    async def _reconcile(self, name: str) -> float | None:
        cluster = self._clusters.get(None, name)
        if cluster is None:
            return None
        if not cluster.deleting:
            refused = foreign(cluster, others=self._others(name), hub=await self._hub_uid())
            if refused is not None:
                reason, text = refused
                await self._say(cluster, {"Registered": ("False", reason, text), "Ready": ("False", reason, text)})
                return None
            await self._make_room(cluster)
        pulse = self._beat(cluster)
        await self._say(cluster, _conditions(pulse, sync_mode=cluster.sync_mode))
        await self._reach(cluster, unreachable=pulse.ready == SILENT)
        await self._follow(cluster)
        again = await self._leave(cluster, pulse)
        if again is not None or pulse.ready == SILENT or not pulse.mark:
            return again  # the next renewal wakes it
        return max(pulse.since + self._silence - self._clock.boot(), 0.1)

    def _others(self, name: str) -> list[ClusterView]:
        return [each for each in self._clusters.sorted() if each.name != name and not each.deleting]

    # --- drain, the word of a person, unjoining ----------------------------------------------------------------------

    async def _leave(self, cluster: ClusterView, pulse: Pulse) -> float | None:
        """One step, and what is told of it; the seconds after which it is looked at again."""
        lease = self._leases.get(keys.execution_namespace(cluster.name), keys.MEMBER_LEASE)
        renewed = self._renewed(cluster, pulse)
        plan = leaving.plan(
            Snapshot(cluster, lease, pulse.ready, renewed=renewed, left=self._left(cluster) if cluster.draining else Left())
        )
        await self._say(cluster, dict(plan.says))
        return await self._take(cluster, plan, mark=pulse.mark)

    def _renewed(self, cluster: ClusterView, pulse: Pulse) -> bool:
        """Its Lease was renewed since it was to be declared lost: whoever gave the word did not see that."""
        if Order.DECLARE_LOST not in cluster.orders:
            self._marks.pop(cluster.name, None)
            return False
        return self._marks.setdefault(cluster.name, pulse.mark) != pulse.mark

    def _left(self, cluster: ClusterView) -> Left:
        return leaving.left_at(cluster.name, bindings=self._bindings.values(), works=self._works.values())

    async def _take(self, cluster: ClusterView, plan: Plan, *, mark: str) -> float | None:
        name, writer = cluster.name, self._writer
        match plan.step:
            case Step.FENCE:
                stamp, why = cluster.stamp(Order.DECLARE_LOST), cluster.orders[Order.DECLARE_LOST]
                if not await writer.declare(name, mark=mark, of=_mark, whose=stamp, why=why):
                    log.info("%s was to be declared lost and has renewed its Lease", name)
                return RETRY
            case Step.FORGET:
                await writer.forget(name, cluster_orders.DECLARE_LOST)
            case Step.EMPTY:
                await writer.empty(self._left(cluster).works)
                return RETRY
            case Step.STRIP:
                await writer.strip(self._left(cluster).works)
                return RETRY
            case Step.LEAVE:
                if not await writer.unmake(name):
                    return RETRY
                await writer.finalizer(name, present=False)
                log.info("%s has left the federation", name)
        return None

    def _beat(self, cluster: ClusterView) -> Pulse:
        lease, now = self._leases.get(keys.execution_namespace(cluster.name), keys.MEMBER_LEASE), self._clock.boot()
        if lease is not None and lease.owner not in ("", cluster_orders.HELD_BY_HUB, cluster.id):
            lease = None  # another cluster renews it: that says nothing of this one
        known = self._pulses.get(cluster.name)
        if known is None:
            # A member that was Ready when this hub began is trusted for one silence; one that was silent has to renew anew.
            said = cluster.conditions.get("Ready", ("", ""))[0]
            known = first_pulse(lease if said in (ALIVE, SILENT) else None, ready=said, now=now)
        pulse = beat(known, lease=lease, now=now, silence=self._silence, recovery=self._recovery)
        before, self._pulses[cluster.name] = self._pulses.get(cluster.name), pulse
        if before is None or before.ready != pulse.ready:
            self._measure()
        return pulse

    def _measure(self) -> None:
        """Tell how many members are how; by number, so that series stay few."""
        if self._metrics is not None:
            found = Counter(pulse.ready for pulse in self._pulses.values())
            for ready, label in READY.items():
                self._metrics.gauge(MEMBERS, "Registered members, by their condition Ready.", value=found[ready], ready=label)

    def _forget(self) -> None:
        """Who leads no more knows nothing of members."""
        if self._metrics is not None:
            for label in READY.values():
                self._metrics.forget(MEMBERS, ready=label)

    async def _hub_uid(self) -> str:
        if not self._hub:
            document = await self._port.get(kinds.NAMESPACE, "kube-system")
            self._hub = members.project_namespace(document).uid
        return self._hub

    async def _make_room(self, cluster: ClusterView) -> None:
        """Namespace, Lease and ClusterCapacity; each is made once and left alone after."""
        namespace, writer = keys.execution_namespace(cluster.name), self._writer
        if not cluster.finalized:
            await writer.finalizer(cluster.name, present=True)
        if self._namespaces.get(None, namespace) is None:
            await writer.ensure(kinds.NAMESPACE, {"metadata": {"name": namespace}})
        if self._leases.get(namespace, keys.MEMBER_LEASE) is None:
            spec = {"holderIdentity": "", "leaseTransitions": self._next_fence(cluster.name)}
            if await writer.ensure(kinds.LEASE, {"metadata": _meta(namespace), "spec": spec}, namespace=namespace):
                self._fences.noted(cluster.name)
        capacity = self._capacities.get(namespace, keys.MEMBER_LEASE)
        wanted = sorted(self._label_keys)
        if capacity is None:
            body = {"metadata": _meta(namespace), "spec": {"labelKeys": wanted}}
            await writer.ensure(kinds.CLUSTER_CAPACITY, body, namespace=namespace)
        elif not self._label_keys <= capacity.label_keys:
            await writer.label_keys(namespace, wanted, limit=LABEL_KEYS_LIMIT)

    def _next_fence(self, cluster: str) -> int:
        """F of a Lease that is made: 1 for a new member, and above every number that was ever given to this one otherwise.
        Somebody may have deleted its Lease, and F only grows (protocol.md 2)."""
        given = [self._last_fence.get(cluster, 0)]
        for binding in self._bindings.values():
            if binding.run is not None:
                given += [part.fence for name, part in binding.run.parts.items() if name == cluster]
                given += [past.fence for past in binding.run.past if past.cluster == cluster]
        given += [work.record.fence for work in self._works.values() if work.cluster == cluster and work.record is not None]
        return max(given) + 1

    async def _say(self, cluster: ClusterView, wanted: Wanted) -> None:
        """Conditions, written only when they change; None takes one away."""
        news = {type: said for type, said in wanted.items() if cluster.told.get(type) != said}
        if news:
            await self._writer.say(cluster.name, news)

    async def _reach(self, cluster: ClusterView, *, unreachable: bool) -> None:
        """The taint that keeps new Jobs away from a member that is not heard from."""
        taint = (Taint(keys.TAINT_UNREACHABLE, "", "NoSchedule"),)
        if any(each.key == keys.TAINT_UNREACHABLE for each in cluster.taints) != unreachable:
            await self._writer.taint(cluster.name, add=taint if unreachable else (), remove=() if unreachable else taint)

    async def _follow(self, cluster: ClusterView) -> None:
        """Taints of ClusterTaintPolicies, on conditions as they were seen (a change of them wakes this again), and the time
        since when a taint that evicts is there, where whoever put it on did not say."""
        policies = self._taint_policies.values()
        change = tainting.retainted(cluster, policies=policies, no_execute=self._taints_evict)
        stamped = tuple(each for each in cluster.unstamped if each not in change.removed)
        if change.changes or stamped:
            await self._writer.taint(cluster.name, add=(*change.added, *stamped), remove=change.removed)


_UNARMED: Final = {
    "Pull": ("False", "NotBuiltYet", "failover Fence acts as Continue: lost runs wait for their cluster"),
    "Push": ("False", "PushMember", "a push member is never armed: a stolen hub is a stolen member. Fence acts as Continue"),
}


def _conditions(pulse: Pulse, *, sync_mode: str) -> Wanted:
    return {
        "Registered": ("True", "Registered", "the hub has made its execution namespace, Lease and ClusterCapacity"),
        "Ready": (pulse.ready, REASONS[pulse.ready], TEXTS[pulse.ready]),
        "FencingArmed": _UNARMED.get(sync_mode, _UNARMED["Pull"]),
    }


def _mark(document: bytes) -> str:
    """The renewal that a Lease shows; "" once the hub holds it."""
    lease = members.project_lease(document)
    return lease.renewal if lease.holder else ""


def _meta(namespace: str) -> dict[str, str]:
    return {"name": keys.MEMBER_LEASE, "namespace": namespace}
