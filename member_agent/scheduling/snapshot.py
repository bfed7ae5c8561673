"""What one round of scheduling looks at: gangs that wait, what of them has nodes already, queues, and the room.

`Gangs` keeps pods by group from the deltas of informers, so that a round costs what waits and not what exists.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from machinery.informer import Change, Key
from member_agent.inventory import Held, Inventory
from member_agent.neighbours import NOBODY as NOBODY_AROUND
from member_agent.neighbours import Around, Neighbourhood
from member_agent.room import Room
from member_agent.scheduling.earmarks import Earmark
from member_agent.scheduling.gates import Gated, gangs_with
from member_agent.scheduling.holds import HoldPhase, Preparing, phase_of
from member_agent.scheduling.reservations import Reservation
from member_agent.scheduling.standing import NOBODY, Holders, Stands
from member_agent.scheduling.tenants import Limits, Tenant, There, nobody
from member_agent.scheduling.usage import NOTHING, Usage
from member_agent.views import GroupView, PodView, QueueGate, QueueView
from member_agent.views.budgets import BudgetView
from member_agent.views.quotas import QuotaView
from member_agent.volumes import NONE, Storage, Volumes
from policies.shapes import PodShape

NOTHING_GOES: Final[Mapping[str, PodView]] = MappingProxyType({})
NO_BUDGETS: Final[Mapping[str, Sequence[BudgetView]]] = MappingProxyType({})
NO_QUOTAS: Final[Mapping[str, Sequence[QuotaView]]] = MappingProxyType({})


NO_BERTHS: Final[Mapping[Key, Sequence[Held]]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Tally:
    """Pods of a group by what became of them; `placed` counts nodes given, ended pods included, by task."""

    pods: int = 0
    bound: int = 0
    """Of the placed ones those whose binding stands; the others are on their way and may be refused."""
    placed: Mapping[str, int] = field(default_factory=dict)
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    priority: int = 0
    """Of its most important pod (`standing.rank_of`)."""

    @property
    def total_placed(self) -> int:
        """Pods with a node, or ended."""
        return sum(self.placed.values())


@dataclass(frozen=True, slots=True)
class Waiting:
    """A gang with pods that have no node: its group, its pods by name, its order."""

    key: Key
    group: GroupView
    pods: tuple[PodView, ...]
    tally: Tally
    priority: int

    @property
    def created(self) -> str:
        """When the gang came."""
        return self.group.created


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The frozen view of one round. `room` is a copy that the planner may take from; `candidates` are Pending groups."""

    room: Room
    waiting: tuple[Waiting, ...]
    candidates: tuple[tuple[GroupView, int], ...]
    """Groups to let in, with their priority."""
    expected: tuple[GroupView, ...]
    """Groups let in whose pods have no nodes yet: their minimum resources are spoken for."""
    queues: Mapping[str, QueueView]
    held: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """What pods hold by queue, without queues under it."""
    holds: Callable[[Key], Mapping[str, int]] = lambda _: NOTHING
    """What the pods of one gang hold."""
    held_by: Callable[[str, str], Mapping[str, int]] = lambda queue, namespace: NOTHING
    """What pods of a namespace hold of a queue, without queues under it."""
    sites: Callable[[Key], Sequence[tuple[str, str]]] = lambda _: ()
    """Task and node of every pod of one gang that holds room."""
    made: Callable[[Key], int] = lambda _: 0
    """How many pods of one gang exist."""
    quotas: Mapping[str, Sequence[QuotaView]] = field(default_factory=dict)
    """ResourceQuotas by namespace."""
    budgets: Mapping[str, Sequence[BudgetView]] = field(default_factory=dict)
    """PodDisruptionBudgets by namespace."""
    now: float = 0.0
    """Wall clock, seconds since the epoch."""
    shut: tuple[Waiting, ...] = ()
    """Gangs with pods for which only the gate before their queue is left: these pods."""
    passed: tuple[Waiting, ...] = ()
    """Gangs with pods that passed that gate and have no node: these pods."""
    preparing: tuple[Preparing, ...] = ()
    """Gangs over clusters that want room held."""
    berths: Mapping[Key, Sequence[Held]] = field(default_factory=dict)
    """What is held for such gangs; it is taken off the room."""
    nominated: tuple[PodView, ...] = ()
    """Pods of other schedulers with a node that is being cleared for them."""
    around: Around = NOBODY_AROUND
    """Pods around, and what they ask of others."""
    storage: Storage = NONE
    """Volumes to have, and what limits how many a node takes."""
    counted_as: Callable[[PodView], PodShape] = lambda pod: pod.shape
    """The shape of any pod with the crowds in which it counts."""
    holders: Holders = NOBODY
    """Who has nodes and may have to make room, and for whom room is kept."""
    reservation: Reservation | None = None
    """What the round before kept for a gang."""
    there: There = nobody
    """Pods of gangs on a node, with their ends as far as somebody enforces them."""
    limits: Limits = field(default_factory=Limits)
    """Of runs."""


