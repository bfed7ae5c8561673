"""What this member has accepted and not bound yet, and up to which Work its word counts (protocol.md 3).

A promise is the part of an accepted gang that no pod holds yet; its room is taken from a shadow of the inventory, so that a
second run is not accepted into the same room and the hub is told the truth. So is the room of a local gang that was let in
(Inqueue) and has no pod on a node yet: it is about to be bound. The shadow is kept by deltas and built anew only
when nodes change, or when a pod was bound elsewhere than its promise stood and left a node overdrawn.
Invariant: `through` never passes a Work that is neither accepted nor refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from apis.vectors import ResourceVector, total
from machinery.informer import Change
from member_agent.inventory import Held, Inventory
from member_agent.room import Room, Shortage, Spot
from member_agent.views import GroupView, JobView, PodView, WorkView
from policies.shapes import Gang, PodShape

ENDS = frozenset({"Completed", "Failed", "Terminated", "Aborted"})
"""Phases of a Job that needs no more room."""

INQUEUE = "Inqueue"
"""Phase of a PodGroup that is let in."""


@dataclass(slots=True)
class Promise:
    """An accepted gang: `spots` stand for the pods that hold nothing yet."""

    gang: Gang
    job: str = ""
    spots: list[Spot] = field(default_factory=list)


class Ledger:
    """Promises by the UID of their Work, on a shadow of the inventory."""

    def __init__(self, inventory: Inventory) -> None:
        self.version = 0
        """Grows with every acceptance, refusal, binding or end: what is published should be looked at again."""
        self.answers = 0
        """Works accepted or refused so far: each frees something that the hub assumes."""
        self._inventory = inventory
        self._promises: dict[str, Promise] = {}
        self._work_of: dict[str, str] = {}
        self._settled: dict[str, dict[str, str]] = {}
        """Pods of Jobs that hold a node or have ended: Job UID, pod UID, task. By task and not by shape: the API server adds
        tolerations to pods, so that a pod never has quite the shape of its template. Pods may be seen before their Job."""
        self._local: dict[str, Gang] = {}
        """Gangs of local Jobs that have not ended, by UID of the Job."""
        self._inqueue: set[str] = set()
        """UIDs of Jobs whose local PodGroup is let in."""
        self._claims: dict[str, list[Spot]] = {}
        """Local gangs that are let in and hold nothing yet; without spots while their minimum fits nowhere."""
        self._shadow: Room | None = None
        self._built_on: Room | None = None
        self._undecided: dict[str, str] = {}
        """UID of each Work without an answer, and the version it was first seen at: where its `worksThrough` ends."""
        inventory.listen(self)

    # --- Works: what is decided --------------------------------------------------------------------------------------

    def work_seen(self, work: WorkView) -> None:
        """A Work waits for our answer: a new one, or one that is to be looked at again."""
        self._undecided.setdefault(work.uid, work.version)

    def decided(self, work_uid: str) -> None:
        """The Work is accepted, refused or gone."""
        if self._undecided.pop(work_uid, None) is not None:
            self.version += 1
            self.answers += 1

    def through(self, reached: str) -> str:
        """The resourceVersion up to which every Work is accounted for; `reached` is where the watch of Works stands. A list
        brings Works in order of name, so that the one that came first need not be the oldest."""
        if not self._undecided:
            return reached
        versions = self._undecided.values()
        return str(min(map(int, versions)) - 1) if all(each.isdigit() for each in versions) else ""

    # --- promises ----------------------------------------------------------------------------------------------------

    def accept(self, work_uid: str, gang: Gang) -> Shortage | None:
        """Promise room to a gang, or say why its minimum cannot start now. Accepting twice changes nothing."""
        if work_uid in self._promises:
            return None
        shadow = self.shadow()
        spots = shadow.place(gang.least())
        if isinstance(spots, Shortage):
            return spots
        shadow.give_back(spots)
        promise = self._promises[work_uid] = Promise(gang)
        self._fill(promise, shadow)
        self.version += 1
        return None

    def accepted(self, work_uid: str) -> bool:
        """Whether room is promised to its gang."""
        return work_uid in self._promises

    def release(self, work_uid: str) -> None:
        """The run ended, was withdrawn or could not be made: nothing is promised any more."""
        promise = self._promises.pop(work_uid, None)
        if promise is not None:
            if self._current(self._shadow):
                self._shadow.give_back(promise.spots)  # type: ignore[union-attr]
            self.version += 1

    def promised(self) -> Iterator[tuple[str, ResourceVector]]:
        """What is accepted and not bound: UID of the local Job ("" until it is seen) and what its missing pods ask for."""
        for promise in self._promises.values():
            missing = self._missing(promise)
            if missing:
                yield promise.job, total(shape.requests * count for shape, count in missing.items())

    def shadow(self) -> Room:
        """Free room with every promise taken from it; copy it before taking more."""
        shadow = self._shadow
        overdrawn = shadow is not None and bool((shadow.free < 0).any() and (self._promises or self._claims))
        if not self._current(shadow) or shadow is None or overdrawn:
            shadow = self._build()
        self._fill_claims(shadow)
        return shadow

    def spots(self) -> list[Spot]:
        """What promises and claims stand on, rows of the inventory's present room."""
        self.shadow()
        promised = [spot for promise in self._promises.values() for spot in promise.spots]
        return promised + [spot for _, spots in sorted(self._claims.items()) for spot in spots]

    # --- what informers say ------------------------------------------------------------------------------------------

    def job_changed(self, change: Change[JobView]) -> None:
        """A Job was made, ended or went."""
        job = change.new or change.old
        if job is None:
            return
        if not job.managed:
            self._local_changed(change, job)
            return
        if change.new is None or job.deleting or job.phase in ENDS:
            self.release(job.work_uid)
            self._work_of.pop(job.uid, None)
            if change.new is None:
                self._settled.pop(job.uid, None)
            return
        if job.gang is None:
            return
        self._work_of[job.uid] = job.work_uid
        promise = self._promises.get(job.work_uid)
        if promise is None:
            promise = self._promises[job.work_uid] = Promise(job.gang)
        promise.job, promise.gang = job.uid, job.gang
        self._refresh(job.uid)

    def _local_changed(self, change: Change[JobView], job: JobView) -> None:
        alive = change.new is not None and not job.deleting and job.phase not in ENDS and job.gang is not None
        if change.new is None:
            self._settled.pop(job.uid, None)
        if not alive or job.gang is None:
            self._local.pop(job.uid, None)
        elif self._local.get(job.uid) != job.gang:
            self._local.pop(job.uid, None)
            self._claim(job.uid)
            self._local[job.uid] = job.gang
        self._claim(job.uid)

    def group_changed(self, change: Change[GroupView]) -> None:
        """A local gang was let in, bound or went; those that the hub admitted are promises."""
        group = change.new or change.old
        if group is None or group.admitted:
            return
        if change.new is not None and not group.deleting and group.phase == INQUEUE:
            self._inqueue.add(group.owner)
        else:
            self._inqueue.discard(group.owner)
        self._claim(group.owner)

    def pod_changed(self, change: Change[PodView]) -> None:
        """A pod of a Job ended (it needs no room and no promise) or went."""
        pod = change.new or change.old
        if pod is None or not pod.task or not pod.owner:
            return
        if change.new is not None and pod.ended:
            self._settle(pod.uid, owner=pod.owner, task=pod.task)
        elif change.new is None:
            self._unsettle(pod.uid, owner=pod.owner)

    def took(self, uid: str, held: Held) -> None:
        """A pod was bound: what was promised to it is now held."""
        self._mirror(held, 1)
        if held.task and held.owner:
            self._settle(uid, owner=held.owner, task=held.task, row=self._inventory.row_of(held.node))

    def gave_back(self, uid: str, held: Held) -> None:
        """A pod ended or went; `pod_changed` says which."""
        self._mirror(held, -1)
        if held.task and held.owner:
            self._unsettle(uid, owner=held.owner)

    def _settle(self, uid: str, *, owner: str, task: str, row: int | None = None) -> None:
        self._settled.setdefault(owner, {})[uid] = task
        self._refresh(owner, row=row)
        self._claim(owner)

    def _unsettle(self, uid: str, *, owner: str) -> None:
        pods = self._settled.get(owner, {})
        if pods.pop(uid, None) is None:
            return
        if not pods:
            del self._settled[owner]
        self._refresh(owner)
        self._claim(owner)

    # --- inside ------------------------------------------------------------------------------------------------------

    def _current(self, shadow: Room | None) -> bool:
        return shadow is not None and self._built_on is self._inventory.room

    def _mirror(self, held: Held, sign: int) -> None:
        row = self._inventory.row_of(held.node)
        if row is None or self._shadow is None or not self._current(self._shadow):
            return
        spot = Spot(row, held.shape, 1)
        self._shadow.take(spot) if sign > 0 else self._shadow.give_back([spot])

    def _missing(self, promise: Promise) -> Counter[PodShape]:
        """Pods of the gang that hold nothing and have not ended, by the shape of their task."""
        settled = Counter(self._settled.get(promise.job, {}).values())
        wanted: Counter[PodShape] = Counter()
        for task in promise.gang.tasks:
            wanted[task.shape] += max(task.replicas - settled[task.name], 0)
        return +wanted

    def _refresh(self, job: str, *, row: int | None = None) -> None:
        """Make the spots of a Job's promise match what it misses; the spot at `row` goes first."""
        promise = self._promises.get(self._work_of.get(job, ""))
        if promise is None:
            return
        self.version += 1
        if not self._current(self._shadow) or self._shadow is None:
            return
        missing = self._missing(promise)
        kept: list[Spot] = []
        surplus = Counter({spot.shape: 0 for spot in promise.spots})
        for spot in promise.spots:
            surplus[spot.shape] += spot.count
        surplus.subtract(missing)
        for spot in sorted(promise.spots, key=lambda spot: spot.row != row):
            drop = min(spot.count, max(surplus[spot.shape], 0))
            surplus[spot.shape] -= drop
            if drop:
                self._shadow.give_back([Spot(spot.row, spot.shape, drop)])
            if spot.count > drop:
                kept.append(Spot(spot.row, spot.shape, spot.count - drop))
        promise.spots = kept
        self._fill(promise, self._shadow)

    def _fill(self, promise: Promise, shadow: Room) -> None:
        """Take room for what the gang misses beyond its spots, as far as there is room."""
        missing = self._missing(promise)
        for spot in promise.spots:
            missing[spot.shape] -= spot.count
        for shape, count in (+missing).items():
            promise.spots += shadow.place_some(shape, count)

    def _claim(self, job: str) -> None:
        """Let the claim of a local gang be what is known of it: a gang binds whole, so with its first pod it claims nothing."""
        wanted = job in self._inqueue and job in self._local and not self._settled.get(job)
        if wanted == (job in self._claims):
            return
        self.version += 1
        if wanted:
            self._claims[job] = []
            return
        spots = self._claims.pop(job)
        if self._current(self._shadow) and self._shadow is not None:
            self._shadow.give_back(spots)

    def _fill_claims(self, shadow: Room) -> None:
        """Take room for the minimum of each claim, whole or not at all: a gang that fits nowhere blocks nobody."""
        for job in sorted(self._claims):
            if not self._claims[job]:
                placed = shadow.place(self._local[job].least())
                self._claims[job] = [] if isinstance(placed, Shortage) else list(placed)

    def _build(self) -> Room:
        room = self._inventory.room
        shadow = self._shadow = room.copy()
        self._built_on = room
        for promise in self._promises.values():
            promise.spots = []
            self._fill(promise, shadow)
        self._claims = {job: [] for job in self._claims}
        return shadow
