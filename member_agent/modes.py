"""How this member runs Jobs: itself, or by a Volcano that is installed here (design.md 8, protocol.md 8, ownership check).

The decision is pure; what it needs is kept by `ModeKeeper`, which runs the program of a mode until another one is due. The
mode in force is written in the member, on the namespace of the agent, so that it holds while the hub is away.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import msgspec
import orjson

from apis import keys, kinds
from machinery import errors
from machinery.clock import Chance, Clock
from machinery.informer import Change, Informers, Key
from machinery.port import Document, PatchType, Port
from member_agent.views.meta import Meta, Wire

log = logging.getLogger(__name__)

AGENT_MODE: Final = f"{keys.GROUP}/agent-mode"
"""Annotation of the member's Lease, of its Cluster, and of the agent's namespace in the member: the mode in force."""
AUTO: Final = "auto"
FOREIGN: Final = ("vc-controller-manager", "vc-scheduler", "volcano")
"""Names of the election Leases of Volcano's controllers and scheduler, in whatever namespace it is installed."""
RENEWED: Final = 15.0
"""Seconds within which a live leader renews a Lease that does not say otherwise; upstream's own default."""
LOOK_AGAIN: Final = 30.0
"""Seconds between looks at what keeps a mode from changing: Jobs that have not ended."""
PAUSE: Final = 1.0
"""Seconds before a member that did not answer is asked again."""
ENDS: Final = frozenset({"Completed", "Failed", "Terminated", "Aborted"})


class Mode(enum.StrEnum):
    """Who runs Jobs, PodGroups and pods here."""

    BUILTIN = "builtin"
    VOLCANO = "volcano"


class Choice(enum.StrEnum):
    """What a person may ask for: a mode, or that the agent finds out."""

    AUTO = "auto"
    BUILTIN = "builtin"
    VOLCANO = "volcano"


@dataclass(frozen=True, slots=True)
class Situation:
    """`setting`: auto, builtin or volcano; `recorded`: the mode that was last in force, None before the first; `foreign`:
    Leases that a live Volcano renews; `drained`: no Job here that has not ended."""

    setting: str
    recorded: Mode | None
    foreign: tuple[str, ...]
    drained: bool


@dataclass(frozen=True, slots=True)
class Ruling:
    """The mode in force; or, where `foreign` names a Volcano that runs the same Jobs, nothing is to be done at all."""

    mode: Mode
    foreign: tuple[str, ...] = ()

    @property
    def stands_off(self) -> bool:
        """Two controllers would act on the same Jobs: ours does not."""
        return bool(self.foreign)


def rule(situation: Situation) -> Ruling:
    """Decide. A mode changes only in a drained member; a Volcano that pauses (an upgrade) keeps its Jobs."""
    foreign, recorded = situation.foreign, situation.recorded
    if situation.setting == Mode.VOLCANO:
        return Ruling(Mode.VOLCANO)
    if situation.setting == Mode.BUILTIN:
        return Ruling(Mode.BUILTIN, foreign)
    if recorded is None or situation.drained:
        return Ruling(Mode.VOLCANO if foreign else Mode.BUILTIN)
    if recorded is Mode.VOLCANO:
        return Ruling(Mode.VOLCANO)
    return Ruling(Mode.BUILTIN, foreign)


# --- who is alive ----------------------------------------------------------------------------------------------------


