"""Watches pods, groups and owners that can be scaled to nothing; wakes the planner for the family that an event concerns."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import orjson

from apis import keys, kinds
from apis.kinds import Kind
from machinery import errors
from machinery.clock import Clock
from machinery.events import About, EventRecorder
from machinery.informer import Change, Informer, Informers, Key
from machinery.port import Port
from machinery.runner import WorkMetrics, run_workers
from machinery.workqueue import WorkQueue
from member_agent.podgroups.applier import PodGroupApplier
from member_agent.podgroups.families import Families, Family, head_of_group
from member_agent.podgroups.owners import WATCHED, Owners, OwnerView, Reference, controller_of, project_owner
from member_agent.podgroups.planner import Plan, Snapshot, plan
from member_agent.podgroups.sketch import Sketch, sketch
from member_agent.settings import PodGroupSettings
from member_agent.views import GroupView, PodView

UNREADABLE = "InvalidAnnotation"
REFUSED = "PodGroupError"
"""Reasons of events on pods."""


@dataclass(frozen=True, slots=True)
class Stores:
    """The informers this role reads; it adds to `informers` those of owners, when it meets some."""

    pods: Informer[PodView]
    groups: Informer[GroupView]
    informers: Informers


class PodGroupController:
    """The PodGroup controller of a member, for pods that a scheduler of these names places; `queue` is that of pods which
    name none."""

    def __init__(
        self,
        *,
        port: Port,
        stores: Stores,
        events: EventRecorder,
        clock: Clock,
        scheduler: str | Collection[str],
        settings: PodGroupSettings,
        queue: str = keys.DEFAULT_QUEUE,
    ) -> None:
        self._default_queue = queue
        self._stores = stores
        self._events = events
        self._clock = clock
        self._settings = settings
        self._families = Families(scheduler=scheduler)
        self._owners = Owners(port)
        self._applier = PodGroupApplier(port, at_once=settings.writes_at_once)
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._watched: set[Kind] = set()
        self._scaled: dict[Key, OwnerView] = {}
        self._compared: dict[Key, str] = {}
        self._made: dict[Key, float] = {}
        self._named: dict[str, float] = {}
        stores.pods.subscribe(self._pod_changed)
        stores.groups.subscribe(self._group_changed)

    async def run(self, metrics: WorkMetrics | None = None) -> None:
        """Until cancelled."""
        await self._stores.pods.wait_synced()
        await self._stores.groups.wait_synced()
        await run_workers(self._queue, self._reconcile, workers=self._settings.workers, name="podgroups", metrics=metrics)

    # --- waking ------------------------------------------------------------------------------------------------------

    def _wake(self, key: Key) -> None:
        self._queue.add_after(key, self._settings.coalesce)

    def _pod_changed(self, change: Change[PodView]) -> None:
        pod = change.new or change.old
        if pod is not None and (change.new is None or pod.group):
            self._named.pop(pod.uid, None)
        for key in self._families.pod_changed(change):
            self._wake(key)

    def _group_changed(self, change: Change[GroupView]) -> None:
        group = change.new or change.old
        head = head_of_group(group.name) if group is not None else ""
        if group is None or not head:
            return
        key = (group.namespace, head)
        self._made.pop(key, None)
        if change.old is None:
            self._watch_kind(group.owner_kind)
        if change.new is None:
            self._compared.pop(key, None)
        if change.old is None or change.new is None or change.old.deleting != change.new.deleting:
            self._wake(key)

    def _owner_changed(self, change: Change[OwnerView]) -> None:
        owner = change.new or change.old
        if owner is None:
            return
        key = (owner.namespace, owner.uid)
        if change.new is None:
            self._scaled.pop(key, None)
            return
        self._scaled[key] = change.new
        old = change.old
        if old is None or (old.replicas == 0) != (change.new.replicas == 0) or old.digest != change.new.digest:
            self._wake(key)

    def _watch_kind(self, name: str) -> None:
        for kind in WATCHED:
            if kind.kind == name and kind not in self._watched:
                self._watched.add(kind)
                self._stores.informers.add(kind, project_owner).subscribe(self._owner_changed)

    # --- reconciling -------------------------------------------------------------------------------------------------

    async def _reconcile(self, key: Key) -> float | None:
        snapshot = self._snapshot(key)
        family, decided = snapshot.family, plan(snapshot)
        if decided.delete is not None:
            await self._applier.delete(decided.delete)
            return None
        if (decided.create or decided.compare) and not await self._make(family, decided):
            return None
        failed = await self._name(family, decided.name)
        if failed:
            raise failed[0]
        return self._unseen(family)

    def _snapshot(self, key: Key) -> Snapshot:
        now = self._clock.boot()
        family = self._families.freeze(key)
        return Snapshot(
            family=family,
            group=self._stores.groups.get(key[0], family.name),
            owner=self._scaled.get(key),
            compared=self._compared.get(key, ""),
            made=self._made.get(key, 0.0) > now,
            named=frozenset(pod.uid for pod in family.waiting if self._named.get(pod.uid, 0.0) > now),
        )

    async def _make(self, family: Family, decided: Plan) -> bool:
        """Make or compare the group; False where there is none to be had: another controller makes it, the owner was scaled to
        nothing, or the pod has gone."""
        about = family.live[0]
        pod = await self._applier.pod(about)
        if pod is None:
            return False
        reference = controller_of(pod)
        if reference is not None and reference.is_job:
            return False
        owner, digest = await self._owner(reference, namespace=about.namespace)
        if owner is not None and digest and (owner.get("spec") or {}).get("replicas") == 0:
            return False
        made = sketch(pod, owner, inherit=self._settings.inherit_owner_annotations, queue=self._default_queue)
        self._tell(about, made)
        await self._write(about, made, create=decided.create)
        if decided.create:
            self._made[family.key] = self._clock.boot() + self._settings.expect
        self._compared[family.key] = digest
        return True

    async def _owner(self, reference: Reference | None, *, namespace: str) -> tuple[dict[str, Any] | None, str]:
        """The owner as it is now, and for kinds that are watched, which are from now on, its digest."""
        if reference is None:
            return None, ""
        document = await self._owners.read(reference, namespace=namespace)
        if document is None:
            return None, ""
        kind = await self._owners.kind_of(reference)
        if kind not in WATCHED:
            return orjson.loads(document), ""
        self._watch_kind(reference.kind)
        return orjson.loads(document), project_owner(document).digest

    async def _write(self, about: PodView, made: Sketch, *, create: bool) -> None:
        try:
            if create:
                await self._applier.create(made.manifest)
            else:
                await self._applier.compare(made.manifest)
        except (errors.Forbidden, errors.Invalid) as error:
            message = f"PodGroup {made.manifest['metadata']['name']} is refused: {error.message}"
            self._events.warn(_about(about), reason=REFUSED, message=message)
            raise

    def _tell(self, about: PodView, made: Sketch) -> None:
        for problem in made.problems:
            self._events.warn(_about(about), reason=UNREADABLE, message=problem)

    async def _name(self, family: Family, pods: tuple[PodView, ...]) -> list[errors.ApiError]:
        until = self._clock.boot() + self._settings.expect
        self._named.update((pod.uid, until) for pod in pods)
        failed = await self._applier.name(pods, family.name)
        if failed:
            for pod in pods:
                self._named.pop(pod.uid, None)
        return failed

    def _unseen(self, family: Family) -> float | None:
        """Seconds until what was written and is not seen is written again: no event tells of that."""
        now = self._clock.boot()
        ends = [self._made.get(family.key, 0.0), *(self._named.get(pod.uid, 0.0) for pod in family.waiting)]
        return min((end - now for end in ends if end > now), default=None)


def _about(pod: PodView) -> About:
    return About(kinds.POD, pod.namespace, pod.name, pod.uid)
