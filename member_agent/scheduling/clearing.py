"""Clears room for a gang: looks for pods that have to go, as few as it takes, with which the gang fits in one concrete plan.

It is looked at the room as it will be once everybody who leaves has left. Nodes are opened one after the other, the cheapest
first, for one pod of the gang after the other, and whole domains where pods elsewhere are in the way; then of the victims
chosen everyone goes free without whom the plan holds, and the plugins are asked once more about those that are left. A gang
that does not fit whole, with its victims gone and within the limits of its queue, has nobody evicted.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self

import numpy as np

from member_agent.room import Mask, Room, Shortage, Spot
from member_agent.scheduling.candidates import Candidates, level_of
from member_agent.scheduling.limiting import over
from member_agent.scheduling.obstacles import Obstacle, obstacles
from member_agent.scheduling.plugins.protocol import Victim
from member_agent.scheduling.reasons import Reason
from member_agent.scheduling.session import OpenSession, by_shape
from member_agent.scheduling.snapshot import Waiting
from member_agent.views import PodView
from policies.evictions import pruned
from policies.shapes import PodShape

Ask = Callable[[Waiting, Sequence[Victim]], Sequence[Victim]]
"""Which of the victims the plugins let go for a gang, all of them together."""
Why = Callable[[Victim], Reason]
Needs = Sequence[tuple[PodShape, int]]


class Clearing:
    """One action's look for victims, a context: inside it the session's room is that of later, when everybody has left."""

    def __init__(self, session: OpenSession, *, action: str) -> None:
        self._session = session
        self._action = action
        self._now: Room = session.room
        self._later: Room = session.room.copy(rules=session.tiers)
        self._leaving: list[Spot] = []
        self._gone: dict[str, Victim] = {}
        """Victims of this action that are decided."""
        self._given: list[Spot] = []
        self._lifted: list[Spot] = []
        """What was kept for beneficiaries before."""
        self._failed: set[object] = set()
        """What was looked for in vain since the last eviction."""

    def __enter__(self) -> Self:
        self._later.near, self._later.told = self._now.near, self._now.told
        self._session.room = self._later
        self._leaving = self._session.turnover.leaving()
        for spot in self._leaving:
            self._later.give_back([spot])
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Back to the room of now: who leaves is still there, and what was given to beneficiaries is nobody else's."""
        for spot in self._given:
            self._later.give_back([spot])
        for spot in (*self._lifted, *(_spot(victim) for victim in self._gone.values()), *self._leaving):
            self._later.take(spot)
        self._session.room = self._now
        for spot in self._lifted:
            self._now.give_back([spot])
        for spot in self._given:
            self._now.take(spot)

    # --- one gang ----------------------------------------------------------------------------------------------------

    def clear(
        self, gang: Waiting, pods: Sequence[PodView], *, among: Candidates, ask: Ask, why: Callable[[Victim], Reason]
    ) -> bool:
        """Whether pods go so that these pods of the gang get nodes together; then it is decided. The new plan takes the place
        of what was kept for them before."""
        turnover, reserved = self._session.turnover, self._session.reserved
        mine = reserved.made is not None and reserved.made.gang == gang.key
        if mine:
            reserved.lend(self._later, times=1)
        lifted = turnover.lift(gang.key) if gang.key not in turnover.changed else None
        for spot in lifted[1] if lifted is not None else ():
            self._later.give_back([spot])
        done = self._clear(gang, pods, among=among, ask=ask, why=why)
        if lifted is not None and done:
            self._lifted += lifted[1]
        elif lifted is not None:
            for spot in lifted[1]:
                self._later.take(spot)
            turnover.restore(lifted[0])
        if mine and done:
            reserved.drop(self._now)  # it has an earmark instead
        elif mine:
            reserved.lend(self._later, times=-1)
        return done

    def _clear(self, gang: Waiting, pods: Sequence[PodView], *, among: Candidates, ask: Ask, why: Why) -> bool:
        within = self._session.open_to(gang)
        attempt = _Attempt(self._session, replace(gang, pods=tuple(pods)), among=among, ask=ask, within=within)
        alike = (among, gang.group.queue, gang.priority, within is None, gang.group.admitted, attempt.looks)
        if alike in self._failed:
            return False
        victims = attempt.run()
        if not victims:
            self._failed.add(alike)
            return False
        spots = attempt.settle(victims)
        if spots is None:
            return False
        self._decide(gang, pods, victims, spots, why)
        return True

    def _decide(
        self,
        gang: Waiting,
        pods: Sequence[PodView],
        victims: Sequence[Victim],
        spots: Sequence[Spot],
        why: Callable[[Victim], Reason],
    ) -> None:
        turnover = self._session.turnover
        self._failed.clear()
        self._gone.update({victim.pod.uid: victim for victim in victims})
        self._given += spots
        turnover.evict(victims, action=self._action, reason={each.pod.uid: why(each) for each in victims}, beneficiary=gang.key)
        turnover.earmark(gang, pods, spots)
        self._session.charge(gang, spots, times=1)
        turnover.tell(gang)


