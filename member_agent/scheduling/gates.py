"""Pods that wait at the scheduling gate of their queue (reference/volcano.md 4.3): which there are, and whose gate is opened.

A gated pod asks for nothing, and what its group asks for is less by it. A pod whose gate was opened holds its amount in its
queue from then on, with a node or without, until it ends or is deleted: otherwise more pods would be let through than the queue
may hold. Nothing of this is remembered by the scheduler: a pod says by annotation that it asked for the gate, and by its gates
that it has passed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from apis.vectors import ResourceVector, total
from machinery.informer import Key
from member_agent.scheduling.quantities import plain
from member_agent.scheduling.reasons import Reason
from member_agent.views import GroupView, PodView, QueueGate
from member_agent.views.waits import NOT_ENOUGH_OF_TASK, NOT_ENOUGH_TASKS

if TYPE_CHECKING:
    from member_agent.scheduling.session import OpenSession
    from member_agent.scheduling.snapshot import Waiting


COUNTING: Final = frozenset({NOT_ENOUGH_TASKS, NOT_ENOUGH_OF_TASK})
"""Reasons that count the pods of a gang."""


NOBODY: Final[AbstractContextManager[None]] = nullcontext()
"""Nobody stands aside: what most gangs get, and cheap."""


class Gated:
    """Pods with gates by gang, kept by deltas."""

    def __init__(self) -> None:
        self._pods: dict[Key, dict[str, PodView]] = {}

    def put(self, key: Key, pod: PodView) -> None:
        """Keep a pod that has a gate, or had the queue's and waits for its node."""
        waits = not (pod.node or pod.ended or pod.deleting)
        if waits and (pod.gated or pod.gate is QueueGate.OPEN):
            self._pods.setdefault(key, {})[pod.uid] = pod

    def drop(self, key: Key, uid: str) -> None:
        """It is looked at anew, or has gone."""
        pods = self._pods.get(key)
        if pods is not None and pods.pop(uid, None) is not None and not pods:
            del self._pods[key]

    def opened(self, pod: PodView) -> None:
        """Its gate is being opened: it counts as open until its own event says what it is."""
        self.put((pod.namespace, pod.group), replace(pod, gated=False, gate=QueueGate.OPEN))

    def of(self, gate: QueueGate) -> Iterator[tuple[Key, list[PodView]]]:
        """Gangs with pods that stand so to the gate, in order."""
        for key in sorted(self._pods):
            pods = [pod for pod in self._pods[key].values() if pod.gate is gate]
            if pods:
                yield key, sorted(pods, key=lambda pod: (pod.task, len(pod.name), pod.name))

    def explained(self, reasons: Mapping[Key, Reason]) -> Mapping[Key, Reason]:
        """The reasons, with what gates have to do with it: pods that wait at gates are not there for anybody else."""
        found = dict(reasons)
        for key in self._pods:
            gated = sum(pod.gated for pod in self._pods[key].values())
            known = reasons.get(key)
            if gated and (known is None or known.code in COUNTING):
                text = f"{gated} pods of the gang wait for their scheduling gates"
                found[key] = Reason("SchedulingGated", f"{known.sentence}; {text}" if known is not None else text)
        return found

    def asking(self, group: GroupView, *, passed: bool = False) -> GroupView:
        """The group with what it asks for less what its gated pods do; and less what pods do that have `passed` their gate."""
        there = self._pods.get((group.namespace, group.name), {}).values()
        pods = [pod for pod in there if pod.gated or passed]
        if not pods or not group.min_resources:
            return group
        shut = total(pod.shape.requests for pod in pods)
        left = {name: amount - shut.get(name) for name, amount in plain(group.min_resources).items()}
        return replace(group, min_resources=ResourceVector({name: amount for name, amount in left.items() if amount > 0}))


