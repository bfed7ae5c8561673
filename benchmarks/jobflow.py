"""JobFlows: what the flow controller adds to the Jobs of a flow, against a raw client that makes the same writes.

Cases are `<flows>x<layers>x<width>`: every step waits for ten of the layer before (or all, where it is narrower). Both sides
are processes of their own that watch the same kinds. Jobs are bound to three clusters, run and end by one actor here, which
also sees when each Job comes: what counts is the time from the end of a step's last target to its Job, the mean over a
layer and then over layers, beyond what the raw side takes. The raw side copies the Job and as many status writes as ours made.

Beside: the largest number of status writes of one flow in any 200 ms, by the audit log; and how long the rules take for a graph
of ten thousand steps, in CPU time.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import datetime
import itertools
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import uvloop

from apis import keys, kinds, naming
from benchmarks.harness import WORKERS, Row, Write, cost, raw_rate, run, writes_between
from benchmarks.jobs import AUDIT_LAG, LONGEST, POD_SPEC, QUEUE, READY, events, typed
from e2e import crds
from e2e.controlplane.api import MERGE, Api
from e2e.controlplane.fleet import Federation, free_work
from e2e.programs import ADMINISTRATORS
from policies.flows.checked import Checked, checked

NAME = "jobflow"
CASES = "1x10x100,500x3x1"
MEMBERS = ("east", "north", "west")
TARGETS = 10
"""Steps of the layer before that a step waits for."""
RUNS = 1.0
"""Seconds a Job runs, and up to half as long again."""
ADDED = 50.0
"""Milliseconds a layer that the controller may add."""
WINDOW = datetime.timedelta(milliseconds=200)
"""In which a flow may have one status write."""
LARGE = 10_000
"""Steps of the graph whose rules are timed; they may take a second."""
OURS, RAW = "flow-controller", "raw-flows"
TEMPLATE = "step"
WATCHED = (kinds.JOB_FLOW, kinds.JOB_TEMPLATE, kinds.JOB, kinds.RESOURCE_BINDING)

Doc = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """So many flows of so many layers, each so wide."""

    flows: int
    layers: int
    width: int

    @classmethod
    def parse(cls, text: str) -> Case:
        """From `<flows>x<layers>x<width>`; ValueError for anything else."""
        numbers = text.split("x")
        if len(numbers) != 3 or not all(each.isdecimal() and int(each) for each in numbers):
            raise ValueError(f"{text!r} is not <flows>x<layers>x<width>, all at least 1")
        return cls(*map(int, numbers))

    @property
    def jobs(self) -> int:
        """Of all flows."""
        return self.flows * self.layers * self.width

    def __str__(self) -> str:
        return f"{self.flows}x{self.layers}x{self.width}"

    def spec(self) -> Doc:
        """Of each flow."""
        return {"flows": [self._step(layer, place) for layer in range(self.layers) for place in range(self.width)]}

    def _step(self, layer: int, place: int) -> Doc:
        step: Doc = {"name": f"s{layer}-{place}", "template": TEMPLATE}
        if layer:
            count = min(TARGETS, self.width)
            step["dependsOn"] = {"targets": [f"s{layer - 1}-{(place + each) % self.width}" for each in range(count)]}
        return step

    def flow(self, number: int) -> Doc:
        """One manifest."""
        return {**typed(kinds.JOB_FLOW), "metadata": {"name": f"flow-{number}"}, "spec": self.spec()}


def template() -> Doc:
    """The JobTemplate of every step."""
    task = {"name": "work", "replicas": 1, "template": {"spec": POD_SPEC}}
    spec = {"minAvailable": 1, "queue": QUEUE, "schedulerName": keys.DEFAULT_SCHEDULER, "tasks": [task]}
    return {**typed(kinds.JOB_TEMPLATE), "metadata": {"name": TEMPLATE}, "spec": spec}


# --- figures ---------------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class Seen:
    """When Jobs came and ended, by name, in seconds of this process; and the writes of the side."""

    came: dict[str, float] = field(default_factory=dict)
    ended: dict[str, float] = field(default_factory=dict)
    writes: list[Write] = field(default_factory=list)


def per_layer(case: Case, seen: Seen) -> float:
    """Milliseconds from the end of a step's last target to its Job: the mean of a layer, and of those but the first."""
    layers: dict[int, list[float]] = defaultdict(list)
    for number in range(case.flows):
        for layer, step in ((int(each["name"][1:].split("-")[0]), each) for each in case.spec()["flows"]):
            if layer:
                ends = [seen.ended[job_name(number, target)] for target in step["dependsOn"]["targets"]]
                layers[layer].append(seen.came[job_name(number, step["name"])] - max(ends))
    return 1000 * statistics.mean(statistics.mean(each) for each in layers.values())


