"""Channel: what the hub's end costs while many people follow quiet logs, and while one reads a long one.

The hub's end is a process of its own on an API server in memory; agent and people are this one, over real TLS. CPU is read from
/proc. The limit is that of the issue: 100 parallel `logs -f` under 10 % of a core when quiet; memory for them has no stated
limit and is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ssl
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import aiohttp
import orjson

from apis import keys, kinds, naming, runs
from apis.runs import BindingRun, Part
from benchmarks.harness import Row, cost, cpu_shares, run
from controllers.channel import messages
from controllers.channel.messages import CHUNK, Lines, LogsAsked
from controllers.channel.settings import AGENTS, AgentsDoor, HubChannel, PeopleDoor
from e2e.controlplane import certs
from e2e.controlplane.certs import Authority
from e2e.controlplane.process import Processes, Programs, Record, usage
from federation.channel.service import Channel
from machinery.clock import Chance, Ids, SystemClock
from machinery.port import Body, Document
from simulator.api import ApiServer, MemoryPort

NAME: Final = "channel"
CPU_LIMIT: Final = 10.0
"""Percent of one core, for 100 quiet followers."""
MEMBER, NAMESPACE, JOB = "east", "default", "train"
LINE = b"%063d\n"


# --- the hub's end, a process of its own -----------------------------------------------------------------------------
class _Open(MemoryPort):
    """An API server where every token is somebody's who may everything."""

    async def request(self, method: str, path: str, *, body: Body | None = None) -> Document:
        return orjson.dumps({"status": {"authenticated": True, "allowed": True, "user": {"username": "somebody"}}})


async def serve(folder: Path) -> None:
    """The channel with one Job that runs in one member; its ports are written to the folder when it is served."""
    clock, chance = SystemClock(), Chance(1)
    port = _Open(ApiServer(clock, ids=Ids(chance), chance=chance))
    cluster = {"apiVersion": kinds.CLUSTER.api_version, "kind": "Cluster", "metadata": {"name": MEMBER}}
    await port.create(kinds.CLUSTER, {**cluster, "spec": {"syncMode": "Pull"}})
    template = {"spec": {"containers": [{"name": "main", "image": "i"}], "restartPolicy": "Never"}}
    spec = {"minAvailable": 1, "queue": "default", "tasks": [{"name": "main", "replicas": 1, "template": template}]}
    job = {"apiVersion": kinds.JOB.api_version, "kind": "Job", "metadata": {"name": JOB}, "spec": spec}
    uid = str(orjson.loads(await port.create(kinds.JOB, job, namespace=NAMESPACE))["metadata"]["uid"])
    record = runs.encode(BindingRun(uid, epoch=1, parts={MEMBER: Part("u", 1)}))
    binding = {
        "apiVersion": kinds.RESOURCE_BINDING.api_version,
        "kind": kinds.RESOURCE_BINDING.kind,
        "metadata": {"name": naming.binding_name(JOB), "annotations": {keys.RUN: record}},
        "spec": {"resource": {"apiVersion": kinds.JOB.api_version, "kind": "Job", "name": JOB, "uid": uid}},
    }
    await port.create(kinds.RESOURCE_BINDING, binding, namespace=NAMESPACE)
    shown = {"certificate": folder / "hub.crt", "key": folder / "hub.key"}
    settings = HubChannel(
        agents=AgentsDoor(host="127.0.0.1", port=0, client_ca=folder / "agents" / "ca.crt", **shown),
        people=PeopleDoor(host="127.0.0.1", port=0, front_proxy=False, **shown),
    )
    channel = Channel(port, clock=clock, settings=settings)
    async with asyncio.TaskGroup() as group:
        group.create_task(channel.run())
        await channel.wait_started()
        written = folder / "ports.tmp"
        written.write_bytes(orjson.dumps(channel.ports))
        written.rename(folder / "ports.json")


