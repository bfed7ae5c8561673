"""A hub's channel and agents of members, all over real TLS on loopback; API servers are in memory and logs are as a test says.

Time that programs wait passes at once: nothing here waits for a clock, only for what the network brings.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import itertools
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from apis import keys, kinds, naming, runs
from apis.kinds import Kind
from apis.runs import BindingRun, Part, RunRecord, Share
from controllers.channel.messages import log_path
from controllers.channel.settings import AgentChannel, AgentsDoor, HubChannel, Limits, PeopleDoor
from federation.channel.service import Channel
from machinery import errors
from machinery.clock import Chance, Ids, SystemClock
from machinery.informer import Informers
from machinery.metrics import Metrics
from machinery.port import Body, Document
from member_agent import views
from member_agent.channel.controller import ChannelController
from simulator.api import ApiServer, MemoryPort
from tests.federation.channel.certs import Authority

Doc = dict[str, Any]
TEAM = "team"


def typed(kind: Kind, body: Doc) -> Doc:
    """With its type, as API servers want objects of CRDs."""
    return {"apiVersion": kind.api_version, "kind": kind.kind, **body}


class Quick(SystemClock):
    """The machine's clocks, on which sleeping takes no time to speak of."""

    def __init__(self) -> None:
        self.ahead = datetime.timedelta()

    def now(self) -> datetime.datetime:
        return super().now() + self.ahead

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0.001)


class Judge(MemoryPort):
    """The hub's API server, which also knows tokens and rights: `tokens` maps a token to a user, `readers` are (user,
    namespace) who may read logs."""

    def __init__(self, server: ApiServer) -> None:
        super().__init__(server)
        self.tokens: dict[str, str] = {"ada-token": "ada", "bob-token": "bob"}
        self.readers: set[tuple[str, str]] = {("ada", TEAM)}
        self.asked: list[Doc] = []
        self.broken = False
        self.asking = self.most = 0
        """Requests that are being answered now, and at most."""

    async def request(self, method: str, path: str, *, body: Body | None = None) -> Document:
        if self.broken:
            raise errors.Unreachable("no answer")
        assert isinstance(body, Mapping)
        self.asking += 1
        self.most = max(self.most, self.asking)
        await asyncio.sleep(0)
        self.asking -= 1
        spec = body["spec"]
        if path.endswith("/tokenreviews"):
            user = self.tokens.get(spec["token"])
            return orjson.dumps({"status": {"authenticated": user is not None, "user": {"username": user or ""}}})
        self.asked.append(spec)
        allowed = (spec["user"], spec["resourceAttributes"]["namespace"]) in self.readers
        return orjson.dumps({"status": {"allowed": allowed}})


@dataclass
class Log:
    """What a container prints: `chunks` are there, more comes with `add`, and `end` ends it. `failure`: reading fails once."""

    chunks: list[bytes] = field(default_factory=list)
    ended: bool = False
    failure: errors.ApiError | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    readers: int = 0

    def add(self, *chunks: bytes) -> None:
        self.chunks += chunks
        self.changed.set()

    def end(self) -> None:
        self.ended = True
        self.changed.set()


class Logs:
    """GET pods/log of a member: `logs` by (pod, container). `queries` keeps what was asked."""

    def __init__(self) -> None:
        self.logs: dict[tuple[str, str], Log] = {}
        self.queries: list[tuple[str, dict[str, str]]] = []
        self.read = 0
        """Bytes that were handed out."""

    def of(self, pod: str, container: str = "main") -> Log:
        return self.logs.setdefault((pod, container), Log())

    async def stream(self, path: str, *, query: Mapping[str, str] | None = None) -> AsyncIterator[bytes]:
        asked = dict(query or {})
        self.queries.append((path, asked))
        pod = path.split("/")[-2]
        log = self.of(pod, asked["container"])
        if log.failure is not None:
            failure, log.failure = log.failure, None
            raise failure
        follow, at = asked.get("follow") == "true", 0
        log.readers += 1
        try:
            while True:
                while at < len(log.chunks):
                    self.read += len(log.chunks[at])
                    yield log.chunks[at]
                    at += 1
                if log.ended or not follow:
                    return
                log.changed.clear()
                await log.changed.wait()
        finally:
            log.readers -= 1


