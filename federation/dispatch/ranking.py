"""Which of the clusters that passed is best, in columns: the order of `policies.profiles.ranked`, for all clusters at once.

A law holds that both agree. Scores that have no column are asked cluster by cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from apis.vectors import ResourceVector
from policies import estimates, scores
from policies.estimates import Demand
from policies.filters import Question
from policies.fit import Array
from policies.ground import Floats, Ground, Mask
from policies.members import ClusterView
from policies.profiles import COST, EFFICIENCY, Profile
from policies.ways import Found


@dataclass(frozen=True, slots=True)
class Field:
    """By cluster, what ranking looks at. `left` is everything that is free, by resource of the ground and cluster."""

    passed: Mask
    sure: Mask
    whole: Mask
    penalty: Floats
    tier: Array
    left: Array
    known: Mask
    """Clusters whose room is known."""
    ground: Ground
    clusters: Sequence[ClusterView]
    ask: Callable[[int], Question]


@dataclass(frozen=True, slots=True)
class Order:
    """Clusters that passed, the best first, each with its best way (`ways`: row of what was found); `totals` and `scores` by
    place in the order."""

    members: Array
    ways: Array
    totals: Floats
    scores: Mapping[str, Floats]

    @classmethod
    def empty(cls) -> Order:
        """Nobody passed."""
        none = np.zeros(0, dtype=np.int64)
        return cls(none, none, np.zeros(0), {})

    def rounded(self, place: int) -> dict[str, int]:
        """Scores of one cluster, for people."""
        return {name: round(float(column[place])) for name, column in self.scores.items()}


def ranked(field: Field, found: Found, *, demand: Demand, profile: Profile) -> Order:
    """Whole before partial, sure before unsure, then by the profile's total less the penalty's share, then by the sum of all
    scores, money, time and name; overflow tiers after one another."""
    member = found.member
    alone = _alone(field, demand)
    by_way = {name: column[member] for name, column in alone.items()}
    by_way[COST] = _shares(found.money)
    by_way[EFFICIENCY] = _shares(found.finish)
    nothing = np.zeros(len(member))
    weighed = {name: by_way.get(name, nothing) for name in sorted(profile.weights)}
    mean = nothing
    for name, column in weighed.items():
        mean = mean + column * profile.weights[name]
    mean = mean / (sum(profile.weights.values()) or 1)
    total = mean * (1 - field.penalty[member])
    everything = nothing
    for column in by_way.values():
        everything = everything + column
    # Ways come by cluster and name: what is equal in all else stays in that order.
    keys = (found.finish, found.money, -everything, -total, ~field.sure[member], ~field.whole[member], field.tier[member])
    order = np.lexsort(keys)
    first = np.full(len(field.clusters), -1, dtype=np.int64)
    first[member[order[::-1]]] = np.arange(len(order) - 1, -1, -1)  # the last written of a cluster is its first in order
    best = order[np.sort(first[first >= 0])]
    return Order(member[best], found.rows[best], total[best], {name: column[best] for name, column in weighed.items()})


def _shares(values: Floats) -> Floats:
    """As `profiles` shares the best among all: 0 for what nobody knows."""
    known = ~np.isinf(values)
    least = float(values[known].min()) if known.any() else 0.0
    found = np.zeros(len(values))
    over = known & (values > least)
    found[known] = 100.0
    found[over] = 100.0 * least / values[over]
    return found


def _alone(field: Field, demand: Demand) -> dict[str, Floats]:
    """Scores that judge one cluster, in the order in which they add up."""
    count = len(field.clusters)
    found: dict[str, Floats] = {}
    for name, score in scores.SCORES.items():
        if name == "balance":
            found[name] = _balance(field, demand.gang.requests) * field.known
        elif name == "packing":
            found[name] = (100.0 - _balance(field, demand.gang.requests)) * field.known
        elif name == "stability":
            found[name] = np.clip(np.rint(100 * (1 - field.penalty)), 0, 100)
        else:
            found[name] = np.zeros(count)
            for at in np.flatnonzero(field.passed).tolist():
                found[name][at] = float(score(field.ask(at)))
    found["locality"] = np.full(count, 100.0)
    for at in np.flatnonzero(field.passed).tolist() if demand.reads else ():
        found["locality"][at] = estimates.locality(demand.reads, field.clusters[at])
    return found


def _balance(field: Field, requests: ResourceVector) -> Floats:
    """As `policies.scores.balance`."""
    largest = np.zeros(field.left.shape[1])
    rows = {name: at for at, name in enumerate(field.ground.resources)}
    for name, amount in requests.items():
        if amount > 0:
            free = field.left[rows[name]] if name in rows else np.zeros(field.left.shape[1], dtype=np.int64)
            largest = np.maximum(largest, float(amount) / np.maximum(free, 1).astype(np.float64))
    return np.clip(np.rint(100 * (1 - largest)), 0, 100)
