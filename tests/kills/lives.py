"""Lives of Jobs in one member, each small and told to its end, for strikes at every write that the agent makes for them.

A life says what is submitted and what people do meanwhile. What comes out of it is compared between a run without accidents and
runs with one: the Job's end, its counters, and what its containers really did by the nodes' own records.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from apis import keys, kinds
from machinery.clock import Chance, Ids
from machinery.port import PatchType
from member_agent.jobs.planner import SWEEP_AFTER
from simulator.faults import Action, Late, Moment, Write
from simulator.loop import SimClock, run_virtual
from simulator.nodes import uniform
from simulator.programs import Programs, federation
from simulator.world import Member, World

EAST = "east"
AGENT = f"agent-{EAST}"
JOB = "train"
SEED = 4
STARTED = 8.0
"""Seconds the agent has to lead before a life begins."""
PATIENCE = 240.0
"""Virtual seconds a step may take, with an accident: a restart, an election and the quiet time of a new leader are below 30."""
SETTLED = 30.0
"""Seconds after the last step in which nothing may change any more."""
SWEPT = SWEEP_AFTER + 5.0
"""The same after a write that lands late: an object that comes after the end of its Job is looked for once more by then."""

Doc = dict[str, Any]

MADE = (
    kinds.POD,
    kinds.POD_GROUP,
    kinds.SERVICE,
    kinds.CONFIGMAP,
    kinds.SECRET,
    kinds.NETWORK_POLICY,
    kinds.CLAIM,
    kinds.COMMAND,
)
"""What is made for a Job, and must go with it."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a life comes to. `starts` counts starts by container of pod and by version of the Job."""

    phase: str
    retries: int
    evictions: int
    counters: tuple[int, int]
    pods: tuple[str, ...]
    objects: tuple[str, ...]
    starts: dict[str, int]


class Life:
    """One member in which one Job lives."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.client = world.client(EAST)

    async def submit(self, *tasks: Doc, annotations: Doc | None = None, **spec: Any) -> None:
        """The Job."""
        meta = {"name": JOB, "namespace": "default", "annotations": annotations or {}}
        body = {"apiVersion": kinds.JOB.api_version, "kind": "Job", "metadata": meta}
        await self.client.create(
            kinds.JOB, {**body, "spec": {"queue": "default", "tasks": list(tasks), **spec}}, namespace="default"
        )

    async def command(self, action: str) -> None:
        """A Command for the Job."""
        owner = {"apiVersion": kinds.JOB.api_version, "kind": "Job", "name": JOB, "uid": (self.job or {})["metadata"]["uid"]}
        meta = {"generateName": f"{JOB}-{action.lower()}-", "ownerReferences": [{**owner, "controller": True}]}
        body = {"apiVersion": kinds.COMMAND.api_version, "kind": "Command", "metadata": meta, "action": action, "target": owner}
        await self.client.create(kinds.COMMAND, body, namespace="default")

    async def edit(self, patch: Doc) -> None:
        """A merge patch of the Job."""
        await self.client.patch(kinds.JOB, JOB, patch, type=PatchType.MERGE, namespace="default")

    async def evict(self, pod: str) -> None:
        """The eviction API."""
        await self.client.request("POST", f"/api/v1/namespaces/default/pods/{pod}/eviction", body={"metadata": {"name": pod}})

    async def until(self, what: str, holds: Callable[[], bool]) -> None:
        """Wait, with the story where it does not come."""
        await self.world.until(holds, timeout=PATIENCE, what=what)

    async def phase(self, *wanted: str) -> None:
        """Until the Job is in one of these phases."""
        await self.until(f"phase {' or '.join(wanted)}", lambda: self.state.get("phase") in wanted)

    async def runs(self, count: int) -> None:
        """Until so many pods run."""
        await self.until(f"{count} running pods", lambda: len(self.running) == count)

    @property
    def job(self) -> Doc | None:
        return self.world.get(kinds.JOB, JOB, namespace="default", server=EAST)

    @property
    def status(self) -> Doc:
        found: Doc = (self.job or {}).get("status") or {}
        return found

    @property
    def state(self) -> Doc:
        found: Doc = self.status.get("state") or {}
        return found

    @property
    def running(self) -> list[str]:
        """Pods that run and are not being deleted."""
        pods = [pod for pod in self.world.all(kinds.POD, server=EAST) if not pod["metadata"].get("deletionTimestamp")]
        return sorted(pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] == "Running")

    def outcome(self) -> Outcome:
        """As it is now."""
        pods = self.world.all(kinds.POD, namespace="default", server=EAST)
        made = [(kind, doc) for kind in MADE[1:] for doc in self.world.all(kind, namespace="default", server=EAST)]
        starts: Counter[str] = Counter()
        for record in self.world.records:
            starts[f"{record.pod}/{record.container}@{record.annotations.get(keys.JOB_VERSION, '')}"] += 1
        return Outcome(
            phase=str(self.state.get("phase", "")),
            retries=self.status.get("retryCount") or 0,
            evictions=(self.status.get("memory") or {}).get("evictions") or 0,
            counters=(self.status.get("succeeded") or 0, self.status.get("failed") or 0),
            pods=tuple(sorted(f"{pod['metadata']['name']} {pod['status']['phase']}" for pod in pods)),
            objects=tuple(sorted(f"{kind.plural} {_named(doc)}" for kind, doc in made)),
            starts=dict(starts),
        )


def _named(doc: Doc) -> str:
    """Without the UID that the name of a PodGroup ends with."""
    owner = next(iter(doc["metadata"].get("ownerReferences") or [{}]))
    return str(doc["metadata"]["name"]).removesuffix(str(owner.get("uid", "")))


Tale = Callable[[Life], Awaitable[None]]


@dataclasses.dataclass(frozen=True)
class Strike:
    """One accident: at the agent's write of this number."""

    number: int
    moment: Moment
    action: Action


