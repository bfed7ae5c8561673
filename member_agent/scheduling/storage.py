"""Volumes, as one session sees them: the frozen look, and what the session itself has given away since."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from member_agent.grouping import AtMost, Company, Group
from member_agent.layout import UNBOUNDED, Layout, Mask
from member_agent.room import Spot
from member_agent.topology import Counts, Topology
from member_agent.volumes import NONE, Storage
from policies.shapes import PodShape
from policies.volumes import Attachment, Offer, Reach, VolumeNeeds, Wanted

HELD, FULL, NO_VOLUME, OUT_OF_REACH, OTHER_ZONE = (
    "out because another pod has the claim",
    "with as many volumes as the driver attaches",
    "without a volume to have",
    "out of reach of its volumes",
    "in another zone than its volumes",
)


class Stock:
    """What is left of offers, attachments and claims for one pod."""

    def __init__(self, layout: Layout, storage: Storage = NONE) -> None:
        self._layout = layout
        self._storage = storage
        self._taken: set[str] = set()
        self._shared: dict[str, Offer | None] = {}
        """By claim that several pods use: the volume of the first of them; None: it is made."""
        self._sharers: Counter[str] = Counter()
        self._given: dict[tuple[int, PodShape], list[tuple[str, ...]]] = {}
        self._single: Counter[str] = Counter()
        self._attached: dict[int, Counter[Attachment]] = {}
        self._made: dict[int, Counter[str]] = {}

    def company(self, shape: PodShape, *, binding: bool, zones: bool, limits: bool) -> Company | None:
        """What the shape's volumes allow now; None where they allow everything."""
        needs = shape.volumes
        if needs is None:
            return None
        shut: list[tuple[str, Mask]] = []
        groups: list[Group] = []
        if zones:
            shut += [(OTHER_ZONE, ~self._reached(each)) for each in needs.zones]
        if binding:
            shut += [(OUT_OF_REACH, ~self._reached(each)) for each in needs.reaches]
            groups += self._bind(needs, shut)
        if limits:
            groups += self._limit(needs, shut)
        return Company(tuple(shut), groups=tuple(groups)) if shut or groups else None

    def told(self, spot: Spot, sign: int) -> None:
        """A spot was taken (1) or given back (-1)."""
        needs = spot.shape.volumes
        if needs is None:
            return
        for name in needs.single:
            self._single[name] += sign * spot.count
        attached = self._attached.setdefault(spot.row, Counter())
        for each in needs.attached:
            attached[each] += sign * spot.count
        made = self._made.setdefault(spot.row, Counter())
        given = self._given.setdefault((spot.row, spot.shape), [])
        for _ in range(spot.count):
            if sign > 0:
                names = self._choose(needs, spot.row)
                given.append(names)
            else:
                names = given.pop() if given else ()
            for wanted, name in zip(needs.wanted, names, strict=False):
                made[wanted.driver] += self._settle(wanted, name, sign)

    def _settle(self, wanted: Wanted, name: str, sign: int) -> int:
        """Enter what one claim got, "" for a volume that is made, or take it out; how many more are made by it."""
        if wanted.claim:
            self._sharers[wanted.claim] += sign
            if self._sharers[wanted.claim] == (1 if sign > 0 else 0):
                found = next((each for each in self._storage.offers if each.name == name), None)
                self._shared.update({wanted.claim: found}) if sign > 0 else self._shared.pop(wanted.claim, None)
            else:
                return 0
        if name:
            (self._taken.add if sign > 0 else self._taken.discard)(name)
            return 0
        return sign

    # --- binding -----------------------------------------------------------------------------------------------------

    def _bind(self, needs: VolumeNeeds, shut: list[tuple[str, Mask]]) -> Iterator[Group]:
        size = len(self._layout.names)
        if needs.problem:
            shut.append((f"cannot have its volumes ({needs.problem})", np.ones(size, dtype=np.bool_)))
            return
        if needs.single:
            if any(self._single[name] > 0 for name in needs.single):
                shut.append((HELD, np.ones(size, dtype=np.bool_)))
            yield AtMost("claim", self._whole(), np.array([1, UNBOUNDED], dtype=np.int64))
        kinds = Counter(needs.wanted)
        if not kinds:
            return
        left = np.full(size + 1, UNBOUNDED, dtype=np.int64)
        far = False
        for wanted, number in kinds.items():
            if wanted.claim in self._shared:
                given = self._shared[wanted.claim]
                left[:size] = np.where(self._reached(given.reach if given is not None else ()), left[:size], 0)
                continue
            counts, shared = self._static(wanted)
            far |= shared or bool(wanted.claim)
            count = counts // number
            if wanted.made is not None:
                count = np.where(self._reached(wanted.made), UNBOUNDED, count)
            left[:size] = np.minimum(left[:size], count)
        if len([wanted for wanted in kinds if wanted.made is None]) > 1:
            # Claims of different sizes may want the same volume: tried out, and then pod by pod.
            for row in np.flatnonzero(left[:size] > 0).tolist():
                left[row] = 0 if None in self._tried(needs, row) else left[row]
            far = True
        shut.append((NO_VOLUME, left[:size] <= 0))
        if far:
            yield AtMost("volume", self._whole(), np.array([1, UNBOUNDED], dtype=np.int64))
        elif (left[:size] < UNBOUNDED).any():
            yield AtMost("volume", Topology(np.arange(size), size, single=True), left)

    def _static(self, wanted: Wanted) -> tuple[Counts, bool]:
        """Volumes by row that a claim may have, and whether any of them reaches more than one row."""
        counts, shared = np.zeros(len(self._layout.names), dtype=np.int64), False
        for offer in self._offers(wanted):
            rows = self._reached(offer.reach)
            counts += rows
            shared |= int(rows.sum()) > 1
        return counts, shared

    def _offers(self, wanted: Wanted) -> Iterator[Offer]:
        return (each for each in self._storage.offers if each.name not in self._taken and each.fits(wanted))

    def _reached(self, reach: Reach) -> Mask:
        if not reach:
            return np.ones(len(self._layout.names), dtype=np.bool_)
        known = self._layout.topologies.masks.get(("reach", reach))
        if known is None:
            known = np.zeros(len(self._layout.names), dtype=np.bool_)
            for term in reach:
                known = known | self._layout.matching(term)
            self._layout.topologies.masks["reach", reach] = known
        return known

    def _tried(self, needs: VolumeNeeds, row: int) -> list[str | None]:
        """The volume of each claim on one row, "" where one is made, None where there is none."""
        taken: set[str] = set()
        found: list[str | None] = []
        for wanted in needs.wanted:
            if wanted.claim in self._shared:
                given = self._shared[wanted.claim]
                found.append("" if given is None else given.name if self._reached(given.reach)[row] else None)
                continue
            offers = (each for each in self._offers(wanted) if each.name not in taken and self._reached(each.reach)[row])
            offer = next(offers, None)
            if offer is not None:
                taken.add(offer.name)
                found.append(offer.name)
            else:
                found.append("" if wanted.made is not None and self._reached(wanted.made)[row] else None)
        return found

    def _choose(self, needs: VolumeNeeds, row: int) -> tuple[str, ...]:
        return tuple(name or "" for name in self._tried(needs, row)) if needs.wanted else ()

    def _whole(self) -> Topology:
        """All rows as one domain."""
        return Topology(np.zeros(len(self._layout.names), dtype=np.intp), 1, single=False)

    # --- limits ------------------------------------------------------------------------------------------------------

    def _limit(self, needs: VolumeNeeds, shut: list[tuple[str, Mask]]) -> Iterator[Group]:
        if not self._storage.limits or not (needs.attached or needs.wanted):
            return
        size = len(self._layout.names)
        left = np.full(size + 1, UNBOUNDED, dtype=np.int64)
        fresh = Counter(each.driver for each in needs.wanted if each.driver and each.claim not in self._shared)
        drivers = {*fresh, *(driver for driver, _ in needs.attached)}
        for node, limits in self._storage.limits.items():
            row = self._layout.rows.get(node)
            if row is None or not drivers & limits.keys():
                continue
            left[row] = min(self._room(needs, fresh, row, driver, limits[driver]) for driver in drivers & limits.keys())
        shut.append((FULL, left[:size] <= 0))
        if fresh:
            yield AtMost("volume", Topology(np.arange(size), size, single=True), left)

    def _room(self, needs: VolumeNeeds, fresh: Counter[str], row: int, driver: str, limit: int) -> int:
        """Pods that a driver's limit on one row still lets in."""
        there = {each for each in self._storage.attached.get(self._layout.names[row], ()) if each[0] == driver}
        there |= {each for each, count in self._attached.get(row, Counter()).items() if count > 0 and each[0] == driver}
        free = limit - len(there) - self._made.get(row, Counter())[driver]
        free -= len({each for each in needs.attached if each[0] == driver} - there)
        if free < 0:
            return 0
        return free // fresh[driver] if fresh[driver] else UNBOUNDED
