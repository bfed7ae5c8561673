"""Faults: what can go wrong between an actor and an API server, as a plan that a seed or a test writes.

An *actor* is one process of ours (hub, an agent, a fencer). Its writes are numbered over all its ports and over restarts, so
that a test can run a story once, read the log, and then kill before and after each write of it. A fault hits a write, a
watch, or the way between an actor and a server.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

from apis.kinds import Kind
from machinery import errors
from machinery.clock import Chance

REQUEST_TIMEOUT = 10.0
"""Seconds after which a request without answer is given up, as the real port has it."""
WATCH_SILENCE = 90.0
"""Seconds after which a watch without bytes is given up, as the real port has it."""


class ActorKilled(BaseException):
    """The process that runs this code is gone: nothing may catch it, and no port of it does anything any more."""


class Moment(enum.StrEnum):
    """On which side of the write's effect a fault strikes."""

    BEFORE = "before"
    AFTER = "after"


class Way(enum.StrEnum):
    """Which way of a connection is cut."""

    BOTH = "both"
    REQUESTS = "requests"
    """Requests do not arrive: no effect, no answer."""
    ANSWERS = "answers"
    """Requests arrive and act; answers and watch events are lost."""


@dataclass(frozen=True, slots=True)
class Kill:
    """SIGKILL of the actor."""


@dataclass(frozen=True, slots=True)
class Fail:
    """This answer instead of the real one; before the write, it has no effect."""

    error: Callable[[], errors.ApiError]


