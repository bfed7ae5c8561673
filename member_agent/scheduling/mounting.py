"""Volumes of a pod before its binding: they are promised, the promise is written, and the pod is bound when all are there.

Nothing polls: claims that change wake the bindings that wait for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from machinery.clock import Clock
from machinery.informer import Change, Informer
from member_agent.layout import HOSTNAME
from member_agent.scheduling.applier import Bound, SchedulingApplier
from member_agent.scheduling.decisions import Binding
from member_agent.views import NodeView, PodView
from member_agent.views.meta import Named
from member_agent.views.volumes import AttachLimits, ClaimView, StorageClassView, VolumeView
from member_agent.volumes import Assignment, Volumes
from policies.selectors import NODE_NAME

V = TypeVar("V", bound=Named)


@dataclass(frozen=True, slots=True)
class StorageStores:
    """The informers that tell of volumes."""

    claims: Informer[ClaimView]
    volumes: Informer[VolumeView]
    classes: Informer[StorageClassView]
    limits: Informer[AttachLimits]

    async def wait_synced(self) -> None:
        """Until all were read once."""
        for informer in (self.claims, self.volumes, self.classes, self.limits):
            await informer.wait_synced()


@dataclass(slots=True)
class _Pending:
    pod: PodView
    assignments: tuple[Assignment, ...]
    deadline: float
    written: bool = False


class Mounting:
    """Keeps what bindings wait for. `patience`: seconds until claims that are not bound make a binding fail."""

    def __init__(
        self,
        volumes: Volumes,
        *,
        stores: StorageStores | None,
        node: Callable[[str], NodeView | None],
        applier: SchedulingApplier,
        clock: Clock,
        patience: float,
        wake: Callable[[], None],
        again: Callable[[str], None],
    ) -> None:
        """`wake` a round; look at the binding of a pod (by UID) `again`."""
        self._volumes = volumes
        self._node = node
        self._applier = applier
        self._clock = clock
        self._patience = patience
        self._wake = wake
        self._again = again
        self._pending: dict[str, _Pending] = {}
        if stores is not None:
            volumes.watched = True
            stores.claims.subscribe(self._claim_changed)
            stores.volumes.subscribe(lambda change: self._then_wake(volumes.volume_changed, change))
            stores.classes.subscribe(lambda change: self._then_wake(volumes.class_changed, change))
            stores.limits.subscribe(lambda change: self._then_wake(volumes.limits_changed, change))

    def _then_wake(self, fold: Callable[[Change[V]], None], change: Change[V]) -> None:
        fold(change)
        self._wake()

    def _claim_changed(self, change: Change[ClaimView]) -> None:
        self._then_wake(self._volumes.claim_changed, change)
        for uid, pending in self._pending.items():
            if change.key[0] == pending.pod.namespace and change.key[1] in pending.pod.claims:
                self._again(uid)

    async def prepare(self, binding: Binding) -> float | str | None:
        """None when the pod may be bound; seconds after which to look again, or why it may not be bound at all. Raises when
        nobody knows whether a promise was written; the same binding is then prepared again."""
        pod = binding.pod
        if not pod.claims or not self._volumes.watched:
            return None
        pending = self._pending.get(pod.uid)
        if pending is None:
            found = self._volumes.assign(pod, labels=self._labels(binding.node))
            if isinstance(found, str):
                return found
            pending = self._pending[pod.uid] = _Pending(pod, found, self._clock.boot() + self._patience)
        if not pending.written:
            refused = await self._write(pending, node=binding.node)
            if refused:
                return refused
        return self._look(pending, node=binding.node)

    async def _write(self, pending: _Pending, *, node: str) -> str:
        for each in pending.assignments:
            if not (each.volume or each.first):
                continue
            outcome, message = await self._applier.promise(each, node=node)
            if outcome is Bound.REFUSED:
                self.forget(pending.pod.uid)
                return message
        pending.written = True
        return ""

    def _look(self, pending: _Pending, *, node: str) -> float | str | None:
        if self._volumes.settled(pending.pod):
            self.forget(pending.pod.uid)
            astray = self._volumes.astray(pending.pod, labels=self._labels(node))
            return f"the volume of claim {astray} is out of reach of {node}" if astray else None
        left = pending.deadline - self._clock.boot()
        if left > 0:
            return left
        self.forget(pending.pod.uid)
        return f"its volumes were not bound within {self._patience:g} s"

    def forget(self, uid: str) -> None:
        """The binding came to an end: what it was promised and did not get is for others."""
        pending = self._pending.pop(uid, None)
        if pending is not None:
            self._volumes.withdraw(pending.assignments)

    def _labels(self, node: str) -> Mapping[str, str]:
        found = self._node(node)
        return {HOSTNAME: node, **(found.labels if found is not None else {}), NODE_NAME: node}
