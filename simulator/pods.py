"""One pod on one node: its containers, from admission to the last report.

What runs (containers, start records) goes on whether or not the node can reach its API server; what is reported waits for
it. The reports are a kubelet's: Pending, Running with start times, Succeeded or Failed with exit codes, and after a deletion
the terminal state first and then the object's removal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from apis import kinds
from apis.vectors import ResourceVector, total
from machinery import errors
from machinery.clock import stamp
from machinery.port import PatchType, Preconditions
from simulator.commands import IGNORES_TERM, Outcome, outcome_of
from simulator.records import StartRecord

if TYPE_CHECKING:
    from simulator.kubelet import Kubelet

Doc = Mapping[str, Any]

FINISHED = frozenset({"Succeeded", "Failed"})
KILLED, TERMINATED = 137, 143
TERM_DELAY = 0.5
"""Seconds a container takes to end on SIGTERM."""
BACKOFF_FIRST, BACKOFF_LIMIT = 10.0, 300.0
"""Seconds between restarts of a crashing container: doubled each time, as kubelets do."""
MISSING_IMAGE = ":missing"
"""An image whose tag says so cannot be pulled; with `-in-<cluster>` after it, it cannot in that cluster alone."""


def requests_of(pod: Doc) -> ResourceVector:
    """What the pod takes from its node: the sum of its containers or the largest init container, and one pod."""
    spec = pod["spec"]
    main = total(_requests(container) for container in spec["containers"])
    for container in spec.get("initContainers") or ():
        main = main.at_least(_requests(container))
    return main + ResourceVector.from_quantities(spec.get("overhead")) + ResourceVector({"pods": 1000})


def _requests(container: Doc) -> ResourceVector:
    return ResourceVector.from_quantities((container.get("resources") or {}).get("requests"))


@dataclass(slots=True, eq=False)
class Container:
    """One container and how it stands."""

    name: str
    image: str
    outcome: Outcome
    missing: bool = False
    """Its image cannot be pulled here."""
    started: str = ""
    finished: str = ""
    exit_code: int | None = None
    restarts: int = 0
    done: bool = False
    """It will not start again."""
    kill: asyncio.Future[int] | None = None
    record: StartRecord | None = None

    @property
    def running(self) -> bool:
        return bool(self.started) and self.exit_code is None

    def status(self, pod: str) -> dict[str, Any]:
        """Its entry in containerStatuses."""
        return {
            "name": self.name,
            "image": self.image,
            "imageID": self.image,
            "containerID": f"simulated://{pod}/{self.name}/{self.restarts}" if self.started else "",
            "ready": self.running,
            "started": self.running,
            "restartCount": self.restarts,
            "state": self._state(),
        }

    def _state(self) -> dict[str, Any]:
        if not self.started:
            if self.missing:
                return {"waiting": {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{self.image}"'}}
            return {"waiting": {"reason": "ContainerCreating"}}
        if self.exit_code is None:
            return {"running": {"startedAt": self.started}}
        if not self.done:
            return {"waiting": {"reason": "CrashLoopBackOff"}}
        reason = "Completed" if self.exit_code == 0 else "Error"
        times = {"startedAt": self.started, "finishedAt": self.finished}
        return {"terminated": {"exitCode": self.exit_code, "reason": reason, **times}}


class PodRun:
    """A pod that a node has taken."""

    def __init__(self, node: Kubelet, pod: Doc, *, default: float) -> None:
        metadata, spec = pod["metadata"], pod["spec"]
        self.node = node
        self.pod = pod
        self.uid: str = metadata["uid"]
        self.requests = requests_of(pod)
        self.finished = False
        self.gone = False
        self.admitted = False
        self.stopping = False
        self._policy: str = spec["restartPolicy"]
        annotations: Mapping[str, str] = metadata.get("annotations") or {}
        self._deaf = annotations.get(IGNORES_TERM) == "true"

        def made(container: Doc) -> Container:
            outcome = outcome_of(container, annotations=annotations, default=default)
            missing = container["image"].endswith((MISSING_IMAGE, f"{MISSING_IMAGE}-in-{node.cluster}"))
            return Container(container["name"], container["image"], outcome, missing)

        self._init = [made(container) for container in spec.get("initContainers") or ()]
        self._main = [made(container) for container in spec["containers"]]
        self._start_time = stamp(node.clock.now())
        self._dirty = asyncio.Event()
        self._started = False

    # --- running -----------------------------------------------------------------------------------------------------

    async def live(self) -> None:
        """Until it is finished and everybody was told."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._report_changes())
            await self._run()
            self.finished = True
            self._dirty.set()
        if self.stopping and not self.gone:
            await self._remove()

    async def _run(self) -> None:
        if await self._until(self._init or self._main, self.node.start_delay()) is not None:
            return
        if any(container.missing for container in (*self._init, *self._main)):
            self._dirty.set()
            await self._until(self._main, None)
            return
        for container in self._init:
            await self._run_container(container, policy="Never" if self._policy == "Never" else "OnFailure")
            if container.exit_code != 0:
                return
        self._started = True
        async with asyncio.TaskGroup() as group:
            for container in self._main:
                group.create_task(self._run_container(container, policy=self._policy))

    async def _until(self, containers: list[Container], seconds: float | None) -> int | None:
        """Wait; the exit code if a kill comes first."""
        first = containers[0]
        first.kill = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds):
                return await first.kill
        except TimeoutError:
            return None
        finally:
            first.kill = None

    async def _run_container(self, container: Container, *, policy: str) -> None:
        backoff = BACKOFF_FIRST
        while not self.stopping:
            await self.node.powered.wait()
            if self._is_stopping():  # meanwhile
                break
            self._begin(container)
            code = await self._until([container], container.outcome.seconds)
            self._end(container, container.outcome.code if code is None else code)
            if self.stopping or policy == "Never" or (policy == "OnFailure" and container.exit_code == 0):
                break
            await self._until([container], backoff)
            backoff = min(2 * backoff, BACKOFF_LIMIT)
            if not self.stopping:
                container.restarts += 1
        container.done = True
        self._dirty.set()

    def _begin(self, container: Container) -> None:
        metadata = self.pod["metadata"]
        container.started, container.finished, container.exit_code = stamp(self.node.clock.now()), "", None
        container.record = StartRecord(
            cluster=self.node.cluster,
            node=self.node.name,
            pod_uid=self.uid,
            namespace=metadata["namespace"],
            pod=metadata["name"],
            container=container.name,
            labels=metadata.get("labels") or {},
            annotations=metadata.get("annotations") or {},
            start=self.node.clock.boot(),
        )
        self.node.records.records.append(container.record)
        self._dirty.set()

    def _end(self, container: Container, code: int) -> None:
        container.exit_code, container.finished = code, stamp(self.node.clock.now())
        if container.record is not None:
            container.record.end, container.record.exit_code = self.node.clock.boot(), code
        self._dirty.set()

    # --- stopping ----------------------------------------------------------------------------------------------------

    def _is_stopping(self) -> bool:
        return self.stopping

    def stop(self, *, grace: float) -> None:
        """SIGTERM now, SIGKILL after the grace."""
        if self.stopping or self.finished:
            return
        self.stopping = True
        delay, code = (grace, KILLED) if self._deaf or grace < TERM_DELAY else (TERM_DELAY, TERMINATED)
        asyncio.get_running_loop().call_later(delay, self.kill, code)

    def kill(self, code: int = KILLED) -> None:
        """End whatever runs now."""
        for container in (*self._init, *self._main):
            if container.kill is not None and not container.kill.done():
                container.kill.set_result(code)

    def forget(self) -> None:
        """The object is gone from the API server: nobody to report to."""
        self.gone = True
        self.stop(grace=TERM_DELAY)
        self._dirty.set()

    # --- reporting ---------------------------------------------------------------------------------------------------

    @property
    def phase(self) -> str:
        """As the pod's status has it."""
        if self.finished and (self._started or any(c.exit_code for c in self._init)):
            return "Succeeded" if all(c.exit_code == 0 for c in (*self._init, *self._main)) else "Failed"
        if self.finished:
            return "Failed"
        return "Running" if self._started else "Pending"

    async def _report_changes(self) -> None:
        while not self.gone:
            await self._dirty.wait()
            await self.node.connected.wait()
            self._dirty.clear()
            last = self.finished
            await self._report()
            if last:
                return

    async def _report(self) -> None:
        if self.gone:
            return
        ready = "True" if self._started and not self.finished and all(c.running for c in self._main) else "False"
        times = {"lastTransitionTime": stamp(self.node.clock.now())}
        kept = [
            c for c in (self.pod.get("status") or {}).get("conditions") or () if c["type"] not in {"Ready", "ContainersReady"}
        ]
        name = self.pod["metadata"]["name"]
        status: dict[str, Any] = {
            "phase": self.phase,
            "startTime": self._start_time,
            "hostIP": self.node.address,
            "conditions": [*kept, *({"type": t, "status": ready, **times} for t in ("ContainersReady", "Ready"))],
            "containerStatuses": [container.status(name) for container in self._main],
        }
        if self._init:
            status["initContainerStatuses"] = [container.status(name) for container in self._init]
        if self._started:
            status["podIP"] = self.node.pod_address(self.uid)
        await self.write_status(status)

    async def write_status(self, status: Mapping[str, Any]) -> None:
        """Merge into the pod's status, if it is still this pod."""
        metadata = self.pod["metadata"]
        patch = {"metadata": {"uid": self.uid}, "status": status}
        try:
            await self.node.port.patch(
                kinds.POD,
                metadata["name"],
                patch,
                type=PatchType.MERGE,
                namespace=metadata["namespace"],
                subresource="status",
            )
        except (errors.NotFound, errors.Conflict):
            self.gone = True

    async def _remove(self) -> None:
        metadata = self.pod["metadata"]
        await self.node.connected.wait()
        try:
            await self.node.port.delete(
                kinds.POD,
                metadata["name"],
                namespace=metadata["namespace"],
                preconditions=Preconditions(uid=self.uid),
                grace_seconds=0,
            )
        except (errors.NotFound, errors.Conflict):
            self.gone = True
