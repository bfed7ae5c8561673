"""A member: Jobs created → all their pods bound, on 1,000 simulated nodes, against a raw client that makes the same writes.

Our side is the whole agent (Job controller, scheduler, queues, reports) as a process of its own; the raw side watches the same
kinds and, when a Job comes, writes copies of what ours wrote for it (PodGroup and its changes, pods, their bindings, status,
events), as many of each as ours made until the last pod was bound. It waits for nothing but a pod for its binding. Cases are
`<Jobs>x<pods of each>`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import cProfile
import dataclasses
import datetime
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from apis import kinds
from apis.kinds import Kind
from benchmarks.harness import EVENTS, LEASES, WORKERS, Row, Write, cost, raw_rate, run, writes_between
from benchmarks.harness import rate as rate_row
from benchmarks.jobs import (
    AUDIT_LAG,
    LONGEST,
    NAMESPACE,
    POD_SPEC,
    QUEUE,
    READY,
    Case,
    Side,
    clear,
    counted,
    described,
    events,
    renamed,
    shares,
    split,
    typed,
)
from e2e import crds
from e2e.controlplane import kwok
from e2e.controlplane.api import MERGE, Api
from e2e.controlplane.cluster import RunningCluster
from e2e.controlplane.fleet import Federation, free_work
from e2e.controlplane.plan import Member, NodeShape, NodeSource
from e2e.programs import ADMINISTRATORS, AGENTS
from machinery import shutdown
from machinery.clock import Chance, Ids, SystemClock
from machinery.readiness import Readiness

NAME = "member_gang"
TARGET = 0.8
PER_POD, PER_JOB = 2, 5
"""Writes that are allowed; events, leases and the status of queues, which is not a Job's, apart."""
CASES = "10x100,1x1000,50x20,500x1"
NODES = 1000
SHAPE = NodeShape(cpu_millis=8_000, memory_mib=32_768)
MEMBER = "east"
NODE_NAMES = [f"{MEMBER}-{number}" for number in range(2, NODES + 1)]
"""Beside the node that every simulated member has, `<member>-1`."""
OURS, RAW = "agent-east", "raw-agent"
WATCHED = (
    kinds.JOB,
    kinds.POD,
    kinds.NODE,
    kinds.POD_GROUP,
    kinds.QUEUE,
    kinds.PRIORITY_CLASS,
    kinds.CLAIM,
    kinds.COMMAND,
    kinds.CRON_JOB,
    kinds.RESOURCE_QUOTA,
    kinds.REPLICA_SET,
    kinds.STATEFUL_SET,
)
"""Kinds of the member that the agent watches from its start."""
SETTLED = 2.0
"""Seconds after the last binding in which what is still written belongs to the case."""

Doc = dict[str, Any]


@dataclass(slots=True)
class Done(Side):
    """`all_writes` are those until all is quiet, `writes` those until the last pod was bound."""

    all_writes: Counter[str] = field(default_factory=Counter)


# --- rows ------------------------------------------------------------------------------------------------------------


def rows(case: Case, *, ours: Done, raw: Done, rounds: int) -> list[Row]:
    """The rate against the raw client's, and the writes against what is allowed."""
    pods, others = split(ours.all_writes)
    per_pod, per_job = sum(pods.values()) / (case.total * rounds), sum(others.values()) / (case.jobs * rounds)
    return [
        rate_row(NAME, str(case), ours=ours.rate, bound=raw.rate, unit="pods/s", target=TARGET),
        cost(NAME, f"{case} writes per pod", ours=per_pod, bound=PER_POD, unit="writes"),
        cost(NAME, f"{case} writes per Job", ours=per_job, bound=PER_JOB, unit="writes"),
    ]


def apart(found: Sequence[Write]) -> list[Write]:
    """Without leases, events and queues."""
    return [write for write in found if write.resource not in (LEASES, *EVENTS, kinds.QUEUE.name)]


# --- the two sides ---------------------------------------------------------------------------------------------------


