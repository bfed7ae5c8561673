"""The hub: Jobs submitted → their Works written, with twenty members, against a raw client that makes the same writes.

Our side is the whole hub as a process of its own; members are Cluster, Lease and ClusterCapacity objects that one actor keeps
(`benchmarks.members`). The raw side watches the same kinds and, when a Job comes, writes copies of what ours wrote for it until
the last Work was there (binding, Work, statuses, events), as many of each. A second case counts every write of hub and members
until the end of each Job is on the Job. With `--sitting` it is submitted to for long: the last tenth against the first, and the
memory of a Job that is over.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import cProfile
import datetime
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import uvloop

from apis import keys, kinds, naming
from apis.kinds import Kind
from benchmarks.harness import EVENTS, LEASES, WORKERS, Row, Write, cost, raw_rate, run, writes_between
from benchmarks.harness import rate as rate_row
from benchmarks.jobs import AUDIT_LAG, LONGEST, NAMESPACE, READY, Case, Side, counted, events, renamed, shares, typed
from benchmarks.members import Members
from e2e import crds
from e2e.controlplane.api import MERGE, Api
from e2e.controlplane.cluster import RunningCluster
from e2e.controlplane.fleet import Federation, free_work
from e2e.programs import ADMINISTRATORS

NAME = "dispatch"
TARGET = 0.7
PER_JOB = 10
"""Writes that are allowed to the folded end (protocol.md 7); events and leases apart."""
OURS, RAW = "federation-hub", "raw-hub"
MEMBERS = [f"member-{number:02}" for number in range(20)]
SETTLED = 3.0
"""Seconds in which what is still written belongs to the case."""
TENTH = 10
WATCHED = (
    kinds.JOB,
    kinds.RESOURCE_BINDING,
    kinds.WORK,
    kinds.CLUSTER,
    kinds.LEASE,
    kinds.CLUSTER_CAPACITY,
    kinds.QUEUE,
    kinds.PROPAGATION_POLICY,
    kinds.CLUSTER_PROPAGATION_POLICY,
    kinds.PRIORITY_CLASS,
    kinds.NAMESPACE,
    kinds.CLUSTER_OFFER,
    kinds.PLACEMENT_PROFILE,
    kinds.OVERRIDE_POLICY,
    kinds.CLUSTER_OVERRIDE_POLICY,
    kinds.FEDERATED_RESOURCE_QUOTA,
    kinds.COMMAND,
    kinds.CRON_JOB,
    kinds.JOB_FLOW,
    kinds.JOB_TEMPLATE,
)
"""Kinds that the hub watches."""

Doc = dict[str, Any]


# --- the two sides ---------------------------------------------------------------------------------------------------


async def ours(kubeconfig: Path) -> None:
    """The hub as its program composes it; until cancelled."""
    from prometheus_client import CollectorRegistry

    from federation.app import LEADER, run_hub
    from federation.settings import HubSettings
    from machinery.clock import Chance, Ids, SystemClock
    from machinery.kube import KubePort
    from machinery.metering import MeteredPort
    from machinery.metrics import Metrics
    from machinery.readiness import Readiness

    clock, registry, readiness = SystemClock(), CollectorRegistry(), Readiness()
    metrics = Metrics(registry)
    plain = await KubePort.from_kubeconfig(str(kubeconfig))
    port = MeteredPort(plain, metrics=metrics.server("hub"), clock=clock, keep_writes=False)

    async def tell() -> None:
        leading = ("volcano_federation_leading", {"lease": LEADER})
        while not (registry.get_sample_value(*leading) and all(check() for check in readiness.checks.values())):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        print(READY.decode(), flush=True)

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(tell())
            # Work is measured, not elections or silent members: on two cores a renewal may take its time.
            settings = HubSettings().scaled(5.0)
            await run_hub(
                port, clock=clock, chance=Chance(), ids=Ids(), settings=settings, metrics=metrics, readiness=readiness
            )
    finally:
        await plain.close()


async def raw(kubeconfig: Path, sample: Mapping[str, Any]) -> None:
    """Answers every Job with the writes of the sample; until cancelled."""
    gate = asyncio.Semaphore(WORKERS)
    each_has = {what: shares(sample["per_job"][what]) for what in sorted(sample["per_job"])}
    turn = 0
    async with Api(kubeconfig) as api, asyncio.TaskGroup() as group:

        async def write(calls: Sequence[Call]) -> None:
            for call in calls:
                async with gate:
                    await call()

        async def follow(kind: Kind) -> None:
            nonlocal turn
            async for line in events(api, kind):
                if kind == kinds.JOB and line.startswith(b'{"type":"ADDED"'):
                    job = orjson.loads(line)["object"]["metadata"]
                    counts = {what: next(share) for what, share in each_has.items()}
                    group.create_task(write(chain(api, job, sample=sample, counts=counts, member=MEMBERS[turn % len(MEMBERS)])))
                    turn += 1

        for kind in WATCHED:
            group.create_task(follow(kind))
        await asyncio.sleep(1.0)  # all watches are open
        print(READY.decode(), flush=True)


Call = Callable[[], Awaitable[object]]


def chain(api: Api, job: Mapping[str, Any], *, sample: Mapping[str, Any], counts: Mapping[str, int], member: str) -> list[Call]:
    """The writes for one Job, one after the other: the binding decides, then the Work is written."""
    name, uid = job["name"], job["uid"]
    of: Doc = {"sample": sample, "job": job}
    bound, worked = naming.binding_name(name), naming.work_name(name, namespace=NAMESPACE)
    calls: list[Call] = []

    def add(method: str, path: str, body: bytes | Doc, content_type: str = "application/json") -> None:
        calls.append(lambda: api.raw(method, path, body=body, content_type=content_type))

    add("POST", kinds.RESOURCE_BINDING.path(namespace=NAMESPACE), renamed(sample["binding"], bound, **of))
    add("POST", kinds.WORK.path(namespace=keys.execution_namespace(member)), renamed(sample["work"], worked, **of))
    at = kinds.RESOURCE_BINDING.path(namespace=NAMESPACE, name=bound, subresource="status")
    for number in range(counts["binding_statuses"]):
        status = {**sample["binding_status"], "schedulerObservedGeneration": number}
        add("PATCH", at, {"status": status}, MERGE)
    at = kinds.JOB.path(namespace=NAMESPACE, name=name, subresource="status")
    for number in range(counts["job_statuses"]):
        add("PATCH", at, {"status": {**sample["job_status"], "retryCount": number}}, MERGE)
    about = {**typed(kinds.JOB), "namespace": NAMESPACE, "name": name, "uid": uid}
    for number in range(counts["events"]):
        event = {"metadata": {"name": f"{name}.{number}"}, "involvedObject": about, "reason": "Bench", "message": "as ours"}
        add("POST", kinds.EVENT.path(namespace=NAMESPACE), event)
    return calls


@contextlib.asynccontextmanager
async def side(name: str, kubeconfig: Path, *, sample: Path | None, profile: Path | None) -> AsyncIterator[int]:
    """Runs one side in a process of its own while the block lasts; its pid."""
    more = [*(["--sample", str(sample)] if sample else []), *(["--profile", str(profile)] if profile else [])]
    command = [sys.executable, "-m", f"benchmarks.{NAME}", "--side", name, "--kubeconfig", str(kubeconfig), *more]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        async with asyncio.timeout(180):
            if (await process.stdout.readline()).strip() != READY:
                raise RuntimeError(f"side {name} did not get ready")
        yield process.pid
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


def resident(pid: int) -> int:
    """Bytes that a process holds in memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


