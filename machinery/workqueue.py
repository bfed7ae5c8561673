"""A queue of keys to reconcile: each key once, never by two workers at a time, with delays and back-off per key.

The rules are those every Kubernetes controller relies on: a key added while it waits stays one entry; a key added while it
is processed is queued again once `done` is called; the earliest of several delays wins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar

from machinery.clock import Clock

K = TypeVar("K", bound=Hashable)


class QueueMetrics(Protocol):
    """What a queue tells about itself; see `machinery.metrics`."""

    def queued(self, depth: int) -> None:
        """A key was added; `depth` keys wait now."""
        ...

    def taken(self, depth: int, waited: float) -> None:
        """A worker took a key that had been ready for `waited` seconds."""
        ...

    def retried(self) -> None:
        """A key was put back after a failure."""
        ...


class WorkQueue(Generic[K]):
    """Keys to work on, in order of arrival.

    `base` and `limit` are seconds: the first failure of a key delays it by `base`, each further one by twice as much, never
    more than `limit`. Everything runs on the event loop of its user; nothing here is a task, so dropping the queue ends it.
    """

    def __init__(self, clock: Clock, *, base: float = 0.05, limit: float = 60.0, metrics: QueueMetrics | None = None) -> None:
        self._clock = clock
        self._base = base
        self._limit = limit
        self._metrics = metrics
        self._ready: asyncio.Queue[K] = asyncio.Queue()
        self._dirty: dict[K, float] = {}
        self._processing: set[K] = set()
        self._delayed: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}

    def __len__(self) -> int:
        """Keys ready for a worker; delayed ones and those being processed are not counted."""
        return self._ready.qsize()

    def measure(self, metrics: QueueMetrics) -> None:
        """Tell `metrics` from now on."""
        self._metrics = metrics
        metrics.queued(len(self))

    @property
    def idle(self) -> bool:
        """Nothing is ready and nothing is being processed; delayed keys may remain."""
        return not self._dirty and not self._processing

    def add(self, key: K) -> None:
        """Make `key` ready, at once or as soon as its present processing is done."""
        if key in self._dirty:
            return
        self._dirty[key] = self._clock.boot()
        if key not in self._processing:
            self._put(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Add `key` after so many seconds; an earlier delay that is pending stays."""
        if seconds <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        pending = self._delayed.get(key)
        if pending is not None:
            if pending.when() <= loop.time() + seconds:
                return
            pending.cancel()
        self._delayed[key] = loop.call_later(seconds, self._due, key)

    def retry(self, key: K, *, at_least: float = 0.0) -> float:
        """Add `key` after its back-off, or `at_least` so many seconds, and count one more failure; returns the delay."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = max(at_least, min(self._limit, self._base * 2.0 ** min(failures, 32)))
        if self._metrics is not None:
            self._metrics.retried()
        self.add_after(key, delay)
        return delay

    def failures(self, key: K) -> int:
        """How often `key` has failed since it was last forgotten."""
        return self._failures.get(key, 0)

    def forget(self, key: K) -> None:
        """`key` went well: its next failure starts the back-off anew."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """The next key; the caller owes a `done`."""
        key = await self._ready.get()
        since = self._dirty.pop(key)
        self._processing.add(key)
        if self._metrics is not None:
            self._metrics.taken(len(self), self._clock.boot() - since)
        return key

    def done(self, key: K) -> None:
        """Processing of `key` is over; it is ready again if it was added meanwhile."""
        self._processing.discard(key)
        if key in self._dirty:
            self._put(key)

    def _due(self, key: K) -> None:
        self._delayed.pop(key, None)
        self.add(key)

    def _put(self, key: K) -> None:
        self._ready.put_nowait(key)
        if self._metrics is not None:
            self._metrics.queued(len(self))