def job_name(flow: int, step: str) -> str:
    """The Job of a step."""
    return naming.flow_job_name(f"flow-{flow}", step=step)


def at_once(writes: Sequence[Write]) -> int:
    """The most status writes of one flow that arrived within WINDOW."""
    times: dict[str, list[datetime.datetime]] = defaultdict(list)
    for each in writes:
        if each.resource.startswith("jobflows") and each.subresource == "status" and each.code < 300:
            times[each.name].append(each.moment)
    most = 0
    for moments in times.values():
        moments.sort()
        first = 0
        for last, moment in enumerate(moments):
            while moment - moments[first] >= WINDOW:
                first += 1
            most = max(most, last - first + 1)
    return most


def rows_of(case: Case, *, ours: Seen, raw: Seen) -> list[Row]:
    """The results of one case."""
    added = per_layer(case, ours) - per_layer(case, raw)
    return [
        cost(NAME, str(case), ours=max(added, 0.0), bound=ADDED, unit="ms/layer"),
        cost(NAME, f"{case} status", ours=at_once(ours.writes), bound=1, unit="writes/200ms"),
    ]


def large_graph() -> Row:
    """Seconds of CPU to read and check a flow of ten thousand steps."""
    text = orjson.dumps(Case(1, 10, LARGE // 10).spec())
    begun = time.process_time()
    found: Checked = checked(text)
    if found.problems:
        raise RuntimeError(f"the large graph is not sound: {found.problems[0]}")
    return cost(NAME, f"{LARGE} steps checked", ours=time.process_time() - begun, bound=1.0, unit="s")


# --- the two sides ---------------------------------------------------------------------------------------------------
async def ours(kubeconfig: Path) -> None:
    """The flow controller as the hub composes it, alone; until killed."""
    from controllers.flows.controller import FlowController
    from federation.places import BindingPlaces
    from machinery.clock import Chance, SystemClock
    from machinery.informer import Informers
    from machinery.kube import KubePort
    from policies.views import JobView, Projections

    clock, projections = SystemClock(), Projections()
    port = await KubePort.from_kubeconfig(str(kubeconfig))
    informers = Informers(port, clock, Chance())
    jobs = informers.add(kinds.JOB, projections.job)
    places = BindingPlaces(informers.add(kinds.RESOURCE_BINDING, projections.binding, labels=keys.NO_OBJECT))
    flows: FlowController[JobView] = FlowController(port=port, informers=informers, jobs=jobs, clock=clock, places=places)
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(informers.run())
            group.create_task(flows.run())
            await informers.wait_synced()
            print(READY.decode(), flush=True)
    finally:
        await port.close()


class Raw:
    """Makes each Job as soon as its targets have ended, and statuses as often as the sample says; until killed."""

    def __init__(self, api: Api, *, namespace: str, sample: Mapping[str, Any]) -> None:
        self._api = api
        self._jobs = kinds.JOB.path(namespace=namespace)
        self._flows = kinds.JOB_FLOW.path(namespace=namespace)
        self._namespace = namespace
        self._sample = sample
        self._gate = asyncio.Semaphore(WORKERS)
        self._left: dict[str, int] = {}
        self._behind: dict[str, list[str]] = defaultdict(list)
        self._ended: dict[str, list[str]] = defaultdict(list)

    async def run(self, group: asyncio.TaskGroup) -> None:
        """Watch, and answer in tasks of the group."""
        for kind in WATCHED:
            group.create_task(self._follow(kind, group))
        await asyncio.sleep(1.0)  # all watches are open
        print(READY.decode(), flush=True)

    async def _follow(self, kind: kinds.Kind, group: asyncio.TaskGroup) -> None:
        async for line in events(self._api, kind, namespace=self._namespace):
            if kind == kinds.JOB_FLOW and line.startswith(b'{"type":"ADDED"'):
                self._begin(orjson.loads(line)["object"], group)
            elif kind == kinds.JOB and b'"phase":"Completed"' in line:
                self._end(orjson.loads(line)["object"]["metadata"], group)

    def _begin(self, flow: Doc, group: asyncio.TaskGroup) -> None:
        name = flow["metadata"]["name"]
        for step in flow["spec"]["flows"]:
            targets = step.get("dependsOn", {}).get("targets", [])
            job = naming.flow_job_name(name, step=step["name"])
            self._left[job] = len(targets)
            for target in targets:
                self._behind[naming.flow_job_name(name, step=target)].append(job)
            if not targets:
                group.create_task(self._make(job))

    def _end(self, job: Doc, group: asyncio.TaskGroup) -> None:
        name, flow = job["name"], job["labels"]["flow"]
        if name in self._ended[flow]:
            return
        self._ended[flow].append(name)
        for waiting in self._behind[name]:
            self._left[waiting] -= 1
            if not self._left[waiting]:
                group.create_task(self._make(waiting))
        done, statuses, jobs = len(self._ended[flow]), self._sample["statuses"], self._sample["jobs"]
        if int(done * statuses / jobs) > int((done - 1) * statuses / jobs):
            group.create_task(self._tell(flow))

    async def _make(self, job: str) -> None:
        flow = job.rsplit("-s", 1)[0]
        metadata = {**self._sample["job"]["metadata"], "name": job}
        metadata["labels"] = {**metadata.get("labels", {}), "flow": flow}
        async with self._gate:
            await self._api.post(self._jobs, {**self._sample["job"], "metadata": metadata})

    async def _tell(self, flow: str) -> None:
        records = [{**self._sample["record"], "name": job} for job in self._ended[flow]]
        path = f"{self._flows}/{flow}/status"
        status = {"status": {"jobStatusList": records, "completedJobs": self._ended[flow]}}
        async with self._gate:
            await self._api.raw("PATCH", path, body=orjson.dumps(status), content_type=MERGE)


async def raw(kubeconfig: Path, *, namespace: str, sample: Mapping[str, Any]) -> None:
    """The raw side; until killed."""
    async with Api(kubeconfig) as api, asyncio.TaskGroup() as group:
        await Raw(api, namespace=namespace, sample=sample).run(group)


@contextlib.asynccontextmanager
async def side(name: str, kubeconfig: Path, *, namespace: str, sample: Path) -> AsyncIterator[None]:
    """Runs one side in a process of its own while the block lasts."""
    more = ["--kubeconfig", str(kubeconfig), "--namespace", namespace, "--sample", str(sample)]
    command = [sys.executable, "-m", f"benchmarks.{NAME}", "--side", name, *more]
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
class Actor:
    """Binds, runs and ends every Job that comes, in place of hub and members."""

    def __init__(self, api: Api, *, namespace: str, jobs: int) -> None:
        self._api = api
        self._namespace = namespace
        self._jobs = jobs
        self._gate = asyncio.Semaphore(WORKERS)
        self.seen = Seen()
        self.done = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            async for line in events(self._api, kinds.JOB, namespace=self._namespace):
                if line.startswith(b'{"type":"ADDED"'):
                    at = asyncio.get_running_loop().time()
                    meta = orjson.loads(line)["object"]["metadata"]
                    number = len(self.seen.came)
                    self.seen.came[meta["name"]] = at
                    group.create_task(self._live(meta["name"], meta["uid"], number))

    async def _live(self, name: str, uid: str, number: int) -> None:
        binding = {
            **typed(kinds.RESOURCE_BINDING),
            "metadata": {"name": naming.binding_name(name)},
            "spec": {
                "resource": {**typed(kinds.JOB), "namespace": self._namespace, "name": name, "uid": uid},
                "clusters": [{"name": MEMBERS[number % len(MEMBERS)], "replicas": 1}],
            },
        }
        async with self._gate:
            await self._api.post(kinds.RESOURCE_BINDING.path(namespace=self._namespace), binding)
            await self._say(name, "Running")
        await asyncio.sleep(RUNS * (1 + number % 50 / 100))
        async with self._gate:
            await self._say(name, "Completed")
        self.seen.ended[name] = asyncio.get_running_loop().time()
        if len(self.seen.ended) == self._jobs:
            self.done.set()

    async def _say(self, name: str, phase: str) -> None:
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        status = {"state": {"phase": phase, "lastTransitionTime": now}}
        path = kinds.JOB.path(namespace=self._namespace, name=name, subresource="status")
        await self._api.merge(path, {"status": status})


class Course:
    """One API server on which cases run, each side in a namespace of its own."""

    def __init__(self, federation: Federation, api: Api) -> None:
        self._hub = federation.hub
        self._api = api
        self._sample = federation.work / "sample.json"
        self._users = {name: self._hub.kubeconfig_for(name, groups=ADMINISTRATORS) for name in (OURS, RAW)}
        self._numbers = itertools.count()

    async def one(self, case: Case, who: str) -> Seen:
        """A case by one side, to the end of its last Job."""
        namespace = f"bench-{next(self._numbers)}"
        await self._api.post(kinds.NAMESPACE.path(), {"metadata": {"name": namespace}})
        await self._api.post(kinds.JOB_TEMPLATE.path(namespace=namespace), template())
        actor = Actor(self._api, namespace=namespace, jobs=case.jobs)
        async with side(who, self._users[who], namespace=namespace, sample=self._sample):
            acting = asyncio.create_task(actor.run())
            await asyncio.sleep(0.5)  # its watch is open
            begun = datetime.datetime.now(datetime.UTC)
            path = kinds.JOB_FLOW.path(namespace=namespace)
            await raw_rate(lambda number: self._api.post(path, case.flow(number)), count=case.flows)
            async with asyncio.timeout(LONGEST):
                await actor.done.wait()
            if who == OURS:
                await self._ended(case, namespace)
            await asyncio.sleep(AUDIT_LAG)
            acting.cancel()
            await asyncio.gather(acting, return_exceptions=True)
        ended = datetime.datetime.now(datetime.UTC)
        actor.seen.writes = writes_between(self._hub.audit_log, start=begun, end=ended, users=[who])
        if who == OURS:
            await self._keep_sample(case, actor.seen, namespace)
        return actor.seen

    async def _ended(self, case: Case, namespace: str) -> None:
        """Return when every flow says Succeed."""
        for number in range(case.flows):
            path = kinds.JOB_FLOW.path(namespace=namespace, name=f"flow-{number}")
            for _ in range(int(5 * LONGEST)):
                if (await self._api.get(path)).get("status", {}).get("state", {}).get("phase") == "Succeed":
                    break
                await asyncio.sleep(0.2)
            else:
                raise TimeoutError(f"{path} does not succeed")

    async def _keep_sample(self, case: Case, seen: Seen, namespace: str) -> None:
        """What ours wrote for one step, for the raw side to write too."""
        job = await self._api.get(kinds.JOB.path(namespace=namespace, name=job_name(0, "s0-0")))
        flow = await self._api.get(kinds.JOB_FLOW.path(namespace=namespace, name="flow-0"))
        metadata = {key: job["metadata"][key] for key in ("labels", "annotations") if key in job["metadata"]}
        statuses = sum(each.subresource == "status" and each.code < 300 for each in seen.writes) / case.flows
        sample = {
            "job": {**typed(kinds.JOB), "metadata": metadata, "spec": job["spec"]},
            "record": flow["status"]["jobStatusList"][0],
            "statuses": statuses,
            "jobs": case.layers * case.width,
        }
        await asyncio.to_thread(self._sample.write_bytes, orjson.dumps(sample))


async def measure(cases: Sequence[Case]) -> Sequence[Row]:
    """Boots a hub and runs the cases, ours and then the raw side."""
    found = [large_graph()]
    async with Federation({}, work=free_work("bench-flows"), audit=True) as federation:
        await crds.install([federation.hub])
        async with Api(federation.hub.kubeconfig_for("bench", groups=ADMINISTRATORS)) as api:
            course = Course(federation, api)
            for case in [Case(2, 2, 4), *cases]:
                sides = {who: await course.one(case, who) for who in (OURS, RAW)}
                for who, seen in sides.items():
                    told = sum(each.subresource == "status" for each in seen.writes)
                    print(f"{case} {who}: {per_layer(case, seen):.1f} ms a layer, {told / case.flows:.1f} status writes a flow")
                if case in cases:
                    found += rows_of(case, ours=sides[OURS], raw=sides[RAW])
    return found


def _run_side(asked: argparse.Namespace) -> int:
    if asked.side == OURS:
        work = ours(asked.kubeconfig)
    else:
        work = raw(asked.kubeconfig, namespace=asked.namespace, sample=orjson.loads(asked.sample.read_bytes()))
    with contextlib.suppress(KeyboardInterrupt):
        uvloop.run(work)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", default=CASES, help="comma list of <flows>x<layers>x<width>")
    parser.add_argument("--side", choices=(OURS, RAW), help=argparse.SUPPRESS)
    parser.add_argument("--kubeconfig", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--namespace", help=argparse.SUPPRESS)
    parser.add_argument("--sample", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.side:
        return _run_side(asked)
    try:
        cases = [Case.parse(text) for text in asked.cases.split(",")]
    except ValueError as error:
        parser.error(str(error))
    return run(measure(cases))


if __name__ == "__main__":
    sys.exit(main())
