"""Time, chance and identity: the only module that reads the system.

Boot time (`CLOCK_BOOTTIME`) is what the protocol counts with, because it goes on while a machine sleeps; wall time is only
for stamps that people read. In the simulator all three are given, seeded and virtual.
"""

from __future__ import annotations

import asyncio
import datetime
import random
import time
import uuid
from typing import Protocol


class Clock(Protocol):
    """Boot-time seconds for deadlines, wall time for stamps, and waiting."""

    def boot(self) -> float:
        """Seconds on the boot-time clock; only differences mean anything."""
        ...

    def now(self) -> datetime.datetime:
        """Wall time, aware, UTC."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The machine's clocks."""

    def boot(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def now(self) -> datetime.datetime:
        return datetime.datetime.now(datetime.UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Chance:
    """Random numbers; seeded where a run must repeat. The system's entropy when `seed` is None."""

    def __init__(self, seed: int | None = None) -> None:
        self._random = random.Random(seed)

    def uniform(self, low: float, high: float) -> float:
        """A float in [low, high]."""
        return self._random.uniform(low, high)

    def below(self, limit: int) -> int:
        """An integer in [0, limit)."""
        return self._random.randrange(limit)

    def token(self, length: int) -> str:
        """Lower-case letters and digits without look-alikes, as Kubernetes generates names."""
        return "".join(self._random.choices("bcdfghjklmnpqrstvwxz2456789", k=length))


class Ids:
    """UUIDs; drawn from a Chance where a run must repeat."""

    def __init__(self, chance: Chance | None = None) -> None:
        self._chance = chance

    def uuid(self) -> str:
        """A random UUID as text."""
        if self._chance is None:
            return str(uuid.uuid4())
        return str(uuid.UUID(int=self._chance.below(1 << 128), version=4))


def stamp(moment: datetime.datetime) -> str:
    """RFC 3339 with whole seconds and Z, as Kubernetes `Time` has it."""
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_stamp(moment: datetime.datetime) -> str:
    """RFC 3339 with microseconds and Z, as Kubernetes `MicroTime` has it."""
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
