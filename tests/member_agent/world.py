"""A member with its real programs on virtual time; the test plays the hub: it registers, grants, withdraws and reads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from apis import keys, kinds, naming, runs
from machinery.clock import Chance, Ids
from machinery.port import PatchType
from simulator.loop import SimClock, run_virtual
from simulator.nodes import uniform
from simulator.programs import Programs, federation
from simulator.world import Member, World

EAST = "east"
HOME = keys.execution_namespace(EAST)

Doc = dict[str, Any]


def job(
    name: str, *, replicas: int = 2, cpu: str = "1", command: str = "sleep 5", minimum: int | None = None, **spec: Any
) -> Doc:
    """A Job of one task."""
    container = {
        "name": "main",
        "image": "busybox:1",
        "command": ["sh", "-c", command],
        "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}},
    }
    task = {
        "name": "work",
        "replicas": replicas,
        "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
    }
    body: Doc = {"queue": "default", "minAvailable": replicas if minimum is None else minimum, "tasks": [task], **spec}
    return {
        "apiVersion": kinds.JOB.api_version,
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": body,
    }


def typed(kind: kinds.Kind, body: Doc) -> Doc:
    """With apiVersion and kind."""
    return {"apiVersion": kind.api_version, "kind": kind.kind, **body}


class Stage:
    """One member, `east`, and the hub's side of it."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def register(self, *, fence: int = 1) -> None:
        """What the hub does after registration."""
        hub = self.world.client()
        await self.world.until(lambda: self.world.get(kinds.CLUSTER, EAST) is not None, timeout=30)
        await hub.create(kinds.NAMESPACE, {"metadata": {"name": HOME}})
        meta = {"name": keys.MEMBER_LEASE, "namespace": HOME}
        lease = {"metadata": meta, "spec": {"holderIdentity": "", "leaseTransitions": fence}}
        await hub.create(kinds.LEASE, lease, namespace=HOME)
        await hub.create(kinds.CLUSTER_CAPACITY, typed(kinds.CLUSTER_CAPACITY, {"metadata": meta, "spec": {}}), namespace=HOME)
        await self.world.until(lambda: bool(self.lease()["spec"].get("holderIdentity")), timeout=60, what="first renewal")

    async def grant(
        self, manifest: Doc, *, epoch: int = 1, fence: int = 1, hub_job: str = "", exclusive: bool = True, **record: Any
    ) -> str:
        """Create a Work; its name."""
        name = manifest["metadata"]["name"]
        run = runs.RunRecord(job=hub_job or f"uid-{name}", epoch=epoch, fence=fence, exclusive=exclusive, **record)
        work = naming.work_name(name, namespace="default")
        body = {
            "metadata": {
                "name": work,
                "namespace": HOME,
                "annotations": {keys.RUN: runs.encode(run)},
                "finalizers": [keys.WORK_FINALIZER],
            },
            "spec": {"workload": {"manifests": [manifest]}},
        }
        await self.world.client().create(kinds.WORK, typed(kinds.WORK, body), namespace=HOME)
        return work

    async def withdraw(self, work: str) -> None:
        """H2."""
        await self.world.client().delete(kinds.WORK, work, namespace=HOME)

    async def patch_work(self, work: str, patch: Doc) -> None:
        await self.world.client().patch(kinds.WORK, work, patch, type=PatchType.MERGE, namespace=HOME)

    # --- reading -----------------------------------------------------------------------------------------------------

    def lease(self) -> Doc:
        return self.world.get(kinds.LEASE, keys.MEMBER_LEASE, namespace=HOME) or {}

    def capacity(self) -> Doc:
        return (self.world.get(kinds.CLUSTER_CAPACITY, keys.MEMBER_LEASE, namespace=HOME) or {}).get("status") or {}

    def work(self, name: str) -> Doc | None:
        return self.world.get(kinds.WORK, name, namespace=HOME)

    def condition(self, work: str, type: str) -> Doc:
        found = (self.work(work) or {}).get("status", {}).get("conditions") or []
        return next((each for each in found if each["type"] == type), {})

    def refusal(self, work: str) -> str:
        applied = self.condition(work, "Applied")
        return str(applied["reason"]) if applied.get("status") == "False" else ""

    def reported(self, work: str) -> str:
        """The phase that the Work's status carries."""
        statuses = (self.work(work) or {}).get("status", {}).get("manifestStatuses") or [{}]
        return str(((statuses[0].get("status") or {}).get("state") or {}).get("phase", ""))

    def local(self, name: str) -> Doc | None:
        return self.world.get(kinds.JOB, name, namespace="default", server=EAST)

    def phase(self, name: str) -> str:
        return str((((self.local(name) or {}).get("status") or {}).get("state") or {}).get("phase", ""))

    def pods(self, name: str = "") -> list[Doc]:
        found = self.world.all(kinds.POD, server=EAST)
        return [pod for pod in found if not name or (pod["metadata"].get("labels") or {}).get(keys.JOB_NAME) == name]

    def running(self, name: str = "") -> list[str]:
        return [pod["metadata"]["name"] for pod in self.pods(name) if (pod.get("status") or {}).get("phase") == "Running"]

    async def until(self, holds: Callable[[], bool], *, timeout: float = 120, what: str = "") -> None:
        await self.world.until(holds, timeout=timeout, what=what)

    def starts(self) -> list[str]:
        """Names of pods in the order their containers started."""
        return [str(start.pod) for start in self.world.records]


def play(
    story: Callable[[Stage], Awaitable[None]],
    *,
    seed: int = 1,
    nodes: int = 2,
    cpu: str = "8",
    register: bool = True,
    settings: Doc | None = None,
    member: Member | None = None,
    programs: Programs | None = None,
) -> None:
    """Run one story to its end; the programs must not have crashed."""

    async def main(clock: SimClock, chance: Chance, ids: Ids) -> None:
        east = member or Member(nodes=uniform("node", nodes, cpu=cpu), settings=settings or {})
        async with World(seed, members={EAST: east}, programs=programs or Programs(member=federation().member)) as world:
            stage = Stage(world)
            if register:
                await stage.register()
            await story(stage)
            assert world.crashes == []

    run_virtual(main, seed=seed)
