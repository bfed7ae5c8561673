"""Watches flows, their Jobs and templates; wakes the planner for the flow that an event concerns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from apis import kinds, naming
from controllers.flows.applier import FlowApplier
from controllers.flows.planner import ENDS, plan
from controllers.flows.snapshot import FlowJob, FlowSnapshot, FlowView, TemplateView, project_flow, project_template
from machinery.clock import Clock, stamp
from machinery.informer import Change, Informer, Informers, Key
from machinery.port import Port
from machinery.runner import WorkMetrics, run_workers
from machinery.workqueue import WorkQueue

J = TypeVar("J", bound=FlowJob)

WORKERS = 8
COALESCE = 0.05
"""Seconds an event waits for company, so that a layer of steps ending together costs one status write."""


class FlowController(Generic[J]):
    """Runs JobFlows on any API server; `jobs` is the program's own informer of Jobs."""

    def __init__(self, *, port: Port, informers: Informers, jobs: Informer[J], clock: Clock) -> None:
        self._jobs = jobs
        self._flows: Informer[FlowView] = informers.add(kinds.JOB_FLOW, project_flow)
        self._templates: Informer[TemplateView] = informers.add(kinds.JOB_TEMPLATE, project_template)
        self._applier = FlowApplier(port)
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._clock = clock
        self._ended: dict[str, dict[str, J]] = {}
        self._refused: dict[str, dict[str, str]] = {}
        self._waiting: dict[Key, set[Key]] = {}
        """Flows that wait for a template, by the template's key."""
        self._blocked: dict[Key, set[Key]] = {}
        """Flows that wait for a stranger's Job to free its name, by the Job's key."""
        self._leaving: dict[Key, set[Key]] = {}
        """Jobs under deletion, by the flow that made them: of a flow that is gone, nobody waits for their end."""
        self._flows.subscribe(self._flow_changed)
        self._templates.subscribe(self._template_changed)
        self._jobs.subscribe(self._job_changed)

    async def run(self, metrics: WorkMetrics | None = None) -> None:
        """Until cancelled."""
        await self._flows.wait_synced()
        await self._templates.wait_synced()
        await self._jobs.wait_synced()
        await run_workers(self._queue, self._reconcile, workers=WORKERS, name="flows", metrics=metrics)

    def _flow_changed(self, change: Change[FlowView]) -> None:
        if change.new is None and change.old is not None:
            self._ended.pop(change.old.uid, None)
            self._refused.pop(change.old.uid, None)
        self._queue.add_after(change.key, COALESCE)

    def _template_changed(self, change: Change[TemplateView]) -> None:
        self._wake(self._waiting.pop(change.key, set()))

    def _wake(self, flows: set[Key]) -> None:
        for key in sorted(flows):
            self._queue.add_after(key, COALESCE)

    def _job_changed(self, change: Change[J]) -> None:
        job = change.new or change.old
        if change.new is None:
            self._wake(self._blocked.pop(change.key, set()))
        if job is None or not job.created_by_flow:
            return
        if change.new is None and job.phase in ENDS:
            self._ended.setdefault(job.owner_uid, {})[job.name] = job
        flow = (job.namespace, job.created_by_flow.removeprefix(f"{job.namespace}."))
        leaving = self._leaving.setdefault(flow, set())
        if change.new is not None and change.new.deleting:
            leaving.add(change.key)
        else:
            leaving.discard(change.key)
        if not leaving:
            del self._leaving[flow]
        self._queue.add_after(flow, COALESCE)

    async def _reconcile(self, key: Key) -> float | None:
        flow = self._flows.get(*key)
        await self._let_go(key, flow)
        if flow is None:
            return None
        snapshot = self._snapshot(flow)
        outcome = await self._applier.commit(flow, plan(snapshot, now=stamp(self._clock.now())))
        if outcome.refused:
            self._refused.setdefault(flow.uid, {}).update(outcome.refused)
            self._queue.add(key)
        return None

    async def _let_go(self, key: Key, flow: FlowView | None) -> None:
        """Release Jobs under deletion whose own flow is gone, also where another flow has its name now."""
        for namespace, name in sorted(self._leaving.get(key, ())):
            job = self._jobs.get(namespace, name)
            if job is not None and job.deleting and (flow is None or job.owner_uid != flow.uid):
                await self._applier.release(name, namespace=namespace)

    def _snapshot(self, flow: FlowView) -> FlowSnapshot:
        jobs: dict[str, J] = {}
        foreign: set[str] = set()
        for name in (naming.flow_job_name(flow.name, step=step.name) for step in flow.steps):
            job = self._jobs.get(flow.namespace, name)
            if job is None:
                continue
            if job.owner_uid == flow.uid:
                jobs[name] = job
            else:
                foreign.add(name)
                self._blocked.setdefault(job_key(job), set()).add((flow.namespace, flow.name))
        return FlowSnapshot(
            flow=flow,
            jobs=jobs,
            foreign=frozenset(foreign),
            templates=frozenset(self._known_templates(flow)),
            ended=dict(self._ended.get(flow.uid, {})),
            refused=dict(self._refused.get(flow.uid, {})),
        )

    def _known_templates(self, flow: FlowView) -> Iterable[str]:
        for step in flow.steps:
            key = (flow.namespace, step.name)
            if self._templates.get(*key) is not None:
                yield step.name
            else:
                self._waiting.setdefault(key, set()).add((flow.namespace, flow.name))


def job_key(job: FlowJob) -> Key:
    """Namespace and name."""
    return (job.namespace, job.name)
