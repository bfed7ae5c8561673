"""A whole federation in one process: hub and members with their API servers, nodes and programs.

The same world runs on virtual time in tests and on real time in `make demo`: it takes its time from the loop it runs in.
Everything random is drawn from one seed, per actor, so that one more draw here does not change what happens there.
"""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import orjson

from apis import keys, kinds
from apis.kinds import Kind
from controllers.admission.webhooks import HUB_KINDS, MEMBER_KINDS
from machinery.clock import Chance, Clock, Ids, SystemClock
from machinery.port import PatchType
from simulator import manifests
from simulator.api import ApiServer, MemoryPort
from simulator.faults import Faults, Life
from simulator.faulty import FaultyPort
from simulator.loop import SimClock, VirtualLoop
from simulator.nodes import NodePool, NodeSpec
from simulator.programs import Programs, Surroundings, federation
from simulator.records import StartRecords
from simulator.supervisor import RESTART_DELAY, Supervisor
from simulator.webhooks import Webhooks

HUB = "hub"
LATENCY = (0.001, 0.005)
"""Seconds of one request on virtual time. On real time a request takes none of its own."""

AGENTS = "volcano-federation:agents"
"""The group of every credential of agents and fencers at the hub."""

Doc = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Member:
    """A member cluster to simulate. `drift`: seconds its clocks gain per second; `settings`: for its programs."""

    nodes: Sequence[NodeSpec] = (NodeSpec("node-0"),)
    provider: str = ""
    region: str = ""
    zones: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    drift: float = 0.0
    settings: Mapping[str, Any] = field(default_factory=dict)

    def program_settings(self) -> dict[str, Any]:
        """What its agent is told."""
        there = {"provider": self.provider, "region": self.region, "zones": self.zones, "labels": dict(self.labels)}
        return {**{name: value for name, value in there.items() if value}, **self.settings}