class Gates:
    """The gates of one session."""

    def __init__(self, session: OpenSession, *, shut: Sequence[Waiting], passed: Sequence[Waiting]) -> None:
        self._session = session
        self._shut = shut
        self._passed: dict[str, dict[str, PodView]] = {}
        """By queue, pods that passed and have no node: they are held in the books, and wanted no more."""
        self._gangs = {gang.key: gang.group.queue for gang in passed}
        self.opened: list[PodView] = []
        for gang in passed:
            pods = self._passed.setdefault(gang.group.queue, {})
            for pod in gang.pods:
                pods[pod.uid] = pod
                session.keep(gang.group.queue, pod.shape.requests, times=1)
                session.want(gang.group.queue, pod.shape.requests, times=-1)
        for gang in shut:
            session.want(gang.group.queue, total(pod.shape.requests for pod in gang.pods), times=1)

    @property
    def none(self) -> bool:
        """No pod that passed its gate waits for a node."""
        return not self._gangs

    def aside(self, gang: Key) -> AbstractContextManager[None]:
        """For a gang with pods that passed: without what such pods of its queue hold. It was asked at the gate."""
        return self._aside(gang) if gang in self._gangs else NOBODY

    @contextmanager
    def _aside(self, gang: Key) -> Iterator[None]:
        queue = self._gangs[gang]
        held = [pod.shape.requests for pod in self._passed.get(queue, {}).values()]
        for requests in held:
            self._session.keep(queue, requests, times=-1)
        try:
            yield
        finally:
            for requests in held:
                self._session.keep(queue, requests, times=1)

    def placed(self, pods: Sequence[PodView]) -> None:
        """They got nodes, and hold what they hold by these."""
        for pod in pods if self._gangs else ():
            queue = self._gangs.get((pod.namespace, pod.group), "")
            if self._passed.get(queue, {}).pop(pod.uid, None) is not None:
                self._session.keep(queue, pod.shape.requests, times=-1)

    def open(self) -> None:
        """Open the gates of pods that their queue has room for: of each gang what is missing to its minimum together, then one
        after the other."""
        for gang in sorted(self._shut, key=self._session.tiers.job_order):
            reason = self._barred(gang)
            missing = max(gang.group.min_member - (gang.tally.pods - len(gang.pods)), 0)
            pods = list(gang.pods)
            while pods and reason is None:
                together, pods = pods[: max(missing, 1)], pods[max(missing, 1) :]
                missing = 0
                reason = self._let_through(gang, together)
            if reason is not None:
                self._session.refuse(gang, reason)

    def _barred(self, gang: Waiting) -> Reason | None:
        if not self._session.let_in(gang):
            return Reason("NotInqueue", "the group waits for its queue")
        return self._session.closed(gang) if gang.group.queue not in self._session.queues else None

    def _let_through(self, gang: Waiting, pods: Sequence[PodView]) -> Reason | None:
        """All of them or none."""
        queue = gang.group.queue
        for index, pod in enumerate(pods):
            found = None
            if not gang.group.admitted:
                found = self._session.tiers.allocatable(queue, request=pod.shape.requests, pods=1)
            if found is not None and found.pods < 1:
                for each in pods[:index]:
                    self._session.keep(queue, each.shape.requests, times=-1)
                why = found.reason.sentence if found.reason is not None else f"queue {queue} has no room"
                return Reason(
                    "QueueGate", f"{len(gang.pods) - self._through(gang)} pods wait at the gate of their queue: {why}"
                )
            self._session.keep(queue, pod.shape.requests, times=1)
        self.opened += pods
        return None

    def _through(self, gang: Waiting) -> int:
        return sum((pod.namespace, pod.group) == gang.key for pod in self.opened)


def gangs_with(
    found: Iterator[tuple[Key, list[PodView]]],
    *,
    waiting: Callable[[Key, tuple[PodView, ...]], Waiting | None],
    assumed: Callable[[str], bool],
) -> tuple[Waiting, ...]:
    """Gangs of these pods; without pods whose binding is on its way, which hold what they hold already."""
    made = (waiting(key, tuple(pod for pod in pods if not assumed(pod.uid))) for key, pods in found)
    return tuple(gang for gang in made if gang is not None and gang.pods)
