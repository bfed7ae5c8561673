"""A federation of real control planes: one hub and any number of members, booted at once and torn down to nothing.

async with Federation({"east": Member(nodes=2), "west": Member(nodes=200, source=NodeSource.KWOK)}) as fed:
    fed.hub.kubeconfig, fed.members["east"].kubeconfig
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import random
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from e2e.controlplane import build, images, system, teardown
from e2e.controlplane.cluster import Parts, RunningCluster
from e2e.controlplane.plan import Member, NodeSource, plan_federation
from e2e.controlplane.process import Processes, Programs

PORTS = range(20000, 32000)
"""Below the kernel's range for outgoing connections, so that a free port stays free until its program binds it."""


class WorkInUse(Exception):
    """Another run uses the work directory."""


def default_work(purpose: str) -> Path:
    """A short folder of this checkout and purpose, the same each time so that a crashed run's leftovers are found."""
    checkout = hashlib.sha256(str(Path(__file__).resolve().parents[2]).encode()).hexdigest()[:6]
    return Path(tempfile.gettempdir()) / f"vf-{os.getuid()}-{checkout}" / purpose


def free_work(purpose: str) -> Path:
    """`default_work`, or the like with a number while other runs of this checkout hold those before."""
    for number in range(1, 100):
        folder = default_work(purpose if number == 1 else f"{purpose}-{number}")
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
        return folder
    raise WorkInUse(f"a hundred runs for {purpose} at once")


def free_ports(*, start: int) -> Iterator[int]:
    """Ports that nobody listens on, from `start` on and around."""
    for offset in range(len(PORTS)):
        port = PORTS[(start + offset) % len(PORTS)]
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        yield port
    raise RuntimeError("no free port")


@dataclass(frozen=True, slots=True)
class Timing:
    """One line of the boot's timeline: seconds since its start."""

    seconds: float
    text: str


class Federation:
    """One hub and its members. `audit` writes every finished write to `<cluster>.audit_log`; `images` maps image names to
    root file systems (see images.built); `choice` is what AUTO members become (default: system.choose)."""

    def __init__(
        self,
        members: Mapping[str, Member],
        *,
        work: Path | None = None,
        choice: system.Choice | None = None,
        images: Sequence[Mapping[str, Any]] = (),
        audit: bool = False,
        gogc: int | None = None,
        report: Callable[[str], None] = print,
    ) -> None:
        self.work = (work or default_work("run")).resolve()
        self.timeline: list[Timing] = []
        self.choice = choice
        self.members: dict[str, RunningCluster] = {}
        self._asked = members
        self._images = images
        self._audit = audit
        self._gogc = gogc
        self._report = report
        self._lock: IO[str] | None = None
        self._hub: RunningCluster | None = None
        self._programs: Programs | None = None
        self._started = 0.0

    @property
    def hub(self) -> RunningCluster:
        if self._hub is None:
            raise RuntimeError("the federation is not up")
        return self._hub

    @property
    def clusters(self) -> list[RunningCluster]:
        return [self.hub, *self.members.values()]

    @property
    def programs(self) -> Programs:
        """Our own programs (hub, agents, fencers) as processes; they end first."""
        if self._programs is None:
            raise RuntimeError("the federation is not up")
        return self._programs

    async def __aenter__(self) -> Federation:
        try:
            await self.up()
        except BaseException:
            self.down()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.down)

    def _say(self, text: str) -> None:
        timing = Timing(time.monotonic() - self._started, text)
        self.timeline.append(timing)
        self._report(f"[{timing.seconds:5.1f} s] {text}")

    async def up(self) -> None:
        """Builds what is not built, cleans what a crashed run left, boots all clusters at once.

        WorkInUse when another live run holds the work directory; BuildError, WrongMachine, ProcessFailed say what to do.
        """
        self.work.mkdir(parents=True, exist_ok=True)
        self._lock = (self.work / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            self._lock = None
            raise WorkInUse(f"another run uses {self.work}") from None
        built = build.ensure(report=self._report)
        choice = self.choice = self.choice or self._choose()
        self._started = time.monotonic()
        if left := teardown.running(self.work):
            self._say(f"cleaning {len(left)} processes that an earlier run left")
        teardown.wipe(self.work)
        chance = random.SystemRandom()
        plan = plan_federation(
            self._asked,
            run="".join(chance.choices("bcdfghjklmnpqrstvwxz2456789", k=5)),
            work=self.work,
            ports=free_ports(start=chance.randrange(len(PORTS))),
            automatic=choice.source,
        )
        teardown.note_cgroups(self.work, names=[node.cgroup for cluster in plan.members for node in cluster.nodes])
        self._say(f"nodes: {choice.source} ({choice.why})")
        layer, mapped = self._root_file_systems(choice)
        parts = Parts(built, system.machine(), layer, mapped, self._audit, self._gogc)
        own = self.work / "programs"
        self._programs = Programs(Processes(records=own / "processes", logs=own / "logs"))
        running = [RunningCluster(cluster, parts=parts, say=self._say) for cluster in plan.clusters]
        self._hub = running[0]
        self.members = {cluster.name: cluster for cluster in running[1:]}
        async with asyncio.TaskGroup() as group:
            for cluster in running:
                group.create_task(cluster.boot())
        self._say("federation is up")

    def _choose(self) -> system.Choice:
        """Probes only when a member wants real nodes."""
        sources = {member.source for member in self._asked.values()}
        if sources <= {NodeSource.KWOK}:
            return system.Choice(NodeSource.KWOK, "no member wants real nodes")
        environment = {"VF_NODES": NodeSource.REAL.value} if NodeSource.REAL in sources else None
        return system.choose(environment, report=self._report)

    def _root_file_systems(self, choice: system.Choice) -> tuple[Path, list[dict[str, Any]]]:
        """The layer of every image that the table does not name, and the table with its layers; all made once."""
        layer = build.cache_root() / "busybox.tar"
        binary = shutil.which("busybox")
        if choice.source is not NodeSource.REAL or binary is None:
            return layer, []
        layer.parent.mkdir(parents=True, exist_ok=True)
        images.build_busybox(layer, binary=Path(binary))
        return layer, images.built(self._images, binary=Path(binary), cache=layer.parent)

    def down(self) -> None:
        """Ends every process of this run, removes cgroups and data, keeps logs; blocks for a second or two. Twice does
        nothing."""
        if self._lock is None:
            return
        teardown.teardown(self.work)
        self.close()

    def close(self) -> None:
        """Lets go of the work directory and leaves everything running, for `down` of another process."""
        for programs in [cluster.programs for cluster in ([self._hub] if self._hub else []) + list(self.members.values())]:
            programs.close()
        if self._programs is not None:
            self._programs.close()
        if self._lock is not None:
            self._lock.close()
            self._lock = None
