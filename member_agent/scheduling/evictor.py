"""Carries evictions out and keeps the earmarks that came with them: who leaves, for whom, and until when it is waited for.

An eviction that fails is a fact: nothing is kept on that node any more. A gang that does not start in time gives up; what was
evicted for it in vain is counted. Nominated nodes are written on the pods of beneficiaries: a successor knows what is kept.
"""

from __future__ import annotations

import asyncio
import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

from apis import kinds
from machinery.clock import Clock, stamp
from machinery.events import About, EventRecorder
from machinery.informer import Change, Informer, Key
from machinery.metrics import Metrics
from machinery.runner import run_workers
from machinery.workqueue import WorkQueue
from member_agent.scheduling.applier import Bound, SchedulingApplier
from member_agent.scheduling.decisions import Eviction, Plan
from member_agent.scheduling.earmarks import Earmarks, Ended, remembered
from member_agent.scheduling.meters import Meters
from member_agent.scheduling.reasons import Reason
from member_agent.views import GroupView, PodView

EVENT = "Evict"
"""Of the pod that goes and of its PodGroup (reference/volcano.md 8.9)."""
GAVE_UP = "EvictedInVain"
"""Of the PodGroup for which others were evicted and that did not start."""


class Evictor:
    """Of one scheduler. `pods` of a gang by UID; `wake` asks for a round."""

    def __init__(
        self,
        groups: Informer[GroupView],
        *,
        pods: Callable[[Key], Mapping[str, PodView]],
        applier: SchedulingApplier,
        events: EventRecorder,
        clock: Clock,
        wait: float,
        at_once: int,
        wake: Callable[[], None],
        meters: Meters,
    ) -> None:
        self._groups = groups
        self._pods = pods
        self._applier = applier
        self._events = events
        self._clock = clock
        self._at_once = at_once
        self._wake = wake
        self._meters = meters
        self._earmarks = Earmarks(wait=wait)
        self._evictions: dict[str, Eviction] = {}
        """Decided, and not seen yet."""
        self._stuck: dict[str, PodView] = {}
        """Pods that could not be evicted, as they were then."""
        self._queue: WorkQueue[str] = WorkQueue(clock)
        self._nominations: WorkQueue[str] = WorkQueue(clock)
        self._nodes: dict[str, tuple[PodView, str]] = {}
        self._nominated: dict[str, PodView] | None = {}
        """Pods that say a node before the first round; None afterwards."""

    async def run(self, metrics: Metrics | None = None) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            for name, queue, work in (
                ("eviction", self._queue, self._evict),
                ("nomination", self._nominations, self._nominate),
            ):
                group.create_task(run_workers(queue, work, workers=self._at_once, name=name, metrics=metrics))

    # --- what a round looks at ---------------------------------------------------------------------------------------

    @property
    def earmarks(self) -> Earmarks:
        """What is kept, as of now: those of a scheduler before this one included."""
        if self._nominated is not None:
            pods, self._nominated = self._nominated.values(), None
            queues = {(each.namespace, each.name): each.queue for each in self._groups.values() if not each.deleting}
            for earmark in remembered(pods, queues=queues):
                self._earmarks.keep(earmark, now=self._clock.boot())
        return self._earmarks

    @property
    def going(self) -> Mapping[str, PodView]:
        """By UID, pods whose eviction was decided and is not seen yet."""
        return {uid: each.pod for uid, each in self._evictions.items()}

    @property
    def stuck(self) -> frozenset[str]:
        """UIDs of pods that could not be evicted and have not changed since."""
        return frozenset(self._stuck)

    def spent(self, *, layout: int) -> frozenset[Key]:
        """Gangs that may evict nobody: they did in vain, and nothing changed for them since. `layout` changes with nodes."""
        return self._earmarks.spent({key: self._state(key, layout) for key in self._earmarks.gave_up})

    def overdue(self, *, layout: int) -> None:
        """Let gangs give up that did not start in time; call it before a round."""
        for key in self.earmarks.overdue(now=self._clock.boot()):
            reason = Reason(GAVE_UP, "it did not start in the time that others had to leave")
            self._ended(self._earmarks.drop(key, reason=reason, was=self._state(key, layout)))

    def soonest(self, *, now: float) -> float | None:
        """Seconds until the first gang has to give up; None where none waits."""
        at = self._earmarks.soonest()
        return None if math.isinf(at) else max(at - now, 0.0)

    def _state(self, key: Key, layout: int) -> object:
        """What must change before a gang that gave up may evict others again."""
        group = self._groups.get(*key)
        asks = (group.uid, group.min_member, group.queue, group.priority_class) if group is not None else None
        waiting = tuple(sorted(uid for uid, pod in self._pods(key).items() if not pod.node and not pod.ended))
        return asks, waiting, layout

    # --- what a round decided ----------------------------------------------------------------------------------------

    def begin(self, plan: Plan) -> None:
        """Carry a plan's evictions out and keep what it says."""
        now = self._clock.boot()
        for key, reason in plan.ended.items():
            if reason is None:
                self._earmarks.started(key)
            else:
                self._ended(self._earmarks.drop(key, reason=reason))
        for earmark in plan.earmarks:
            victims = [each.pod for each in plan.evictions if each.beneficiary == earmark.gang]
            self._earmarks.keep(earmark, victims=victims, now=now)
        for eviction in plan.evictions:
            self._evictions[eviction.pod.uid] = eviction
            self._queue.add(eviction.pod.uid)
        self._meters.evicting(plan.evictions)
        self._say([(each.pod, each.node) for each in plan.nominated])

    def pod_changed(self, change: Change[PodView], *, ours: bool) -> None:
        """A pod came, changed or went; `ours`: of this scheduler."""
        pod = change.new
        if pod is None:
            if change.old is not None:
                self._left(change.old.uid)
            return
        if pod.uid in self._stuck and self._stuck[pod.uid] != _settled(pod):
            del self._stuck[pod.uid]
        if pod.deleting or pod.ended:
            self._evictions.pop(pod.uid, None)
        if pod.ended:
            self._left(pod.uid)
        if self._nominated is not None and ours:
            if pod.nominated and not (pod.node or pod.ended or pod.deleting):
                self._nominated[pod.uid] = pod
            else:
                self._nominated.pop(pod.uid, None)

    def group_gone(self, key: Key) -> None:
        """A PodGroup has gone."""
        self._ended(self._earmarks.drop(key, reason=Reason(GAVE_UP, "the gang has gone")))
        self._earmarks.forget(key)

    def _left(self, uid: str) -> None:
        self._evictions.pop(uid, None)
        self._stuck.pop(uid, None)
        self._earmarks.gone(uid)
        if self._nominated is not None:
            self._nominated.pop(uid, None)

    def _ended(self, ended: Ended | None) -> None:
        """Room is kept no more, and the gang did not start."""
        if ended is None:
            return
        self._meters.wasted(ended.evicted)
        self._say([(pod, "") for _, pod in sorted(self._pods(ended.gang).items()) if not pod.node and not pod.ended])
        group = self._groups.get(*ended.gang)
        if group is not None:
            about = About(kinds.POD_GROUP, group.namespace, group.name, group.uid, group.version)
            text = f"{ended.evicted} pods were evicted for it in vain: {ended.reason.sentence}"
            self._events.warn(about, reason=GAVE_UP, message=text)
        self._wake()

    def _say(self, nodes: Sequence[tuple[PodView, str]]) -> None:
        for pod, node in nodes:
            if node or pod.nominated or pod.uid in self._nodes:
                self._nodes[pod.uid] = (pod, node)
                self._nominations.add(pod.uid)

    # --- writing -----------------------------------------------------------------------------------------------------

    async def _evict(self, uid: str) -> float | None:
        eviction = self._evictions.get(uid)
        if eviction is None:
            return None
        outcome, message = await self._applier.evict(eviction, now=stamp(self._clock.now()))
        if outcome is Bound.REFUSED:
            self._evictions.pop(uid, None)
            self._stuck[uid] = _settled(eviction.pod)
            self._ended(self._earmarks.stays(uid, why=f"pod {eviction.pod.name} could not be evicted: {message}"))
            self._wake()
            return None
        self._tell(eviction)
        return None

    def _tell(self, eviction: Eviction) -> None:
        pod = eviction.pod
        about = About(kinds.POD, pod.namespace, pod.name, pod.uid, pod.version)
        self._events.warn(about, reason=EVENT, message=eviction.reason.sentence)
        group = self._groups.get(pod.namespace, pod.group)
        if group is not None:
            about = About(kinds.POD_GROUP, group.namespace, group.name, group.uid, group.version)
            self._events.warn(about, reason=EVENT, message=eviction.reason.sentence)

    async def _nominate(self, uid: str) -> float | None:
        found = self._nodes.get(uid)
        if found is not None:
            await self._applier.nominate(*found)
            if self._nodes.get(uid) == found:
                del self._nodes[uid]
        return None


def _settled(pod: PodView) -> PodView:
    """The pod without what its kubelet says of it from time to time, and without what the try to evict it wrote."""
    return dataclasses.replace(pod, version="", ready=False, evicted=False, restarts=0, trouble=None, ends=())
