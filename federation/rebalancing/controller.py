"""Tells bindings that their Jobs are to be placed anew, says on the rebalancer what became of that, and deletes it in time."""

from __future__ import annotations

import logging
from typing import Final

from apis import keys, kinds
from machinery.clock import Clock, stamp
from machinery.errors import Conflict, NotFound
from machinery.informer import Change, Informer, Informers
from machinery.port import PatchType, Port, Preconditions
from machinery.runner import WorkMetrics, run_workers
from machinery.workqueue import WorkQueue
from policies import rebalancing
from policies.rebalancing import FAILED, NO_BINDING, SUCCESSFUL, Observed, RebalancerView, project_rebalancer
from policies.views import BindingView, Projections

log = logging.getLogger(__name__)

AGAIN: Final = 1.0
"""Seconds after which a binding that somebody else wrote meanwhile is told again."""


class RebalancingController:
    """The role. Keys are names of rebalancers."""

    def __init__(self, *, port: Port, informers: Informers, projections: Projections, clock: Clock) -> None:
        self._port = port
        self._clock = clock
        self._rebalancers: Informer[RebalancerView] = informers.add(kinds.WORKLOAD_REBALANCER, project_rebalancer)
        self._bindings: Informer[BindingView] = informers.add(
            kinds.RESOURCE_BINDING, projections.binding, labels=keys.NO_OBJECT
        )
        self._queue: WorkQueue[str] = WorkQueue(clock)

    async def run(self, metrics: WorkMetrics | None = None) -> None:
        """Until cancelled."""
        for informer in (self._rebalancers, self._bindings):
            await informer.wait_synced()
        self._rebalancers.subscribe(self._changed)
        await run_workers(self._queue, self._reconcile, workers=2, name="rebalancing", metrics=metrics)

    def _changed(self, change: Change[RebalancerView]) -> None:
        if change.new is not None:
            self._queue.add(change.key[1])

    async def _reconcile(self, name: str) -> float | None:
        view = self._rebalancers.get(None, name)
        if view is None or view.deleting:
            return None
        left = rebalancing.expires_in(view, now=self._clock.now())
        if left is not None and left <= 0:
            await self._delete(view)
            return None
        plan = rebalancing.plan(view, told=self._told)
        observed, again = list(plan.known), False
        for binding, workload in plan.tell:
            try:
                observed.append(Observed(workload, *(await self._tell(binding, view.created))))
            except Conflict:
                again = True
        if again:
            return AGAIN
        status = rebalancing.status(view, observed, now=stamp(self._clock.now()))
        if status is not None:
            body = {"metadata": {"resourceVersion": view.version}, "status": status}
            await self._port.patch(kinds.WORKLOAD_REBALANCER, name, body, type=PatchType.MERGE, subresource="status")
            return None  # its own event comes back, and with it the time to live
        return left

    def _told(self, namespace: str, name: str) -> str | None:
        binding = self._bindings.get(namespace, name)
        return binding.reschedule if binding is not None else None

    async def _tell(self, binding: tuple[str, str], when: str) -> tuple[str, str]:
        """Write the wish on the binding; the result and the reason of a failure."""
        namespace, name = binding
        view = self._bindings.get(namespace, name)
        body = {
            "metadata": {"resourceVersion": view.version if view is not None else ""},
            "spec": {"rescheduleTriggeredAt": when},
        }
        try:
            await self._port.patch(kinds.RESOURCE_BINDING, name, body, type=PatchType.MERGE, namespace=namespace)
        except NotFound:
            return FAILED, NO_BINDING
        return SUCCESSFUL, ""

    async def _delete(self, view: RebalancerView) -> None:
        try:
            await self._port.delete(kinds.WORKLOAD_REBALANCER, view.name, preconditions=Preconditions(uid=view.uid))
        except NotFound:
            log.debug("rebalancer %s is gone", view.name)