# --- one case --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Flow:
    """When the Works of Jobs were written, and their ends, in seconds from the first Job's creation."""

    works: list[float]
    ends: list[float]


class Course:
    """One hub on which cases run."""

    def __init__(self, api: Api, cluster: RunningCluster, *, work: Path, profile: Path | None) -> None:
        self._api = api
        self._cluster = cluster
        self._sample = work / "sample.json"
        self._profile = profile
        self._users = {name: cluster.kubeconfig_for(name, groups=ADMINISTRATORS) for name in (OURS, RAW)}
        self.members = Members(api, MEMBERS)

    async def prepare(self) -> None:
        """Namespace, queue and members, which a first hub takes in."""
        await self._api.post(kinds.NAMESPACE.path(), {"metadata": {"name": NAMESPACE}})
        await self.members.register()
        async with self._side(OURS), asyncio.timeout(LONGEST):
            await self.members.ready()
            await self._until_open()

    async def _until_open(self) -> None:
        while True:
            queues = (await self._api.get(kinds.QUEUE.path()))["items"]
            if any((each.get("status") or {}).get("state") == "Open" for each in queues):
                return
            await asyncio.sleep(0.5)

    def _side(self, who: str) -> contextlib.AbstractAsyncContextManager[int]:
        sample = self._sample if who == RAW else None
        return side(who, self._users[who], sample=sample, profile=self._profile if who == OURS else None)

    async def dispatched(self, jobs: int, who: str, into: Side) -> None:
        """Runs one round for one side: until the last Work is written."""
        async with self._side(who):
            await asyncio.sleep(SETTLED)  # what its start brings about is over
            begun = datetime.datetime.now(datetime.UTC)
            flow = await self._flow(jobs, ends=False)
            ended = datetime.datetime.now(datetime.UTC)
            await asyncio.sleep(AUDIT_LAG)
        found = [each for each in self._written(begun, ended, [who]) if each.resource != LEASES]
        into.pods, into.seconds = into.pods + jobs, into.seconds + flow.works[-1]
        into.writes += counted(found)
        print(f"{jobs} Jobs {who}: {jobs / flow.works[-1]:.0f} Jobs/s", flush=True)
        if who == OURS:
            await self._keep_sample(jobs, counted(found))
        await self.clear(jobs)

    async def ended(self, jobs: int) -> Counter[str]:
        """Runs Jobs until their ends are on them; every write of hub and members, by what was written."""
        self.members.ends = True
        async with self._side(OURS):
            await asyncio.sleep(SETTLED)
            begun = datetime.datetime.now(datetime.UTC)
            await self._flow(jobs, ends=True)
            await asyncio.sleep(SETTLED)
            ended = datetime.datetime.now(datetime.UTC)
            await asyncio.sleep(AUDIT_LAG)
        self.members.ends = False
        apart = (LEASES, *EVENTS, kinds.CLUSTER_CAPACITY.name, kinds.CLUSTER.name, kinds.QUEUE.name, kinds.USAGE_REPORT.name)
        found = [each for each in self._written(begun, ended, [OURS, "bench"]) if each.resource not in apart]
        await self.clear(jobs)
        return counted(found)

    async def sitting(self, jobs: int) -> tuple[float, float, float]:
        """Jobs a second of the first and the last tenth, and bytes that the hub keeps for each Job that came to its end
        between; Jobs are deleted as they end."""
        self.members.ends = True
        async with self._side(OURS) as pid:
            await asyncio.sleep(SETTLED)
            tenth = jobs // TENTH
            first = await self._flow(tenth, ends=True, deletes=True)
            await asyncio.sleep(SETTLED)
            before = resident(pid)
            for turn in range(1, TENTH):
                last = await self._flow(tenth, ends=True, deletes=True, after=turn * tenth)
                print(f"{(turn + 1) * tenth} Jobs: {tenth / last.ends[-1]:.0f} Jobs/s, {resident(pid) >> 20} MiB", flush=True)
            await asyncio.sleep(SETTLED)
            kept = (resident(pid) - before) / (jobs - tenth)
        self.members.ends = False
        return tenth / first.ends[-1], tenth / last.ends[-1], kept

    def _written(self, start: datetime.datetime, end: datetime.datetime, users: Sequence[str]) -> list[Write]:
        return writes_between(self._cluster.audit_log, start=start, end=end, users=users)

    async def _flow(self, jobs: int, *, ends: bool, deletes: bool = False, after: int = 0) -> Flow:
        """Submits Jobs; returns when all Works are there, and with `ends` the end of every Job."""
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        flow, over = Flow([], []), set[str]()

        def enough() -> None:
            if len(flow.works) >= jobs and (not ends or len(over) >= jobs):
                done.set()

        async def works() -> None:
            async for line in events(self._api, kinds.WORK):
                if line.startswith(b'{"type":"ADDED"') and b'"name":"job-' in line:
                    flow.works.append(loop.time() - begun)
                    enough()

        async def finished() -> None:
            async for line in events(self._api, kinds.JOB, namespace=NAMESPACE):
                if b'"phase":"Completed"' in line and not line.startswith(b'{"type":"DELETED"'):
                    name = orjson.loads(line)["object"]["metadata"]["name"]
                    if name not in over:
                        over.add(name)
                        flow.ends.append(loop.time() - begun)
                        if deletes:
                            tasks.create_task(self._api.delete(kinds.JOB.path(namespace=NAMESPACE, name=name)))
                        enough()

        case = Case(jobs, 1)
        async with asyncio.timeout(LONGEST), asyncio.TaskGroup() as tasks:
            watching = [tasks.create_task(works()), tasks.create_task(finished())]
            await asyncio.sleep(0.5)  # both watches are open
            begun = loop.time()
            path = kinds.JOB.path(namespace=NAMESPACE)
            await raw_rate(lambda number: self._api.post(path, case.job(after + number)), count=jobs)
            await done.wait()
            for task in watching:
                task.cancel()
        return flow

    async def _keep_sample(self, jobs: int, writes: Counter[str]) -> None:
        """What ours wrote for its first Job, for the raw side to write too."""
        job = await self._api.get(kinds.JOB.path(namespace=NAMESPACE, name="job-0"))
        binding = await self._api.get(kinds.RESOURCE_BINDING.path(namespace=NAMESPACE, name=naming.binding_name("job-0")))
        cluster = binding["spec"]["clusters"][0]["name"]
        at = {"namespace": keys.execution_namespace(cluster), "name": naming.work_name("job-0", namespace=NAMESPACE)}
        work = await self._api.get(kinds.WORK.path(**at))
        per_job = {
            "binding_statuses": (writes["patch resourcebindings/status"] + writes["update resourcebindings/status"]) / jobs,
            "job_statuses": (writes["patch jobs/status"] + writes["update jobs/status"]) / jobs,
            "events": (writes["create events"] + writes["patch events"]) / jobs,
        }
        sample = {
            "uid": job["metadata"]["uid"],
            "job": "job-0",
            "binding": {**typed(kinds.RESOURCE_BINDING), "metadata": _own(binding), "spec": binding["spec"]},
            "binding_status": binding.get("status") or {},
            "work": {**typed(kinds.WORK), "metadata": {**_own(work), "finalizers": []}, "spec": work["spec"]},
            "job_status": job.get("status") or {},
            "per_job": per_job,
        }
        await asyncio.to_thread(self._sample.write_bytes, orjson.dumps(sample))

    async def clear(self, jobs: int) -> None:
        """Deletes Jobs, and by hand what a hub and agents that are not there would have taken away."""
        for kind in (kinds.JOB, kinds.RESOURCE_BINDING, kinds.EVENT):
            await self._clear(kind)
        await self._clear(kinds.WORK)
        async with asyncio.timeout(LONGEST):
            while True:
                lists = [await self._api.get(f"{kind.path()}?limit=1") for kind in (kinds.JOB, kinds.WORK)]
                if not any(each["items"] for each in lists):
                    return
                await asyncio.sleep(0.5)

    async def _clear(self, kind: Kind) -> None:
        items = [each["metadata"] for each in (await self._api.get(kind.path()))["items"]]

        async def one(number: int) -> None:
            at = kind.path(namespace=items[number]["namespace"], name=items[number]["name"])
            with contextlib.suppress(Exception):
                await self._api.delete(f"{at}?propagationPolicy=Background")
            if items[number].get("finalizers"):
                with contextlib.suppress(Exception):
                    await self._api.merge(at, {"metadata": {"finalizers": None}})

        await raw_rate(one, count=len(items))


