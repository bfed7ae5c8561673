"""Placing pods of one shape where pods around have a say: pass by pass, each asking anew what holds (see `grouping`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from member_agent.grouping import Company, Near, Together, homes, one_pass
from member_agent.layout import Amounts, Mask, Scores, Spot
from policies.shapes import PodShape

HOMES: Final = 16
"""Domains that are tried for pods that must sit together."""
NOBODY: Final = Company(())


class Ground(Protocol):
    """The room that is asked: `seek` finds the best places on these rows without taking them."""

    def known(self, shape: PodShape) -> tuple[Mask, Amounts, Scores]: ...

    def seek(self, shape: PodShape, fits: Amounts, cost: Scores, count: int) -> list[Spot]: ...

    def packs(self, shape: PodShape, fits: Amounts, cost: Scores, count: int) -> bool: ...

    def change(self, spots: list[Spot], sign: int) -> None: ...


@dataclass(slots=True)
class Passes:
    """One question: `count` pods of a shape within some rows."""

    ground: Ground
    near: Near
    shape: PodShape
    within: Mask | None

    def run(self, count: int) -> list[Spot]:
        """Take as many places as there are; every row stands in the answer once."""
        company = self.near.company(self.shape) or NOBODY
        together = next((each for each in company.groups if isinstance(each, Together)), None)
        if together is None or count == 1:
            return self._fill(count, self.within, company)
        fits, cost = self._look(company, self.within)
        if not fits.any():
            return []
        for home in homes(together, fits, cost, count=count, most=HOMES):
            spots = self._fill(count, home if self.within is None else home & self.within, company)
            if sum(spot.count for spot in spots) == count:
                return spots
            self.ground.change(spots, -1)
        first = homes(together, fits, cost, count=count, most=1)[0]
        return self._fill(count, first if self.within is None else first & self.within, company)

    def _look(self, company: Company, within: Mask | None) -> tuple[Amounts, Scores]:
        """Pods that fit and cost of every row, as pods around have it."""
        open_to, fits, cost = self.ground.known(self.shape)
        closed = company.closed()
        if closed is not None:
            open_to = open_to & ~closed
        if within is not None:
            open_to = open_to & within
        fits, cost = np.where(open_to, fits, 0), np.where(open_to, cost, np.inf)
        return np.minimum(fits, 1) if company.alone else fits, cost

    def _fill(self, count: int, within: Mask | None, company: Company) -> list[Spot]:
        """`company` is what holds at first."""
        taken: dict[int, int] = {}
        left, packs = count, None
        while left:
            company = (self.near.company(self.shape) or NOBODY) if taken else company
            fits, cost = self._look(company, within)
            pull = self.near.company_order(self.shape, fits > 0)
            if pull is not None:
                cost = cost - pull.scores
            anew = pull is not None and pull.anew
            groups = tuple(each for each in company.groups if not isinstance(each, Together))
            if left == 1 or not (groups or anew):
                spots = self.ground.seek(self.shape, fits, cost, left)
                left_after = 0
            else:
                packs = self.ground.packs(self.shape, fits, cost, left) if packs is None else packs
                # Scores that every pod changes are asked again often while there are few of them.
                most = max((count - left) // 4, 1) if anew else left
                rows, numbers = one_pass(fits, cost, groups, count=left, packs=packs and not anew, most=most)
                spots = [Spot(row, self.shape, number) for row, number in zip(rows.tolist(), numbers.tolist(), strict=True)]
                left_after = left - sum(spot.count for spot in spots)
            if not spots:
                break
            self.ground.change(spots, 1)
            for spot in spots:
                taken[spot.row] = taken.get(spot.row, 0) + spot.count
            left = left_after
        return [Spot(row, self.shape, number) for row, number in taken.items()]
