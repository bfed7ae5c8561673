"""Watches flows, their Jobs and templates; wakes the planner for the flow that an event concerns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Generic, Protocol, TypeVar

from apis import kinds
from controllers.flows.applier import FlowApplier
from controllers.flows.planner import plan
from controllers.flows.plans import FlowPlan
from controllers.flows.probing import Prober, Probing
from controllers.flows.snapshot import (
    ChildFlow,
    FlowJob,
    FlowSnapshot,
    FlowView,
    Placed,
    TemplateView,
    project_flow,
    project_template,
)
from controllers.flows.steps import ENDS, expected
from machinery.clock import Clock, stamp
from machinery.informer import Change, Informer, Informers, Key
from machinery.port import Port
from machinery.runner import WorkMetrics, run_workers
from machinery.workqueue import WorkQueue

J = TypeVar("J", bound=FlowJob)


class Keeper(Protocol):
    """Who must have recorded the end of a flow before it may leave."""

    async def wait_synced(self) -> None:
        """Return once `may_leave` can answer."""
        ...

    def may_leave(self, job: FlowView) -> bool:
        """Nothing is lost with this ended flow."""
        ...

    def subscribe(self, handler: Callable[[Key], None]) -> None:
        """Call with keys of flows for which the answer may be another one now."""
        ...


WORKERS: Final = 8
COALESCE: Final = 0.01
"""Seconds an event waits for company: events of one write come together."""
LOOK_EVERY: Final = 0.03
"""Seconds between two looks at one flow at least; large flows wait for as long again as a look took."""
STATUS_EVERY: Final = 0.2
"""Seconds between two status writes of one flow at least."""
STATUS_PER_STEP: Final = 0.001
"""The same for each Job on record, where the write says nothing but how far they are: a thousand Jobs are half a megabyte."""
UNSEEN: Final = 5.0
"""Seconds after which a Job that was made and is still not seen is made again."""


class Places(Protocol):
    """Who knows where Jobs are sent."""

    async def wait_synced(self) -> None:
        """Return once it knows what there is."""
        ...

    def of(self, namespace: str, jobs: Iterable[str]) -> Mapping[str, Placed]:
        """Of these Jobs those that were sent somewhere, by name."""
        ...


class FlowController(Generic[J]):
    """Runs JobFlows on any API server; `jobs` is the program's own informer of Jobs, `prober` reaches pods (None: nobody does,
    and a step waits until its targets have completed), `keeper` records ends of flows (None: every ended flow may leave),
    `places` knows where Jobs are sent (None: they run here)."""

    def __init__(
        self,
        *,
        port: Port,
        informers: Informers,
        jobs: Informer[J],
        clock: Clock,
        prober: Prober | None = None,
        keeper: Keeper | None = None,
        places: Places | None = None,
    ) -> None:
        self._jobs = jobs
        self._flows: Informer[FlowView] = informers.add(kinds.JOB_FLOW, project_flow)
        self._templates: Informer[TemplateView] = informers.add(kinds.JOB_TEMPLATE, project_template)
        self._applier = FlowApplier(port, made=self._note_made)
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._clock = clock
        self._children: dict[str, dict[str, FlowJob]] = {}
        """Jobs and nested flows by name, by the UID of the flow that owns them."""
        self._ended: dict[str, dict[str, FlowJob]] = {}
        self._refused: dict[str, dict[str, str]] = {}
        self._waiting: dict[Key, set[Key]] = {}
        """Flows that wait for a template, by the template's key."""
        self._patterns: dict[Key, set[Key]] = {}
        """Flows that wait for another flow to copy, by its key."""
        self._blocked: dict[Key, set[Key]] = {}
        """Flows that wait for a stranger's Job to free its name, by the Job's key."""
        self._leaving: dict[Key, dict[Key, kinds.Kind]] = {}
        """Jobs and nested flows under deletion, by the flow that made them: where that is gone, nobody waits for their end."""
        self._written: dict[Key, float] = {}
        self._next_look: dict[Key, float] = {}
        self._made: dict[str, dict[str, float]] = {}
        """By UID of the flow, Jobs that were made and are not seen yet, and since when."""
        self._keeper = keeper
        self._places = places
        self._probing = Probing(prober, clock=clock, wake=self._woken)
        self._flows.subscribe(self._flow_changed)
        self._templates.subscribe(self._template_changed)
        self._jobs.subscribe(self._job_changed)
        if keeper is not None:
            keeper.subscribe(self._woken)

    async def run(self, metrics: WorkMetrics | None = None) -> None:
        """Until cancelled."""
        await self._flows.wait_synced()
        await self._templates.wait_synced()
        await self._jobs.wait_synced()
        if self._keeper is not None:
            await self._keeper.wait_synced()
        if self._places is not None:
            await self._places.wait_synced()
        async with self._probing.running():
            await run_workers(self._queue, self._reconcile, workers=WORKERS, name="flows", metrics=metrics)

    # --- waking ------------------------------------------------------------------------------------------------------

    def _woken(self, key: Key) -> None:
        self._queue.add_after(key, max(self._next_look.get(key, 0.0) - self._clock.boot(), COALESCE))

    def _flow_changed(self, change: Change[FlowView]) -> None:
        old, new = change.old, change.new
        if new is None and old is not None:
            for memory in (self._ended, self._refused, self._children, self._made):
                memory.pop(old.uid, None)
            for times in (self._written, self._next_look):
                times.pop(change.key, None)
            self._probing.forget(change.key)
        if old is None:
            self._wake(self._patterns.pop(change.key, set()))
        self._woken(change.key)
        child = new or old
        if child is not None and child.created_by_flow:
            self._child_changed(ChildFlow(child), gone=new is None, kind=kinds.JOB_FLOW)

    def _template_changed(self, change: Change[TemplateView]) -> None:
        self._wake(self._waiting.pop(change.key, set()))

    def _wake(self, flows: set[Key]) -> None:
        for key in sorted(flows):
            self._woken(key)

    def _job_changed(self, change: Change[J]) -> None:
        job = change.new or change.old
        if change.new is None:
            self._wake(self._blocked.pop(change.key, set()))
        if job is not None and job.created_by_flow:
            self._child_changed(job, gone=change.new is None, kind=kinds.JOB)

    def _child_changed(self, job: FlowJob, *, gone: bool, kind: kinds.Kind) -> None:
        key = job_key(job)
        self._made.get(job.owner_uid, {}).pop(job.name, None)
        children = self._children.setdefault(job.owner_uid, {})
        ended = self._ended.setdefault(job.owner_uid, {})
        if gone:
            if (known := children.get(job.name)) is not None and known.uid == job.uid:
                del children[job.name]
            if job.phase in ENDS:
                ended[job.name] = job
        else:
            children[job.name] = job
            ended.pop(job.name, None)
        flow = (job.namespace, job.created_by_flow.removeprefix(f"{job.namespace}."))
        leaving = self._leaving.setdefault(flow, {})
        if not gone and job.deleting:
            leaving[key] = kind
        else:
            leaving.pop(key, None)
        for memory, owner in ((self._children, job.owner_uid), (self._ended, job.owner_uid)):
            if not memory[owner]:
                del memory[owner]
        if not leaving:
            del self._leaving[flow]
        self._woken(flow)

    # --- reconciling -------------------------------------------------------------------------------------------------

    async def _reconcile(self, key: Key) -> float | None:
        flow = self._flows.get(*key)
        await self._let_go(key, flow)
        if flow is None:
            return None
        snapshot = self._snapshot(flow)
        began = self._clock.boot()
        decided = plan(snapshot, now=stamp(self._clock.now()))
        took = self._clock.boot() - began
        self._next_look[key] = began + max(LOOK_EVERY, 2 * took)
        early = self._early(flow, decided)
        if early is not None:
            refused = await self._applier.create(flow, decided.create) if decided.sure else []
            self._refuse(flow, refused)
            return early
        nested = {name: kinds.JOB_FLOW for name, job in snapshot.jobs.items() if isinstance(job, ChildFlow)}
        outcome = await self._applier.commit(flow, decided, nested=nested)
        if decided.status is not None:
            self._written[key] = self._clock.boot()  # a slow write counts from its end, so that no two arrive together
        self._probing.want(key, flow.uid, decided.probes)
        self._refuse(flow, outcome.refused)
        return None if outcome.stale else decided.wakes

    def _note_made(self, flow: FlowView, job: str) -> None:
        self._made.setdefault(flow.uid, {})[job] = self._clock.boot()

    def _refuse(self, flow: FlowView, refused: Iterable[tuple[str, str]]) -> None:
        if refused:
            self._refused.setdefault(flow.uid, {}).update(refused)
            self._queue.add((flow.namespace, flow.name))

    def _early(self, flow: FlowView, decided: FlowPlan) -> float | None:
        """Seconds to wait where the status was written a moment ago; its next version then holds what happens meanwhile."""
        if decided.status is None:
            return None
        key, now = (flow.namespace, flow.name), self._clock.boot()
        news = decided.status.state != flow.status.state or decided.delete or decided.release or not decided.sure
        pause = STATUS_EVERY if news else max(STATUS_EVERY, STATUS_PER_STEP * len(decided.status.job_status_list))
        left = self._written.get(key, now - pause) + pause - now
        if left > 0:
            return left
        self._written[key] = now
        return None

    async def _let_go(self, key: Key, flow: FlowView | None) -> None:
        """Release Jobs under deletion whose own flow is gone, also where another flow has its name now."""
        for (namespace, name), kind in sorted(self._leaving.get(key, {}).items()):
            job: FlowJob | None = self._jobs.get(namespace, name)
            if kind is kinds.JOB_FLOW:
                child = self._flows.get(namespace, name)
                job = ChildFlow(child) if child is not None else None
            if job is not None and job.deleting and (flow is None or job.owner_uid != flow.uid):
                await self._applier.release(name, namespace=namespace, kind=kind)

    # --- looking -----------------------------------------------------------------------------------------------------

    def _snapshot(self, flow: FlowView) -> FlowSnapshot:
        jobs = dict(self._children.get(flow.uid, {}))
        return FlowSnapshot(
            flow=flow,
            jobs=jobs,
            places=self._places.of(flow.namespace, jobs) if self._places is not None else {},
            foreign=frozenset(self._foreign(flow)),
            templates=frozenset(self._known_templates(flow)),
            flows=frozenset(self._known_flows(flow)),
            ended=dict(self._ended.get(flow.uid, {})),
            refused=dict(self._refused.get(flow.uid, {})),
            reached=self._probing.reached(flow.uid),
            unanswered=self._probing.unanswered(flow.uid),
            made=frozenset(self._unseen(flow, jobs)),
            kept=self._keeper is not None and not self._keeper.may_leave(flow),
        )

    def _unseen(self, flow: FlowView, jobs: Mapping[str, FlowJob]) -> Iterable[str]:
        """What was made a moment ago; what does not come into sight is looked for again."""
        made, now = self._made.get(flow.uid, {}), self._clock.boot()
        for name, since in list(made.items()):
            if name in jobs or now - since >= UNSEEN:
                del made[name]
            else:
                yield name
        if made:
            self._queue.add_after((flow.namespace, flow.name), UNSEEN)

    def _foreign(self, flow: FlowView) -> Iterable[str]:
        """Names that the flow needs and somebody else has."""
        for instance in expected(flow):
            nested = instance.step.flow is not None
            store: Informer[FlowView] | Informer[J] = self._flows if nested else self._jobs
            taken = store.get(flow.namespace, instance.name)
            if taken is not None and taken.owner_uid != flow.uid:
                yield instance.name
                self._blocked.setdefault((flow.namespace, instance.name), set()).add((flow.namespace, flow.name))

    def _known_templates(self, flow: FlowView) -> Iterable[str]:
        for step in (*flow.steps, *flow.handlers):
            if step.flow is None:
                key = (flow.namespace, step.source)
                if self._templates.get(*key) is not None:
                    yield step.source
                else:
                    self._waiting.setdefault(key, set()).add((flow.namespace, flow.name))

    def _known_flows(self, flow: FlowView) -> Iterable[str]:
        for step in (*flow.steps, *flow.handlers):
            if step.flow is not None and step.flow.name:
                key = (flow.namespace, step.flow.name)
                if self._flows.get(*key) is not None:
                    yield step.flow.name
                else:
                    self._patterns.setdefault(key, set()).add((flow.namespace, flow.name))


def job_key(job: FlowJob) -> Key:
    """Namespace and name."""
    return (job.namespace, job.name)
