"""Virtual time: an event loop that never waits, and a clock on it.

When nothing is ready the loop jumps to its next timer; when there is no timer either, nothing can ever happen again and the
run raises `Deadlock` with what every task waits for. Nothing outside the loop takes part: no threads, no sockets.

Tasks hash by the order they were made in, so that sets of tasks (task groups cancel theirs from one) iterate the same way in
every process: one seed, one trace.
"""

from __future__ import annotations

import asyncio
import contextvars
import datetime
import itertools
import selectors
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar, TypeVarTuple

from machinery.clock import Chance, Ids

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

EPOCH = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
"""Wall time at virtual second 0, unless a world says otherwise."""
TICK = 1e-6
"""The least that a timer takes, in seconds. On a real loop time moves by itself from one round to the next; here a delay that
is smaller than the rounding of the clock would come due at the same instant for ever."""


class Deadlock(RuntimeError):
    """Nothing is ready and no timer is set: nothing will ever happen again."""


class _Idle(selectors.BaseSelector):
    """A selector that polls nothing and moves the loop's time instead of waiting."""

    def __init__(self, jump: Callable[[float | None], None]) -> None:
        self._jump = jump
        self._keys: dict[Any, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = selectors.SelectorKey(fileobj, fileobj if isinstance(fileobj, int) else fileobj.fileno(), events, data)
        self._keys[fileobj] = key
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            self._jump(timeout)
        return []

    def get_map(self) -> dict[Any, selectors.SelectorKey]:
        return self._keys


class _OrderedTask(asyncio.Task[Any]):
    """A task that hashes by its number."""

    _numbers = itertools.count()

    def __init__(self, *args: Any, number: int, **kwargs: Any) -> None:
        self._number = number
        super().__init__(*args, **kwargs)

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time moves only by jumping to the next timer. Time starts at 0."""

    def __init__(self, *, limit: float = 30 * 24 * 3600.0) -> None:
        self._virtual = 0.0
        self._limit = limit
        self._made = itertools.count(1)
        super().__init__(_Idle(self._jump))
        self.set_task_factory(self._make_task)
        self._clock_resolution = 1e-9

    def time(self) -> float:
        return self._virtual

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return super().call_at(max(when, self._virtual + TICK), callback, *args, context=context)

    def _jump(self, timeout: float | None) -> None:
        if timeout is None:
            raise Deadlock("nothing is ready and no timer is set; waiting:\n" + "\n".join(self._waiting()))
        self._virtual += timeout
        if self._virtual > self._limit:
            raise Deadlock(f"virtual time passed the limit of {self._limit:.0f} s")

    def _waiting(self) -> list[str]:
        tasks = [task for task in asyncio.all_tasks(self) if not task.done()]
        return sorted(f"  {task.get_name()}: {task.get_stack(limit=1)}" for task in tasks)

    def _make_task(
        self, loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, T] | Generator[Any, None, T], **kwargs: Any
    ) -> asyncio.Task[T]:
        number = next(self._made)
        task = _OrderedTask(coro, number=number, loop=loop, **kwargs)
        if kwargs.get("name") is None:
            task.set_name(f"task-{number}")
        return task


class SimClock:
    """`machinery.clock.Clock` on a loop's time. `drift`: seconds this clock gains per second of loop time.

    `skew`: by how many seconds its wall time is wrong. A sleep lasts as long as this clock says.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        start: datetime.datetime = EPOCH,
        drift: float = 0.0,
        skew: float = 0.0,
    ) -> None:
        self._loop = loop
        self._start = start + datetime.timedelta(seconds=skew)
        self._rate = 1.0 + drift

    def boot(self) -> float:
        return self._loop.time() * self._rate

    def now(self) -> datetime.datetime:
        return self._start + datetime.timedelta(seconds=self.boot())

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self._rate)


def run_virtual(main: Callable[[SimClock, Chance, Ids], Coroutine[Any, Any, T]], *, seed: int) -> T:
    """Run `main(clock, chance, ids)` on a virtual loop of its own; the three are drawn from the seed."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        loop = runner.get_loop()
        return runner.run(main(SimClock(loop), Chance(seed), Ids(Chance(seed ^ 0x5EED))))