async def ours(kubeconfig: Path, hub: Path) -> None:
    """The agent as its program composes it; until cancelled."""
    from prometheus_client import CollectorRegistry

    from machinery.kube import KubePort
    from machinery.metering import MeteredPort
    from machinery.metrics import Metrics
    from member_agent.app import run_agent
    from member_agent.roles import LEADER
    from member_agent.settings import AgentSettings, ProtocolTimes

    clock, registry, readiness = SystemClock(), CollectorRegistry(), Readiness()
    metrics = Metrics(registry)
    plain = [await KubePort.from_kubeconfig(str(each)) for each in (hub, kubeconfig)]
    ports = [
        MeteredPort(port, metrics=metrics.server(name), clock=clock, keep_writes=False)
        for name, port in zip(("hub", "member"), plain, strict=True)
    ]

    async def tell() -> None:
        leading = ("volcano_federation_leading", {"lease": LEADER})
        while not (registry.get_sample_value(*leading) and all(check() for check in readiness.checks.values())):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        print(READY.decode(), flush=True)

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(tell())
            # Work is measured, not elections: on two cores a renewal may take its time.
            settings = AgentSettings(cluster=MEMBER, times=ProtocolTimes().scaled(5.0))
            await run_agent(
                *ports, clock=clock, chance=Chance(), ids=Ids(), settings=settings, metrics=metrics, readiness=readiness
            )
    finally:
        for port in plain:
            await port.close()


async def raw(kubeconfig: Path, sample: Mapping[str, Any]) -> None:
    """Answers every Job with the writes of the sample; until cancelled."""
    gate = asyncio.Semaphore(WORKERS)
    each_has = {what: shares(sample["per_job"][what]) for what in sorted(sample["per_job"])}
    nodes = _nodes()
    async with Api(kubeconfig) as api, asyncio.TaskGroup() as group:

        async def write(calls: Sequence[Call]) -> None:
            for call in calls:
                async with gate:
                    await call()

        async def follow(kind: Kind) -> None:
            async for line in events(api, kind, namespace=NAMESPACE if kind == kinds.JOB else None):
                if kind == kinds.JOB and line.startswith(b'{"type":"ADDED"'):
                    job = orjson.loads(line)["object"]["metadata"]
                    counts = {what: next(share) for what, share in each_has.items()}
                    for calls in chains(api, job, sample=sample, counts=counts, nodes=nodes):
                        group.create_task(write(calls))

        for kind in WATCHED:
            group.create_task(follow(kind))
        await asyncio.sleep(1.0)  # all watches are open
        print(READY.decode(), flush=True)


def _nodes() -> Iterator[str]:
    """Names of the nodes, again and again."""
    while True:
        yield from NODE_NAMES


Call = Callable[[], Awaitable[object]]


def chains(
    api: Api, job: Mapping[str, Any], *, sample: Mapping[str, Any], counts: Mapping[str, int], nodes: Iterator[str]
) -> Iterator[list[Call]]:
    """The writes for one Job; those of one list one after the other."""
    name, uid = job["name"], job["uid"]
    group, pods = f"{name}-{uid}", kinds.POD.path(namespace=NAMESPACE)

    def post(path: str, body: bytes | Doc) -> Call:
        return lambda: api.raw("POST", path, body=body)

    def merge(path: str, body: Doc) -> Call:
        return lambda: api.raw("PATCH", path, body=body, content_type=MERGE)

    made = post(kinds.POD_GROUP.path(namespace=NAMESPACE), renamed(sample["group"], group, sample=sample, job=job))
    at = kinds.POD_GROUP.path(namespace=NAMESPACE, name=group)
    yield [made, *(merge(at, {"status": {**sample["group_status"], "running": turn}}) for turn in range(counts["groups"]))]
    for index in range(sample["pods"]):
        pod = f"{name}-work-{index}"
        target = {**typed(kinds.NODE), "name": next(nodes)}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}
        yield [post(pods, renamed(sample["pod"], pod, sample=sample, job=job)), post(f"{pods}/{pod}/binding", binding)]
    at = kinds.JOB.path(namespace=NAMESPACE, name=name, subresource="status")
    yield [merge(at, {"status": {**sample["status"], "retryCount": turn}}) for turn in range(counts["statuses"])]
    at = kinds.QUEUE.path(name=QUEUE, subresource="status")
    yield [merge(at, {"status": {"running": turn}}) for turn in range(counts["queues"])]
    about = {**typed(kinds.JOB), "namespace": NAMESPACE, "name": name, "uid": uid}
    for turn in range(counts["events"]):
        event = {"metadata": {"name": f"{name}.{turn}"}, "involvedObject": about, "reason": "Bench", "message": "as ours"}
        yield [post(kinds.EVENT.path(namespace=NAMESPACE), event)]


@dataclass(frozen=True, slots=True)
class Files:
    """Where the sides find what they need; `profile` None for none."""

    member: Mapping[str, Path]
    hub: Path
    sample: Path
    profile: Path | None