class _LeaseSpec(Wire, frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None


class _Lease(Wire, frozen=True):
    metadata: Meta
    spec: _LeaseSpec = _LeaseSpec()


@dataclass(frozen=True, slots=True)
class LeaseView:
    """An election Lease; `duration` in seconds."""

    namespace: str
    name: str
    uid: str
    version: str
    held: bool
    duration: float


_lease = msgspec.json.Decoder(_Lease).decode


def project_lease(document: Document) -> LeaseView:
    """A Lease as it is looked at here."""
    lease = _lease(document)
    meta, spec = lease.metadata, lease.spec
    return LeaseView(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        held=bool(spec.holder_identity),
        duration=float(spec.lease_duration_seconds or RENEWED),
    )


class Leases:
    """Which Leases are renewed. Wall clocks are not believed: a Lease is alive when it changes while we look, and counts as
    dead once it stood still for its duration. Times are boot-clock seconds."""

    def __init__(self) -> None:
        self._seen: dict[Key, tuple[LeaseView, float, bool]] = {}

    def changed(self, change: Change[LeaseView], *, now: float) -> None:
        """Fold one change in."""
        lease = change.new
        if lease is None or not lease.held:
            self._seen.pop(change.key, None)
        else:
            self._seen[change.key] = (lease, now, change.old is not None and change.old.uid == lease.uid)

    def alive(self, *, now: float) -> tuple[str, ...]:
        """Those that are renewed, as namespace/name."""
        return tuple(
            f"{namespace}/{name}"
            for (namespace, name), (lease, since, moves) in sorted(self._seen.items())
            if moves and now - since < lease.duration
        )

    def undecided(self, *, now: float) -> float:
        """Seconds until it is known of every Lease whether it is renewed; 0 when it is known now."""
        return max((since + lease.duration - now for lease, since, moves in self._seen.values() if not moves), default=0.0)

    def soonest(self, *, now: float) -> float | None:
        """Seconds until the first Lease counts as dead unless it is renewed."""
        left = (since + lease.duration - now for lease, since, _ in self._seen.values())
        return min((each for each in left if each > 0), default=None)


# --- keeping it ------------------------------------------------------------------------------------------------------


class _Changed(Exception):
    """Another mode is due."""


Program = Callable[[Ruling], Awaitable[None]]


class ModeKeeper:
    """Finds out the mode, keeps it written, and runs the program that goes with it; `setting` as in the settings."""

    def __init__(self, local: Port, *, clock: Clock, chance: Chance, setting: str) -> None:
        self._local = local
        self._clock = clock
        self._chance = chance
        self._setting = setting
        self._leases = Leases()
        self._moved = asyncio.Event()

    async def run(self, program: Program) -> None:
        """Until cancelled. Raises what the program raises."""
        informers = Informers(self._local, self._clock, self._chance)
        for name in FOREIGN:
            informers.add(kinds.LEASE, project_lease, fields=f"metadata.name={name}").subscribe(self._lease_changed)
        async with asyncio.TaskGroup() as group:
            group.create_task(informers.run(), name="foreign-leases")
            await informers.wait_synced()
            while True:
                ruling = await self._settle()
                log.info("mode %s%s", ruling.mode, f"; nothing is done beside {ruling.foreign}" if ruling.stands_off else "")
                await self._serve(program, ruling)

    async def _serve(self, program: Program, ruling: Ruling) -> None:
        """Run the program until another ruling is due."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_complete(program, ruling), name=f"mode-{ruling.mode}")
                await self._overruled(ruling)
                raise _Changed
        except* _Changed:
            pass

    async def _settle(self) -> Ruling:
        """The ruling of now, written down; asked for until the member answers."""
        while True:
            try:
                return await self._settle_once()
            except errors.ApiError as error:
                log.warning("the mode cannot be found out yet: %s", error)
                await self._clock.sleep(PAUSE)

    async def _settle_once(self) -> Ruling:
        """Waits until it is known of every Lease whether somebody renews it. Raises ApiError."""
        while (wait := self._leases.undecided(now=self._clock.boot())) > 0:
            await self._pause(wait)
        recorded = await self._recorded()
        ruling = await self._rule(recorded)
        if not ruling.stands_off and ruling.mode is not recorded:
            patch = {"metadata": {"annotations": {AGENT_MODE: ruling.mode.value}}}
            await self._local.patch(kinds.NAMESPACE, keys.SYSTEM_NAMESPACE, patch, type=PatchType.MERGE)
        return ruling

    async def _overruled(self, ruling: Ruling) -> None:
        """Return when another ruling is due. Jobs are looked at only while they keep a mode from changing."""
        looked: tuple[tuple[str, ...], float] | None = None
        while True:
            now = self._clock.boot()
            foreign = self._leases.alive(now=now)
            odd = bool(foreign) != (ruling.mode is Mode.VOLCANO) or foreign != ruling.foreign and ruling.stands_off
            fresh = looked is not None and looked[0] == foreign and now - looked[1] < LOOK_AGAIN
            if odd and not fresh and self._leases.undecided(now=now) <= 0:
                looked = (foreign, now)
                if await self._settle() != ruling:
                    return
            soonest = [self._leases.soonest(now=now), LOOK_AGAIN if odd else None]
            await self._pause(min((each for each in soonest if each is not None), default=None))

    async def _rule(self, recorded: Mode | None) -> Ruling:
        foreign = self._leases.alive(now=self._clock.boot())
        turns = self._setting == AUTO and recorded is not None and bool(foreign) != (recorded is Mode.VOLCANO)
        drained = turns and await self._drained()
        return rule(Situation(self._setting, recorded, foreign, drained))

    async def _recorded(self) -> Mode | None:
        document = orjson.loads(await self._local.get(kinds.NAMESPACE, keys.SYSTEM_NAMESPACE))
        text = (document["metadata"].get("annotations") or {}).get(AGENT_MODE, "")
        return Mode(text) if text in set(Mode) else None

    async def _drained(self) -> bool:
        token = ""
        while True:
            page = await self._local.list(kinds.JOB, continue_token=token)
            if any(_phase(document) not in ENDS for document in page.items):
                return False
            token = page.continue_token
            if not token:
                return True

    def _lease_changed(self, change: Change[LeaseView]) -> None:
        self._leases.changed(change, now=self._clock.boot())
        self._moved.set()

    async def _pause(self, seconds: float | None) -> None:
        """Until a Lease moves, at most so long."""
        self._moved.clear()
        moved = asyncio.ensure_future(self._moved.wait())
        waits = [moved] if seconds is None else [moved, asyncio.ensure_future(self._clock.sleep(seconds))]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()


async def _complete(program: Program, ruling: Ruling) -> None:
    await program(ruling)


def _phase(document: Document) -> str:
    status = orjson.loads(document).get("status") or {}
    return str((status.get("state") or {}).get("phase", ""))


# --- who only reads it -----------------------------------------------------------------------------------------------


class _Namespace(Wire, frozen=True):
    metadata: Meta


@dataclass(frozen=True, slots=True)
class _Written:
    namespace: str
    name: str
    uid: str
    version: str
    mode: str


_namespace = msgspec.json.Decoder(_Namespace).decode


def _project_written(document: Document) -> _Written:
    meta = _namespace(document).metadata
    return _Written("", meta.name, meta.uid, meta.resource_version, meta.annotation(AGENT_MODE))


class WrittenMode:
    """The mode as the agent wrote it in the member, for a program that only tells it; `run` keeps it current."""

    def __init__(self, local: Port, *, clock: Clock, chance: Chance, setting: str) -> None:
        self._setting = setting
        self._informers = Informers(local, clock, chance)
        self._store = self._informers.add(kinds.NAMESPACE, _project_written, fields=f"metadata.name={keys.SYSTEM_NAMESPACE}")

    async def run(self) -> None:
        """Until cancelled; a member that does not answer keeps what is known."""
        await self._informers.run()

    def __call__(self) -> str:
        """builtin where nothing is written yet."""
        if self._setting != AUTO:
            return self._setting
        found = self._store.get("", keys.SYSTEM_NAMESPACE)
        return found.mode if found is not None and found.mode else Mode.BUILTIN.value