@dataclass(frozen=True, slots=True)
class Delay:
    """The request takes so many seconds longer."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Hang:
    """No answer at all: the request is given up after its time-out."""


@dataclass(frozen=True, slots=True)
class Late:
    """The caller is told at once that nobody answers, and the request arrives so many seconds later all the same: a packet on
    its way is neither stopped by the one who gave it up nor by the end of the one who sent it."""

    seconds: float


Action = Kill | Fail | Delay | Hang | Late


def answer(code: int, *, reason: str = "", retry_after: float | None = None) -> Fail:
    """A failure by HTTP status; code 0 is Unreachable."""
    if code == 0:
        return Fail(lambda: errors.Unreachable("connection reset by the simulator"))
    return Fail(
        lambda: errors.from_status(
            code=code, reason=reason, message=f"{code} by the simulator", request="", retry_after=retry_after
        )
    )


@dataclass(frozen=True, slots=True)
class Write:
    """One line of the write log. `number` counts the writes of the actor, from 1."""

    actor: str
    number: int
    server: str
    verb: str
    kind: str
    namespace: str
    name: str
    subresource: str
    time: float

    def __str__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        part = f"/{self.subresource}" if self.subresource else ""
        return f"{self.actor}#{self.number} {self.verb} {self.kind}{part} {where} at {self.server}, {self.time:.3f} s"


@dataclass(frozen=True, slots=True)
class WatchFaults:
    """How often a watch event (probability each) comes twice, is lost with its connection, or meets Expired; and by up to how
    many seconds streams lag, each for itself, so that kinds arrive out of order among each other."""

    duplicate: float = 0.0
    drop: float = 0.0
    expire: float = 0.0
    lag: float = 0.0


@dataclass(eq=False)
class Life:
    """One life of one actor, from start to kill. Ports of a dead life do nothing."""

    actor: str
    faults: Faults
    number: int = 1
    """Which life of the actor this is, from 1."""
    alive: bool = True
    root: asyncio.Task[None] | None = None

    def kill(self) -> None:
        """End it here and now: no further effect of it reaches anybody."""
        self.alive = False
        if self.root is not None:
            self.root.cancel()

    def check(self) -> None:
        """Raise where a dead life would go on."""
        if not self.alive:
            raise ActorKilled(self.actor)


@dataclass(eq=False)
class Faults:
    """The plan of one run, and what happened in it."""

    chance: Chance
    watches: WatchFaults = WatchFaults()
    conflict_once: bool = False
    """Somebody else writes before every conditional write, so that its first attempt conflicts."""
    leases_conflict: int = 2
    """Every how many conditional writes of one Lease that happens: they are most of what is written in a quiet world."""
    log: list[Write] = field(default_factory=list)
    fired: list[str] = field(default_factory=list)
    """Which planned faults have struck, in words."""
    landed: list[str] = field(default_factory=list)
    """Late requests that have arrived, with what became of them."""
    touched: dict[tuple[str, str, str, str, str], int] = field(default_factory=dict)
    _planned: dict[tuple[str, int, Moment], Action] = field(default_factory=dict)
    _numbers: dict[str, int] = field(default_factory=dict)
    _cuts: dict[tuple[str, str], Way] = field(default_factory=dict)
    _healed: asyncio.Event = field(default_factory=asyncio.Event)
    _flying: set[asyncio.Task[None]] = field(default_factory=set)

    def at(self, actor: str, number: int, moment: Moment, action: Action) -> Faults:
        """Plan a fault at the actor's write `number` (from 1)."""
        self._planned[(actor, number, moment)] = action
        return self

    def planned(self, actor: str, number: int, moment: Moment) -> Action | None:
        """What strikes here; each plan strikes once."""
        action = self._planned.pop((actor, number, moment), None)
        if action is not None:
            self.fired.append(f"{type(action).__name__} {moment} write {number} of {actor}")
        return action

    def note(
        self, actor: str, *, server: str, verb: str, kind: Kind, namespace: str, name: str, subresource: str, time: float
    ) -> int:
        """Number a write and log it."""
        number = self._numbers[actor] = self._numbers.get(actor, 0) + 1
        self.log.append(Write(actor, number, server, verb, kind.name, namespace, name, subresource, time))
        return number

    def writes_of(self, actor: str) -> list[Write]:
        """The actor's writes so far."""
        return [write for write in self.log if write.actor == actor]

    # --- late requests -----------------------------------------------------------------------------------------------

    def post(self, call: Callable[[], Awaitable[object]], *, what: str, seconds: float) -> None:
        """Let a request arrive later, whatever becomes of its sender. Nobody hears the answer."""
        task = asyncio.create_task(self._land(call, what=what, seconds=seconds), name=f"late {what}")
        self._flying.add(task)
        task.add_done_callback(self._flying.discard)

    async def _land(self, call: Callable[[], Awaitable[object]], *, what: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        try:
            await call()
        except errors.ApiError as error:
            self.landed.append(f"{what}: {type(error).__name__}")
        else:
            self.landed.append(f"{what}: done")

    def call_off(self) -> None:
        """Drop what is still on its way: the world ends."""
        for task in self._flying:
            task.cancel()

    # --- partitions --------------------------------------------------------------------------------------------------

    def cut(self, actor: str, server: str, *, way: Way = Way.BOTH) -> None:
        """Cut the actor ("*": every actor) off from a server."""
        self._cuts[(actor, server)] = way

    def heal(self, actor: str, server: str) -> None:
        """Undo `cut`."""
        self._cuts.pop((actor, server), None)
        self._healed.set()
        self._healed = asyncio.Event()

    def heal_all(self) -> None:
        """Undo every cut."""
        for actor, server in list(self._cuts):
            self.heal(actor, server)

    def is_cut(self, actor: str, server: str, *ways: Way) -> bool:
        """Whether one of these ways is cut between them."""
        there: Iterable[Way | None] = (self._cuts.get((actor, server)), self._cuts.get(("*", server)))
        return any(way is not None and (way in ways or way is Way.BOTH) for way in there)

    async def wait_healed(self) -> None:
        """Until some cut is healed."""
        await self._healed.wait()


SEED_ANSWERS: tuple[Fail, ...] = (
    answer(0),
    answer(409, reason="Conflict"),
    answer(429, retry_after=1.0),
    answer(500, reason="InternalError"),
    answer(503, reason="ServiceUnavailable"),
)
"""What a seeded plan draws failures from. 410 strikes watches and lists, never writes."""
