"""The best places for pods of one shape, as if they were placed one after the other, each on the best node there is then.

Pure: what is known of the nodes goes in, places come out, and none is taken.
"""

from __future__ import annotations

from typing import Final, Protocol

import numpy as np

from member_agent.layout import Amounts, Rows, Scores, Spot
from policies.shapes import PodShape

FIRST_LEVELS: Final = 4
"""Pods on one node that are looked at together before twice as many are."""


class Ground(Protocol):
    """Whoever knows what more pods on a node would cost."""

    @property
    def fills(self) -> bool:
        """Whether every node only gets better with every pod it is given, whatever it is."""
        ...

    def levels(self, shape: PodShape, rows: Rows, levels: int) -> Scores:
        """Cost of every row for its first pod, its second, … as (rows, levels)."""
        ...


def seat_one(shape: PodShape, rows: Rows | None, fits: Amounts, cost: Scores) -> list[Spot]:
    """The best place among some rows, among all where `rows` is None; `fits` and `cost` are by row."""
    costs = cost if rows is None else cost.take(rows)
    if not len(costs):
        return []
    place = int(costs.argmin())
    row = place if rows is None else int(rows[place])
    return [Spot(row, shape, 1)] if fits[row] > 0 else []


def seat(ground: Ground, shape: PodShape, rows: Rows | None, fits: Amounts, cost: Scores, count: int) -> list[Spot]:
    """The best places for up to `count` pods among some rows, which stand in order, or among all of them; each row once."""
    chosen = best(cost, count) if rows is None else rows[best(cost.take(rows), count)]
    chosen = chosen[fits[chosen] > 0]
    room = np.minimum(fits[chosen], count)
    if not len(chosen) or packs(ground, shape, chosen, cost[chosen], room):
        filled = np.cumsum(room)
        chosen = chosen[: int(np.searchsorted(filled, count)) + 1]
        numbers = np.minimum(room[: len(chosen)], np.maximum(count - filled[: len(chosen)] + room[: len(chosen)], 0))
    else:
        chosen = np.sort(chosen)
        numbers = _spread(ground, shape, chosen, np.minimum(fits[chosen], count), count)
    return [Spot(row, shape, number) for row, number in zip(chosen.tolist(), numbers.tolist(), strict=True) if number]


def packs(ground: Ground, shape: PodShape, rows: Rows, cost: Scores, room: Amounts) -> bool:
    """A node only gets better with every pod it is given: then the best one is filled first."""
    if ground.fills:
        return True
    more = rows[room > 1]
    return not len(more) or bool((ground.levels(shape, more, 2)[:, 1] <= cost[room > 1]).all())


def _spread(ground: Ground, shape: PodShape, rows: Rows, room: Amounts, count: int) -> Amounts:
    """Pods by row on the cheapest places, a node's second pod never before its first; looks as deep as needed."""
    deepest = int(room.max())
    levels = min(FIRST_LEVELS, deepest)
    while True:
        cost = np.maximum.accumulate(ground.levels(shape, rows, levels), axis=1)
        cost[np.arange(levels) >= room[:, None]] = np.inf
        order = np.argsort(cost, axis=None, kind="stable")[:count]
        order = order[np.isfinite(cost.ravel()[order])]
        numbers = np.bincount(order // levels, minlength=len(rows)).astype(np.int64)
        if levels == deepest or not ((numbers == levels) & (room > levels)).any():
            return numbers
        levels = min(levels * 2, deepest)


def best(cost: Scores, count: int) -> Rows:
    """The `count` cheapest places, the cheapest first, ties by their order. No more can be needed for as many pods."""
    if count < len(cost):
        limit = np.partition(cost, count - 1)[count - 1]
        sure = np.flatnonzero(cost < limit)
        places = np.concatenate((sure, np.flatnonzero(cost == limit)[: count - len(sure)]))
    else:
        places = np.arange(len(cost))
    return places[np.argsort(cost[places], kind="stable")]
