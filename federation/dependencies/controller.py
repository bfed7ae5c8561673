"""Watches bindings, the objects that their Jobs refer to, and the Works that bring these; one object after the other.

Only what cannot be told from what is watched anyway is read: the manifest of a Job where some policy carries what Jobs refer to
or the hub has PriorityClasses that pods may name, and objects when they are brought.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from apis import keys, kinds, naming
from apis.runs import PartState
from federation.dependencies import documents
from federation.dependencies.applier import DependenciesApplier
from federation.dependencies.documents import CompanionWork
from federation.dependencies.needs import Key, Needs
from federation.dependencies.planner import Snapshot, plan
from machinery.clock import Clock
from machinery.events import About, EventRecorder
from machinery.informer import Change, Informer, Informers
from machinery.port import Port
from machinery.runner import WorkMetrics, run_workers
from machinery.workqueue import WorkQueue
from policies import members, objects, placements
from policies.dependencies import PRIVILEGED, Parent, Reference, References, references
from policies.matching import DEFAULT
from policies.members import ClusterView, NamespaceView, PriorityView, QueueView
from policies.placements import PolicyView
from policies.queueing import MAX_DEPTH
from policies.views import BindingView, JobView, Meta, Projections

LINGER: Final = 60.0
"""Seconds that an object stays where nobody needs it any more: the next Job of its people saves six writes."""

WORKERS: Final = 4
_READ: Final = (kinds.CONFIGMAP, kinds.SECRET, kinds.CLAIM, kinds.SERVICE_ACCOUNT)
"""Kinds that nothing else watches: they are watched once a Job refers to one."""
_CLUSTER_POLICY: Final = f"cluster{keys.POLICY_NAME}"


@dataclass(frozen=True, slots=True)
class _Read:
    """What was read of a Job, and which policy governs it; as old as the Job's generation."""

    job: tuple[str, int]
    references: References
    policy: Key


class _Head(msgspec.Struct, frozen=True):
    metadata: Meta = Meta()


@dataclass(frozen=True, slots=True)
class Version:
    """All that is kept of an object that may hold a secret."""

    namespace: str
    name: str
    uid: str
    version: str


_head = msgspec.json.Decoder(_Head)


def project_version(document: bytes) -> Version:
    """Which object, in which version."""
    meta = _head.decode(document).metadata
    return Version(meta.namespace, meta.name, meta.uid, meta.resource_version)