@contextlib.asynccontextmanager
async def side(name: str, files: Files) -> AsyncIterator[None]:
    """Runs one side in a process of its own while the block lasts."""
    command = [sys.executable, "-m", f"benchmarks.{NAME}", "--side", name, "--kubeconfig", str(files.member[name])]
    command += ["--hub", str(files.hub)] if name == OURS else ["--sample", str(files.sample)]
    command += ["--profile", str(files.profile)] if name == OURS and files.profile is not None else []
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        async with asyncio.timeout(120):
            if (await process.stdout.readline()).strip() != READY:
                raise RuntimeError(f"side {name} did not get ready")
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


# --- one case --------------------------------------------------------------------------------------------------------


def bound_name(line: bytes) -> bytes:
    """Name of the pod of a watch event, if the event says that it has a node; else b"". The server writes names first."""
    if b'"nodeName":"' not in line:
        return b""
    _, _, rest = line.partition(b'"metadata":{"name":"')
    return rest.partition(b'"')[0]


class Course:
    """One member on which cases run."""

    def __init__(self, api: Api, *, audit_log: Path, files: Files) -> None:
        self._api = api
        self._audit_log = audit_log
        self._files = files

    async def prepare(self) -> None:
        """The namespace; queues are made by the agent."""
        await self._api.post(kinds.NAMESPACE.path(), {"metadata": {"name": NAMESPACE}})
        await asyncio.sleep(1.0)  # the namespace has its service account

    async def one(self, case: Case, who: str, into: Done) -> None:
        """Runs one round of a case for one side, and adds what it did."""
        async with side(who, self._files):
            begun = datetime.datetime.now(datetime.UTC)
            seconds = await self._flow(case)
            bound = datetime.datetime.now(datetime.UTC)
            print(f"{case} {who}: {seconds:.2f} s", flush=True)
            await asyncio.sleep(SETTLED)
            quiet = datetime.datetime.now(datetime.UTC)
            await asyncio.sleep(AUDIT_LAG)
        found = writes_between(self._audit_log, start=begun, end=quiet, users=[who])
        within = [write for write in found if write.moment < bound and write.resource != LEASES]
        into.pods, into.seconds = into.pods + case.total, into.seconds + seconds
        into.writes += counted(within)
        into.all_writes += counted(apart(found))
        if who == OURS:
            await self._keep_sample(case, counted(within))
        await clear(self._api)

    async def _flow(self, case: Case) -> float:
        """Seconds from the first Job's creation to the last pod's binding."""
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        async def count() -> None:
            there: set[bytes] = set()
            async for line in events(self._api, kinds.POD, namespace=NAMESPACE):
                name = bound_name(line)
                if name:
                    there.add(name)
                if len(there) == case.total:
                    done.set()

        async with asyncio.timeout(LONGEST), asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(count())
            await asyncio.sleep(0.5)  # the watch is open
            begun = loop.time()
            path = kinds.JOB.path(namespace=NAMESPACE)
            await raw_rate(lambda number: self._api.post(path, case.job(number)), count=case.jobs)
            await done.wait()
            seconds = loop.time() - begun
            watching.cancel()
        return seconds

    async def _keep_sample(self, case: Case, writes: Counter[str]) -> None:
        """What ours wrote for its first Job, for the raw side to write too."""
        job = await self._api.get(kinds.JOB.path(namespace=NAMESPACE, name="job-0"))
        name, uid = job["metadata"]["name"], job["metadata"]["uid"]
        pod = await self._api.get(kinds.POD.path(namespace=NAMESPACE, name=f"{name}-work-0"))
        group = await self._api.get(kinds.POD_GROUP.path(namespace=NAMESPACE, name=f"{name}-{uid}"))
        spec = {**POD_SPEC, "schedulerName": pod["spec"]["schedulerName"]}
        sample = {
            "uid": uid,
            "job": name,
            "pods": case.pods,
            "pod": {**typed(kinds.POD), "metadata": _own(pod), "spec": spec},
            "group": {**typed(kinds.POD_GROUP), "metadata": _own(group), "spec": group["spec"]},
            "group_status": group.get("status") or {},
            "status": job.get("status") or {},
            "per_job": per_job(writes, jobs=case.jobs),
        }
        await asyncio.to_thread(self._files.sample.write_bytes, orjson.dumps(sample))


def _own(document: Doc) -> Doc:
    """Of the metadata what its maker wrote."""
    return {key: value for key, value in document["metadata"].items() if key in ("labels", "annotations", "ownerReferences")}


