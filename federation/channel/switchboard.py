"""Who is connected, what they were asked, and where their answers go.

`Line` is one agent's connection, `Leg` one long answer on its way, `Reception` what flows together for one reader. Answers are
read from the network only as fast as the reader takes them: a leg waits in `put`, its connection is not read meanwhile, and TCP
tells the agent.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final, Protocol

from controllers.channel.messages import (
    MAX_SAID,
    Ask,
    Dropped,
    Lines,
    LogOptions,
    LogsAsked,
    Notice,
    ProbeAsked,
    Probed,
    Record,
    Said,
)
from controllers.channel.plaintext import clean
from controllers.channel.settings import Limits
from policies.flows.spec import HttpGet, TcpSocket

DEPTH: Final = 8
"""Records of one leg that wait for a reader: at most 16 KiB of text each."""
NAME: Final = 253
"""Characters of a pod's or container's name."""
LETTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-.")
LINES: Final = 8
"""Connections of one member to one replica: one, and those of leaders before that have not been noticed to be gone."""


class Reception:
    """What members send for one reader, in the order it comes."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[tuple[Record | None, asyncio.Semaphore | None]] = asyncio.Queue()
        self._legs = 0

    def begin(self) -> asyncio.Semaphore:
        """One more leg; the room that its records have."""
        self._legs += 1
        return asyncio.Semaphore(DEPTH)

    async def put(self, record: Record, room: asyncio.Semaphore) -> None:
        """Wait until the reader has taken enough."""
        await room.acquire()
        self._queue.put_nowait((record, room))

    def end(self, notice: Notice | None) -> None:
        """A leg is over; the notice tells why, where it is not simply complete."""
        if notice is not None:
            self._queue.put_nowait((notice, None))
        self._queue.put_nowait((None, None))

    async def records(self) -> AsyncIterator[Record]:
        """Until every leg is over."""
        while self._legs:
            record, room = await self._queue.get()
            if room is not None:
                room.release()
            if record is None:
                self._legs -= 1
            else:
                yield record


def _name(text: str) -> str:
    """What a pod or container can be called: a label in which nothing can be hidden."""
    return "".join(letter for letter in text[:NAME] if letter in LETTERS)


class Closing(Protocol):
    """Called once when a leg is over; `tell`: its member still thinks that it is wanted."""

    def __call__(self, leg: Leg, *, tell: bool) -> None: ...


class Leg:
    """One member's long answer. `begun` is set once it comes, or is known not to come."""

    def __init__(self, number: int, *, cluster: str, reception: Reception, limit: int, close: Closing) -> None:
        self.number = number
        self.cluster = cluster
        self.begun = asyncio.Event()
        self.came = False
        """Whether the member sent anything at all."""
        self.trouble = ""
        self._reception = reception
        self._room = reception.begin()
        self._left = limit
        self._limit = limit
        self._close = close
        self._abort: Callable[[], None] | None = None
        self._over = False

    def claim(self, abort: Callable[[], None]) -> bool:
        """The answer comes on a connection that `abort` cuts; False when one came already."""
        if self._over or self.came:
            return False
        self.came, self._abort = True, abort
        self.begun.set()
        return True

    async def put(self, record: Record) -> None:
        """Hand one record on, cleaned and under the member's own name; waits for the reader."""
        if self._over:
            return
        self._left -= len(record.text)
        if self._left < 0:
            self.end(f"more than {self._limit >> 20} MiB: ask for less, by tail, since, task or pod")
            self._cut()
            return
        pod, text = _name(record.pod), clean(record.text)
        if isinstance(record, Lines):
            made: Record = Lines(pod, _name(record.container), text, several=record.several, cluster=self.cluster)
        else:
            made = Notice(text[:MAX_SAID].replace("\n", " "), pod, self.cluster)
        await self._reception.put(made, self._room)

    def end(self, trouble: str = "", *, wanted: bool = True) -> None:
        """It is over, and why, where it is not complete. Once."""
        if self._over:
            return
        self._over, self.trouble = True, trouble
        self._close(self, tell=bool(trouble) or not wanted)
        self._reception.end(Notice(trouble, cluster=self.cluster) if trouble else None)
        self.begun.set()

    def drop(self) -> None:
        """Nobody wants it any more: the member is told, and its connection cut."""
        self.end(wanted=False)
        self._cut()

    def _cut(self) -> None:
        if self._abort is not None:
            self._abort()
            self._abort = None


