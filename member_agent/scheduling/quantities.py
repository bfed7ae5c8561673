"""Amounts that groups ask for, as what pods ask for."""

from __future__ import annotations

from apis.vectors import ResourceVector


def plain(quota: ResourceVector) -> ResourceVector:
    """A quota-form vector (requests.*, limits.*, count/*) as what pods ask for."""
    amounts: dict[str, int] = {}
    for name, amount in quota.items():
        if name.startswith(("limits.", "count/")):
            continue
        amounts[name.removeprefix("requests.")] = amount
    return ResourceVector(amounts)
