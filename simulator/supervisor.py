"""Actors and who keeps them running: what a kubelet does for the pods of hub and agents."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from machinery.clock import Clock
from simulator.faults import ActorKilled, Faults, Life

RESTART_DELAY = 5.0
"""Seconds from the end of a process to its next start."""


@dataclass(eq=False)
class Supervisor:
    """Runs one actor for as long as it is not stopped, one life after the other.

    `start` makes the actor's coroutine, with ports of this life. A life that ends by itself or by an error is a crash: it is
    kept in `crashes` and restarted as well.
    """

    actor: str
    start: Callable[[Life], Coroutine[Any, Any, None]]
    faults: Faults
    clock: Clock
    restart_delay: float = RESTART_DELAY
    lives: int = 0
    crashes: list[BaseException] = field(default_factory=list)
    life: Life | None = None
    _wanted: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._wanted.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._wanted.wait()
            await self._live()
            await self.clock.sleep(self.restart_delay)

    async def _live(self) -> None:
        self.lives += 1
        life = self.life = Life(self.actor, self.faults, self.lives)
        life.root = asyncio.create_task(self.start(life), name=f"{self.actor}/{self.lives}")
        try:
            await asyncio.wait({life.root})
        finally:
            # Whatever ends the wait: nobody survives its supervisor, and nobody is left behind half dead.
            life.alive = False
            life.root.cancel()
            await asyncio.gather(life.root, return_exceptions=True)
        self._judge(life.root)

    def _judge(self, root: asyncio.Task[None]) -> None:
        if root.cancelled():
            return
        error = root.exception()
        if error is None:
            self.crashes.append(RuntimeError(f"{self.actor} returned"))
        elif not _only_kills(error):
            self.crashes.append(error)

    def kill(self) -> None:
        """SIGKILL; it comes back after the restart delay."""
        if self.life is not None:
            self.life.kill()

    def stop(self) -> None:
        """Kill it and keep it down."""
        self._wanted.clear()
        self.kill()

    def resume(self) -> None:
        """Let it run again."""
        self._wanted.set()


def _only_kills(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(_only_kills(inner) for inner in error.exceptions)
    return isinstance(error, ActorKilled | asyncio.CancelledError)