def _spot(victim: Victim) -> Spot:
    return Spot(victim.row, victim.pod.shape, 1)


class _Attempt:
    """For one gang: nothing of it is left in the room or the books unless it is settled."""

    def __init__(self, session: OpenSession, gang: Waiting, *, among: Candidates, ask: Ask, within: Mask | None) -> None:
        self._session = session
        self._room = session.room
        self._gang = gang
        self._among = among
        self._ask = ask
        self._within = within
        self._out: dict[str, Victim] = {}
        """Victims that it is tried with."""
        self._gone = session.turnover.out
        """These and those that were decided before."""
        self._needs: Needs = [(shape, len(listed)) for shape, listed in by_shape(gang.pods)]
        self._limited = self._over() is not None
        """Its queue has no room for it as it is: victims must make some there too."""

    @property
    def looks(self) -> object:
        """What tells it apart from other gangs of its queue and priority."""
        return tuple(self._needs), tuple(sorted(self._session.holds(self._gang.key).items()))

    # --- choosing ----------------------------------------------------------------------------------------------------

    def run(self) -> tuple[Victim, ...]:
        """Victims of whom nobody is too many, in their order; empty where nobody has to go, or no set is enough."""
        if not self._possible() or self._enough(()):
            return ()
        chosen = self._chosen()
        needed = pruned(chosen, enough=self._enough) if chosen else None
        self._only(())
        if not needed or len(self._ask(self._gang, needed)) < len(needed):
            return ()
        return needed

    def settle(self, victims: Sequence[Victim]) -> tuple[Spot, ...] | None:
        """Take the victims out and the gang's room; None, and nothing changed, where a plugin has a word against it."""
        self._only(victims)
        spots = self._room.place(self._needs, within=self._within)
        if not isinstance(spots, Shortage):
            placed = dict(self._gang.tally.placed)
            for pod in self._gang.pods:
                placed[pod.task] = placed.get(pod.task, 0) + 1
            if self._session.tiers.job_pipelined(self._gang, placed=placed) is None:
                return spots
            self._room.give_back(spots)
        self._only(())
        return None

    def _possible(self) -> bool:
        """Whether the needs could fit, one by one, if all candidates went: most gangs are turned away here."""
        free = self._among.freed(self._room.free, out=self._gone)
        for shape, count in self._needs:
            fits = np.where(self._open_rows(shape, self._within), np.int64(count), np.int64(0))
            for name, amount in shape.requests.items():
                column = self._room.layout.columns.get(name)
                if column is None:
                    return False
                np.minimum(fits, np.maximum(free[:, column], 0) // amount, out=fits)
            if int(fits.sum()) < count:
                return False
        return True

    def _chosen(self) -> list[Victim]:
        """Enough victims, or none: what is taken for pods of the gang meanwhile is given back."""
        taken: list[Spot] = []
        whole = all(self._place(shape, count, taken) for shape, count in self._needs)
        for spot in reversed(taken):
            self._room.give_back([spot])
        if not (whole and self._relieve()):
            self._only(())
            return []
        return sorted(self._out.values(), key=self._among.rank)

    def _place(self, shape: PodShape, count: int, taken: list[Spot]) -> bool:
        """Room for so many pods, where it is free, then on nodes that are opened, then in domains that are."""
        left = self._fill(shape, count, taken, within=self._within)
        if left and shape.minds_others:
            for obstacle in obstacles(self._among, shape, self._room.layout):
                left = self._clear_way(shape, left, taken, obstacle) if left else 0
        return not left

    def _clear_way(self, shape: PodShape, left: int, taken: list[Spot], obstacle: Obstacle) -> int:
        """Let pods go that are in the way in a whole domain; how many find no room even so."""
        listed = [each for each in obstacle.pods if each.pod.uid not in self._gone]
        gone = list(self._ask(self._gang, listed)) if listed else []
        for victim in gone:
            self._lose(victim)
        within = obstacle.rows if self._within is None else obstacle.rows & self._within
        after = self._fill(shape, left, taken, within=within) if gone else left
        if after == left:
            for victim in gone:
                self._regain(victim)
        return after

    def _fill(self, shape: PodShape, count: int, taken: list[Spot], *, within: Mask | None) -> int:
        """Room for pods within some nodes, where it is free, and then on nodes that are opened; how many find none."""
        spots = self._room.place_some(shape, count, within=within)
        taken += spots
        left = count - sum(spot.count for spot in spots)
        if not left:
            return 0
        mask: Mask = np.zeros(len(self._room.layout.names), dtype=np.bool_)
        ahead = self._among.prices(self._room, shape, within=self._open_rows(shape, within), out=self._gone)
        while left and ahead:
            _, _, _, row = heapq.heappop(ahead)
            mask[row] = True
            got = self._opened(shape, row, left, mask)
            mask[row] = False
            taken += got
            left -= sum(spot.count for spot in got)
            following = next((each for each in self._among.on(row) if each.pod.uid not in self._gone), None) if got else None
            if following is not None:
                heapq.heappush(ahead, (level_of(following), 1, self._among.rank(following), row))
        return left

    def _opened(self, shape: PodShape, row: int, left: int, mask: Mask) -> Sequence[Spot]:
        """Let pods go from a row until one more pod of the shape fits, no more than it takes; the places, taken."""
        listed = [each for each in self._among.on(row) if each.pod.uid not in self._gone]
        gone: list[Victim] = []
        for victim in self._ask(self._gang, listed):
            self._lose(victim)
            gone.append(victim)
            if self._fits(shape, row, mask):
                break
        else:
            for victim in gone:
                self._regain(victim)
            return ()
        for victim in reversed(gone[:-1]):  # whoever should go last is asked first whether it may stay
            self._regain(victim)
            if not self._fits(shape, row, mask):
                self._lose(victim)
        if shape.minds_others:
            return self._room.place_some(shape, left, within=mask)
        spot = Spot(row, shape, min(self._room.fits_on(shape, row), left))
        self._room.take(spot)
        return (spot,)

    def _fits(self, shape: PodShape, row: int, mask: Mask) -> bool:
        if self._room.fits_on(shape, row) < 1:
            return False
        if not shape.minds_others:
            return True
        spots = self._room.place_some(shape, 1, within=mask)  # pods around have a say too
        self._room.give_back(spots)
        return bool(spots)

    def _relieve(self) -> bool:
        """Let pods go, the first ones first, until the queue has room for the gang too."""
        if not self._limited or self._over() is None:
            return True
        left = [each for each in self._among if each.pod.uid not in self._gone]
        for victim in self._ask(self._gang, left):
            self._lose(victim)
            if self._over() is None:
                return True
        return False

    # --- judging -----------------------------------------------------------------------------------------------------

    def _enough(self, victims: Sequence[Victim]) -> bool:
        """Whether the gang fits if exactly these go."""
        self._only(victims)
        if self._limited and self._over() is not None:
            return False
        for shape, count in self._needs:
            open_to, fits, _ = self._room.known(shape)
            if int(np.minimum(fits[open_to if self._within is None else open_to & self._within], count).sum()) < count:
                return False
        spots = self._room.place(self._needs, within=self._within)
        if isinstance(spots, Shortage):
            return False
        self._room.give_back(spots)
        return True

    def _over(self) -> Reason | None:
        """The limit of its queue that the gang would pass; gangs that the hub admitted pass all."""
        return over(self._session, self._gang, self._needs)

    def _open_rows(self, shape: PodShape, within: Mask | None) -> Mask:
        admitted = self._room.admitted(shape)
        return admitted if within is None else admitted & within

    # --- changing ----------------------------------------------------------------------------------------------------

    def _only(self, victims: Iterable[Victim]) -> None:
        """Exactly these are out."""
        wanted: Mapping[str, Victim] = {victim.pod.uid: victim for victim in victims}
        for uid in [uid for uid in self._out if uid not in wanted]:
            self._regain(self._out[uid])
        for uid, victim in wanted.items():
            if uid not in self._out:
                self._lose(victim)

    def _lose(self, victim: Victim) -> None:
        self._out[victim.pod.uid] = victim
        self._room.give_back([_spot(victim)])
        self._session.turnover.lose(victim)

    def _regain(self, victim: Victim) -> None:
        del self._out[victim.pod.uid]
        self._room.take(_spot(victim))
        self._session.turnover.lose(victim, times=-1)
