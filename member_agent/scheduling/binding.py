"""Carries out what rounds decide about pods: bindings, gates that are opened, nodes that partial gangs give back.

Writes go out in parallel and bounded; what the API server refuses is a fact for the next round, never an error of this one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from machinery.clock import Clock
from machinery.informer import Informer, Key
from machinery.runner import WorkMetrics, run_workers
from machinery.workqueue import WorkQueue
from member_agent.inventory import Inventory
from member_agent.scheduling.applier import Bound, SchedulingApplier
from member_agent.scheduling.decisions import Binding
from member_agent.scheduling.holds import Holds
from member_agent.scheduling.meters import Meters
from member_agent.scheduling.mounting import Mounting, StorageStores
from member_agent.scheduling.patience import Patience
from member_agent.scheduling.snapshot import Gangs, gang_key
from member_agent.scheduling.telling import Teller
from member_agent.settings import SchedulingSettings
from member_agent.views import GroupView, PodView

RELEASED_AT_ONCE: Final = 4
OPENED_AT_ONCE: Final = 8
"""Partial gangs and gates that are written about at once: both are seldom."""


class Binder:
    """The writes about pods of one scheduler. `runs` is false for a pod of a run that is stopped; `wake` has a round made."""

    def __init__(
        self,
        groups: Informer[GroupView],
        *,
        inventory: Inventory,
        gangs: Gangs,
        holds: Holds,
        patience: Patience,
        told: Teller,
        meters: Meters,
        applier: SchedulingApplier,
        clock: Clock,
        settings: SchedulingSettings,
        storage: StorageStores | None,
        runs: Callable[[PodView], bool],
        wake: Callable[[], None],
    ) -> None:
        self._groups = groups
        self._inventory = inventory
        self._gangs = gangs
        self._holds = holds
        self._patience = patience
        self._told = told
        self._meters = meters
        self._applier = applier
        self._clock = clock
        self._settings = settings
        self._runs = runs
        self._wake = wake
        self._binds: WorkQueue[str] = WorkQueue(clock)
        self._releases: WorkQueue[Key] = WorkQueue(clock)
        self._gates: WorkQueue[str] = WorkQueue(clock)
        self._bindings: dict[str, Binding] = {}
        self._opening: dict[str, PodView] = {}
        self._mounting = Mounting(
            gangs.volumes,
            stores=storage,
            node=inventory.nodes.get,
            applier=applier,
            clock=clock,
            patience=settings.volumes_wait,
            wake=wake,
            again=self._binds.add,
        )

    async def run(self, metrics: WorkMetrics | None = None) -> None:
        """Until cancelled."""
        at_once = self._settings.binds_at_once
        async with asyncio.TaskGroup() as group:
            group.create_task(run_workers(self._binds, self._bind, workers=at_once, name="binding", metrics=metrics))
            group.create_task(
                run_workers(self._releases, self._release, workers=RELEASED_AT_ONCE, name="gang-release", metrics=metrics)
            )
            group.create_task(run_workers(self._gates, self._open, workers=OPENED_AT_ONCE, name="queue-gates", metrics=metrics))

    # --- what a round decided ----------------------------------------------------------------------------------------

    def bind(self, bindings: Sequence[Binding]) -> None:
        """Their room is taken from now on; what was held for their gangs shrinks by them."""
        for binding in bindings:
            self._inventory.assume(binding.pod, node=binding.node)
            self._bindings[binding.pod.uid] = binding
            self._binds.add(binding.pod.uid)
        for key in {gang_key(binding.pod) for binding in bindings}:
            self._holds.look(key)

    def open(self, pods: Sequence[PodView]) -> None:
        """The gate before their queue is taken away; it counts as open from now on."""
        for pod in pods:
            self._gangs.gated.opened(pod)
            self._opening[pod.uid] = pod
            self._gates.add(pod.uid)

    def release(self, gangs: Sequence[Key]) -> None:
        """These stayed partial for too long."""
        for key in gangs:
            self._releases.add(key)

    # --- carrying it out ---------------------------------------------------------------------------------------------

    async def _bind(self, uid: str) -> float | None:
        binding = self._bindings.get(uid)
        if binding is None:
            return None
        if not self._runs(binding.pod):
            outcome, message = Bound.REFUSED, "its Job is being deleted"
        else:
            waits = await self._mounting.prepare(binding)
            if isinstance(waits, float):
                return waits
            outcome, message = (Bound.REFUSED, waits) if waits is not None else await self._applier.bind(binding)
        del self._bindings[uid]
        self._mounting.forget(uid)
        if outcome is Bound.REFUSED:
            self._refused(binding, message)
        else:
            self._patience.forget_pod(uid)
            self._meters.bound(binding.pod, now=self._clock.now())
            self._told.look(gang_key(binding.pod))
        return None

    def _refused(self, binding: Binding, message: str) -> None:
        """A fact for the next round: the room is free again, and the pod waits a little longer each time."""
        self._inventory.forget(binding.pod.uid)
        self._meters.refused()
        key = gang_key(binding.pod)
        self._holds.look(key)
        group = self._groups.get(*key)
        if binding.pod.uid in self._gangs.waiting(key):  # else it has gone, or a node, and nobody would forget it again
            self._patience.refused(
                binding,
                message,
                tally=self._gangs.tally(key),
                minimum=group.min_member if group is not None else 1,
                now=self._clock.boot(),
            )
        self._told.look(key)
        self._wake()  # the round says what is left of the pause: a timer of our own would be lost beside an earlier one

    async def _release(self, key: Key) -> float | None:
        """Take the nodes of a gang that stayed partial back. Pods that nobody would make again keep theirs."""
        group, tally = self._groups.get(*key), self._gangs.tally(key)
        if group is None or group.deleting or key not in self._patience.overdue(now=self._clock.boot()):
            return None
        pods = [pod for _, pod in sorted(self._gangs.pods(key).items()) if pod.node and not pod.ended and not pod.deleting]
        if pods and all(pod.owner for pod in pods):
            for pod in pods:
                await self._applier.release(pod)
            self._patience.released(key, tally=tally, minimum=group.min_member, now=self._clock.boot())
        else:
            self._patience.postpone(key, now=self._clock.boot())
        self._wake()
        return None

    async def _open(self, uid: str) -> float | None:
        """Take the gate before the queue away. A pod that has changed meanwhile is looked at anew when its event comes."""
        pod = self._opening.get(uid)
        if pod is not None:
            await self._applier.open_gate(pod)
            del self._opening[uid]
        return None
