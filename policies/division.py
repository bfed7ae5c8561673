"""How replicas are divided over clusters (reference/karmada.md 3.6): seats go one by one to the highest votes / (2 seats + 1).

The method is Webster's, also called Sainte-Laguë's (Balinski and Young, Fair Representation, 1982). It is house-monotone: one
replica more never takes one away from a cluster, which is what keeps divisions steady.
"""

from __future__ import annotations

import enum
import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from apis.naming import fnv32a


class Strategy(enum.StrEnum):
    """How a policy wants replicas divided."""

    DUPLICATED = "Duplicated"
    STATIC = "StaticWeight"
    DYNAMIC = "DynamicWeight"
    AGGREGATED = "Aggregated"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A cluster that may get replicas. `room` is how many more it takes beside the `assigned`, which it runs already.

    `weight` counts for static weights only. `tier` 0 is filled first, overflow affinities are the tiers after it.
    """

    name: str
    room: int = 0
    assigned: int = 0
    weight: int = 0
    tier: int = 0


@dataclass(frozen=True, slots=True)
class Divided:
    """Replicas by cluster, in the order of names; clusters that get none are not named.

    `short` counts replicas that found no room: then nothing is divided. `beyond` says by how much a static weight asks for
    more than a cluster has room for: static weights are hard, so that is told and not changed.
    """

    replicas: Mapping[str, int] = field(default_factory=dict)
    short: int = 0
    beyond: Mapping[str, int] = field(default_factory=dict)


def divide(total: int, candidates: Iterable[Candidate], *, strategy: Strategy, uid: str = "", fresh: bool = False) -> Divided:
    """Divide `total` replicas.

    `uid` is that of the object, which breaks ties. `fresh` forgets what runs where (a rebalance was asked for); otherwise a
    cluster loses replicas only if the total shrinks, and gains only if it grows. A total below one divides to nothing.
    """
    known = sorted(candidates, key=lambda each: each.name)
    total = max(total, 0)
    if strategy is Strategy.DUPLICATED:
        return Divided({each.name: total for each in known if total})
    if strategy is Strategy.STATIC:
        return _by_static_weight(total, known, uid=uid)
    return _by_room(total, known, uid=uid, fresh=fresh, aggregated=strategy is Strategy.AGGREGATED)


def _by_static_weight(total: int, candidates: Sequence[Candidate], *, uid: str) -> Divided:
    votes = {each.name: each.weight for each in candidates if each.weight > 0}
    shares = webster(total, votes or {each.name: 1 for each in candidates}, uid=uid)
    beyond = {
        each.name: over
        for each in candidates
        if (over := shares.get(each.name, 0) - max(each.room, 0) - max(each.assigned, 0)) > 0
    }
    return Divided(shares, beyond=beyond, short=0 if candidates else total)


def _by_room(total: int, candidates: Sequence[Candidate], *, uid: str, fresh: bool, aggregated: bool) -> Divided:
    assigned = {each.name: each.assigned for each in candidates if each.assigned > 0}
    held = sum(assigned.values())
    if fresh:
        votes = {each.name: max(each.room, 0) + max(each.assigned, 0) for each in candidates}
        kept, missing = dict[str, int](), total
    elif total < held:
        votes, kept, missing = assigned, {}, total
    else:
        votes, kept, missing = {each.name: max(each.room, 0) for each in candidates}, assigned, total - held
    short = missing - sum(votes.values())
    if short > 0:
        return Divided(short=short)
    for tier in sorted({each.tier for each in candidates}):
        there = {each.name: votes.get(each.name, 0) for each in candidates if each.tier == tier}
        portion = min(missing, sum(there.values()))
        chosen = _prefix(portion, there, holding=assigned) if aggregated else there
        kept = _sum(kept, webster(portion, chosen, uid=uid))
        missing -= portion
    return Divided(dict(sorted(kept.items())))


def _prefix(total: int, votes: Mapping[str, int], *, holding: Mapping[str, int]) -> dict[str, int]:
    """The fewest clusters that hold the total: those with replicas first, then by votes."""
    chosen: dict[str, int] = {}
    for name in sorted(votes, key=lambda each: (each not in holding, -votes[each], each)):
        if sum(chosen.values()) >= total:
            break
        chosen[name] = votes[name]
    return chosen


def _sum(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    return {name: left.get(name, 0) + right.get(name, 0) for name in left.keys() | right.keys()}


def webster(total: int, votes: Mapping[str, int], *, uid: str = "") -> dict[str, int]:
    """Seats by party, by name, parties without seats left out; nothing where nobody has votes.

    Ties go to who has fewer seats, then to the smaller name, or to the larger one where the hash of `uid` is odd, so that many
    small objects do not all prefer the same cluster. Comparisons are exact.
    """
    parties = {name: count for name, count in votes.items() if count > 0}
    if total <= 0 or not parties:
        return {}
    seats = _certain(total, parties)
    names = sorted(parties, reverse=bool(uid) and fnv32a(uid) % 2 == 1)
    claims = [_Claim(parties[name], seats[name], rank, name) for rank, name in enumerate(names)]
    heapq.heapify(claims)
    for _ in range(total - sum(seats.values())):
        name, rank = claims[0].name, claims[0].rank
        seats[name] += 1
        heapq.heapreplace(claims, _Claim(parties[name], seats[name], rank, name))
    return {name: count for name, count in sorted(seats.items()) if count}


def _certain(total: int, votes: Mapping[str, int]) -> dict[str, int]:
    """Seats that every order of dispensing gives: those above the divisor at which rounding cannot exceed the total.

    With divisor d every party has the seats k with votes / (2k+1) > d / 2; their number is at most votes / d + 1/2, so that
    d = all / (total - parties / 2) never gives too many. What is left to dispense is about one seat a party.
    """
    everything, twice = sum(votes.values()), 2 * total - len(votes)
    if twice <= 0:
        return dict.fromkeys(votes, 0)
    return {name: max(0, -((everything - count * twice) // (2 * everything))) for name, count in votes.items()}


@dataclass(frozen=True, slots=True)
class _Claim:
    """A party's claim to the next seat; the smallest is served."""

    votes: int
    seats: int
    rank: int
    name: str

    def __lt__(self, other: _Claim) -> bool:
        mine, theirs = self.votes * (2 * other.seats + 1), other.votes * (2 * self.seats + 1)
        return (-mine, self.seats, self.rank) < (-theirs, other.seats, other.rank)
