"""How much may be promised beyond what is free: groups are let in while their minimum may still come true."""

from __future__ import annotations

from collections.abc import Mapping

from apis.vectors import ResourceVector


def beyond(
    request: ResourceVector,
    *,
    promised: Mapping[str, int],
    used: Mapping[str, int],
    available: Mapping[str, int],
    factor: float,
) -> ResourceVector:
    """What is missing to promise `request` too, empty when it may be: `available` times `factor`, less what is used and was
    promised before, counted only in resources that the request names."""
    missing = {}
    for name, amount in request.items():
        room = int(available.get(name, 0) * factor) - used.get(name, 0) - promised.get(name, 0)
        if amount > max(room, 0):
            missing[name] = amount - max(room, 0)
    return ResourceVector(missing)
