"""What the scheduler would do with gangs that are not here yet: dry runs of its own actions and plugins on a copy.

The pods of a shape are read as real ones are, the session is opened as a round opens it, and everything is thrown away: no
round is disturbed, and nobody has to know the rules a second time. Pure but for the state that is given.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from apis import keys
from apis.capacity import MOST_FITS, ShapeAnswer
from apis.quantities import InvalidQuantity
from apis.vectors import total
from member_agent.asking import End
from member_agent.inventory import Inventory
from member_agent.neighbours import Neighbourhood
from member_agent.room import Amounts, Spot
from member_agent.scheduling.actions import run
from member_agent.scheduling.configuration import Configuration
from member_agent.scheduling.decisions import Plan
from member_agent.scheduling.plugins.registry import Registry
from member_agent.scheduling.reservations import Reservation
from member_agent.scheduling.session import OpenSession
from member_agent.scheduling.snapshot import Snapshot, Tally, Waiting
from member_agent.views import GroupStatus, GroupView, PodView, Projector
from member_agent.views.drafts import draft
from policies.asked import MOST_SHAPES, Asked, AskedTask, UnreadableShape, gang_of, of_job
from policies.capacities import only_the_member_can_tell
from policies.shapes import Pool

PLACING: Final = ("allocate", "backfill")
"""Actions that place gangs beside what is there."""
EVICTING: Final = ("preempt", "reclaim")
"""Actions that make room for a gang."""
REASON: Final = 512
"""Characters of a reason."""
SHAPES_KEPT: Final = 4 * MOST_SHAPES
"""Shapes of which the templates are not read again."""
MOST_PODS: Final = 512
"""Pods of one shape that are placed in a dry run, if that is more than one gang."""
UNREADABLE: Final = "its pod template cannot be read here"


@dataclass(frozen=True, slots=True)
class Shape:
    """A gang that is asked about: one pod of each task that its minimum needs, and how many of each."""

    asked: Asked
    pods: tuple[tuple[PodView, int], ...]
    most: int = 1
    """So many gangs of it are counted: more than one only where the hub has nothing but our answer to go by."""

    def marked(self, neighbourhood: Neighbourhood) -> Shape:
        """With pods that say in which crowds they count."""
        return dataclasses.replace(self, pods=tuple((neighbourhood.marked((pod,))[0], count) for pod, count in self.pods))

    def gang(self, number: int) -> Waiting:
        """The gang as if it had come and the hub had let it in."""
        name = f"{self.asked.hash}-{number}"
        listed = [
            dataclasses.replace(
                pod, name=f"{name}-{pod.task}-{index}", uid=f"{name}/{pod.task}/{index}", group=name, index=index
            )
            for pod, count in self.pods
            for index in range(count)
        ]
        key = (self.asked.namespace, name)
        return Waiting(key=key, group=self._group(name), pods=tuple(listed), tally=Tally(), priority=self.asked.priority)

    def _group(self, name: str) -> GroupView:
        least = [(task.name, min(task.minimum, task.replicas)) for task in self.asked.tasks]
        return GroupView(
            namespace=self.asked.namespace,
            name=name,
            uid=name,
            version="",
            created="",
            owner="",
            deleting=False,
            admitted=True,
            min_member=sum(count for _, count in self.pods),
            min_task_member=tuple(sorted((task, count) for task, count in least if count)),
            queue=self.asked.queue or keys.DEFAULT_QUEUE,
            priority_class="",
            min_resources=total(pod.shape.requests * count for pod, count in self.pods),
            status=GroupStatus(phase="Inqueue"),
        )


class Foreseer:
    """The scheduler's side of `member_agent.asking.Foresight`. `freeze`: the snapshot of a round that would begin now;
    `reservation`: what is kept for a gang since the last one."""

    def __init__(
        self,
        *,
        inventory: Inventory,
        neighbourhood: Neighbourhood,
        scheduler: str,
        freeze: Callable[[], Snapshot],
        held: Callable[[], Mapping[str, Mapping[str, int]]],
        reservation: Callable[[], Reservation | None],
        configuration: Callable[[], Configuration],
        registry: Registry,
    ) -> None:
        self._inventory = inventory
        self._neighbourhood = neighbourhood
        self._scheduler = scheduler
        self._freeze = freeze
        self.held = held
        self._reservation = reservation
        self._configuration = configuration
        self._registry = registry
        self._projector = Projector()
        self._pool = Pool()
        self._shapes: dict[str, tuple[Asked, Shape | None]] = {}
        self._spoken: dict[str, Shape] = {}
        """Shapes of whose neighbours the books are kept while they are asked about."""

    def stand(self, asked: Sequence[Asked], *, promised: Sequence[Spot], ends: Sequence[End]) -> Ground:
        """How things stand now."""
        self._speak({each.hash: shape for each in asked if (shape := self._shape(each)) is not None})
        return Ground(
            snapshot=self._freeze(),
            configuration=self._configuration(),
            registry=self._registry,
            shapes={name: shape.marked(self._neighbourhood) for name, shape in self._spoken.items()},
            promised=tuple(promised),
            reservation=self._reservation(),
            ends=self._leaving(ends),
        )

    def kept(self) -> Collection[str]:
        """Nodes on which whatever is or gets free waits for a gang that is here; amounts that do are off what is `left`."""
        found = self._reservation()
        return found.nodes if found is not None and found.whole else ()

    def refusal(self, manifest: bytes, *, promised: Sequence[Spot]) -> str:
        """Why a Job of this manifest would get no nodes now; "" where it would, or where nobody can tell."""
        try:
            asked = of_job(manifest)
        except UnreadableShape:
            return ""
        found = self.stand([asked], promised=promised, ends=()).ask(asked)
        self._speak({})
        return "" if found.fits or found.reason == UNREADABLE else found.reason or "its scheduler finds no nodes for it"

    def _speak(self, shapes: Mapping[str, Shape]) -> None:
        """Have everybody counted of whom these shapes speak, and nobody else on their account."""
        for name, shape in list(self._spoken.items()):
            if shapes.get(name) is not shape:
                del self._spoken[name]
                for pod, _ in shape.pods:
                    self._neighbourhood.waits_no_more(pod)
        for name, shape in shapes.items():
            if name not in self._spoken:
                self._spoken[name] = shape
                for pod, _ in shape.pods:
                    self._neighbourhood.waits(pod)

    def _shape(self, asked: Asked) -> Shape | None:
        known = self._shapes.get(asked.hash)
        if known is None or known[0] != asked:
            if len(self._shapes) >= SHAPES_KEPT:
                self._shapes.clear()
            known = self._shapes[asked.hash] = (asked, self._read(asked))
        return known[1]

    def _read(self, asked: Asked) -> Shape | None:
        try:
            return Shape(asked, tuple((self._pod(asked, task), count) for task, count in asked.needed()), self._most(asked))
        except (msgspec.MsgspecError, InvalidQuantity, AttributeError, TypeError):
            return None  # whatever a template says that is none: it is told, and harms nobody else

    def _most(self, asked: Asked) -> int:
        """How many gangs of it are counted."""
        gang = gang_of(asked, pool=self._pool)
        if gang is None or not only_the_member_can_tell(gang):
            return 1
        pods = sum(count for _, count in asked.needed())
        return min(MOST_FITS, max(MOST_PODS // max(pods, 1), 1))

    def _pod(self, asked: Asked, task: AskedTask) -> PodView:
        """A pod as the Job's controller would make it, read as the scheduler reads pods."""
        made = draft(
            msgspec.json.decode(task.template),
            job=asked.job,
            task=task.name,
            namespace=asked.namespace,
            queue=asked.queue,
            group=asked.hash,
            uid=asked.hash,
            schedulerName=self._scheduler,
            priority=asked.priority,
        )
        return self._projector.pod(made)

    def _leaving(self, ends: Sequence[End]) -> tuple[tuple[float, Spot], ...]:
        """What is given back, and when."""
        when = {end.owner: end.seconds for end in ends}
        if not when:
            return ()
        found = []
        for held in self._inventory.held().values():
            row = self._inventory.row_of(held.node)
            if held.owner in when and row is not None:
                found.append((when[held.owner], Spot(row, held.shape, 1)))
        return tuple(sorted(found, key=lambda each: each[0]))