class DependenciesController:
    """The role. Keys are bindings (namespace, name) and objects."""

    def __init__(
        self, *, port: Port, informers: Informers, projections: Projections, events: EventRecorder, clock: Clock
    ) -> None:
        self._informers, self._events, self._clock = informers, events, clock
        self._applier = DependenciesApplier(port)
        self._jobs: Informer[JobView] = informers.add(kinds.JOB, projections.job)
        self._bindings: Informer[BindingView] = informers.add(
            kinds.RESOURCE_BINDING, projections.binding, labels=keys.NO_OBJECT
        )
        self._objects = informers.add(kinds.RESOURCE_BINDING, objects.project_bound_object, labels=objects.SELECTOR)
        self._works = informers.add(kinds.WORK, documents.project_companion, labels=documents.SELECTOR)
        self._clusters: Informer[ClusterView] = informers.add(kinds.CLUSTER, members.project_cluster)
        self._queues: Informer[QueueView] = informers.add(kinds.QUEUE, members.project_queue)
        self._priorities: Informer[PriorityView] = informers.add(kinds.PRIORITY_CLASS, members.project_priority)
        self._namespaces: Informer[NamespaceView] = informers.add(kinds.NAMESPACE, members.project_namespace)
        self._policies: Informer[PolicyView] = informers.add(kinds.PROPAGATION_POLICY, placements.project_policy)
        self._cluster_policies: Informer[PolicyView] = informers.add(
            kinds.CLUSTER_PROPAGATION_POLICY, placements.project_policy
        )
        self._work: WorkQueue[Key | Reference] = WorkQueue(clock)
        self._needs = Needs()
        self._read: dict[Key, _Read] = {}
        self._works_of: dict[Reference, dict[str, CompanionWork]] = {}
        self._idle: dict[str, float] = {}
        """By UID of a Work, the boot second since which nobody needs what it brings."""
        self._watched: set[kinds.Kind] = set()
        self._missed: set[Reference] = set()
        """Objects that were told to be missing."""

    async def run(self, metrics: WorkMetrics | None = None) -> None:
        """Until cancelled. What a new leader finds lingers anew, so that nothing goes before all bindings were looked at."""
        everything: tuple[Informer[Any], ...] = (
            self._jobs,
            self._bindings,
            self._objects,
            self._works,
            self._clusters,
            self._queues,
            self._priorities,
            self._namespaces,
            self._policies,
            self._cluster_policies,
        )
        for informer in everything:
            await informer.wait_synced()
        self._bindings.subscribe(self._binding_changed)
        self._objects.subscribe(lambda change: self._work.add(change.key))
        self._works.subscribe(self._work_changed)
        self._jobs.subscribe(self._job_changed)
        self._clusters.subscribe(self._cluster_changed)
        self._queues.subscribe(self._queue_changed)
        self._priorities.subscribe(lambda change: self._cluster_object(kinds.PRIORITY_CLASS, change.key[1], again=True))
        self._namespaces.subscribe(lambda change: self._cluster_object(kinds.NAMESPACE, change.key[1]))
        self._policies.subscribe(lambda _: self._look_at_all())
        self._cluster_policies.subscribe(lambda _: self._look_at_all())
        await run_workers(self._work, self._reconcile, workers=WORKERS, name="dependencies", metrics=metrics)

    # --- waking ------------------------------------------------------------------------------------------------------

    def _look_at_all(self) -> None:
        self._read.clear()
        for informer in (self._bindings, self._objects):
            for binding in informer.values():
                self._work.add((binding.namespace, binding.name))

    def _binding_changed(self, change: Change[BindingView]) -> None:
        self._work.add(change.key)

    def _job_changed(self, change: Change[JobView]) -> None:
        """What a Job refers to changes with its spec only."""
        old, new = change.old, change.new
        if old is not None and new is not None and old.generation != new.generation:
            self._work.add((new.namespace, naming.binding_name(new.name)))

    def _work_changed(self, change: Change[CompanionWork]) -> None:
        old, new = change.old, change.new
        if old is not None and (new is None or new.uid != old.uid):
            self._idle.pop(old.uid, None)
            if old.reference is not None:
                works = self._works_of.get(old.reference, {})
                works.pop(old.cluster, None)
                self._work.add(old.reference)
                if not works:
                    self._works_of.pop(old.reference, None)
        if new is None or new.reference is None:
            return
        self._works_of.setdefault(new.reference, {})[new.cluster] = new
        if old is None or (old.digest, old.deleting, old.finalized) != (new.digest, new.deleting, new.finalized):
            self._work.add(new.reference)
        if new.refused[0] and (old is None or old.refused != new.refused):
            reason, message = new.refused
            self._tell(new.reference, reason=reason, text=f"cluster {new.cluster} does not take it: {message}")

    def _cluster_changed(self, change: Change[ClusterView]) -> None:
        if change.old is None or change.new is None:
            for reference in sorted(self._works_of):
                self._work.add(reference)

    def _queue_changed(self, change: Change[QueueView]) -> None:
        """Its status changes all the time; its spec says which queue is above it."""
        old, new = change.old, change.new
        if old is not None and new is not None and old.generation == new.generation:
            return
        self._cluster_object(kinds.QUEUE, change.key[1], again=old is not None and new is not None)

    def _cluster_object(self, kind: kinds.Kind, name: str, *, again: bool = False) -> None:
        """An object without namespace changed; `again`: that may change what Jobs refer to."""
        reference = Reference(kind.api_version, kind.kind, "", name)
        if again and (kind == kinds.PRIORITY_CLASS or self._needs.companion(reference) is not None):
            self._look_at_all()
        if reference in self._works_of or self._needs.companion(reference) is not None:
            self._work.add(reference)

    def _watch(self, kind: kinds.Kind) -> None:
        """Objects of this kind are needed: from now on their changes are followed."""
        if kind in self._watched or kind not in _READ:
            return
        self._watched.add(kind)

        def changed(change: Change[Version]) -> None:
            reference = Reference(kind.api_version, kind.kind, *change.key)
            if reference in self._works_of or self._needs.companion(reference) is not None:
                self._work.add(reference)

        self._informers.add(kind, project_version).subscribe(changed)

    # --- reconciling -------------------------------------------------------------------------------------------------

    async def _reconcile(self, key: Key | Reference) -> float | None:
        if isinstance(key, Reference):
            return await self._bring(key)
        for reference in sorted(self._needs.put(key, await self._parent(key))):
            self._work.add(reference)
        return None

    async def _parent(self, key: Key) -> Parent | None:
        """What a live run needs where; None for what is not live."""
        bound = self._objects.get(*key)
        if bound is not None:
            return self._parent_of_object(bound)
        binding = self._bindings.get(*key)
        if binding is None or binding.ended or binding.run is None:
            self._read.pop(key, None)
            return None
        clusters = frozenset(name for name, part in binding.run.parts.items() if part.state is not PartState.GONE)
        job = self._jobs.get(binding.namespace, binding.job)
        if not clusters or job is None or job.uid != binding.job_uid:
            known = self._needs.get(key)
            return Parent(clusters, known.references, known.policy) if clusters and known is not None else None
        if not self._reads():
            return Parent(clusters, self._always(job), DEFAULT)
        read = self._read.get(key)
        if read is None or read.job != (job.uid, job.generation):
            read = await self._look_up(key, job)
            self._read[key] = read
        return Parent(clusters, self._with_parents(read.references), self._policy(read.policy))

    def _parent_of_object(self, bound: objects.BoundObject) -> Parent:
        """What an object refers to is written in its binding; its namespace goes with it in any case."""
        always = (Reference(kinds.NAMESPACE.api_version, kinds.NAMESPACE.kind, "", bound.namespace),)
        asked = tuple(each for each in bound.refers_to if (each.api_version, each.kind) in documents.TRAVELLING)
        found = self._with_parents(References(always, asked))
        return Parent(bound.clusters, found, self._policy(bound.policy))

    def _reads(self) -> bool:
        """Whether more can be meant than what a Job itself names."""
        policies = (*self._policies.values(), *self._cluster_policies.values())
        carried = any(each.carries or each.overwrites or each.preserves for each in policies)
        return carried or any(each.name not in PRIVILEGED for each in self._priorities.values())

    def _always(self, job: JobView) -> References:
        found = [(kinds.NAMESPACE, job.namespace), (kinds.QUEUE, job.queue)]
        if job.priority_class and job.priority_class not in PRIVILEGED:
            found.append((kinds.PRIORITY_CLASS, job.priority_class))
        return self._with_parents(References(tuple(Reference(kind.api_version, kind.kind, "", name) for kind, name in found)))

    def _with_parents(self, found: References) -> References:
        """The queues above a queue go with it."""
        always = list(found.always)
        for reference in found.always:
            queue = self._queues.get(None, reference.name) if reference.kind == kinds.QUEUE.kind else None
            for _ in range(MAX_DEPTH):
                if queue is None or not queue.parent:
                    break
                above = Reference(kinds.QUEUE.api_version, kinds.QUEUE.kind, "", queue.parent)
                if above not in always:
                    always.append(above)
                queue = self._queues.get(None, queue.parent)
        return References(tuple(always), found.asked, found.optional)

    async def _look_up(self, key: Key, job: JobView) -> _Read:
        """Read the Job's manifest and the marks of its binding."""
        tree = await self._applier.read(kinds.JOB, job.name, namespace=job.namespace) or {}
        binding = await self._applier.read(kinds.RESOURCE_BINDING, key[1], namespace=key[0]) or {}
        marks = (binding.get("metadata") or {}).get("annotations") or {}
        policy = (marks.get(keys.POLICY_NAMESPACE, ""), marks.get(keys.POLICY_NAME) or marks.get(_CLUSTER_POLICY, ""))
        manifest = {"apiVersion": kinds.JOB.api_version, "kind": kinds.JOB.kind, **tree}
        return _Read((job.uid, job.generation), references(manifest), policy)

    def _policy(self, name: Key) -> PolicyView:
        store = self._policies if name[0] else self._cluster_policies
        return store.get(*name) or DEFAULT

    async def _bring(self, reference: Reference) -> float | None:
        """One object: write what is missing, and what is not needed any more goes after a while."""
        wanted, works = self._needs.companion(reference), dict(self._works_of.get(reference, {}))
        if wanted is None and not works:
            self._missed.discard(reference)
            return None
        now, kind = self._clock.boot(), documents.kind_of(reference)
        source = None
        if wanted is not None:
            self._watch(kind)
            source = await self._applier.source(reference)
        for name, work in works.items():
            if wanted is not None and name in wanted.clusters:
                self._idle.pop(work.uid, None)
            else:
                self._idle.setdefault(work.uid, now)
        snapshot = Snapshot(
            reference=reference,
            wanted=wanted,
            source=source,
            works=works,
            unneeded={uid: now - since for uid in (each.uid for each in works.values()) if (since := self._idle.get(uid))},
            clusters=frozenset(each.name for each in self._clusters.values()),
        )
        found = plan(snapshot, linger=LINGER)
        await self._applier.commit(found, reference=reference)
        if found.missing and reference not in self._missed and not self._optional(reference):
            self._tell(reference, reason="DependencyMissing", text="Jobs refer to it, and it is not there")
        (self._missed.add if found.missing else self._missed.discard)(reference)
        return found.again

    def _optional(self, reference: Reference) -> bool:
        """Everything that refers to it starts without it."""
        parents = [self._needs.get(key) for key in self._needs.users(reference)]
        return all(parent is not None and reference in parent.references.optional for parent in parents)

    def _tell(self, reference: Reference, *, reason: str, text: str) -> None:
        about = About(documents.kind_of(reference), reference.namespace, reference.name, "")
        self._events.warn(about, reason=reason, message=f"{reference.kind} {reference.name}: {text}")