def _own(document: Doc) -> Doc:
    """Of the metadata what its maker wrote."""
    return {key: value for key, value in document["metadata"].items() if key in ("labels", "annotations", "ownerReferences")}


# --- measuring -------------------------------------------------------------------------------------------------------


def told(writes: Mapping[str, int], *, jobs: int) -> str:
    """For people: writes per Job by what they wrote."""
    listed = ", ".join(f"{what} {count / jobs:.2f}" for what, count in sorted(writes.items()))
    return f"    {sum(writes.values()) / jobs:.2f} writes per Job ({listed})"


async def measure(*, jobs: int, rounds: int, sitting: int, profile: Path | None) -> Sequence[Row]:
    """Boots a hub without members and runs the cases, each side in turn."""
    async with Federation({}, work=free_work("bench-dispatch"), audit=True) as federation:
        await crds.install([federation.hub])
        async with Api(federation.hub.kubeconfig_for("bench", groups=ADMINISTRATORS)) as api, asyncio.TaskGroup() as tasks:
            course = Course(api, federation.hub, work=federation.work, profile=profile)
            keeping = tasks.create_task(course.members.run())
            await course.prepare()
            rows = await _sitting(course, sitting) if sitting else await _cases(course, jobs=jobs, rounds=rounds)
            keeping.cancel()
        return rows