@dataclass(frozen=True, slots=True)
class Ground:
    """The state that a dry run starts from, and never changes. `shapes`: by hash, those that can be read; `reservation`:
    what is kept for a gang that is here; `ends`: what is given back and in how many seconds, the first first."""

    snapshot: Snapshot
    configuration: Configuration
    registry: Registry
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    promised: tuple[Spot, ...] = ()
    reservation: Reservation | None = None
    ends: tuple[tuple[float, Spot], ...] = ()

    def plan(self, gangs: Sequence[Waiting], *, actions: Collection[str], without: Sequence[Spot] = ()) -> Plan:
        """What a round would decide that has these gangs and no others before it. `without`: what has ended by then."""
        session = self._session(gangs)
        session.room.give_back(without)
        if self.reservation is not None:
            # What ends there first is for it: until it starts, nobody knows how much of that is left over.
            whole = self.reservation.whole or bool(without)
            session.reserved.foresee(dataclasses.replace(self.reservation, name="a gang that waits here", whole=whole))
        for name in self.configuration.actions:
            if name in actions:
                run(self.registry.actions[name], session)
        return session.plan()

    def _session(self, gangs: Sequence[Waiting]) -> OpenSession:
        """A session with these gangs, on what is spoken for by nobody."""
        frozen = dataclasses.replace(
            self.snapshot,
            room=self.snapshot.room.copy(),
            waiting=tuple(gangs),
            candidates=(),
            expected=(),
            preparing=(),
            shut=(),
            passed=(),
        )
        session = OpenSession(frozen, configuration=self.configuration, registry=self.registry)
        for spot in self.promised:
            session.room.take(spot)
        return session

    @property
    def left(self) -> Amounts:
        """What is free by row, less all that is spoken for."""
        session = self._session(())
        if self.reservation is not None:
            session.reserved.foresee(self.reservation)
        return session.room.free

    def ask(self, asked: Asked) -> ShapeAnswer:
        """About one shape, as if none were asked about beside it."""
        shape = self.shapes.get(asked.hash)
        return answer(shape, self) if shape is not None else ShapeAnswer(asked.hash, reason=UNREADABLE)