def live(tale: Tale, *, strike: Strike | None = None) -> tuple[Outcome, list[Write]]:
    """Tell a life to its end and beyond; its outcome, and the writes of the agent that were made for it.

    Afterwards the Job is deleted: everything that was made for it must go.
    """

    async def main(clock: SimClock, chance: Chance, ids: Ids) -> tuple[Outcome, list[Write]]:
        programs = Programs(member={"agent": federation().member["agent"]})
        member = Member(nodes=uniform("node", 1, cpu="8"))
        async with World(SEED, members={EAST: member}, programs=programs, restart_delay=1.0) as world:
            if strike is not None:
                world.faults.at(AGENT, strike.number, strike.moment, strike.action)
            await world.advance(STARTED)
            first = len(world.faults.writes_of(AGENT))
            life = Life(world)
            await tale(life)
            await world.advance(_settled(strike))
            found = life.outcome()
            wrote = [each for each in world.faults.writes_of(AGENT)[first:] if _matters(each)]
            await _leave(life)
            assert world.crashes == [], world.story()
            return found, wrote

    return run_virtual(main, seed=SEED)


def _settled(strike: Strike | None) -> float:
    if strike is None:
        return 5.0
    return SWEPT if isinstance(strike.action, Late) else SETTLED


def _matters(write: Write) -> bool:
    """Leases say nothing of Jobs, and nobody acts on Events."""
    return write.server == EAST and write.kind not in {kinds.LEASE.name, kinds.EVENT.name}


async def _leave(life: Life) -> None:
    if life.job is not None:
        await life.client.delete(kinds.JOB, JOB, namespace="default")

    def nothing() -> bool:
        return life.job is None and not [doc for kind in MADE for doc in life.world.all(kind, namespace="default", server=EAST)]

    await life.until("nothing is left of the Job", nothing)
    assert life.world.records.running() == [], life.world.story()


# --- what Jobs are made of -----------------------------------------------------------------------------------------------


def task(name: str = "work", *, replicas: int = 1, command: str = "sleep 3", **more: Any) -> Doc:
    """A task of pods with one container."""
    requests = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    container = {"name": "main", "image": "busybox:1", "command": ["sh", "-c", command], "resources": requests}
    return {
        "name": name,
        "replicas": replicas,
        "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        **more,
    }


