"""Room held on nodes for a part of a gang over several clusters, before it has pods (protocol.md 5, phases 2 and 4).

What is durable is on the PodGroup and changed against its version only, so that two decisions about one hold never both happen:
`jobs/` writes the wish when it makes the group and takes it away as the release; the scheduler answers with where room is held,
and may give that up only while the wish stands. In the inventory a hold is one entry per pod to come, so that the room is
nobody else's, and the books of queue and promise count it like the pod itself; it shrinks with every pod that gets a node.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from machinery.informer import Key
from member_agent.inventory import Held, Inventory
from member_agent.views import GroupView, HoldRecord, JobView, PodView, held_for
from policies.shapes import Gang, PodShape
from policies.tables import Table


class HoldPhase(enum.StrEnum):
    """How a hold stands, from what is on its PodGroup."""

    NONE = "None"
    WANTED = "Wanted"
    HELD = "Held"
    DROPPED = "Dropped"
    RELEASED = "Released"


class HoldEvent(enum.Enum):
    """What happens to a hold."""

    WISHED = "the run record says that the gang is not released"
    RESERVED = "the minimum fits, and the answer is stored"
    RELEASED = "the run record says released: the wish is taken away"
    ABANDONED = "the hub was away for too long: that is stored"


_N, _W, _H, _D, _R = HoldPhase

HOLD: Final = Table(
    name="Hold",
    initial=_N,
    edges={
        (_N, HoldEvent.WISHED): _W,
        (_W, HoldEvent.RESERVED): _H,
        (_W, HoldEvent.RELEASED): _R,
        (_H, HoldEvent.RELEASED): _R,
        (_H, HoldEvent.ABANDONED): _D,
    },
    meaning={
        _N: "The gang runs in this cluster alone, or was never asked to prepare.",
        _W: "Room is looked for; nothing is held and no pod is made.",
        _H: "Room for the minimum is held: nobody else gets it, and the hub is told Prepared.",
        _D: "Given up. A later release is answered with it and never obeyed; the hub stops the run.",
        _R: "Pods are made and go onto the nodes that are held for them; the hold ends when the minimum has nodes.",
    },
)


def phase_of(group: GroupView) -> HoldPhase:
    """Where the hold of a group stands."""
    record = group.hold
    if record is not None and record.dropped:
        return HoldPhase.DROPPED
    if not group.hold_wanted:
        return HoldPhase.RELEASED if record is not None else HoldPhase.NONE
    return HoldPhase.HELD if record is not None and record.n == group.hold_wanted else HoldPhase.WANTED


def may(group: GroupView, event: HoldEvent) -> bool:
    """Whether the event is one for the hold as it stands."""
    return HOLD.knows(phase_of(group), event)


@dataclass(frozen=True, slots=True)
class Preparing:
    """A gang that wants room held: hold number `n`, its tasks; `drafts`: one pod of each, as they are going to be."""

    key: Key
    group: GroupView
    gang: Gang
    n: int
    priority: int
    drafts: tuple[PodView, ...] = ()

    def needs(self) -> list[tuple[PodShape, int]]:
        """Shapes and counts of the minimum, task by task; of a task without a draft what requests and labels say."""
        known = {pod.task: pod.shape for pod in self.drafts}
        return [(known.get(task.name, task.shape), count) for task, count in self.gang.minima()]


@dataclass(frozen=True, slots=True)
class Hold:
    """A decision: so many pods of each task have room on these nodes, as (task, node, count)."""

    key: Key
    n: int
    places: tuple[tuple[str, str, int], ...]

    def record(self, gang: Gang) -> HoldRecord:
        """As it is stored."""
        amounts = {task.name: task.shape.requests.to_quantities() for task in gang.tasks}
        return HoldRecord(self.n, held_for(self.places, amounts=amounts))


Entries = dict[str, Held]
"""What is held, by the name of the entry."""


def entries(
    group: GroupView, record: HoldRecord, gang: Gang, *, pods: Iterable[tuple[str, str]], drafts: Sequence[PodView] = ()
) -> Entries:
    """What is still held: one entry per pod without a node. `pods`: task and node of those that have one; each ends an entry of
    its task, one on its own node where there is one. Entries have the labels of their `drafts`: others keep away from them."""
    shapes = {task.name: task.shape for task in gang.tasks}
    known = {pod.task: pod for pod in drafts}
    left = Counter(place for place in record.places() if place[0] in shapes)
    elsewhere: Counter[str] = Counter()
    for pod in pods:
        if left[pod] > 0:
            left[pod] -= 1
        else:
            elsewhere[pod[0]] += 1
    found: Entries = {}
    for (task, node), count in sorted(left.items()):
        gone = min(count, elsewhere[task])
        elsewhere[task] -= gone
        for index in range(count - gone):
            name, draft = f"hold/{group.uid}/{task}/{node}/{index}", known.get(task)
            held = Held(node, shapes[task], group.owner, task, (group.namespace, group.name))
            found[name] = held if draft is None else replace(held, shape=draft.shape, labels=draft.labels)
    return found


class Holds:
    """The holds of one scheduler, in the inventory. `job` finds a Job by UID."""

    def __init__(
        self, inventory: Inventory, *, job: Callable[[str], JobView | None], pods: Callable[[Key], Mapping[str, PodView]]
    ) -> None:
        self._inventory = inventory
        self._job = job
        self._pods = pods
        self._groups: dict[Key, GroupView] = {}
        """Groups that want a hold, or have an answer."""
        self._decided: dict[Key, HoldRecord] = {}
        """Answers that are not seen on their groups yet."""
        self._entries: dict[Key, Entries] = {}
        self.version = 0
        """Grows with what is held."""

    # --- reading -----------------------------------------------------------------------------------------------------

    def answer(self, group: GroupView) -> HoldRecord | None:
        """What is to be written on the group, where it is not there already."""
        decided = self._decided.get((group.namespace, group.name))
        if decided is None or decided.dropped or not may(group, HoldEvent.RESERVED):
            return None
        return decided if decided.n == group.hold_wanted else None

    def preparing(self, *, priority: Callable[[str], int]) -> tuple[Preparing, ...]:
        """Gangs that want room, in order of age."""
        found = []
        for key, group in sorted(self._groups.items(), key=lambda item: (item[1].created, item[0])):
            job = self._job(group.owner)
            wants = may(group, HoldEvent.RESERVED) and key not in self._decided
            if wants and job is not None and job.gang is not None and not job.deleting and not group.deleting:
                rank = priority(group.priority_class)
                found.append(Preparing(key, group, job.gang, group.hold_wanted, rank, drafts=job.drafts))
        return tuple(found)

    def entries(self) -> Mapping[Key, tuple[Held, ...]]:
        """What is held, by gang."""
        return {key: tuple(entries.values()) for key, entries in self._entries.items() if entries}

    def wants(self, job: str) -> bool:
        """Whether a group of this Job wants room."""
        return any(group.owner == job and may(group, HoldEvent.RESERVED) for group in self._groups.values())

    def waiting_for_the_hub(self) -> tuple[GroupView, ...]:
        """Groups whose hold may be given up, in order."""
        return tuple(group for _, group in sorted(self._groups.items()) if may(group, HoldEvent.ABANDONED))

    # --- what happens ------------------------------------------------------------------------------------------------

    def group_changed(self, key: Key, group: GroupView | None) -> None:
        """A group came, changed or went."""
        if group is None or (not group.hold_wanted and group.hold is None):
            if self._groups.pop(key, None) is None:
                return
        else:
            self._groups[key] = group
        decided = self._decided.get(key)
        if decided is not None and (group is None or group.hold_wanted != decided.n or _says(group, decided)):
            del self._decided[key]
        self.look(key)

    def decided(self, hold: Hold) -> None:
        """A round found room."""
        group = self._groups.get(hold.key)
        job = self._job(group.owner) if group is not None else None
        if job is not None and job.gang is not None:
            self._decided[hold.key] = hold.record(job.gang)
            self.look(hold.key)

    def dropped(self, key: Key) -> None:
        """It is stored that the hold is given up."""
        group = self._groups.get(key)
        if group is not None:
            self._decided[key] = HoldRecord(group.hold_wanted, dropped="given up")
            self.look(key)

    def job_changed(self, job: JobView) -> None:
        """A Job came, changed or went: the room of its gang follows."""
        for key in [key for key, group in self._groups.items() if group.owner == job.uid]:
            self.look(key)

    def look(self, key: Key) -> None:
        """Let what is in the inventory be what is held now."""
        if key not in self._groups and key not in self._entries:
            return
        wanted = self._wanted(key)
        present = self._entries.pop(key, {})
        self.version += wanted != present
        for uid in present.keys() - wanted.keys():
            self._inventory.unreserve(uid)
        for uid, held in wanted.items():
            self._inventory.reserve(uid, held)
        if wanted:
            self._entries[key] = wanted

    def _wanted(self, key: Key) -> Entries:
        group = self._groups.get(key)
        record = self._decided.get(key) or (group.hold if group is not None else None)
        if group is None or record is None or record.dropped or group.deleting or group.once_whole:
            return {}
        job = self._job(group.owner)
        if job is None or job.gang is None or job.deleting:
            return {}
        placed = [each for each in self._placed(key) if each is not None]
        if len(placed) >= group.min_member:
            return {}
        return entries(group, record, job.gang, pods=placed, drafts=job.drafts)

    def _placed(self, key: Key) -> Iterable[tuple[str, str] | None]:
        held = self._inventory.held()
        for uid, pod in sorted(self._pods(key).items()):
            mine = held.get(uid)
            yield (pod.task, mine.node if mine is not None else "") if mine is not None or pod.ended else None


def _says(group: GroupView, record: HoldRecord) -> bool:
    """Whether the group carries this answer, in whatever words."""
    there = group.hold
    return there is not None and (there.n, bool(there.dropped)) == (record.n, bool(record.dropped))
