"""Registers members: checks who they are, makes what they exchange with the hub, and says whether they are alive."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from apis import keys, kinds
from apis.kinds import Kind
from federation.clusters.health import REASONS, SILENT, TEXTS, Pulse, beat, first_pulse, foreign
from federation.fences import Fences
from machinery.clock import Clock, stamp
from machinery.errors import AlreadyExists, NotFound
from machinery.informer import Change, Informer, Informers
from machinery.port import Port
from machinery.runner import WorkMetrics, run_workers
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
Wanted = dict[str, tuple[str, str, str]]
"""Condition type to status, reason and message."""


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

    async def run(self, metrics: WorkMetrics | None = None) -> None:
        """Until cancelled."""
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
        await run_workers(self._queue, self._reconcile, workers=4, name="clusters", metrics=metrics)

    def _cluster_changed(self, change: Change[ClusterView]) -> None:
        if change.new is None:
            self._pulses.pop(change.key[1], None)
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
        if cluster is None or cluster.deleting:
            return None
        others = [each for each in self._clusters.sorted() if each.name != name and not each.deleting]
        refused = foreign(cluster, others=others, hub=await self._hub_uid())
        if refused is not None:
            reason, text = refused
            await self._say(
                cluster, {"Registered": ("False", reason, text), "Ready": ("False", reason, text)}, unreachable=False
            )
            return None
        await self._make_room(cluster)
        pulse = self._beat(cluster)
        await self._say(cluster, _conditions(pulse), unreachable=pulse.ready == SILENT)
        await self._follow(cluster)
        if pulse.ready == SILENT or not pulse.mark:
            return None  # the next renewal wakes it
        return max(pulse.since + self._silence - self._clock.boot(), 0.1)

    def _beat(self, cluster: ClusterView) -> Pulse:
        lease, now = self._leases.get(keys.execution_namespace(cluster.name), keys.MEMBER_LEASE), self._clock.boot()
        known = self._pulses.get(cluster.name)
        if known is None:
            # A member that was Ready when this hub began is trusted for one silence; a new one proves itself by renewing.
            said = cluster.conditions.get("Ready", ("", ""))[0]
            known = first_pulse(lease if said == "True" else None, ready=said, now=now)
        pulse = beat(known, lease=lease, now=now, silence=self._silence, recovery=self._recovery)
        self._pulses[cluster.name] = pulse
        return pulse

    async def _hub_uid(self) -> str:
        if not self._hub:
            document = await self._port.get(kinds.NAMESPACE, "kube-system")
            self._hub = members.project_namespace(document).uid
        return self._hub

    async def _make_room(self, cluster: ClusterView) -> None:
        """Namespace, Lease and ClusterCapacity; each is made once and left alone after."""
        namespace = keys.execution_namespace(cluster.name)
        if self._namespaces.get(None, namespace) is None:
            await self._ensure(kinds.NAMESPACE, {"metadata": {"name": namespace}})
        if self._leases.get(namespace, keys.MEMBER_LEASE) is None:
            spec = {"holderIdentity": "", "leaseTransitions": self._next_fence(cluster.name)}
            if await self._ensure(kinds.LEASE, {"metadata": _meta(namespace), "spec": spec}, namespace=namespace):
                self._fences.noted(cluster.name)
        capacity = self._capacities.get(namespace, keys.MEMBER_LEASE)
        wanted = sorted(self._label_keys)
        if capacity is None:
            body = {"metadata": _meta(namespace), "spec": {"labelKeys": wanted}}
            await self._ensure(kinds.CLUSTER_CAPACITY, body, namespace=namespace)
        elif not self._label_keys <= capacity.label_keys:
            await self._add_label_keys(namespace, wanted)

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

    async def _add_label_keys(self, namespace: str, wanted: list[str]) -> None:
        tree = msgspec.json.decode(await self._port.get(kinds.CLUSTER_CAPACITY, keys.MEMBER_LEASE, namespace=namespace))
        spec = tree.setdefault("spec", {})
        spec["labelKeys"] = sorted({*(spec.get("labelKeys") or ()), *wanted})[:LABEL_KEYS_LIMIT]
        await self._port.replace(kinds.CLUSTER_CAPACITY, keys.MEMBER_LEASE, tree, namespace=namespace)

    async def _ensure(self, kind: Kind, body: dict[str, Any], *, namespace: str | None = None) -> bool:
        """Make it unless it is there; answers whether it was made now."""
        try:
            await self._port.create(kind, {"apiVersion": kind.api_version, "kind": kind.kind, **body}, namespace=namespace)
        except AlreadyExists:
            log.debug("%s of %s is there already", kind.kind, namespace or body["metadata"]["name"])
            return False
        return True

    async def _say(self, cluster: ClusterView, wanted: Wanted, *, unreachable: bool) -> None:
        """Conditions in the status, and the taint that keeps new Jobs away; written only when they change."""
        news = {type: said for type, said in wanted.items() if cluster.conditions.get(type) != said[:2]}
        if news:
            await self._write_conditions(cluster.name, news)
        tainted = any(taint.key == keys.TAINT_UNREACHABLE for taint in cluster.taints)
        if tainted != unreachable:
            await self._write_taint(cluster.name, unreachable=unreachable)

    async def _write_conditions(self, name: str, wanted: Wanted) -> None:
        """The agent writes other conditions of the same list: ours are put among them against the version just read."""
        try:
            tree = msgspec.json.decode(await self._port.get(kinds.CLUSTER, name))
        except NotFound:
            return
        status = tree.get("status") or {}
        kept = [each for each in status.get("conditions") or [] if each.get("type") not in wanted]
        now = stamp(self._clock.now())
        ours = [
            {"type": type, "status": said[0], "reason": said[1], "message": said[2], "lastTransitionTime": now}
            for type, said in sorted(wanted.items())
        ]
        tree["status"] = {**status, "conditions": kept + ours}
        await self._port.replace(kinds.CLUSTER, name, tree, subresource="status")

    async def _follow(self, cluster: ClusterView) -> None:
        """Taints of ClusterTaintPolicies, on conditions as they were seen; a change of them wakes this again."""
        policies = self._taint_policies.values()
        change = tainting.retainted(cluster, policies=policies, no_execute=self._taints_evict)
        if change.changes:
            await self._write_taints(cluster.name, add=change.added, remove=change.removed)

    async def _write_taint(self, name: str, *, unreachable: bool) -> None:
        taint = (Taint(keys.TAINT_UNREACHABLE, "", "NoSchedule"),)
        await self._write_taints(name, add=taint if unreachable else (), remove=() if unreachable else taint)

    async def _write_taints(self, name: str, *, add: Sequence[Taint], remove: Sequence[Taint]) -> None:
        """Others' taints stay; one is told apart by key and effect."""
        try:
            tree = msgspec.json.decode(await self._port.get(kinds.CLUSTER, name))
        except NotFound:
            return
        spec, now = tree.setdefault("spec", {}), stamp(self._clock.now())
        gone = {(each.key, each.effect) for each in (*add, *remove)}
        taints = [each for each in spec.get("taints") or [] if (each.get("key"), each.get("effect")) not in gone]
        for each in add:
            value = {"value": each.value} if each.value else {}
            taints.append({"key": each.key, "effect": each.effect, **value, "timeAdded": now})
        spec["taints"] = taints
        await self._port.replace(kinds.CLUSTER, name, tree)


def _conditions(pulse: Pulse) -> Wanted:
    return {
        "Registered": ("True", "Registered", "the hub has made its execution namespace, Lease and ClusterCapacity"),
        "Ready": (pulse.ready, REASONS[pulse.ready], TEXTS[pulse.ready]),
        "FencingArmed": ("False", "NotBuiltYet", "failover Fence acts as Continue: lost runs wait for their cluster"),
    }


def _meta(namespace: str) -> dict[str, str]:
    return {"name": keys.MEMBER_LEASE, "namespace": namespace}
