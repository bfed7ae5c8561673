"""The one writer of bindings and Works (protocol.md 2, H1 and H2).

Each item is checked against quorum reads, written with optimistic concurrency, and answered committed or refused; nothing
is decided here. The binding is written first, always, and a run record is copied from the binding as the API server
returned it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from apis import keys, kinds, naming, runs
from apis.runs import BindingRun
from federation.dispatch import documents
from federation.dispatch.documents import Tree
from federation.dispatch.items import Act, Carry, Decide, Discard, Item, Release, Relied, Shrink, Sweep, Terms, Versions
from federation.dispatch.observing import order_text
from federation.dispatch.snapshot import Key
from federation.fences import Fences, raise_fence
from machinery.errors import AlreadyExists, ApiError, Conflict, Invalid, NotFound, TooLarge
from machinery.port import Document, PatchType, Port, Preconditions
from policies import queueing, statuses
from policies.members import QueueView, project_queue
from policies.overrides import APPLIED, APPLIED_CLUSTER, Overridden
from policies.runs import CreateWork, DeleteWork, Effect, Leave, PassOn, Pause, RewriteManifest, RewriteRecord
from policies.verdicts import Decision, Outcome
from policies.views import BindingView, Problem, Projections, WorkView

log = logging.getLogger(__name__)

Validate = Callable[[Document], Sequence[Problem]]
"""What is wrong with a Job's manifest; empty when it may run."""

Outdated = Callable[[Versions], str]
"""What a grant relied on and is no longer so, by what the hub knows now without asking; "" when all of it holds."""

Overriding = Callable[[Tree, str], Overridden]
"""A manifest as a cluster gets it, by the override policies of now."""

