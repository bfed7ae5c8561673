"""Room that is being cleared for one gang: until it starts there, or gives up, nobody else gets it (protocol.md 6, earmark).

An eviction and the earmark of its beneficiary are one plan item. What is told here lives in the memory of the controller as
frozen values; a successor reads it from the nominated nodes of the pods. Pure: times are arguments, boot-clock seconds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from machinery.informer import Key
from member_agent.scheduling.reasons import Reason
from member_agent.views import PodView
from policies.shapes import PodShape


@dataclass(frozen=True, slots=True)
class Place:
    """Room for so many pods of one shape on one node."""

    node: str
    shape: PodShape
    count: int


@dataclass(frozen=True, slots=True)
class Earmark:
    """What is kept for a gang. `sure`: everybody who must leave for it was told to, as far as is known."""

    gang: Key
    queue: str
    places: tuple[Place, ...]
    sure: bool = True

    @property
    def pods(self) -> int:
        """For how many pods room is kept."""
        return sum(place.count for place in self.places)


@dataclass(slots=True)
class _Kept:
    earmark: Earmark
    until: float
    victims: dict[str, str]
    """Pods that leave for it and are still there, by UID, with their nodes."""
    evicted: int = 0


@dataclass(frozen=True, slots=True)
class Ended:
    """An earmark that ended without a start: whose it was, how many pods were evicted for nothing, and why."""

    gang: Key
    evicted: int
    reason: Reason


class Earmarks:
    """The earmarks of one scheduler, and who may not have others evicted again before something has changed for it."""

    def __init__(self, *, wait: float) -> None:
        """`wait`: seconds that a gang has after the last victim should have gone."""
        self._wait = wait
        self._kept: dict[Key, _Kept] = {}
        self._spent: dict[Key, object] = {}

    # --- reading -----------------------------------------------------------------------------------------------------

    def told(self) -> tuple[Earmark, ...]:
        """What is kept, by gang."""
        return tuple(self._kept[key].earmark for key in sorted(self._kept))

    def of(self, key: Key) -> Earmark | None:
        """What is kept for a gang."""
        kept = self._kept.get(key)
        return kept.earmark if kept is not None else None

    def going(self) -> frozenset[str]:
        """UIDs of the pods that leave for somebody."""
        return frozenset(uid for kept in self._kept.values() for uid in kept.victims)

    def spent(self, now_is: Mapping[Key, object]) -> frozenset[Key]:
        """Gangs that had others evicted for nothing; one for which something has changed since (`now_is`) is forgotten."""
        self._spent = {key: was for key, was in self._spent.items() if now_is.get(key) == was}
        return frozenset(self._spent)

    @property
    def gave_up(self) -> tuple[Key, ...]:
        """Gangs that `spent` has to be told about."""
        return tuple(self._spent)

    def soonest(self) -> float:
        """When the first gang has to give up; infinite where none waits."""
        return min((kept.until for kept in self._kept.values()), default=float("inf"))

    # --- what happens ------------------------------------------------------------------------------------------------

    def keep(self, earmark: Earmark, *, victims: Iterable[PodView] = (), now: float) -> None:
        """A plan said so: room is kept, or another amount of it than before. `victims` leave for it."""
        leaving = {pod.uid: pod for pod in victims}
        kept = self._kept.get(earmark.gang)
        until = now + max((pod.manner.grace for pod in leaving.values()), default=0) + self._wait
        if kept is None:
            kept = self._kept[earmark.gang] = _Kept(earmark, until, {})
        kept.earmark = earmark
        kept.until = max(kept.until, until) if leaving else kept.until
        kept.victims.update({uid: pod.node for uid, pod in leaving.items()})
        kept.evicted += len(leaving)

    def gone(self, uid: str) -> None:
        """A victim has left."""
        for kept in self._kept.values():
            kept.victims.pop(uid, None)

    def stays(self, uid: str, *, why: str) -> Ended | None:
        """A victim could not be evicted: nothing is kept on its node any more, and a gang whose minimum was to stand there
        starts anew. What became of the earmark, if it ended."""
        for key, kept in self._kept.items():
            node = kept.victims.pop(uid, None)
            if node is None:
                continue
            kept.evicted -= 1
            left = tuple(place for place in kept.earmark.places if place.node != node)
            if left and len(left) < len(kept.earmark.places):
                kept.earmark = dataclasses.replace(kept.earmark, places=left, sure=False)
                return None
            if left:
                return None
            del self._kept[key]
            return Ended(key, kept.evicted, Reason("EvictionFailed", why))
        return None

    def started(self, key: Key) -> None:
        """The gang starts."""
        self._kept.pop(key, None)
        self._spent.pop(key, None)

    def drop(self, key: Key, *, reason: Reason, was: object = None) -> Ended | None:
        """The gang gives up or has gone. `was`: what must change before it may have others evicted again."""
        kept = self._kept.pop(key, None)
        if kept is None:
            return None
        if was is not None:
            self._spent[key] = was
        return Ended(key, kept.evicted, reason)

    def forget(self, key: Key) -> None:
        """The group has gone: nothing is remembered of it."""
        self._spent.pop(key, None)

    def overdue(self, *, now: float) -> list[Key]:
        """Gangs that did not start in time, in order."""
        return sorted(key for key, kept in self._kept.items() if kept.until <= now)


def remembered(pods: Iterable[PodView], *, queues: Mapping[Key, str]) -> list[Earmark]:
    """What a scheduler before this one kept, as pods without nodes say by their nominated nodes; `queues` by gang."""
    found: dict[Key, dict[tuple[str, PodShape], int]] = {}
    for pod in sorted(pods, key=lambda each: (each.namespace, each.group, each.nominated, each.name)):
        key = (pod.namespace, pod.group)
        if pod.nominated and not pod.node and not pod.ended and key in queues:
            places = found.setdefault(key, {})
            places[pod.nominated, pod.shape] = places.get((pod.nominated, pod.shape), 0) + 1
    return [
        Earmark(key, queues[key], tuple(Place(node, shape, count) for (node, shape), count in places.items()), sure=False)
        for key, places in sorted(found.items())
    ]
