"""Who goes and for whom room is kept, in one session: earmarks of earlier rounds and what this one adds to them.

Room that is kept is taken from everybody, and stands in the books of its gang, from the beginning of a session on. A gang
starts on it as soon as it is really free; pods that leave free it one after the other, and the gang's minimum starts together.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from apis.vectors import ResourceVector, total
from machinery.informer import Key
from member_agent.aspects import plain
from member_agent.room import Mask, Shortage, Spot
from member_agent.scheduling.decisions import Binding, Eviction
from member_agent.scheduling.earmarks import Earmark, Place
from member_agent.scheduling.limiting import over
from member_agent.scheduling.quantities import plain as quota
from member_agent.scheduling.reasons import Reason
from member_agent.views import PodView
from policies.shapes import PodShape

if TYPE_CHECKING:
    from member_agent.scheduling.plugins.protocol import Victim
    from member_agent.scheduling.session import OpenSession
    from member_agent.scheduling.snapshot import Snapshot, Waiting
    from member_agent.scheduling.standing import Standing

CLEARING = "RoomIsCleared"
"""Why a gang waits for which others were evicted."""
NODES_TOLD = 3
"""Nodes that are named in a sentence."""


class Turnover:
    """The earmarks and evictions of one session."""

    def __init__(self, session: OpenSession, snapshot: Snapshot) -> None:
        self._session = session
        self.holders = snapshot.holders
        self._rows: dict[str, int] = {}
        self.kept: dict[Key, Earmark] = {}
        """What is kept, by gang."""
        self.changed: dict[Key, Earmark] = {}
        self.ended: dict[Key, Reason | None] = {}
        """What is kept no more: its gang starts, or why it does not."""
        self.met: set[Key] = set()
        """Gangs that were looked at because room is kept for them."""
        self.evictions: list[Eviction] = []
        self.nominated: list[Binding] = []
        self.out: dict[str, Victim] = {}
        """Victims that are out of the books."""
        self._elastic: dict[str, dict[str, int]] = {}
        self._placed: dict[Key, dict[str, int]] = {}
        for earmark in self.holders.earmarks:
            lost = next((text for place in earmark.places if (text := self._lost(place))), "")
            if lost:
                self.ended[earmark.gang] = Reason("NodeLost", lost)
            elif not self.holders.wait(earmark.gang):
                self.ended[earmark.gang] = Reason("PodsGone", "the pods for which room was cleared have gone")
            else:
                self.kept[earmark.gang] = earmark
                self._charge(earmark, 1)
                for place in earmark.places:  # its pods wait and hold at once: they want no more than they hold
                    session.want(earmark.queue, place.shape.requests, times=-place.count)

    def occupy(self) -> None:
        """Take the kept room from everybody."""
        for earmark in self.kept.values():
            self._take(earmark)

    # --- reading -----------------------------------------------------------------------------------------------------

    def row_of(self, node: str) -> int | None:
        """Its row; None for a node that nobody knows."""
        if not self._rows:
            self._rows = {name: row for row, name in enumerate(self._session.room.layout.names)}
        return self._rows.get(node)

    def know(self, stands: Standing) -> Mapping[str, int]:
        """The same for a gang that was looked at anyway."""
        known = self._placed.get(stands.key)
        if known is None:
            known = self._placed[stands.key] = dict(stands.placed)
        return known

    def standing(self, key: Key) -> dict[str, int]:
        """Pods of a gang that hold nodes or succeeded, by task, less those that this session evicts. Not to be changed."""
        known = self._placed.get(key)
        if known is None:
            stands = self.holders.one(key)
            known = self._placed[key] = dict(stands.placed) if stands is not None else {}
        return known

    def elastic(self, queue: str) -> Mapping[str, int]:
        """What local gangs of one queue hold beyond their minimum resources: more important ones may have that room."""
        known = self._elastic.get(queue)
        if known is None:
            known = self._elastic[queue] = {}
            for key, group in self.holders.groups(queue).items():
                if group.admitted or not group.min_resources:
                    continue
                least = quota(group.min_resources)
                for name, amount in self._session.holds(key).items():
                    known[name] = known.get(name, 0) + max(amount - least.get(name), 0)
        return known

    def leaving(self) -> list[Spot]:
        """Room of pods that are on their way out, those that this session evicts included."""
        found = ((self.row_of(node), shape) for node, shape in self.holders.leaving)
        going = [Spot(victim.row, victim.pod.shape, 1) for victim in self.out.values()]
        return [*(Spot(row, shape, 1) for row, shape in found if row is not None), *going]

    # --- starting ----------------------------------------------------------------------------------------------------

    def redeem(self) -> None:
        """Start gangs for which room was cleared, where it is free by now."""
        if not self.kept:
            return
        for gang in self._session.waiting:
            earmark = self.kept.get(gang.key)
            if earmark is not None:
                self.met.add(gang.key)
                self._release(earmark)
                self._start(gang, earmark)

    def _start(self, gang: Waiting, earmark: Earmark) -> None:
        from member_agent.scheduling.actions.allocate import split  # actions know sessions, not the other way round

        session = self._session
        barred = self._barred(gang)
        if barred is not None:
            self._keep(gang, earmark)
            session.refuse(gang, barred)
            return
        pods = session.tiers.tasks_in_order(gang.pods)
        if session.tiers.job_ready(gang, placed=gang.tally.placed):
            self._some(gang, earmark, pods)
            return
        first, _ = split(gang, pods)
        needs = [(shape, len(listed)) for shape, listed in _by_shape(first)]
        full = over(session, gang, needs)
        if full is not None:
            self._keep(gang, earmark)
            if self._more(earmark, needs):
                session.refuse(gang, full)
            return
        spots = session.room.place(needs, within=self._cleared(earmark))
        if isinstance(spots, Shortage):
            spots = session.room.place(needs, within=session.open_to(gang))
        if isinstance(spots, Shortage) or not session.start(gang, first, spots):
            self._keep(gang, earmark)
        else:
            self.ended[gang.key] = None
            del self.kept[gang.key]

    def _barred(self, gang: Waiting) -> Reason | None:
        """What keeps it from starting whatever room there is: pods that went meanwhile, or its queue."""
        gone = gang.group.queue not in self._session.queues and not gang.group.admitted
        return self._session.closed(gang) if gone else self._session.tiers.job_valid(gang)

    @staticmethod
    def _more(earmark: Earmark, needs: Sequence[tuple[PodShape, int]]) -> bool:
        """Whether a gang needs more than what is kept: it grew, or a scheduler before this one told only some of its pods their
        nodes. Else its queue has no room because those who make some are still there."""
        kept = total(place.shape.requests * place.count for place in earmark.places)
        asked = total(shape.requests * count for shape, count in needs)
        return bool((asked - kept).positive())

    def _allowed(self, gang: Waiting, shape: PodShape, pods: int) -> int:
        """How many of the pods its queue takes; gangs that the hub admitted pass all limits."""
        if gang.group.admitted:
            return pods
        with self._session.gates.aside(gang.key):
            return self._session.tiers.allocatable(gang.group.queue, request=shape.requests, pods=pods).pods

    def _some(self, gang: Waiting, earmark: Earmark, pods: Sequence[PodView]) -> None:
        """Of a gang that has its minimum those start that find their room free."""
        session, names = self._session, self._session.room.layout.names
        left = {(place.node, place.shape): place.count for place in earmark.places}
        wait = Counter(pod.shape.requests for pod in pods)
        for shape, listed in _by_shape(pods):
            meant = [key for key, count in left.items() if count and key[1].requests == shape.requests]
            if not meant:
                continue
            mask = self._mask(node for node, _ in meant)
            count = self._allowed(gang, shape, min(len(listed), sum(left[key] for key in meant)))
            spots = session.room.place_some(shape, count, within=mask) if count else ()
            if spots and session.start(gang, listed[: sum(spot.count for spot in spots)], spots):
                wait[shape.requests] -= sum(spot.count for spot in spots)
                for spot in spots:
                    key = next(each for each in meant if each[0] == names[spot.row])
                    left[key] = max(left[key] - spot.count, 0)
        places = _as_many(left, wait)
        rest = dataclasses.replace(earmark, places=places)
        if places:
            self.kept[gang.key] = rest
            self._keep(gang, rest)
            if rest != earmark:
                self.changed[gang.key] = rest
        else:
            self.ended[gang.key] = None
            del self.kept[gang.key]

    def _keep(self, gang: Waiting, earmark: Earmark) -> None:
        """It has to wait longer."""
        self._charge(earmark, 1)
        self._take(earmark)
        self.tell(gang)

    def tell(self, gang: Waiting) -> None:
        """Say for what it waits."""
        earmark = self.kept[gang.key]
        nodes = list(dict.fromkeys(place.node for place in earmark.places))
        names = ", ".join(nodes[:NODES_TOLD]) + (f" and {len(nodes) - NODES_TOLD} more" if len(nodes) > NODES_TOLD else "")
        text = f"{gang.tally.total_placed} of {gang.group.min_member} pods of the gang have nodes; "
        self._session.refuse(gang, Reason(CLEARING, f"{text}room for {earmark.pods} is being cleared on {names}"))

    def covered(self, gang: Key, *, pods: int) -> bool:
        """Whether what is kept for a gang is enough for so many pods and will be free once everybody who leaves has left. It
        may be too little where a victim could not be evicted, or a scheduler before this one did not come to it; where others
        took the room, the gang has had its chance."""
        earmark = self.kept[gang]
        if earmark.sure:
            return True
        if earmark.pods < pods:
            return False
        room = self._session.room
        later: dict[tuple[int, str], int] = {}
        for spot in self.leaving():
            for name, amount in spot.shape.requests.items():
                later[spot.row, name] = later.get((spot.row, name), 0) + amount
        return all(
            room.free[self._row(place), room.layout.columns[name]] + later.get((self._row(place), name), 0) >= 0
            for place in earmark.places
            for name in place.shape.requests
        )

    def lift(self, gang: Key) -> tuple[Earmark, list[Spot]] | None:
        """Keep nothing for a gang while room is looked for anew; the room itself is the caller's affair."""
        earmark = self.kept.pop(gang, None)
        if earmark is None:
            return None
        self._charge(earmark, -1)
        return earmark, self._spots(earmark)

    def restore(self, earmark: Earmark) -> None:
        """Nothing better was found."""
        self.kept[earmark.gang] = earmark
        self._charge(earmark, 1)

    # --- what clearing decides ---------------------------------------------------------------------------------------

    def lose(self, victim: Victim, *, times: int = 1) -> None:
        """Take a victim out of the books, or with -1 back in again; of its room its row knows."""
        spot = Spot(victim.row, victim.pod.shape, 1)
        self._session.account(victim.gang, victim.queue, [spot], times=-times)
        if times > 0:
            self.out[victim.pod.uid] = victim
        else:
            del self.out[victim.pod.uid]
        placed = self.standing(victim.gang)
        placed[victim.pod.task] = placed.get(victim.pod.task, 0) - times

    def evict(self, victims: Sequence[Victim], *, action: str, reason: Mapping[str, Reason], beneficiary: Key | None) -> None:
        """They go, for `reason` by UID."""
        self.evictions += [Eviction(each.pod, action, reason[each.pod.uid], beneficiary) for each in victims]

    def earmark(self, gang: Waiting, pods: Sequence[PodView], spots: Sequence[Spot]) -> None:
        """Keep this for a gang, beside what was kept before."""
        names = self._session.room.layout.names
        before = self.kept.get(gang.key)
        places = Counter({(place.node, place.shape): place.count for place in before.places} if before else {})
        for spot in spots:
            places[names[spot.row], plain(spot.shape)] += spot.count
        kept = Earmark(gang.key, gang.group.queue, tuple(Place(*at, count) for at, count in places.items()))
        self.changed[gang.key] = self.kept[gang.key] = kept
        ahead = {shape: iter(listed) for shape, listed in _by_shape(pods)}
        for spot in spots:
            for _ in range(spot.count):
                self.nominated.append(Binding(next(ahead[spot.shape]), names[spot.row]))

    # --- inside ------------------------------------------------------------------------------------------------------

    def _lost(self, place: Place) -> str:
        """Why nothing can be kept there any more, or ""."""
        layout, row = self._session.room.layout, self.row_of(place.node)
        if row is None or not layout.usable[row]:
            return f"node {place.node}, where room was cleared, takes no pods any more"
        unknown = sorted(place.shape.requests.keys() - layout.columns.keys())
        return f"node {place.node}, where room was cleared, has no {unknown[0]}" if unknown else ""

    def _row(self, place: Place) -> int:
        row = self.row_of(place.node)
        assert row is not None, place.node  # places on nodes that went were left out
        return row

    def _spots(self, earmark: Earmark) -> list[Spot]:
        return [Spot(self._row(place), place.shape, place.count) for place in earmark.places]

    def _cleared(self, earmark: Earmark) -> Mask:
        return self._mask(place.node for place in earmark.places)

    def _mask(self, nodes: Iterable[str]) -> Mask:
        mask: Mask = np.zeros(len(self._session.room.layout.names), dtype=np.bool_)
        mask[[row for node in nodes if (row := self.row_of(node)) is not None]] = True
        return mask

    def _charge(self, earmark: Earmark, times: int) -> None:
        self._session.account(earmark.gang, earmark.queue, self._spots(earmark), times=times)

    def _take(self, earmark: Earmark) -> None:
        for spot in self._spots(earmark):
            self._session.room.take(spot)

    def _release(self, earmark: Earmark) -> None:
        for spot in self._spots(earmark):
            self._session.room.give_back([spot])
        self._charge(earmark, -1)


def _as_many(left: Mapping[tuple[str, PodShape], int], wait: Counter[ResourceVector]) -> tuple[Place, ...]:
    """Of what is left of an earmark as much as pods wait for: they may have started beside each other on one node."""
    found = []
    for (node, shape), count in left.items():
        count = min(count, wait[shape.requests])
        if count > 0:
            wait[shape.requests] -= count
            found.append(Place(node, shape, count))
    return tuple(found)


def _by_shape(pods: Sequence[PodView]) -> list[tuple[PodShape, list[PodView]]]:
    found: dict[PodShape, list[PodView]] = {}
    for pod in pods:
        found.setdefault(pod.shape, []).append(pod)
    return list(found.items())
