"""A hub's API server in memory, and members that are actors of a few lines: what they run is kept in a journal of their own.

A fake member does what protocol.md asks of an agent: it checks the fence before the first pod, refuses, reports, confirms
the end by removing the finalizer, and publishes its capacity with worksThrough. Its pods live on when the hub dies.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from apis import capacity as wire
from apis import keys, kinds, naming, runs
from apis.runs import BindingRun
from apis.vectors import ResourceVector
from federation.app import run_hub
from federation.settings import HubSettings
from machinery.clock import Chance, Clock, Ids, stamp
from machinery.errors import ApiError, Conflict, NotFound
from machinery.port import PatchType, Port
from policies.members import RENEWALS
from simulator.api import MemoryPort
from simulator.faults import Faults, Life
from simulator.faulty import FaultyPort
from simulator.loop import SimClock, run_virtual
from simulator.server import ApiServer
from simulator.supervisor import Supervisor

Tree = dict[str, Any]


@dataclass(slots=True)
class Stint:
    """Pods of one run on one member, from first to last."""

    job: str
    epoch: int
    cluster: str
    began: float
    ended: float | None = None


@dataclass(slots=True)
class Journal:
    """What ran where and when, told by the members' nodes and not by anybody's status."""

    stints: list[Stint] = field(default_factory=list)

    def of(self, uid: str) -> list[Stint]:
        return [each for each in self.stints if each.job == uid]

    def overlaps(self) -> list[tuple[Stint, Stint]]:
        """Pairs of runs of one Job that ran at the same time."""
        found = []
        for index, one in enumerate(self.stints):
            for other in self.stints[index + 1 :]:
                if one.job != other.job:
                    continue
                if other.began < (one.ended or float("inf")) and one.began < (other.ended or float("inf")):
                    found.append((one, other))
        return found


@dataclass(slots=True)
class Member:
    """A fake member. `seconds` is how long its pods run, `startup` from acceptance to the first pod, None: never; `refuses`
    holds Job names and the reason they get."""

    name: str
    port: Port
    clock: Clock
    journal: Journal
    cpus: int = 8
    nodes: int = 1
    labels: dict[str, str] = field(default_factory=dict)
    seconds: float = 5.0
    startup: float | None = 1.0
    partial: int = 0
    """Pods of a gang that do run while the rest never starts (`startup` None)."""
    grace: float = 1.0
    refuses: dict[str, runs.RefusalReason] = field(default_factory=dict)
    away: bool = False
    explains: bool = True
    """Refusals of an old epoch say which is known."""
    epochs: dict[str, int] = field(default_factory=dict)
    """By Job UID, the highest epoch that was ever seen here."""
    scheduler: Callable[[Tree], int | None] | None = None
    """How many gangs of a shape fit that the hub asks about, or None: it says nothing of it. None: nobody there answers."""
    deleted: set[str] = field(default_factory=set)
    """Names of Jobs that somebody deletes in the member while they run (A6)."""
    generation: int = 0
    running: dict[str, tuple[Tree, Stint | None, float]] = field(default_factory=dict)
    reported: dict[str, str] = field(default_factory=dict)
    _renewals: int = 0
    _published: str = ""
    through: int = 0

    @property
    def namespace(self) -> str:
        return keys.execution_namespace(self.name)

    async def run(self) -> None:
        await self._register()
        due = 0.0
        while True:
            if not self.away:
                with contextlib.suppress(ApiError):
                    if self.clock.boot() >= due:
                        await self._renew()
                        due = self.clock.boot() + 10.0
                    await self._works()
                    await self._publish()
            self._age()
            await self.clock.sleep(0.5)

    async def _register(self) -> None:
        body = {
            "apiVersion": kinds.CLUSTER.api_version,
            "kind": "Cluster",
            "metadata": {"name": self.name, "labels": self.labels},
            "spec": {"id": f"uid-of-{self.name}", "syncMode": "Pull"},
        }
        with contextlib.suppress(Conflict):
            await self.port.create(kinds.CLUSTER, body)

    async def _renew(self) -> None:
        lease = json.loads(await self.port.get(kinds.LEASE, "member", namespace=self.namespace))
        self._renewals += 1
        lease["metadata"].setdefault("annotations", {})[RENEWALS] = str(self._renewals)
        lease["spec"] |= {"holderIdentity": f"uid-of-{self.name}/1"}
        await self.port.replace(kinds.LEASE, "member", lease, namespace=self.namespace)

    async def _works(self) -> None:
        page = await self.port.list(kinds.WORK, namespace=self.namespace)
        for document in page.items:
            with contextlib.suppress(Conflict, NotFound):
                await self._one(json.loads(document))
        self.through = int(page.resource_version)

    async def _one(self, work: Tree) -> None:
        uid, meta = work["metadata"]["uid"], work["metadata"]
        if {keys.COMPANION, keys.OBJECT, keys.ASSIGNMENT} & set(meta.get("labels") or {}):
            await self._companion(work)
            return
        record = runs.decode_record(meta["annotations"][keys.RUN], where=meta["name"])
        if meta.get("deletionTimestamp"):
            await self._withdraw(work)
            return
        if uid not in self.running:
            name = work["spec"]["workload"]["manifests"][0]["metadata"]["name"]
            lease = json.loads(await self.port.get(kinds.LEASE, "member", namespace=self.namespace))
            if lease["spec"].get("leaseTransitions") != record.fence:
                await self._say(work, applied="False", reason=runs.RefusalReason.STALE_FENCE)
                return
            known = self.epochs.get(record.job, 0)
            if record.epoch < known:
                text = f"epoch {record.epoch} of this Job, epoch {known} is known here" if self.explains else "too old"
                await self._say(work, applied="False", reason=runs.RefusalReason.STALE_EPOCH, message=text)
                return
            self.epochs[record.job] = record.epoch
            if name in self.refuses:
                await self._say(work, applied="False", reason=self.refuses[name])
                return
            self.running[uid] = (work, None, self.clock.boot())
        await self._report(work)

    async def _companion(self, work: Tree) -> None:
        """What comes without a run is only let go of here."""
        if work["metadata"].get("deletionTimestamp"):
            work["metadata"]["finalizers"] = []
            await self.port.replace(kinds.WORK, work["metadata"]["name"], work, namespace=self.namespace)

    async def _withdraw(self, work: Tree) -> None:
        uid, meta = work["metadata"]["uid"], work["metadata"]
        stint = self.running.get(uid, (None, None, 0.0))[1]
        if stint is not None and stint.ended is None:
            stint.ended = self.clock.boot() + self.grace
            return
        if stint is not None and stint.ended is not None and self.clock.boot() < stint.ended:
            return
        meta["finalizers"] = []
        self.running.pop(uid, None)
        await self.port.replace(kinds.WORK, meta["name"], work, namespace=self.namespace)

    def _age(self) -> None:
        """Pods start and end whether or not anybody looks."""
        now = self.clock.boot()
        for uid, (work, stint, since) in sorted(self.running.items()):
            if stint is None and self.startup is not None and now - since >= self.startup:
                record = runs.decode_record(work["metadata"]["annotations"][keys.RUN], where=uid)
                started = Stint(record.job, record.epoch, self.name, began=now)
                self.journal.stints.append(started)
                self.running[uid] = (work, started, since)
            elif stint is not None and stint.ended is None and now - stint.began >= self.seconds:
                stint.ended = now

    def _phase(self, uid: str) -> str:
        stint = self.running[uid][1]
        if stint is None:
            return "Pending"
        return "Running" if stint.ended is None else "Completed"

    async def _report(self, work: Tree) -> None:
        phase = self._phase(work["metadata"]["uid"])
        manifest = work["spec"]["workload"]["manifests"][0]
        if "spec" not in manifest:
            return  # the hub keeps the result alone: there is nothing more to say
        name, stint = manifest["metadata"]["name"], self.running[work["metadata"]["uid"]][1]
        if name in self.deleted and stint is not None:
            self.deleted.discard(name)
            stint.ended = self.clock.boot()
            await self._say(work, applied="True", reason="AppliedSuccessful", gone=True)
            self.reported[work["metadata"]["uid"]] = "gone"
        if self.reported.get(work["metadata"]["uid"]) == "gone":
            return
        spec = manifest["spec"]
        pods = sum(task["replicas"] for task in spec["tasks"])
        count = {"Pending": "pending", "Running": "running", "Completed": "succeeded"}[phase]
        status = {"state": {"phase": phase, "lastTransitionTime": stamp(self.clock.now())}, count: pods, "minAvailable": pods}
        if phase == "Pending" and self.partial:
            status |= {"running": self.partial, "pending": pods - self.partial}
        await self._say(work, applied="True", reason="AppliedSuccessful", status=status)

    async def _say(
        self,
        work: Tree,
        *,
        applied: str,
        reason: str,
        status: Tree | None = None,
        gone: bool = False,
        message: str = "said the fake",
    ) -> None:
        uid, meta = work["metadata"]["uid"], work["metadata"]
        phase = status["state"]["phase"] if status else ""
        if self.reported.get(uid) == f"{applied}{reason}{phase}":
            return
        conditions = [{"type": "Applied", "status": applied, "reason": str(reason), "message": message}]
        if gone:
            conditions.append({"type": "Gone", "status": "True", "reason": "LocallyDeleted", "message": ""})
        work["status"] = {"conditions": conditions}
        if status is not None:
            identifier = {"ordinal": 0, "group": kinds.JOB.group, "version": "v1alpha1", "kind": "Job", "resource": "jobs"}
            work["status"]["manifestStatuses"] = [{"identifier": {**identifier, "name": "x"}, "status": status}]
        await self.port.replace(kinds.WORK, meta["name"], work, namespace=self.namespace, subresource="status")
        self.reported[uid] = f"{applied}{reason}{phase}"

    def _answers(self, shapes: list[Tree]) -> tuple[wire.ShapeAnswer, ...] | None:
        if self.scheduler is None:
            return None
        found = [(each["hash"], self.scheduler(each)) for each in shapes]
        return tuple(wire.ShapeAnswer(name, fits=fits, reason="said the fake") for name, fits in found if fits is not None)

    async def _publish(self) -> None:
        used = sum(_cpus(work) for work, stint, _ in self.running.values() if stint is None or stint.ended is None)
        size = ResourceVector.from_quantities({"cpu": self.cpus, "memory": "64Gi", "pods": 110})
        free = size * self.nodes - ResourceVector.from_quantities({"cpu": used})
        whole, rest = divmod(free.get("cpu"), size.get("cpu"))
        part = ResourceVector({**size, "cpu": rest})
        groups = {wire.NodeGroup((), (), size, "", size): whole, wire.NodeGroup((), (), size, "", part): int(rest > 0)}
        table, domains = wire.node_table(groups)
        tree = json.loads(await self.port.get(kinds.CLUSTER_CAPACITY, "member", namespace=self.namespace))
        status = wire.CapacityStatus(
            works_through=str(self.through),
            generation=self.generation + 1,
            nodes=table,
            domains=domains,
            shapes=self._answers((tree.get("spec") or {}).get("shapes") or []),
        )
        told = f"{table}{sorted(self.running)}{status.shapes}"
        if told == self._published:
            return
        tree["status"] = json.loads(wire.write_status(status))
        await self.port.replace(kinds.CLUSTER_CAPACITY, "member", tree, namespace=self.namespace, subresource="status")
        self.generation += 1
        self._published = told


def _cpus(work: Tree) -> int:
    tasks = work["spec"]["workload"]["manifests"][0]["spec"]["tasks"]
    return sum(task["replicas"] * int(_container(task)["resources"]["requests"]["cpu"]) for task in tasks)


def _container(task: Tree) -> Tree:
    found: Tree = task["template"]["spec"]["containers"][0]
    return found


def job(name: str, *, pods: int = 2, cpu: int | str = 1, **spec: Any) -> Tree:
    """A gang of equal pods."""
    annotations = spec.pop("annotations", {})
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": str(cpu)}}}
    task = {"name": "work", "replicas": pods, "template": {"spec": {"containers": [container], "restartPolicy": "Never"}}}
    task["minAvailable"] = spec.pop("least", pods)
    return {
        "apiVersion": kinds.JOB.api_version,
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {"minAvailable": task["minAvailable"], "queue": "default", "tasks": [task], **spec},
    }


@dataclass(slots=True)
class World:
    """One hub API server with its clock, members and hubs."""

    clock: SimClock
    chance: Chance
    ids: Ids
    server: ApiServer
    port: MemoryPort
    tasks: asyncio.TaskGroup
    journal: Journal = field(default_factory=Journal)
    members: dict[str, Member] = field(default_factory=dict)
    hubs: list[asyncio.Task[None]] = field(default_factory=list)

    def member(self, name: str, *, port: Port | None = None, **traits: Any) -> Member:
        made = Member(name, port or self.port, self.clock, self.journal, **traits)
        self.members[name] = made
        self.tasks.create_task(made.run(), name=f"member-{name}")
        return made

    def hub(self, *, port: Port | None = None, clock: Clock | None = None, **settings: Any) -> asyncio.Task[None]:
        running = run_hub(
            port or self.port, clock=clock or self.clock, chance=self.chance, ids=self.ids, settings=HubSettings(**settings)
        )
        task = self.tasks.create_task(running, name=f"hub-{len(self.hubs)}")
        self.hubs.append(task)
        return task

    def supervised_hub(self, faults: Faults, **settings: Any) -> Supervisor:
        """A hub that is restarted when it dies, with faults on its way to the API server."""

        def start(life: Life) -> Coroutine[Any, Any, None]:
            port = FaultyPort(MemoryPort(self.server), life=life, server="hub")
            return run_hub(port, clock=self.clock, chance=self.chance, ids=self.ids, settings=HubSettings(**settings))

        supervisor = Supervisor("hub", start, faults, self.clock, restart_delay=1.0)
        self.tasks.create_task(supervisor.run(), name="hub-supervisor")
        return supervisor

    async def submit(self, body: Tree) -> str:
        """Create a Job; answers its UID."""
        document = json.loads(await self.port.create(kinds.JOB, body, namespace=body["metadata"]["namespace"]))
        uid: str = document["metadata"]["uid"]
        return uid

    async def queue(self, name: str, **spec: Any) -> Tree:
        """A hub Queue."""
        body = {"apiVersion": kinds.QUEUE.api_version, "kind": "Queue", "metadata": {"name": name}, "spec": spec}
        made: Tree = json.loads(await self.port.create(kinds.QUEUE, body))
        return made

    async def command(self, action: str, *, job: str) -> None:
        """A bus Command for a Job."""
        uid = (await self.job(job))["metadata"]["uid"]
        target = {"apiVersion": kinds.JOB.api_version, "kind": "Job", "name": job, "uid": uid}
        body = {"apiVersion": kinds.COMMAND.api_version, "kind": "Command", "action": action, "target": target}
        await self.port.create(kinds.COMMAND, {**body, "metadata": {"generateName": f"{job}-"}}, namespace="default")

    async def annotate(self, name: str, **settings: str | None) -> None:
        """Set annotations of our group on a Job."""
        own = {f"{keys.GROUP}/{key.replace('_', '-')}": value for key, value in settings.items()}
        body = {"metadata": {"annotations": own}}
        await self.port.patch(kinds.JOB, name, body, type=PatchType.MERGE, namespace="default")

    async def job(self, name: str) -> Tree:
        found: Tree = json.loads(await self.port.get(kinds.JOB, name, namespace="default"))
        return found

    async def state(self, name: str) -> Tree:
        found: Tree = (await self.job(name)).get("status", {}).get("state", {})
        return found

    async def binding(self, name: str) -> Tree:
        found: Tree = json.loads(await self.port.get(kinds.RESOURCE_BINDING, naming.binding_name(name), namespace="default"))
        return found

    async def run_of(self, name: str) -> BindingRun:
        return runs.decode_binding((await self.binding(name))["metadata"]["annotations"][keys.RUN], where=name)

    async def gone(self, kind: kinds.Kind, name: str, *, namespace: str | None = "default") -> bool:
        try:
            await self.port.get(kind, name, namespace=namespace)
        except NotFound:
            return True
        return False

    async def until(self, holds: Callable[[], Awaitable[bool]], *, within: float = 120.0) -> None:
        """Wait in virtual time; AssertionError with the state of everything when it does not come true."""
        end = self.clock.boot() + within
        while True:
            with contextlib.suppress(NotFound):
                if await holds():
                    return
            if self.clock.boot() >= end:
                raise AssertionError(f"not within {within} s:\n{await self.story()}")
            await self.clock.sleep(0.25)

    async def until_phase(self, name: str, *phases: str, within: float = 120.0) -> None:
        async def holds() -> bool:
            return (await self.state(name)).get("phase") in phases

        await self.until(holds, within=within)

    async def story(self) -> str:
        """Everything that matters, for a failed test."""
        lines = []
        for kind in (kinds.JOB, kinds.RESOURCE_BINDING, kinds.WORK, kinds.CLUSTER):
            for document in (await self.port.list(kind)).items:
                tree = json.loads(document)
                tree["metadata"].pop("managedFields", None)
                lines.append(f"{kind.kind} {json.dumps(tree)[:1500]}")
        return "\n".join(lines)


@contextlib.asynccontextmanager
async def world(clock: SimClock, chance: Chance, ids: Ids) -> AsyncIterator[World]:
    """A world; everything in it is cancelled at the end, an actor that fell over fails the test."""
    server = ApiServer(clock, ids=ids, chance=chance, name="hub")
    async with asyncio.TaskGroup() as tasks:
        made = World(clock, chance, ids, server, MemoryPort(server), tasks)
        yield made
        for task in asyncio.all_tasks():
            if task is not asyncio.current_task() and not task.done():
                task.cancel()


def story(tell: Callable[[World], Awaitable[None]], *, seed: int = 1) -> None:
    """Run a story in virtual time."""

    async def main(clock: SimClock, chance: Chance, ids: Ids) -> None:
        async with world(clock, chance, ids) as made:
            await tell(made)

    run_virtual(main, seed=seed)


__all__ = ["Journal", "Member", "Stint", "World", "job", "story", "world"]
