"""The Job controller: Jobs created → all their pods created, against a raw client that makes the same writes.

Both sides are processes of their own that watch the same kinds and answer Jobs which this process creates; PodGroups are let in
by the same small actor here. The raw side copies the documents that ours wrote (labels, annotations, owner, PodGroup, status)
and makes as many writes of each kind, but waits for nothing. Cases are `<Jobs>x<pods of each>`.
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
from pathlib import Path
from typing import Any

import orjson
import uvloop

from apis import kinds
from apis.kinds import Kind
from benchmarks.harness import WORKERS, Row, raw_rate, run, writes_between
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
    typed,
)
from e2e import crds
from e2e.controlplane.api import MERGE, Api
from e2e.controlplane.cluster import RunningCluster
from e2e.controlplane.fleet import Federation, free_work
from e2e.controlplane.plan import Member, NodeSource
from e2e.programs import ADMINISTRATORS
from machinery.clock import Chance, SystemClock
from machinery.informer import Informers
from member_agent import views
from member_agent.jobs.controller import JobController, Stores
from member_agent.settings import JobSettings
from member_agent.views.volumes import project_claim
from policies.members import project_command

NAME = "job_controller"
TARGET = 0.8
CASES = "1000x1,50x20,1x1000"
OURS, RAW = "job-controller", "raw-controller"
WATCHED = (
    kinds.JOB,
    kinds.POD,
    kinds.POD_GROUP,
    kinds.QUEUE,
    kinds.PRIORITY_CLASS,
    kinds.CLAIM,
    kinds.COMMAND,
    kinds.WORK,
)
"""What the Job controller of the agent watches."""

Doc = dict[str, Any]


def row(case: Case, *, ours: Side, raw: Side) -> Row:
    """The result of one case."""
    return rate_row(NAME, str(case), ours=ours.rate, bound=raw.rate, unit="pods/s", target=TARGET)


# --- the two sides ---------------------------------------------------------------------------------------------------


async def ours(kubeconfig: Path) -> None:
    """The Job controller as the agent composes it, alone; until killed."""
    from prometheus_client import CollectorRegistry

    from machinery.events import EventRecorder
    from machinery.kube import KubePort
    from machinery.metering import MeteredPort
    from machinery.metrics import Metrics

    clock, chance, metrics = SystemClock(), Chance(), Metrics(CollectorRegistry())
    plain = await KubePort.from_kubeconfig(str(kubeconfig))
    port = MeteredPort(plain, metrics=metrics.server("member"), clock=clock, keep_writes=False)
    here, projector = Informers(port, clock, chance), views.Projector()
    stores = Stores(
        jobs=here.add(kinds.JOB, projector.job),
        groups=here.add(kinds.POD_GROUP, views.project_group),
        pods=here.add(kinds.POD, projector.pod),
        queues=here.add(kinds.QUEUE, views.project_queue),
        works=here.add(kinds.WORK, views.project_work),
        priorities=here.add(kinds.PRIORITY_CLASS, views.project_priority),
        claims=here.add(kinds.CLAIM, project_claim),
        commands=here.add(kinds.COMMAND, project_command),
    )
    recorder = EventRecorder(port, component=OURS, instance=OURS, clock=clock, chance=chance)
    controller = JobController(port=port, stores=stores, events=recorder, clock=clock, settings=JobSettings())
    try:
        async with asyncio.TaskGroup() as group:
            for each in (here, recorder, controller):
                group.create_task(each.run())
            await stores.wait_synced()
            print(READY.decode(), flush=True)
    finally:
        await plain.close()


async def raw(kubeconfig: Path, sample: Mapping[str, Any]) -> None:
    """Answers every Job with the writes of the sample; until killed."""
    gate = asyncio.Semaphore(WORKERS)
    writes = {what: shares(sample["per_job"][what]) for what in sorted(sample["per_job"])}
    async with Api(kubeconfig) as api, asyncio.TaskGroup() as group:

        async def write(call: Callable[[], Awaitable[object]]) -> None:
            async with gate:
                await call()

        async def follow(kind: Kind) -> None:
            async for line in events(api, kind, namespace=NAMESPACE if kind == kinds.JOB else None):
                if kind == kinds.JOB and line.startswith(b'{"type":"ADDED"'):
                    metadata = orjson.loads(line)["object"]["metadata"]
                    counts = {what: next(share) for what, share in writes.items()}
                    for call in _writes(api, metadata, sample=sample, counts=counts):
                        group.create_task(write(call))

        for kind in WATCHED:
            group.create_task(follow(kind))
        await asyncio.sleep(1.0)  # all watches are open
        print(READY.decode(), flush=True)


def _writes(
    api: Api, job: Doc, *, sample: Mapping[str, Any], counts: Mapping[str, int]
) -> list[Callable[[], Awaitable[object]]]:
    name, uid = job["name"], job["uid"]

    of: Doc = {"sample": sample, "job": job}
    pods, groups = (kind.path(namespace=NAMESPACE) for kind in (kinds.POD, kinds.POD_GROUP))
    at = kinds.JOB.path(namespace=NAMESPACE, name=name, subresource="status")
    told = kinds.EVENT.path(namespace=NAMESPACE)
    calls: list[Callable[[], Awaitable[object]]] = []
    for _ in range(counts["groups"]):
        calls.append(lambda: api.raw("POST", groups, body=renamed(sample["group"], f"{name}-{uid}", **of)))
    for index in range(sample["pods"]):
        calls.append(lambda index=index: api.raw("POST", pods, body=renamed(sample["pod"], f"{name}-work-{index}", **of)))  # type: ignore[misc]
    for turn in range(counts["statuses"]):
        status = orjson.dumps({"status": {**sample["status"], "retryCount": turn}})
        calls.append(lambda status=status: api.raw("PATCH", at, body=status, content_type=MERGE))  # type: ignore[misc]
    for turn in range(counts["events"]):
        about = {**typed(kinds.JOB), "namespace": NAMESPACE, "name": name, "uid": uid}
        event = {"metadata": {"name": f"{name}.{turn}"}, "involvedObject": about, "reason": "Bench", "message": "as ours"}
        calls.append(lambda event=event: api.raw("POST", told, body=event))  # type: ignore[misc]
    return calls


@contextlib.asynccontextmanager
async def side(name: str, kubeconfig: Path, *, sample: Path | None, profile: Path | None) -> AsyncIterator[None]:
    """Runs one side in a process of its own while the block lasts."""
    more = [*(["--sample", str(sample)] if sample else []), *(["--profile", str(profile)] if profile else [])]
    command = [sys.executable, "-m", f"benchmarks.{NAME}", "--side", name, "--kubeconfig", str(kubeconfig), *more]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        if (await process.stdout.readline()).strip() != READY:
            raise RuntimeError(f"side {name} did not get ready")
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


# --- one case --------------------------------------------------------------------------------------------------------


class Course:
    """One API server on which cases run."""

    def __init__(self, api: Api, cluster: RunningCluster, *, work: Path, profile: Path | None) -> None:
        self._api = api
        self._cluster = cluster
        self._sample = work / "sample.json"
        self._profile = profile
        self._users = {name: cluster.kubeconfig_for(name, groups=ADMINISTRATORS) for name in (OURS, RAW)}

    async def prepare(self) -> None:
        """Namespace and queue."""
        await self._api.post(kinds.NAMESPACE.path(), {"metadata": {"name": NAMESPACE}})
        queue = {**typed(kinds.QUEUE), "metadata": {"name": QUEUE}, "spec": {"weight": 1}}
        await self._api.post(kinds.QUEUE.path(), queue)
        at = kinds.QUEUE.path(name=QUEUE, subresource="status")
        await self._api.merge(at, {"status": {"state": "Open"}})
        await asyncio.sleep(1.0)  # the namespace has its service account

    async def one(self, case: Case, who: str, into: Side) -> None:
        """Runs one round of a case for one side, and adds what it did."""
        sample = self._sample if who == RAW else None
        async with side(who, self._users[who], sample=sample, profile=self._profile if who == OURS else None):
            begun = datetime.datetime.now(datetime.UTC)
            seconds = await self._flow(case)
            ended = datetime.datetime.now(datetime.UTC)
            await asyncio.sleep(AUDIT_LAG)
        found = writes_between(self._cluster.audit_log, start=begun, end=ended, users=[who])
        into.pods, into.seconds = into.pods + case.total, into.seconds + seconds
        into.writes += counted(found)
        if who == OURS:
            await self._keep_sample(case, counted(found))
        await clear(self._api)

    async def _flow(self, case: Case) -> float:
        """Seconds from the first Job's creation to the last pod's."""
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        async def count() -> None:
            left = case.total
            async for line in events(self._api, kinds.POD, namespace=NAMESPACE):
                left -= line.startswith(b'{"type":"ADDED"')
                if not left:
                    done.set()

        async def admit() -> None:
            async for line in events(self._api, kinds.POD_GROUP, namespace=NAMESPACE):
                if line.startswith(b'{"type":"ADDED"'):
                    tasks.create_task(self._let_in(orjson.loads(line)["object"]["metadata"]["name"]))

        async with asyncio.timeout(LONGEST), asyncio.TaskGroup() as tasks:
            watching = [tasks.create_task(count()), tasks.create_task(admit())]
            await asyncio.sleep(0.5)  # both watches are open
            begun = loop.time()
            path = kinds.JOB.path(namespace=NAMESPACE)
            await raw_rate(lambda number: self._api.post(path, case.job(number)), count=case.jobs)
            await done.wait()
            seconds = loop.time() - begun
            for task in watching:
                task.cancel()
        return seconds

    async def _let_in(self, group: str) -> None:
        path = kinds.POD_GROUP.path(namespace=NAMESPACE, name=group)
        await self._api.merge(path, {"status": {"phase": "Inqueue"}})

    async def _keep_sample(self, case: Case, writes: Counter[str]) -> None:
        """What ours wrote for its first Job, for the raw side to write too."""
        name = "job-0"
        job = await self._api.get(kinds.JOB.path(namespace=NAMESPACE, name=name))
        uid = job["metadata"]["uid"]
        pod = await self._api.get(kinds.POD.path(namespace=NAMESPACE, name=f"{name}-work-0"))
        group = await self._api.get(kinds.POD_GROUP.path(namespace=NAMESPACE, name=f"{name}-{uid}"))
        metadata = [
            {key: each["metadata"][key] for key in ("labels", "annotations", "ownerReferences") if key in each["metadata"]}
            for each in (pod, group)
        ]
        per_job = {
            "groups": writes["create podgroups"] / case.jobs,
            "statuses": writes["patch jobs/status"] / case.jobs,
            "events": (writes["create events"] + writes["patch events"]) / case.jobs,
        }
        spec = {**POD_SPEC, "schedulerName": pod["spec"]["schedulerName"]}
        sample = {
            "uid": uid,
            "job": name,
            "pods": case.pods,
            "pod": {**typed(kinds.POD), "metadata": metadata[0], "spec": spec},
            "group": {**typed(kinds.POD_GROUP), "metadata": metadata[1], "spec": group["spec"]},
            "status": job.get("status") or {},
            "per_job": per_job,
        }
        await asyncio.to_thread(self._sample.write_bytes, orjson.dumps(sample))


async def measure(cases: Sequence[Case], *, rounds: int, profile: Path | None) -> Sequence[Row]:
    """Boots one member without nodes that count and runs the cases, each side in turn."""
    members = {"east": Member(nodes=1, source=NodeSource.KWOK)}
    async with Federation(members, work=free_work("bench-jobs"), audit=True) as federation:
        cluster = federation.members["east"]
        await crds.install([cluster])
        rows = []
        async with Api(cluster.kubeconfig_for("bench", groups=ADMINISTRATORS)) as api:
            course = Course(api, cluster, work=federation.work, profile=profile)
            await course.prepare()
            warm = Case(20, 2)
            for who in (OURS, RAW):
                await course.one(warm, who, Side())
            for case in cases:
                sides = {OURS: Side(), RAW: Side()}
                for turn in range(rounds):
                    for who in (OURS, RAW) if turn % 2 == 0 else (RAW, OURS):
                        await course.one(case, who, sides[who])
                for who, done in sides.items():
                    print(*described(case, who, done=done, rounds=rounds), sep="\n", flush=True)
                rows.append(row(case, ours=sides[OURS], raw=sides[RAW]))
        return rows


def _run_side(asked: argparse.Namespace) -> int:
    work = ours(asked.kubeconfig) if asked.side == OURS else raw(asked.kubeconfig, orjson.loads(asked.sample.read_bytes()))

    async def until_told() -> None:
        task, told = asyncio.ensure_future(work), asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(15, told.set)
        waiting = asyncio.ensure_future(told.wait())
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
    parser.add_argument("--cases", default=CASES, help="comma list of <Jobs>x<pods>")
    parser.add_argument("--rounds", type=int, default=2, help="how often each side runs each case, in turn")
    parser.add_argument("--profile", type=Path, help="write a profile of the last round of our side here")
    parser.add_argument("--side", choices=(OURS, RAW), help=argparse.SUPPRESS)
    parser.add_argument("--kubeconfig", type=Path, help=argparse.SUPPRESS)
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
