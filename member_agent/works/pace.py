"""How many status writes per second reach the hub, and whose turn it is: phases before counters (protocol.md 7)."""

from __future__ import annotations

from machinery.clock import Clock

RESERVE = 0.25
"""Share of the burst that only urgent writes may use."""

SHORTEST = 0.001
"""Seconds; the shortest wait for a turn."""


class Pace:
    """A token bucket of one second's writes; those that are not urgent leave the last quarter to those that are."""

    def __init__(self, clock: Clock, *, per_second: float) -> None:
        self._clock = clock
        self._rate = per_second
        self._tokens = per_second
        self._at = clock.boot()

    async def turn(self, *, urgent: bool) -> None:
        """Wait for a turn."""
        floor = 1.0 if urgent else 1.0 + self._rate * RESERVE
        while True:
            self._refill()
            if self._tokens >= min(floor, self._rate):
                self._tokens -= 1.0
                return
            # Never less than the clock can tell: a wait that rounds to nothing would be asked for again and again.
            await self._clock.sleep(max((min(floor, self._rate) - self._tokens) / self._rate, SHORTEST))

    def _refill(self) -> None:
        now = self._clock.boot()
        self._tokens = min(self._rate, self._tokens + (now - self._at) * self._rate)
        self._at = now