def on(event: str, action: str, **more: Any) -> Doc:
    """A policy."""
    return {"event": event, "action": action, **more}


# --- lives ---------------------------------------------------------------------------------------------------------------


async def plain(life: Life) -> None:
    """Two pods run and succeed."""
    await life.submit(task(replicas=2))
    await life.phase("Completed")


async def restarted(life: Life) -> None:
    """The whole Job starts anew on each failure, until its retries are used up."""
    await life.submit(task(command="sleep 1; exit 3"), maxRetry=2, policies=[on("PodFailed", "RestartJob")])
    await life.phase("Failed")


async def task_restarted(life: Life) -> None:
    """One task starts anew on each failure; the other one goes on undisturbed."""
    flaky = task("flaky", command="sleep 1; exit 3", policies=[on("PodFailed", "RestartTask")])
    await life.submit(task("steady", command="sleep 600"), flaky, maxRetry=2)
    await life.phase("Failed")


async def pod_restarted(life: Life) -> None:
    """A pod is evicted; the one in its place takes longer to run than the policy waits, and is started anew once. It takes
    longer than an agent is away, too: a pod that runs again is not restarted."""
    slow = task(replicas=2, command="sleep 70")
    slow["template"]["spec"]["initContainers"] = [{"name": "slow", "image": "busybox:1", "command": ["sleep", "45"]}]
    await life.submit(slow, policies=[on("PodEvicted", "RestartPod", timeout="5s")])
    await life.runs(2)
    await life.evict(f"{JOB}-work-1")
    await life.until("the eviction counts", lambda: life.outcome().evictions == 1)
    await life.phase("Completed")


async def aborted(life: Life) -> None:
    """Stopped by Command, and resumed by another."""
    await life.submit(task(command="sleep 20"))
    await life.phase("Running")
    await life.command("AbortJob")
    await life.phase("Aborted")
    await life.command("ResumeJob")
    await life.phase("Completed")


async def suspended(life: Life) -> None:
    """Stopped and resumed by annotation."""
    await life.submit(task(command="sleep 20"))
    await life.phase("Running")
    await life.edit({"metadata": {"annotations": {keys.SUSPEND: "true"}}})
    await life.phase("Aborted")
    await life.edit({"metadata": {"annotations": {keys.SUSPEND: "false"}}})
    await life.phase("Completed")


async def scaled(life: Life) -> None:
    """More pods while it runs, then fewer."""
    work = task(command="sleep 90")
    await life.submit(work, minAvailable=1)
    await life.runs(1)
    await life.edit({"spec": {"tasks": [{**work, "replicas": 3, "minAvailable": 1}]}})
    await life.runs(3)
    await life.edit({"spec": {"tasks": [{**work, "replicas": 2, "minAvailable": 1}]}})
    await life.runs(2)
    await life.phase("Completed")


async def enough(life: Life) -> None:
    """Completed by the first success, which ends the others."""
    await life.submit(task("quick"), task("endless", command="sleep infinity"), minSuccess=1)
    await life.phase("Completed")
    await life.until("the other pod ends", lambda: not life.running)


async def ordered(life: Life) -> None:
    """A task waits for another one."""
    await life.submit(task("first"), task("second", dependsOn={"name": ["first"]}), minAvailable=1)
    await life.phase("Completed")


async def with_claim(life: Life) -> None:
    """A claim is made, bound and mounted."""
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await life.submit(task(), volumes=[{"mountPath": "/data", "volumeClaim": claim}])
    await life.phase("Completed")


async def with_plugins(life: Life) -> None:
    """Service, hosts and keys are made before the pods that read them."""
    await life.submit(task(replicas=2), plugins={"svc": [], "ssh": []})
    await life.phase("Completed")


async def short_lived(life: Life) -> None:
    """Deleted by its time to live."""
    await life.submit(task(), ttlSecondsAfterFinished=5)
    await life.phase("Completed")
    await life.until("it is gone", lambda: life.job is None)


TALES: Sequence[Tale] = (
    plain,
    restarted,
    task_restarted,
    pod_restarted,
    aborted,
    suspended,
    scaled,
    enough,
    ordered,
    with_claim,
    with_plugins,
    short_lived,
)
