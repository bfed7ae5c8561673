"""When the hub last answered: asked for only while somebody wants to know."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from apis import keys, kinds
from machinery import errors
from machinery.clock import Clock
from machinery.metrics import Metrics
from machinery.port import Port

EVERY: Final = 20.0
"""Seconds between questions: many in the five minutes that a hold outlives the hub, and nothing for an API server."""


class HubContact:
    """`wanted` says whether anybody still wants to know; asking begins with the first question to `heard`."""

    def __init__(self, hub: Port, *, namespace: str, clock: Clock, wanted: Callable[[], bool], every: float = EVERY) -> None:
        self._hub = hub
        self._namespace = namespace
        self._clock = clock
        self._wanted = wanted
        self._every = every
        self._asking = asyncio.Event()
        self._heard = clock.boot()

    def heard(self) -> float:
        """Boot-clock seconds before the last question that got an answer. Now, where nobody wanted to know until now: it is
        not known to be away then."""
        if not self._asking.is_set():
            self._heard = self._clock.boot()
            self._asking.set()
        return self._heard

    async def run(self, metrics: Metrics | None = None) -> None:
        """Until cancelled."""
        while True:
            await self._asking.wait()
            if not self._wanted():
                self._asking.clear()
                continue
            before = self._clock.boot()
            if await self._answers():
                self._heard = before
            await self._clock.sleep(self._every)

    async def _answers(self) -> bool:
        try:
            await self._hub.get(kinds.LEASE, keys.MEMBER_LEASE, namespace=self._namespace)
        except errors.ApiError as error:
            return not isinstance(error, errors.Unreachable)  # a refusal is an answer too
        return True
