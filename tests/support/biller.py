"""A biller that knows nothing of the hub: it prices what ran by start and end of each container, as the nodes recorded them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from simulator.world import World

HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Bill:
    """Hours by resource (cores, GiB) and money."""

    hours: Mapping[str, float]
    money: float


def bill(world: World, *, cluster: str, asks: Mapping[str, Mapping[str, float]], prices: Mapping[str, float]) -> Bill:
    """All that ended in a cluster. `asks`: by Job, namespace/name, cores and GiB of one of its pods."""
    hours = dict.fromkeys(prices, 0.0)
    for record in world.records:
        if record.cluster != cluster or record.end is None or record.job not in asks:
            continue
        for name, amount in asks[record.job].items():
            hours[name] += amount * (record.end - record.start) / HOUR
    return Bill(hours, sum(hours[name] * price for name, price in prices.items()))