def per_job(writes: Mapping[str, int], *, jobs: int) -> dict[str, float]:
    """How many writes of each kind beside a PodGroup's making, pods and bindings the raw side makes for a Job."""
    of = {"podgroups": "groups", "jobs": "statuses", "queues": "queues", "events": "events"}
    found = dict.fromkeys(of.values(), 0)
    for what, count in writes.items():
        verb, _, resource = what.partition(" ")
        plural = resource.partition("/")[0]
        if plural in of and what != "create podgroups" and verb != "delete":
            found[of[plural]] += count
    return {name: count / jobs for name, count in found.items()}


async def populate(api: Api, cluster: RunningCluster) -> None:
    """Makes the nodes and returns when all are ready and open; TimeoutError after LONGEST."""
    await kwok.create_nodes(api, cluster=dataclasses.replace(cluster.plan, kwok_nodes=tuple(NODE_NAMES)))
    for _ in range(int(LONGEST / 2)):
        if sum(map(_is_ready, (await api.get(kinds.NODE.path()))["items"])) >= NODES:
            break
        await asyncio.sleep(2.0)
    else:
        raise TimeoutError(f"{NODES} nodes do not get ready")
    await raw_rate(lambda n: api.merge(kinds.NODE.path(name=NODE_NAMES[n]), {"spec": {"taints": None}}), count=len(NODE_NAMES))


def _is_ready(node: Doc) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in node.get("status", {}).get("conditions", []))


async def measure(cases: Sequence[Case], *, rounds: int, profile: Path | None) -> Sequence[Row]:
    """Boots hub and member and runs the cases, each side in turn."""
    members = {MEMBER: Member(nodes=1, source=NodeSource.KWOK, shape=SHAPE)}
    async with Federation(members, work=free_work("bench-gang"), audit=True) as federation:
        cluster = federation.members[MEMBER]
        await crds.install(federation.clusters)
        files = Files(
            member={name: cluster.kubeconfig_for(name, groups=ADMINISTRATORS) for name in (OURS, RAW)},
            hub=federation.hub.kubeconfig_for(OURS, groups=AGENTS),
            sample=federation.work / "sample.json",
            profile=profile,
        )
        made: list[Row] = []
        async with Api(cluster.kubeconfig_for("bench", groups=ADMINISTRATORS)) as api:
            course = Course(api, audit_log=cluster.audit_log, files=files)
            await course.prepare()
            # On two cores simulated kubelets are late now and then; nobody is to take their nodes for lost and evict pods.
            cluster.stop("controller-manager")
            await populate(api, cluster)
            for who in (OURS, RAW):
                await course.one(Case(20, 2), who, Done())
            for case in cases:
                sides = {OURS: Done(), RAW: Done()}
                for turn in range(rounds):
                    for who in (OURS, RAW) if turn % 2 == 0 else (RAW, OURS):
                        await course.one(case, who, sides[who])
                for who, done in sides.items():
                    print(*described(case, who, done=done, rounds=rounds), sep="\n", flush=True)
                made += rows(case, ours=sides[OURS], raw=sides[RAW], rounds=rounds)
        return made


def _run_side(asked: argparse.Namespace) -> int:
    """Until SIGTERM; a leader lets its Lease go on the way out."""
    if asked.side == RAW:
        return shutdown.run(lambda: raw(asked.kubeconfig, orjson.loads(asked.sample.read_bytes())))
    if asked.profile is None:
        return shutdown.run(lambda: ours(asked.kubeconfig, asked.hub))
    profiler = cProfile.Profile()
    code: int = profiler.runcall(shutdown.run, lambda: ours(asked.kubeconfig, asked.hub))
    profiler.dump_stats(asked.profile)
    return code


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", default=CASES, help="comma list of <Jobs>x<pods>")
    parser.add_argument("--rounds", type=int, default=2, help="how often each side runs each case, in turn")
    parser.add_argument("--profile", type=Path, help="write a profile of the last round of our side here")
    parser.add_argument("--side", choices=(OURS, RAW), help=argparse.SUPPRESS)
    parser.add_argument("--kubeconfig", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--hub", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--sample", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.side:
        return _run_side(asked)
    try:
        cases = [Case.parse(text) for text in asked.cases.split(",")]
    except ValueError as error:
        parser.error(str(error))
    return run(measure(cases, rounds=asked.rounds, profile=asked.profile))


if __name__ == "__main__":
    sys.exit(main())