def answer(shape: Shape, ground: Ground) -> ShapeAnswer:
    """What happens to gangs of this shape now, and when one fits if none does."""
    gangs = [shape.gang(number) for number in range(shape.most)]
    plan = ground.plan(gangs, actions=PLACING)
    fits = _started(plan, gangs)
    if fits:
        return ShapeAnswer(shape.asked.hash, fits=fits)
    why = plan.waiting.get(gangs[0].key)
    return ShapeAnswer(
        shape.asked.hash,
        after_eviction=_evicts(gangs[0], ground),
        wait=_wait(shape, ground),
        reason=why.sentence[:REASON] if why is not None else "",
    )


def _started(plan: Plan, gangs: Sequence[Waiting]) -> int:
    """Gangs that got their minimum."""
    placed = Counter((binding.pod.namespace, binding.pod.group) for binding in plan.bindings)
    return sum(placed[gang.key] >= gang.group.min_member for gang in gangs)


def _evicts(gang: Waiting, ground: Ground) -> bool:
    """Whether the configured actions would evict somebody for it; they never do where that is not enough."""
    if not any(name in ground.configuration.actions for name in EVICTING):
        return False
    plan = ground.plan([gang], actions=(*PLACING, *EVICTING))
    return any(each.beneficiary == gang.key for each in plan.evictions)


def _wait(shape: Shape, ground: Ground) -> int | None:
    """Seconds until enough has ended: the first of the enforced ends after which one gang fits."""
    gang, times = shape.gang(0), sorted({seconds for seconds, _ in ground.ends})

    def fits(index: int) -> bool:
        ended = [spot for seconds, spot in ground.ends if seconds <= times[index]]
        return bool(_started(ground.plan([gang], actions=PLACING, without=ended), [gang]))

    if not times or not fits(len(times) - 1):
        return None
    low, high = 0, len(times) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle + 1, high)
    return round(times[low])
