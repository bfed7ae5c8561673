"""What pods of one question set for one another: limits by topology domain, and how many pods are placed under them at once.

A question is answered in passes: each takes the best nodes in order, as many pods in a domain as it surely may have; after each
the room asks anew what holds. One pass is enough for pods that keep apart, two for pods that spread over one label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from member_agent.layout import UNBOUNDED, Amounts, Mask, Rows, Scores
from member_agent.topology import Counts, Topology
from policies.shapes import PodShape


@dataclass(frozen=True, slots=True)
class AtMost:
    """So many more pods in each domain of a label."""

    label: str
    topology: Topology
    left: Counts

    def sentence(self) -> str:
        """For people."""
        return f"one per {self.label} ({self.topology.size} of them)"


@dataclass(frozen=True, slots=True)
class Even:
    """No domain of a label more than `skew` above the one with the fewest pods, of the domains that count."""

    label: str
    topology: Topology
    count: Counts
    counted: Mask
    skew: int

    @property
    def fewest(self) -> int:
        """Pods in the emptiest domain that counts."""
        return int(self.count[self.counted].min()) if self.counted.any() else 0

    def sentence(self) -> str:
        """For people."""
        return f"no {self.label} may have {self.skew} more than the emptiest of {int(self.counted.sum())}"


@dataclass(frozen=True, slots=True)
class Together:
    """All of them in one domain of some labels, whichever."""

    label: str
    topology: Topology

    def sentence(self) -> str:
        """For people."""
        return f"all in one {self.label}"


Group = AtMost | Even | Together

FEW: Final = 32
"""Domains of which each is looked at by itself."""


@dataclass(frozen=True, slots=True)
class Company:
    """What pods that are there say of one shape now. `shut` names what rules rows out and which; `alone`: a node takes one pod
    of the question at most; `groups` limit the pods of the question among themselves."""

    shut: tuple[tuple[str, Mask], ...]
    alone: bool = False
    groups: tuple[Group, ...] = ()

    def closed(self) -> Mask | None:
        """Rows that take no pod; None where all are open. Not to be written to."""
        if not self.shut:
            return None
        masks = [closed for _, closed in self.shut]
        return masks[0] if len(masks) == 1 else np.logical_or.reduce(masks)

    def limited(self, fits: Amounts) -> Amounts:
        """Pods that fit by row, cut to what this allows."""
        closed = self.closed()
        open_to = np.minimum(fits, 1) if self.alone else fits
        return open_to if closed is None else np.where(closed, 0, open_to)


@dataclass(frozen=True, slots=True)
class Pull:
    """How much better pods around make each row, in units of its score; `anew`: each pod of the shape changes that."""

    scores: Scores
    anew: bool


class Near(Protocol):
    """Whoever knows what pods are around."""

    def company(self, shape: PodShape) -> Company | None:
        """What they say of the shape now; None for nothing."""
        ...

    def company_order(self, shape: PodShape, rows: Mask) -> Pull | None:
        """How much better they make each of the rows that are open to it; None where they tell no two apart."""
        ...


def one_pass(
    fits: Amounts, cost: Scores, groups: Sequence[Group], *, count: int, packs: bool, most: int
) -> tuple[Rows, Amounts]:
    """Rows and pods on them: at most `count`, of which `most` are placed in this pass, the cheapest first. `packs`: a node only
    gets better with every pod it is given, so it is filled before the next; else it gets one."""
    lone = len(groups) == 1 and most >= count
    quotas = [
        (group.topology, group.left if isinstance(group, AtMost) else _quota(group, fits, count, lone=lone))
        for group in groups
        if not isinstance(group, Together)
    ]
    rows = np.flatnonzero(fits > 0)
    for topology, quota in quotas:
        if topology.size <= FEW:
            rows = _cheapest(rows, topology.of_row[rows], cost, np.minimum(quota, count))
    rows = rows[np.argsort(cost[rows], kind="stable")]
    room = np.minimum(fits[rows], count if packs else 1)
    for topology, quota in quotas:
        room = _within(topology.of_row[rows], room, quota)
    before = np.cumsum(room) - room
    room = np.minimum(room, np.maximum(min(count, most) - before, 0))
    chosen = room > 0
    return rows[chosen], room[chosen]


def _cheapest(rows: Rows, domains: Rows, cost: Scores, quota: Counts) -> Rows:
    """Of each domain the cheapest rows, as many as the pods it may have: no more can be needed. Ties by row."""
    kept = []
    for domain, number in enumerate(quota.tolist()):
        inside = rows[domains == domain]
        if number < len(inside):
            costs = cost[inside]
            limit = np.partition(costs, number - 1)[number - 1] if number > 0 else -np.inf
            sure = inside[costs < limit]
            inside = np.concatenate((sure, inside[costs == limit][: max(number - len(sure), 0)]))
        kept.append(inside)
    return np.sort(np.concatenate(kept))


def _within(domains: Rows, room: Amounts, quota: Counts) -> Amounts:
    """`room` in its order, cut to the quota of each domain."""
    order = np.argsort(domains, kind="stable")
    ahead, wanted = domains[order], room[order]
    sums = np.cumsum(wanted)
    firsts = np.searchsorted(ahead, ahead, side="left")
    before = sums - wanted - (sums - wanted)[firsts]
    cut = np.empty_like(room)
    cut[order] = np.clip(quota[ahead] - before, 0, wanted)
    return cut


def _quota(group: Even, fits: Amounts, count: int, *, lone: bool) -> Counts:
    """Pods that each domain may surely have now. A lone limit is filled from the bottom: domains first come to the level that
    lets all `count` pods in, and only then above it."""
    fewest = group.fewest
    if lone:
        reach = np.bincount(group.topology.of_row, weights=np.minimum(fits, count), minlength=group.topology.size + 1).astype(
            np.int64
        )
        missing = np.maximum(_level(group, reach, count, fewest=fewest) - group.count, 0)
        missing[~group.counted] = 0
        if missing.any():
            return missing
    return np.maximum(fewest + group.skew - group.count, 0)


def _level(group: Even, reach: Counts, count: int, *, fewest: int) -> int:
    """The lowest number of pods that all domains that count must have for `count` more to find a place; the highest that they
    can have where not all do."""
    counted = group.counted
    if not counted.any():
        return fewest
    low, high = fewest, int((group.count + reach)[counted].min())
    while low < high:
        level = (low + high) // 2
        if int(np.minimum(reach, np.maximum(level + group.skew - group.count, 0)).sum()) >= count:
            high = level
        else:
            low = level + 1
    return low


def homes(together: Together, fits: Amounts, cost: Scores, *, count: int, most: int) -> list[Mask]:
    """Domains to try for pods that must sit together, the cheapest first: those that can hold all of them; where none can,
    those that hold the most. At most `most`."""
    of_row, size = together.topology.of_row, together.topology.size
    reach = np.bincount(of_row, weights=np.minimum(fits, count), minlength=size + 1)[:size]
    best = np.full(size + 1, np.inf)
    rows = np.flatnonzero(fits > 0)
    np.minimum.at(best, of_row[rows], cost[rows])
    able = np.flatnonzero(reach >= min(count, int(reach.max(initial=0)) or UNBOUNDED))
    order = able[np.argsort(best[able], kind="stable")][:most]
    return [of_row == domain for domain in order.tolist()]