class Member:
    """A member's API server, its Jobs, pods and logs."""

    def __init__(self, house: House, name: str) -> None:
        self.house = house
        self.name = name
        chance = Chance(7)
        self.port = MemoryPort(ApiServer(house.clock, ids=Ids(chance), chance=chance, name=name))
        self.logs = Logs()
        self.uids: dict[str, str] = {}

    async def job(self, name: str, *, work_uid: str, phase: str = "Running") -> str:
        """The Job that the agent made from a Work; its UID."""
        meta = {
            "name": name,
            "annotations": {keys.WORK_UID: work_uid},
            "labels": {keys.MANAGED_LABEL: "true"},
        }
        template = {"spec": {"containers": [{"name": "main", "image": "i"}], "restartPolicy": "Never"}}
        spec = {"minAvailable": 1, "queue": "default", "tasks": [{"name": "main", "replicas": 1, "template": template}]}
        made = orjson.loads(
            await self.port.create(kinds.JOB, typed(kinds.JOB, {"metadata": meta, "spec": spec}), namespace=TEAM)
        )
        self.uids[name] = made["metadata"]["uid"]
        await self.phase(name, phase)
        return str(made["metadata"]["uid"])

    async def phase(self, name: str, phase: str) -> None:
        found = orjson.loads(await self.port.get(kinds.JOB, name, namespace=TEAM))
        body = {**found, "status": {"state": {"phase": phase}}}
        await self.port.replace(kinds.JOB, name, body, namespace=TEAM, subresource="status")

    async def pod(
        self,
        name: str,
        *,
        job: str,
        task: str = "main",
        owner: str | None = None,
        containers: tuple[str, ...] = ("main",),
        started: bool = True,
        address: str = "127.0.0.1",
        spec: Mapping[str, Any] | None = None,
    ) -> None:
        """A pod of a Job (or of another owner, whatever its labels say)."""
        reference = {
            "apiVersion": kinds.JOB.api_version,
            "kind": "Job",
            "name": job,
            "uid": self.uids[job] if owner is None else owner,
            "controller": True,
        }
        meta = {
            "name": name,
            "labels": {keys.JOB_NAME: job},
            "annotations": {keys.TASK_SPEC: task},
            "ownerReferences": [reference],
        }
        body = {"metadata": meta, "spec": {"containers": [{"name": each, "image": "i"} for each in containers], **(spec or {})}}
        await self.port.create(kinds.POD, body, namespace=TEAM)
        state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}} if started else {"waiting": {"reason": "ContainerCreating"}}
        statuses = [{"name": each, "state": state, "ready": started, "restartCount": 0} for each in containers]
        await self.status(name, {"phase": "Running" if started else "Pending", "podIP": address, "containerStatuses": statuses})

    async def status(self, pod: str, status: Mapping[str, Any]) -> None:
        found = orjson.loads(await self.port.get(kinds.POD, pod, namespace=TEAM))
        await self.port.replace(kinds.POD, pod, {**found, "status": dict(status)}, namespace=TEAM, subresource="status")


