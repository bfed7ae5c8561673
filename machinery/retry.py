"""Retrying, in one place: how long to wait after a failure."""

from __future__ import annotations

from machinery.clock import Chance
from machinery.errors import ApiError


def backoff(attempt: int, *, chance: Chance, base: float = 0.25, limit: float = 30.0, error: ApiError | None = None) -> float:
    """Seconds to wait after failure number `attempt` (from 1): doubling from `base` up to `limit`, jittered down to half of
    it so that many clients do not come back together, and never less than the server's Retry-After."""
    full = min(limit, base * 2.0 ** min(attempt - 1, 32))
    asked = error.retry_after if error is not None else None
    return max(asked or 0.0, chance.uniform(full / 2, full))