async def _cases(course: Course, *, jobs: int, rounds: int) -> list[Row]:
    for who in (OURS, RAW):
        await course.dispatched(20, who, Side())
    sides = {OURS: Side(), RAW: Side()}
    for turn in range(rounds):
        for who in (OURS, RAW) if turn % 2 == 0 else (RAW, OURS):
            await course.dispatched(jobs, who, sides[who])
    for who, done in sides.items():
        print(f"{who}: {done.rate:.0f} Jobs/s", told(done.writes, jobs=jobs * rounds), sep="\n", flush=True)
    writes = await course.ended(jobs)
    print("to the folded end:", told(writes, jobs=jobs), sep="\n", flush=True)
    per_job = sum(writes.values()) / jobs
    case = f"{jobs} Jobs, {len(MEMBERS)} members"
    return [
        rate_row(NAME, case, ours=sides[OURS].rate, bound=sides[RAW].rate, unit="Jobs/s", target=TARGET),
        cost(NAME, f"{case}: writes of a Job to its folded end", ours=per_job, bound=PER_JOB, unit="writes"),
    ]


async def _sitting(course: Course, jobs: int) -> list[Row]:
    first, last, kept = await course.sitting(jobs)
    print(f"{jobs} Jobs: first tenth {first:.0f} Jobs/s, last {last:.0f} Jobs/s, {kept:.0f} bytes kept per Job", flush=True)
    return [
        rate_row(NAME, f"{jobs} Jobs in one sitting: last tenth", ours=last, bound=first, unit="Jobs/s", target=0.9),
        cost(NAME, f"{jobs} Jobs in one sitting: memory kept of a Job", ours=max(kept, 0.0), bound=KEPT, unit="bytes"),
    ]


