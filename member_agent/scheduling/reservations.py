"""What is kept on nodes for the first gang that finds no room, as a value that is remembered from round to round, and what of
the free room there is nobody else's.

The gang starts there when on every node as much is free as it wants. Whoever passes it must not move that moment, whatever ends
first. Where more is free than it wants already, the rest is open. Where too little is, sums of what is there and may end are
multiples of the greatest common divisor of the amounts: when they suffice they suffice by what is missing to the next multiple,
and so much may others have; nothing else. Pods that passed may end too, which only helps. What pods of others hold (daemons,
other schedulers) never counts as coming back. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from apis.vectors import ResourceVector
from machinery.informer import Key
from member_agent.scheduling.earmarks import Place
from member_agent.scheduling.tenants import Tenant


@dataclass(frozen=True, slots=True)
class Reservation:
    """Where a gang is going to start. `whole`: nobody else is placed on these nodes, because more than amounts decides there;
    else `kept`, by node, is what of the free room nobody else gets. `shadow`: when at the latest so much has ended that it
    starts (wall clock), endless where nobody enforces that."""

    gang: Key
    name: str
    places: tuple[Place, ...]
    whole: bool = False
    kept: tuple[tuple[str, ResourceVector], ...] = ()
    shadow: float = math.inf

    @property
    def nodes(self) -> tuple[str, ...]:
        """Where it is, by name."""
        return tuple(sorted({place.node for place in self.places}))

    def wants(self) -> Mapping[str, ResourceVector]:
        """What it wants on each node."""
        found: dict[str, ResourceVector] = {}
        for place in self.places:
            found[place.node] = found.get(place.node, ResourceVector()) + place.shape.requests * place.count
        return found


def kept_of(wanted: ResourceVector, free: Mapping[str, int], tenants: Iterable[Tenant]) -> ResourceVector:
    """What of the free room of a node is kept for a gang that wants so much there."""
    listed = [each.requests for each in tenants]
    found = {}
    for name, amount in wanted.items():
        left = max(free.get(name, 0), 0)
        missing = amount - free.get(name, 0)
        if missing <= 0:
            found[name] = amount
            continue
        step = math.gcd(*(requests.get(name) for requests in listed))
        found[name] = left - min(left, -missing % step) if step else left
    return ResourceVector(found)


def shadow_of(wanted: ResourceVector, free: Mapping[str, int], tenants: Iterable[Tenant]) -> float:
    """When at the latest so much is free on a node, by the ends that somebody enforces."""
    at, missing = 0.0, {name: amount - free.get(name, 0) for name, amount in wanted.items()}
    for tenant in sorted(tenants, key=lambda each: each.ends):
        if all(amount <= 0 for amount in missing.values()):
            break
        at = tenant.ends
        for name in missing:
            missing[name] -= tenant.requests.get(name)
    return at if all(amount <= 0 for amount in missing.values()) else math.inf
