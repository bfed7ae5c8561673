"""Limits of queues, as sentences with numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from apis.vectors import ResourceVector, spoken
from member_agent.scheduling.plugins.protocol import Allowance
from member_agent.scheduling.reasons import Reason

QUEUE_FULL: Final = "QueueFull"


def at_limit(held: Mapping[str, int], limit: Mapping[str, int]) -> str:
    """`cpu 96 of 96, memory 3Gi of 4Gi`."""
    return ", ".join(
        f"{name} {spoken(name, milli=held.get(name, 0))} of {spoken(name, milli=amount)}"
        for name, amount in sorted(limit.items())
    )


def over_limit(
    queue: str, held: Mapping[str, int], limit: ResourceVector, *, request: ResourceVector, pods: int, of: str
) -> Allowance:
    """How many of `pods` equal pods stay within the limit in every resource they ask for, and which limit stops the rest.
    `limit` names all there is: of a resource that it does not name there is nothing."""
    fit = pods
    for name, amount in request.items():
        if amount > 0:
            left = limit.get(name) - held.get(name, 0)
            if left < fit * amount:
                fit = max(left, 0) // amount
    if fit >= pods:
        return Allowance(pods)
    beside = ResourceVector({name: limit.get(name) - held.get(name, 0) for name in request})
    short = [name for name, amount in request.items() if amount * (fit + 1) > max(beside.get(name), 0)]
    at = at_limit(held, {name: limit.get(name) for name in short})
    asked = ResourceVector({name: request.get(name) for name in short})
    wanted = f"{pods} × {asked} asked for, {fit} fit" if pods > 1 else f"{asked} asked for"
    return Allowance(fit, Reason(QUEUE_FULL, f"queue {queue} is at {at} of {of}: {wanted}"))