KEPT = 256
"""Bytes of a finished and deleted Job that count as nothing: allocators round."""


def _run_side(asked: argparse.Namespace) -> int:
    work = ours(asked.kubeconfig) if asked.side == OURS else raw(asked.kubeconfig, orjson.loads(asked.sample.read_bytes()))

    async def until_told() -> None:
        task, over = asyncio.ensure_future(work), asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(15, over.set)
        waiting = asyncio.ensure_future(over.wait())
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        task.cancel()
        await asyncio.gather(task, return_exceptions=not task.done())

    if asked.profile is None:
        uvloop.run(until_told())
        return 0
    profiler = cProfile.Profile()
    with contextlib.suppress(asyncio.CancelledError):
        profiler.runcall(uvloop.run, until_told())
    profiler.dump_stats(asked.profile)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000, help="Jobs of a round")
    parser.add_argument("--rounds", type=int, default=2, help="how often each side runs, in turn")
    parser.add_argument("--sitting", type=int, default=0, help="submit so many Jobs in one sitting instead")
    parser.add_argument("--profile", type=Path, help="write a profile of the last round of our side here")
    parser.add_argument("--side", choices=(OURS, RAW), help=argparse.SUPPRESS)
    parser.add_argument("--kubeconfig", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--sample", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.side:
        return _run_side(asked)
    return run(measure(jobs=asked.jobs, rounds=asked.rounds, sitting=asked.sitting, profile=asked.profile))


if __name__ == "__main__":
    sys.exit(main())