AT_ONCE: Final = 0.05
"""Seconds after which a stale plan is made again: the event that outdated it is on its way."""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of an item. `why` is "" when it is committed. Views are as the API server answered."""

    item: Item
    why: str = ""
    binding: BindingView | None = None
    works: tuple[WorkView, ...] = ()
    problem: Problem | None = None

    @property
    def committed(self) -> bool:
        """All of it was written."""
        return not self.why


class Stale(Exception):
    """What the plan relied on is no longer so; a new look is needed."""


class NotOverridden(Stale):
    """An override policy that selects the Job cannot be carried out there; the text names it, its field and the reason."""


class Applier:
    """Commits items. Remembers creates whose outcome is unknown, because after one an absent Work proves nothing, not even when
    a later create of the same Work was answered: only a raised fence number settles it."""

    def __init__(
        self,
        port: Port,
        *,
        projections: Projections,
        validate: Validate,
        fences: Fences,
        outdated: Outdated,
        overriding: Overriding,
        refused: Callable[[Key, str], None],
    ) -> None:
        """`refused` is told of a case whose Work an override policy keeps from being made, and why."""
        self._overriding = overriding
        self._refused = refused
        self._fences = fences
        self._outdated = outdated
        self._port = port
        self._projections = projections
        self._validate = validate
        self._uncertain: set[tuple[str, int, str]] = set()

    async def commit(self, item: Item) -> Result:
        """Write one item. Errors of the API server are answers here: the case is looked at again."""
        try:
            match item:
                case Decide():
                    return await self._decide(item)
                case Carry():
                    return await self._carry(item)
                case Sweep():
                    return await self._sweep(item)
                case Shrink():
                    return await self._shrink(item)
                case Release():
                    return await self._release(item)
                case Discard():
                    return await self._discard(item)
        except Stale as stale:
            return Result(item, why=f"stale: {stale}")
        except ApiError as error:
            return Result(item, why=f"{type(error).__name__}: {error}")

    # --- decisions ---------------------------------------------------------------------------------------------------

    async def _decide(self, item: Decide) -> Result:
        for cluster in item.proofs:
            await self._prove_absent(item.key, cluster=cluster, job_uid=item.job_uid, epoch=_proof_epoch(item))
        if item.act is Act.PLACE:
            await self._settle_earlier(item)
        if item.queue:
            await self._prove_refused(item.queue)
        job: Tree | None = None
        problem: Problem | None = None
        if item.relied is None or any(isinstance(effect, CreateWork | RewriteManifest) for effect in item.effects):
            document = await self._job(item.key, uid=item.job_uid)
            job = documents.parse(document)
            if item.act is Act.PLACE and job["metadata"].get("generation", 0) != item.generation:
                raise Stale("the Job was edited since it was looked at")
            item, problem = self._validated(item, document, job=job)
        binding = self._projections.binding(await self._write_binding(item, job=job))
        works, why = await self._effects(item.key, binding=binding, effects=item.effects, terms=item.terms, job=job)
        return Result(item, why=why, binding=binding, works=works, problem=problem)

    def _validated(self, item: Decide, document: Document, *, job: Tree) -> tuple[Decide, Problem | None]:
        """The item, or the refusal that stands in its place when the manifest breaks a rule: it may have been edited while it
        waited. A Job that ran before waits until it is right again; one that never did fails."""
        if item.act not in (Act.PLACE, Act.WAIT, Act.HOLD):
            return item, None
        size = documents.work_size(job, terms=item.terms)
        if size > documents.LARGEST_WORK:
            text = f"its Work would have {size} bytes; a Work has at most {documents.LARGEST_WORK}"
            reason, problems = "WorkTooLarge", [Problem("spec", text)]
        else:
            reason, problems = "InvalidSpec", list(self._validate(document))
        if not problems:
            return item, None
        first = problems[0]
        ran = item.ungranted is not None and item.ungranted.epoch > 0
        message = "; ".join(f"{each.field}: {each.message}" if each is not first else each.message for each in problems[:5])
        refused = replace(
            item,
            act=Act.WAIT if ran else Act.REFUSE,
            run=item.ungranted if ran and item.ungranted is not None else BindingRun(job=item.job_uid),
            clusters=(),
            effects=(),
            decision=Decision(
                outcome=Outcome.WAITING if ran else Outcome.REFUSED, reason=reason, message=message, field=first.field
            ),
        )
        return refused, first

    async def _write_binding(self, item: Decide, *, job: Tree | None) -> Document:
        namespace, name = item.key[0], naming.binding_name(item.key[1])
        if item.relied is None:
            if job is None:
                raise Stale("no Job to make a binding for")
            body = documents.new_binding(item, job=job, replicas=documents.replicas(job))
            self._hold_versions(item)
            try:
                return await self._port.create(kinds.RESOURCE_BINDING, body, namespace=namespace)
            except AlreadyExists as error:
                raise Stale(f"binding {namespace}/{name} exists already") from error
        current = await self._binding(item.key, relied=item.relied)
        count = documents.replicas(job) if job is not None else _replicas(current)
        body = documents.decided(current, item=item, replicas=count)
        self._hold_versions(item)
        try:
            return await self._port.replace(kinds.RESOURCE_BINDING, name, body, namespace=namespace)
        except Conflict as error:
            raise Stale(f"binding {namespace}/{name} was written by somebody else") from error

    def _hold_versions(self, item: Decide) -> None:
        """A grant by a policy, queue or fence number that has changed since is planned again (protocol.md 3)."""
        why = self._outdated(item.versions) if item.act is Act.PLACE else ""
        if why:
            raise Stale(f"since it was looked at, {why}")

    async def _carry(self, item: Carry) -> Result:
        tree = await self._binding(item.key, relied=item.relied)
        job: Tree | None = None
        if any(isinstance(effect, CreateWork | RewriteRecord | RewriteManifest) for effect in item.effects):
            job = documents.parse(await self._job(item.key, uid=item.job_uid))
        binding = self._projections.binding(msgspec.json.encode(tree))
        works, why = await self._effects(item.key, binding=binding, effects=item.effects, terms=item.terms, job=job)
        return Result(item, why=why, binding=binding, works=works)

    # --- Works -------------------------------------------------------------------------------------------------------

    async def _effects(
        self, key: Key, *, binding: BindingView, effects: Sequence[Effect], terms: Terms, job: Tree | None
    ) -> tuple[tuple[WorkView, ...], str]:
        """Carry out effects of a binding that is written; what fails is carried out again after the next look."""
        works: list[WorkView] = []
        why = ""
        for effect in effects:
            try:
                match effect:
                    case CreateWork(cluster=cluster):
                        works += await self._create(key, binding=binding, cluster=cluster, terms=terms, job=job)
                    case RewriteRecord(cluster=cluster):
                        works += await self._rewrite(key, binding=binding, cluster=cluster, terms=terms, job=job)
                    case RewriteManifest(cluster=cluster):
                        works += await self._remake(key, binding=binding, cluster=cluster, terms=terms, job=job)
                    case PassOn(cluster=cluster):
                        works += await self._pass_on(key, binding=binding, cluster=cluster)
                    case Pause(cluster=cluster, paused=paused):
                        works += await self._pause(key, binding=binding, cluster=cluster, paused=paused)
                    case Leave(cluster=cluster):
                        await self._leave(key, job_uid=binding.job_uid, cluster=cluster)
                    case DeleteWork(cluster=cluster):
                        await self._delete(key, job_uid=binding.job_uid, cluster=cluster)
            except (Stale, ApiError) as error:
                if isinstance(error, NotOverridden):
                    self._refused(key, f"{effect.cluster}: {error}")
                why = why or f"{type(effect).__name__} at {effect.cluster}: {error}"
        return tuple(works), why

    async def _create(self, key: Key, *, binding: BindingView, cluster: str, terms: Terms, job: Tree | None) -> list[WorkView]:
        if job is None or binding.run is None or cluster not in binding.run.parts:
            raise Stale(f"nothing to create at {cluster}")
        record = documents.run_record(binding.run, cluster=cluster, job=job, terms=terms)
        share = _share(job, run=binding.run, cluster=cluster)
        work = self._overridden(documents.work(record, cluster=cluster, job=share), cluster=cluster)
        if terms.pauses(cluster):
            work["spec"]["suspendDispatching"] = True
        namespace = keys.execution_namespace(cluster)
        mark = (record.job, record.epoch, cluster)
        try:
            document = await self._port.create(kinds.WORK, work, namespace=namespace)
        except AlreadyExists:
            return await self._existing(key, cluster=cluster, record_of=(record.job, record.epoch))
        except (Invalid, TooLarge):
            raise
        except ApiError as error:
            if error.outcome_unknown:
                self._uncertain.add(mark)
            raise
        # A success settles nothing: the create that was not answered may arrive still, when this Work is gone.
        return [self._projections.work(document)]

    async def _existing(self, key: Key, *, cluster: str, record_of: tuple[str, int]) -> list[WorkView]:
        """The Work that has the name already: ours from before a crash, or another epoch's, which is waited for."""
        work = self._projections.work(await self._get_work(key, cluster=cluster))
        if work.record is not None and (work.record.job, work.record.epoch) == record_of:
            return [work]
        log.info("%s/%s: its name at %s is still taken by another run; waiting", *key, cluster)
        return []

    async def _rewrite(self, key: Key, *, binding: BindingView, cluster: str, terms: Terms, job: Tree | None) -> list[WorkView]:
        if job is None or binding.run is None or cluster not in binding.run.parts:
            raise Stale(f"nothing to restamp at {cluster}")
        record = documents.run_record(binding.run, cluster=cluster, job=job, terms=terms)
        tree = documents.parse(await self._get_work(key, cluster=cluster))
        annotations = tree["metadata"].setdefault("annotations", {})
        old = runs.decode_record(annotations.get(keys.RUN, ""), where=f"work of {key[0]}/{key[1]} at {cluster}")
        if (old.job, old.epoch) != (record.job, record.epoch):
            raise Stale(f"the Work at {cluster} belongs to another run")
        annotations[keys.RUN] = runs.encode(record)
        name, namespace = tree["metadata"]["name"], tree["metadata"]["namespace"]
        document = await self._port.replace(kinds.WORK, name, tree, namespace=namespace)
        return [self._projections.work(document)]

    async def _remake(self, key: Key, *, binding: BindingView, cluster: str, terms: Terms, job: Tree | None) -> list[WorkView]:
        """The Work as it would be made from the Job now. One that breaks a rule since it was edited leaves the Work as it is:
        what runs goes on, and the Job says that the edit is not carried out."""
        if job is None or binding.run is None or cluster not in binding.run.parts:
            raise Stale(f"nothing to make anew at {cluster}")
        problems = self._validate(msgspec.json.encode(job))
        if problems:
            raise Stale(f"the edited Job breaks a rule: {problems[0].field}: {problems[0].message}")
        record = documents.run_record(binding.run, cluster=cluster, job=job, terms=terms)
        share = _share(job, run=binding.run, cluster=cluster)
        tree = documents.parse(await self._own_work(key, binding=binding, cluster=cluster))
        made = self._overridden(documents.work(record, cluster=cluster, job=share), cluster=cluster)
        notes = tree["metadata"]["annotations"]
        for name in (keys.OVERRIDES, APPLIED, APPLIED_CLUSTER):
            notes.pop(name, None)
        notes |= made["metadata"]["annotations"]
        tree["spec"]["workload"] = made["spec"]["workload"]
        name, namespace = tree["metadata"]["name"], tree["metadata"]["namespace"]
        return [self._projections.work(await self._port.replace(kinds.WORK, name, tree, namespace=namespace))]

    def _overridden(self, work: Tree, *, cluster: str) -> Tree:
        """A new Work with what override policies change, and who did; raises NotOverridden."""
        manifests = work["spec"]["workload"]["manifests"]
        made = self._overriding(manifests[0], cluster)
        if made.failure is not None:
            raise NotOverridden(str(made.failure))
        manifests[0] = dict(made.manifest)
        work["metadata"]["annotations"] |= made.annotations()
        if made.standing:
            work["metadata"]["annotations"][keys.OVERRIDES] = made.standing
        return work

    async def _pass_on(self, key: Key, *, binding: BindingView, cluster: str) -> list[WorkView]:
        """The last Command, for the member to carry out: once, whoever dies when, by its id."""
        if binding.run is None or not binding.run.asked:
            raise Stale(f"nothing to ask of {cluster}")
        tree = documents.parse(await self._own_work(key, binding=binding, cluster=cluster))
        tree["metadata"].setdefault("annotations", {})[keys.COMMAND] = order_text(binding.run)
        name, namespace = tree["metadata"]["name"], tree["metadata"]["namespace"]
        return [self._projections.work(await self._port.replace(kinds.WORK, name, tree, namespace=namespace))]

    async def _pause(self, key: Key, *, binding: BindingView, cluster: str, paused: bool) -> list[WorkView]:
        """Updates go there again, or no longer."""
        tree = documents.parse(await self._own_work(key, binding=binding, cluster=cluster))
        tree["spec"]["suspendDispatching"] = paused
        name, namespace = tree["metadata"]["name"], tree["metadata"]["namespace"]
        return [self._projections.work(await self._port.replace(kinds.WORK, name, tree, namespace=namespace))]

    async def _leave(self, key: Key, *, job_uid: str, cluster: str) -> None:
        """Its Job is deleted, and what runs stays: the Work says so, and goes."""
        try:
            tree = documents.parse(await self._get_work(key, cluster=cluster))
        except NotFound:
            return
        work = self._projections.work(msgspec.json.encode(tree))
        if work.deleting or work.record is None or work.record.job != job_uid:
            return
        tree["spec"]["preserveResourcesOnDeletion"] = True
        await self._port.replace(kinds.WORK, work.name, tree, namespace=work.namespace)
        await self._delete_work(work.namespace, work.name, uid=work.uid)

    async def _own_work(self, key: Key, *, binding: BindingView, cluster: str) -> Document:
        """The Work of the present run, by a quorum read."""
        document = await self._get_work(key, cluster=cluster)
        work, run = self._projections.work(document), binding.run
        if work.record is None or run is None or (work.record.job, work.record.epoch) != (run.job, run.epoch):
            raise Stale(f"the Work at {cluster} belongs to another run")
        if work.deleting:
            raise Stale(f"the Work at {cluster} is going")
        return document

    async def _delete(self, key: Key, *, job_uid: str, cluster: str) -> None:
        """H2: the order to stop. Only a Work of this Job, and only the very one that was read."""
        try:
            work = self._projections.work(await self._get_work(key, cluster=cluster))
        except NotFound:
            return
        if work.deleting or (work.record is not None and work.record.job != job_uid):
            return
        await self._delete_work(work.namespace, work.name, uid=work.uid)

    async def _delete_work(self, namespace: str, name: str, *, uid: str) -> None:
        try:
            await self._port.delete(kinds.WORK, name, namespace=namespace, preconditions=Preconditions(uid=uid))
        except NotFound:
            return

    # --- the end of bindings -----------------------------------------------------------------------------------------

    async def _sweep(self, item: Sweep) -> Result:
        if item.relied is not None:
            await self._binding(item.key, relied=item.relied)
        elif await self._exists(kinds.RESOURCE_BINDING, naming.binding_name(item.key[1]), namespace=item.key[0]):
            raise Stale("there is a binding after all")
        await self._remember_epoch(item)
        for namespace, name, uid in item.works:
            await self._delete_work(namespace, name, uid=uid)
        return Result(item)

    async def _shrink(self, item: Shrink) -> Result:
        works: list[WorkView] = []
        for namespace, name, version in item.works:
            body: list[Tree] = [
                {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
                {"op": "replace", "path": "/spec/workload/manifests", "value": [documents.identity(item.key)]},
            ]
            try:
                document = await self._port.patch(kinds.WORK, name, body, type=PatchType.JSON, namespace=namespace)
            except NotFound:
                continue
            except Conflict as error:
                raise Stale(f"Work {namespace}/{name} was written by somebody else") from error
            works.append(self._projections.work(document))
        return Result(item, works=tuple(works))

    async def _release(self, item: Release) -> Result:
        tree = await self._binding(item.key, relied=item.relied)
        for cluster in item.proofs:
            await self._prove_absent(item.key, cluster=cluster, job_uid=item.job_uid, epoch=item.epoch)
        await self._remember_epoch(item)
        meta = tree["metadata"]
        meta["finalizers"] = [each for each in meta.get("finalizers") or [] if each != keys.BINDING_FINALIZER]
        name = naming.binding_name(item.key[1])
        await self._port.replace(kinds.RESOURCE_BINDING, name, tree, namespace=item.key[0])
        return Result(item)

    async def _remember_epoch(self, item: Release | Sweep) -> None:
        """Somebody deleted the binding of a Job that lives: its next binding must not give an epoch twice."""
        if not item.epoch:
            return
        try:
            tree = documents.parse(await self._port.get(kinds.JOB, item.key[1], namespace=item.key[0]))
        except NotFound:
            return
        meta = tree["metadata"]
        annotations = meta.get("annotations") or {}
        if meta.get("uid") != item.job_uid or meta.get("deletionTimestamp") or _number(annotations) >= item.epoch:
            return
        meta["annotations"] = {**annotations, keys.LAST_EPOCH: str(item.epoch)}
        try:
            await self._port.replace(kinds.JOB, item.key[1], tree, namespace=item.key[0])
        except NotFound:
            return
        except Conflict as error:
            raise Stale("the Job was written meanwhile") from error

    async def _discard(self, item: Discard) -> Result:
        try:
            document = await self._port.get(kinds.JOB, item.key[1], namespace=item.key[0])
        except NotFound:
            pass
        else:
            if self._projections.job(document).uid == item.job_uid:
                raise Stale("its Job is there after all")
        name = naming.binding_name(item.key[1])
        await self._port.delete(
            kinds.RESOURCE_BINDING, name, namespace=item.key[0], preconditions=Preconditions(uid=item.relied.uid)
        )
        return Result(item)

    # --- quorum reads ------------------------------------------------------------------------------------------------

    async def _binding(self, key: Key, *, relied: Relied) -> Tree:
        """The binding exactly as the plan saw it; Stale otherwise."""
        name = naming.binding_name(key[1])
        try:
            tree = documents.parse(await self._port.get(kinds.RESOURCE_BINDING, name, namespace=key[0]))
        except NotFound as error:
            raise Stale(f"binding {key[0]}/{name} is gone") from error
        meta = tree["metadata"]
        if (meta.get("uid"), meta.get("resourceVersion")) != (relied.uid, relied.version):
            raise Stale(f"binding {key[0]}/{name} changed")
        return tree

    async def _job(self, key: Key, *, uid: str) -> Document:
        try:
            document = await self._port.get(kinds.JOB, key[1], namespace=key[0])
        except NotFound as error:
            raise Stale("the Job is gone") from error
        job = self._projections.job(document)
        if job.uid != uid or job.deleting or job.phase in statuses.TERMINAL:
            raise Stale("the Job was replaced, is being deleted or has ended")
        return document

    async def _get_work(self, key: Key, *, cluster: str) -> Document:
        name = naming.work_name(key[1], namespace=key[0])
        return await self._port.get(kinds.WORK, name, namespace=keys.execution_namespace(cluster))

    async def _exists(self, kind: kinds.Kind, name: str, *, namespace: str | None = None) -> bool:
        try:
            await self._port.get(kind, name, namespace=namespace)
        except NotFound:
            return False
        return True

    async def _prove_refused(self, name: str) -> None:
        """The queue refuses Jobs in the words of the API server too: a Job fails for ever, and a watch may be late."""
        queues: dict[str, QueueView] = {}
        token = ""
        while True:
            page = await self._port.list(kinds.QUEUE, continue_token=token)
            queues |= {view.name: view for view in map(project_queue, page.items)}
            token = page.continue_token
            if not token:
                break
        if queueing.refusal(name, queues=queues) is None:
            raise Stale(f"queue {name} takes Jobs after all")

    async def _prove_absent(self, key: Key, *, cluster: str, job_uid: str, epoch: int) -> None:
        """The Work of this epoch is absent, now and for ever; Stale when it is there.

        After a create whose outcome is unknown it may still arrive. The fence number is raised then: what arrives later is
        stale and starts nothing. The same goes for what a former leader sent: its numbers are outdated first (H0).
        """
        await self._fences.ensure(cluster)
        if await self._present(key, cluster=cluster, job_uid=job_uid, epoch=epoch):
            raise Stale(f"the Work at {cluster} is still there")
        mark = (job_uid, epoch, cluster)
        if mark not in self._uncertain:
            return
        await raise_fence(self._port, cluster=cluster)
        if await self._present(key, cluster=cluster, job_uid=job_uid, epoch=epoch):
            raise Stale(f"the Work at {cluster} arrived late")
        self._uncertain.discard(mark)

    async def _settle_earlier(self, item: Decide) -> None:
        """Before a grant: no create of an earlier epoch may still be on its way, however that epoch came to its end."""
        for job, epoch, cluster in sorted(self._uncertain):
            if cluster in item.lost:
                self._uncertain.discard((job, epoch, cluster))  # its fence number is outdated since
            elif job == item.job_uid and epoch < item.run.epoch:
                await self._prove_absent(item.key, cluster=cluster, job_uid=job, epoch=epoch)

    async def _present(self, key: Key, *, cluster: str, job_uid: str, epoch: int) -> bool:
        try:
            work = self._projections.work(await self._get_work(key, cluster=cluster))
        except NotFound:
            return False
        return work.record is None or (work.record.job, work.record.epoch) == (job_uid, epoch)


def _proof_epoch(item: Decide) -> int:
    """The epoch that must be gone: the one before, where the same write grants the next."""
    granted = any(isinstance(effect, CreateWork) for effect in item.effects)
    return item.run.epoch - 1 if granted and item.act is Act.PLACE else item.run.epoch


def _share(job: Tree, *, run: BindingRun, cluster: str) -> Mapping[str, Any]:
    """The manifest of a part; Stale where the Job has tasks that were never divided."""
    try:
        return documents.share(job, run=run, cluster=cluster)
    except KeyError as error:
        raise Stale(f"task {error} was not there when the Job was divided") from error


def _number(annotations: Tree) -> int:
    text = str(annotations.get(keys.LAST_EPOCH, ""))
    return int(text) if text.isdigit() else 0


def _replicas(binding: Tree) -> int:
    clusters = binding.get("spec", {}).get("clusters") or [{}]
    return int(clusters[0].get("replicas") or 0)