class Gangs:
    """Pods of this scheduler by group: keys are (namespace, group name). A pod without a group waits until it has one."""

    def __init__(self, inventory: Inventory, *, scheduler: str | Collection[str]) -> None:
        self._inventory = inventory
        self._names = frozenset((scheduler,) if isinstance(scheduler, str) else scheduler)
        self._usage = Usage()
        inventory.listen(self._usage)
        self._pods: dict[Key, dict[str, PodView]] = {}
        self._waiting: dict[Key, dict[str, PodView]] = {}
        self.gated = Gated()
        self.neighbourhood = Neighbourhood(lambda: inventory.held().values())
        inventory.listen(self.neighbourhood)
        self.volumes = Volumes()
        inventory.listen(self.volumes)
        self._tallies: dict[Key, Tally] = {}
        self._unbound: dict[Key, tuple[PodView, ...]] = {}
        """What was worked out of gangs of which no pod has changed since."""
        inventory.listen(self)
        self._nominated: dict[str, PodView] = {}
        self.unclaimed = 0
        """How many nodes that were nominated for foreign pods are not any more."""
        self._stands = Stands(self.pods, marked=self.neighbourhood.marked)
        self.limits = Limits()
        self._drafts: dict[str, PodView] = {}
        """By UID, pods to come of gangs over clusters that want room held."""

    def pod_changed(self, change: Change[PodView]) -> Key | None:
        """Fold one change in; the key of the gang concerned, None for pods of other schedulers and pods without a group."""
        self._stands.pod_changed(change)
        pod = change.new or change.old
        if pod is None or pod.scheduler not in self._names:
            self._foreign_changed(change)
            return None
        if change.old is not None:
            self._drop(change.old)
        if not pod.group:
            return None
        key = gang_key(pod)
        self._changed(key)
        if change.new is not None:
            self._pods.setdefault(key, {})[pod.uid] = pod
            self.gated.put(key, pod)
            if not (pod.node or pod.ended or pod.deleting or pod.gated):
                self._waiting.setdefault(key, {})[pod.uid] = pod
                self.neighbourhood.waits(pod)
                self.volumes.waits(pod)
        return key

    def took(self, uid: str, held: Held) -> None:
        """A pod took its room: its own event, or a binding on its way."""
        self._changed(held.gang)

    def gave_back(self, uid: str, held: Held) -> None:
        """A pod gave its room back."""
        self._changed(held.gang)

    def _changed(self, key: Key) -> None:
        self._tallies.pop(key, None)
        self._unbound.pop(key, None)

    def _foreign_changed(self, change: Change[PodView]) -> None:
        """Pods of other schedulers count where they are; of those that wait only a nominated node matters."""
        pod = change.new
        if pod is not None and pod.nominated and not (pod.node or pod.ended or pod.deleting):
            before = self._nominated.get(pod.uid)
            self.unclaimed += before is not None and before.nominated != pod.nominated
            self._nominated[pod.uid] = pod
        elif self._nominated and (last := pod or change.old) is not None:
            self.unclaimed += self._nominated.pop(last.uid, None) is not None

    def group_changed(self, change: Change[GroupView]) -> None:
        """Fold one change in: its pods count for the queue it names."""
        self._usage.group_changed(change)
        self._stands.group_changed(change)

    def held_by_queue(self) -> Mapping[str, Mapping[str, int]]:
        """What pods of each queue hold, without queues under it."""
        return self._usage.of_queues()

    def _drop(self, pod: PodView) -> None:
        key = gang_key(pod)
        self._changed(key)
        self.gated.drop(key, pod.uid)
        for store in (self._pods, self._waiting):
            pods = store.get(key)
            known = pods.pop(pod.uid, None) if pods is not None else None
            if known is not None and store is self._waiting:
                self.neighbourhood.waits_no_more(known)
                self.volumes.waits(known, times=-1)
            if known is not None and not pods:
                del store[key]

    def pods(self, key: Key) -> Mapping[str, PodView]:
        """Pods of a gang by UID."""
        return self._pods.get(key, {})

    def waiting(self, key: Key) -> Mapping[str, PodView]:
        """Pods of a gang that want a node, by UID; bindings on their way included."""
        return self._waiting.get(key, {})

    def sites(self, key: Key) -> list[tuple[str, str]]:
        """Task and node of every pod of a gang that holds room; a binding on its way counts."""
        held = self._inventory.held()
        return [(pod.task, held[pod.uid].node) for pod in self._pods.get(key, {}).values() if pod.uid in held]

    def tally(self, key: Key) -> Tally:
        """Count a gang; a binding on its way counts as placed."""
        known = self._tallies.get(key)
        if known is None:
            known = self._count(key)
            if known.pods:
                self._tallies[key] = known
        return known

    def _count(self, key: Key) -> Tally:
        placed: Counter[str] = Counter()
        bound = 0
        phases: Counter[str] = Counter()
        pods = self._pods.get(key, {})
        for pod in pods.values():
            phases[pod.phase] += 1
            if pod.node or pod.ended or self._inventory.assumed(pod.uid):
                placed[pod.task] += 1
                bound += bool(pod.node or pod.ended)
        return Tally(
            pods=len(pods),
            bound=bound,
            placed=placed,
            running=phases["Running"],
            succeeded=phases["Succeeded"],
            failed=phases["Failed"],
            priority=max((pod.priority for pod in pods.values()), default=0),
        )

    def _wanting(self, key: Key) -> tuple[PodView, ...]:
        """Pods of a gang that want a node and have no binding on its way, in order."""
        known = self._unbound.get(key)
        if known is None:
            pods = sorted(self._waiting[key].values(), key=lambda pod: (pod.task, len(pod.name), pod.name))
            known = self._unbound[key] = tuple(pod for pod in pods if not self._inventory.assumed(pod.uid))
        return known

    def freeze(
        self,
        *,
        groups: Callable[[Key], GroupView | None],
        pending: Mapping[Key, GroupView],
        priority: Callable[[str], int],
        queues: Mapping[str, QueueView],
        held_back: Callable[[PodView], bool],
        resting: Callable[[Key], bool] = lambda _: False,
        preparing: tuple[Preparing, ...] = (),
        berths: Mapping[Key, Sequence[Held]] = NO_BERTHS,
        now: float = 0.0,
        quotas: Mapping[str, Sequence[QuotaView]] = NO_QUOTAS,
        budgets: Mapping[str, Sequence[BudgetView]] = NO_BUDGETS,
        earmarks: Sequence[Earmark] = (),
        going: Mapping[str, PodView] = NOTHING_GOES,
        spent: frozenset[Key] = frozenset(),
        stuck: frozenset[str] = frozenset(),
        reservation: Reservation | None = None,
    ) -> Snapshot:
        """A snapshot of now. `held_back` leaves pods out whose last binding failed a moment ago; nothing is kept for gangs
        that are `resting`. For `earmarks`, `going`, `spent` and `stuck` see `Holders`."""

        def gang_of(key: Key, pods: tuple[PodView, ...]) -> Waiting | None:
            group = groups(key)
            if not pods or group is None or group.deleting:
                return None
            tally = self.tally(key)
            rank = priority(group.priority_class) if group.priority_class else tally.priority
            pods = self.volumes.marked(self.neighbourhood.marked(pods))
            return Waiting(key=key, group=group, pods=pods, tally=tally, priority=rank)

        self._speak(preparing)
        waiting = []
        for key in sorted(key for key in self._waiting if self._wanting(key)):
            gang = gang_of(key, tuple(pod for pod in self._wanting(key) if not held_back(pod)))
            if gang is not None:
                waiting.append(gang)
        candidates = [
            self.gated.asking(group)
            for group in pending.values()
            if group.phase == "Pending" and not group.admitted and not group.deleting
        ]
        expected = [
            self.gated.asking(group, passed=True)
            for key, group in pending.items()
            if (group.phase != "Pending" or group.admitted)
            and not group.deleting
            and not self.tally(key).total_placed
            and not resting(key)
            and key not in berths
            and phase_of(group) is not HoldPhase.DROPPED
        ]
        return Snapshot(
            room=self._inventory.room.copy(),
            waiting=tuple(waiting),
            candidates=tuple((group, priority(group.priority_class)) for group in candidates),
            expected=tuple(expected),
            queues=queues,
            held=self._usage.of_queues(),
            holds=self._usage.of_gang,
            held_by=self._usage.of_namespace,
            sites=self.sites,
            made=lambda key: len(self._pods.get(key, ())),
            quotas=quotas,
            budgets=budgets,
            now=now,
            preparing=tuple(replace(each, drafts=self.neighbourhood.marked(each.drafts)) for each in preparing),
            berths={key: [replace(held, shape=self._seen(held)) for held in listed] for key, listed in berths.items()},
            nominated=tuple(pod for _, pod in sorted(self._nominated.items())),
            around=self.neighbourhood.freeze(),
            storage=self.volumes.freeze(),
            counted_as=self.neighbourhood.counted_as,
            reservation=reservation,
            there=self._there,
            limits=self.limits,
            shut=gangs_with(self.gated.of(QueueGate.SHUT), waiting=gang_of, assumed=self._inventory.assumed),
            passed=gangs_with(self.gated.of(QueueGate.OPEN), waiting=gang_of, assumed=self._inventory.assumed),
            holders=Holders(
                queues=self._stands.queues,
                groups=self._stands.groups,
                of=lambda queue, below: self._stands.of(queue, priority=priority, below=below),
                one=lambda key: self._stands.by_key(key, priority=priority),
                leaving=self._leaving(going),
                going=dict(going),
                earmarks=tuple(earmarks),
                wait=lambda key: len(self._waiting.get(key, ())),
                spent=spent,
                stuck=stuck,
            ),
        )

    def _there(self, node: str) -> list[Tenant]:
        found = []
        for uid, held in self._inventory.on(node):
            if held.gang[1]:
                pod = self._pods.get(held.gang, {}).get(uid)
                found.append(Tenant(held.shape.requests, self.limits.ends(pod) if pod is not None else math.inf))
        return found

    def _speak(self, preparing: tuple[Preparing, ...]) -> None:
        """Have everybody counted of whom the pods to come of these gangs speak, and nobody else on their account."""
        wanted = {pod.uid: pod for each in preparing for pod in each.drafts}
        for uid in [uid for uid, pod in self._drafts.items() if wanted.get(uid) != pod]:
            self.neighbourhood.waits_no_more(self._drafts.pop(uid))
        for uid, pod in wanted.items():
            if uid not in self._drafts:
                self._drafts[uid] = pod
                self.neighbourhood.waits(pod)

    def _seen(self, held: Held) -> PodShape:
        """The shape of what is held with the crowds in which it counts."""
        seen = self.neighbourhood.seen(held.gang[0], held.labels, held.own_labels)
        return held.shape if seen == held.shape.seen else replace(held.shape, seen=seen)

    def _leaving(self, going: Mapping[str, PodView]) -> tuple[tuple[str, PodShape], ...]:
        """Room of pods that are being deleted, or are about to be."""
        pods = {pod.uid: pod for pod in (*self.neighbourhood.marked(tuple(going.values())), *self._stands.leaving())}
        return tuple((pod.node, pod.shape) for uid, pod in sorted(pods.items()) if self._inventory.holds(uid))


def gang_key(pod: PodView) -> Key:
    """The gang a pod with a group belongs to."""
    return (pod.namespace, pod.group)