class Line:
    """One agent's connection; what is to be told it waits in `outgoing`."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self.outgoing: asyncio.Queue[Ask] = asyncio.Queue()
        self.legs: dict[int, Leg] = {}
        self.probes: dict[int, asyncio.Future[str]] = {}

    def heard(self, said: Said) -> None:
        """A short answer, or the refusal of a long one; one that nobody waits for is dropped."""
        if isinstance(said, Probed):
            self._settle(said.number, clean(said.said)[:MAX_SAID])
            return
        why = clean(said.why)[:MAX_SAID]
        self._settle(said.number, why)
        leg = self.legs.get(said.number)
        if leg is not None and not leg.came:
            leg.end(why or "refused")

    def _settle(self, number: int, said: str) -> None:
        waits = self.probes.get(number)
        if waits is not None and not waits.done():
            waits.set_result(said)

    def lost(self) -> None:
        """The connection has gone, and with it everything that was on its way."""
        for leg in [*self.legs.values()]:
            leg.end("the connection to its agent was lost")
            leg.drop()
        for number in self.probes:
            self._settle(number, "the connection to its agent was lost")


class Switchboard:
    """All connections of this replica."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lines: dict[str, list[Line]] = {}
        self._legs: dict[int, tuple[Line, Leg]] = {}
        self._numbers = itertools.count(1)

    # --- agents ------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def connected(self, cluster: str) -> Iterator[Line]:
        """A member is connected while the block runs; the newest connection is the one that is asked."""
        line = Line(cluster)
        lines = self._lines.setdefault(cluster, [])
        lines.append(line)
        try:
            yield line
        finally:
            lines.remove(line)
            if not lines:
                self._lines.pop(cluster, None)
            line.lost()

    def full(self, cluster: str) -> bool:
        """Whether the member has as many connections as it may."""
        return len(self._lines.get(cluster, ())) >= LINES

    def leg(self, number: int, *, cluster: str) -> Leg | None:
        """The answer that this member was asked for under this number; None when it was not."""
        found = self._legs.get(number)
        return found[1] if found is not None and found[1].cluster == cluster else None

    @property
    def clusters(self) -> list[str]:
        """Members that are connected."""
        return sorted(self._lines)

    @property
    def answers(self) -> int:
        """Long answers on their way."""
        return len(self._legs)

    # --- asking ------------------------------------------------------------------------------------------------------

    def logs(self, cluster: str, *, job: str, namespace: str, options: LogOptions, reception: Reception) -> Leg:
        """Ask a member for logs; where it cannot be asked the leg is over at once and says why."""
        number = next(self._numbers)
        line, why = self._line(cluster)
        if line is not None and len(line.legs) >= self._limits.per_cluster:
            line, why = None, f"{len(self._lines[cluster][-1].legs)} answers are on their way from it: too many at once"
        leg = Leg(number, cluster=cluster, reception=reception, limit=self._limits.bytes, close=self._closed)
        if line is None:
            leg.end(why)
            return leg
        self._legs[number] = (line, leg)
        line.legs[number] = leg
        line.outgoing.put_nowait(LogsAsked(number, job, namespace, options))
        return leg

    def _closed(self, leg: Leg, *, tell: bool) -> None:
        found = self._legs.pop(leg.number, None)
        if found is not None:
            line = found[0]
            del line.legs[leg.number]
            if tell:
                line.outgoing.put_nowait(Dropped(leg.number))

    async def probe(
        self, cluster: str, *, job: str, namespace: str, gets: tuple[HttpGet, ...], sockets: tuple[TcpSocket, ...]
    ) -> str:
        """Have pods of a member asked: "" when all answer, else a sentence. Never waits long, nor for other questions."""
        line, why = self._line(cluster)
        if line is None:
            return why
        if len(line.probes) >= self._limits.questions:
            return f"its agent has {len(line.probes)} other questions to answer"
        number = next(self._numbers)
        waits: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        line.probes[number] = waits
        try:
            line.outgoing.put_nowait(ProbeAsked(number, job, namespace, gets, sockets))
            async with asyncio.timeout(self._limits.answer):
                return await waits
        except TimeoutError:
            line.outgoing.put_nowait(Dropped(number))
            return f"its agent has not answered within {self._limits.answer:.0f} s"
        finally:
            del line.probes[number]

    def _line(self, cluster: str) -> tuple[Line | None, str]:
        lines = self._lines.get(cluster)
        return (lines[-1], "") if lines else (None, "its agent is not connected to this hub")
