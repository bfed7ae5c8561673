"""Brings objects without a run here, keeps them as their Works say, and removes them with their Works (see `plain`).

They are looked at again from time to time: this member's people may change or delete them, and a refusal may have lost its
ground. Nothing but a difference is written.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import msgspec

from apis import keys, kinds
from apis.kinds import Kind
from machinery import errors
from machinery.clock import Clock, stamp
from machinery.informer import Change, Informer, Informers, Key, is_newer
from machinery.port import Document, PatchType, Port, Preconditions
from machinery.runner import WorkMetrics, run_workers
from machinery.workqueue import WorkQueue
from member_agent import carried
from member_agent.settings import WorkSettings
from member_agent.views import Meta, WorkView, project_work
from member_agent.works import plain
from member_agent.works.applier import WorkApplier
from member_agent.works.namespaces import Namespaces
from member_agent.works.pace import Pace
from member_agent.works.plain import Apply, Keep, Whose
from member_agent.works.planner import Refuse
from member_agent.works.writers import Writers

MANAGER = "volcano-federation-works"
"""Field manager of objects that Works bring."""


@dataclass(frozen=True, slots=True)
class Brought:
    """An object that a Work brought; `work` by namespace and name."""

    namespace: str
    name: str
    uid: str
    version: str
    work: Key


class _Head(msgspec.Struct, frozen=True):
    metadata: Meta


_head = msgspec.json.Decoder(_Head)


def project_brought(document: bytes) -> Brought:
    """Of any object only whose it is."""
    meta = _head.decode(document).metadata
    work = (meta.annotation(keys.WORK_NAMESPACE), meta.annotation(keys.WORK_NAME))
    return Brought(meta.namespace, meta.name, meta.uid, meta.resource_version, work)


class PlainApplier:
    """The one writer of such objects in the member."""

    def __init__(self, local: Port, *, account: str = "") -> None:
        self._local = local
        self._writers = Writers(local, account=account)
        self._namespaces = Namespaces(local)

    async def present(self, work: WorkView, *, kind: kinds.Kind) -> Document | None:
        """The object by a quorum read; None when there certainly is none."""
        try:
            return await self._local.get(kind, work.target.name, namespace=_namespace(work, kind))
        except errors.NotFound:
            return None

    async def apply(self, work: WorkView, manifest: plain.Tree, *, kind: kinds.Kind, take: bool) -> None:
        """Server-side apply, and the namespace if it is missing. Conflict: somebody else made it meanwhile."""
        if kind.namespaced:
            await self._namespaces.ensure(work.target.namespace)
        try:
            writer = self._writers.of(work.target.namespace) if kind.namespaced else self._local
            await writer.patch(
                kind,
                work.target.name,
                plain.body(work, manifest),
                type=PatchType.APPLY,
                namespace=_namespace(work, kind),
                field_manager=MANAGER,
                force=take,
            )
        except errors.NotFound:
            self._namespaces.forget(work.target.namespace)
            raise

    async def let_go(self, work: WorkView, *, kind: kinds.Kind) -> None:
        """It stays, without our marks."""
        try:
            await self._local.patch(
                kind, work.target.name, plain.UNMARKED, type=PatchType.MERGE, namespace=_namespace(work, kind)
            )
        except errors.NotFound:
            return

    async def delete(self, work: WorkView, *, kind: kinds.Kind, uid: str) -> None:
        """This very object goes."""
        try:
            await self._local.delete(
                kind, work.target.name, namespace=_namespace(work, kind), preconditions=Preconditions(uid=uid)
            )
        except (errors.NotFound, errors.Conflict):
            return


def _namespace(work: WorkView, kind: kinds.Kind) -> str | None:
    return work.target.namespace if kind.namespaced else None


class PlainController:
    """The part of the works role that has no runs. One worker per Work. `here` watches this member's objects of the kinds whose
    status is reported, once a Work brings one."""

    def __init__(
        self, *, hub: Port, local: Port, works: Informer[WorkView], here: Informers, clock: Clock, settings: WorkSettings
    ) -> None:
        self._works = works
        self._here = here
        self._watched: set[Kind] = set()
        self._reported: dict[str, float] = {}
        """By UID, the boot second from which the status of a Work may be written again."""
        self._changed: set[str] = set()
        """By UID, Works whose object changed since it was read last."""
        self._pace = Pace(clock, per_second=settings.writes_per_second / 2)
        self._clock = clock
        self._settings = settings
        self._hub = WorkApplier(hub=hub, local=local)
        self._applier = PlainApplier(local, account=settings.impersonate)
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._written: dict[str, WorkView] = {}
        """By UID, Works as our last status write returned them."""
        self._looked: dict[str, tuple[str, float]] = {}
        """By UID, the digest of the manifest that was carried out, and the boot second of the next look."""
        self._leaving: dict[str, float] = {}
        """By UID, the boot second until which the deletion of an object is asked for again."""
        works.subscribe(self._work_changed)

    async def run(self, metrics: WorkMetrics | None = None) -> None:
        """Until cancelled."""
        await self._works.wait_synced()
        await run_workers(self._queue, self._reconcile, workers=self._settings.plain_workers, name="plain", metrics=metrics)

    def _work_changed(self, change: Change[WorkView]) -> None:
        work, old = change.new, change.old
        if old is not None and (work is None or work.uid != old.uid):
            self._written.pop(old.uid, None)
            self._looked.pop(old.uid, None)
            self._leaving.pop(old.uid, None)
            self._reported.pop(old.uid, None)
            self._changed.discard(old.uid)
            self._look_at_others(old)
        if work is not None and self._kind_of(work) is not None:
            self._queue.add(change.key)

    def _kind_of(self, work: WorkView) -> Kind | None:
        return plain.kind_of(work, more=self._settings.more_kinds)

    def _look_at_others(self, gone: WorkView) -> None:
        """Another Work may bring the same object, which went with this one."""
        if self._kind_of(gone) is None:
            return
        for work in self._works.values():
            if work.target == gone.target and work.uid != gone.uid:
                self._looked.pop(work.uid, None)
                self._queue.add((work.namespace, work.name))

    def _watch(self, kind: Kind) -> None:
        """Follow what happens to objects of this kind that Works brought."""
        if kind in self._watched:
            return
        self._watched.add(kind)
        self._here.add(kind, project_brought, labels=f"{keys.MANAGED_LABEL}=true").subscribe(self._object_changed)

    def _object_changed(self, change: Change[Brought]) -> None:
        """Its status is told together with what comes within a second."""
        brought = change.new or change.old
        work = self._works.get(*brought.work) if brought is not None else None
        if work is None:
            return
        self._looked.pop(work.uid, None)
        self._changed.add(work.uid)
        wait = self._reported.get(work.uid, 0.0) - self._clock.boot()
        self._queue.add_after((work.namespace, work.name), max(wait, 0.0))

    async def _reconcile(self, key: Key) -> float | None:
        work = self._newest(key)
        kind = self._kind_of(work) if work is not None else None
        if work is None or kind is None:
            return None
        if work.deleting:
            return await self._remove(work, kind=kind) if keys.WORK_FINALIZER in work.finalizers else None
        if work.suspended:
            return None
        digest, due = self._looked.get(work.uid, ("", 0.0))
        if digest == work.digest and due > self._clock.boot():
            return due - self._clock.boot()
        self._changed.discard(work.uid)
        said = plain.unfit(work) or await self._bring(work, kind=kind)
        if carried.reports(kind):
            self._watch(kind)
        status = plain.status(work, said, now=stamp(self._clock.now()))
        if status is not None:
            wait = self._reported.get(work.uid, 0.0) - self._clock.boot()
            if wait > 0 and isinstance(said, Keep) and work.applied:
                return wait
            await self._pace.turn(urgent=isinstance(said, Refuse))
            self._reported[work.uid] = self._clock.boot() + self._settings.coalesce
            self._written[work.uid] = project_work(await self._hub.report(work, status))
        if work.uid in self._changed:
            return self._settings.coalesce
        self._looked[work.uid] = (work.digest, self._clock.boot() + self._settings.plain_again)
        return self._settings.plain_again

    def _newest(self, key: Key) -> WorkView | None:
        """As the informer has it, or newer if we wrote since."""
        known = self._works.get(*key)
        written = self._written.get(known.uid) if known is not None else None
        return written if known is not None and written is not None and is_newer(written.version, known.version) else known

    async def _bring(self, work: WorkView, *, kind: kinds.Kind) -> Keep | Refuse:
        """Read what is there, and write it where that is ours to do."""
        raw = work.manifest if work.manifest is not None else await self._hub.manifest(work)
        if raw is None:
            raise errors.Conflict("the Work has changed hands", request=f"get Work {work.namespace}/{work.name}")
        manifest = plain.read(raw)
        document = await self._applier.present(work, kind=kind)
        answer = plain.answer(work, manifest=manifest, present=plain.read(document) if document is not None else None)
        there = plain.read(document) if document is not None else None
        status = (there or {}).get("status") if carried.reports(kind) else None
        if not isinstance(answer, Apply):
            return dataclasses.replace(answer, status=status) if isinstance(answer, Keep) else answer
        try:
            await self._applier.apply(work, manifest, kind=kind, take=answer.take)
        except tuple(plain.REFUSED) as error:
            refused = plain.refusal(error, kind=kind)
            if plain.whose(work, there) is Whose.OURS and not isinstance(error, errors.NotFound):
                return Keep(plain.UPDATE_REFUSED, f"it stays as it was: {refused.message}", status)
            return refused
        return Keep(plain.APPLIED, status=status)

    async def _remove(self, work: WorkView, *, kind: kinds.Kind) -> float | None:
        """What is ours goes, or is let go where it is to be preserved; then the word the hub waits for."""
        document = await self._applier.present(work, kind=kind)
        present = plain.read(document) if document is not None else None
        if present is not None and plain.whose(work, present) is Whose.OURS:
            patient = self._clock.boot() < self._leaving.setdefault(
                work.uid, self._clock.boot() + self._settings.plain_patience
            )
            if work.preserved or not await self._take_away(work, kind=kind, uid=str(present["metadata"]["uid"])):
                if patient and not work.preserved:
                    return self._settings.retry
                await self._applier.let_go(work, kind=kind)
        await self._hub.confirm(work)
        return None

    async def _take_away(self, work: WorkView, *, kind: kinds.Kind, uid: str) -> bool:
        """False where it may not be deleted: a Queue goes after those under it, and one in use not at all. What stays is the
        member's own from then on."""
        try:
            await self._applier.delete(work, kind=kind, uid=uid)
        except (errors.Forbidden, errors.Invalid):
            return False
        return True