class World:
    """`async with World(seed, members=…) as world:` runs everything until the block ends.

    `clock` defaults to the loop's: virtual on a `VirtualLoop`, the system's otherwise. Names of servers are "hub" and the
    members'; names of actors are "hub", "agent-<member>", "fencer-<member>". `skews`: by how many seconds the wall clock of an
    actor, or of "server <name>", is ahead. `admission`: the API servers ask our webhooks, in process.
    """

    def __init__(
        self,
        seed: int,
        *,
        members: Mapping[str, Member],
        programs: Programs | None = None,
        hub_settings: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
        latency: tuple[float, float] | None = None,
        restart_delay: float = RESTART_DELAY,
        default_duration: float = 5.0,
        skews: Mapping[str, float] | None = None,
        admission: bool = False,
    ) -> None:
        self.seed = seed
        self.members = dict(members)
        self.clock = clock or self._clock()
        self._skews = dict(skews or {})
        self._admission = admission
        self.faults = Faults(self._chance("faults"))
        self.records = StartRecords()
        self.changed = asyncio.Event()
        self.supervisors: dict[str, Supervisor] = {}
        self.servers: dict[str, ApiServer] = {name: self._server(name) for name in (HUB, *self.members)}
        self.pools = {name: self._pool(name, default_duration) for name in self.members}
        virtual = isinstance(asyncio.get_running_loop(), VirtualLoop)
        self._latency = latency if latency is not None or not virtual else LATENCY
        self._restart_delay = restart_delay
        self._programs = programs or federation()
        self._hub_settings = dict(hub_settings or {})
        self._group = asyncio.TaskGroup()
        self._tasks: list[asyncio.Task[None]] = []

    # --- making ------------------------------------------------------------------------------------------------------

    def _chance(self, name: str) -> Chance:
        return Chance(self.seed * 1_000_003 + zlib.crc32(name.encode()))

    @staticmethod
    def _clock(drift: float = 0.0, *, skew: float = 0.0) -> Clock:
        loop = asyncio.get_running_loop()
        return SimClock(loop, drift=drift, skew=skew) if isinstance(loop, VirtualLoop) else SystemClock()

    def _server(self, name: str) -> ApiServer:
        chance = self._chance(f"server {name}")
        skew = self._skews.get(f"server {name}", 0.0)
        server = ApiServer(self._clock(skew=skew) if skew else self.clock, ids=Ids(chance), chance=chance, name=name)
        server.create(kinds.NAMESPACE, {"metadata": {"name": keys.SYSTEM_NAMESPACE}})
        server.listeners.append(lambda change: self.changed.set())
        if self._admission:
            server.webhooks = Webhooks.before(server, plurals=HUB_KINDS if name == HUB else MEMBER_KINDS)
        return server

    def _pool(self, name: str, default_duration: float) -> NodePool:
        chance = self._chance(f"nodes {name}")
        return NodePool(
            MemoryPort(self.servers[name], agent="kubelet"),
            nodes=self.members[name].nodes,
            clock=self.clock,
            chance=chance,
            ids=Ids(chance),
            cluster=name,
            records=self.records,
            default_duration=default_duration,
        )

    def _supervise(self, actor: str, role: str, member: str) -> Supervisor:
        program = (self._programs.member if member else self._programs.hub)[role]
        drift = self.members[member].drift if member else 0.0
        settings = self.members[member].program_settings() if member else self._hub_settings

        def start(life: Life) -> Coroutine[Any, Any, None]:
            chance = self._chance(f"{actor} {life.number}")
            surroundings = Surroundings(
                hub=self.port(HUB, life=life),
                local=self.port(member, life=life) if member else None,
                member=member,
                clock=self._clock(drift, skew=self._skews.get(actor, 0.0)),
                chance=chance,
                ids=Ids(chance),
                settings=settings,
            )
            return _run(program(surroundings))

        return Supervisor(actor, start, self.faults, self.clock, self._restart_delay)

    def port(self, server: str, *, life: Life) -> FaultyPort:
        """A connection of one life of an actor to a server."""
        latency = self._latency and self._way(f"latency {life.actor} {life.number} {server}", *self._latency)
        groups = (AGENTS,) if server == HUB and life.actor not in self._programs.hub else ()
        port = MemoryPort(self.servers[server], latency=latency, agent=life.actor, groups=groups)
        return FaultyPort(port, life=life, server=server)

    def _way(self, name: str, low: float, high: float) -> Callable[[], float]:
        chance = self._chance(name)
        return lambda: chance.uniform(low, high)

    # --- running -----------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        for name, pool in self.pools.items():
            self._spawn(pool.run(), f"nodes/{name}")
        for role in self._programs.hub:
            self._start(role, role, "")
        for member in self.members:
            for role in self._programs.member:
                self._start(f"{role}-{member}", role, member)
        return self

    def _start(self, actor: str, role: str, member: str) -> None:
        supervisor = self.supervisors[actor] = self._supervise(actor, role, member)
        self._spawn(supervisor.run(), f"supervisor/{actor}")

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._tasks.append(self._group.create_task(work, name=name))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.faults.call_off()
        for task in self._tasks:
            task.cancel()
        await self._group.__aexit__(kind, error, trace)

    @property
    def crashes(self) -> list[str]:
        """Programs that ended without being killed, in words. A sound program leaves none."""
        return [f"{name}: {crash!r}" for name, it in self.supervisors.items() for crash in it.crashes]

    # --- people ------------------------------------------------------------------------------------------------------

    def client(self, server: str = HUB) -> MemoryPort:
        """A connection of somebody outside, without faults."""
        return MemoryPort(self.servers[server], agent="kubectl")

    async def apply(
        self, manifest: str | bytes | Doc | Iterable[Doc], *, namespace: str = "default", server: str = HUB
    ) -> None:
        """`kubectl apply --server-side`: YAML text of one or more documents, or documents."""
        client = self.client(server)
        for doc in manifests.read(manifest):
            kind = manifests.kind_of(doc)
            where = doc["metadata"].get("namespace", namespace) if kind.namespaced else None
            name = doc["metadata"]["name"]
            await client.patch(kind, name, doc, type=PatchType.APPLY, namespace=where, field_manager="kubectl")

    def get(self, kind: Kind, name: str, *, namespace: str | None = None, server: str = HUB) -> Doc | None:
        """The object as it is now, or None."""
        where = namespace if namespace is not None else "default" if kind.namespaced else ""
        stored = self.servers[server].collection(kind).get(where, name)
        return None if stored is None else orjson.loads(stored.raw)

    def all(self, kind: Kind, *, namespace: str | None = None, server: str = HUB) -> list[Doc]:
        """All objects of a kind as they are now."""
        return [orjson.loads(stored.raw) for stored in self.servers[server].collection(kind).scan(namespace)]

    async def until(self, holds: Callable[[], bool], *, timeout: float, what: str = "") -> None:
        """Wait until it holds, looking at every change of any server; AssertionError with the story after `timeout` s."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while not holds():
                    self.changed.clear()
                    await self.changed.wait()
                return
        raise AssertionError(f"not within {timeout:.0f} s: {what or holds}\n{self.story()}")

    async def advance(self, seconds: float) -> None:
        """Let time pass."""
        await self.clock.sleep(seconds)

    # --- accidents ---------------------------------------------------------------------------------------------------

    def kill(self, actor: str) -> None:
        """SIGKILL a program; it is restarted."""
        self.supervisors[actor].kill()

    def stop(self, actor: str) -> None:
        """Kill a program and keep it down until `resume`."""
        self.supervisors[actor].stop()

    def resume(self, actor: str) -> None:
        """Let a stopped program run again."""
        self.supervisors[actor].resume()

    def cut(self, member: str) -> None:
        """No way between a member's programs and the hub."""
        for role in self._programs.member:
            self.faults.cut(f"{role}-{member}", HUB)

    def heal(self, member: str) -> None:
        """Undo `cut`."""
        for role in self._programs.member:
            self.faults.heal(f"{role}-{member}", HUB)

    def lose(self, member: str) -> None:
        """A member is gone for good: its programs, its nodes, and what ran on them."""
        for role in self._programs.member:
            self.stop(f"{role}-{member}")
        pool = self.pools[member]
        for node in pool.kubelets:
            pool.lose(node)

    # --- what happened -----------------------------------------------------------------------------------------------

    def story(self, *, last: int = 25) -> str:
        """The world in a few lines, for a reader of a failed test; renewals of Leases apart."""
        lines = [f"seed {self.seed}, {self.clock.boot():.1f} s", *self.faults.fired, *self.crashes]
        for kind in (kinds.JOB_FLOW, kinds.JOB, kinds.RESOURCE_BINDING, kinds.WORK):
            lines += [manifests.summary(doc) for doc in self.all(kind)]
        for member in self.members:
            for kind in (kinds.JOB, kinds.POD_GROUP, kinds.POD):
                lines += [f"{member}: {manifests.summary(doc)}" for doc in self.all(kind, server=member)]
        lines += [f"late: {each}" for each in self.faults.landed]
        told = [write for write in self.faults.log if not (write.verb == "replace" and write.kind == kinds.LEASE.name)]
        return "\n".join([*lines, *map(str, told[-last:])])


async def _run(program: Any) -> None:
    await program