class House:
    """A hub with its channel, and members as they are added."""

    def __init__(self, folder: Path, *, limits: Limits, clock: Quick) -> None:
        self.clock = clock
        self.folder = folder
        chance = Chance(1)
        self.hub = Judge(ApiServer(clock, ids=Ids(chance), chance=chance, name="hub"))
        self.agents_ca, self.hub_ca = Authority(folder, "agents"), Authority(folder, "hub")
        self.front_ca = Authority(folder, "front")
        certificate, key = self.hub_ca.server()
        self.settings = HubChannel(
            agents=AgentsDoor(host="127.0.0.1", port=0, certificate=certificate, key=key, client_ca=self.agents_ca.ca),
            people=PeopleDoor(host="127.0.0.1", port=0, certificate=certificate, key=key),
            limits=limits,
        )
        self.channel: Channel
        self.members: dict[str, Member] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    @property
    def agents_url(self) -> str:
        return f"https://127.0.0.1:{self.channel.ports[0]}"

    @property
    def people_url(self) -> str:
        return f"https://127.0.0.1:{self.channel.ports[1]}"

    # --- members -----------------------------------------------------------------------------------------------------

    async def member(self, name: str, *, dial: bool = True) -> Member:
        """A registered member whose agent is connected (unless it does not dial)."""
        made = self.members[name] = Member(self, name)
        await made.port.create(kinds.NAMESPACE, {"metadata": {"name": TEAM}})
        await self.hub.create(kinds.CLUSTER, typed(kinds.CLUSTER, {"metadata": {"name": name}, "spec": {"syncMode": "Pull"}}))
        await self.hub.create(kinds.NAMESPACE, {"metadata": {"name": keys.execution_namespace(name)}})
        if dial:
            self.dial(made)
            await until(lambda: name in self.channel.switchboard.clusters)
        return made

    def dial(self, member: Member, **settings: Any) -> None:
        """Start its agent."""
        self.tasks[member.name] = asyncio.create_task(self._agent(member, settings))

    async def hang_up(self, name: str) -> None:
        """End its agent."""
        task = self.tasks.pop(name)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    async def _agent(self, member: Member, settings: dict[str, Any]) -> None:
        certificate, key = self.agents_ca.client(member.name)
        given = {"ca": self.hub_ca.ca, "certificate": certificate, "key": key, "hubs": (self.agents_url,), **settings}
        projector = views.Projector()
        here, there = (Informers(port, self.clock, Chance(3)) for port in (member.port, self.hub))
        controller = ChannelController(
            port=member.port,
            streams=member.logs,
            works=there.add(kinds.WORK, views.project_work, namespace=keys.execution_namespace(member.name)),
            jobs=here.add(kinds.JOB, projector.job),
            pods=here.add(kinds.POD, projector.pod),
            clock=self.clock,
            chance=Chance(5),
            settings=AgentChannel(**given),
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(here.run())
            group.create_task(there.run())
            group.create_task(controller.run())

    # --- Jobs --------------------------------------------------------------------------------------------------------

    async def job(self, name: str, *clusters: str, shares: Mapping[str, Mapping[str, int]] | None = None) -> str:
        """A Job of the team at the hub, granted to these members, each with its Work and its Job; the UID at the hub."""
        template = {"spec": {"containers": [{"name": "main", "image": "i"}], "restartPolicy": "Never"}}
        spec = {"minAvailable": 1, "queue": "default", "tasks": [{"name": "main", "replicas": 1, "template": template}]}
        made = orjson.loads(
            await self.hub.create(kinds.JOB, typed(kinds.JOB, {"metadata": {"name": name}, "spec": spec}), namespace=TEAM)
        )
        uid = str(made["metadata"]["uid"])
        parts = {
            cluster: Part("uid", 1, shares={task: Share(n, n, 0, n) for task, n in (shares or {}).get(cluster, {}).items()})
            for cluster in clusters
        }
        if clusters:
            run = runs.encode(BindingRun(uid, epoch=1, parts=parts))
            resource = {"apiVersion": kinds.JOB.api_version, "kind": "Job", "namespace": TEAM, "name": name, "uid": uid}
            binding = {
                "metadata": {"name": naming.binding_name(name), "annotations": {keys.RUN: run}},
                "spec": {"resource": resource, "clusters": [{"name": each} for each in clusters]},
            }
            await self.hub.create(kinds.RESOURCE_BINDING, typed(kinds.RESOURCE_BINDING, binding), namespace=TEAM)
        for cluster in clusters:
            work = await self.work(name, cluster, job=uid, spec=spec)
            await self.members[cluster].job(name, work_uid=work)
        return uid

    async def work(self, name: str, cluster: str, *, job: str, spec: Doc) -> str:
        """The Work of a Job in a member; its UID."""
        manifest = {
            "apiVersion": kinds.JOB.api_version,
            "kind": "Job",
            "metadata": {"name": name, "namespace": TEAM},
            "spec": spec,
        }
        meta = {
            "name": naming.work_name(name, namespace=TEAM),
            "annotations": {keys.RUN: runs.encode(RunRecord(job, 1, 1))},
        }
        body = {"metadata": meta, "spec": {"workload": {"manifests": [manifest]}}}
        made = orjson.loads(
            await self.hub.create(kinds.WORK, typed(kinds.WORK, body), namespace=keys.execution_namespace(cluster))
        )
        return str(made["metadata"]["uid"])

    # --- people ------------------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def person(
        self,
        name: str,
        *,
        token: str = "ada-token",
        namespace: str = TEAM,
        client: tuple[Path, Path] | None = None,
        headers: Mapping[str, str] | None = None,
        **query: str,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Somebody's GET of a Job's logs, on a connection of its own; `client`: certificate and key that are shown."""
        context = ssl.create_default_context(cadata=self.hub_ca.ca.read_text())
        if client is not None:
            context.load_cert_chain(*client)
        sent = {**({"Authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
        url = f"{self.people_url}{log_path(namespace, name)}"
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session,
            session.get(url, headers=sent, params=query) as answer,
        ):
            yield answer

    async def logs(self, name: str, **more: Any) -> str:
        """The whole text of an answer that is given."""
        async with self.person(name, **more) as answer:
            text = await answer.text()
            assert answer.status == 200, text
            return text

    async def refused(self, name: str, **more: Any) -> tuple[int, str]:
        """Code and message of an answer that is none."""
        async with self.person(name, **more) as answer:
            status = await answer.json()
            assert (status["kind"], status["code"]) == ("Status", answer.status)
            return answer.status, status["message"]


@contextlib.asynccontextmanager
async def house(folder: Path, *, limits: Limits | None = None, metrics: Metrics | None = None) -> AsyncIterator[House]:
    """A hub whose channel is served while the block runs."""
    built = House(folder, limits=limits or Limits(), clock=Quick())
    await built.hub.create(kinds.NAMESPACE, {"metadata": {"name": TEAM}})
    built.channel = Channel(built.hub, clock=built.clock, settings=built.settings, metrics=metrics)
    serving = asyncio.create_task(built.channel.run())
    started = asyncio.create_task(built.channel.wait_started())
    try:
        await asyncio.wait([serving, started], return_when=asyncio.FIRST_COMPLETED)
        yield built
    finally:
        for task in (*built.tasks.values(), serving, started):
            task.cancel()
        await asyncio.gather(*built.tasks.values(), serving, started, return_exceptions=True)


async def until(holds: Any) -> None:
    """Return once it holds; the time limit of the test is the only one."""
    for _ in itertools.count():
        if holds():
            return
        await asyncio.sleep(0.001)