# --- agent and people ------------------------------------------------------------------------------------------------
class Agent:
    """Answers every question for logs with one line, and then with silence, or with `size` bytes."""

    def __init__(self, session: aiohttp.ClientSession, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._session = session
        self._socket = socket
        self.size = 0

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            async for message in self._socket:
                ask = messages.read_ask(message.data)
                if isinstance(ask, LogsAsked):
                    group.create_task(self._answer(ask.number))

    async def _answer(self, number: int) -> None:
        with contextlib.suppress(aiohttp.ClientError, OSError):
            async with self._session.post(f"{messages.ANSWERS}{number}", data=self._body()):
                pass

    async def _body(self) -> AsyncIterator[bytes]:
        if not self.size:
            yield messages.encode_lines([Lines("train-main-0", "main", "one line\n")])
            await asyncio.Event().wait()
        piece = b"".join(LINE % number for number in range(CHUNK // 64)).decode()
        encoded = messages.encode_lines([Lines("train-main-0", "main", piece)])
        for _ in range(self.size // CHUNK):
            yield encoded


def _context(folder: Path, *, client: bool) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(folder / "hub" / "ca.crt"))
    if client:
        context.load_cert_chain(folder / "agent.crt", folder / "agent.key")
    return context


@contextlib.asynccontextmanager
async def _session(folder: Path, port: int, *, client: bool) -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(ssl=_context(folder, client=client), limit=0)
    limits = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(f"https://127.0.0.1:{port}", connector=connector, timeout=limits) as session:
        yield session


async def follow(
    stack: contextlib.AsyncExitStack, session: aiohttp.ClientSession, *, query: Mapping[str, str]
) -> aiohttp.ClientResponse:
    """One person's answer, once its first line is there."""
    headers = {"Authorization": "Bearer x"}
    asked = session.get(messages.log_path(NAMESPACE, JOB), params=query, headers=headers, raise_for_status=True)
    answer = await stack.enter_async_context(asked)
    await answer.content.readline()
    return answer


async def measure(*, followers: int, seconds: float, mebibytes: int) -> Sequence[Row]:
    """Boot the hub's end, connect, and watch it."""
    with tempfile.TemporaryDirectory(prefix="vf-channel-") as name:
        folder = Path(name)
        hub, agents = Authority(folder / "hub", name="channel"), Authority(folder / "agents", name="agents")
        certs.write(hub.server(names=("localhost",), addresses=("127.0.0.1",)), folder=folder, name="hub")
        certs.write(agents.client(MEMBER, groups=(AGENTS,)), folder=folder, name="agent")
        programs = Programs(Processes(records=folder / "processes", logs=folder / "logs"))
        record = programs.start("hub", command=[sys.executable, "-m", "benchmarks.channel", "--serve", name])
        try:
            return await _measured(folder, record, followers=followers, seconds=seconds, mebibytes=mebibytes)
        finally:
            programs.stop_all()
            programs.close()


async def _ports(folder: Path) -> tuple[int, int]:
    """Those of agents and people, once they are served."""
    while True:
        with contextlib.suppress(FileNotFoundError):
            inner, outer = orjson.loads((folder / "ports.json").read_bytes())
            return inner, outer
        await asyncio.sleep(0.05)


async def _measured(folder: Path, record: Record, *, followers: int, seconds: float, mebibytes: int) -> Sequence[Row]:
    async with asyncio.timeout(60):
        inner, outer = await _ports(folder)
    async with contextlib.AsyncExitStack() as stack:
        there = await stack.enter_async_context(_session(folder, inner, client=True))
        people = await stack.enter_async_context(_session(folder, outer, client=False))
        agent = Agent(there, await stack.enter_async_context(there.ws_connect(messages.CONTROL, heartbeat=messages.BEAT)))
        answering = asyncio.create_task(agent.run())
        stack.callback(answering.cancel)
        before = usage(record).resident_bytes
        async with contextlib.AsyncExitStack() as readers:
            for _ in range(followers):
                await follow(readers, people, query={"follow": "true", "format": "json"})
            [share] = await cpu_shares([record], seconds=seconds)
        print(f"{followers} quiet followers: {share.percent:.2f} % of a core over {seconds:.0f} s, ", end="")
        print(f"{(share.resident_bytes - before) / followers / 1024:.0f} KiB each", flush=True)
        await _long(agent, people, record, mebibytes=mebibytes)
        return [cost(NAME, f"{followers} quiet logs -f", ours=share.percent, bound=CPU_LIMIT, unit="% of a core")]


async def _long(agent: Agent, people: aiohttp.ClientSession, record: Record, *, mebibytes: int) -> None:
    """One long log, to its end."""
    agent.size = mebibytes << 20
    begin, received = usage(record), 0
    async with contextlib.AsyncExitStack() as stack:
        answer = await follow(stack, people, query={"format": "json"})
        async for piece in answer.content.iter_any():
            received += len(piece)
    end = usage(record)
    print(
        f"{mebibytes} MiB of logs: {end.cpu_seconds - begin.cpu_seconds:.1f} s of CPU at the hub, "
        f"{(end.resident_bytes - begin.resident_bytes) / (1 << 20):.0f} MiB more memory",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--followers", type=int, default=100, help="people who follow quiet logs at once")
    parser.add_argument("--seconds", type=float, default=60, help="length of the window")
    parser.add_argument("--mebibytes", type=int, default=100, help="of the long log")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve is not None:
        asyncio.run(serve(asked.serve))
        return 0
    return run(measure(followers=asked.followers, seconds=asked.seconds, mebibytes=asked.mebibytes))


if __name__ == "__main__":
    sys.exit(main())
